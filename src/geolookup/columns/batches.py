"""The addresses to count, a batch at a time: of a log, of one column of a file of rows, or of columns in memory."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeAlias, get_args

from geolookup.columns import text
from geolookup.columns.common import Doubt, Reread, address_text, column_named, means
from geolookup.files.formats import compression_named
from geolookup.files.opened import SheetStream
from geolookup.lookup.asked import Pick, read_field
from geolookup.model.addresses import IPV4_MAX, to_text
from geolookup.model.errors import DataFileError

if TYPE_CHECKING:
    from geolookup.columns.readers import Reader

Form: TypeAlias = Literal["log", "csv", "ndjson", "parquet"]
FORMS: Final = get_args(Form)

_BY_END: Final[dict[str, Form]] = {
    ".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet", ".pq": "parquet",
    ".xlsx": "csv", ".ods": "csv",
}  # fmt: skip
_PARQUET: Final = b"PAR1"
#: Bytes of a text that are searched together.
_CHUNK_BYTES: Final = 1 << 20

Where: TypeAlias = Callable[[Iterable[bytes]], Iterator[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some addresses: ``found`` has each text with the number of times that it is there.

    ``where`` tells the line or row, from 1, of each occurrence of some of them, and ``word`` which of the two it is.
    ``reread`` is asked about what is not an address: for the one that it means, or None if it means none.
    ``unreadable`` are lines without an address that can be read, each with what is wrong. ``doubt`` is of the column
    that it is from, and None of text without columns.
    """

    found: Mapping[bytes, int]
    where: Where
    word: str = "line"
    unreadable: tuple[tuple[int, str], ...] = ()
    reread: Reread | None = None
    doubt: Doubt | None = None


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
    from geolookup.columns.json_rows import NdjsonReader
    from geolookup.columns.readers import CsvReader, ParquetReader

    if form == "csv":
        word = "row" if isinstance(stream, SheetStream) else "line"
        reader: Reader = CsvReader(name, stream, column=column, added=(), as_is=True, delimiter=delimiter, word=word)
    elif form == "ndjson":
        reader = NdjsonReader(name, stream, column=column, added=(), as_is=True)
    elif not stream.seekable():
        raise DataFileError(f"{name}: Parquet is read from its end: give the name of a file that is not compressed")
    else:
        reader = ParquetReader(name, stream, column=column, added=(), alone=True)
    return of_rows(reader, reader.column, lambda text: next(iter(read_field(text, pick)), None))


def _begins(stream: BinaryIO, begin: bytes) -> bool:
    peek = getattr(stream, "peek", None)  # not every file object has one
    return peek is not None and peek(len(begin))[: len(begin)] == begin


def _form(name: str) -> Form | None:
    """The form that the end of a file's name says, or the end before that of a compression."""
    compression = compression_named(name)
    plain = name[: -len(compression.end)] if compression is not None else name
    return _BY_END.get(os.path.splitext(plain)[1].lower())


def of_text(stream: BinaryIO) -> Iterator[Batch]:
    """The addresses of any text, which are those that ``geolookup annotate`` finds."""
    chunk: list[bytes] = []
    size, first = 0, 1
    for data, number, searched in text.pieces(stream):
        if not searched:
            if chunk:
                yield _of_chunk(b"".join(chunk), first)
            chunk, size = [], 0
            continue
        if not chunk:
            first = number
        chunk.append(data)
        size += len(data)
        # A piece of a long line ends at a blank, so any piece may be the last of a chunk.
        if size >= _CHUNK_BYTES:
            yield _of_chunk(b"".join(chunk), first)
            chunk, size = [], 0
    if chunk:
        yield _of_chunk(b"".join(chunk), first)


def _of_chunk(data: bytes, first: int) -> Batch:
    def where(wanted: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        line, counted = first, 0
        for place, token in text.places_of(data, wanted):
            line += data.count(b"\n", counted, place)
            counted = place
            yield line, token

    return Batch(found=Counter(text.tokens(data)), where=where)


def of_rows(reader: "Reader", column: str, reread: Reread | None = None) -> Iterator[Batch]:
    """The addresses of one column of a file of rows; a row without an address is not counted."""
    doubt = Doubt(column_named(column), reader.sample, means(reread))
    for chunk in reader.chunks():
        names = chunk.batch.schema.names
        tokens = _tokens(chunk.batch.column(column)) if column in names else []
        unreadable = tuple(chunk.problems())
        yield _of_tokens(tokens, chunk.lines, reader.word, unreadable, reread, doubt)
    doubt.question()  # now, while the file is still open


def of_columns(arrays: Iterable[Any]) -> Iterator[Batch]:
    """The addresses of Arrow arrays, as `columns.arrow.locate` takes them; rows are numbered from 1."""
    before = 0
    for array in arrays:
        yield _of_tokens(_tokens(array), range(before + 1, before + 1 + len(array)), "row")
        before += len(array)


def _of_tokens(
    tokens: list[bytes | None],
    lines: Sequence[int],
    word: str,
    unreadable: tuple[tuple[int, str], ...] = (),
    reread: Reread | None = None,
    doubt: Doubt | None = None,
) -> Batch:
    def where(wanted: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        asked = frozenset(wanted)
        return ((lines[row], token) for row, token in enumerate(tokens) if token is not None and token in asked)

    found = Counter(token for token in tokens if token is not None)
    return Batch(found=found, where=where, word=word, unreadable=unreadable, reread=reread, doubt=doubt)


def _tokens(array: Any) -> list[bytes | None]:
    """The text of each row; None for a null.

    :raises ColumnError: if the array's type holds no addresses
    """
    from geolookup.columns.arrow_addresses import check_type, is_text, pa

    check_type(array.type)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind):
        return [None] * len(array)
    if pa.types.is_integer(kind):
        return [None if value is None else _number(value) for value in array.to_pylist()]
    if not is_text(kind):
        return [None if value is None else address_text(value).encode() for value in array.to_pylist()]
    # By way of bytes: text in a file is not always UTF-8, and then it is not an address.
    found: list[bytes | None] = array.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return found


def _number(value: int) -> bytes:
    return (to_text(4, value) if 0 <= value <= IPV4_MAX else str(value)).encode("ascii")
