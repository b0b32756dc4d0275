"""The scratch space of an index that is being built: more blocks and texts than memory should hold.

`Column` keeps numbers that grow at their end and are read in parts; the large ones lie in files without a name. Such a
file is gone as soon as it is closed, or its process has ended, however that ended: nothing has to be cleared away.
`Runs` sorts blocks by their first addresses, piece by piece, and merges the pieces. `Seen` notes which whole numbers
came already, in 8 bytes each, where a set of Python's takes a hundred. `Texts` numbers distinct texts in the order in
which they came, in some 20 bytes each, where a dictionary takes 150.
"""

import hashlib
import itertools
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from geolookup.index.flatten import U64, Array, in_order
from geolookup.model.errors import IndexFileError

#: Above this, the newest part of a column is moved from memory to its file.
_KEPT_BYTES = 1 << 18
_PART = 1 << 16


class Column:
    """Numbers of one type. What is read is a copy, or must not be changed."""

    def __init__(self, kind: str, folder: str | None = None) -> None:
        """``kind`` is numpy's name of the type. The file is made in ``folder``, if one is needed; without a folder
        everything stays in memory.
        """
        self.dtype: np.dtype[Any] = np.dtype(kind)
        self._folder = folder
        self._newest = bytearray()
        self._file: Any = None
        self._stored = 0

    def __len__(self) -> int:
        return (self._stored + len(self._newest)) // self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all numbers."""
        return self._stored + len(self._newest)

    def append(self, values: Array) -> None:
        """Add numbers at the end.

        :raises OSError: if the disk is full, or fails
        """
        if len(values):
            self._newest += np.ascontiguousarray(values, self.dtype).data.cast("B")
        if self._folder is not None and len(self._newest) >= _KEPT_BYTES:
            self._store()

    def _store(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - as long as the column lives
        self._file.seek(self._stored)
        rest = memoryview(self._newest)
        while rest:  # a write may take less than it is given
            rest = rest[self._file.write(rest) :]
        rest.release()
        self._stored += len(self._newest)
        self._newest = bytearray()

    def read(self, begin: int, end: int) -> Array:
        """The numbers from ``begin`` up to ``end``.

        :raises OSError: if the disk fails
        """
        size = self.dtype.itemsize
        begin, end = begin * size, min(end * size, self.nbytes)
        if begin >= self._stored:
            begin, end = begin - self._stored, end - self._stored
            return np.frombuffer(bytes(memoryview(self._newest)[begin:end]), self.dtype)
        found = bytearray(end - begin)
        inside = min(end, self._stored) - begin
        self._file.seek(begin)
        rest = memoryview(found)[:inside]
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError(f"a temporary file lost {len(rest)} bytes")
            rest = rest[count:]
        if end > self._stored:
            found[inside:] = self._newest[: end - self._stored]
        return np.frombuffer(found, self.dtype)

    def parts(self, items: int = _PART) -> Iterator[Array]:
        """All numbers, so many at a time."""
        for begin in range(0, len(self), items):
            yield self.read(begin, begin + items)

    def whole(self) -> Array:
        """All numbers."""
        return self.read(0, len(self))

    def close(self) -> None:
        """Let the numbers go."""
        self._newest = bytearray()
        if self._file is not None:
            self._file.close()
            self._file, self._stored = None, 0


#: About how many rows are merged at a time.
_PIECE = 1 << 18
#: Of each run at least so many are read at a time.
_LEAST = 1 << 10


class Runs:
    """Rows in columns, sorted by their first address, which is the first column, or the first two (halves)."""

    def __init__(self, kinds: Sequence[str], halves: int, folder: str | None) -> None:
        """``kinds`` are the columns' types; ``folder`` is where they are kept."""
        self._columns = [Column(kind, folder) for kind in kinds]
        self._halves = halves
        self._runs: list[tuple[int, int, int]] = []  # first address, begin, end
        self._newest = -1

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, columns: Sequence[Array]) -> None:
        """Add rows that are sorted. They go on with the run before if they come after all of it.

        :raises OSError: if the disk is full, or fails
        """
        rows = len(columns[0])
        if not rows:
            return
        first, last = _address(columns[: self._halves], 0), _address(columns[: self._halves], rows - 1)
        begin = len(self)
        for column, values in zip(self._columns, columns, strict=True):
            column.append(values)
        if self._runs and first >= self._newest:
            start, run, _ = self._runs[-1]
            self._runs[-1] = (start, run, begin + rows)
        else:
            self._runs.append((first, begin, begin + rows))
        self._newest = last

    def pieces(self) -> Iterator[tuple[Array, ...]]:
        """All rows, sorted, in pieces.

        :raises OSError: if the disk fails
        """
        share = max(_PIECE // max(1, len(self._runs)), _LEAST)
        waiting = sorted(self._runs, reverse=True)
        taking: list[_Cursor] = []
        while waiting or taking:
            if not taking:
                taking.append(self._open(waiting.pop(), share))
            while True:
                bound = _bound(taking)
                if not waiting or waiting[-1][0] > bound:
                    break
                taking.append(self._open(waiting.pop(), share))
            parts = [cursor.take(bound) for cursor in taking]
            taking = [cursor for cursor in taking if cursor.refill(share)]
            yield self._merged(parts)

    def _open(self, run: tuple[int, int, int], share: int) -> "_Cursor":
        cursor = _Cursor(self._columns, self._halves, run[1], run[2])
        cursor.refill(share)
        return cursor

    def _merged(self, parts: "list[tuple[Array, ...]]") -> tuple[Array, ...]:
        if len(parts) == 1:
            return parts[0]
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = in_order(joined[: self._halves])
        return tuple(joined) if order is None else tuple(column[order] for column in joined)

    def close(self) -> None:
        """Let the rows go."""
        for column in self._columns:
            column.close()


class _Cursor:
    """One run that is being read: the rows that were read and not yet taken."""

    def __init__(self, columns: Sequence[Column], halves: int, begin: int, end: int) -> None:
        self._columns = columns
        self._halves = halves
        self._at = begin
        self._end = end
        self._rows: tuple[Array, ...] = ()

    @property
    def more(self) -> bool:
        """True if the run has rows that were not read."""
        return self._at < self._end

    @property
    def newest(self) -> int:
        """The first address of the last row that was read."""
        return _address(self._rows[: self._halves], len(self._rows[0]) - 1)

    def take(self, bound: int) -> tuple[Array, ...]:
        """The rows up to this first address."""
        count = _count_to(self._rows[: self._halves], bound)
        taken = tuple(column[:count] for column in self._rows)
        self._rows = tuple(column[count:] for column in self._rows)
        return taken

    def refill(self, share: int) -> bool:
        """Read on until there are ``share`` rows; false if there are none left."""
        there = len(self._rows[0]) if self._rows else 0
        wanted = min(share - there, self._end - self._at)
        if wanted > 0 and (2 * there <= share or not there):
            read = [column.read(self._at, self._at + wanted) for column in self._columns]
            self._rows = tuple(map(np.concatenate, zip(self._rows, read, strict=True))) if there else tuple(read)
            self._at += wanted
            there += wanted
        return there > 0


def _bound(taking: Sequence[_Cursor]) -> int:
    """The greatest first address up to which every run was read. Rows of several runs up to there come in any order."""
    unfinished = [cursor.newest for cursor in taking if cursor.more]
    return min(unfinished) if unfinished else max(cursor.newest for cursor in taking)


def _address(halves: Sequence[Array], row: int) -> int:
    found = 0
    for half in halves:
        found = found << 64 | int(half[row])
    return found


def _count_to(halves: Sequence[Array], bound: int) -> int:
    """The number of sorted addresses that are not above ``bound``."""
    if len(halves) == 1:
        return int(np.searchsorted(halves[0], halves[0].dtype.type(bound), "right"))
    hi, lo = halves
    upper, lower = np.uint64(bound >> 64), np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF)
    begin, end = (int(np.searchsorted(hi, upper, side)) for side in ("left", "right"))
    return begin + int(np.searchsorted(lo[begin:end], lower, "right"))


