"""A generation's ``cache.db``: what was pulled, as rows. Its schema, its load in one go, and its questions."""

import contextlib
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, Unpack
from urllib.parse import quote

from geolookup.base import disk
from geolookup.base.text import without_accents
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.errors import StateDamagedError, StateTooNewError
from geolookup.model.fields import FIELD_NAMES, FIELDS
from geolookup.model.types import Geolocation, IPBlock, ListFilters, field_values
from geolookup.state.base import files
from geolookup.state.base.sqlite import ERRORS, create_private, ours, sqlite_errors, wrong_in
from geolookup.state.packs.reading import readable

#: Of a file whose blocks have their ends as text too, and IPv6 numbers as decimal text.
WITH_TEXT = 1
#: Of a file whose blocks have their ends as numbers only, and those of IPv6 as 16 bytes, the highest first.
COMPACT = 2
#: Of a compact file without blocks: they are the segments of the index beside it (`cache_segments`).
IN_INDEX = 3
SCHEMA_VERSION = IN_INDEX

#: (locid, the fields in their order, number of blocks, digest of the row with its blocks)
GeolocationRow: TypeAlias = tuple[Any, ...]
#: (locid, family, startip, endip, startipnum, endipnum); numbers as `stored_number` makes them
BlockRow = tuple[int, int, str, str, int | str, int | str]

_IS_TEXT = tuple(field.kind == "text" for field in FIELDS)
_INSERT = f"INSERT INTO geolocations VALUES ({', '.join('?' * (len(FIELDS) + 3))})"  # noqa: S608


def stored_number(family: int, value: int) -> int | str:
    """An address as SQLite can hold and order it: an integer, or for IPv6 decimal text padded to 39 digits."""
    return value if family == 4 else f"{value:039d}"


def _stored(family: int, value: int, schema: int) -> int | str | bytes:
    """`stored_number` in a file of this schema."""
    return value.to_bytes(16, "big") if schema != WITH_TEXT and family == 6 else stored_number(family, value)


class CacheWriter:
    """Writes a new cache.db: rows go in as they come, in one transaction, and `finish` makes the file durable.

    No reader looks at it before it is complete, and any failure throws it away, so it needs no journal.
    """

    def __init__(self, path: str, *, compact: bool = False) -> None:
        """With ``compact`` blocks are added by `add_numbers`: for sources of millions, of which no one is looked up."""
        self.path = path
        self._compact = compact
        with files.file_errors(path), sqlite_errors(path):
            create_private(path)
            self._connection = sqlite3.connect(path, isolation_level=None)
            try:
                for pragma in (
                    "journal_mode = off",
                    "synchronous = off",
                    "locking_mode = exclusive",
                    "cache_size = -8192",
                ):
                    self._connection.execute(f"PRAGMA {pragma}")
                self._create_tables()
                self._connection.execute("BEGIN")
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def _create_tables(self) -> None:
        # Not by sqlite-utils: it imports pandas and pyarrow if they are installed, 60 MB.
        fields = ", ".join(f"{field.name} {'TEXT NOT NULL' if field.kind == 'text' else 'REAL'}" for field in FIELDS)
        # A mask's blocks have the locid 0, which no geolocation has.
        locid, text = "", ""
        if not self._compact:
            locid, text = " REFERENCES geolocations(locid)", "startip TEXT NOT NULL, endip TEXT NOT NULL, "
        # The numbers are integers in IPv4 rows and text in IPv6 rows: BLOB is the one affinity that keeps both.
        ends = f"{text}startipnum BLOB NOT NULL, endipnum BLOB NOT NULL"
        for table in (
            f"geolocations (locid INTEGER PRIMARY KEY, {fields}, blocks INTEGER NOT NULL, digest TEXT NOT NULL)",
            f"ipblocks (locid INTEGER NOT NULL{locid}, family INTEGER NOT NULL, {ends})",
            "about (name TEXT PRIMARY KEY, value TEXT)",
        ):
            self._connection.execute(f"CREATE TABLE {table}")

    def add(self, geolocations: Iterable[GeolocationRow], blocks: Iterable[BlockRow]) -> None:
        """Add rows; a locid that was added before is for the caller to have noticed."""
        with sqlite_errors(self.path):
            self._connection.executemany(_INSERT, geolocations)
            if blocks:
                self._connection.executemany("INSERT INTO ipblocks VALUES (?,?,?,?,?,?)", blocks)

    def add_numbers(self, family: int, blocks: Iterable[tuple[int, int | bytes, int | bytes]]) -> None:
        """Add blocks of one family to a compact file, in the order of their rows: locid, first and last."""
        with sqlite_errors(self.path):
            self._connection.executemany(f"INSERT INTO ipblocks VALUES (?,{int(family)},?,?)", blocks)  # noqa: S608

    def finish(self, about: Mapping[str, str], *, blocks_in_index: bool = False) -> None:
        """Index, say what the file is, close it and make its bytes durable.

        With ``blocks_in_index`` the blocks of a compact file are the segments of the index beside it: none were added.
        """
        with sqlite_errors(self.path), files.file_errors(self.path):
            self._connection.execute("COMMIT")
            if not self._compact:
                self._connection.execute("CREATE INDEX idx_ipblocks_locid ON ipblocks (locid)")
            self._connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            version = IN_INDEX if blocks_in_index else COMPACT if self._compact else WITH_TEXT
            self._connection.execute(f"PRAGMA user_version = {version}")
            self._connection.close()
            disk.sync_file(self.path)


