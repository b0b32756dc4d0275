"""Places of this machine laid over a list: a number that was deleted, given again, and edited again."""

from msgspec.structs import replace

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.layer import Laid, lay_over
from geolookup.state.edits.outbox.kept import Kept
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.place import Intent, Place, Request
from tests.state.edits.editing import BERLIN

OLD, NEW, MORE = (IPBlock.parse(f"10.{number}.0.0/16") for number in (1, 2, 3))


def at(*blocks: IPBlock, number: int = -1, **changes: str) -> Geolocation:
    return Geolocation(locid=number, **{**BERLIN, **changes}, ipblocks=blocks)


def kept(shown: Geolocation, *edits: Intent, number: int | None = -1, seen: int = 0, sent: int = 0) -> Kept:
    """A place that a list with the counter ``seen`` had, its open edits, and how many of them were acknowledged."""
    rows, requests, now = {}, [], content_of(shown)
    for at, edit in enumerate(edits, 1):
        state = State.DONE if at <= sent else State.QUEUED
        rows[at] = OutboxRow(
            id=at, locid=-1, intent=replace(edit, id=at, base=now), state=state, attempts=0, created_at=""
        )
        what = "delete" if edit.what == "delete" else "add"
        if at <= sent:
            requests.append(Request(what=what, before=now, new=rows[at].intent.new, known=True, upto=at))
        now = rows[at].intent.applied(now) or now
    intents = tuple(row.intent for row in rows.values())
    place = Place(id=-1, number=number, baseline=content_of(shown), intents=intents, requests=tuple(requests))
    return Kept(place=place, rows=rows, seen=seen)


def laid(shown: Geolocation, ours: Kept, *, listed: int = 0) -> dict[int, Laid]:
    return lay_over([shown], [ours], Forms(), listed=listed)


def test_an_edit_that_waits_is_laid_over_what_a_list_has_now() -> None:
    found = laid(at(OLD, NEW), kept(at(OLD), Intent(what="add_block", new=MORE)), listed=9)[-1]
    assert (found.place.ipblocks, found.pending) == ((OLD, NEW, MORE), True)


def test_a_list_older_than_what_was_seen_or_sent_does_not_take_it_back() -> None:
    found = laid(at(), kept(at(OLD), Intent(what="add_block", new=MORE), seen=7), listed=6)[-1]
    assert found.place.ipblocks == (OLD, MORE)
    found = laid(at(OLD), kept(at(OLD), Intent(what="add_block", new=MORE), sent=1), listed=9)[-1]
    assert (found.place.ipblocks, found.pending) == ((OLD, MORE), False)


def test_a_deletion_covers_what_it_deleted_and_nothing_that_was_given_its_number_since() -> None:
    for sent in (0, 1):
        assert laid(at(OLD), kept(at(OLD), Intent(what="delete"), sent=sent)) == {}
        found = laid(at(NEW, city="Bonn", country="FR"), kept(at(OLD), Intent(what="delete"), sent=sent))
        assert [each.place.city for each in found.values()] == ["Bonn"]


def test_an_edit_of_a_place_whose_number_is_anothers_by_now_is_shown_beside_that() -> None:
    place = kept(at(OLD), Intent(what="add_block", new=MORE), number=None)
    found = laid(at(NEW, city="Bonn"), place)
    assert found[-1].place.city == "Berlin"
