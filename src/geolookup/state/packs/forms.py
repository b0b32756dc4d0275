"""Files as columns of equal items: what a patch compares, part by part, with the columns of another file.

A file's own numbering may make it differ from the next one nearly everywhere although hardly anything changed. A form
gives the columns in such a way that what is equal has equal bytes, and takes that back.
"""

import mmap
import os
import weakref
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from geolookup.state.packs import pages


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

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Items of a column, as they are compared."""
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


def write_at(descriptor: int, offset: int, data: bytes | memoryview) -> None:
    """Write all of it at that place of a file."""
    rest = memoryview(data).cast("B")
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


_REST = "rest"


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
        whole, rest = divmod(self._size, pages.PAGE_BYTES)
        return [Column("pages", whole, pages.PAGE_BYTES), Column(_REST, rest, 1)]

    def read(self, name: str, begin: int, end: int) -> bytes:
        """See `Source`."""
        if name == _REST:
            start = self._size // pages.PAGE_BYTES * pages.PAGE_BYTES
            return self._bytes(start + begin, start + end)
        return pages.turned(self._bytes(begin * pages.PAGE_BYTES, end * pages.PAGE_BYTES))

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
        self._rest = size_bytes // pages.PAGE_BYTES * pages.PAGE_BYTES

    def place(self, name: str, begin: int, data: bytes) -> None:
        """See `Target`."""
        if name == _REST:
            write_at(self._descriptor, self._rest + begin, data)
        else:
            write_at(self._descriptor, begin * pages.PAGE_BYTES, pages.restored(data))
