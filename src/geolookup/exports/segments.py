"""The segments of an address family in columns: disjoint, ascending, from the family's first address to its last."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from geolookup.index.flatten import EMPTY, U32, U64
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX

_CHUNK = 1 << 16


class Segments(NamedTuple):
    """The upper and lower 64 bits of the first address of each (``hi`` is all zeros in IPv4), and its value: a number
    below 2**32 - 2, or `EMPTY` for a gap. The first begins at address 0; each reaches to the next."""

    hi: U64
    lo: U64
    value: U32

    def start(self, position: int) -> int:
        """The first address of a segment."""
        return int(self.hi[position]) << 64 | int(self.lo[position])

    def position(self, address: int) -> int:
        """The number of segments that begin before an address."""
        return bisect_left(range(len(self.value)), address, key=self.start)

    def part(self, begin: int, end: int | None) -> "Segments":
        """Some of the segments."""
        return Segments(self.hi[begin:end], self.lo[begin:end], self.value[begin:end])

    def merged(self) -> "Segments":
        """The same, with neighbours of one value joined."""
        begins = np.append(True, self.value[1:] != self.value[:-1])
        return self if begins.all() else Segments(self.hi[begins], self.lo[begins], self.value[begins])

    def with_values(self, values: U32) -> "Segments":
        """The same with other values, by the present ones: gaps stay, and neighbours of one new value are joined."""
        # One past the last is for gaps.
        known = np.append(values, np.uint32(EMPTY))
        numbers = np.where(self.value == EMPTY, len(values), self.value)
        return Segments(self.hi, self.lo, known[numbers]).merged()

    def covered(self) -> int:
        """The number of segments that are not gaps."""
        return int(np.count_nonzero(self.value != EMPTY))

    def ranges(self, version: int) -> Iterator[tuple[int, int, int]]:
        """The segments that are not gaps, as (first, last, value), both ends inclusive."""
        whole = (IPV4_MAX if version == 4 else IPV6_MAX) + 1
        for begin in range(0, len(self.value), _CHUNK):
            part = self.part(begin, begin + _CHUNK + 1)
            starts = [hi << 64 | lo for hi, lo in zip(part.hi.tolist(), part.lo.tolist(), strict=True)]
            if begin + _CHUNK >= len(self.value):
                starts.append(whole)
            for at, value in enumerate(part.value[:_CHUNK].tolist()):
                if value != EMPTY:
                    yield starts[at], starts[at + 1] - 1, value


#: No segments.
NOTHING = Segments(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.uint32))


def seamless(parts: Iterable[Segments]) -> list[Segments]:
    """Parts that follow each other, each without a first segment that goes on with the value before; none is empty."""
    kept: list[Segments] = []
    for part in parts:
        goes_on = kept and len(part.value) and part.value[0] == kept[-1].value[-1]
        rest = part.part(int(bool(goes_on)), None)
        if len(rest.value):
            kept.append(rest)
    return kept


def joined(*parts: Segments) -> Segments:
    """Parts that follow each other as one; see `seamless`."""
    hi, lo, value = zip(*seamless(parts), strict=True)
    return Segments(np.concatenate(hi), np.concatenate(lo), np.concatenate(value))


def side_by_side(*families: Segments) -> tuple[U64, U64, list[U32]]:
    """Several segments of one space together: the halves of every address at which one begins, ascending, and the value
    that each has from there on."""
    # Stable: all of them begin at the first address, so from the last start there on, each one has a value.
    hi, lo = (np.concatenate(column) for column in list(zip(*families, strict=True))[:2])
    order = np.lexsort((lo, hi))
    hi, lo = hi[order], lo[order]
    reaches = np.flatnonzero(np.append((hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1]), True))
    values, offset = [], 0
    for each in families:
        own = order - offset
        own = np.maximum.accumulate(np.where((own >= 0) & (own < len(each.value)), own, 0))
        values.append(each.value[own[reaches]])
        offset += len(each.value)
    return hi[reaches], lo[reaches], values
