"""Loading files of geolocations into the store: all of them in one transaction.

Of the service's own CSV, and of ranges with a country, only distinct values are held in memory; of other kinds of files
all blocks, as numbers.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import Table

from geolookup.base.reasons import reason
from geolookup.errors import DataFileError, PullError
from geolookup.files.bad_rows import BadRows
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.service.geolocations import merge
from geolookup.service.geolocations.merge import staged_blocks, staged_geolocations
from geolookup.service.geolocations.replacement import Replacing
from geolookup.service.geolocations.source_staging import stage_source
from geolookup.service.store.counted import OnRows, counted, nobody_counts
from geolookup.service.store.schema import padded, with_keys
from geolookup.service.store.store import Store, Transaction
from geolookup.sources.country_ranges import COLUMNS, ranges, read_range
from geolookup.sources.csv_rows import CsvRows
from geolookup.sources.detect import open_source
from geolookup.sources.world.fit import misfits
from geolookup.web import wire

_BATCH = 5000
# Several services that start at once on one database load one after the other.
_WAIT_S = 900.0
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a load changed; all zero if everything was there already."""

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
    on_rows: OnRows = nobody_counts,
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
            stage_source(transaction, reading, bad, geolocations.add, blocks.add, on_rows)
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
    # Digests instead of the rows: they take some 300 bytes for each geolocation, whatever its number of blocks.
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
