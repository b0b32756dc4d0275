"""The places of edits.db: what is bound to which number, what is open, and the requests that were sent for it."""

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.kept import (
    LIVING,
    OPEN,
    Kept,
    Sent,
    blocks_column,
    read_over,
    read_places,
    request_columns,
)
from geolookup.state.edits.outbox.operations import edit_of
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import content_column, described, written
from geolookup.state.edits.outbox.row import OutboxRow, State, decoded
from geolookup.state.edits.outbox.schema import insert, update
from geolookup.state.edits.outbox.stations import concerns, stations
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.place import Content, Place, Request, target
from geolookup.state.edits.places.reconcile import Hold

if TYPE_CHECKING:
    from sqlite_utils import Database

#: As many as tell how a service stores what it is sent.
_MOST_FORMS = 500


#: Stands in the words of a hold for the number of the edit.
EDIT = "{edit}"
_PUT_BACK = "an older copy of the edits was put back: what became of this one is read from the service"


def _bound(place: Place) -> tuple[Any, ...]:
    """The part of a place that follows from lists and answers."""
    return place.number, place.lost, place.baseline, place.owed, place.doubted


def _hold_column(hold: Hold) -> str:
    also = [[number, described(content)] for number, content in hold.also]
    return written([hold.reason, described(hold.theirs), hold.number, also])


