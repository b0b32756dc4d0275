"""Spark: ``locate(frame, "ip")`` adds geolocations to a DataFrame, by the same kernel in every worker."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from geolookup.columns.arrow import locate_with, raise_first
from geolookup.columns.arrow_index import ArrowIndex, decoded, pa, plain_type
from geolookup.columns.common import DEFAULT_FIELDS, Errors, check_columns, checked_fields, default_geo
from geolookup.index.layout import HEADER_CHECK
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import MissingExtraError, StateError

try:
    from pyspark import SparkFiles
    from pyspark.sql import types
except ImportError as error:
    raise MissingExtraError(f"this needs Spark: pip install 'geolookup[spark]' ({error})") from error

__all__ = ["locate"]

#: The files that were shipped already: (application, name of the file).
_shipped: set[tuple[str, str]] = set()
#: In a worker: the indexes that it has mapped, by the names of both files. Spark keeps workers from task to task.
_mapped: dict[tuple[str, str], ArrowIndex] = {}


def locate(
    frame: Any,
    column: str,
    fields: str | Iterable[str] = DEFAULT_FIELDS,
    *,
    prefix: str = "geo_",
    geo: GeoLookup | None = None,
    errors: Errors = "null",
) -> Any:
    """The DataFrame with one more column for each field, named ``prefix`` and the field.

    ``column`` is text, or integers that are IPv4 addresses. The index that ``geo`` serves now (if None, the one of the
    settings' state directory) is shipped to the executors by ``addFile``, once for each application, and each worker
    maps it once. A later sync does not change this frame. Executors need geolookup and pyarrow installed. An answer is
    null if the address is null, malformed or not covered.

    :raises ColumnError: if the frame lacks the column or has one that would be added, or a field is unknown
    :raises InvalidAddressError: in the worker, and so the job, at a malformed address, if ``errors`` is "raise"
    """
    names = checked_fields(fields)
    check_columns(frame.columns, column, [prefix + name for name in names])
    geo = default_geo() if geo is None else geo
    context = frame.sparkSession.sparkContext
    base, overlay = geo.with_readers(lambda *readers: tuple(_ship(context, reader) for reader in readers))
    schema = types.StructType([*frame.schema.fields, *(types.StructField(prefix + n, _kind(n)) for n in names)])
    work = partial(_locate_batches, files=(base, overlay), column=column, fields=names, prefix=prefix, errors=errors)
    return frame.mapInArrow(work, schema)


def _ship(context: Any, reader: IndexReader) -> str:
    """Have every executor get the file of one layer; returns the name under which it finds it."""
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
        except OSError:  # another file system
            shutil.copyfile(reader.path, path)
    except OSError as error:
        raise StateError(f"{reader.path}: cannot be shipped to the executors: {error.strerror}") from error
    context.addFile(path)
    _shipped.add((context.applicationId, name))
    return name


def _locate_batches(
    batches: Iterator[Any],
    *,
    files: tuple[str, str],
    column: str,
    fields: tuple[str, ...],
    prefix: str,
    errors: Errors,
) -> Iterator[Any]:
    """The work of one worker: answer the batches of its partition."""
    answers = _mapped.get(files)
    if answers is None:
        base, overlay = (IndexReader.open(SparkFiles.get(name)) for name in files)
        answers = _mapped[files] = ArrowIndex(base, overlay)
    for batch in batches:
        located = locate_with(answers, batch.column(column), fields)
        if errors == "raise":
            raise_first([located])
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *(decoded(answer) for answer in located.batch.columns)],
            names=[*batch.schema.names, *(prefix + name for name in fields)],
        )


def _kind(field: str) -> Any:
    kind = plain_type(field)
    if kind == pa.string():
        return types.StringType()
    if kind == pa.float64():
        return types.DoubleType()
    return types.LongType() if kind == pa.int64() else types.BooleanType()
