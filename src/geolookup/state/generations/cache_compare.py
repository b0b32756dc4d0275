"""Compare two generations' cache.db row by row: geolocations with their fields, and blocks."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from geolookup.model.fields import FIELD_NAMES, FIRST_OWN_LOCID
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.generations.cache import (
    IN_INDEX,
    WITH_TEXT,
    check_version,
    open_published,
    place_columns,
    published_uri,
    read_block,
    read_geolocation,
    version_of,
)
from geolookup.state.generations.cache_segments import blocks_of, changed_blocks, changes
from geolookup.state.packs.reading import readable


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGeolocation:
    """A geolocation that is in both and differs: the fields that changed, and how many blocks came and went."""

    before: Geolocation
    after: Geolocation
    blocks_added: int
    blocks_removed: int

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """(before, after) of each field that changed, by name."""
        before, after = self.before.fields(), self.after.fields()
        return {name: (before[name], after[name]) for name in FIELD_NAMES if before[name] != after[name]}


@dataclass(slots=True, kw_only=True)
class RowDifferences:
    """``counts`` is what `compare` says; the lists go by locid, and have no more rows than were asked for.

    ``renumbered`` are places of ours with another number, each with the one before; ``renumbered_count`` counts them.
    Blocks are (locid, block); a block that moved to another geolocation is both among the added and the removed ones.
    The locid 0 stands for what is known to have no location. ``moves`` has each of these blocks once, with its
    geolocation before and after: None if it has none, or was not there.
    """

    counts: dict[str, dict[str, int]]
    added: list[Geolocation] = field(default_factory=list)
    removed: list[Geolocation] = field(default_factory=list)
    changed: list[ChangedGeolocation] = field(default_factory=list)
    renumbered: list[tuple[int, Geolocation]] = field(default_factory=list)
    renumbered_count: int = 0
    blocks_added: list[tuple[int, IPBlock]] = field(default_factory=list)
    blocks_removed: list[tuple[int, IPBlock]] = field(default_factory=list)
    moves: list[tuple[IPBlock, Geolocation | None, Geolocation | None]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if nothing changed."""
        return not self.renumbered_count and not any(
            count for counts in self.counts.values() for count in counts.values()
        )


def compare(old: str, new: str) -> dict[str, dict[str, int]]:
    """The changes from one cache.db to another: geolocations and blocks added, removed and changed.

    A geolocation is changed if a field or a block of it differs; a block if the same range belongs to another
    geolocation now. A place of ours that got another number is none of these. Blocks count too that are known to have
    no location.
    """
    with _of_places(old, new) as connection:
        if version_of(connection) == version_of(connection, "old") == IN_INDEX:
            touched, arrived, gone = (
                connection.execute(f"SELECT count(*) FROM temp.{table} WHERE locid NOT IN ({known})").fetchone()[0]  # noqa: S608
                for table, known in (
                    ("touched", "0"),
                    ("arrived", "SELECT locid FROM temp.renumbered"),
                    ("gone", "SELECT was FROM temp.renumbered"),
                )
            )
            blocks = changes(old, new, connection.execute("SELECT was, locid FROM temp.renumbered").fetchall())
            return {"geolocations": {"added": arrived, "removed": gone, "changed": touched}, "blocks": blocks}
    with compared(old, new) as (_, counts):
        return counts


@contextlib.contextmanager
def _of_places(old: str, new: str) -> Iterator[sqlite3.Connection]:
    """A connection to the cache.db ``new``, with ``old`` attached, and the temporary tables of places that `compared`
    has; ``arrived`` and ``gone`` have renumbered places, too.
    """
    old, new = readable(old), readable(new)
    with open_published(new) as connection:
        check_version(connection, new)
        connection.execute("ATTACH ? AS old", (published_uri(old),))
        check_version(connection, old, "old")
        connection.execute("PRAGMA query_only = off")  # for the temporary tables: both files are opened read-only
        connection.executescript(
            """
            CREATE TEMP TABLE touched AS
                SELECT n.locid FROM main.geolocations n JOIN old.geolocations o USING (locid)
                WHERE n.digest <> o.digest;
            CREATE TEMP TABLE arrived AS
                SELECT locid FROM main.geolocations EXCEPT SELECT locid FROM old.geolocations;
            CREATE TEMP TABLE gone AS
                SELECT locid FROM old.geolocations EXCEPT SELECT locid FROM main.geolocations;
            CREATE TEMP TABLE renumbered (was INTEGER PRIMARY KEY, locid INTEGER);
            """
        )
        _find_renumbered(connection)
        yield connection


