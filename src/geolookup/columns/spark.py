"""Spark: ``locate(frame, "ip")`` adds geolocations to a DataFrame, by the same kernel in every worker."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from geolookup.columns.arrow import locate_by_vrf, locate_with, raise_first
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_index import ArrowIndex
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.common import DEFAULT_FIELDS, Errors, check_columns, checked_fields, default_geo
from geolookup.index.layout import HEADER_CHECK
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import MissingExtraError, StateError, UnknownVrfError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.state.base.vrfs import read_vrfs

try:
    from pyspark import SparkFiles
    from pyspark.sql import types
except ImportError as error:
    raise MissingExtraError(f"this needs Spark: pip install 'geolookup[spark]' ({error})") from error

__all__ = ["locate"]

#: The files that were shipped already: (application, name of the file).
_shipped: set[tuple[str, str]] = set()
#: In a worker: the indexes that it has mapped, by the names of their files. Spark keeps workers from task to task.
_mapped: dict[tuple[str, ...], ArrowIndex] = {}


def locate(
    frame: Any,
    column: str,
    fields: str | Iterable[str] = DEFAULT_FIELDS,
    *,
    prefix: str = "geo_",
    geo: GeoLookup | None = None,
    errors: Errors = "null",
    vrf: str | None = None,
) -> Any:
    """The DataFrame with one more column for each field, named ``prefix`` and the field.

    ``column`` is text, binary of 4 or 16 bytes, or integers that are IPv4 addresses. AS numbers are long, and the
    accuracy radius int, since Spark has no unsigned types. The index that ``geo`` serves now (if None, the one of the
    settings' state directory) is shipped to the executors by ``addFile``, once for each application, and each worker
    maps it once. A later sync does not change this frame. Executors need geolookup and pyarrow installed. An answer is
    null if the address is null, malformed or not covered. ``vrf`` is the column, of text, that names the routing domain
    (VRF) of each address; null and empty text stand for that of ``geo``. The blocks of all VRFs are shipped then.

    :raises UnknownVrfError: in the worker, and so the job, if a row names a VRF that is not there
    :raises ColumnError: if the frame lacks a column or has one that would be added, or a field is unknown
    :raises InvalidAddressError: in the worker, and so the job, at a malformed address, if ``errors`` is "raise"
    """
    names = checked_fields(fields)
    check_columns(frame.columns, column, [prefix + name for name in names])
    geo = default_geo() if geo is None else geo
    context = frame.sparkSession.sparkContext
    if vrf is not None:
        check_columns(frame.columns, vrf, ())

    def shipped(within: GeoLookup) -> tuple[str, ...]:
        return within.with_networks(lambda snapshot: tuple(_ship(context, each) for each in _readers(snapshot, names)))

    known = () if vrf is None else geo.with_snapshot(lambda snapshot: tuple(read_vrfs(geo.home, snapshot.current)))
    files = {"": shipped(geo), **{name: shipped(geo.in_vrf(name)) for name in known}}
    schema = types.StructType(
        [*frame.schema.fields, *(types.StructField(prefix + n, _KINDS[plain_type(n)]) for n in names)]
    )
    work = partial(_locate_batches, files=files, column=column, fields=names, prefix=prefix, errors=errors, vrf=vrf)
    return frame.mapInArrow(work, schema)


def _readers(snapshot: Snapshot, fields: tuple[str, ...]) -> list[IndexReader]:
    """The files that these fields need: both layers, and networks if there are any."""
    networks = snapshot.networks() if any(name in NETWORK_FACTS for name in fields) else None
    return [snapshot.base.reader, snapshot.custom.reader, *([networks.reader] if networks is not None else [])]


def _ship(context: Any, reader: IndexReader) -> str:
    """Have every executor get one file; returns the name under which it finds it."""
    # All files of an application share one folder there, so the name has to tell one content from another.
    name = f"geolookup-{reader.layer}-{reader.metadata[HEADER_CHECK]}"
    if (context.applicationId, name) in _shipped:
        return name
    folder = tempfile.mkdtemp(prefix="geolookup-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, name)
    try:
        try:
            os.link(reader.path, path)
        except OSError:  # another file system, or a VRF's layer above the custom one, whose name is gone
            reader.write_to(path)
    except OSError as error:
        raise StateError(f"{reader.path}: cannot be shipped to the executors: {error.strerror}") from error
    context.addFile(path)
    _shipped.add((context.applicationId, name))
    return name


def _locate_batches(
    batches: Iterator[Any],
    *,
    files: Mapping[str, tuple[str, ...]],
    column: str,
    fields: tuple[str, ...],
    prefix: str,
    errors: Errors,
    vrf: str | None,
) -> Iterator[Any]:
    """The work of one worker: answer the batches of its partition; ``files`` are by VRF."""

    def answers(name: str) -> ArrowIndex:
        if name not in files:
            raise UnknownVrfError(f"no VRF is named {name!r:.60}: there are {', '.join(filter(None, files)) or 'none'}")
        return _opened(files[name])

    for batch in batches:
        addresses = batch.column(column)
        if vrf is None:
            located = locate_with(answers(""), addresses, fields)
        else:
            located = locate_by_vrf(answers, addresses, batch.column(vrf), fields)
        if errors == "raise":
            raise_first([located])
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *(_signed(decoded(answer)) for answer in located.batch.columns)],
            names=[*batch.schema.names, *(prefix + name for name in fields)],
        )


def _opened(files: tuple[str, ...]) -> ArrowIndex:
    found = _mapped.get(files)
    if found is None:
        base, overlay, *networks = (IndexReader.open(SparkFiles.get(name)) for name in files)
        found = _mapped[files] = ArrowIndex(base, overlay, lambda: networks[0] if networks else None)
    return found


#: Spark has no unsigned numbers: wider ones hold them.
_KINDS = {
    pa.string(): types.StringType(),
    pa.float64(): types.DoubleType(),
    pa.int64(): types.LongType(),
    pa.uint16(): types.IntegerType(),
    pa.uint32(): types.LongType(),
    pa.bool_(): types.BooleanType(),
}


def _signed(array: Any) -> Any:
    kind = {pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}.get(array.type)
    return array if kind is None else array.cast(kind)
