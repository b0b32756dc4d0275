"""All that only SQLite needs: its connections, its pragmas, and the locks next to its file."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, insert, select, update
from sqlalchemy.pool import QueuePool

from geolookup.base import disk
from geolookup.model.errors import ServiceError
from geolookup.service.store.database import WAIT_S, Database
from geolookup.service.store.schema import meta

# Between two looks at a lock of another process: less than a transaction takes.
_POLL_S = 0.0005
_MAGIC = b"SQLite format 3\0"
# Made once: to make a statement takes longer than to run it.
_LAST = select(meta.c.last_custom)
_GIVE = update(meta)


class SQLite(Database):
    """The SQLite file ``path``, created if it is missing; a ``worker`` shares it with the process that started it.

    :raises ServiceError: if the file cannot be used, or another service uses it
    """

    def __init__(self, path: str, *, worker: bool = False) -> None:
        self.name = path
        self._closed = False
        _refuse_other_files(path)
        with contextlib.ExitStack() as undo:
            self._locks = undo.enter_context(contextlib.ExitStack())
            if not worker:
                self._take(_lock_file(self._locks, path, "lock"))
            self._next = _lock_file(self._locks, path, "next")
            self._writing = _lock_file(self._locks, path, "writing")
            _create_private(path)
            self.writer = _writing_engine(path)
            self.reader = _reading_engine(path)
            super().__init__()
            undo.pop_all()

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ServiceError(
                f"{self.name}: another service is using this database: stop it, or name another file"
            ) from error

    @contextlib.contextmanager
    def exclusive(self, wait_s: float) -> Iterator[None]:
        """Let no other process write or checkpoint.

        Before 3.51.3, SQLite in WAL mode can lose commits and damage the file if two connections write or checkpoint at
        the same instant (sqlite.org/wal.html, "the WAL-reset bug"), and many systems still carry such a version.

        Two locks: with one, the process that released it would often take it again before the waiting ones wake up. The
        waiting process holds the lock for the next turn.

        :raises TimeoutError: if it could not be taken in ``wait_s`` seconds
        """
        deadline = time.monotonic() + wait_s
        with _flock(self._next, deadline):
            turn = contextlib.ExitStack()
            turn.enter_context(_flock(self._writing, deadline))
        with turn:
            yield

    def prepare_wait(self, connection: Connection, wait_s: float) -> None:
        """Nothing to do: inside `exclusive`, other processes hold no locks."""

    def lock_schema(self, connection: Connection) -> None:
        """Nothing to do: a write transaction locks the file."""

    def create_own(self, connection: Connection) -> None:
        """Nothing to do: there are no sequences, and ``meta`` counts."""

    def next_locid(self, connection: Connection) -> int:
        """One below the lowest so far."""
        locid = int(connection.execute(_LAST).scalar_one()) - 1
        connection.execute(_GIVE, {"last_custom": locid})
        return locid

    def reserve_locids(self, connection: Connection, lowest: int) -> None:
        """See `Database.reserve_locids`."""
        connection.execute(update(meta).where(meta.c.last_custom > lowest).values(last_custom=lowest))

    def insert_many(
        self, connection: Connection, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Insert by the driver's own ``executemany``: SQLAlchemy would make a dictionary of each row, for millions."""
        compiled = insert(table).compile(connection, column_keys=list(names))
        assert compiled.positiontup == list(names), "the values stand in the order of the table's columns"
        connection.exec_driver_sql(str(compiled), [tuple(row) for row in rows])

    def analyze(self, connection: Connection, table: Table) -> None:
        """Nothing to do: staged tables have no indexes to choose from."""

    def close(self) -> None:
        """Close every connection, and let other processes have the database; a second call does nothing."""
        if self._closed:  # the locks' descriptors may be someone else's by now
            return
        self._closed = True
        with contextlib.ExitStack() as stack:
            # The last connection that closes checkpoints.
            with contextlib.suppress(TimeoutError):
                stack.enter_context(self.exclusive(WAIT_S))
            # The writer last, since readers must not.
            self.reader.dispose()
            self.writer.dispose()
        self._locks.close()


def _writing_engine(path: str) -> Engine:
    """The one connection of this process that writes, in WAL mode and with an fsync at each commit.

    Just one, while every other connection only reads and never checkpoints: see `SQLite.exclusive`.
    """
    return _engine(
        path,
        "BEGIN IMMEDIATE",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        # 64 MiB, so that a large load does not write the same page again and again.
        "PRAGMA cache_size = -65536",
        pool_size=1,
        max_overflow=0,
    )


def _reading_engine(path: str) -> Engine:
    """As many connections as there are readers, each with the snapshot at which its transaction began."""
    return _engine(
        path, "BEGIN", "PRAGMA query_only = ON", "PRAGMA wal_autocheckpoint = 0", pool_size=4, max_overflow=-1
    )


def _engine(path: str, begin: str, *pragmas: str, **pool: int) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=path),
        poolclass=QueuePool,
        # A streamed list is continued by any thread that is free, one after the other.
        connect_args={"timeout": WAIT_S, "check_same_thread": False},
        **pool,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # Python's driver begins transactions by its own rules (never for a SELECT): we begin them.
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def open_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _lock_file(stack: contextlib.ExitStack, path: str, suffix: str) -> int:
    """A file beside the database to lock, open until the stack closes.

    Beside it, since closing any descriptor of the database itself would drop SQLite's own locks on it. The file stays:
    if it were unlinked, two processes could get in.
    """
    name = f"{path}.{suffix}"
    try:
        descriptor = disk.open_lock(name)
    except OSError as error:
        raise ServiceError(f"{name}: {error.strerror}: the database needs a folder that can be written") from error
    stack.callback(os.close, descriptor)
    return descriptor


@contextlib.contextmanager
def _flock(descriptor: int, deadline: float) -> Iterator[None]:
    if not disk.take_lock(descriptor, deadline, first_pause_s=_POLL_S, last_pause_s=_POLL_S):
        raise TimeoutError("another process has been writing for too long")
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _refuse_other_files(path: str) -> None:
    """Before anything is put beside it: a person may have named the data that were to be loaded.

    :raises ServiceError: if the file is there, and begins otherwise than a database of SQLite
    """
    if not os.path.isfile(path):
        return
    with contextlib.suppress(OSError), open(path, "rb") as file:  # an error comes up again where it is used
        if (beginning := file.read(len(_MAGIC))) and beginning != _MAGIC:
            raise ServiceError(f"{path}: not an SQLite file: name a new file; to load this one, give it as --load")


def _create_private(path: str) -> None:
    """Make sure that the file is there, readable by its owner only: SQLite would use the umask."""
    try:
        os.close(disk.open_private(path))
    except FileExistsError:
        pass
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}: the database cannot be created there") from error
