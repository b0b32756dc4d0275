"""The outbox: edits made here, each a row that goes to the service exactly as meant, or waits for a person."""

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from geolookup.errors import EditError, EditsDamagedError
from geolookup.fields import FIELD_NAMES, FIELDS, LATER_NAMES, UNKNOWN
from geolookup.model import PROVISIONAL_LOCID, Geolocation, IPBlock
from geolookup.state import machine
from geolookup.state.clock import now_text
from geolookup.state.edits.journal import is_half_done, laid_over
from geolookup.state.edits.operations import FREEING, Create, Edit, Operation, ReplaceBlock, read_edit
from geolookup.state.edits.payload import geolocation
from geolookup.state.edits.schema import RESTORING, require_shapes
from geolookup.state.marks import Begun, Mark
from geolookup.state.sqlite import column_type

if TYPE_CHECKING:
    from sqlite_utils import Database


class State(StrEnum):
    """Where a row stands on its way to the service."""

    #: Waits to be sent.
    QUEUED = "queued"
    #: Committed before the request leaves: after a crash it cannot be told from sent.
    SENDING = "sending"
    #: Sent, or perhaps sent, and the outcome cannot be told.
    UNKNOWN = "unknown"
    #: The service has it.
    DONE = "done"
    #: The service refused it for good: a person must decide.
    REJECTED = "rejected"
    #: It conflicts with what the service has: a person must decide.
    HELD = "held"
    #: A person gave it up; it has no effect any more.
    DROPPED = "dropped"


