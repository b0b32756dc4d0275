"""Loading files of geolocations into the store: all of them in one transaction.

Of the service's own CSV, and of ranges with a country, only distinct values are held in memory; of other kinds of files
all blocks, as numbers.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Table, select

from geolookup.base.reasons import reason
from geolookup.files.tables import BadRows
from geolookup.index.flatten import Flags
from geolookup.model import addresses
from geolookup.model.errors import DataFileError, PullError
from geolookup.model.fields import DEGREES, FIELD_NAMES, TEXT_NAMES, UNKNOWN
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.service.geolocations import merge
from geolookup.service.geolocations.merge import Replacing, staged_blocks, staged_geolocations
from geolookup.service.store.schema import geolocations, padded, with_keys
from geolookup.service.store.store import OnRows, Store, Transaction, counted
from geolookup.sources.blocks import MASKED
from geolookup.sources.country_ranges import COLUMNS, CsvRows, ranges, read_range
from geolookup.sources.detect import open_source
from geolookup.sources.locids import place_digest
from geolookup.sources.outlines import misfits
from geolookup.sources.places import PlaceFields, Places
from geolookup.sources.protocol import Reading
from geolookup.web import wire
from geolookup.web.application import ignore

_BATCH = 5000
# Several services that start at once on one database load one after the other.
_WAIT_S = 900.0
_LARGEST = 2**63 - 1
_BLOCKS_AT_ONCE = 65536

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The changes of a load; all zero if everything was there already."""

    geolocations_added: int
    geolocations_changed: int
    blocks_added: int
    geolocations_removed: int = 0
    blocks_removed: int = 0


def load_files(
    store: Store,
    paths: Iterable[str | os.PathLike[str]],
    *,
    replace: bool = False,
    on_rows: OnRows = ignore,
) -> Loaded:
    """Load files in their order: geolocations are added or changed and blocks added, nothing removed.

    With ``replace``, default geolocations and their blocks that none of the files has are removed afterwards. Custom
    geolocations stay, with their blocks. All of it is one transaction.

    A file is a source of any kind (see `sources.detect`), or the service's own CSV: the columns ``locid``, the fields,
    ``startip`` and ``endip``, one row a block, in which a row without a range is a geolocation without blocks, and
    locids below zero are custom geolocations, which must have coordinates. Of a CSV with ``startip,endip,country`` and
    no other field, the countries become default geolocations in the alphabetical order of their codes, unless there is
    such a geolocation already. Other columns are ignored. ``on_rows`` is told how many more rows were read, some
    thousand at a time.

    :raises DataFileError: if a row is bad, rows of one locid disagree, or a custom block belongs to another custom
        geolocation: the message names bad rows, up to twenty of the first such file; nothing of any file is kept.
        Also if ``replace`` would remove every default geolocation, since the files have none
    """
    added = changed = blocks = 0
    removed = 0, 0
    with store.write(wait_s=_WAIT_S) as transaction:
        replacing = Replacing(transaction) if replace else None
        for path in paths:
            merge.create_staging(transaction)
            bad = BadRows()
            try:
                _stage(transaction, os.fspath(path), bad, on_rows)
            except (DataFileError, PullError) as error:
                bad.add(str(error).removesuffix(": nothing was published"))
            bad.refuse()
            result = merge.merge(transaction, os.fspath(path))
            added, changed, blocks = added + result[0], changed + result[1], blocks + result[2]
            if replacing is not None:
                replacing.keep_staged()
            merge.drop_staging(transaction)
        if replacing is not None:
            removed = replacing.remove()
    return Loaded(
        geolocations_added=added,
        geolocations_changed=changed,
        blocks_added=blocks,
        geolocations_removed=removed[0],
        blocks_removed=removed[1],
    )


def _stage(transaction: Transaction, path: str, bad: BadRows, on_rows: OnRows) -> None:
    rows = _own_csv(path)
    if rows is None:
        with open_source(path) as reading:
            geolocations, blocks = _Batches(transaction, staged_geolocations), _Batches(transaction, staged_blocks)
            _stage_source(transaction, reading, bad, geolocations.add, blocks.add, on_rows)
            geolocations.flush()
            blocks.flush()
        return
    with rows:
        if "locid" in rows.header:
            _stage_geolocations(transaction, rows, bad, on_rows)
        else:
            _stage_countries(transaction, rows, bad, on_rows)


def _own_csv(path: str) -> CsvRows | None:
    """The file, if it is one of the two forms of CSV that only the service reads; None if it may be a source.

    :raises DataFileError: if it cannot be read, or names a column twice
    """
    try:
        rows = CsvRows(path)
    except DataFileError:
        # It may be binary, an archive or a folder: `sources.detect` knows all kinds.
        return None
    header = rows.header
    others = set(FIELD_NAMES) - {"country"}
    if "locid" in header or (set(COLUMNS) <= set(header) and not others & set(header)):
        return rows
    rows.close()
    return None


