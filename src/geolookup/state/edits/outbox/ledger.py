"""The places of edits.db: what is bound to which number, what is open, and the requests that were sent for it."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from sqlite3 import Connection
from typing import Any

from msgspec.structs import replace

from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.kept import DELETED, LIVING, NAMED, OPEN, Kept, column, read_over, read_places
from geolookup.state.edits.outbox.outbox import UPSTREAM_URL, Outbox
from geolookup.state.edits.outbox.payload import fields_of, geolocation, written
from geolookup.state.edits.outbox.row import PERSON_STATES, UNDER_WAY, OutboxRow, State, decoded
from geolookup.state.edits.outbox.schema import insert, update
from geolookup.state.edits.outbox.stations import stations
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.place import Content, Place, Request, target
from geolookup.state.edits.places.reconcile import Hold, as_told
from geolookup.state.generations.cache import digest

#: As many as tell how a service stores what it is sent.
_MOST_FORMS = 500


#: Stands in the words of a hold for the number of the edit.
EDIT = "{edit}"
_PUT_BACK = "an older copy of the edits was put back: what became of this one is read from the service"


class Ledger:
    """The places within one transaction of edits.db."""

    def __init__(self, database: Connection, outbox: Outbox | None = None) -> None:
        self.database = database
        self.outbox = Outbox(database) if outbox is None else outbox

    # Reading

    def read(self, where: str, parameters: Sequence[object] = ()) -> dict[int, Kept]:
        """The places for which this holds, by their ids; see `read_places`."""
        return read_places(self.database, where, parameters)

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have, or is to delete."""
        maybe = self.read(f"id IN (SELECT place FROM requests WHERE what = 'delete') OR {DELETED}")  # noqa: S608 - ours
        return {each.place.number for each in maybe.values() if each.place.number is not None} | {
            *self.outbox.deleted_here()
        }

    def has(self, where: str, parameters: Sequence[object] = ()) -> bool:
        """True if this holds for a place."""
        sql = f"SELECT 1 FROM places WHERE {where} LIMIT 1"  # noqa: S608 - our names
        return self.database.execute(sql, parameters).fetchone() is not None

    def of(self, place: int) -> Kept:
        """One place."""
        return self.read("id = ?", (place,))[place]

    def last_of(self, place: int) -> Content | None:
        """What a place was that is gone from the service; None if it is not gone, or nothing is known of it."""
        return next((kept.last for kept in self.read("id = ?", (place,)).values()), None)

    def over(self) -> Iterator[Kept]:
        """The places that are over, and that no name stands for: each with what it was, and the number that it had."""
        where = f"number IS NULL AND last IS NOT NULL AND lost IS NOT NULL AND NOT ({NAMED} OR {OPEN})"
        yield from self.read(where).values()

    def forget_last(self, place: int) -> None:
        """Forget what a place was that is over: it was told that this is there again."""
        update(self.database, "places", place, {"last": None})
        self.outbox.touch()

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
        """The number of the edit that created a place: its first, if that is an update by now, too."""
        return int(self.database.execute("SELECT min(id) FROM outbox WHERE locid = ?", (place,)).fetchone()[0])

    def keep_forms(self, forms: Forms) -> None:
        """Keep what was learned since."""
        for pair in forms.learned:
            insert(self.database, "forms", {"sent": written(pair[0]), "stored": written(pair[1])})
        forms.learned.clear()

    def at_service(self, url: str) -> None:
        """Note that what is read and sent is at this address: of another one, no number nor key is believed here."""
        if self.outbox.setting(UPSTREAM_URL) not in (None, url):
            sql = "UPDATE requests SET request = json_set(request, '$.misnamed', json('true')) WHERE what = 'create'"
            self.database.execute(sql)

    # Places

    def place_of(self, shown: int, content: Content, *, seen: int = 0) -> int:
        """The id of the place that lookups show under a number; one that a list brought is noted as it was there."""
        sql = f"SELECT id FROM places WHERE id = ? OR (number = ? AND {LIVING})"  # noqa: S608 - our names
        for (found,) in self.database.execute(sql, (shown, shown)):
            return int(found)
        values = {"id": shown, "number": shown, "baseline": column("baseline", content), "seen": seen}
        insert(self.database, "places", values)
        return shown

    def create(self, *, made: int | None) -> int:
        """The id of a new place: a provisional number that was never given before on this machine."""
        number = self.outbox.next_provisional()
        insert(self.database, "places", {"id": number, "made": made})
        return number

    def note_stored(self, kept: Kept, theirs: Content, among: Collection[int] | None = None, **more: Any) -> None:
        """Note what the service has of the edits of a place: a person has seen it; ``more`` as of `Outbox.change`."""
        stored = fields_of(theirs.values)
        for row in kept.rows.values():
            if among is None or row.id in among:
                self.outbox.change(row.id, **({"stored": stored} if row.intent.values else {}), **more)

    def try_again(self, place: int) -> None:
        """Have what the service refused for a place sent again: a person edits it, and something else is wanted."""
        for kept in self.read("id = ? AND refused IS NOT NULL", (place,)).values():
            self.save(kept, replace(kept.place, refused=None))

    def made_since(self, kept: Kept, made: int) -> None:
        """Note the baseline of the moment when a place was wanted anew."""
        update(self.database, "places", kept.place.id, {"made": made, "before": None})

    def stands_beside(self, place: int, made: int) -> None:
        """Note a baseline of which nothing else is the place: a list has shown them side by side."""
        sql = "UPDATE places SET made = ? WHERE id = ? AND baseline IS NOT NULL AND before IS NULL"
        self.database.execute(sql, (made, place))

    def not_made(self, kept: Kept, shown: Mapping[int, Content]) -> Kept:
        """Add what geolocations show to what the create of a place is known not to have made."""
        baselines, former = self.outbox.baselines, kept.before or kept.made
        digests = {number: digest(geolocation(number, content)) for number, content in shown.items()}
        before = baselines.keep({**baselines.of(former), **digests}, denied=baselines.denied(former) | shown.keys())
        update(self.database, "places", kept.place.id, {"before": before, "lost": None})
        return replace(kept, before=before, gone=None, place=replace(kept.place, lost=None))

    def save(
        self, kept: Kept, place: Place, *, hold: Hold | None = None, problem: str | None = None,
        counter: int | None = None, theirs: Content | None = None, why: str | None = None, before: int | None = None,
    ) -> Kept:  # fmt: skip
        """Write a place and its requests as they are now, and the stations of its edits that follow from that.

        :param problem: what stands in the way of the edits that are held, in words, with `EDIT`
        :param counter: of the list that shows what is not open any more
        :param theirs: what the service was seen to have, if that is more than its answers say
        :param why: what stands in the way of the edits that are on their way no longer, in words
        :param before: the baseline of its create
        """
        seen = kept.seen if counter is None else counter
        before = kept.before if before is None else before
        if hold is None and (there := theirs or place.acknowledged) is not None:
            place = as_told(place, there)
        if kept.former is not None and place.number not in (None, kept.former):
            self._leave_behind(kept, seen)
        gone = place.lost or (None if place.number is not None else kept.former)
        is_over = place.number is None and place.baseline is None and not (place.intents or place.requests)
        is_anew = place.number is None and place.baseline is None
        last = self._last(kept) if is_over else kept.last if is_anew else None
        now = replace(kept, place=place, hold=hold, seen=seen, before=before, gone=gone, last=last)
        was = kept.members
        changed = {name: column(name, value) for name, value in now.members.items() if value != was[name]}
        update(self.database, "places", kept.place.id, changed)
        place, leaving = self._with_requests(kept, place, counter)
        rows = {
            row.id: row
            for row in self._stationed(kept, place, hold, problem, counter, theirs=theirs, why=why, leaving=leaving)
        }
        self.outbox.touch()
        return replace(now, place=self._renumbered(place), rows=rows)

    def part(self, kept: Kept, *, seen: int) -> Kept:
        """Part a place that is to be made anew from the number that it had, in lists up to that with a counter."""
        if kept.former is None:
            return kept
        self._leave_behind(kept, seen)
        last = kept.place.baseline or kept.last
        update(self.database, "places", kept.place.id, {"number": None, "lost": None, "last": column("last", last)})
        return replace(kept, gone=None, last=last, place=replace(kept.place, number=None, lost=None))

    def _leave_behind(self, kept: Kept, seen: int) -> None:
        """Leave a place that is over behind under the number that ours has no more since the list with that counter:
        older lists have it there, and that it is there again is told.
        """
        if (was := self._ever(kept)) is not None:
            left = {"lost": kept.former, "last": column("last", was), "seen": seen}
            insert(self.database, "places", {"id": self.outbox.next_provisional(), **left})

    def _last(self, kept: Kept) -> Content | None:
        """The content by which a place that is over is known: its last one, or `_ever` if we deleted it."""
        if any(intent.what == "delete" for intent in kept.place.intents):
            return self._ever(kept)
        return kept.had[-1] if kept.had else None

    def _ever(self, kept: Kept) -> Content | None:
        """The last content of a place with every block that it ever had: an older list may show any of them."""
        if not kept.had:
            return None
        blocks = {block for content in kept.had for block in content.blocks}
        for intent in (row.intent for row in self.outbox.where("locid = ?", (kept.place.id,))):
            blocks |= {intent.new} | (set() if intent.base is None else intent.base.blocks)
        return replace(kept.had[-1], blocks=frozenset(blocks - {None}))

    def _with_requests(self, kept: Kept, place: Place, counter: int | None) -> tuple[Place, list[Request]]:
        """Write the requests of a place: it, with the ids of the new ones, and those that are about to leave."""
        left = {request.id for request in place.requests}
        before = {request.id: request for request in kept.place.requests}
        # Of a create that was answered, or of which a list has shown what it made, nothing can come any more.
        sent_once = place.number is not None
        for request in kept.place.requests:
            if request.id not in left:
                if request.ended is None:  # it was not sent, or surely not carried out
                    again = False
                elif request.what == "create":
                    again = kept.created_again or not (request.known or sent_once)
                else:  # a list has spoken of it, and does not show it
                    again = counter is not None and not (request.known or request.is_done(place.at_service))
                sql = "UPDATE requests SET over = 1 WHERE id = ?" if again else "DELETE FROM requests WHERE id = ?"
                self.database.execute(sql, (request.id,))
        found = []
        leaving = []
        for request in place.requests:
            was = before.get(request.id)
            if was is None:
                number = insert(self.database, "requests", {"place": kept.place.id, "request": written(request)})
                request = replace(request, id=number)
            elif request != was:
                update(self.database, "requests", request.id, {"request": written(request)})
            if request.ended is None and (was is None or was.ended is not None):
                leaving.append(request)
            found.append(request)
        return replace(place, requests=tuple(found)), leaving

    def _renumbered(self, place: Place) -> Place:
        """A place under another id, if its number is not its own any more: that may be somebody else's by now."""
        if is_provisional(place.id) or (place.number == place.id and not place.deleted):
            return place
        number = self.outbox.next_provisional()
        self.database.execute("UPDATE places SET id = ? WHERE id = ?", (number, place.id))
        self._note_former(place.id, number)
        return replace(place, id=number)

    def _note_former(self, former: int, place: int) -> None:
        """Note that the history so far knows a place by this id."""
        sql = "INSERT INTO renumbered (former, line, place) SELECT ?, coalesce(max(id), 0), ? FROM history"
        self.database.execute(sql, (former, place))

    def created_again(self, former: int, place: int) -> None:
        """Note that a place which was deleted is there again as another one."""
        update(self.database, "places", former, {"again": place})

    def _stationed(
        self, kept: Kept, place: Place, hold: Hold | None, problem: str | None, counter: int | None,
        *, theirs: Content | None, why: str | None, leaving: Sequence[Request],
    ) -> Iterator[OutboxRow]:  # fmt: skip
        """Write the stations of the edits of a place: those that are open still."""
        found = stations(place, hold, theirs)
        intents = {intent.id: intent for intent in place.intents}
        for row in kept.rows.values():
            state = found.get(row.id)
            changes: dict[str, Any] = {}
            if state is None:
                changes = {"state": State.DONE, "concluded": counter, "problem": None}
            elif state in PERSON_STATES:
                changes = {"state": state, "problem": problem and problem.replace(EDIT, str(row.id))}
            elif state != row.state or (why is not None and state == State.UNKNOWN):
                stopped = state == State.UNKNOWN or row.state in UNDER_WAY
                changes = {"state": state, "problem": why if stopped and state != State.DONE else None}
            if state not in (None, State.DONE) and any(request.concerns(row.intent) for request in leaving):
                attempted_at = row.attempted_at or self.outbox.moment
                changes |= {"attempts": row.attempts + 1, "attempted_at": attempted_at}
            if changes.get("state") == State.DONE and row.acknowledged_at is None:
                changes["acknowledged_at"] = self.outbox.moment
                if row.intent.what == "delete":
                    changes["number"] = kept.place.number
            if row.intent != intents.get(row.id, row.intent):  # it is made against what a list has shown
                changes["intent"] = intents[row.id]
            row = self.outbox.changed(row, **changes)
            if state is not None:
                yield row

    def rewrite(self, kept: Kept, place: Place, *, gone: str | None = None, theirs: Content | None = None) -> Kept:
        """Write the edits of a place as a choice has made them: changed, added, or given up (``gone`` says why).

        :param theirs: what the service has, if that is what they are made against now
        """
        place = self._renumbered(place)
        if place.id != kept.place.id:
            kept = self.of(place.id)
        left, rows = dict(kept.rows), {}
        for intent in place.intents:
            if (row := left.pop(intent.id, None)) is None:
                row = self.outbox.add(intent, place.id)
            elif row.intent != intent:
                row = self.outbox.changed(row, intent=intent, stored=None, acknowledged_at=None, number=None)
            rows[row.id] = row
        for number, row in left.items():
            if row.state == State.DONE:
                self.outbox.change(number, concluded=self.outbox.counter)
            else:
                words = row.problem if row.state == State.QUEUED and gone is None else gone
                self.outbox.change(number, state=State.DROPPED, problem=words)
        rows = dict(sorted(rows.items()))
        kept, intents = replace(kept, rows=rows), tuple(row.intent for row in rows.values())
        # What was sent, or seen by a list, may be newer than what was pulled: unless only what is wanted has changed.
        was, now = (replace(each, intents=(), refused=None) for each in (kept.place, place))
        counter = self.outbox.mark().counter if was != now and (was.requests or kept.hold is not None) else None
        return self.save(kept, replace(place, intents=intents), counter=counter, theirs=theirs)

    # Requests

    def begin(self, kept: Kept, request: Request, *, before: int | None = None) -> Kept:
        """Note that a request leaves, or again, once this transaction is durable.

        :param before: the baseline of a create
        """
        if request.id:
            others, request = kept.place.requests[:-1], replace(request, ended=None, put_off=False)
        else:
            others = kept.place.requests
            request = replace(request, key=str(uuid.uuid4()), attempted=self.outbox.mark())
        place = replace(kept.place, requests=(*others, request))
        return self.save(kept, place, theirs=request.before, before=before)

    def ended(self, place: Place, **outcome: bool) -> Place:
        """A place whose newest request is over, with this outcome: from now on it settles."""
        *others, newest = place.requests
        return replace(place, requests=(*others, replace(newest, ended=self.outbox.mark(), **outcome)))

    def found_interrupted(self) -> None:
        """End the requests of a push that died."""
        for kept in self.read("id IN (SELECT place FROM requests WHERE ended IS NULL)").values():
            self.save(kept, self.ended(kept.place), why="the push was interrupted")

    def doubt(self) -> None:
        """Note that an older copy of the edits was put back: what is open may have been sent, and undone, since."""
        newest = self.outbox.newest_edit()
        for former in self.read(OPEN).values():
            for row in former.pending:  # none of them counts as never sent
                self.outbox.change(row.id, attempts=row.attempts + 1)
            kept = self.of(former.place.id)
            place = replace(kept.place, doubted=newest)
            create = next((intent for intent in place.intents if intent.what == "create"), None)
            if create is None or place.number is not None or place.requests:
                self.save(kept, place)
                continue
            wanted = target(place.intents, None)  # a create takes the later edits of its fields with it
            values = create.values if wanted is None else wanted.values
            sent = Request(what="create", values=values, upto=create.id, attempted=self.outbox.mark())
            place = self.ended(replace(place, requests=(sent,)))
            self.save(kept, place, why=_PUT_BACK, before=kept.before or kept.made)
