"""The custom layer as this machine sees it: a generation's custom geolocations, and over them the places of its own.

A place of this machine is what the newest list has of it, with every open edit: only a conclusive list ends one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Begun
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of, geolocation
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.concluding import over
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.looking import is_as_sent, look_at, owners_of
from geolookup.state.edits.places.matching import Matching, unproved
from geolookup.state.edits.places.place import Place
from geolookup.state.generations.cache import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A custom geolocation with its blocks as lookups see it.

    ``pending`` is true while an edit of it has not reached the service; ``edits`` are those edits, oldest first.
    """

    place: Geolocation
    edits: tuple[OutboxRow, ...] = ()

    @property
    def pending(self) -> bool:
        """True while an edit of it has not reached the service."""
        return bool(self.edits)


def laid(ledger: Ledger, custom: Iterable[Geolocation], begun: Begun) -> dict[int, Laid]:
    """The custom geolocations of a list with the places of this machine over them."""
    custom, ours, forms = [*custom], ledger.read(f"{OPEN} OR {ABOVE}", (begun.counter,)), ledger.forms()
    hidden = _unproved(ledger, custom, ours, forms)
    shown = [place for place in custom if place.locid not in hidden]
    return lay_over(shown, ours.values(), forms, listed=begun.counter, bound=ledger.outbox.numbers())


def made_by(ledger: Ledger, custom: Iterable[Geolocation], number: int) -> Kept | None:
    """The place of ours whose create may have made what a list shows under a number, as long as nobody knows."""
    return _unproved(ledger, [*custom], ledger.read(OPEN), ledger.forms()).get(number)


def _unproved(
    ledger: Ledger, custom: Sequence[Geolocation], ours: Mapping[int, Kept], forms: Forms
) -> Mapping[int, Kept]:
    """The numbers that creates of ours may have made, each with its place: hidden until a list or a person decides."""
    places = {place.locid: place for place in custom}
    sent = [kept for kept in ours.values() if kept.hold is None and _may_be_elsewhere(kept.place, places)]
    if not sent:
        return {}
    contents = {locid: content_of(place) for locid, place in places.items()}
    matching = Matching(
        contents,
        mark=lambda number: digest(places[number]),
        before={kept.place.id: ledger.outbox.baselines.of(kept.before or kept.made) for kept in sent},
        forms=forms,
        taken={*ledger.outbox.numbers()},
    )
    return {number: ours[place.id] for number, place in unproved([kept.place for kept in sent], matching).items()}


def _may_be_elsewhere(place: Place, listed: Mapping[int, Geolocation]) -> bool:
    """True if a create was sent, and the number that was answered does not show what was sent."""
    if not any(each.what == "create" for each in place.requests):
        return False
    there = None if place.number is None else listed.get(place.number)
    return not is_as_sent(place, None if there is None else content_of(there))


#: The places of which a newer list than that with a counter has spoken; see `lay_over`.
ABOVE = "seen > ?"


def lay_over(
    places: Iterable[Geolocation], ours: Collection[Kept], forms: Forms, *, listed: int, bound: Collection[int] = ()
) -> dict[int, Laid]:
    """Lay the places of this machine over the custom geolocations of a list with the counter ``listed``.

    ``ours`` are those of which something is open, or that a newer list has shown (`ABOVE`): any other is in the list
    as it is. ``bound`` are the numbers that places of ours have now: what is over hides none of these.
    """
    layer = {place.locid: Laid(place=place) for place in places}
    contents = {
        number: content_of(layer[number].place)
        for kept in (ours if layer else ())
        if (number := kept.former) is not None and number in layer
    }
    owners = owners_of((kept.place for kept in ours), contents) if contents else {}
    moved = {
        content
        for kept in ours
        if kept.place.requests and kept.place.number is not None and kept.place.number not in layer
        for content in kept.place.was()
        if content.blocks
    }
    if moved:  # it may have another number in this list
        layer = {number: laid for number, laid in layer.items() if content_of(laid.place) not in moved}
    shown = {}
    for kept in ours:
        place = kept.place
        content = place.shown
        number = kept.gone if place.number is None and listed < kept.seen else place.number
        if number is not None and number in layer and (place.number is not None or number not in bound):
            found = contents[number]
            if place.number is not None:  # if a newer list has our place there, this one says nothing of it
                was, is_ours = place, place.baseline is not None
            else:  # of what is over, or to be made anew, it may be another place's by then, or one more of ours
                had = kept.last or place.baseline or content
                was = replace(place, baseline=had)
                is_ours = had is not None and bool(found.blocks) and found.blocks <= had.blocks
            look = look_at(was, found, forms, conclusive=False, owners=owners)
            another = look.another and not (is_ours and listed < kept.seen)
            if not another:
                del layer[number]
            if not another and listed >= kept.since and place.number is not None:
                former, content = content, over(place, found).shown
                if place.baseline is None and former is not None and content is not None:
                    content = replace(content, values=former.values)  # its number may yet turn out to be wrong
        if content is not None:
            edits = tuple(replace(row, number=kept.shown) for row in kept.pending)
            shown[kept.shown] = Laid(place=geolocation(kept.shown, content), edits=edits)
    return {**layer, **shown}