#: As many that came out of order are kept in a set, until they are sorted in among the others.
_LATE = 1 << 16


class Seen:
    """Whole numbers of 64 bits, each of which may come once. Cheapest if they ascend."""

    def __init__(self) -> None:
        self._sorted = array("q")
        self._late: set[int] = set()

    def rise(self, numbers: Array) -> bool:
        """Note numbers of which each is greater than all before; false, and none is noted, if one is not."""
        if len(numbers) and ((self._sorted and numbers[0] <= self._sorted[-1]) or np.any(numbers[1:] <= numbers[:-1])):
            return False
        self._sorted.frombytes(np.ascontiguousarray(numbers, np.int64).data.cast("B"))
        return True

    def add(self, number: int) -> bool:
        """Note a number; false if it has come before."""
        known = self._sorted
        if not known or number > known[-1]:
            # One that is late lies below the highest of its time, so it is none of these.
            known.append(number)
            return True
        at = bisect_left(known, number)
        if known[at] == number or number in self._late:
            return False
        self._late.add(number)
        if len(self._late) == _LATE:
            late = np.fromiter(self._late, np.int64, len(self._late))
            together = np.sort(np.concatenate([np.frombuffer(known, np.int64), late]), kind="stable")
            self._sorted = array("q")
            self._sorted.frombytes(together.data.cast("B"))
            self._late.clear()
        return True


