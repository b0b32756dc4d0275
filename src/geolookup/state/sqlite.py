"""How this project opens SQLite files, and turns SQLite's errors into its own."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

from geolookup import disk
from geolookup.errors import StateBusyError, StateDamagedError, StateUnwritableError
from geolookup.fields import FIELDS, Field
from geolookup.reasons import reason
from geolookup.state import files

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


@contextlib.contextmanager
def sqlite_errors(path: str, *, advice: Callable[[], str] = str) -> Iterator[None]:
    """Turn every error of sqlite3 into ours; ``path`` names the file in the message, ``advice`` says what to do.

    :raises StateBusyError: if another process holds the file's lock for too long
    :raises StateUnwritableError: if the disk is full, read-only or failing
    :raises StateUnreadableError: if this user may not read the file
    :raises StateDamagedError: for anything else, which only a damaged file explains
    """
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:  # neither of the two derives from the other
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StateBusyError(f"{path}: another process keeps it locked: try again later") from error
        if code in (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        ):
            if os.path.exists(path) and not os.access(path, os.R_OK):
                raise files.unreadable(path) from error
            if code == sqlite3.SQLITE_FULL:
                raise StateUnwritableError(f"{path}: {files.FULL}") from error
            raise StateUnwritableError(
                f"{path}: {reason(error)}: check the disk's space, and the file's owner and mode"
            ) from error
        raise StateDamagedError(f"{path}: {reason(error)}{advice()}") from error


def column_types(fields: Iterable[Field] = FIELDS) -> dict[str, type[str] | type[float]]:
    """What sqlite-utils makes the columns of fields of, by their names."""
    return {field.name: str if field.kind == "text" else float for field in fields}


def published_uri(path: str) -> str:
    """A published file as SQLite opens it.

    ``immutable`` is true of published files by construction, and spares SQLite its locks and journals.
    """
    return f"file:{quote(path)}?mode=ro&immutable=1"


@contextlib.contextmanager
def open_published(path: str) -> Iterator[sqlite3.Connection]:
    """Open a published file for reading, for the length of a ``with``."""
    with sqlite_errors(path):
        connection = sqlite3.connect(published_uri(path), uri=True)
        try:
            connection.execute("PRAGMA query_only = on")
            yield connection
        finally:
            connection.close()


def create_private(path: str) -> None:
    """Create an empty file of mode 0600: SQLite would use the umask, and gives its journals the mode of the file."""
    os.close(disk.open_private(path))
