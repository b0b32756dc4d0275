"""The outbox: the journal of the edits made here, its marks and counters, the history, and what is kept by name."""

import functools
import os
from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from msgspec.structs import replace

from geolookup.model.errors import EditError
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base import actor, marks
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current
from geolookup.state.base.failures import PUBLISH_LOCK
from geolookup.state.base.marks import Mark
from geolookup.state.base.sqlite import END_OF_INTEGERS
from geolookup.state.edits.outbox.baselines import Baselines, Twins
from geolookup.state.edits.outbox.kept import LIVING, require_sound
from geolookup.state.edits.outbox.payload import described, written
from geolookup.state.edits.outbox.row import COLUMNS, OutboxRow, State, as_columns, decoded, read_row
from geolookup.state.edits.outbox.schema import insert, update
from geolookup.state.edits.outbox.seal import digest
from geolookup.state.edits.places.place import Content, Intent

#: The setting that says which machine edited or pushed last, which file, and in which directory.
_MACHINE = "machine"
#: The setting that says which service edits were pushed to last.
UPSTREAM_URL = "upstream_url"
#: Provisional locids that one transaction gives at most, and that are skipped at most: JavaScript knows no others.
_MOST_IN_ONE_EDIT, _MOST_SKIPPED = 10**6, 7 * 10**15
#: The lines of the history that a person must be told of, and the setting that has the newest that was told.
_NOTICE, _TOLD = "notice", "told"
#: The setting that has the `Outbox.line` of the file whose place this one took by a person's will.
_INSTEAD = "instead"


class Newest(NamedTuple):
    """The end of edits.db as a publish read it: its `Outbox.head` and its newest `Outbox.line`."""

    edits: int = 0
    line: str = ""


def _among(states: Sequence[State]) -> str:
    return f"state IN ({', '.join('?' * len(states))})"