def published_uri(path: str) -> str:
    """A published file as SQLite opens it.

    ``immutable`` is true of published files by construction, and spares SQLite its locks and journals.
    """
    return f"file:{quote(path)}?mode=ro&immutable=1"


@contextlib.contextmanager
def open_published(path: str) -> Iterator[sqlite3.Connection]:
    """Open a published file for reading, for the length of a ``with``."""
    try:
        connection = sqlite3.connect(published_uri(path), uri=True)
        try:
            connection.execute("PRAGMA query_only = on")
            yield connection
        finally:
            connection.close()
    except ERRORS as error:
        raise ours(error, path) from error


@dataclass(frozen=True, slots=True)
class Cache:
    """Questions to a published cache.db. Each opens and closes the file by itself, so that a fork is harmless."""

    path: str

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with open_published(readable(self.path)) as connection:
            check_version(connection, self.path)
            yield connection

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with self._opened() as connection:
            return connection.execute(sql, parameters).fetchall()

    def geolocation(self, locid: int) -> Geolocation | None:
        """One geolocation without its blocks, or None."""
        with self._opened() as connection:
            row = connection.execute(f"SELECT {place_columns()} FROM geolocations WHERE locid = ?", (locid,)).fetchone()  # noqa: S608
            return None if row is None else read_geolocation(self.path, row)

    def custom(self) -> list[Geolocation]:
        """The custom geolocations with their blocks, in the order of their locids."""
        return self.named()[0]

    def named(self) -> tuple[list[Geolocation], dict[int, str]]:
        """The same, and the names of sites that the service's elements have, by locid."""
        with self._opened() as connection:
            sites = self._about(connection, "sites")
            places = connection.execute(
                f"SELECT {place_columns()} FROM geolocations WHERE locid < 0 ORDER BY locid"  # noqa: S608
            ).fetchall()
            found = [read_geolocation(self.path, place, self._blocks(connection, place[0])) for place in places]
        return found, {int(locid): name for locid, name in json.loads(sites or "{}").items()}

    def about(self, name: str) -> str:
        """Something that is said of the file by name; "" if it is not."""
        with self._opened() as connection:
            return self._about(connection, name)

    @staticmethod
    def _about(connection: sqlite3.Connection, name: str) -> str:
        found = connection.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return "" if found is None else str(found[0])

    def _blocks(self, connection: sqlite3.Connection, locid: int) -> tuple[IPBlock, ...]:
        rows = connection.execute(
            "SELECT family, startipnum, endipnum FROM ipblocks WHERE locid = ? ORDER BY family, startipnum, endipnum",
            (locid,),
        )
        return tuple(read_block(self.path, *row) for row in rows)

    def covering_rows(self, family: Literal[4, 6], value: int) -> list[tuple[IPBlock, Geolocation | None, int]]:
        """Every block that covers an address, in no order, with its geolocation, which a mask has not, and its row's
        number. Of a file that has blocks it reads all: 0.2 s a million.
        """
        with self._opened() as connection:
            schema = version_of(connection)
            blocks, known = "ipblocks", []
            if schema == IN_INDEX:
                from geolookup.state.generations.cache_segments import covering  # late: it needs numpy

                blocks = "(SELECT 1 AS rowid, ? AS locid, ? AS family, ? AS startipnum, ? AS endipnum)"
                if (found := covering(self.path, family, value)) is None:
                    return []
                known = [found[0], family, *(_stored(family, end, schema) for end in found[1:])]
            number = _stored(family, value, schema)
            rows = connection.execute(
                "SELECT startipnum, endipnum, b.rowid, b.locid,"  # noqa: S608
                f" {place_columns('g')}"
                f" FROM {blocks} b LEFT JOIN geolocations g ON g.locid = b.locid"
                " WHERE b.family = ? AND b.startipnum <= ? AND b.endipnum >= ?",
                (*known, family, number, number),
            ).fetchall()
        return [
            (
                read_block(self.path, family, row[0], row[1]),
                None if row[3] == 0 else read_geolocation(self.path, row[4:]),
                int(row[2]),
            )
            for row in rows
        ]

    def find(
        self,
        *,
        layer: str | None = None,
        top: int | None = None,
        **filters: Unpack[ListFilters],
    ) -> Iterator[tuple[Geolocation, int]]:
        """Geolocations that fit all filters (without regard to case), with their number of blocks, by locid."""
        with self._opened() as connection:
            wanted = {name: str(text).casefold() for name, text in filters.items() if text}
            conditions = [f"casefold({name}) = ?" for name in wanted]
            if layer:
                conditions.append("locid < 0" if layer == "custom" else "locid > 0")
            where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
            limit = "" if top is None else f"LIMIT {int(top)}"
            parameters = tuple(wanted.values())
            connection.create_function("casefold", 1, str.casefold, deterministic=True)
            sql = f"SELECT {place_columns()}, blocks FROM geolocations {where} ORDER BY locid {limit}"  # noqa: S608
            for row in connection.execute(sql, parameters):
                yield read_geolocation(self.path, row[:-1]), row[-1]

    def city(
        self, country: str, city: str, folded: Callable[[str], str] = str.casefold
    ) -> list[tuple[Geolocation, int, int]]:
        """The default geolocations of a city that have coordinates, each with its IPv4 addresses and all its blocks.

        Two names of a city are one if they are so once they are ``folded``. If there are several, all blocks of a file
        are read.
        """
        with self._opened() as connection:
            connection.create_function("folded", 1, folded, deterministic=True)
            rows = connection.execute(
                f"SELECT {place_columns()}, blocks FROM geolocations WHERE locid > 0 AND country = ?"  # noqa: S608
                " AND folded(city) = ? AND latitude IS NOT NULL AND longitude IS NOT NULL ORDER BY locid",
                (country, folded(city)),
            ).fetchall()
            several = [row[0] for row in rows] if len(rows) > 1 else []
            if version_of(connection) == IN_INDEX:
                from geolookup.state.generations.cache_segments import addresses_v4  # late: it needs numpy

                sizes = addresses_v4(self.path, several)
            else:
                sizes = dict(
                    connection.execute(
                        "SELECT locid, sum(endipnum - startipnum + 1) FROM ipblocks WHERE family = 4"
                        " AND locid IN (SELECT value FROM json_each(?)) GROUP BY locid",
                        (json.dumps(several),),
                    )
                )
        return [(read_geolocation(self.path, row[:-1]), sizes.get(row[0], 0), row[-1]) for row in rows]

    def cities_like(self, begins: Collection[str], most: int) -> list[Geolocation]:
        """A default geolocation with coordinates of each city whose name begins so, those with most blocks first.

        Case has no meaning in the letters a-z, and in the first letter. If no name begins so, accents have none either.
        """
        likes = [
            re.sub(r"([%_\\])", r"\\\1", each) + "%"
            for each in dict.fromkeys(
                each for begin in begins for each in (begin, begin[:1].upper() + begin[1:], begin.title())
            )
        ]
        any_of = " OR ".join(["{0} LIKE ? ESCAPE '\\'"] * len(likes))
        rows: list[Any] = []
        with self._opened() as connection:
            connection.create_function("plain", 1, without_accents, deterministic=True)
            for where in (any_of.format("city"), f"city GLOB '*[^ -~]*' AND ({any_of.format('plain(city)')})"):
                # With max() the other columns are those of the row that has the most.
                rows = (
                    rows
                    or connection.execute(
                        f"SELECT {place_columns()}, max(blocks) FROM geolocations WHERE locid > 0 AND ({where})"  # noqa: S608
                        " AND latitude IS NOT NULL AND longitude IS NOT NULL"
                        f" GROUP BY country, region, city ORDER BY sum(blocks) DESC, locid LIMIT {int(most)}",
                        tuple(likes),
                    ).fetchall()
                )
        return [read_geolocation(self.path, row[:-1]) for row in rows]

    def country_blocks(self) -> dict[str, int]:
        """The number of blocks of each country in the default layer."""
        return dict(self._rows("SELECT country, sum(blocks) FROM geolocations WHERE locid > 0 GROUP BY country"))

    def custom_digests(self) -> dict[int, str]:
        """The digest of each custom geolocation with its blocks, by locid."""
        return dict(self._rows("SELECT locid, digest FROM geolocations WHERE locid < 0"))

    def counts(self) -> dict[str, int]:
        """Rows by layer: default and custom geolocations, default and custom blocks."""
        ((default, custom, default_blocks, custom_blocks),) = self._rows(
            "SELECT count(*) FILTER (WHERE locid > 0), count(*) FILTER (WHERE locid < 0),"
            " coalesce(sum(blocks) FILTER (WHERE locid > 0), 0), coalesce(sum(blocks) FILTER (WHERE locid < 0), 0)"
            " FROM geolocations"
        )
        return {"default": default, "custom": custom, "default_blocks": default_blocks, "custom_blocks": custom_blocks}

    def check(self) -> None:
        """Have SQLite check the whole file.

        :raises StateDamagedError: naming what it found
        """
        with self._opened() as connection:
            found = wrong_in(connection, "integrity_check")
        if found:
            raise StateDamagedError(f"{self.path}: {found}")


