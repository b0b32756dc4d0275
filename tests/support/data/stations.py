"""Edits at any station of their way, without a service: what a push, a list or a refusal would have left."""

from collections.abc import Mapping

from msgspec.structs import replace

from geolookup.state.base.marks import Mark, Start
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import geolocation
from geolookup.state.edits.outbox.row import State
from geolookup.state.edits.places.concluding import answered
from geolookup.state.edits.places.place import Content, Request
from geolookup.state.edits.places.reconcile import Hold, Look, Send, reconcile
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.conclude import conclude

#: A moment after all.
LATER = Mark(counter=1 << 52, boot="", boot_s=1e9)


def accept(ledger: Ledger, numbers: Mapping[int, int] | None = None) -> None:
    """Have a service take all that is pending; it gives new places these numbers, by the id, or others."""
    taken = [*ledger.outbox.numbers(), *(each for each in (numbers or {}).values())]
    places = ledger.read(OPEN)
    free = min([-1, *taken, *(kept.place.id for kept in places.values() if kept.place.id > -(10**15))]) - 1
    for kept in sorted(places.values(), key=lambda each: next(iter(each.rows), 0)):
        while isinstance(decision := reconcile(kept.place, Look(kept.place.acknowledged, conclusive=False)), Send):
            kept = ledger.begin(kept, decision.request)
            number = None
            if decision.request.what == "create":
                number = (numbers or {}).get(kept.place.id)
                if number is None:
                    number, free = free, free - 1
            kept = ledger.save(kept, ledger.ended(answered(kept.place, number=number)))
        ledger.save(kept, kept.place)  # what came to nothing is done, too


def acknowledge(home: str, numbers: Mapping[int, int] | None = None) -> None:
    """`accept` in a transaction of its own, and publish, as every push does at its end."""
    with StateDirectory(home).edits.transaction() as database:
        accept(Ledger(database), numbers)
    StateDirectory(home).republish()


def show(home: str) -> Mark:
    """Hold a list that shows all that was acknowledged against the places: its mark."""
    with StateDirectory(home).edits.transaction() as database:
        ledger = Ledger(database)
        mark = ledger.outbox.mark()
        listed = {
            kept.place.number: geolocation(kept.place.number, content)
            for kept in ledger.read("number IS NOT NULL").values()
            if (content := kept.place.acknowledged) is not None and kept.place.number is not None
        }
        conclude(ledger, Start(mark=mark, at=""), listed, 0.0)
    return mark


def stand(home: str, edit: int, state: State, *, theirs: Content | None = None, problem: str = "of the test") -> None:
    """Bring an edit, with its place, to a station: held, rejected or of unknown outcome."""
    with StateDirectory(home).edits.transaction() as database:
        ledger = Ledger(database)
        kept: Kept = ledger.of(ledger.outbox.row(edit).locid)
        decision = reconcile(kept.place, Look(kept.place.acknowledged, conclusive=False))
        request = decision.request if isinstance(decision, Send) else Request(what="put", upto=edit)
        match state:
            case State.SENDING:
                ledger.begin(kept, request)
            case State.DONE:
                accept(ledger)
            case State.UNKNOWN:
                kept = ledger.begin(kept, request)
                ledger.save(kept, ledger.ended(kept.place))
            case State.REJECTED:
                refused = replace(kept.place, refused=replace(request, said=problem))
                hold = Hold("refused", kept.place.acknowledged, kept.place.number)
                ledger.save(kept, refused, hold=hold, problem=problem)
            case State.HELD:
                reason = "unclear" if kept.place.number is None else "conflict"
                hold = Hold(reason, theirs or kept.place.acknowledged, kept.place.number)
                ledger.save(kept, kept.place, hold=hold, problem=problem)
            case _:
                raise ValueError(state)
        for row in ledger.outbox.rows(state):
            if row.id == edit:
                ledger.outbox.change(edit, attempts=1)
