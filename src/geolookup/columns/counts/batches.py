"""What is counted, a batch at a time: the addresses of a text, of a file of rows, or of columns in memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from geolookup.columns.counts import text
from geolookup.model.addresses import IPV4_MAX, to_text

if TYPE_CHECKING:
    from geolookup.columns.readers import Reader

#: Bytes of a text that are searched together.
_CHUNK_BYTES: Final = 1 << 20

Where: TypeAlias = Callable[[Iterable[bytes]], Iterator[tuple[int, bytes]]]
#: What a text means that is not an address: an address, or None for none. It raises InvalidAddressError otherwise.
Reread: TypeAlias = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some addresses: ``found`` has each text with the number of times that it is there.

    ``where`` tells the line or row, from 1, of each occurrence of some of them, and ``word`` which of the two it is.
    ``reread`` is asked about what is not an address: for the one that it means, or None if it means none.
    ``unreadable`` are lines without an address that can be read, each with what is wrong.
    """

    found: Mapping[bytes, int]
    where: Where
    word: str = "line"
    unreadable: tuple[tuple[int, str], ...] = ()
    reread: Reread | None = None


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
    for chunk in reader.chunks():
        names = chunk.batch.schema.names
        tokens = _tokens(chunk.batch.column(column)) if column in names else []
        unreadable = tuple((chunk.lines[row] if chunk.raw is not None else row, what) for row, what in chunk.bad)
        yield _of_tokens(tokens, chunk.lines, reader.word, unreadable, reread)


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
) -> Batch:
    def where(wanted: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        asked = frozenset(wanted)
        return ((lines[row], token) for row, token in enumerate(tokens) if token is not None and token in asked)

    found = Counter(token for token in tokens if token is not None)
    return Batch(found=found, where=where, word=word, unreadable=unreadable, reread=reread)


def _tokens(array: Any) -> list[bytes | None]:
    """The text of each row; None for a null.

    :raises ColumnError: if the array's type holds no addresses
    """
    from geolookup.columns.answers import check_type
    from geolookup.columns.arrowlib import pa

    check_type(array.type)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_null(kind):
        return [None] * len(array)
    if pa.types.is_integer(kind):
        return [None if value is None else _number(value) for value in array.to_pylist()]
    # By way of bytes: text in a file is not always UTF-8, and then it is not an address.
    found: list[bytes | None] = array.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
    return found


def _number(value: int) -> bytes:
    return (to_text(4, value) if 0 <= value <= IPV4_MAX else str(value)).encode("ascii")
