"""The addresses of a file: of any log, or of one column of rows."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias, get_args

from geolookup.columns.counts.batches import Batch, of_rows, of_text
from geolookup.errors import DataFileError
from geolookup.files.compression import compression_named
from geolookup.lookup.log_field import Pick, read_field

if TYPE_CHECKING:
    from geolookup.columns.readers import Reader

Form: TypeAlias = Literal["log", "csv", "ndjson", "parquet"]
FORMS: Final = get_args(Form)

_BY_END: Final[dict[str, Form]] = {
    ".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_PARQUET: Final = b"PAR1"


def batches_of(
    name: str,
    stream: BinaryIO,
    form: Form | None = None,
    *,
    column: str = "ip",
    delimiter: str | None = None,
    pick: Pick = "first",
) -> Iterator[Batch]:
    """The addresses of an open file. ``name`` is for messages, and says with its end what form the file has.

    Every address of a log counts; of CSV, NDJSON and Parquet, those of ``column``, and of a list in it that which
    ``pick`` says. ``delimiter`` stands between the values of CSV; if it is None, the header tells. Needs pyarrow if it
    is not a log.

    :raises DataFileError: if it cannot be read
    :raises ColumnError: if it lacks the column
    """
    form = form or _form(name) or ("parquet" if _begins(stream, _PARQUET) else "log")
    if form == "log":
        return of_text(stream)
    from geolookup.columns.readers import CsvReader, NdjsonReader, ParquetReader

    if form == "csv":
        reader: Reader = CsvReader(name, stream, column=column, added=(), as_is=True, delimiter=delimiter)
    elif form == "ndjson":
        reader = NdjsonReader(name, stream, column=column, added=(), as_is=True)
    elif not stream.seekable():
        raise DataFileError(f"{name}: Parquet is read from its end: give the name of a file that is not compressed")
    else:
        reader = ParquetReader(name, stream, column=column, added=(), alone=True)
    return of_rows(reader, column, lambda text: next(iter(read_field(text, pick)), None))


def _begins(stream: BinaryIO, begin: bytes) -> bool:
    peek = getattr(stream, "peek", None)  # not every file object has one
    return peek is not None and peek(len(begin))[: len(begin)] == begin


def _form(name: str) -> Form | None:
    """What a file's name says of its form, and a name before that of a compression."""
    compression = compression_named(name)
    plain = name[: -len(compression.end)] if compression is not None else name
    return _BY_END.get(os.path.splitext(plain)[1].lower())
