"""``edits.db``: what was done on this machine and cannot be fetched again."""

import contextlib
import json
import os
import shlex
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Literal
from urllib.parse import quote

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.base.stamp import Stamp, stamp_of
from geolookup.model.errors import EditsDamagedError, GeoLookupError, StateDamagedError, StateError, StateTooNewError
from geolookup.state.base import files
from geolookup.state.base.clock import now_text, wall
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Mark, Start
from geolookup.state.base.sqlite import (
    END_OF_INTEGERS,
    ERRORS,
    QUESTION_WAIT_S,
    RUN_WAIT_S,
    by_name,
    copy,
    create_private,
    ours,
    sqlite_errors,
    wrong_in,
)
from geolookup.state.edits.outbox import schema, seal
from geolookup.state.edits.outbox.kept import require_sound
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import Outbox, insert_history

#: The size up to which each edit is backed up, and after how many seconds a backup is an old one.
_SMALL_BYTES = 1 << 20
_OLD_S = 3600.0
_CHANGED = "was changed by something other than geolookup: its rows do not fit their digest"


def _is_old(path: str) -> bool:
    """True if a backup was made more than an hour ago, or is not there; one of the future is old, too."""
    try:
        return not 0 <= wall().timestamp() - os.stat(path).st_mtime < _OLD_S
    except FileNotFoundError:
        return True


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