def place_columns(table: str = "") -> str:
    """SQL for what `read_geolocation` takes: the locid and the fields, of ``table`` if that has a name."""
    prefix = f"{table}." if table else ""
    return ", ".join([f"{prefix}{name}" for name in ("locid", *FIELD_NAMES)])


def version_of(connection: sqlite3.Connection, schema: str = "main") -> int:
    """The schema of an open file."""
    return int(connection.execute(f"PRAGMA {schema}.user_version").fetchone()[0])


def check_version(connection: sqlite3.Connection, path: str, schema: str = "main") -> None:
    """
    :raises StateTooNewError: if a newer release wrote an open file
    """
    found = version_of(connection, schema)
    if found > SCHEMA_VERSION:
        raise StateTooNewError(
            f"{path}: has schema {found}, and this release reads {SCHEMA_VERSION}: upgrade geolookup"
        )


def read_geolocation(path: str, row: tuple[Any, ...], blocks: tuple[IPBlock, ...] = ()) -> Geolocation:
    """A row of the locid and the fields; ``path`` is for the message.

    :raises StateDamagedError: if it cannot be one
    """
    # SQLite's types are advice: in a damaged row anything may stand anywhere, and what reads it relies on the types.
    locid, *values = row
    if type(locid) is not int or not all(
        type(value) is str if is_text else value is None or type(value) is float
        for value, is_text in zip(values, _IS_TEXT, strict=True)
    ):
        raise StateDamagedError(f"{path}: the row of geolocation {locid!r:.40} is damaged")
    return Geolocation(locid=locid, **dict(zip(FIELD_NAMES, values, strict=True)), ipblocks=blocks)