#: Of the texts that came or were asked for last, between so many and twice as many are found without a digest.
_RECENT = 1 << 17
_KEPT_OFFSETS = 1 << 14
_LARGEST_I32 = (1 << 31) - 1
_LOW64 = (1 << 64) - 1


class Texts:
    """A table of texts. The recent ones are in dictionaries; of all others there are digests of 128 bits, sorted.

    The texts themselves go to columns, which become the sections of a file.
    """

    def __init__(self, folder: str | None = None) -> None:
        """A table that has the text "" alone. What is large is kept in ``folder``; without one, in memory."""
        self._recent: dict[str | bytes, int] = {}
        self._before: dict[str | bytes, int] = {}
        # The digests of the texts that are in neither: upper and lower halves, and numbers.
        self._upper = np.empty(0, np.uint64)
        self._lower = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.uint32)
        self._bytes = Column("u1", folder)
        self._offsets = Column("i4", folder)
        self._newest = bytearray()
        self._newest_offsets = array("q", [0])
        self._size = 0
        self._count = 0
        self.number("")

    def __len__(self) -> int:
        return self._count

    def number(self, text: str | bytes) -> int:
        """The number of a text, which is added if it is new. A table of texts may have any octets instead.

        :raises UnicodeEncodeError: if it is not Unicode: then it is not added
        :raises OSError: if the disk is full, or fails
        """
        found = self._recent.get(text)
        if found is not None:
            return found
        found = self._before.get(text)
        if found is None:
            encoded = _octets(text)
            found = self._find(encoded) if len(self._numbers) else None
            if found is None:
                found = self.add(encoded)
        self._recent[text] = found
        if len(self._recent) == _RECENT:
            self._forget()
        return found

    def add(self, encoded: bytes) -> int:
        """`extend` for one: its number."""
        return self.extend((encoded,))[0]

    def extend(self, encoded: Sequence[bytes]) -> range:
        """The numbers of octets that are known to be new. They are not found again: that spares what would find them.

        :raises OSError: if the disk is full, or fails
        """
        ends = itertools.accumulate(map(len, encoded), initial=self._size)
        self._size = next(ends)
        for self._size in ends:
            self._newest_offsets.append(self._size)
        self._newest += b"".join(encoded)
        if len(self._newest_offsets) >= _KEPT_OFFSETS:
            self._keep()
        self._count += len(encoded)
        return range(self._count - len(encoded), self._count)

    def _keep(self) -> None:
        if self._size <= _LARGEST_I32:  # else it is refused in the end
            self._bytes.append(np.frombuffer(self._newest, np.uint8))
            self._offsets.append(np.frombuffer(self._newest_offsets, np.int64))
        self._newest, self._newest_offsets = bytearray(), array("q")

    def _forget(self) -> None:
        """Keep the digests of the texts that are not among the recent ones any more."""
        digests = b"".join([_digest(_octets(text)) for text in self._before])
        pairs = np.frombuffer(digests, np.uint64)
        upper = np.concatenate([self._upper, pairs[::2]])
        lower = np.concatenate([self._lower, pairs[1::2]])
        numbers = np.concatenate([self._numbers, np.fromiter(self._before.values(), np.uint32, len(self._before))])
        order = np.lexsort((lower, upper))
        upper, lower, numbers = upper[order], lower[order], numbers[order]
        # One that was found by its digest is there already.
        new = np.ones(len(order), np.bool_)
        new[1:] = (upper[1:] != upper[:-1]) | (lower[1:] != lower[:-1])
        self._upper, self._lower, self._numbers = upper[new], lower[new], numbers[new]
        self._before, self._recent = self._recent, {}

    def _find(self, encoded: bytes) -> int | None:
        digest = int.from_bytes(_digest(encoded), "little")
        wanted, lower = digest & _LOW64, digest >> 64
        upper = self._upper.data
        at = bisect_left(upper, wanted)
        while at < len(upper) and upper[at] == wanted:
            if self._lower[at] == lower:
                return int(self._numbers[at])
            at += 1
        return None

    def sections(self) -> tuple[Column, Column]:
        """The offsets of all texts, and their bytes. No more can be added.

        :raises IndexFileError: if they are longer than offsets can say
        :raises OSError: if the disk is full, or fails
        """
        if self._size > _LARGEST_I32:
            raise too_long(self._size)
        self._recent, self._before = {}, {}
        self._upper = self._lower = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.uint32)
        self._keep()
        return self._offsets, self._bytes


def too_long(size: int) -> IndexFileError:
    """The error for more bytes than offsets can say."""
    return IndexFileError(f"the locations' distinct texts, or parts of records, have {size} bytes: 2 GiB is the most")


def _octets(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8")


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=16).digest()


def spread(values: U64) -> U64:
    """Spread each value over all 64 bits, different ones to different ones (the finisher of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
