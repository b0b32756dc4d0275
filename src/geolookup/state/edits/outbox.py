"""The outbox: edits made here, each a row that goes to the service exactly as meant, or waits for a person."""

import json
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from geolookup.errors import EditError, StateDamagedError
from geolookup.fields import FIELD_NAMES, FIELDS, LATER_NAMES, UNKNOWN
from geolookup.model import PROVISIONAL_LOCID, Geolocation
from geolookup.state.clock import now_text
from geolookup.state.edits.operations import FREEING, Edit, Operation, ReplaceBlock, read_edit
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

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in _COLUMNS} | {"description": self.describe()}


_COLUMNS = (
    *("id", "key", "locid", "operation", "payload", "base", "state", "attempts", "created_at", "attempted_at"),
    *("ended_at", "acknowledged_at", "baseline", "journal", "problem"),
)
_JSON = ("payload", "base", "journal")


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
    ) -> OutboxRow:
        """Add an edit, queued."""
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
            }
        )
        return self.row(int(str(table.last_pk)))

    def row(self, number: int) -> OutboxRow:
        """One edit.

        :raises EditError: where there is none of that number
        """
        for found in self._database.query("SELECT * FROM outbox WHERE id = ?", (number,)):
            return _row(found)
        raise EditError(f"the outbox has no edit {number}: see `geolookup outbox list`")

    def rows(self, *states: State, locid: int | None = None) -> list[OutboxRow]:
        """The edits in these states (all, where none is named), oldest first."""
        conditions, parameters = ["1"], []
        if states:
            conditions.append(f"state IN ({_marks(states)})")
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
            f" AND (operation = ? AND state IN ({_marks(UNDER_WAY)})"
            f" OR operation IN ({_marks(FREEING)}) AND state IN ({_marks(PENDING_STATES)})) ORDER BY id"
        )
        texts = map(str, (Operation.CREATE, *UNDER_WAY, *FREEING, *PENDING_STATES))
        return [_row(row) for row in self._database.query(sql, (locid, *texts))]

    def rows_to_lay(self, began_at: str) -> list[OutboxRow]:
        """The edits that a list begun at that moment may lack, oldest first."""
        sql = (
            "SELECT * FROM outbox WHERE state <> 'dropped'"
            " AND (acknowledged_at IS NULL OR acknowledged_at >= ?) ORDER BY id"
        )
        return [_row(row) for row in self._database.query(sql, (began_at,))]

    def resent_creates(self) -> list[OutboxRow]:
        """Creates that are over, and were sent again although an earlier attempt may yet land; oldest first."""
        sql = (
            "SELECT * FROM outbox WHERE operation = ? AND journal IS NOT NULL"
            " AND state IN ('done', 'rejected', 'dropped') ORDER BY id"
        )
        found = self._database.query(sql, (str(Operation.CREATE),))
        return [row for row in map(_row, found) if (row.journal or {}).get("resent")]

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have."""
        sql = "SELECT locid FROM outbox WHERE operation = ? AND state IN ('sending', 'unknown', 'done')"
        aliases = self.aliases()
        found = self._database.query(sql, (str(Operation.DELETE),))
        return {aliases.get(row["locid"], row["locid"]) for row in found}

    def change(self, number: int, **changes: Any) -> None:
        """Change members of one edit, and count it as a new edit for the overlay."""
        values = {
            name: json.dumps(value) if name in _JSON and value is not None else value for name, value in changes.items()
        }
        self._database.table("outbox").update(
            number, {**values, "state": str(values["state"])} if "state" in values else values
        )
        self.touch()

    def is_still(self, row: OutboxRow) -> bool:
        """Whether an edit is as it was read: a person may have dropped or changed it meanwhile."""
        now = self.row(row.id)
        return (now.state, now.key, now.attempts) == (row.state, row.key, row.attempts)

    def begin_attempt(
        self, row: OutboxRow, *, baseline: Iterable[int] | None = None, journal: dict[str, Any] | None = None
    ) -> bool:
        """Note that a request leaves, once this transaction is durable; false where the edit is not as it was read.

        ``baseline`` is for a create that surely did not arrive before; one that is sent again although an earlier
        attempt may yet land keeps the moment and the baseline of that one. ``journal`` is a removal's progress.
        """
        if not self.is_still(row):
            return False
        changes: dict[str, Any] = {"state": State.SENDING, "attempts": row.attempts + 1, "problem": None}
        if row.state == State.UNKNOWN:
            changes["journal"] = {**(row.journal or {}), "resent": True}
        else:
            changes["attempted_at"] = now_text()
        if baseline is not None:
            changes["baseline"] = self._keep_baseline(sorted(baseline))
        if journal is not None:
            changes["journal"] = journal
        self.change(row.id, **changes)
        return True

    def undo_attempt(self, row: OutboxRow, *, sent: bool, problem: str) -> None:
        """Note that an attempt was surely not applied: the edit is as ``row`` was before it."""
        attempts = row.attempts + sent
        changes: dict[str, Any] = {"state": row.state, "attempts": attempts, "problem": problem, "journal": row.journal}
        if row.state != State.UNKNOWN:
            changes["ended_at"] = now_text()
            changes["baseline"] = None
        self.change(row.id, **changes)

    def _keep_baseline(self, locids: list[int]) -> int:
        """Many creates of one push have the same baseline: it is kept once."""
        text = json.dumps(locids)
        for row in self._database.query("SELECT id FROM baselines WHERE locids = ? ORDER BY id DESC LIMIT 1", (text,)):
            return int(row["id"])
        table = self._database.table("baselines")
        table.insert({"locids": text})
        return int(str(table.last_pk))

    def baseline(self, row: OutboxRow) -> frozenset[int]:
        """The custom locids that the service had before the first attempt of a create that may have arrived."""
        for found in self._database.query("SELECT locids FROM baselines WHERE id = ?", (row.baseline,)):
            return frozenset(json.loads(found["locids"]))
        return frozenset()

    def amend(self, row: OutboxRow, edit: Edit) -> None:
        """Change what an edit says; its kind stays. It becomes another request, so it gets another key."""
        self.change(
            row.id,
            payload=edit.payload,
            key=str(uuid.uuid4()),
            state=State.QUEUED,
            attempts=0,
            problem=None,
            journal=None,
        )

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

    # Geolocations edited here

    def remember(self, locid: int, place: Geolocation | None) -> None:
        """Keep an edited geolocation as it should be, None where it is deleted."""
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
        return {row["locid"]: row["service_locid"] for row in self._database.query(sql)}

    def created_here(self) -> frozenset[int]:
        """The service's locids of the geolocations that were created here."""
        return frozenset(service for local, service in self.aliases().items() if local != service)

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
        edit = read_edit(values.pop("operation"), values.pop("payload"))
        return OutboxRow(**{**values, "edit": edit, "state": State(values["state"])})
    except (ValueError, TypeError) as error:
        # Taken for another kind, it would become another's request.
        raise StateDamagedError(
            f"edits.db: edit {found['id']} is damaged ({error}): nothing is done with it; restore edits.backup.1.db"
        ) from error


def _marks(values: Collection[object]) -> str:
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
