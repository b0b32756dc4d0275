"""Open SQLite files, and turn SQLite's errors into ours."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.model.errors import StateBusyError, StateDamagedError, StateError, StateUnwritableError
from geolookup.state.base import files

#: The version of the library.
VERSION = sqlite3.sqlite_version
#: SQLite's whole numbers are below this, and not below its negative.
END_OF_INTEGERS = 1 << 63
#: How long a run, or an edit, waits for another process that holds edits.db.
RUN_WAIT_S = 10.0
#: How long a question waits: a commit takes milliseconds, and nothing else keeps anybody from reading.
QUESTION_WAIT_S = 2.0
#: How long it waits if it has an answer without the edits too.
GLANCE_WAIT_S = 0.2


#: What sqlite3 raises: neither of the two derives from the other.
ERRORS = (sqlite3.Error, sqlite3.Warning)


@contextlib.contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    """Turn every error of sqlite3 into `ours`; ``path`` names the file in the message."""
    try:
        yield
    except ERRORS as error:
        raise ours(error, path) from error


def ours(error: sqlite3.Error | sqlite3.Warning, path: str, *, advice: Callable[[], str] = str) -> StateError:
    """The error to raise for one of sqlite3; ``path`` names the file in the message, ``advice`` says what to do.

    :returns: a `StateBusyError` if another process holds the file's lock for too long; a `StateUnwritableError` if the
        disk is full, read-only or failing; a `StateUnreadableError` if this user may not read the file; a
        `StateDamagedError` for anything else, which only a damaged file explains
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateBusyError(f"{path}: another process keeps it locked: try again later")
    if code in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    ):
        if os.path.exists(path) and not os.access(path, os.R_OK):
            return files.unreadable(path)
        if code == sqlite3.SQLITE_FULL:
            return StateUnwritableError(f"{path}: {files.FULL}")
        return StateUnwritableError(f"{path}: {reason(error)}: check the disk's space, and the file's owner and mode")
    return StateDamagedError(f"{path}: {reason(error)}{advice()}")


def by_name(found: sqlite3.Cursor) -> list[dict[str, Any]]:
    """The rows of a question, each with its values by the names of the columns."""
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def create_private(path: str) -> None:
    """Create an empty file of mode 0600: SQLite would use the umask, and gives its journals the mode of the file."""
    os.close(disk.open_private(path))


def wrong_in(connection: sqlite3.Connection, check: str = "quick_check") -> str:
    """What SQLite finds wrong in a whole file, "" if nothing."""
    found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}(5)")]
    return "" if found == ["ok"] else "; ".join(found)


def copy(path: str, target: str) -> str:
    """Copy a file that others may write to, by SQLite's own backup, to a new private one: durable once it is synced.

    :returns: what SQLite finds wrong in the copy, "" if nothing
    :raises OSError: if the new one cannot be made
    """
    create_private(target)
    with (
        sqlite_errors(path),
        contextlib.closing(sqlite3.connect(path, timeout=RUN_WAIT_S)) as source,
        contextlib.closing(sqlite3.connect(target)) as made,
    ):
        made.execute("PRAGMA synchronous = off")
        source.backup(made)
        return wrong_in(made)