def read_block(path: str, family: int, first: int | str | bytes, last: int | str | bytes) -> IPBlock:
    """A row of ipblocks, its numbers as they stand there; ``path`` is for the message.

    :raises StateDamagedError: if it cannot be one
    """
    try:
        low, high = (
            int.from_bytes(end, "big") if isinstance(end, bytes) and len(end) == 16 else int(end)
            for end in (first, last)
        )
    except (ValueError, TypeError) as error:
        raise StateDamagedError(f"{path}: a row of ipblocks is damaged: {first!r:.50} is not an address") from error
    if family not in (4, 6) or not 0 <= low <= high <= (IPV4_MAX if family == 4 else IPV6_MAX):
        raise StateDamagedError(f"{path}: a row of ipblocks is damaged: {low} to {high} is not a range of IPv{family}")
    return IPBlock(family=4 if family == 4 else 6, first=low, last=high)


def digest(place: Geolocation) -> str:
    """A short text of a geolocation's number, fields and blocks: the same as its row in cache.db has."""
    import msgspec  # late: an edit needs it once in a generation

    blocks = [(block.family, block.first, block.last) for block in sorted(place.ipblocks)]
    content = msgspec.json.encode((place.locid, field_values(place), blocks))
    return hashlib.blake2b(content, digest_size=32).hexdigest()[:32]