@contextlib.contextmanager
def compared(old: str, new: str) -> Iterator[tuple[sqlite3.Connection, dict[str, dict[str, int]]]]:
    """A connection to the cache.db ``new``, with ``old`` attached, and what `compare` says.

    Its temporary tables hold the differences: ``arrived``, ``gone`` and ``touched`` locids, ``added`` and ``removed``
    blocks; ``renumbered`` has places of ours, from ``was`` to ``locid``, all of whose fields are as before.
    """
    with _of_places(old, new) as connection:
        if version_of(connection) == version_of(connection, "old") == IN_INDEX:
            _fill_from_indexes(connection, old, new)
        else:
            _fill_from_rows(connection, old, new)
        connection.executescript(
            """
            DELETE FROM arrived WHERE locid IN (SELECT locid FROM renumbered);
            DELETE FROM gone WHERE locid IN (SELECT was FROM renumbered);
            CREATE TEMP TABLE moved AS
                SELECT startipnum, endipnum, family FROM added
                INTERSECT SELECT startipnum, endipnum, family FROM removed;
            """
        )

        def count(table: str) -> int:
            return int(connection.execute(f"SELECT count(*) FROM temp.{table}").fetchone()[0])  # noqa: S608

        moved = count("moved")
        counts = {
            "geolocations": {"added": count("arrived"), "removed": count("gone"), "changed": count("touched")},
            "blocks": {
                "added": max(0, count("added") - moved),
                "removed": max(0, count("removed") - moved),
                "changed": moved,
            },
        }
        yield connection, counts


