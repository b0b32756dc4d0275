"""Columns of any type as the text of their values in CSV and JSON, in whole arrays. Needs pyarrow."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from geolookup.base.text import harmless
from geolookup.columns.arrow_addresses import is_text, pa, pc
from geolookup.columns.arrow_rows import decoded
from geolookup.columns.blocks import bytes_of, data_of

_ANY_LENGTH: Final = 1 << 20


def _table(characters: bytes) -> NDArray[np.bool_]:
    found = np.zeros(256, np.bool_)
    found[list(characters)] = True
    return found


#: The characters that JSON does not have in text as they are.
_ESCAPED: Final = _table(bytes(range(32)) + b'"\\')


class CsvCells:
    """Values of CSV with a ``delimiter``; on a ``terminal`` unprintable characters are escaped.

    ``between`` is the delimiter in bytes.
    """

    def __init__(self, delimiter: str, *, terminal: bool = False) -> None:
        self.between = delimiter.encode("utf-8")
        self._terminal = terminal
        self._special = _table(b'"\r\n' + self.between[:1])

    def of(self, column: Any) -> Any:
        """The values of a column, quoted where they have to be; of type binary, empty for a null."""
        texts = _texts(column)
        if texts is None:
            texts = _bytes(_plain(column))
        if self._terminal:
            texts = _bytes(
                [harmless(each.decode("utf-8", "replace"), _ANY_LENGTH).encode() for each in texts.to_pylist()]
            )
        return _amended(texts.fill_null(b""), self._special, lambda text: b'"' + text.replace(b'"', b'""') + b'"')


def _plain(column: Any) -> list[bytes]:
    # Dates and similar values come as JSON text; without its quotes, that is how CSV writes them.
    return [
        b"" if value is None else text[1:-1] if text.startswith(b'"') else text
        for value, text in zip(column.to_pylist(), _each_json(column), strict=True)
    ]


def json_cells(column: Any) -> Any:
    """The values of a column in JSON; of type binary."""
    texts = _texts(column)
    if texts is None:
        return _bytes(_each_json(column))
    known = texts.is_valid()
    quoted = pc.binary_join_element_wise(b'"', texts.fill_null(b""), b'"', b"")
    # A quoted text always has special characters: those of the text itself are meant.
    strange = _rows_with(texts, _ESCAPED)
    if len(strange):
        quoted = _replaced(
            quoted, strange, [json_of(texts[row].as_py().decode("utf-8", "replace")) for row in strange.tolist()]
        )
    return pc.if_else(known, quoted, b"null")


def shown_degrees(column: Any) -> Any:
    """A column of degrees as `base.text.shown_degrees` shows each; a column of another type as it is."""
    if column.type != pa.float64():
        return column
    single = column.cast(pa.float32(), safe=False)
    shortest = single.cast(pa.string()).cast(pa.float64())
    return pc.if_else(pc.equal(single.cast(pa.float64()), column), shortest, column)


def json_of(value: Any) -> bytes:
    """A value in JSON; one that JSON does not have becomes text."""
    return msgspec.json.encode(value, enc_hook=str)


def _each_json(column: Any) -> list[bytes]:
    values = column.to_pylist()
    kind = column.type
    if values and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return json_of(values)[1:-1].split(b",")
    return [json_of(value) for value in values]


def joined(parts: Sequence[Any], length: int) -> memoryview:
    """The bytes of so many rows: for each of them its item of every part, or a part itself if it is bytes."""
    if not length:
        return memoryview(b"")
    array = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    _, cuts, data = array.buffers()
    ends = np.frombuffer(cuts, np.int32)[array.offset : array.offset + length + 1]
    return memoryview(b"" if data is None else data)[int(ends[0]) : int(ends[-1])]


def _texts(column: Any) -> Any:
    """A column of text as one of type binary; None of another."""
    column = decoded(column)
    return column.cast(pa.string()).cast(pa.binary()) if is_text(column.type) else None


def _bytes(values: Sequence[bytes]) -> Any:
    return pa.array(values, pa.binary())


def _amended(texts: Any, special: NDArray[np.bool_], amend: Callable[[bytes], bytes]) -> Any:
    """The texts, those that have a special character in them amended."""
    rows = _rows_with(texts, special)
    return texts if not len(rows) else _replaced(texts, rows, [amend(texts[row].as_py()) for row in rows.tolist()])


def _rows_with(texts: Any, special: NDArray[np.bool_]) -> NDArray[np.int64]:
    data, offsets = data_of(texts)
    found = np.flatnonzero(special[bytes_of(data)])
    return np.unique(np.searchsorted(offsets, found, side="right") - 1)


def _replaced(texts: Any, rows: NDArray[np.int64], values: list[bytes]) -> Any:
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), _bytes(values))