class Outbox:
    """The outbox within one transaction of edits.db.

    ``head`` is a number that rises whenever the overlay may have to be compiled anew, ``counter`` that of the newest
    mark. No other process changes them meanwhile, so they are read once.
    """

    def __init__(self, database: Connection) -> None:
        self._database = database
        self.head, self.counter = self._counters()
        self._mark: Mark | None = None
        self._is_touched = False
        #: The geolocations that creates are known not to have made, and those that they made in addition to their own.
        self.baselines, self.twins = Baselines(database), Twins(database)
        #: The `step` that this transaction is, None as long as it has changed nothing.
        self.own_step: int | None = None

    @functools.cached_property
    def moment(self) -> str:
        """This moment, the same for all that a push notes in this transaction."""
        return now_text()

    @property
    def newest(self) -> Newest:
        """The end of the file as this transaction reads it."""
        return Newest(self.head, self.line())

    def line(self, number: int | None = None) -> str:
        """The newest line of the history, or that of a number, as its number and its digest; "" if there is none.

        No line ever changes, and no other state has it: a file that has it has all that was done before, too.
        """
        sql = "SELECT * FROM history WHERE id = coalesce(?, (SELECT max(id) FROM history))"
        for row in self._database.execute(sql, (number,)):
            return f"{row[0]} {digest(tuple(row)):x}"
        return ""

    def follows(self, current: Current) -> bool:
        """True if this is the file that CURRENT was published and pushed from, and has not gone back since."""
        if self.head < current.edits or self.counter < current.pushed:
            return False
        return current.line in ("", self.line_like(current.line), self.setting(_INSTEAD))

    def line_like(self, other: str) -> str:
        """The line that has the number of that one, as `line`."""
        return self.line(int(other.partition(" ")[0] or 0))

    @property
    def step(self) -> int:
        """The number of the step that this transaction is: all that it edits is undone together."""
        if self.own_step is None:
            self.own_step = self._database.execute("INSERT INTO steps DEFAULT VALUES").lastrowid or 0
        return self.own_step

    # Edits

    def add(self, intent: Intent, locid: int) -> OutboxRow:
        """Add an edit of a place, queued."""
        if self.setting(_MACHINE) is None:  # so that a copy of the state is noticed, though nothing was pushed before
            self.claim()
        values: dict[str, Any] = {"locid": locid, "created_at": now_text(), "attempts": 0, "state": State.QUEUED}
        number = insert(self._database, "outbox", as_columns({**values, "intent": intent}))
        self.touch()
        return OutboxRow(**values, id=number, intent=replace(intent, id=number))

    def row(self, number: int) -> OutboxRow:
        """One edit.

        :raises EditError: if there is none of that number
        """
        if abs(number) < END_OF_INTEGERS:
            for found in self.where("id = ?", (number,)):
                return found
        raise EditError(f"the outbox has no edit {number}: see `geolookup outbox list`")

    def rows(self, *states: State) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first."""
        return self.where(_among(states) if states else "1", states)

    def where(self, condition: str, parameters: Sequence[object] = ()) -> list[OutboxRow]:
        """The edits for which this holds, oldest first."""
        sql = f"SELECT {COLUMNS} FROM outbox WHERE {condition} ORDER BY id"  # noqa: S608 - no values in it
        return [read_row(found) for found in self._database.execute(sql, parameters)]

    def newest_edit(self) -> int:
        """The number of the newest edit, 0 if there is none."""
        return int(self._database.execute("SELECT coalesce(max(id), 0) FROM outbox").fetchone()[0])

    def states(self, *states: State) -> list[tuple[int, str]]:
        """The number and the state of each edit in these states, oldest first."""
        sql = f"SELECT id, state FROM outbox WHERE {_among(states)} ORDER BY id"  # noqa: S608 - ours
        return list(self._database.execute(sql, states))

    def count(self, *states: State) -> int:
        """How many edits are in these states."""
        sql = f"SELECT count(*) FROM outbox WHERE {_among(states)}"  # noqa: S608 - ours
        return int(self._database.execute(sql, states).fetchone()[0])

    def change(self, number: int, /, **changes: Any) -> None:
        """Change members of one edit, and count it as a new edit for the overlay."""
        update(self._database, "outbox", number, as_columns(changes))
        self.touch()

    def changed(self, row: OutboxRow, **changes: Any) -> OutboxRow:
        """An edit with these members, which are written."""
        if not changes:
            return row
        self.change(row.id, **changes)
        return replace(row, **changes)

    def deleted_here(self) -> dict[int, int]:
        """The service's number of each geolocation that it deleted for this machine, with the number here."""
        sql = "SELECT number, locid FROM outbox WHERE number IS NOT NULL ORDER BY id"
        return dict(self._database.execute(sql))

    def stored_differently(self) -> list[OutboxRow]:
        """The newest create or update of each geolocation that the service stored in another form than it was sent."""
        newest = "SELECT max(id) FROM outbox WHERE state = 'done' AND operation IN ('create', 'update') GROUP BY locid"
        found = self.where(f"id IN ({newest}) AND stored IS NOT NULL")
        return [row for row in found if row.stored != row.payload["fields"]]

    # Marks

    def mark(self) -> Mark:
        """A new mark: this moment, with a counter above all before. A transaction is one moment, and has one."""
        if self._mark is None:
            self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'marks'")
            self.counter += 1
            self._mark = Mark.now(self.counter)
        return self._mark

    def claim(self) -> str | None:
        """Note of which machine, file and directory the edits are: what to say if they were of others, else None."""
        own = this, inode, here = marks.machine_id(), *self._file()
        found = self._claimed()
        machine, file, home = found or own
        if found != own:
            self.keep_setting(_MACHINE, " ".join(own))
        twice = "pushes too, what waits in both is sent twice"
        if machine != this:
            self._found_here(self.mark())
            return f"this state is from another machine: if it is a copy, and that machine {twice}"
        # What is not there any more was moved here, and a directory may have several paths.
        if not os.path.exists(os.path.join(home, "edits.db")):
            return None
        if os.path.samefile(home, here):
            if file in (inode, f"{inode.partition('-')[0]}-0"):
                return None
            return (
                "this state was copied here: if it is an older one that was put back, what was pushed, and undone or "
                "changed since, is sent again (`state backup` and `restore` prevent that)"
            )
        return f"this state is a copy of {home}: if that {twice}"

    def _claimed(self) -> tuple[str, str, str] | None:
        """Of which machine, file and directory the edits are; None if that was never noted, or somebody changed it."""
        machine, _, rest = (self.setting(_MACHINE) or "").partition(" ")
        file, _, home = rest.partition(" ")
        return (machine, file, home) if home else None

    def _found_here(self, found: Mark) -> None:
        """Count all ages from now: the marks are another machine's, whose clocks say nothing here.

        Their counters stay, which say what happened before what. So do the moments of first attempts: how old a key is,
        nobody can say here.
        """
        clock = "json_set(request, '$.ended.boot', ?, '$.ended.boot_s', ?)"
        sql = f"UPDATE requests SET request = {clock} WHERE ended IS NOT NULL"  # noqa: S608 - our names
        self._database.execute(sql, (found.boot, found.boot_s))

    def lift(self, *, edits: int, counter: int, line: str) -> None:
        """Raise both counters above these, so that what was published from a file that is gone counts as older.

        ``line`` is the newest line that was published from that: this file stands for it, though it lacks it.
        That of marks also above those of its own edits: else no list would ever be newer than these.
        """
        if (found := self._claimed()) is not None:  # it is put there by a person's will
            machine, _, home = found
            self.keep_setting(_MACHINE, f"{machine} {self._file()[0]} {home}")
        for name, least in (("edits", edits), ("marks", max(counter, self.newest_mark()))):
            self._database.execute("UPDATE counters SET value = max(value, ?) + 1 WHERE name = ?", (least, name))
        self.keep_setting(_INSTEAD, line)
        self.head, self.counter = self._counters()
        self.skip_numbers(self.head)

    def newest_mark(self) -> int:
        """The highest counter that anything has of a moment or of a list, 0 if nothing has any."""
        counters = ["max(concluded) FROM outbox", "max(seen) FROM places"]
        counters += [f"max(json_extract(request, '$.{mark}.counter')) FROM requests" for mark in ("attempted", "ended")]
        found = self._database.execute(" UNION ALL ".join(f"SELECT {each}" for each in counters))
        return max(int(counter or 0) for (counter,) in found)

    # Numbers

    def next_provisional(self) -> int:
        """A provisional locid that was never given before on this machine."""
        least = self._newest_provisional() - 1
        self.keep_setting("provisional", str(least))
        return least

    def _newest_provisional(self) -> int:
        if (least := self.setting("provisional")) is not None:
            return int(least)
        (found,) = self._database.execute("SELECT min(id) FROM places").fetchone()
        return PROVISIONAL_LOCID if found is None else min(PROVISIONAL_LOCID, int(found))

    def skip_numbers(self, edits: int) -> None:
        """Give no provisional locid again that a file which is gone has given, whose counter of edits was that.

        A step of the counter is a transaction, and a sheet of sites is one: it may have given a million.
        """
        least = PROVISIONAL_LOCID - min(edits * _MOST_IN_ONE_EDIT, _MOST_SKIPPED)
        self.keep_setting("provisional", str(min(self._newest_provisional(), least)))

    def aliases(self) -> dict[int, int]:
        """The service's locid of each geolocation that has one, and another number here."""
        sql = f"SELECT id, number FROM places WHERE number IS NOT NULL AND number <> id AND {LIVING}"  # noqa: S608 - ours
        found = dict(self._database.execute(sql))
        if not all(type(number) is int for number in found.values()):
            require_sound(self._database)  # here, before a lookup stumbles over the number
        return found

    def numbers(self) -> dict[int, int]:
        """The numbers that are bound to places of ours, each with the place."""
        sql = f"SELECT number, id FROM places WHERE number IS NOT NULL AND {LIVING}"  # noqa: S608 - our names
        return dict(self._database.execute(sql))

    def has_number(self, number: int) -> bool:
        """True if a number is bound to a place of ours."""
        sql = f"SELECT 1 FROM places WHERE number = ? AND {LIVING}"  # noqa: S608 - our names
        return self._database.execute(sql, (number,)).fetchone() is not None

    # The history, and what is kept by name

    def record(self, what: str, outcome: str, **more: Any) -> None:
        """Add a line to the history in this same transaction; see `insert_history`."""
        insert_history(self._database, what, outcome, at=self.moment, **more)

    def notice(self, edit: int, place: int, number: int, reason: str) -> dict[str, Any]:
        """Note what a person must be told of a place, in the history; it is `untold` until a run ends that tells it.

        :returns: its line of a report: the ``edit`` (0 if it is about none), the ``locid`` (``number``), the ``reason``
        """
        told = {"edit": edit, "locid": number, "reason": reason}
        self.record(_NOTICE, reason, locid=place, after=told)
        return told

    def untold(self) -> list[dict[str, Any]]:
        """The notices of a run that is under way, or that died before it told them, oldest first."""
        sql = "SELECT after FROM history WHERE what = ? AND id > ? ORDER BY id"
        found = self._database.execute(sql, (_NOTICE, int(self.setting(_TOLD) or 0)))
        return [dict(decoded(after)) for (after,) in found]

    def told(self) -> None:
        """Note that a run has ended which told all notices."""
        (newest,) = self._database.execute("SELECT max(id) FROM history").fetchone()
        self.keep_setting(_TOLD, str(newest))

    def setting(self, name: str) -> str | None:
        """Something kept by name, or None."""
        for (value,) in self._database.execute("SELECT value FROM settings WHERE name = ?", (name,)):
            return str(value)
        return None

    def keep_setting(self, name: str, value: str) -> None:
        """Keep something by name."""
        self._database.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (name, value))

    def _file(self) -> tuple[str, str]:
        """The file of edits.db, and its directory: of a copy in memory neither is kept.

        It is the file that its inode names, beside a lock that nothing ever writes: what is copied over a directory
        keeps the inodes, and an inode that is free is given again; but nobody can write when that was changed last.
        """
        path = self._database.execute("PRAGMA database_list").fetchone()[2]
        if not path:
            return "", ""
        home = os.path.dirname(path)
        try:
            written = os.stat(os.path.join(home, PUBLISH_LOCK)).st_ctime_ns
        except FileNotFoundError:
            written = 0
        return f"{os.stat(path).st_ino}-{written}", home

    def _counters(self) -> tuple[int, int]:
        found = dict(self._database.execute("SELECT name, value FROM counters"))
        return int(found["edits"]), int(found["marks"])

    def touch(self) -> None:
        """Note that the overlay must be compiled anew."""
        if not self._is_touched:
            self._database.execute("UPDATE counters SET value = value + 1 WHERE name = 'edits'")
            self.head += 1
            self._is_touched = True


def insert_history(
    database: Connection,
    what: str,
    outcome: str,
    *,
    before: Any = None,
    after: Any = None,
    at: str | None = None,
    **about: int | None,
) -> None:
    """Add a line to the history: when (now if no moment is given), what, before (a content or a value of JSON), after,
    outcome; and by whom, and from where (see `actor`).

    ``about`` has the ``locid`` of its geolocation, the ``step`` that it is part of, and its ``place``, as far as it has
    them.
    """
    sides = {
        name: None if side is None else written(described(side) if isinstance(side, Content) else side)
        for name, side in (("before", before), ("after", after))
    }
    done = {"at": at or now_text(), "what": what, "outcome": outcome, "who": actor.who(), "via": actor.via()}
    insert(database, "history", {**done, **sides, **about})