class Ledger:
    """The places within one transaction of edits.db."""

    def __init__(self, database: "Database", outbox: Outbox | None = None) -> None:
        self.database = database
        self.outbox = Outbox(database) if outbox is None else outbox

    # Reading

    def read(self, where: str, parameters: Sequence[object] = ()) -> dict[int, Kept]:
        """The places for which this holds, by their ids; see `read_places`."""
        return read_places(self.database, where, parameters)

    def has(self, where: str, parameters: Sequence[object] = ()) -> bool:
        """True if this holds for a place."""
        sql = f"SELECT 1 FROM places WHERE {where} LIMIT 1"  # noqa: S608 - our names
        return self.database.execute(sql, parameters).fetchone() is not None

    def of(self, place: int) -> Kept:
        """One place."""
        return self.read("id = ?", (place,))[place]

    def forms(self) -> Forms:
        """How the service stores what it is sent."""
        sql = f"SELECT sent, stored FROM forms ORDER BY id DESC LIMIT {_MOST_FORMS}"  # noqa: S608 - a number
        rows = self.database.execute(sql).fetchall()
        return Forms((tuple(decoded(sent)), tuple(decoded(stored))) for sent, stored in rows)

    def watched(self) -> list[tuple[int, Request]]:
        """The requests that may yet land, or again, each with its place."""
        return read_over(self.database)

    def landed(self, request: Request) -> None:
        """Note that a request has landed late: it was told."""
        self.database.execute("DELETE FROM requests WHERE id = ?", (request.id,))

    def create_of(self, place: int) -> int:
        """The number of the edit that created a place, 0 if none did."""
        sql = "SELECT min(id) FROM outbox WHERE locid = ? AND operation = 'create'"
        return int(self.database.execute(sql, (place,)).fetchone()[0] or 0)

    def keep_forms(self, forms: Forms) -> None:
        """Keep what was learned since."""
        for pair in forms.learned:
            insert(self.database, "forms", {"sent": written(pair[0]), "stored": written(pair[1])})
        forms.learned.clear()

    # Places

    def place_of(self, shown: int, content: Content, *, seen: int = 0) -> int:
        """The id of the place that lookups show under a number; one that a list brought is noted as it was there."""
        sql = f"SELECT id FROM places WHERE (number = ? OR id = ?) AND {LIVING}"  # noqa: S608 - our names
        for (found,) in self.database.execute(sql, (shown, shown)):
            return int(found)
        values = {"id": shown, "number": shown, "baseline": content_column(content), "seen": seen}
        insert(self.database, "places", values)
        return shown

    def create(self, *, made: int | None) -> int:
        """The id of a new place: a provisional number that was never given before on this machine."""
        number = self.outbox.next_provisional()
        insert(self.database, "places", {"id": number, "made": made})
        return number

    def take_as_stored(self, kept: Kept, theirs: Content) -> None:
        """Note that what the service has is what it makes of the edits of a place: a person says so."""
        stored = (described(theirs) or {})["fields"]
        for row in kept.rows.values():
            more = {"stored": stored} if row.intent.values else {}
            self.outbox.change(row.id, state=State.DONE, problem=None, **more)

    def made_since(self, kept: Kept, made: int) -> None:
        """Note the baseline of the moment when a place was wanted anew."""
        update(self.database, "places", kept.place.id, {"made": made, "before": None})

    def not_made_by(self, place: int) -> Mapping[int, str]:
        """What the service had before the create of a place: by number, the digest of the content."""
        (before,) = self.database.execute("SELECT before FROM places WHERE id = ?", (place,)).fetchone()
        return self.outbox.baselines.of(before)

    def not_made(self, kept: Kept, shown: Mapping[int, str]) -> None:
        """Add geolocations to what the create of a place is known not to have made."""
        known = {**self.outbox.baselines.of(kept.before or kept.made), **shown}
        update(self.database, "places", kept.place.id, {"before": self.outbox.baselines.keep(known)})

    def save(
        self, kept: Kept, place: Place, *, hold: Hold | None = None, problem: str | None = None,
        counter: int | None = None, theirs: Content | None = None, words: Mapping[int, str] | None = None,
    ) -> Kept:  # fmt: skip
        """Write a place as it is now, and the stations of its edits that follow from that.

        :param problem: what stands in the way of the edits that are held, in words, with `EDIT`
        :param counter: of the list that shows what is not open any more
        :param theirs: what the service was seen to have, if that is more than its answers say
        """
        seen = kept.seen if counter is None else counter
        held = place.refused or kept.place.refused or hold or kept.hold
        if held or seen != kept.seen or _bound(place) != _bound(kept.place):
            lost = kept.place.number if place.number is None and place.lost is None else place.lost
            values = {
                "number": place.number,
                "lost": lost,
                "baseline": content_column(place.baseline),
                "owed": blocks_column(place.owed),
                "refused": None if place.refused is None else written(request_columns(place.refused)),
                "said": None if place.refused is None else kept.said,
                "hold": None if hold is None else _hold_column(hold),
                "doubted": int(place.doubted),
                "seen": seen,
            }
            update(self.database, "places", kept.place.id, values)
        left = {request.id for request in place.requests}
        # Of a create that was answered, or of which a list has shown what it made, nothing can come any more.
        sent_once = place.number is not None
        for request in kept.place.requests:
            if request.id not in left:
                if request.what == "create":
                    again = kept.created_again or not (request.known or sent_once)
                else:  # a list has spoken of it, and does not show it
                    again = counter is not None and not (request.known or request.is_done(place.at_service))
                sql = "UPDATE requests SET over = 1 WHERE id = ?" if again else "DELETE FROM requests WHERE id = ?"
                self.database.execute(sql, (request.id,))
        before = {request.id: request for request in kept.place.requests}
        for request in place.requests:
            was = before[request.id]
            if (request.known, request.before) != (was.known, was.before):
                changes = {"known": int(request.known), "before": content_column(request.before)}
                update(self.database, "requests", request.id, changes)
        sent = {number: known for number, known in kept.sent.items() if number in left}
        rows = self._stationed(kept, place, hold, problem, counter, theirs=theirs, words=words or {})
        place = self._renumbered(place)
        self.outbox.touch()
        return replace(kept, place=place, rows=rows, hold=hold, seen=seen, sent=sent)

    def _renumbered(self, place: Place) -> Place:
        """A place under another id, if its number is not its own any more: that may be somebody else's by now."""
        if is_provisional(place.id) or place.number == place.id:
            return place
        number = self.outbox.next_provisional()
        self.database.execute("UPDATE places SET id = ? WHERE id = ?", (number, place.id))
        return replace(place, id=number)

    def _stationed(
        self, kept: Kept, place: Place, hold: Hold | None, problem: str | None, counter: int | None,
        *, theirs: Content | None, words: Mapping[int, str],
    ) -> dict[int, OutboxRow]:  # fmt: skip
        found = stations(place, hold, theirs)
        intents = {intent.id: intent for intent in place.intents}
        rows = {}
        for row in kept.rows.values():
            state = found.get(row.id)
            if row.id in intents and row.intent != intents[row.id]:  # it is made against what a list has shown
                edit, base = edit_of(intents[row.id]), intents[row.id].base
                self.outbox.change(row.id, operation=str(edit.operation), payload=edit.payload, base=base)
                row = self.outbox.row(row.id)
            changes: dict[str, Any] = {}
            if state is None:
                changes = {"state": State.DONE, "concluded": counter, "problem": None}
            elif state != row.state or state in (State.HELD, State.REJECTED):
                held = state in (State.HELD, State.REJECTED)
                told = None if problem is None else problem.replace(EDIT, str(row.id))
                changes = {"state": state, "problem": told if held else words.get(row.id)}
            elif row.id in words:
                changes = {"problem": words[row.id]}
            if changes.get("state") == State.DONE and row.acknowledged_at is None:
                changes["acknowledged_at"] = self.outbox.moment
                if row.intent.what == "delete":
                    changes["number"] = kept.place.number
            if changes:
                self.outbox.change(row.id, **changes)
                row = row.changed(**changes)
            if state is not None:
                rows[row.id] = row
        return rows

    def merge(self, kept: Kept, other: Kept) -> Kept:
        """A place with another that turned out to be a part of it: a list had brought it first."""
        for table, column in (("outbox", "locid"), ("requests", "place")):
            sql = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608 - our names
            self.database.execute(sql, (kept.place.id, other.place.id))
        self.database.execute("UPDATE OR IGNORE sites SET locid = ? WHERE locid = ?", (kept.place.id, other.place.id))
        self.database.execute("DELETE FROM sites WHERE locid = ?", (other.place.id,))
        self.database.execute("DELETE FROM places WHERE id = ?", (other.place.id,))
        rows = {number: row.changed(locid=kept.place.id) for number, row in sorted({**kept.rows, **other.rows}.items())}
        return replace(kept, rows=rows, sent={**kept.sent, **other.sent})

    def rewrite(self, kept: Kept, place: Place, *, gone: str | None = None) -> Kept:
        """Write the edits of a place as a choice has made them: changed, added, or given up (``gone`` says why)."""
        used: set[int] = set()
        rows = {}
        place = self._renumbered(place)
        if place.id != kept.place.id:
            kept = self.of(place.id)
        for intent in place.intents:
            edit, base = edit_of(intent), intent.base
            if intent.id in kept.rows and intent.id not in used:
                row = kept.rows[intent.id]
                if row.intent != intent:
                    self.outbox.change(
                        row.id, operation=str(edit.operation), payload=edit.payload, base=base, stored=None,
                        acknowledged_at=None, number=None,
                    )  # fmt: skip
            else:
                row = self.outbox.add(edit, place.id, base=base)
            used.add(row.id)
            rows[row.id] = self.outbox.row(row.id)
        for number, row in kept.rows.items():
            if number not in used:
                if row.state == State.DONE:
                    self.outbox.change(number, concluded=self.outbox.counter)
                else:
                    words = row.problem if row.state == State.QUEUED and gone is None else gone
                    self.outbox.change(number, state=State.DROPPED, problem=words)
        intents = tuple(row.intent for _, row in sorted(rows.items()))
        kept = replace(kept, rows=dict(sorted(rows.items())))
        # What was sent, or seen by a list, may be newer than what was pulled.
        counter = self.outbox.mark().counter if kept.place.requests or kept.hold is not None else None
        return self.save(kept, replace(place, intents=intents), counter=counter)

    # Requests

    def begin(self, kept: Kept, request: Request, *, key: str | None = None, before: int | None = None) -> Kept:
        """Note that a request leaves, once this transaction is durable.

        :param before: the baseline of a create
        """
        sent = Sent(key=key or str(uuid.uuid4()), attempted=self.outbox.mark())
        number = self._insert_request(kept.place.id, request, sent)
        request = replace(request, id=number)
        place = replace(kept.place, requests=(*kept.place.requests, request))
        if before is not None or kept.hold is not None:
            kept = replace(kept, before=kept.before if before is None else before)
            update(self.database, "places", place.id, {"before": kept.before, "hold": None})
        rows = dict(kept.rows)
        for row in kept.pending:
            if concerns(request, row.intent):
                changes = {
                    "state": State.SENDING, "problem": None, "attempts": row.attempts + 1,
                    "attempted_at": row.attempted_at or self.outbox.moment,
                }  # fmt: skip
                self.outbox.change(row.id, **changes)
                rows[row.id] = row.changed(**changes)
        self.outbox.touch()
        return replace(kept, place=place, rows=rows, hold=None, sent={**kept.sent, number: sent})

    def end(self, kept: Kept, *, known: bool = False, misnamed: bool = False, put_off: bool = False) -> Kept:
        """Note that the newest request is over, whatever became of it: from now on it settles."""
        request = kept.place.requests[-1]
        ended = self.outbox.mark()
        changes: dict[str, Any] = {"ended": ended.text, **({"misnamed": 1} if misnamed else {})}
        for name, is_so in (("known", known), ("put_off", put_off)):
            if is_so:
                changes[name] = 1
                request = replace(request, **{name: True})
        if request is not kept.place.requests[-1]:
            kept = replace(kept, place=replace(kept.place, requests=(*kept.place.requests[:-1], request)))
        update(self.database, "requests", request.id, changes)
        sent = replace(kept.sent[request.id], ended=ended, misnamed=misnamed)
        return replace(kept, sent={**kept.sent, request.id: sent})

    def doubt(self) -> None:
        """Note that an older copy of the edits was put back: what is open may have been sent, and undone, since."""
        now = self.outbox.mark()
        for kept in self.read(OPEN).values():
            update(self.database, "places", kept.place.id, {"doubted": 1})
            place = kept.place
            create = next((intent for intent in place.intents if intent.what == "create"), None)
            if create is not None and place.number is None and not place.requests:
                sent = Sent(key=str(uuid.uuid4()), attempted=now, ended=now)
                wanted = target(place.intents, None)  # a create takes the later edits of its fields with it
                values = create.values if wanted is None else wanted.values
                self._insert_request(place.id, Request(what="create", values=values, upto=create.id), sent)
                update(self.database, "places", place.id, {"before": kept.before or kept.made})
                self.outbox.change(create.id, state=State.UNKNOWN, problem=_PUT_BACK)

    def repeat(self, kept: Kept) -> Kept:
        """Note that the newest request leaves again, as it was, with its key."""
        request = kept.place.requests[-1]
        update(self.database, "requests", request.id, {"ended": None, "put_off": 0})
        rows = dict(kept.rows)
        for row in kept.pending:
            if concerns(request, row.intent):
                self.outbox.change(row.id, attempts=row.attempts + 1)
                rows[row.id] = row.changed(attempts=row.attempts + 1)
        requests = (*kept.place.requests[:-1], replace(request, put_off=False))
        kept = replace(kept, place=replace(kept.place, requests=requests), rows=rows)
        sent = replace(kept.sent[request.id], ended=None)
        return self.explain(replace(kept, sent={**kept.sent, request.id: sent}), State.SENDING, None)

    def explain(self, kept: Kept, state: State, problem: str | None) -> Kept:
        """Say in words what stands in the way of edits whose outcome is not known."""
        rows = dict(kept.rows)
        for number, row in kept.rows.items():
            if row.state in (State.UNKNOWN, State.SENDING):
                self.outbox.change(number, state=state, problem=problem)
                rows[number] = row.changed(state=state, problem=problem)
        return replace(kept, rows=rows)

    def found_interrupted(self) -> None:
        """End the requests of a push that died."""
        found = self.read("id IN (SELECT place FROM requests WHERE ended IS NULL)")
        if found:
            now = self.outbox.mark()
            self.database.execute("UPDATE requests SET ended = ? WHERE ended IS NULL", (now.text,))
        for kept in found.values():
            self.explain(kept, State.UNKNOWN, "the push was interrupted")

    def _insert_request(self, place: int, request: Request, sent: Sent) -> int:
        values = {
            "place": place, "upto": request.upto, "known": int(request.known), "key": sent.key,
            "attempted": sent.attempted.text, "ended": None if sent.ended is None else sent.ended.text,
            **request_columns(request),
        }  # fmt: skip
        return insert(self.database, "requests", values)
