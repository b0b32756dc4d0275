"""Rows as a Parquet file. Needs pyarrow, which the extra ``arrow`` brings."""

from collections.abc import Mapping
from typing import Any, BinaryIO

from geolookup.base.reasons import reason
from geolookup.exports.content import Progress
from geolookup.exports.rows import Rows
from geolookup.model.errors import DataFileError, MissingExtraError
from geolookup.model.facts import FACTS
from geolookup.model.fields import DEGREES

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise MissingExtraError(f"Parquet files need pyarrow: pip install 'geolookup[arrow]' ({error})") from error

_KINDS = {"text": pa.string(), "boolean": pa.bool_(), "uint16": pa.uint16(), "uint32": pa.uint32()}
_TYPES = {
    "locid": pa.int64(),
    "pending": pa.bool_(),
    **dict.fromkeys(DEGREES, pa.float64()),
    **{fact.name: _KINDS[fact.kind] for fact in FACTS},
}


def write(rows: Rows, out: BinaryIO, about: Mapping[str, str], progress: Progress) -> None:
    """Write the rows; ``about`` becomes the file's own metadata."""
    fields = [pa.field(name, _TYPES.get(name, pa.string())) for name in rows.names]
    schema = pa.schema(fields, metadata=dict(about))
    ends = 1 if rows.networks else 2
    columns = [pa.array([values[at] for values in rows.values], field.type) for at, field in enumerate(fields[ends:])]
    try:
        with parquet.ParquetWriter(out, schema) as file:
            for chunk in rows.chunks(progress):
                *texts, numbers = zip(*chunk, strict=True)
                which = pa.array(numbers, pa.int64())
                taken = [column.take(which) for column in columns]
                arrays: list[Any] = [*(pa.array(each, pa.string()) for each in texts), *taken]
                file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    except pa.ArrowException as error:
        raise DataFileError(f"the rows cannot be written as Parquet: {reason(error)}") from error
