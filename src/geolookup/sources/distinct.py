"""Blocks of a table, held back until all rows are known: two rows that give one block different places are both bad.

Neither is to be believed, and without this the later one would win unseen. What is held lies in files without a name;
in memory are 8 bytes a row while equal blocks are looked for. The same place twice is harmless.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from geolookup.files.tables import CHUNK_ROWS, Chunk
from geolookup.index.flatten import I64, Array, Flags
from geolookup.index.scratch import Column
from geolookup.index.writer import write_errors
from geolookup.model.types import IPBlock
from geolookup.sources.blocks import NO_V4, NO_V6, Batch, BlocksV4, BlocksV6
from geolookup.sources.protocol import KEPT_BAD_ROWS, Gathered

_ENDS = {4: ("u4", "u4"), 6: ("u8", "u8", "u8", "u8")}


class Distinct:
    """The blocks of one file. Close it at the end."""

    def __init__(self, differing: str = "with another place") -> None:
        """``differing`` says how two rows for one block differ."""
        self._differing = differing
        self._folder = folder = tempfile.gettempdir()
        # The ends of the blocks, and the row of each: rows are counted from 0 as they are added.
        self._blocks = {family: [Column(kind, folder) for kind in (*ends, "u4")] for family, ends in _ENDS.items()}
        #: Of each row its place, number and line.
        self._rows = [Column(kind, folder) for kind in ("u4", "i8", "i8")]

    def add(self, batch: Batch, places: Array, chunk: Chunk) -> None:
        """Add the blocks of a chunk, whose ``place`` are positions in it.

        ``places`` are those of its rows, or the numbers of their records.
        """
        begun = len(self._rows[0])
        with write_errors(self._folder):
            for column, values in zip(self._rows, (places, chunk.numbers, chunk.lines), strict=True):
                column.append(np.asarray(values))
            for family, (*ends, at) in ((4, batch.v4), (6, batch.v6)):
                for column, values in zip(self._blocks[family], (*ends, at + np.uint32(begun)), strict=True):
                    column.append(values)

    def batches(self, gathered: Gathered, meanings: Callable[[Array], Array]) -> Iterator[Batch]:
        """The blocks in the order of their rows, without those of several places, of which ``gathered`` is told.

        ``meanings`` says of numbers which mean the same: rows that differ in what they say besides do not contradict
        each other, and of them the later counts.
        """
        bad = np.zeros(len(self._rows[0]), np.bool_)
        numbers = self._rows[0].whole()
        places = meanings(numbers)
        for family, columns in self._blocks.items():
            self._note_bad(gathered, family, columns, places, bad)
        for family, columns in self._blocks.items():
            for part in zip(*(column.parts(CHUNK_ROWS) for column in columns), strict=True):
                kept = ~bad[part[-1]]
                *ends, rows = (values[kept] for values in part)
                if family == 4:
                    yield Batch(BlocksV4._make((*ends, numbers[rows])), NO_V6)
                else:
                    yield Batch(NO_V4, BlocksV6._make((*ends, numbers[rows])))

    def _note_bad(self, gathered: Gathered, family: int, columns: Sequence[Column], places: Array, bad: Flags) -> None:
        twice = _twice(columns)
        if not len(twice):
            return
        *ends, rows = (column.whole()[twice] for column in columns)
        place = places[rows]
        order = np.lexsort((rows, place, *reversed(ends)))
        *ends, rows, place = (values[order] for values in (*ends, rows, place))
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = np.any([end[1:] != end[:-1] for end in ends], axis=0)
        # Of each group of equal blocks the first and the last: by their places these differ if any do.
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1
        first, last = (positions[np.cumsum(begins) - 1] for positions in (first, last))
        chosen = np.flatnonzero(place[first] != place[last])
        chosen = chosen[np.argsort(rows[chosen])]
        bad[rows[chosen]] = True
        other = np.where(place == place[first], last, first)
        _, numbers, lines = self._rows
        for count, at in enumerate(chosen.tolist()):
            row, its = int(rows[at]), int(rows[other[at]])
            number, line, line_of_other = (
                int(column.read(i, i + 1)[0]) for column, i in ((numbers, row), (lines, row), (lines, its))
            )
            reason = (
                f"{_block(family, [int(end[at]) for end in ends])} is in line {line_of_other} too, {self._differing}"
            )
            if count >= KEPT_BAD_ROWS:  # no more are named
                gathered.leave_out(number, line, reason, count=len(chosen) - count)
                return
            gathered.leave_out(number, line, reason)

    def close(self) -> None:
        """Let the blocks go."""
        for column in (*self._rows, *self._blocks[4], *self._blocks[6]):
            column.close()


def _twice(columns: Sequence[Column]) -> I64:
    """The positions of blocks whose ends come more than once; of IPv6 perhaps a few more."""
    keys = np.empty(len(columns[0]), np.uint64)
    begin = 0
    for part in zip(*(column.parts() for column in columns[:-1]), strict=True):
        key = part[0].astype(np.uint64)
        for end in part[1:]:
            # Of IPv4 both ends beside each other, without loss.
            key = key << np.uint64(32) | end if len(part) == 2 else (key * np.uint64(0x9E3779B97F4A7C15)) ^ end
        keys[begin : begin + len(key)] = key
        begin += len(key)
    ordered = np.sort(keys)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(again):
        return np.empty(0, np.int64)
    again = np.unique(again)
    at = np.minimum(np.searchsorted(again, keys), len(again) - 1)
    return np.flatnonzero(again[at] == keys)


def _block(family: int, ends: list[int]) -> IPBlock:
    if family == 4:
        return IPBlock(family=4, first=ends[0], last=ends[1])
    return IPBlock(family=6, first=ends[0] << 64 | ends[1], last=ends[2] << 64 | ends[3])
