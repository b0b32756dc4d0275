"""The rules that each row of edits.db meets."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.state.base.marks import Mark
from geolookup.state.edits.outbox.kept import read_places
from geolookup.state.edits.outbox.payload import read_content
from geolookup.state.edits.outbox.row import COLUMNS, read_row
from geolookup.state.edits.outbox.schema import RESTORING
from geolookup.state.edits.outbox.untold import UNTOLD, read_untold

if TYPE_CHECKING:
    from sqlite_utils import Database


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


def is_custom(locid: object) -> bool:
    """True if a value is the locid of a custom geolocation."""
    return type(locid) is int and locid < 0


def _sound_history(row: dict[str, Any]) -> None:
    for name in ("before", "after"):
        if row[name] is not None:
            json.loads(row[name])


#: What each row of the other tables must be.
_SOUND: dict[str, Callable[[dict[str, Any]], object]] = {
    "baselines": _sound_baseline,
    "counters": lambda row: _whole(row, "value"),
    "history": _sound_history,
    "settings": lambda row: row["name"] == UNTOLD and read_untold(str(row["value"])),
    "vrf_places": lambda row: read_content(row["content"]),
    "vrfs": lambda row: _whole(row, "edits"),
    "twins": lambda row: _whole(row, "locid", "edit"),
}


def require_sound(database: "Database") -> None:
    """Decode every row of every table, and see that every edit is of a geolocation that was edited here.

    :raises EditsDamagedError: naming the table and the row that is not what was written
    """
    for found in database.execute(f"SELECT {COLUMNS} FROM outbox"):  # noqa: S608 - our names
        read_row(found)
    for table, check in _SOUND.items():
        for row in database.query(f"SELECT * FROM {table}"):  # noqa: S608 - our names
            try:
                check(row)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                key = next(iter(row.values()))
                raise EditsDamagedError(
                    f"edits.db: {table} {key!r} is damaged ({reason(error)}): {RESTORING}"
                ) from error
    for row in database.query("PRAGMA foreign_key_check(outbox)"):
        raise EditsDamagedError(
            f"edits.db: edit {row['rowid']} is damaged (its geolocation is not in the file): {RESTORING}"
        )
    read_places(database, "1")


def newest_mark(database: "Database") -> int:
    """The highest counter that anything has of a moment or of a list, 0 if nothing has any.

    :raises ValueError: if one is not what was written (`require_sound` names its row)
    """
    marks = [
        Mark.read(value).counter
        for row in database.execute("SELECT attempted, ended FROM requests")
        for value in row
        if value is not None
    ]
    lists = database.execute("SELECT max(concluded) FROM outbox UNION ALL SELECT max(seen) FROM places").fetchall()
    return max([0, *marks, *(int(counter) for (counter,) in lists if counter is not None)])
