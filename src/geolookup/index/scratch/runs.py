"""Sorting rows that do not fit into memory: sorted runs of them, which are merged in pieces."""

from collections.abc import Iterator, Sequence

import numpy as np

from geolookup.index.flatten import Array, in_order
from geolookup.index.scratch.column import Column

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
        """Whether the run has rows that were not read."""
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
    """Up to which first address all rows were read: whatever stands there in several runs may come in any order."""
    unfinished = [cursor.newest for cursor in taking if cursor.more]
    return min(unfinished) if unfinished else max(cursor.newest for cursor in taking)


def _address(halves: Sequence[Array], row: int) -> int:
    found = 0
    for half in halves:
        found = found << 64 | int(half[row])
    return found


def _count_to(halves: Sequence[Array], bound: int) -> int:
    """How many of the sorted addresses are not above ``bound``."""
    if len(halves) == 1:
        return int(np.searchsorted(halves[0], halves[0].dtype.type(bound), "right"))
    hi, lo = halves
    upper, lower = np.uint64(bound >> 64), np.uint64(bound & 0xFFFF_FFFF_FFFF_FFFF)
    begin, end = (int(np.searchsorted(hi, upper, side)) for side in ("left", "right"))
    return begin + int(np.searchsorted(lo[begin:end], lower, "right"))
