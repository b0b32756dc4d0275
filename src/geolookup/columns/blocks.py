"""A stream of lines, read by the line or by the block; and pieces of a block as one Arrow array. Needs pyarrow."""

from collections.abc import Callable
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import pa
from geolookup.model.errors import DataFileError

#: Bytes that are read together.
BLOCK_BYTES: Final = 1 << 20
#: A longer line cannot be a row, and must not fill the memory.
MAX_LINE_BYTES: Final = 1 << 26

_BLANKS: Final = np.zeros(256, np.bool_)
_BLANKS[list(b" \t\n\v\f\r")] = True


class Source:
    """The bytes of a stream, in their order: a line at a time, or as much of a block as its reader can use.

    ``line_number`` is that of the line that was read last, from 1. ``name`` is for messages.
    """

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        self._stream = stream
        self._data = b""
        self._at = 0
        self.line_number = 0

    def line(self) -> bytes:
        """The next line with its end; empty at the end of the stream.

        :raises DataFileError: if reading fails, or the line is longer than `MAX_LINE_BYTES`
        """
        end = self._data.find(b"\n", self._at) + 1
        if end:
            found = self._data[self._at : end]
            self._at = end
        else:
            rest = self._data[self._at :]
            found = rest + self._read(lambda: self._stream.readline(MAX_LINE_BYTES - len(rest)))
            self._data, self._at = b"", 0
        if found:
            self.line_number += 1
        if len(found) == MAX_LINE_BYTES and not found.endswith(b"\n"):
            raise DataFileError(f"{self._name}, line {self.line_number}: is longer than {MAX_LINE_BYTES} bytes")
        return found

    def block(self) -> tuple[bytes, bool]:
        """The bytes that come next, and whether they are the last ones; `take` says how many of them were used.

        :raises DataFileError: if reading fails
        """
        ended = False
        rest = self._data[self._at :] if self._at else self._data
        if len(rest) < BLOCK_BYTES:
            more = self._read(lambda: self._stream.read(BLOCK_BYTES - len(rest)))
            ended = not more
            rest += more
        self._data, self._at = rest, 0
        return self._data, ended

    def take(self, size: int, lines: int) -> None:
        """Go on after so many bytes, and lines, of the block."""
        self._at = size
        self.line_number += lines

    def _read(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except OSError as error:
            raise DataFileError(f"{self._name}: reading failed: {error.strerror}") from error


def bytes_of(data: bytes) -> NDArray[np.uint8]:
    """The bytes as an array over the same memory."""
    return np.frombuffer(data, np.uint8)


def pieces(
    data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], known: NDArray[np.bool_] | None = None
) -> Any:
    """The bytes from ``begins`` to ``ends``, ascending pairs, as an array of type binary; null if not ``known``."""
    cuts = np.empty(2 * len(begins), np.int32)
    cuts[0::2], cuts[1::2] = begins, ends
    # What stands between two pieces is one too, so that the offsets of both are those of one array over the data.
    every = pa.Array.from_buffers(
        pa.binary(),
        max(len(cuts) - 1, 0),
        [None, pa.py_buffer(cuts if len(cuts) else np.zeros(1, np.int32)), pa.py_buffer(data)],
    )
    return every.take(pa.array(np.arange(0, len(cuts), 2), mask=None if known is None else ~known))


def without_blanks_after(
    data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The ends of pieces without the white space of JSON before them."""
    ends = ends.copy()
    rows = np.flatnonzero(ends > begins)
    while len(rows):
        rows = rows[_BLANKS[data[ends[rows] - 1]]]
        ends[rows] -= 1
        rows = rows[ends[rows] > begins[rows]]
    return ends


def data_of(array: Any) -> tuple[bytes, NDArray[np.int64]]:
    """The bytes of an array of type binary, one piece after the other, and the ends of the pieces, 0 before them."""
    _, cuts, data = array.buffers()
    offsets = np.frombuffer(cuts, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    begin = int(offsets[0])
    content = b"" if data is None else memoryview(data)[begin : int(offsets[-1])].tobytes()
    return content, offsets - begin