class Edits:
    """The edits of one state directory.

    A connection lives for one ``with``, so that threads and forks are harmless; within `kept_open`, for that one.
    """

    def __init__(self, home: str, name: str = "edits.db") -> None:
        self.path = os.path.join(home, name)
        self._kept: tuple[seal.Sealed, int] | None = None

    def stamp(self) -> tuple[Stamp | None, ...]:
        """The stamps of the files, which change with every change of the edits: views need not read them again."""
        return stamp_of(self.path), stamp_of(f"{self.path}-wal")

    def exists(self) -> bool:
        """True if an edit was ever recorded here."""
        return os.path.exists(self.path)

    def is_of_others(self) -> bool:
        """True if they are there, and this user may read only what is published."""
        return self.exists() and not os.access(self.path, os.R_OK)

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The places, in one `transaction`."""
        with self.transaction() as database:
            yield Ledger(database)

    @contextlib.contextmanager
    def kept_open(self) -> Iterator[None]:
        """Have all transactions of this thread use one connection: to open the file costs more than to write to it."""
        with contextlib.ExitStack() as opened:
            if self.exists():
                self._kept = opened.enter_context(self._connected(RUN_WAIT_S)), threading.get_ident()
                opened.callback(setattr, self, "_kept", None)
            yield

    @contextlib.contextmanager
    def _connected(self, wait_s: float, *, to_read: bool = False) -> Iterator[seal.Sealed]:
        """A connection: that which is kept, unless it is in use; else a new one.

        One to read never writes, but what a crash left half done, which must be undone before anything can be read.
        """
        if self._kept is not None and self._kept[1] == threading.get_ident() and not self._kept[0].in_transaction:
            self._kept[0].execute(f"PRAGMA busy_timeout = {wait_s * 1000:.0f}")
            yield self._kept[0]
            return
        is_uri = not os.access(self.path, os.W_OK)
        file = f"file:{quote(self.path)}?mode=ro" if is_uri else self.path
        opened = sqlite3.connect(file, uri=is_uri, timeout=wait_s, isolation_level=None, factory=seal.Sealed)
        with contextlib.closing(opened) as connection:
            if to_read:
                connection.execute("PRAGMA query_only = on")
            yield connection

    @contextlib.contextmanager
    def transaction(self, *, wait_s: float = RUN_WAIT_S, may_be_new: bool = True) -> Iterator[sqlite3.Connection]:
        """One durable transaction: ``BEGIN IMMEDIATE``, then commit, or roll back if the body raises.

        ``may_be_new`` is false if there were edits: then there must be a file.

        :raises StateBusyError: if another process has been writing for ``wait_s`` seconds
        :raises StateTooNewError: if a newer release, or a build before the first, made the file; nothing was touched
        :raises StateDamagedError: if it is damaged: with the command that restores the newest backup
        """
        if not may_be_new:
            self._require_there()
        elif not self.exists():
            with files.file_errors(self.path), contextlib.suppress(FileExistsError):
                create_private(self.path)
        with self._sqlite_errors(), self._connected(wait_s) as connection:
            known = self._version(connection)  # before the journal's mode is set, which is written into the file
            # The rollback journal, not WAL: SQLite before 3.51.3 can corrupt a WAL database that several
            # processes write to.
            connection.execute("PRAGMA journal_mode = delete")
            # Not full, which leaves the removal of the journal to be synced by chance: a power cut could bring it
            # back, and with it undo what was committed: an edit, or that a request is on its way.
            connection.execute("PRAGMA synchronous = extra")
            connection.execute("PRAGMA foreign_keys = on")
            # What does not fit into the cache would go into the file before the commit: unreadable to all others.
            connection.execute("PRAGMA cache_spill = off")
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Another process may have been faster, or a newer release have changed it.
                if known != connection.execute("PRAGMA user_version").fetchone()[0]:
                    known = self._version(connection)
                if not known:
                    schema.create(connection)
                seal.keep(connection)
                with self._explained(connection):
                    yield connection
                seal.write(connection)
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if seal.was_interrupted(error):
                    raise KeyboardInterrupt from error
                raise
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self, *, wait_s: float = QUESTION_WAIT_S) -> Iterator[sqlite3.Connection]:
        """One transaction that only reads: it needs no write lock, and creates no file.

        It and a writer wait for each other during a commit only: keep it short. ``wait_s`` is how long this one waits.
        If there is no file yet, the answers come from an empty one in memory.

        :raises StateBusyError: if another process holds the file exclusively
        :raises StateTooNewError: if a newer release, or a build before the first, made the file
        :raises StateDamagedError: if it is damaged: with the command that restores the newest backup
        """
        with self._sqlite_errors(), contextlib.ExitStack() as opened:
            connection: sqlite3.Connection | None = None
            if self.exists():
                connection = opened.enter_context(self._connected(wait_s, to_read=True))
            if connection is None or not self._version(connection):
                connection = opened.enter_context(contextlib.closing(_in_memory()))
                connection.deserialize(schema.empty())
            connection.execute("BEGIN")
            opened.callback(lambda: connection.in_transaction and connection.execute("ROLLBACK"))
            with self._explained(connection):
                yield connection

    @contextlib.contextmanager
    def rehearsing(self) -> Iterator[sqlite3.Connection]:
        """A copy in memory of what is there: what is written to it is gone at the end. The errors are `reading`'s."""
        with contextlib.closing(_in_memory()) as copy:
            with self.reading() as database:
                database.backup(copy)
            copy.execute("PRAGMA foreign_keys = on")
            copy.execute("PRAGMA journal_mode = off")  # nothing of it is ever rolled back
            copy.execute("BEGIN")
            with self._sqlite_errors(), self._explained(copy):
                yield copy

    @contextlib.contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            raise ours(error, self.path, advice=self._restoring) from error

    @contextlib.contextmanager
    def _explained(self, database: sqlite3.Connection) -> Iterator[None]:
        """Blame a row that is not what was written, if there is one, for an error in the use of the file."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError) as error:
            if isinstance(error, GeoLookupError):
                raise
            try:
                require_sound(database)
                if not seal.is_whole(database):
                    raise self._to_go_on(_CHANGED)
            except EditsDamagedError as damage:
                raise damage from error
            raise

    def check(self, current: Current | None = None, *, in_order: bool = True, sealed: bool = False) -> None:
        """Check the whole file, if there is one: by SQLite, and that each edit and place is what was written.

        :param current: as for `require_newest`
        :param in_order: whether the counter of marks, which only rises, must be above those of its own edits
        :param sealed: whether every row must be as a transaction of ours left it
        :raises StateDamagedError: naming what it found, and what to do
        """
        self.require_present(current)
        with self.reading() as database:
            if found := wrong_in(database):
                raise self._damaged(f"is damaged ({found})")
            require_sound(database)
            outbox = Outbox(database)
            if in_order and outbox.counter < (newest := outbox.newest_mark()):
                what = f"counts {outbox.counter} marks, and an edit has mark {newest}: a value in it was changed"
                raise self._to_go_on(what)
            if sealed and not seal.is_whole(database):
                raise self._to_go_on(_CHANGED)
            if current is None or not current.had_edits:
                return
            if not (outbox.follows(current) and self._has_all_of_backup(outbox.head)):
                raise self.lacking()

    def _has_all_of_backup(self, head: int) -> bool:
        """True unless the newest backup has a newer edit: CURRENT may be an older one, too."""
        backup = Edits(os.path.dirname(self.path), os.path.basename(self.backups()[0]))
        with contextlib.suppress(StateError):
            return not backup.exists() or backup.head() <= head
        return True

    def is_ours(self) -> bool:
        """Tell whether a release made the file: another program's would lose the edits if it were put in its place.

        :raises StateTooNewError: if a newer release, or a build before the first, made it
        """
        with sqlite_errors(self.path), contextlib.closing(sqlite3.connect(self.path)) as connection:
            try:
                return self._version(connection) > 0
            except EditsDamagedError:
                return False

    def _restoring(self) -> str:
        """The advice about a damaged file."""
        if any(os.path.exists(backup) for backup in self.backups()):
            return f": {schema.RESTORING}"
        return f": {schema.NO_BACKUP}"

    def _damaged(self, what: str) -> EditsDamagedError:
        return EditsDamagedError(f"{self.path}: {what}{self._restoring()}")

    def _to_go_on(self, what: str) -> EditsDamagedError:
        """The error of a file that a person may go on with as it is."""
        advice = (
            "Lookups go on; `geolookup outbox restore` puts the newest backup in its place, "
            f"`geolookup outbox restore {shlex.quote(self.path)}` goes on with it as it is"
        )
        return EditsDamagedError(f"{self.path}: {what}. {advice}")

    def require_newest(self, current: Current | None) -> None:
        """Refuse a file that CURRENT, if there is one, was not published and pushed from, or only later.

        :raises EditsDamagedError: if it has gone back since, is another state's, or is not there any more
        """
        self.require_present(current)
        if current is not None and current.had_edits:
            with self.reading() as database:
                if not Outbox(database).follows(current):
                    raise self.lacking()

    def require_present(self, current: Current | None) -> None:
        """The first half of `require_newest`, without opening the file; new is what nothing was ever done with."""
        if current is not None and current.had_edits:
            self._require_there()

    def _require_there(self) -> None:
        if not (self.exists() and os.path.getsize(self.path)):
            raise self._damaged("is empty or gone, though there were edits")

    def lacking(self) -> EditsDamagedError:
        """The error of a file that lacks what was published or pushed from here."""
        return self._to_go_on(
            "lacks what was published or pushed from it: an older copy, or that of another state, was put in its place"
        )

    def backups(self) -> list[str]:
        """The paths of the backups, the newest first, of absent ones too."""
        return [os.path.join(os.path.dirname(self.path), f"edits.backup.{number}.db") for number in (1, 2, 3)]

    def back_up_edited(self) -> None:
        """Back up after an edit; see docs/decisions/backups-of-edits.md. Caller holds the publish lock.

        A large file is copied once an hour; of a small one the newest backup is kept new, and the two before move on
        once an hour, so that a burst of edits leaves an old one.
        """
        newest, second, _ = self.backups()
        if os.path.getsize(self.path) <= _SMALL_BYTES or _is_old(newest):
            self.back_up(move_on=_is_old(second))

    def back_up_if_newer(self, current: Current | None) -> None:
        """Back up unless the newest backup has every edit; a damaged file is not. Caller holds the publish lock.

        :raises EditsDamagedError: if the file is damaged, or not that of ``current``: the backups are as they were
        """
        if not self.exists():
            return
        newest = Edits(os.path.dirname(self.path), os.path.basename(self.backups()[0]))
        with contextlib.suppress(StateError):
            if newest.exists() and newest.head() == self.head():
                return
        self.check(current, sealed=True)
        self.back_up()

    def head(self, *, wait_s: float = QUESTION_WAIT_S) -> int:
        """The number of the newest edit."""
        with self.reading(wait_s=wait_s) as database:
            return Outbox(database).head

    def back_up(self, *, move_on: bool = True) -> None:
        """Copy the file to ``edits.backup.1.db`` by SQLite's own backup; the two before ``move_on`` to 2 and 3.

        Caller holds the publish lock. A copy that takes the newest one's place is synced once it moves on: it and the
        file itself would have to be lost at once.

        :raises EditsDamagedError: if SQLite finds the copy damaged: the backups are as they were
        """
        if not self.exists():
            return
        names = self.backups()
        temporary = f"{names[0]}.tmp-{os.getpid()}"
        with files.file_errors(names[0]), sqlite_errors(self.path):
            files.remove_file(temporary)
            try:
                self.copy_to(temporary)
                if move_on:
                    for each in (temporary, names[0]):
                        with contextlib.suppress(FileNotFoundError):
                            disk.sync_file(each)
                older_ones = ((names[1], names[2]), (names[0], names[1])) if move_on else ()
                for newer, older in (*older_ones, (temporary, names[0])):
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(newer, older)
                if move_on:
                    disk.sync_directory(os.path.dirname(self.path))
            finally:
                files.remove_file(temporary)

    def copy_to(self, path: str) -> None:
        """Copy the file to a new one by SQLite's own backup; durable once it is synced.

        :raises EditsDamagedError: if SQLite finds the copy damaged
        """
        if found := copy(self.path, path):
            raise self._damaged(f"is damaged ({found})")

    def _version(self, connection: sqlite3.Connection) -> int:
        """The version of the file's schema, 0 if nothing stands in it yet.

        :raises StateTooNewError: if a newer release, or a build before the first, made the file
        :raises EditsDamagedError: if another program made it
        """
        version = schema.version_of(connection)
        if version is None:
            if schema.is_of_an_unreleased_build(connection):
                raise files.unreleased(self.path)
            raise self._damaged("is another program's database")
        if version > schema.SCHEMA_VERSION:
            raise StateTooNewError(
                f"{self.path}: has schema {version}, and this release reads {schema.SCHEMA_VERSION}: "
                "upgrade geolookup; nothing was touched"
            )
        return version

    def start_of_list(self, *, to_look: bool = False) -> Start:
        """Mark, durably, that a complete list is about to be asked for; if nothing was ever edited, it is the first.

        A list that is asked for only ``to_look`` at it leaves no mark: it is as new as the newest there is.
        """
        if to_look or not self.exists():
            with self.reading() as database:
                return Start(mark=Mark.now(Outbox(database).counter), at=now_text())
        with self.transaction() as database:
            return Start(mark=Outbox(database).mark(), at=now_text())

    def record(self, what: str, outcome: str, **more: Any) -> None:
        """Add a line to the history, in a transaction of its own; see `insert_history`."""
        with self.transaction() as database:
            insert_history(database, what, outcome, **more)

    def rolled_back(self) -> dict[int, tuple[str, str, str]]:
        """Who rolled back each generation last, at which moment, and why ("" if nobody said it), by its number."""
        return self._decided("rollback", "before")

    def accepted(self) -> dict[int, tuple[str, str, str]]:
        """Who accepted what became each generation, as `rolled_back`."""
        return self._decided("accept", "after")

    def _decided(self, what: str, side: Literal["before", "after"]) -> dict[int, tuple[str, str, str]]:
        with self.reading() as database:
            sql = (
                f"SELECT json_extract({side}, '$.generation'), ifnull(who, 'somebody'), at, "  # noqa: S608 - one of two
                "ifnull(json_extract(after, '$.reason'), '') FROM history WHERE what = ? ORDER BY id"
            )
            return {number: (str(who), str(at), str(why)) for number, who, at, why in database.execute(sql, (what,))}

    def history(self, locids: Collection[int] | None = None, *, newest: int | None = None) -> list[dict[str, Any]]:
        """The lines of the history, oldest first; ``before`` and ``after`` as they were given to `record`.

        ``place`` is the number of a line's geolocation on this machine. ``undone`` says ``who`` undid a line, and
        ``at`` which moment, and if that was undone for this geolocation alone, ``again`` who did that; ``undoes`` says
        ``who`` did the step that a line undoes, and of several together how many ``steps``; None if there is none.

        :param locids: only the lines about geolocations with these numbers
        :param newest: only so many, the newest
        :raises StateDamagedError: if a line is not what was recorded
        """
        with self.reading() as database:
            numbers = [locid for locid in locids or () if -END_OF_INTEGERS <= locid < END_OF_INTEGERS]
            where = "" if locids is None else f"WHERE locid IN ({', '.join('?' * len(numbers))})"
            sql = f"SELECT * FROM history {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - numbers are parameters
            rows = by_name(database.execute(sql, (*numbers, -1 if newest is None else newest)))[::-1]
            undone, undoes, whole = _undone(database)
        try:
            for row in rows:
                step = row["step"]
                row["undone"] = undone.get((step, None)) or (undone.get((step, row["place"])) if step else None)
                if (again := undone.get((whole.get(step), row["place"]))) is not None:
                    row["undone"] = {**row["undone"], "again": again}
                row["undoes"] = undoes.get(step)
                for name in ("before", "after"):
                    row[name] = None if row[name] is None else json.loads(row[name])
        except (ValueError, TypeError) as error:
            raise StateDamagedError(
                f"{self.path}: line {row['id']} of the history is damaged: {reason(error)}"
            ) from error
        return rows


def _undone(
    database: sqlite3.Connection,
) -> tuple[dict[tuple[int | None, int | None], dict[str, str]], dict[int, dict[str, str]], dict[int, int]]:
    """Who undid each step and when, by its number and the place, None for all of it; whose step each undoes; and which
    step undid all of each.
    """
    sql = (
        "SELECT steps.*, place, min(at) AS at, ifnull(who, 'somebody') AS who FROM steps JOIN history ON step = {} "
        "WHERE undoes IS NOT NULL GROUP BY steps.id, place"
    )
    undone: dict[tuple[int | None, int | None], dict[str, str]] = {}
    whole = dict(database.execute("SELECT id, undone_by FROM steps WHERE undone_by"))
    for row in by_name(database.execute(sql.format("steps.id"))):
        said = {"who": row["who"], "at": row["at"]}
        undone |= {(number, None): said for number, by in whole.items() if by == row["id"]}
        if row["id"] not in whole:
            undone[row["undoes"], row["place"]] = said
    found = by_name(database.execute(sql.format("steps.undoes")))
    undoes = {row["id"]: {"who": row["who"], "at": row["at"]} for row in found}
    for by, steps in Counter(whole.values()).items():
        if steps > 1 and by in undoes:
            undoes[by]["steps"] = str(steps)
    return undone, undoes, whole
