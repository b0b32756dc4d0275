"""Files as columns of equal items: what a patch compares, part by part, with the columns of another file.

A file's own numbering may make it differ from the next one nearly everywhere although hardly anything changed. A form
gives the columns in such a way that equal content has equal bytes, and takes that back. The form of index files stands
in `sections`; that of SQLite files here: pages, turned so that equal rows are equal bytes, and turned back.

A row that came moves all later ones: each gets another number, and its place in its page changes. So two files that
differ in one row have hardly a page in common. In turned pages the numbers of rows that follow each other are zeros,
and the list of the cells' places is the list of their sizes. Both can be taken back for any bytes: a page that
looks otherwise, or is damaged, is left alone, or comes back all the same.
"""

import mmap
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

_REST = "rest"
PAGE_BYTES = 4096
_TABLE_LEAF = 13
_HEADER_BYTES = 8
_MOST_CELLS = (PAGE_BYTES - _HEADER_BYTES) // 2
#: A cell's size, the longest row number that is followed, and one byte more.
_CELL_HEAD = 8
_LONGEST_NUMBER = 5

Array = np.ndarray[Any, Any]


class Column(NamedTuple):
    """One column: its name, how many items it has, and how many bytes each has."""

    name: str
    items: int
    item_bytes: int


class Source(Protocol):
    """A file that is read as columns."""

    def columns(self) -> Sequence[Column]:
        """The columns, in the order in which they come back."""
        ...

    def read(self, name: str, begin: int, end: int) -> list[bytes]:
        """Items of a column, as they are compared; in pieces if their bytes are of several kinds."""
        ...


class Target(Protocol):
    """A file that is made again."""

    def place(self, name: str, begin: int, data: bytes) -> None:
        """Write items of a column, given as they were compared; columns and items come in their order."""
        ...


def mapped(path: str) -> memoryview:
    """A file's bytes."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def let_go(data: memoryview) -> None:
    """Have the pages of a mapped file that were read count no more as this process's memory."""
    if isinstance(data.obj, mmap.mmap):
        data.obj.madvise(mmap.MADV_DONTNEED)


def write_at(descriptor: int, offset: int, data: bytes | memoryview) -> None:
    """Write all of it at that place of a file."""
    rest = memoryview(data).cast("B")
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


class Pages:
    """A SQLite file: its pages, and what is left behind the last whole one.

    It is read, and not mapped: of a file of a gigabyte all pages would count as this process's memory.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self._size = os.fstat(self._descriptor).st_size

    def columns(self) -> Sequence[Column]:
        """See `Source`."""
        whole, rest = divmod(self._size, PAGE_BYTES)
        return [Column("pages", whole, PAGE_BYTES), Column(_REST, rest, 1)]

    def read(self, name: str, begin: int, end: int) -> list[bytes]:
        """See `Source`."""
        if name == _REST:
            start = self._size // PAGE_BYTES * PAGE_BYTES
            return [self._bytes(start + begin, start + end)]
        return [turned(self._bytes(begin * PAGE_BYTES, end * PAGE_BYTES))]

    def _bytes(self, begin: int, end: int) -> bytes:
        found = b""
        while len(found) < end - begin:
            more = os.pread(self._descriptor, end - begin - len(found), begin + len(found))
            if not more:
                raise ValueError("the file that it refers to is too short")
            found += more
        return found


class PagesAgain:
    """A SQLite file that is made again."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._descriptor = descriptor
        self._rest = size_bytes // PAGE_BYTES * PAGE_BYTES

    def place(self, name: str, begin: int, data: bytes) -> None:
        """See `Target`."""
        if name == _REST:
            write_at(self._descriptor, self._rest + begin, data)
        else:
            write_at(self._descriptor, begin * PAGE_BYTES, restored(data))


def turned(data: bytes) -> bytes:
    """Whole pages (and what is left after the last whole one) as they are compared."""
    return _each_leaf(data, lambda pages: _as_sizes(_without_numbers(pages)))


def restored(data: bytes) -> bytes:
    """Pages as they were before `turned`."""
    return _each_leaf(data, lambda pages: _without_numbers(_as_places(pages)))