#: States of rows that are neither over nor waiting for a person.
OPEN_STATES = (State.QUEUED, State.SENDING, State.UNKNOWN)
#: States of rows whose request may be on its way, or may have arrived.
UNDER_WAY = (State.SENDING, State.UNKNOWN)
#: States of rows that wait for a person.
PERSON_STATES = (State.REJECTED, State.HELD)
#: States of rows whose effect the service does not have yet.
PENDING_STATES = (*OPEN_STATES, *PERSON_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One edit.

    ``key`` is its ``Idempotency-Key``; ``locid`` the number that the geolocation has on this machine (provisional for
    one created here, for ever). ``edit`` is what shall be done; ``base`` what it was made against (``fields`` and
    ``blocks``), None for a create. ``baseline`` numbers the kept list of custom locids that the service had before the
    first attempt of a create that may have arrived; ``attempted_at`` is that attempt's moment. ``journal`` holds what
    the edit needs remembered: a removal's progress (see `sync.reconcile`), what the service had (``theirs``) if that is
    why an edit is held, ``resent`` for a create that was sent again although an earlier attempt may yet land. Moments
    are texts of `clock.now_text`, None if not reached. ``problem`` says in words what stands in the way.

    ``attempted``, ``ended`` and ``acknowledged`` are the marks of those moments: these order what happened, texts are
    for people. ``concluded`` is the counter of the first list that was conclusive for an acknowledged edit: a list
    with that counter or a higher one has it already; ``seen`` of the first list that showed it. ``number`` is the
    service's of what an acknowledged delete deleted. ``made`` numbers the baseline of when a create was made here, as
    ``baseline`` that of its first attempt. ``stored`` are the fields that the service made of those sent, as the first
    list that showed them had them.
    """

    id: int
    key: str
    locid: int
    edit: Edit
    base: dict[str, Any] | None
    state: State
    attempts: int
    created_at: str
    attempted_at: str | None
    ended_at: str | None
    acknowledged_at: str | None
    baseline: int | None
    journal: dict[str, Any] | None
    problem: str | None
    attempted: Mark | None = None
    ended: Mark | None = None
    acknowledged: Mark | None = None
    concluded: int | None = None
    seen: int | None = None
    number: int | None = None
    made: int | None = None
    stored: dict[str, Any] | None = None

    @property
    def operation(self) -> Operation:
        """The kind of the edit."""
        return self.edit.operation

    @property
    def payload(self) -> dict[str, Any]:
        """What the kind needs: ``fields`` (the eight), ``block`` and ``new_block`` (two addresses each)."""
        return self.edit.payload

    def describe(self) -> str:
        """The edit in words."""
        return self.edit.describe(self.locid)

    def laid_over(self, place: Geolocation | None, locid: int) -> Geolocation | None:
        """What a geolocation of a list is after the edit, under the number ``locid``; None if it is gone.

        Once a removal has begun to delete, the list may lack what it shall bring back: until then its target stands in.
        """
        if self.journal is None or not is_half_done(self.journal):
            return self.edit.laid_over(place, locid, self.base)
        return laid_over(self.journal, place or geolocation(locid, (self.base or {})["fields"], ()))

    def is_laid_over(self, begun: Begun) -> bool:
        """Whether a list that began then may lack the edit."""
        if self.state == State.DROPPED:
            return False
        if self.acknowledged is None:  # by an earlier release, if at all
            return self.acknowledged_at is None or self.acknowledged_at >= begun.at
        return self.concluded is None or self.concluded > begun.counter

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in _SHOWN} | {"description": self.describe()}


#: The setting that says which machine edited or pushed last.
MACHINE = "machine"
_SHOWN = (
    *("id", "key", "locid", "operation", "payload", "base", "state", "attempts", "created_at", "attempted_at"),
    *("ended_at", "acknowledged_at", "baseline", "journal", "problem", "stored"),
)
#: As many as tell how a service stores what it is sent.
_MOST_FORMS = 500
_JSON = ("payload", "base", "journal", "stored")
_MARKS = ("attempted", "ended", "acknowledged")
_COLUMNS = (*_SHOWN, *_MARKS, "concluded", "seen", "number", "made")


class Outbox:
    """The outbox within one transaction of edits.db."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def add(
        self,
        edit: Edit,
        locid: int,
        *,
        base: dict[str, Any] | None,
        key: str | None = None,
        made: int | None = None,
    ) -> OutboxRow:
        """Add an edit, queued; ``made`` is the number of `keep_published` for a create."""
        if self.setting(MACHINE) is None:  # so that a copy of the state is noticed, though nothing was pushed before
            self.keep_setting(MACHINE, machine.machine_id())
        table = self._database.table("outbox")
        table.insert(
            {
                "key": key or str(uuid.uuid4()),
                "locid": locid,
                "operation": str(edit.operation),
                "payload": json.dumps(edit.payload),
                "base": None if base is None else json.dumps(base),
                "state": str(State.QUEUED),
                "attempts": 0,
                "created_at": now_text(),
                "made": made,
            }
        )
        return self.row(int(str(table.last_pk)))

    def row(self, number: int) -> OutboxRow:
        """One edit.

        :raises EditError: if there is none of that number
        """
        for found in self._database.query("SELECT * FROM outbox WHERE id = ?", (number,)):
            return _row(found)
        raise EditError(f"the outbox has no edit {number}: see `geolookup outbox list`")

    def rows(self, *states: State, locid: int | None = None) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first."""
        conditions, parameters = ["1"], []
        if states:
            conditions.append(f"state IN ({_places(states)})")
            parameters += [str(state) for state in states]
        if locid is not None:
            conditions.append("locid = ?")
            parameters.append(locid)  # type: ignore[arg-type] # one list for all parameters
        sql = f"SELECT * FROM outbox WHERE {' AND '.join(conditions)} ORDER BY id"  # noqa: S608 - no values in it
        return [_row(row) for row in self._database.query(sql, parameters)]

    def rows_in_the_way(self, locid: int) -> list[OutboxRow]:
        """The pending edits that others may have to wait for: creates under way, and what takes blocks away.

        Those of ``locid`` itself are left out. Of a thousand edits that only create and add, there are none.
        """
        sql = (
            "SELECT * FROM outbox WHERE locid <> ?"  # noqa: S608 - no values in it
            f" AND (operation = ? AND state IN ({_places(UNDER_WAY)})"
            f" OR operation IN ({_places(FREEING)}) AND state IN ({_places(PENDING_STATES)})) ORDER BY id"
        )
        texts = map(str, (Operation.CREATE, *UNDER_WAY, *FREEING, *PENDING_STATES))
        return [_row(row) for row in self._database.query(sql, (locid, *texts))]

    def rows_to_lay(self, begun: Begun) -> list[OutboxRow]:
        """The edits that a list begun then may lack, oldest first."""
        sql = (  # as `OutboxRow.is_laid_over`, so that what is long over is not read
            "SELECT * FROM outbox WHERE state <> 'dropped' AND CASE WHEN acknowledged IS NULL"
            " THEN acknowledged_at IS NULL OR acknowledged_at >= ? ELSE concluded IS NULL OR concluded > ? END"
            " ORDER BY id"
        )
        return [_row(row) for row in self._database.query(sql, (begun.at, begun.counter))]

    # Marks

    def mark(self) -> Mark:
        """A new mark: this moment, with a counter above all before."""
        self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'marks'")
        return Mark.now(self.counter())

    def found_here(self, found: Mark) -> None:
        """Count all ages from now: the marks are another machine's, whose clocks say nothing here."""
        for name in _MARKS:
            self._database.execute(
                f"UPDATE outbox SET {name} = ? WHERE {name} IS NOT NULL AND concluded IS NULL",  # noqa: S608 - our names
                (found.text,),
            )

    def counter(self) -> int:
        """The counter of the newest mark."""
        return int(next(self._database.query("SELECT value FROM counters WHERE name = 'marks'"))["value"])

    def stored_forms(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """What was sent, and what the service made of it, newest first: those that differ, or one that does not."""
        sql = "SELECT DISTINCT payload, stored FROM outbox WHERE stored IS NOT NULL ORDER BY id DESC LIMIT ?"
        found = [
            (json.loads(row["payload"])["fields"], json.loads(row["stored"]))
            for row in self._database.query(sql, (_MOST_FORMS,))
        ]
        return [pair for pair in found if pair[0] != pair[1]] or found[:1]

    def stored_differently(self) -> list[OutboxRow]:
        """The newest create or update of each geolocation that the service stored in another form than it was sent."""
        sql = (
            "SELECT * FROM outbox WHERE id IN (SELECT max(id) FROM outbox WHERE state = 'done' AND operation IN (?, ?)"
            " GROUP BY locid) AND stored IS NOT NULL"
        )
        found = map(_row, self._database.query(sql, (str(Operation.CREATE), str(Operation.UPDATE))))
        return [row for row in found if row.stored != row.payload["fields"]]

    def recent(self, locid: int) -> list[OutboxRow]:
        """The acknowledged edits of one geolocation that no list was conclusive for yet, oldest first."""
        return [row for row in self.acknowledged() if row.locid == locid]

    def lift(self, *, edits: int, counter: int) -> None:
        """Raise both counters above these, so that what was published from a file that is gone counts as older."""
        for name, least in (("edits", edits), ("marks", counter)):
            self._database.execute("UPDATE counters SET value = max(value, ?) + 1 WHERE name = ?", (least, name))

    def acknowledged(self) -> list[OutboxRow]:
        """The edits that the service acknowledged, and that no list was conclusive for yet; oldest first."""
        sql = "SELECT * FROM outbox WHERE concluded IS NULL AND acknowledged IS NOT NULL AND state = 'done' ORDER BY id"
        return [_row(row) for row in self._database.query(sql)]

    # Edits and their attempts

    def watched_creates(self) -> list[OutboxRow]:
        """Creates that are over, and were sent again or changed after they were sent; oldest first.

        An earlier request of theirs may land at any time.
        """
        sql = (
            "SELECT * FROM outbox WHERE operation = ? AND journal IS NOT NULL"
            " AND state IN ('done', 'rejected', 'dropped') ORDER BY id"
        )
        found = map(_row, self._database.query(sql, (str(Operation.CREATE),)))
        return [row for row in found if _was_sent_again(row)]

    def twins(self) -> dict[int, int]:
        """The twins that were found and are watched: each with the edit that made it."""
        return {row["locid"]: row["edit"] for row in self._database.query("SELECT locid, edit FROM twins")}

    def note_twin(self, locid: int, edit: int) -> None:
        """Note that an edit made this one besides its own."""
        self._database.table("twins").insert({"locid": locid, "edit": edit})

    def forget_twin(self, locid: int) -> None:
        """Note that a twin is one no longer."""
        self._database.execute("DELETE FROM twins WHERE locid = ?", (locid,))

    def dismiss_twin(self, locid: int) -> bool:
        """Note that a person keeps a twin as it is; false if it is none."""
        if locid not in self.twins():
            return False
        self._database.execute("UPDATE twins SET dismissed_at = ? WHERE locid = ?", (now_text(), locid))
        return True

    def dismissed_twins(self) -> set[int]:
        """The twins that a person keeps."""
        return {row["locid"] for row in self._database.query("SELECT locid FROM twins WHERE dismissed_at IS NOT NULL")}

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have."""
        sql = "SELECT locid, number FROM outbox WHERE operation = ? AND state IN ('sending', 'unknown', 'done')"
        aliases = self.aliases()
        found = self._database.query(sql, (str(Operation.DELETE),))
        return {row["number"] or aliases.get(row["locid"], row["locid"]) for row in found}

    def change(self, number: int, /, **changes: Any) -> None:
        """Change members of one edit, and count it as a new edit for the overlay."""
        values = {name: _as_column(name, value) for name, value in changes.items()}
        self._database.table("outbox").update(
            number, {**values, "state": str(values["state"])} if "state" in values else values
        )
        self.touch()

    def is_still(self, row: OutboxRow) -> bool:
        """Whether an edit is as it was read: a person may have dropped or changed it meanwhile."""
        now = self.row(row.id)
        return (now.state, now.key, now.attempts) == (row.state, row.key, row.attempts)

    def begin_attempt(
        self, row: OutboxRow, *, baseline: Mapping[int, str] | None = None, journal: dict[str, Any] | None = None
    ) -> bool:
        """Note that a request leaves, once this transaction is durable; false if the edit is not as it was read.

        ``baseline`` is for a create that surely did not arrive before; one that is sent again although an earlier
        attempt may yet land keeps the moment and the baseline of that one. ``journal`` is a removal's progress.
        """
        if not self.is_still(row):
            return False
        changes: dict[str, Any] = {"state": State.SENDING, "attempts": row.attempts + 1, "problem": None}
        if row.state == State.UNKNOWN:
            changes["journal"] = {**(row.journal or {}), "resent": True}
        else:
            changes["attempted_at"], changes["attempted"] = now_text(), self.mark()
        if baseline is not None:
            changes["baseline"] = self._keep_baseline(baseline)
        if journal is not None:
            changes["journal"] = journal
        self.change(row.id, **changes)
        return True

    def undo_attempt(self, row: OutboxRow, *, sent: bool, problem: str) -> None:
        """Note that an attempt was surely not applied: the edit is as ``row`` was before it."""
        attempts = row.attempts + sent
        changes: dict[str, Any] = {"state": row.state, "attempts": attempts, "problem": problem, "journal": row.journal}
        if row.state != State.UNKNOWN:
            changes["ended_at"], changes["ended"] = now_text(), self.mark()
            changes["baseline"] = None
        self.change(row.id, **changes)

    def keep_published(self, digest: str, custom: Callable[[], Mapping[int, str]]) -> int:
        """Keep what is published, under its digest, as the baseline of the creates that are made while it is."""
        for row in self._database.query("SELECT id FROM baselines WHERE published = ?", (digest,)):
            return int(row["id"])
        number = self._keep_baseline(custom())
        self._database.execute("UPDATE baselines SET published = ? WHERE id = ?", (digest, number))
        return number

    def widen_baseline(self, row: OutboxRow, more: Mapping[int, str]) -> None:
        """Add geolocations to what a create is known not to have made."""
        self.change(row.id, baseline=self._keep_baseline({**self.baseline(row), **more}))

    def _keep_baseline(self, known: Mapping[int, str]) -> int:
        """Many creates of one push have the same baseline: it is kept once."""
        text = json.dumps({str(locid): known[locid] for locid in sorted(known)})
        for row in self._database.query("SELECT id FROM baselines WHERE locids = ? ORDER BY id DESC LIMIT 1", (text,)):
            return int(row["id"])
        table = self._database.table("baselines")
        table.insert({"locids": text})
        return int(str(table.last_pk))

    def baseline(self, row: OutboxRow) -> dict[int, str]:
        """The custom geolocations that the service had before the first attempt of a create that may have arrived.

        By locid, with the digest of the content, "" if an earlier release kept none. If there was no attempt that this
        file knows of, it is what was published when the create was made.
        """
        number = row.made if row.baseline is None else row.baseline
        for found in self._database.query("SELECT locids FROM baselines WHERE id = ?", (number,)):
            known = json.loads(found["locids"])
            return dict.fromkeys(known, "") if isinstance(known, list) else {int(key): known[key] for key in known}
        return {}

    def amend(self, row: OutboxRow, edit: Edit) -> None:
        """Change what an edit says; its kind stays. It becomes another request, so it gets another key.

        What an earlier attempt made, if it arrived, has the form in which it was sent: that is kept.
        """
        sent = list((row.journal or {}).get("sent", ()))
        if isinstance(row.edit, Create) and row.attempts and row.state != State.QUEUED:
            sent.append(row.edit.fields)
        self.change(
            row.id,
            payload=edit.payload,
            key=str(uuid.uuid4()),
            state=State.QUEUED,
            attempts=0,
            problem=None,
            journal={"sent": sent} if sent else None,
        )

    def queue_again(self, row: OutboxRow) -> None:
        """Queue a pending edit as one that no service has heard of: it becomes another request."""
        self.change(
            row.id,
            key=str(uuid.uuid4()),
            state=State.QUEUED,
            attempts=0,
            problem=None,
            journal=None,
            baseline=None,
            **dict.fromkeys(("attempted_at", "attempted", "ended_at", "ended"), None),
        )

    def leave_service(self) -> None:
        """Forget the numbers that a service gave, and what it acknowledged: another one has neither."""
        self._database.execute("UPDATE custom SET service_locid = NULL")
        self._database.execute("DELETE FROM twins")
        self._database.execute(
            "UPDATE outbox SET concluded = ? WHERE state = 'done' AND concluded IS NULL", (self.counter(),)
        )
        self.touch()

    def merge_into_replace(self, removal: OutboxRow, addition: OutboxRow, replacing: ReplaceBlock) -> bool:
        """Make one replace of a removal and the addition that follows it; false if either is not as it was read."""
        if not (self.is_still(removal) and self.is_still(addition)):
            return False
        payload = replacing.payload
        self.change(removal.id, operation=str(replacing.operation), payload=payload)
        self.change(addition.id, state=State.DROPPED, problem=f"done by edit {removal.id}, which replaces the block")
        self.record(
            "merge", str(State.QUEUED), locid=removal.locid, after={"edits": [removal.id, addition.id], **payload}
        )
        return True

    def record(
        self, what: str, outcome: str, *, locid: int | None = None, before: Any = None, after: Any = None
    ) -> None:
        """Add a line to the history in this same transaction; see `Edits.record`."""
        insert_history(self._database, what, outcome, locid=locid, before=before, after=after)

    def setting(self, name: str) -> str | None:
        """Something kept by name, or None."""
        for row in self._database.query("SELECT value FROM settings WHERE name = ?", (name,)):
            return str(row["value"])
        return None

    def keep_setting(self, name: str, value: str) -> None:
        """Keep something by name."""
        self._database.table("settings").upsert({"name": name, "value": value}, pk="name")

    def head(self) -> int:
        """A number that rises whenever the overlay may have to be compiled anew."""
        return int(next(self._database.query("SELECT value FROM counters WHERE name = 'edits'"))["value"])

    def touch(self) -> None:
        """Note that the overlay must be compiled anew."""
        self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'edits'")

    def require_sound(self) -> None:
        """Decode every row of every table.

        :raises EditsDamagedError: naming the table and the row that is not what was written
        """
        self.rows()
        for table, check in _SOUND.items():
            for row in self._database.query(f"SELECT * FROM {table}"):  # noqa: S608 - our names
                try:
                    check(row)
                except (ValueError, TypeError, LookupError, AttributeError) as error:
                    key = next(iter(row.values()))
                    raise EditsDamagedError(f"edits.db: {table} {key!r} is damaged ({error}): {RESTORING}") from error

    # Geolocations edited here

    def remember(self, locid: int, place: Geolocation | None) -> None:
        """Keep an edited geolocation as it should be, None if it is deleted."""
        fields = dict.fromkeys(FIELD_NAMES) if place is None else place.fields()
        blocks = [] if place is None else [[block.startip, block.endip] for block in place.ipblocks]
        self._database.execute(
            f"INSERT INTO custom (locid, deleted, blocks, {', '.join(FIELD_NAMES)})"  # noqa: S608
            f" VALUES (?, ?, ?{', ?' * len(FIELD_NAMES)})"
            " ON CONFLICT (locid) DO UPDATE SET deleted = excluded.deleted, blocks = excluded.blocks, "
            + ", ".join(f"{name} = excluded.{name}" for name in FIELD_NAMES),
            (locid, place is None, json.dumps(blocks), *fields.values()),
        )
        self.touch()

    def next_provisional(self) -> int:
        """A provisional locid that was never given before on this machine."""
        least = next(self._database.query("SELECT min(locid) AS least FROM custom"))["least"]
        return min(PROVISIONAL_LOCID, PROVISIONAL_LOCID if least is None else int(least)) - 1

    def aliases(self) -> dict[int, int]:
        """The service's locid of each geolocation that was created here and has one."""
        sql = "SELECT locid, service_locid FROM custom WHERE service_locid IS NOT NULL"
        found = {row["locid"]: row["service_locid"] for row in self._database.query(sql)}
        if not all(_is_custom(locid) and _is_custom(service) for locid, service in found.items()):
            self.require_sound()  # here, and not where a lookup stumbles over the number
        return found

    def created_here(self) -> frozenset[int]:
        """The service's locids of the geolocations that were created here."""
        return frozenset(service for local, service in self.aliases().items() if local != service)

    def release(self, locid: int) -> None:
        """Forget which locid the service assigned: it is deleted, and the number may be given again."""
        self._database.execute("UPDATE custom SET service_locid = NULL WHERE locid = ?", (locid,))
        self.touch()

    def assign(self, locid: int, service_locid: int) -> None:
        """Note which locid the service assigned.

        Where it was edited here under that number already (a pull may bring what a lost create made), those edits
        become edits of ``locid``.
        """
        if locid != service_locid:
            self._database.execute("UPDATE outbox SET locid = ? WHERE locid = ?", (locid, service_locid))
            self._database.execute("UPDATE custom SET service_locid = NULL WHERE locid = ?", (service_locid,))
        self._database.execute("UPDATE custom SET service_locid = ? WHERE locid = ?", (service_locid, locid))
        self.touch()


def _row(found: dict[str, Any]) -> OutboxRow:
    values = {name: found[name] for name in _COLUMNS}
    try:
        for name in _JSON:
            values[name] = None if values[name] is None else _completed(json.loads(values[name]))
        for name in _MARKS:
            values[name] = None if values[name] is None else Mark.read(values[name])
        require_shapes(values)
        edit = read_edit(values.pop("operation"), values.pop("payload"))
        return OutboxRow(**{**values, "edit": edit, "state": State(values["state"])})
    except (ValueError, TypeError) as error:
        # Taken for another kind, it would become another's request.
        raise EditsDamagedError(
            f"edits.db: edit {found['id']} is damaged ({error}): nothing is done with it; {RESTORING}"
        ) from error


def _whole(row: dict[str, Any], *names: str) -> None:
    for name in names:
        if row[name] is not None and type(row[name]) is not int:
            raise ValueError(f"{name} is not a whole number")


def _sound_baseline(row: dict[str, Any]) -> None:
    known = json.loads(row["locids"])
    if isinstance(known, dict):
        if not all(isinstance(digest, str) and int(locid) for locid, digest in known.items()):
            raise ValueError("a digest is not text")
    elif not all(type(locid) is int for locid in known):
        raise ValueError("a number is missing")


def _is_custom(locid: object) -> bool:
    return type(locid) is int and locid < 0


def _sound_custom(row: dict[str, Any]) -> None:
    _whole(row, "deleted")
    for name in ("locid", "service_locid"):
        if row[name] is not None and not _is_custom(row[name]):
            raise ValueError(f"{name} is not a number below zero")
    for first, last in json.loads(row["blocks"]):
        IPBlock.parse(first, last)


def _sound_history(row: dict[str, Any]) -> None:
    for name in ("before", "after"):
        if row[name] is not None:
            json.loads(row[name])


#: What each row of the other tables must be.
_SOUND: dict[str, Callable[[dict[str, Any]], None]] = {
    "baselines": _sound_baseline,
    "custom": _sound_custom,
    "counters": lambda row: _whole(row, "value"),
    "history": _sound_history,
    "twins": lambda row: _whole(row, "locid", "edit"),
}


def _was_sent_again(row: OutboxRow) -> bool:
    journal = row.journal or {}
    return bool(journal.get("resent") or journal.get("sent"))


def _as_column(name: str, value: Any) -> Any:
    if isinstance(value, Mark):
        return value.text
    return json.dumps(value) if name in _JSON and value is not None else value


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _completed(value: Any) -> Any:
    """What a row holds; of a field that came after it was written nothing is known."""
    if isinstance(value, dict) and isinstance(value.get("fields"), dict):
        value["fields"] = {**{name: UNKNOWN[name] for name in LATER_NAMES}, **value["fields"]}
    if isinstance(value, dict) and "theirs" in value:
        value["theirs"] = _completed(value["theirs"])
    return value


def insert_history(
    database: "Database",
    what: str,
    outcome: str,
    *,
    locid: int | None = None,
    before: Any = None,
    after: Any = None,
) -> None:
    """Add a line to the history: when (now), what, to which geolocation, before, after, outcome."""
    database.table("history").insert(
        {
            "at": now_text(),
            "what": what,
            "locid": locid,
            "before": None if before is None else json.dumps(before, sort_keys=True),
            "after": None if after is None else json.dumps(after, sort_keys=True),
            "outcome": outcome,
        }
    )


def migrate_m002(database: "Database") -> None:
    """The tables of the outbox."""
    database.table("custom").create(
        {
            "locid": int,
            "service_locid": int,
            "deleted": int,
            "blocks": str,
            **{field.name: column_type(field) for field in FIELDS if not field.later},
        },
        pk="locid",
        not_null={"deleted", "blocks"},
    )
    database.table("custom").create_index(["service_locid"], unique=True)
    database.table("outbox").create(
        {
            "id": int,
            "key": str,
            "locid": int,
            "operation": str,
            "payload": str,
            "base": str,
            "state": str,
            "attempts": int,
            "created_at": str,
            "attempted_at": str,
            "ended_at": str,
            "acknowledged_at": str,
            "baseline": int,
            "journal": str,
            "problem": str,
        },
        pk="id",
        not_null={"key", "locid", "operation", "payload", "state", "attempts", "created_at"},
        foreign_keys=[("locid", "custom", "locid")],
    )
    database.table("outbox").create_index(["key"], unique=True)
    database.table("outbox").create_index(["locid", "id"])
    database.table("outbox").create_index(["state", "id"])
    database.table("baselines").create({"id": int, "locids": str}, pk="id", not_null={"locids"})
    database.table("settings").create({"name": str, "value": str}, pk="name")
    database.table("counters").create({"name": str, "value": int}, pk="name")
    database.table("counters").insert({"name": "edits", "value": 0})
