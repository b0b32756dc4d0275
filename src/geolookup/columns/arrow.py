"""Columns of addresses as Arrow arrays: `locate` answers one, `enrich` a stream of record batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import is_text, pa, pc
from geolookup.columns.arrow_index import ArrowIndex, sample_of
from geolookup.columns.arrow_rows import decoded
from geolookup.columns.common import (
    DEFAULT_FIELDS,
    Doubt,
    Errors,
    Reread,
    check_columns,
    checked_fields,
    column_named,
    default_geo,
)
from geolookup.columns.kernel import BAD
from geolookup.exports.provenance import metadata
from geolookup.exports.provenance import provenance as provenance_of
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import parse
from geolookup.model.errors import ColumnError, InvalidAddressError, UnknownVrfError

#: Members of a result's schema metadata: in how many rows the address is malformed, and in how many it is not covered.
MALFORMED_KEY = b"geolookup.malformed"
NOT_COVERED_KEY = b"geolookup.not_covered"

_T = TypeVar("_T")
_answers: "WeakKeyDictionary[GeoLookup, ArrowIndex]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The answers for one array of addresses.

    ``column`` is the array, ``batch`` a record batch of the same length with a column a field; ``malformed`` has the
    rows (from 0) whose address is malformed, and ``not_covered`` counts those whose address no block covers. A null
    counts as neither; ``absent`` counts those.
    """

    column: Any
    batch: Any
    malformed: NDArray[np.int64]
    not_covered: int
    absent: int = 0

    def count_in(self, doubt: Doubt) -> None:
        """Count its values for a doubt about the column."""
        values = len(self.column) - self.absent
        doubt.add(values - len(self.malformed), values)

    def reason(self, row: int) -> str:
        """The reason why the address of a row is malformed."""
        return _reason(self.column, row)


def locate(
    geo: GeoLookup | None,
    column: Any,
    fields: str | Iterable[str] = DEFAULT_FIELDS,
    *,
    errors: Errors = "null",
    vrf: Any = None,
) -> Any:
    """Answer a column of addresses: a ``RecordBatch`` for an array, a ``Table`` of as many chunks for a chunked one.

    ``column`` is of type string, large_string, string_view, binary of 4 or 16 bytes, integer, decimal without fraction,
    or dictionary of these. Whole numbers are IPv4 addresses, and one that does not fit 32 bits is malformed; but
    decimals, of 128 bits and more, are IPv6 addresses from 2**32 on. ``fields`` are names of `common.FIELDS`; text is
    dictionary-encoded, ``latitude`` and ``longitude`` are float64 in degrees, ``locid`` is int64, ``pending`` bool, and
    ``first`` and ``last`` plain text (they cost some microseconds a distinct address, the others nanoseconds). A row is
    null if its address is null, not covered or malformed; the schema's metadata count the last two under
    ``geolookup.not_covered`` and ``geolookup.malformed``. With ``geo`` None, the settings' state directory answers. If
    fewer than half of 20 or more values are addresses, a `ColumnWarning` asks whether it is the right column. With
    ``vrf`` addresses are answered in that routing domain: one name, or an array of as many names, in which null and
    empty text stand for that of ``geo``.

    :raises InvalidAddressError: at the first malformed address, naming its row (from 0), if ``errors`` is "raise"
    :raises UnknownVrfError: if ``vrf`` names one that is not there
    :raises ColumnError: for a column of another type, an unknown field, or an array whose buffers do not fit its rows:
        naming the first row (from 0) whose text or index is outside of them
    """
    return locate_in_doubt(geo, column, checked_fields(fields), Doubt(column_named(None)), errors=errors, vrf=vrf)


def _located_in_vrfs(
    geo: GeoLookup, column: Any, vrfs: Any, names: tuple[str, ...], doubt: Doubt, errors: Errors
) -> Any:
    is_chunked = isinstance(column, pa.ChunkedArray)
    whole, beside = (each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in (column, vrfs))
    if not isinstance(whole, pa.Array) or not isinstance(beside, pa.Array):
        raise ColumnError("a column, and its VRFs, are Arrow arrays or chunked arrays")
    found = locate_in_vrfs(geo, whole, beside, names)
    return _answered([found], doubt, errors, is_chunked=is_chunked)


