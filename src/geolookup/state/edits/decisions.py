"""Decisions of a person about edits of the outbox: each within one session of the editor."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from geolookup.model.checked import meant_fields
from geolookup.model.errors import EditError
from geolookup.model.named import block_of, require_narrow
from geolookup.model.types import is_provisional
from geolookup.state.base.clock import now_text
from geolookup.state.edits.outbox.kept import Kept
from geolookup.state.edits.outbox.payload import content_of, fields_of, values_of
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow, State
from geolookup.state.edits.places.choosing import (
    CHOICES,
    Choice,
    chosen,
    give_up,
    made_again,
    offered,
    put_back,
    rebased,
)
from geolookup.state.edits.places.looking import look_at
from geolookup.state.edits.places.place import Intent, amended
from geolookup.state.edits.places.reconcile import Hold
from geolookup.state.edits.session import EditSession

if TYPE_CHECKING:
    from geolookup.model.types import AddressLike, BlockLike


def retry(session: EditSession, number: int) -> OutboxRow:
    """`Editor.retry`, in its transaction."""
    row = session.waiting(number)
    kept, hold = _held(session, row)
    choice = next(each for each in CHOICES[hold.reason] if each in ("mine", "anew", "retry"))
    return _choose(session, row, kept, hold, choice, "retry")


def _held(session: EditSession, row: OutboxRow) -> tuple[Kept, Hold]:
    kept = session.ledger.of(row.locid)
    return kept, kept.hold or Hold("refused", kept.place.acknowledged, kept.place.number)


def _choose(session: EditSession, row: OutboxRow, kept: Kept, hold: Hold, choice: Choice, what: str) -> OutboxRow:
    """Write what becomes of a place by a choice about it."""
    session.write_history()  # which knows the place by the number that it has now
    was_shown = hold.reason in ("gone", "another") or (hold.reason == "unclear" and kept.place.baseline is not None)
    if choice in ("anew", "retry") and (was_shown or (hold.reason, hold.theirs) == ("not shown", None)):
        kept = session.ledger.part(kept, seen=kept.seen)
    if choice != "same" and hold.reason in ("unclear", "another") and hold.number is not None:
        # A person has seen these, and says that none is this one.
        asked = ((hold.number, hold.theirs), *(hold.also if hold.reason == "unclear" else ()))
        shown = {number: content for number, content in asked if content is not None}
        kept = session.ledger.not_made(kept, shown)
    place = chosen(kept.place, hold, choice)
    if choice == "drop" and hold.reason == "doubted" and hold.theirs is not None:
        since = tuple(each.intent for each in kept.pending if row.id != each.id > kept.place.doubted)
        place = rebased(replace(place, intents=(*place.intents, *since)), hold.theirs)
    if choice == "drop" and hold.reason == "not shown" and hold.theirs is not None:
        over = {*kept.rows} - {intent.id for intent in place.intents}
        session.ledger.note_stored(kept, hold.theirs, among=over, state=State.DONE, problem=None)
        kept = session.ledger.of(kept.place.id)
    along = min((intent.id for intent in place.intents), default=row.id)
    rewritten = session.ledger.rewrite(
        kept,
        place,
        gone=f"it went along with edit {along}" if what == "retry" else None,
        theirs=hold.theirs if choice == "mine" else None,
    )
    if choice == "retry" and hold.reason == "not shown" and hold.theirs is not None:
        session.ledger.note_stored(rewritten, hold.theirs)  # if that is there again, it is how the service stores it
    after = session.outbox.row(row.id)
    session.note_decision(what, row, after.state)
    return session.told(after)


def amend(
    session: EditSession,
    number: int,
    *,
    fields: Mapping[str, Any] | None = None,
    block: "tuple[BlockLike, AddressLike | None] | None" = None,
    wide: bool = False,
) -> OutboxRow:
    """`Editor.amend`, in its transaction."""
    row = session.outbox.row(number)
    if row.state not in (State.QUEUED, State.HELD, State.REJECTED):
        raise EditError(f"edit {number} is {row.state}, so what it says is settled: make a new edit")
    if row.state in PERSON_STATES:
        row = retry(session, number)  # first: it may be made against what the service has now
    intent: Intent = row.intent
    changes: dict[str, Any] = {}
    if fields:
        if not intent.values:
            raise EditError(f"edit {number} is to {row.describe()}: it has no fields")
        before = fields_of(intent.values)
        changes["values"] = values_of(meant_fields({**before, **fields}, before))
    if block is not None:
        if intent.new is None:
            raise EditError(f"edit {number} is to {row.describe()}: drop it, and make a new edit")
        wanted = block_of(*block)
        laid = session.layer.get(session.shown(row.locid))
        if wanted != intent.new:
            require_narrow(wanted, wide=wide)
        if laid is not None and wanted != intent.new:
            session.require_free(laid.place, wanted)
        changes["new"] = wanted
    kept = session.ledger.of(row.locid)
    intents = amended(kept.place.intents, number, changes)
    session.ledger.save(kept, replace(kept.place, intents=intents, refused=None))
    session.note_decision("edit", row, State.QUEUED)
    return session.told(session.outbox.row(number))


def drop(session: EditSession, number: int) -> list[OutboxRow]:
    """`Editor.drop`, in its transaction."""
    row = session.outbox.row(number)
    if row.state not in (State.QUEUED, *PERSON_STATES):
        first = ": push or sync first, and drop it if it waits then" if row.state == State.UNKNOWN else ""
        raise EditError(f"edit {number} is {row.state}: only one that waits can be dropped{first}")
    kept, hold = _held(session, row)
    refused = kept.place.refused
    # Of updates that went together, the service may have refused one alone: the others are sent again.
    is_one = row.state == State.REJECTED and refused is not None and refused.what == "put"
    if row.state in PERSON_STATES and not is_one:
        choice: Choice = "theirs" if hold.reason == "conflict" else "drop"
        if choice not in offered(kept.place, hold):
            raise EditError(
                f"edit {number} is to {row.describe()}, and half done: say first which geolocation it is, by "
                "`geolookup outbox adopt`, or make it anew by `outbox retry`; then its other blocks are put back"
            )
        place_now = _choose(session, row, kept, hold, choice, "drop").locid
        gone = {each.id for each in kept.pending} - {each.id for each in session.ledger.of(place_now).pending}
        return [session.told(session.outbox.row(each)) for each in sorted(gone | {number})]
    given_up = [row]
    if row.intent.what == "create":
        given_up += [each for each in kept.pending if each.id > number]
    place = give_up(replace(kept.place, refused=None), [each.id for each in given_up])
    back = put_back(place)
    session.ledger.rewrite(kept, back)
    if back != place:
        session.outbox.change(number, problem="it was half done: the next push puts back what was there before")
    for each in given_up:
        session.note_decision("drop", each, State.DROPPED)
    return [session.told(session.outbox.row(each.id)) for each in given_up]


def adopt(session: EditSession, number: int, locid: int) -> OutboxRow:
    """`Editor.adopt`, in its transaction."""
    row = session.waiting(number)
    kept, hold = _held(session, row)
    if "same" not in offered(kept.place, hold):
        raise EditError(f"edit {number} is to {row.describe()}: its place is known, so there is nothing to adopt")
    if hold.reason in ("doubted", "not shown"):
        if locid != hold.number:
            raise EditError(f"edit {number} is to {row.describe()}, which is {hold.number}: adopt it as that")
        return _choose(session, row, kept, hold, "same", "adopt")
    if locid >= 0 or is_provisional(locid):
        raise EditError(f"{locid} is not a locid that a service gives to custom geolocations")
    if locid in session.outbox.numbers():
        raise EditError(f"{locid} is already the locid of another geolocation that was edited here")
    forms = session.ledger.forms()
    theirs = hold.theirs if locid == hold.number else dict(hold.also).get(locid)
    if theirs is None:
        listed = {place.locid: content_of(place) for place in session.listed.custom}
        theirs = listed.get(locid)
        if theirs is None:
            raise EditError(f"the newest list has no geolocation {locid}: look for it with `geolookup sync`")
        look = look_at(kept.place, theirs, forms, conclusive=True)
        made = [intent.values for intent in kept.place.intents if intent.what == "create"]
        if look.another and not any(forms.like(values, theirs.values) for values in made):
            what = ", ".join(word for word in (theirs.fields["city"], theirs.fields["country"]) if word)
            raise EditError(f"geolocation {locid} ({what}) is not like what edit {number} creates")
    if kept.last is not None:  # somebody else has made it anew
        kept = replace(kept, place=made_again(kept.place, kept.last))
    else:
        for each in (row for row in kept.rows.values() if row.intent.what == "create"):
            forms.learn(each.intent.values, theirs.values)  # to know a second one by, that the same create made
            done = {"state": State.DONE, "acknowledged_at": now_text(), "problem": None}
            session.outbox.change(each.id, **done, stored=theirs.fields)
        session.ledger.keep_forms(forms)
        kept = session.ledger.of(row.locid)
    return _choose(session, row, kept, replace(hold, number=locid, theirs=theirs), "same", "adopt")


def keep_twin(session: EditSession, locid: int) -> None:
    """`Editor.keep_twin`, in its transaction."""
    if not session.outbox.twins.dismiss(locid):
        raise EditError(f"geolocation {locid} was not reported as made twice")
    session.outbox.record("keep", "done", locid=locid)
