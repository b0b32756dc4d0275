"""All that only SQLite needs: its connections, its pragmas, and the lock beside its file."""

import fcntl
import os
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from geolookup.errors import ServiceError

_BUSY_TIMEOUT_S = 10


def writing_engine(path: str) -> Engine:
    """The one connection that writes, in WAL mode and with an fsync at each commit.

    Just one, while every other connection only reads and never checkpoints: before 3.51.3, SQLite in WAL mode can
    lose commits and damage the file where two connections write or checkpoint at the same instant (sqlite.org/wal.html,
    "the WAL-reset bug"), and many systems still carry such a version.
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


def reading_engine(path: str) -> Engine:
    """As many connections as there are readers, each with the snapshot at which its transaction began."""
    return _engine(
        path, "BEGIN", "PRAGMA query_only = ON", "PRAGMA wal_autocheckpoint = 0", pool_size=4, max_overflow=-1
    )


def _engine(path: str, begin: str, *pragmas: str, **pool: int) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=path),
        poolclass=QueuePool,
        # A streamed list is taken up by whichever thread is free, one after the other.
        connect_args={"timeout": _BUSY_TIMEOUT_S, "check_same_thread": False},
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


def lock(path: str) -> int:
    """Take the database for this process: a descriptor to close when done with it.

    The lock is on a file beside the database, since closing any descriptor of the database itself would drop SQLite's
    own locks on it. The file stays: whoever unlinked it could let two processes in.

    :raises ServiceError: where another process has it, or the folder cannot be written
    """
    name = f"{path}.lock"
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServiceError(f"{name}: {error.strerror}: the database needs a folder that can be written") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ServiceError(f"{path}: another service is using this database: stop it, or name another file") from error
    return descriptor


def create_private(path: str) -> None:
    """Make sure that the file is there, readable by its owner only: SQLite would go by the umask.

    :raises ServiceError: where it cannot be created
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}: the database cannot be created there") from error
