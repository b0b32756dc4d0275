"""The schema of edits.db: all of its tables, made at once, and the mark by which the file is known."""

import sqlite3
from typing import TYPE_CHECKING

from geolookup.state.base.sqlite import column_types

if TYPE_CHECKING:
    from sqlite_utils import Database

SCHEMA_VERSION = 2
#: The columns of the history that name who did it, and from where; NULL in lines of version 1.
_ACTOR = ("who", "via")
#: SQLite's ``application_id``: the letters "GeoL".
APPLICATION_ID = int.from_bytes(b"GeoL")
_EXPORTING = "`geolookup custom export FILE` writes down what lookups answer now"
#: The advice at the end of each message about a damaged edits.db, if there is a backup, and if there is none.
RESTORING = (
    "lookups go on; `geolookup outbox restore` puts the newest backup in its place, and names what lookups lose by "
    f"that; {_EXPORTING}; last of all, `geolookup outbox restore --empty` starts with an empty file"
)
NO_BACKUP = (
    f"lookups go on; there is no backup; {_EXPORTING}, to be applied after `geolookup outbox restore --empty`, which "
    "starts with an empty file"
)


def version_of(connection: sqlite3.Connection) -> int | None:
    """The schema's version in an open file: 0 if nothing stands in it yet, None if the file is not an edits.db."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    return 0 if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None else None


def is_of_an_unreleased_build(connection: sqlite3.Connection) -> bool:
    """Tell whether a file is the edits.db of a build before the first release: those kept migrations."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'"
    return connection.execute(sql).fetchone() is not None


def renew(database: "Database") -> None:
    """Bring tables of version 1, which lack who changed what, to this one, within a transaction."""
    for name in _ACTOR:
        database.conn.execute(f"ALTER TABLE history ADD COLUMN {name} TEXT")
    database.conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def create(database: "Database") -> None:
    """Make all tables, within a transaction."""
    _create_history(database)
    _create_outbox(database)
    _create_sites(database)
    connection = database.conn
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _create_history(database: "Database") -> None:
    history = database.table("history")
    history.create(
        {
            "id": int,
            "at": str,
            "what": str,
            "locid": int,
            "before": str,
            "after": str,
            "outcome": str,
            "step": int,
            **dict.fromkeys(_ACTOR, str),
        },
        pk="id",
        not_null={"at", "what", "outcome"},
    )
    history.create_index(["locid"])
    history.create_index(["step"])
    database.table("steps").create({"id": int, "undoes": int, "undone_by": int}, pk="id")


def _create_outbox(database: "Database") -> None:
    custom = database.table("custom")
    custom.create(
        {
            "locid": int,
            "service_locid": int,
            "deleted": int,
            "blocks": str,
            **column_types(),
        },
        pk="locid",
        not_null={"deleted", "blocks"},
    )
    custom.create_index(["service_locid"], unique=True)
    outbox = database.table("outbox")
    outbox.create(
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
            # Marks (see `state.base.marks`), and what the service made of the edit.
            **dict.fromkeys(("attempted", "ended", "acknowledged", "stored"), str),
            **dict.fromkeys(("concluded", "seen", "made", "number"), int),
        },
        pk="id",
        not_null={"key", "locid", "operation", "payload", "state", "attempts", "created_at"},
        foreign_keys=[("locid", "custom", "locid")],
    )
    outbox.create_index(["key"], unique=True)
    outbox.create_index(["locid", "id"])
    outbox.create_index(["state", "id"])
    outbox.create_index(["concluded", "id"])
    baselines = database.table("baselines")
    baselines.create({"id": int, "locids": str, "published": str}, pk="id", not_null={"locids"})
    baselines.create_index(["published"])
    database.table("twins").create({"locid": int, "edit": int, "dismissed_at": str}, pk="locid", not_null={"edit"})
    database.table("settings").create({"name": str, "value": str}, pk="name")
    counters = database.table("counters")
    counters.create({"name": str, "value": int}, pk="name")
    counters.insert_all([{"name": "edits", "value": 0}, {"name": "marks", "value": 0}])


def _create_sites(database: "Database") -> None:
    sites = database.table("sites")
    sites.create(
        {"name": str, "locid": int, "file": str, "applied_at": str},
        pk="name",
        not_null={"locid", "file", "applied_at"},
    )
    sites.create_index(["locid"], unique=True)