def _fill_from_indexes(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Make ``added`` and ``removed`` of two files whose blocks stand in their indexes, by walking these."""
    for table in ("added", "removed"):
        connection.execute(f"CREATE TABLE temp.{table} (locid, startipnum, endipnum, family)")
    numbers = connection.execute("SELECT was, locid FROM temp.renumbered").fetchall()
    for side, rows in changed_blocks(old, new, numbers):
        table = "added" if side else "removed"
        connection.executemany(f"INSERT INTO temp.{table} (family, locid, startipnum, endipnum) VALUES (?,?,?,?)", rows)  # noqa: S608


def _fill_from_rows(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Make ``added`` and ``removed`` of two files of any form, by their rows."""
    connection.create_function("as_bytes", 1, _as_bytes, deterministic=True)
    same_form = (version_of(connection) == WITH_TEXT) == (version_of(connection, "old") == WITH_TEXT)
    ends = "startipnum, endipnum" if same_form else "as_bytes(startipnum) startipnum, as_bytes(endipnum) endipnum"
    after, before = _blocks(connection, "main", new, "arrived"), _blocks(connection, "old", old, "gone")
    connection.executescript(
        f"""
        CREATE TEMP TABLE blocks_after AS
            SELECT locid, {ends}, family FROM {after}
            WHERE locid IN (SELECT locid FROM touched UNION ALL SELECT locid FROM arrived UNION ALL SELECT 0);
        CREATE TEMP TABLE blocks_before AS
            SELECT coalesce((SELECT r.locid FROM renumbered r WHERE r.was = b.locid), b.locid) AS locid,
                {ends}, family FROM {before} b
            WHERE b.locid IN (SELECT locid FROM touched UNION ALL SELECT locid FROM gone UNION ALL SELECT 0);
        CREATE TEMP TABLE added AS SELECT * FROM blocks_after EXCEPT SELECT * FROM blocks_before;
        CREATE TEMP TABLE removed AS SELECT * FROM blocks_before EXCEPT SELECT * FROM blocks_after;
        """  # noqa: S608
    )


def _blocks(connection: sqlite3.Connection, schema: str, path: str, alone: str) -> str:
    """The table with the blocks of one side, at least those of ``touched`` places and of those in ``alone``."""
    if version_of(connection, schema) != IN_INDEX:
        return f"{schema}.ipblocks"
    sql = f"SELECT locid FROM temp.touched UNION ALL SELECT locid FROM temp.{alone} UNION ALL SELECT 0"  # noqa: S608
    locids = [locid for (locid,) in connection.execute(sql)]
    table = f"temp.segments_{alone}"
    connection.execute(f"CREATE TABLE {table} (family, locid, startipnum, endipnum)")
    for rows in blocks_of(path, locids):
        connection.executemany(f"INSERT INTO {table} VALUES (?,?,?,?)", rows)  # noqa: S608
    return table


def _as_bytes(number: int | str | bytes) -> int | bytes:
    """A number of IPv6 as a compact file has it, so that files of both forms can be compared."""
    return int(number).to_bytes(16, "big") if isinstance(number, str) else number


def _find_renumbered(connection: sqlite3.Connection) -> None:
    """Fill ``renumbered``: of a source without numbers of its own, no two places are equal."""
    (ours,) = connection.execute("SELECT count(*) FROM temp.gone WHERE locid >= ?", (FIRST_OWN_LOCID,)).fetchone()
    if not ours:
        return
    names = ", ".join(FIELD_NAMES)
    for table, which, schema in (("came", "arrived", "main"), ("went", "gone", "old")):
        connection.execute(f"CREATE TEMP TABLE {table} (locid, {names})")
        connection.execute(
            f"INSERT INTO temp.{table} SELECT {place_columns('g')} FROM {schema}.geolocations g"  # noqa: S608
            f" JOIN temp.{which} USING (locid) WHERE locid >= ?",
            (FIRST_OWN_LOCID,),
        )
    connection.execute(f"CREATE INDEX temp.came_place ON came ({names})")
    same = " AND ".join(f"c.{name} IS w.{name}" for name in FIELD_NAMES)
    connection.execute(
        f"INSERT OR IGNORE INTO temp.renumbered SELECT w.locid, c.locid FROM temp.went w JOIN temp.came c ON {same}"  # noqa: S608
    )


def row_differences(old: str, new: str, *, top: int | None, blocks: bool) -> RowDifferences:
    """The changes from one cache.db to another: at most ``top`` rows of a kind (None: all).

    Rows of blocks are included only if ``blocks`` is true.

    :raises StateDamagedError: if a file is not what was written
    """
    limit = -1 if top is None else top
    with compared(old, new) as (connection, counts):
        found = RowDifferences(counts=counts)

        def query(sql: str) -> list[Any]:
            return connection.execute(f"{sql} LIMIT ?", (limit,)).fetchall()

        for schema, path, table, rows in (
            ("main", new, "arrived", found.added),
            ("old", old, "gone", found.removed),
        ):
            sql = f"SELECT {place_columns('g')} FROM {schema}.geolocations g JOIN temp.{table} USING (locid)"  # noqa: S608
            rows += [read_geolocation(path, row) for row in query(f"{sql} ORDER BY g.locid")]
        width = 1 + len(FIELD_NAMES)
        sql = (
            f"SELECT {place_columns('o')}, {place_columns('n')},"  # noqa: S608
            " (SELECT count(*) FROM temp.added a WHERE a.locid = n.locid),"
            " (SELECT count(*) FROM temp.removed r WHERE r.locid = n.locid)"
            " FROM temp.touched t JOIN old.geolocations o USING (locid) JOIN main.geolocations n USING (locid)"
            " ORDER BY n.locid"
        )
        connection.execute("CREATE INDEX temp.added_locid ON added (locid)")
        connection.execute("CREATE INDEX temp.removed_locid ON removed (locid)")
        found.changed += [
            ChangedGeolocation(
                before=read_geolocation(old, row[:width]),
                after=read_geolocation(new, row[width : 2 * width]),
                blocks_added=row[-2],
                blocks_removed=row[-1],
            )
            for row in query(sql)
        ]
        (found.renumbered_count,) = connection.execute("SELECT count(*) FROM temp.renumbered").fetchone()
        sql = (
            f"SELECT r.was, {place_columns('g')} FROM temp.renumbered r"  # noqa: S608
            " JOIN main.geolocations g USING (locid) ORDER BY r.was"
        )
        found.renumbered += [(row[0], read_geolocation(new, row[1:])) for row in query(sql)]
        if blocks:
            for path, table, ranges in ((new, "added", found.blocks_added), (old, "removed", found.blocks_removed)):
                sql = f"SELECT locid, family, startipnum, endipnum FROM temp.{table}"  # noqa: S608
                ordered = query(f"{sql} ORDER BY family, startipnum, endipnum, locid")
                ranges += [(row[0], read_block(path, *row[1:])) for row in ordered]
            found.moves += _moves(connection, old, new, limit)
        return found


def _moves(
    connection: sqlite3.Connection, old: str, new: str, limit: int
) -> Iterator[tuple[IPBlock, Geolocation | None, Geolocation | None]]:
    """The blocks that were added, removed or moved, each with its geolocation before and after."""
    ends = "family, startipnum, endipnum"
    rows = connection.execute(
        f"SELECT {ends}, r.locid, a.locid FROM temp.added a LEFT JOIN temp.removed r USING ({ends})"  # noqa: S608
        f" UNION ALL SELECT {ends}, r.locid, a.locid FROM temp.removed r LEFT JOIN temp.added a USING ({ends})"
        f" WHERE a.locid IS NULL ORDER BY {ends} LIMIT ?",
        (limit,),
    ).fetchall()

    def place(locid: int | None, sides: tuple[tuple[str, str], ...]) -> Geolocation | None:
        for schema, path in sides:
            sql = f"SELECT {place_columns('g')} FROM {schema}.geolocations g WHERE locid = ?"  # noqa: S608
            if locid and (row := connection.execute(sql, (locid,)).fetchone()):
                return read_geolocation(path, row)
        return None

    for family, first, last, before, after in rows:
        # A place with another number than before is in ``removed`` by its new one.
        was, now = place(before, (("old", old), ("main", new))), place(after, (("main", new),))
        yield read_block(new, family, first, last), was, now