class _Batches:
    """Rows, each with the values of all columns in their order, on their way into a table, a batch at a time."""

    def __init__(self, transaction: Transaction, table: Table) -> None:
        self._transaction = transaction
        self._table = table
        self._names = [column.name for column in table.c]
        self._rows: list[tuple[Any, ...]] = []

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            transaction = self._transaction
            transaction.database.insert_many(transaction.connection, self._table, self._names, self._rows)
            self._rows = []


def _stage_geolocations(transaction: Transaction, rows: CsvRows, bad: BadRows, on_rows: OnRows) -> None:
    start, end = rows.columns("startip", "endip")
    place_columns = rows.columns("locid", *FIELD_NAMES)
    geolocations, blocks = _Batches(transaction, staged_geolocations), _Batches(transaction, staged_blocks)
    # Digests instead of the rows: they take some 300 bytes for each geolocation, with few blocks or many.
    digest = _Digest()
    known_texts: dict[bytes, int] = {}
    known_places: dict[int, bytes] = {}
    for row in counted(rows.good(bad.add), on_rows):
        try:
            texts = tuple([row[column] for column in place_columns])
            seen = digest(texts)
            locid = known_texts.get(seen)
            if locid is None:
                locid, fields = _place(rows, texts)
                place = digest(tuple(fields.values()))
                if locid not in known_places:
                    known_places[locid] = place
                    geolocations.add((locid, locid, rows.line, *with_keys(fields).values()))
                elif known_places[locid] != place:
                    raise rows.error(f"locid {locid} has other fields here than in an earlier row")
                known_texts[seen] = locid
            if row[start] or row[end]:
                blocks.add(_block(locid, rows.line, *read_range(rows, row[start], row[end])))
        except DataFileError as error:
            bad.add(error)
    geolocations.flush()
    blocks.flush()


class _Digest:
    """A keyed digest of values: two are the same only if every value is, to the last bit.

    Python's own hash does not tell -1 from -2. The key is random, so nobody can make a file whose rows collide.
    """

    def __init__(self) -> None:
        self._key = os.urandom(16)

    def __call__(self, values: tuple[str | float | None, ...]) -> bytes:
        # MessagePack says the type and length of each value, so that no two tuples have the same bytes.
        return blake2b(msgspec.msgpack.encode(values), key=self._key, digest_size=16).digest()