def locate_in_doubt(
    geo: GeoLookup | None,
    column: Any,
    names: tuple[str, ...],
    doubt: Doubt,
    *,
    errors: Errors = "null",
    vrf: Any = None,
) -> Any:
    """Answer as `locate`; ``doubt`` counts the values, and warns if few of them are addresses."""
    if isinstance(vrf, str):
        geo = (default_geo() if geo is None else geo).in_vrf(vrf)
    elif vrf is not None:
        return _located_in_vrfs(default_geo() if geo is None else geo, column, vrf, names, doubt, errors)
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        raise ColumnError(f"a column is an Arrow array or chunked array, not {type(column).__name__}")
    is_chunked = isinstance(column, pa.ChunkedArray)
    # One chunk at least, so that an empty column gives a table of the right types.
    chunks = (column.chunks or [pa.array([], column.type)]) if is_chunked else [column]
    geo = default_geo() if geo is None else geo

    def answer(snapshot: Snapshot) -> list[Located]:
        answers = index_of(geo, snapshot)
        found = []
        before = 0
        for chunk in chunks:
            found.append(locate_with(answers, chunk, names, before=before))
            before += len(chunk)
        return found

    return _answered(geo.with_networks(answer), doubt, errors, is_chunked=is_chunked)


def _answered(found: list[Located], doubt: Doubt, errors: Errors, *, is_chunked: bool) -> Any:
    if errors == "raise":
        raise_first(found)
    for one in found:
        one.count_in(doubt)
    doubt.warn()
    counts = {
        MALFORMED_KEY: str(sum(len(one.malformed) for one in found)),
        NOT_COVERED_KEY: str(sum(one.not_covered for one in found)),
    }
    if not is_chunked:
        return found[0].batch.replace_schema_metadata(counts)
    return pa.Table.from_batches([one.batch for one in found]).replace_schema_metadata(counts)


def enrich(
    geo: GeoLookup | None,
    batches: Any,
    *,
    column: str,
    fields: str | Iterable[str] = DEFAULT_FIELDS,
    prefix: str = "geo_",
    threads: int = 1,
    errors: Errors = "null",
    observe: Callable[[Located], None] | None = None,
) -> Iterator[Any]:
    """The record batches, in their order, with one more column for each field, named ``prefix`` and the field.

    ``batches`` is an iterable of record batches (a ``RecordBatchReader`` among them) or a table. A few batches for each
    of ``threads`` are held at a time, however long the stream is. The generation that it began with answers all
    of it. ``observe`` is called with each batch's `Located`, in order, before that batch is handed out.

    :raises InvalidAddressError: if ``errors`` is "raise": naming the row, counted from the beginning of the stream
    :raises ColumnError: if a batch lacks the column or already has one that would be added, or as for `locate`
    """
    names = checked_fields(fields)
    waiting: deque[Any] = deque()
    first: list[Any] = []
    doubt = Doubt(column_named(column), lambda: sample_of(first[0]))

    def columns() -> Iterator[Any]:
        for batch in batches.to_batches() if isinstance(batches, pa.Table) else batches:
            found = _column_of(batch, column, [prefix + name for name in names])
            waiting.append(batch)
            yield found

    before = 0
    for located in locate_each(geo, columns(), names, threads=threads):
        if errors == "raise":
            raise_first([located], before)
        if observe is not None:
            observe(located)
        batch = waiting.popleft()
        before += batch.num_rows
        if not first:
            first.append(batch)
        located.count_in(doubt)
        doubt.warn(ended=False)
        schema = batch.schema
        for name, field in zip(names, located.batch.schema, strict=True):
            schema = schema.append(field.with_name(prefix + name))
        yield pa.RecordBatch.from_arrays([*batch.columns, *located.batch.columns], schema=schema)
    doubt.warn()


