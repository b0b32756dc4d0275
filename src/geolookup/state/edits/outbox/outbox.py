"""The outbox: edits made here, each a row that goes to the service exactly as meant, or waits for a person."""

import functools
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolookup.model.errors import EditError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base import marks
from geolookup.state.base.clock import now_text
from geolookup.state.base.marks import Begun, Mark
from geolookup.state.base.sqlite import END_OF_INTEGERS
from geolookup.state.edits.outbox.baselines import Baselines, Twins
from geolookup.state.edits.outbox.history import insert_history
from geolookup.state.edits.outbox.operations import FREEING, Create, Edit, Operation, ReplaceBlock
from geolookup.state.edits.outbox.row import (
    PENDING_STATES,
    UNDER_WAY,
    OutboxRow,
    State,
    as_column,
    read_row,
)
from geolookup.state.edits.outbox.sent import Sent
from geolookup.state.edits.outbox.soundness import is_custom, newest_mark, require_sound
from geolookup.state.edits.outbox.untold import Untold

if TYPE_CHECKING:
    from sqlite_utils import Database


#: The setting that says which machine edited or pushed last.
MACHINE = "machine"


class Outbox:
    """The outbox within one transaction of edits.db.

    ``head`` is a number that rises whenever the overlay may have to be compiled anew, ``counter`` that of the newest
    mark. No other process changes them meanwhile, so they are read once.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._read: dict[int, OutboxRow] = {}
        self._read_at = -1
        self.head, self.counter = self._counters()

    @functools.cached_property
    def baselines(self) -> Baselines:
        """The geolocations that creates are known not to have made."""
        return Baselines(self._database)

    @property
    def sent(self) -> Sent:
        """The sent edits, and the form in which the service stored them."""
        return Sent(self._database)

    @property
    def twins(self) -> Twins:
        """The geolocations that creates made in addition to their own."""
        return Twins(self._database)

    @property
    def untold(self) -> Untold:
        """Notices that were not shown yet."""
        return Untold(self._database)

    def add(
        self,
        edit: Edit,
        locid: int,
        *,
        base: dict[str, Any] | None,
        content: Mapping[str, Any] | None,
        key: str | None = None,
        made: int | None = None,
    ) -> OutboxRow:
        """Add an edit, queued, and keep its geolocation as it is after it: ``content``, as in `remember`.

        ``made`` is the number of `keep_published` for a create.
        """
        self.remember(locid, content)  # first, since the row refers to it
        if self.setting(MACHINE) is None:  # so that a copy of the state is noticed, though nothing was pushed before
            self.keep_setting(MACHINE, marks.machine_id())
        values: dict[str, Any] = {
            "key": key or str(uuid.uuid4()),
            "locid": locid,
            "created_at": now_text(),
            "attempts": 0,
            "made": made,
        }
        table = self._database.table("outbox")
        table.insert(
            {
                **values,
                "operation": str(edit.operation),
                "payload": json.dumps(edit.payload),
                "base": None if base is None else json.dumps(base),
                "state": str(State.QUEUED),
            }
        )
        return OutboxRow(**values, id=int(str(table.last_pk)), edit=edit, base=base, state=State.QUEUED)

    def row(self, number: int) -> OutboxRow:
        """One edit.

        :raises EditError: if there is none of that number
        """
        if abs(number) < END_OF_INTEGERS:
            for found in self._database.query("SELECT * FROM outbox WHERE id = ?", (number,)):
                return read_row(found)
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
        return self._rows(" AND ".join(conditions), parameters)

    def _rows(self, where: str, parameters: Sequence[object]) -> list[OutboxRow]:
        """The edits for which this holds, oldest first; read again only if an edit changed since they were."""
        if self.head != self._read_at:
            self._read.clear()
            self._read_at = self.head
        if self._read:
            sql = f"SELECT id FROM outbox WHERE {where} ORDER BY id"  # noqa: S608 - no values in it
            numbers = [number for (number,) in self._database.execute(sql, parameters)]
            if all(number in self._read for number in numbers):
                return [self._read[number] for number in numbers]
        sql = f"SELECT * FROM outbox WHERE {where} ORDER BY id"  # noqa: S608 - no values in it
        found = [read_row(columns) for columns in self._database.query(sql, parameters)]
        self._read.update((row.id, row) for row in found)
        return found

    def rows_in_the_way(self) -> list[OutboxRow]:
        """The pending edits that others may have to wait for: creates under way, and what takes blocks away.

        Of a thousand edits that only create and add, there are none.
        """
        sql = (
            f"SELECT * FROM outbox WHERE operation = ? AND state IN ({_places(UNDER_WAY)})"  # noqa: S608 - no values
            f" OR operation IN ({_places(FREEING)}) AND state IN ({_places(PENDING_STATES)}) ORDER BY id"
        )
        texts = map(str, (Operation.CREATE, *UNDER_WAY, *FREEING, *PENDING_STATES))
        return [read_row(row) for row in self._database.query(sql, list(texts))]

    def pending_among(self, numbers: Collection[int]) -> dict[int, OutboxRow]:
        """Those of these edits that are not over, by number."""
        sql = (
            f"SELECT * FROM outbox WHERE id IN ({_places(numbers)})"  # noqa: S608 - no values in it
            f" AND state IN ({_places(PENDING_STATES)})"
        )
        found = self._database.query(sql, [*numbers, *map(str, PENDING_STATES)])
        return {row.id: row for row in map(read_row, found)}

    def rows_to_lay(self, begun: Begun) -> list[OutboxRow]:
        """The edits that a list begun then may lack, oldest first: those for which no list until then is conclusive."""
        where = "state <> 'dropped' AND (acknowledged IS NULL OR concluded IS NULL OR concluded > ?)"
        return self._rows(where, (begun.counter,))

    def to_lay(self, begun: Begun) -> tuple[list[OutboxRow], dict[int, int]]:
        """The edits that `lay_over` lays over a list begun then, and their aliases."""
        return self.rows_to_lay(begun), self.aliases()

    # Marks

    def mark(self) -> Mark:
        """A new mark: this moment, with a counter above all before."""
        self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'marks'")
        self.counter += 1
        return Mark.now(self.counter)

    def found_here(self, found: Mark) -> None:
        """Count all ages from now: the marks are another machine's, whose clocks say nothing here.

        Their counters stay, which say what happened before what. So do the moments of first attempts: how old a key is,
        nobody can say here.
        """
        for name in ("ended", "acknowledged"):
            sql = f"SELECT id, {name} FROM outbox WHERE {name} IS NOT NULL AND concluded IS NULL"  # noqa: S608 - our names
            for row in list(self._database.query(sql)):
                mark = replace(found, counter=Mark.read(row[name]).counter)
                self._database.execute(f"UPDATE outbox SET {name} = ? WHERE id = ?", (mark.text, row["id"]))  # noqa: S608
        self._read.clear()

    def lift(self, *, edits: int, counter: int) -> None:
        """Raise both counters above these, so that what was published from a file that is gone counts as older.

        That of marks also above those of its own edits: else no list would ever be newer than these.
        """
        for name, least in (("edits", edits), ("marks", max(counter, newest_mark(self._database)))):
            self._database.execute("UPDATE counters SET value = max(value, ?) + 1 WHERE name = ?", (least, name))
        self.head, self.counter = self._counters()

    # Edits and their attempts

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have."""
        sql = "SELECT locid, number FROM outbox WHERE operation = ? AND state IN ('sending', 'unknown', 'done')"
        aliases = self.aliases()
        found = self._database.query(sql, (str(Operation.DELETE),))
        return {row["number"] or aliases.get(row["locid"], row["locid"]) for row in found}

    def change(self, number: int, /, **changes: Any) -> None:
        """Change members of one edit, and count it as a new edit for the overlay."""
        values = [str(value) if name == "state" else as_column(name, value) for name, value in changes.items()]
        # Not sqlite-utils, which looks through the schema first; a push does this twice for each edit.
        sql = f"UPDATE outbox SET {', '.join(f'{name} = ?' for name in changes)} WHERE id = ?"  # noqa: S608 - our names
        self._database.execute(sql, (*values, number))
        self.touch()

    def is_still(self, row: OutboxRow) -> bool:
        """Tell whether an edit is as it was read: a person may have dropped or changed it meanwhile."""
        sql = "SELECT state, key, attempts FROM outbox WHERE id = ?"
        return bool(self._database.execute(sql, (row.id,)).fetchone() == (str(row.state), row.key, row.attempts))

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
        elif not row.was_put_off:
            changes["attempted_at"], changes["attempted"] = now_text(), self.mark()
        if baseline is not None and not row.was_put_off:
            # What a person was shown stays known, even if the list is a replica's that does not have it yet.
            shown = self.baselines.of(row) if (row.journal or {}).get("resent") else {}
            changes["baseline"] = self.baselines.keep({**shown, **baseline} if shown else baseline)
        if journal is not None:
            changes["journal"] = journal
        self.change(row.id, **changes)
        return True

    def withdraw(self, row: OutboxRow) -> None:
        """Note that the request of an attempt never left: the edit is as ``row`` was before it."""
        names = ("state", "attempts", "problem", "journal", "baseline", "attempted_at", "attempted")
        self.change(row.id, **{name: getattr(row, name) for name in names})

    def undo_attempt(self, row: OutboxRow, *, sent: bool, problem: str) -> None:
        """Note that an attempt was surely not applied: the edit is as ``row`` was before it."""
        changes: dict[str, Any] = {"journal": row.journal}
        if row.state != State.UNKNOWN:
            changes["baseline"] = row.baseline
        self._back_to(row, attempts=row.attempts + sent, problem=problem, **changes)

    def put_off(self, row: OutboxRow, *, problem: str) -> None:
        """Note that the service asked for an attempt at another time: the edit is as ``row`` was before it.

        What a proxy sent again may have been applied all the same. So what tells of that stays: how far a removal is,
        and what the service had before a create.
        """
        changes: dict[str, Any] = {}
        if isinstance(row.edit, Create):
            changes["journal"] = {**(self.row(row.id).journal or {}), "put_off": True}
        self._back_to(row, attempts=row.attempts + 1, problem=problem, **changes)

    def _back_to(self, row: OutboxRow, **changes: Any) -> None:
        if row.state != State.UNKNOWN:
            changes["ended_at"], changes["ended"] = now_text(), self.mark()
        self.change(row.id, state=row.state, **changes)

    def made_against(self, row: OutboxRow, theirs: dict[str, Any]) -> OutboxRow:
        """Note that a person has an edit overwrite this, as if it had been made against it; the edit as it is then.

        What the service had is known then to be gone, or to be from before, should a replica still show it.
        """
        if not self.is_still(row):
            return row
        self.change(row.id, base=theirs)
        return self.row(row.id)

    def widen_baseline(self, row: OutboxRow, more: Mapping[int, str]) -> None:
        """Add geolocations to what a create is known not to have made."""
        self.change(row.id, baseline=self.baselines.keep({**self.baselines.of(row), **more}))

    def amend(self, row: OutboxRow, edit: Edit) -> None:
        """Change what an edit says; its kind stays. It becomes another request, so it gets another key.

        What an earlier attempt made, if it arrived, has the form in which it was sent: that is kept.
        """
        sent = list((row.journal or {}).get("sent", ()))
        if isinstance(row.edit, Create) and row.attempts and (row.state != State.QUEUED or row.was_put_off):
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
            "UPDATE outbox SET concluded = ? WHERE state = 'done' AND concluded IS NULL", (self.counter,)
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
        self,
        what: str,
        outcome: str,
        *,
        locid: int | None = None,
        before: Any = None,
        after: Any = None,
        step: int | None = None,
    ) -> None:
        """Add a line to the history in this same transaction; see `Edits.record`."""
        insert_history(self._database, what, outcome, locid=locid, before=before, after=after, step=step)

    def notice(self, row: OutboxRow, number: int, reason: str, *, after: Any = None) -> dict[str, Any]:
        """Note what a person must be told, in the history, and until a run has ended that tells it.

        :returns: its line of a report: the ``edit``, the ``locid`` (``number``) and the ``reason``
        """
        self.record("notice", reason, locid=row.locid, after=after)
        told = {"edit": row.id, "locid": number, "reason": reason}
        self.untold.add(told)
        return told

    def setting(self, name: str) -> str | None:
        """Something kept by name, or None."""
        for row in self._database.query("SELECT value FROM settings WHERE name = ?", (name,)):
            return str(row["value"])
        return None

    def keep_setting(self, name: str, value: str) -> None:
        """Keep something by name."""
        self._database.table("settings").upsert({"name": name, "value": value}, pk="name")

    def _counters(self) -> tuple[int, int]:
        found = {row["name"]: int(row["value"]) for row in self._database.query("SELECT name, value FROM counters")}
        return found["edits"], found["marks"]

    def touch(self) -> None:
        """Note that the overlay must be compiled anew."""
        self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'edits'")
        self.head += 1

    # Geolocations edited here

    def remember(self, locid: int, content: Mapping[str, Any] | None) -> None:
        """Keep an edited geolocation as it should be, as `payload.described` has it; None if it is deleted."""
        fields, blocks = (dict.fromkeys(FIELD_NAMES), []) if content is None else (content["fields"], content["blocks"])
        self._database.execute(
            f"INSERT INTO custom (locid, deleted, blocks, {', '.join(FIELD_NAMES)})"  # noqa: S608
            f" VALUES (?, ?, ?{', ?' * len(FIELD_NAMES)})"
            " ON CONFLICT (locid) DO UPDATE SET deleted = excluded.deleted, blocks = excluded.blocks, "
            + ", ".join(f"{name} = excluded.{name}" for name in FIELD_NAMES),
            (locid, content is None, json.dumps(blocks), *fields.values()),
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
        if not all(is_custom(locid) and is_custom(service) for locid, service in found.items()):
            require_sound(self._database)  # here, before a lookup stumbles over the number
        return found

    def service_locid(self, locid: int) -> int:
        """The number that the service knows a geolocation by; the same one if it was not created here, or has none."""
        sql = "SELECT service_locid FROM custom WHERE locid = ? AND service_locid IS NOT NULL"
        for row in self._database.query(sql, (locid,)):
            if not (is_custom(locid) and is_custom(row["service_locid"])):
                require_sound(self._database)
            return int(row["service_locid"])
        return locid

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


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