def _each_leaf(data: bytes, change: Callable[[Array], Array]) -> bytes:
    whole = len(data) // PAGE_BYTES * PAGE_BYTES
    pages = np.frombuffer(bytearray(data[:whole]), np.uint8).reshape(-1, PAGE_BYTES)
    leaves = np.flatnonzero(pages[:, 0] == _TABLE_LEAF)
    if len(leaves):
        pages[leaves] = change(pages[leaves])
    return pages.tobytes() + data[whole:]


def _cells(pages: Array) -> tuple[Array, Array]:
    """The count of cells of each page, and the lists of their places, as long as the longest."""
    count = np.minimum((pages[:, 3].astype(np.int64) << 8) | pages[:, 4], _MOST_CELLS)
    width = max(1, int(count.max()))
    listed = np.ascontiguousarray(pages[:, _HEADER_BYTES : _HEADER_BYTES + 2 * width]).view(">u2").astype(np.int64)
    return count, listed


def _with_list(pages: Array, count: Array, listed: Array, changed: Array) -> Array:
    width = listed.shape[1]
    kept = np.where(np.arange(width) < count[:, None], changed & 0xFFFF, listed)
    pages[:, _HEADER_BYTES : _HEADER_BYTES + 2 * width] = np.ascontiguousarray(kept.astype(">u2")).view(np.uint8)
    return pages


def _as_sizes(pages: Array) -> Array:
    """Cells are laid from a page's end to its middle, so one begins where the next ends."""
    count, listed = _cells(pages)
    changed = listed.copy()
    changed[:, 1:] = listed[:, :-1] - listed[:, 1:]
    return _with_list(pages, count, listed, changed)


def _as_places(pages: Array) -> Array:
    count, listed = _cells(pages)
    changed = listed.copy()
    changed[:, 1:] = listed[:, :1] - np.cumsum(listed[:, 1:], axis=1)
    return _with_list(pages, count, listed, changed)


def _without_numbers(pages: Array) -> Array:
    """Exclusive-or of the row numbers between a page's first and last with those that must stand there.

    It changes neither what it is computed from (the list, the first and the last row's number) nor how long a number
    is, so it takes back what it did.
    """
    count, listed = _cells(pages)
    rows = np.arange(len(pages))
    last_cell = np.maximum(count, 1) - 1
    inside = (listed >= _HEADER_BYTES) & (listed < PAGE_BYTES - _CELL_HEAD)
    known = (count > 2) & inside[rows, 0] & inside[rows, last_cell]
    flat = pages.reshape(-1)
    begins = np.where(known, listed[rows, 0], _HEADER_BYTES) + rows * PAGE_BYTES
    ends = np.where(known, listed[rows, last_cell], _HEADER_BYTES) + rows * PAGE_BYTES
    first, first_read = _row_numbers(flat, begins + 1)
    last, last_read = _row_numbers(flat, ends + 1)
    known &= first_read & last_read & (flat[begins] < 128) & (flat[ends] < 128) & (last - first == count - 1)
    cell = np.arange(listed.shape[1])
    page, number = np.nonzero(known[:, None] & inside & (cell > 0) & (cell < (count - 1)[:, None]))
    at = page * PAGE_BYTES + listed[page, number]
    expected = first[page] + number
    short = flat[at] < 128  # the cell's size takes one byte
    at, expected = at[short] + 1, expected[short]
    for size in range(1, _LONGEST_NUMBER + 1):
        least = 0 if size == 1 else 1 << (7 * (size - 1))
        chosen = (expected >= least) & (expected < 1 << (7 * size))
        where, value = at[chosen], expected[chosen]
        for digit in range(size):
            more = 128 if digit < size - 1 else 0
            flat[where + digit] ^= (((value >> (7 * (size - 1 - digit))) & 127) | more).astype(np.uint8)
    return flat.reshape(-1, PAGE_BYTES)


def _row_numbers(flat: Array, at: Array) -> tuple[Array, Array]:
    """The numbers that are written at these places as SQLite writes them, and whether each ends within reach."""
    value = np.zeros(len(at), np.int64)
    ended = np.zeros(len(at), np.bool_)
    for digit in range(_LONGEST_NUMBER):
        byte = flat[np.minimum(at + digit, len(flat) - 1)]
        value = np.where(ended, value, (value << 7) | (byte & 127))
        ended |= byte < 128
    return value, ended