def locate_each(
    geo: GeoLookup | None,
    columns: Iterable[Any],
    fields: tuple[str, ...],
    *,
    threads: int = 1,
    reread: Reread | None = None,
    answers: ArrowIndex | None = None,
) -> Iterator[Located]:
    """The answers to a stream of arrays, in their order; ``columns`` is read a few ahead, in the caller's thread.

    ``reread`` is asked about text that is malformed: for the address that it means, or None if it means none.
    ``answers`` is what `answers_of` gave for ``fields``, if it was called before.

    :raises ColumnError: as for `locate`
    """
    answers = answers or answers_of(default_geo() if geo is None else geo, fields)
    before = 0
    if threads <= 1:
        for column in columns:
            yield locate_with(answers, column, fields, reread, before)
            before += len(column)
        return
    under_way: deque[Future[Located]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="geolookup-columns")
    try:
        for column in columns:
            under_way.append(pool.submit(locate_with, answers, column, fields, reread, before))
            before += len(column)
            if len(under_way) > 2 * threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def answers_of(geo: GeoLookup, fields: tuple[str, ...]) -> ArrowIndex:
    """The index that ``geo`` serves now, ready for columns. It stays the same when something newer is published.

    What ``fields`` need is read now.
    """

    def prepare(snapshot: Snapshot) -> ArrowIndex:
        found = index_of(geo, snapshot)
        found.prepare(fields)
        return found

    return geo.with_networks(prepare)


def answers_and_provenance(geo: GeoLookup, fields: tuple[str, ...]) -> tuple[ArrowIndex, dict[str, str]]:
    """The same, and what the answers come from, as `provenance` says."""

    def prepare(snapshot: Snapshot) -> tuple[ArrowIndex, dict[str, str]]:
        found = index_of(geo, snapshot)
        found.prepare(fields)
        return found, metadata(provenance_of(geo.home, snapshot))

    return geo.with_networks(prepare)


def provenance(geo: GeoLookup | None = None) -> dict[str, str]:
    """What the answers of this moment come from, for the metadata of a schema or file that keeps them.

    ``geolookup.fingerprint`` is that of all answers, ``geolookup.generation`` and ``geolookup.published`` say which
    data answered (``geolookup.open(as_of=…)`` opens them again while they are kept), ``geolookup.sources`` is JSON: of
    each source the name, the date of its data, the licence and the line that this wants shown. The first time after a
    publish or an edit it takes some seconds for millions of blocks: see `GeoLookup.fingerprint`.
    """
    geo = default_geo() if geo is None else geo
    return geo.with_snapshot(lambda snapshot: metadata(provenance_of(geo.home, snapshot)))


def locate_with(
    answers: ArrowIndex, column: Any, fields: tuple[str, ...], reread: Reread | None = None, before: int = 0
) -> Located:
    """Answer one array from one snapshot; ``reread`` as for `locate_each`, and ``before`` counts the earlier rows.

    :raises ColumnError: as for `locate`
    """
    found = answers.search(column, fields, before)
    if reread is not None and (found.anywhere == BAD).any():
        plain = decoded(column)
        if is_text(plain.type):
            column = _read_again(plain, np.flatnonzero(found.anywhere == BAD), reread)
            found = answers.search(column, fields)
    answer = answers.answer(found, fields)
    return Located(
        column=column,
        batch=pa.RecordBatch.from_arrays(answer.arrays, names=list(fields)),
        malformed=answer.malformed,
        not_covered=answer.not_covered,
        absent=answer.absent,
    )


def locate_in_vrfs(
    geo: GeoLookup,
    column: Any,
    vrfs: Any,
    fields: tuple[str, ...],
    *,
    reread: Reread | None = None,
    before: int = 0,
) -> Located:
    """`locate_by_vrf` of a state."""

    def answers(name: str) -> ArrowIndex:
        return answers_of(geo.in_vrf(name) if name else geo, fields)

    return locate_by_vrf(answers, column, vrfs, fields, reread=reread, before=before)


