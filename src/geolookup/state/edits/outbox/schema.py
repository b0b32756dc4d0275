"""The schema of edits.db: all of its tables, made at once, and the mark by which the file is known."""

import contextlib
import functools
import sqlite3
from collections.abc import Mapping
from sqlite3 import Connection
from typing import Any

SCHEMA_VERSION = 1
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

_TABLES = """
CREATE TABLE history (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, what TEXT NOT NULL, locid INTEGER, before TEXT, after TEXT,
    outcome TEXT NOT NULL, step INTEGER, who TEXT, via TEXT, place INTEGER
);
CREATE INDEX history_locid ON history (locid);
CREATE INDEX history_place ON history (place);
CREATE INDEX history_step ON history (step);
CREATE TABLE steps (id INTEGER PRIMARY KEY, undoes INTEGER, undone_by INTEGER);

-- A place: `id` is its number on this machine, the service's own as long as that is bound to it, else a provisional
-- one. `baseline` is what the list with the counter `seen` had of it, with the blocks that are `owed`: a delete-all of
-- ours took them; `last` is the last that any had of one that is over. `refused` is a request that the
-- service said no to. `made` and `before` are baselines: of the moment when a person made it, and of the first
-- request to create it. `again` is the place as which an undo created it again.
CREATE TABLE places (
    id INTEGER PRIMARY KEY, number INTEGER, lost INTEGER, baseline TEXT, last TEXT, seen INTEGER NOT NULL DEFAULT 0,
    owed TEXT, refused TEXT, hold TEXT, doubted INTEGER NOT NULL DEFAULT 0, made INTEGER, before INTEGER,
    again INTEGER REFERENCES places (id) ON UPDATE CASCADE
);
CREATE INDEX places_number ON places (number);
CREATE INDEX places_lost ON places (lost);
CREATE INDEX places_seen ON places (seen);
-- The places that have another id since a line of the history: up to that, it calls them `former`.
CREATE TABLE renumbered (
    former INTEGER NOT NULL, line INTEGER NOT NULL, place INTEGER NOT NULL REFERENCES places (id) ON UPDATE CASCADE
);
CREATE INDEX renumbered_place ON renumbered (place);
CREATE INDEX renumbered_former ON renumbered (former, line);
-- The journal of edits: what a person asked for, of which place, against which state of it.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY, locid INTEGER NOT NULL REFERENCES places (id) ON UPDATE CASCADE, intent TEXT NOT NULL,
    state TEXT NOT NULL, attempts INTEGER NOT NULL, created_at TEXT NOT NULL,
    attempted_at TEXT, acknowledged_at TEXT, problem TEXT, stored TEXT, concluded INTEGER, number INTEGER,
    operation TEXT AS (json_extract(intent, '$.what'))
);
CREATE INDEX outbox_locid ON outbox (locid, id);
CREATE INDEX outbox_state ON outbox (state, id);
CREATE INDEX outbox_open ON outbox (locid) WHERE concluded IS NULL AND state <> 'dropped';
-- The requests that were sent for a place since the last conclusive list. `over` is
-- one that a list has spoken of, and that may yet land, or again: what it does is told.
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT, place INTEGER NOT NULL REFERENCES places (id) ON UPDATE CASCADE,
    request TEXT NOT NULL, over INTEGER NOT NULL DEFAULT 0, what TEXT AS (json_extract(request, '$.what')),
    known INTEGER AS (json_extract(request, '$.known')), ended TEXT AS (json_extract(request, '$.ended'))
);
CREATE INDEX requests_place ON requests (place, id);
-- How the service stores what it is sent.
CREATE TABLE forms (id INTEGER PRIMARY KEY, sent TEXT NOT NULL, stored TEXT NOT NULL);

CREATE TABLE baselines (id INTEGER PRIMARY KEY, locids TEXT NOT NULL, published TEXT);
CREATE INDEX baselines_published ON baselines (published);
CREATE TABLE twins (locid INTEGER PRIMARY KEY, edit INTEGER NOT NULL, dismissed_at TEXT);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER);
INSERT INTO counters (name, value) VALUES ('edits', 0), ('marks', 0);
CREATE TABLE sites (
    name TEXT PRIMARY KEY, locid INTEGER NOT NULL UNIQUE REFERENCES places (id) ON UPDATE CASCADE, file TEXT NOT NULL,
    applied_at TEXT NOT NULL, time_zone TEXT NOT NULL
);
-- Routing domains: places of this machine alone. `edits` is the counter when one of them changed last.
CREATE TABLE vrfs (name TEXT PRIMARY KEY, edits INTEGER NOT NULL);
CREATE TABLE vrf_places (
    id INTEGER PRIMARY KEY AUTOINCREMENT, vrf TEXT NOT NULL REFERENCES vrfs (name), name TEXT NOT NULL,
    content TEXT NOT NULL, time_zone TEXT NOT NULL
);
CREATE UNIQUE INDEX vrf_places_name ON vrf_places (vrf, name);
"""


def insert(database: Connection, table: str, values: Mapping[str, Any]) -> int:
    """Insert a row: its number."""
    sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - our names
    return int(database.execute(sql, tuple(values.values())).lastrowid or 0)


def update(database: Connection, table: str, number: int, values: Mapping[str, Any]) -> None:
    """Change columns of the row with this ``id``, if any."""
    if values:
        sql = f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?"  # noqa: S608 - our names
        database.execute(sql, (*values.values(), number))


def version_of(connection: sqlite3.Connection) -> int | None:
    """The schema's version in an open file: 0 if nothing stands in it yet, None if the file is not an edits.db."""
    # Asked first: another process may make all of it in between.
    is_empty = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID and not is_of_an_unreleased_build(connection):
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    return 0 if is_empty else None


def is_of_an_unreleased_build(connection: sqlite3.Connection) -> bool:
    """Tell whether a file is the edits.db of a build before the first release, which had other tables."""
    other = "(name = 'places' AND sql NOT LIKE '% last %') OR (name = 'sites' AND sql NOT LIKE '% time_zone %')"
    sql = f"SELECT 1 FROM sqlite_master WHERE name IN ('_sqlite_migrations', 'custom') OR {other}"  # noqa: S608 - ours
    if connection.execute(sql).fetchone() is not None:
        return True
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    return "places" in tables and not {"vrf_places", "renumbered"} <= tables


def create(connection: sqlite3.Connection) -> None:
    """Make all tables, within a transaction."""
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@functools.cache
def empty() -> bytes:
    """A file with all tables and nothing in them: to make them takes eight times as long as to read it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create(connection)
        return connection.serialize()