def _place(rows: CsvRows, texts: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    try:
        locid = int(texts[0]) if texts[0].isascii() else 0
    except ValueError:
        locid = 0
    if not locid or not PROVISIONAL_LOCID < locid <= _LARGEST:
        raise rows.error(
            f"locid is a whole number above zero (default) or between zero and {PROVISIONAL_LOCID} (custom), "
            f"not {texts[0]!r:.60}"
        )
    fields: dict[str, Any] = dict(UNKNOWN)
    for name, value in zip(FIELD_NAMES, texts[1:], strict=True):
        try:
            if name not in DEGREES:
                fields[name] = wire.text(value)
            elif value or locid < 0:
                fields[name] = wire.coordinate(value, DEGREES[name]) + 0.0  # which makes -0.0 the 0.0 that it equals
        except ValueError as error:
            raise rows.error(f"{name} {reason(error)}") from error
    wrong = "; ".join(told for _, told in misfits(fields))
    if wrong:
        raise rows.error(wrong)
    return locid, fields


def _stage_countries(transaction: Transaction, rows: CsvRows, bad: BadRows, on_rows: OnRows) -> None:
    blocks = _Batches(transaction, staged_blocks)
    # A code's number is its place in the file until the whole file was read: only then can codes be sorted.
    numbers: dict[str, int] = {}
    for found in counted(ranges(rows, bad.add), on_rows):
        number = numbers.get(found.country)
        if number is None:
            try:
                number = numbers[wire.text(found.country)] = len(numbers) + 1
            except ValueError as error:
                bad.add(rows.error(f"country {reason(error)}"))
                continue
        blocks.add(_block(number, found.line, found.startip, found.endip, found.family, found.first, found.last))
    blocks.flush()
    geolocations = _Batches(transaction, staged_geolocations)
    for country, locid in _country_locids(transaction, numbers):
        fields = UNKNOWN | {"country": country}
        geolocations.add((numbers[country], locid, 1, *with_keys(fields).values()))
    geolocations.flush()


def _country_locids(transaction: Transaction, countries: Iterable[str]) -> Iterator[tuple[str, int]]:
    known = merge.known_countries(transaction)
    following = merge.greatest_locid(transaction) + 1
    for country in sorted(countries):
        if country in known:
            yield country, known[country]
        else:
            yield country, following
            following += 1


def _block(
    number: int, line: int, startip: str, endip: str, family: int, first: int, last: int
) -> tuple[int | str, ...]:
    return number, family, padded(family, first), padded(family, last), startip, endip, line


def _stage_source(
    transaction: Transaction,
    reading: Reading,
    bad: BadRows,
    add_geolocation: Callable[[_Row], None],
    add_block: Callable[[_Row], None],
    on_rows: OnRows,
) -> None:
    """Hand on the rows of both staging tables.

    A place keeps the locid that its source gives it, or that a default geolocation with the same fields has; others get
    the next free ones. Prefixes that are known to have no location are left out, since the service cannot hold them. Of
    equal blocks the later row wins, unless the source has locids of its own, which then decide. ``on_rows`` is told how
    many more rows were read.

    :raises DataFileError: if the source is damaged
    :raises PullError: if it has no good row
    """
    batches = []
    for batch in reading.batches(lenient=True):
        batches.append(batch)
        on_rows(sum(len(columns[0]) for columns in (batch.v4, batch.v6)))
    gathered = reading.gathered
    for row in gathered.bad_in_order():
        bad.add(f"{reading.name}, {row}")
    bad.add_unnamed(gathered.bad - len(gathered.bad_rows))
    if bad:
        return
    gathered.check(reading.name, reading.limits)
    if gathered.network_blocks and not gathered.blocks:
        bad.add(f"{reading.name}: says who runs addresses, and not where they are: the service keeps places alone")
        return
    places = gathered.places
    for number, locid in enumerate(_locids(transaction, places)):
        fields = dict(zip(FIELD_NAMES, places[number], strict=True))
        try:
            for name in TEXT_NAMES:
                wire.text(fields[name])
        except ValueError as error:
            bad.add(f"{reading.name}: {name} {reason(error)}")
            continue
        add_geolocation((number, locid, 0, *with_keys(fields).values()))
    own = places.locids is not None
    for family, columns in (
        (4, [np.concatenate(parts) for parts in zip(*(batch.v4 for batch in batches), strict=True)]),
        (6, [np.concatenate(parts) for parts in zip(*(batch.v6 for batch in batches), strict=True)]),
    ):
        if columns:
            for first, last, number in _blocks(columns, keep_equal=own):
                ends = addresses.to_text(family, first), addresses.to_text(family, last)
                add_block((number, family, padded(family, first), padded(family, last), *ends, 0))


def _blocks(columns: list[Any], *, keep_equal: bool) -> Iterator[tuple[int, int, int]]:
    """First, last and place of the blocks of one family that are kept."""
    *ends, place = columns
    kept: Flags = place != MASKED
    if not keep_equal:
        kept &= _last_of_equal(ends)
    at = np.flatnonzero(kept)
    for begin in range(0, len(at), _BLOCKS_AT_ONCE):
        part = [column[at[begin : begin + _BLOCKS_AT_ONCE]].tolist() for column in columns]
        if len(part) == 3:
            yield from zip(*part, strict=True)
        else:
            for first_hi, first_lo, last_hi, last_lo, number in zip(*part, strict=True):
                yield first_hi << 64 | first_lo, last_hi << 64 | last_lo, number


def _last_of_equal(ends: list[Any]) -> Flags:
    """The rows that no later row with the same ends replaces. Masks count: they hide the rows before them."""
    order = np.lexsort(ends)  # stable, so that equal ones stay in their order
    followed: Flags = np.zeros(len(order), np.bool_)
    if len(order) > 1:
        followed[:-1] = np.logical_and.reduce([column[order][:-1] == column[order][1:] for column in ends])
    kept: Flags = np.empty(len(order), np.bool_)
    kept[order] = ~followed
    return kept


def _locids(transaction: Transaction, places: Places) -> Iterator[int]:
    if places.locids is not None:
        yield from places.locids
        return
    columns = [geolocations.c[name] for name in FIELD_NAMES]
    rows = select(geolocations.c.locid, *columns).where(geolocations.c.locid > 0).order_by(geolocations.c.locid.desc())
    # Of several that are equal the lowest number stays.
    known = {place_digest(PlaceFields._make(row[1:])): row[0] for row in transaction.connection.execute(rows)}
    following = merge.greatest_locid(transaction) + 1
    for place in places:
        locid = known.get(place_digest(place))
        if locid is None:
            yield following
            following += 1
        else:
            yield locid