def locate_by_vrf(
    answers: Callable[[str], ArrowIndex],
    column: Any,
    vrfs: Any,
    fields: tuple[str, ...],
    *,
    reread: Reread | None = None,
    before: int = 0,
) -> Located:
    """Answer one array, each row in the VRF that ``vrfs``, an array of text, has in the same row.

    ``answers`` has those of a VRF by its name, "" for the global table, of which a row is that names none (null, or
    empty text). ``reread`` is as for `locate_each`, and ``before`` counts the earlier rows.

    :raises UnknownVrfError: if a row names a VRF that is not there: names the row (from 0)
    :raises ColumnError: if ``vrfs`` is not text, or not as long as the column; else as for `locate`
    """
    rows_of, found = [], []
    for rows, part, within in each_vrf(answers, column, vrfs, before):
        rows_of.append(rows)
        found.append(locate_with(within, part, fields, reread, before))
    if not found:
        return locate_with(answers(""), column, fields, reread, before)
    order = np.argsort(np.concatenate(rows_of))
    together = pa.Table.from_batches([each.batch for each in found]).unify_dictionaries().combine_chunks()
    batch = together.take(pa.array(order)).combine_chunks().to_batches()[0]
    malformed = np.sort(np.concatenate([rows[each.malformed] for rows, each in zip(rows_of, found, strict=True)]))
    return Located(
        column=column,
        batch=batch,
        malformed=malformed,
        not_covered=sum(each.not_covered for each in found),
        absent=sum(each.absent for each in found),
    )


def each_vrf(
    opened: Callable[[str], _T], column: Any, vrfs: Any, before: int = 0
) -> Iterator[tuple[NDArray[np.int64], Any, _T]]:
    """For each VRF that ``vrfs`` names, its rows, what ``column`` has in them, and what ``opened`` makes of its name.

    The errors are those of `locate_by_vrf`.
    """
    named = decoded(vrfs)
    if not (pa.types.is_string(named.type) or pa.types.is_large_string(named.type) or pa.types.is_null(named.type)):
        raise ColumnError(f"a column of VRFs is text, not {named.type}")
    if len(named) != len(column):
        raise ColumnError(
            f"a column of VRFs has a row for each address: {len(named)} rows, and {len(column)} addresses"
        )
    named = pc.fill_null(named.cast(pa.large_string()), "")
    if pa.types.is_string_view(column.type):  # of which Arrow takes no rows
        column = column.cast(pa.large_string())
    for name in pc.unique(named).to_pylist():
        rows = np.flatnonzero(pc.equal(named, name).to_numpy(zero_copy_only=False))
        try:
            within = opened(name)
        except UnknownVrfError as error:
            raise UnknownVrfError(f"row {before + int(rows[0])}: {error}") from error
        yield rows, column.take(pa.array(rows)), within


def _read_again(column: Any, rows: NDArray[np.int64], reread: Reread) -> Any:
    """The column of text with what ``reread`` makes of these rows; what it refuses stays."""
    chosen = np.zeros(len(column), np.bool_)
    texts = []
    for row in rows.tolist():
        try:
            texts.append(reread(column[row].as_py()))
        except (InvalidAddressError, UnicodeDecodeError):
            continue
        chosen[row] = True
    plain = column.cast(pa.large_string())
    return pc.replace_with_mask(plain, pa.array(chosen), pa.array(texts, pa.large_string()))


def index_of(geo: GeoLookup, snapshot: Snapshot) -> ArrowIndex:
    """The index of a snapshot that ``geo`` serves, ready for columns."""
    base, overlay = snapshot.base.reader, snapshot.custom.reader
    found = _answers.get(geo)
    if found is None or found.base is not base or found.overlay is not overlay:
        found = _answers[geo] = ArrowIndex(base, overlay, partial(_networks_of, snapshot))
    return found


def _networks_of(snapshot: Snapshot) -> IndexReader | None:
    networks = snapshot.networks()
    return None if networks is None else networks.reader


def _column_of(batch: Any, name: str, added: list[str]) -> Any:
    check_columns(batch.schema.names, name, added)
    return batch.column(name)


def raise_first(found: list[Located], before: int = 0) -> None:
    """Raise at the first malformed address, if there is one; ``before`` counts the rows that came earlier.

    :raises InvalidAddressError: naming its row
    """
    for one in found:
        if len(one.malformed):
            row = int(one.malformed[0])
            raise InvalidAddressError(f"row {before + row}: {one.reason(row)}")
        before += len(one.column)


def _reason(column: Any, row: int) -> str:
    try:
        value = column[row].as_py()
    except UnicodeDecodeError:
        return "the address is not text in UTF-8"
    if isinstance(value, int):
        return f"{value} is not an IPv4 address"
    if not isinstance(value, str):
        return f"{value!r:.60} is not an IP address"
    try:
        parse(value)
    except InvalidAddressError as error:
        return str(error)
    return f"{value!r} is not an IP address"
