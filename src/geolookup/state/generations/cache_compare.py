"""How two generations' cache.db differ, row by row: geolocations with their fields, and blocks."""

from dataclasses import dataclass, field
from typing import Any

from geolookup.model import FIELD_NAMES, Geolocation, IPBlock
from geolookup.state.generations.cache import compared, place_columns, read_block, read_geolocation


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
    """``counts`` is what `cache.compare` says; the lists go by locid, and have no more rows than were asked for.

    ``renumbered`` are places of ours with another number, each with the one before; ``renumbered_count`` counts them.
    Blocks are (locid, block); a block that moved to another geolocation is both among the added and the removed ones.
    The locid 0 stands for what is known to have no location.
    """

    counts: dict[str, dict[str, int]]
    added: list[Geolocation] = field(default_factory=list)
    removed: list[Geolocation] = field(default_factory=list)
    changed: list[ChangedGeolocation] = field(default_factory=list)
    renumbered: list[tuple[int, Geolocation]] = field(default_factory=list)
    renumbered_count: int = 0
    blocks_added: list[tuple[int, IPBlock]] = field(default_factory=list)
    blocks_removed: list[tuple[int, IPBlock]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not self.renumbered_count and not any(
            count for counts in self.counts.values() for count in counts.values()
        )


def row_differences(old: str, new: str, *, top: int | None, blocks: bool) -> RowDifferences:
    """What changed from one cache.db to another: at most ``top`` rows of a kind (None: all).

    Rows of blocks are included only if ``blocks`` is true.

    :raises StateDamagedError: if a file is not what was written
    """
    limit = -1 if top is None else top
    with compared(old, new) as (connection, counts):
        found = RowDifferences(counts=counts)

        def query(sql: str) -> list[Any]:
            return connection.execute(f"{sql} LIMIT ?", (limit,)).fetchall()

        def columns(table: str, schema: str) -> str:
            return ", ".join(place_columns(connection, schema=schema, table=table).values())

        for schema, path, table, rows in (
            ("main", new, "arrived", found.added),
            ("old", old, "gone", found.removed),
        ):
            sql = f"SELECT {columns('g', schema)} FROM {schema}.geolocations g JOIN temp.{table} USING (locid)"  # noqa: S608
            rows += [read_geolocation(path, row) for row in query(f"{sql} ORDER BY g.locid")]
        width = 1 + len(FIELD_NAMES)
        sql = (
            f"SELECT {columns('o', 'old')}, {columns('n', 'main')},"  # noqa: S608
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
            f"SELECT r.was, {columns('g', 'main')} FROM temp.renumbered r"  # noqa: S608
            " JOIN main.geolocations g USING (locid) ORDER BY r.was"
        )
        found.renumbered += [(row[0], read_geolocation(new, row[1:])) for row in query(sql)]
        if blocks:
            for path, table, ranges in ((new, "added", found.blocks_added), (old, "removed", found.blocks_removed)):
                sql = f"SELECT locid, family, startipnum, endipnum FROM temp.{table}"  # noqa: S608
                ordered = query(f"{sql} ORDER BY family, startipnum, endipnum, locid")
                ranges += [(row[0], read_block(path, *row[1:])) for row in ordered]
        return found
