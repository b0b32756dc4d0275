"""Several index files walked side by side, in numpy: at each address, which slot it has in every one of them."""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.index.flatten import I64, U64
from geolookup.index.layout import EMPTY
from geolookup.index.segments import segments_v4, segments_v6
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.errors import IndexDamagedError

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: About how many segments of all files are walked at a time.
_CHUNK = 1 << 17
#: With fewer cuts than this, what is read of the files is not worth giving back.
_SMALL_WALK = 8
_LOW64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of one family's space: at each start, ascending, the slot that every file has from there to the next.

    ``hi`` and ``lo`` are the halves of the starts (``hi`` zeros in IPv4), one for each address at which a segment of
    any file begins. ``slots`` has one array for each file, with -1 if no block covers. ``end`` is one past the last
    address.
    """

    hi: U64
    lo: U64
    end: int
    slots: tuple[I64, ...]

    def lengths(self) -> list[tuple[U64, int]]:
        """The number of addresses that each start reaches: limbs of 32 bits at most, each with its shift."""
        after_hi = np.append(self.hi[1:], np.uint64(self.end >> 64 & _LOW64))
        after_lo = np.append(self.lo[1:], np.uint64(self.end & _LOW64))
        lo = after_lo - self.lo  # modulo 2**64: the line below has the borrow
        hi = after_hi - self.hi - (after_lo < self.lo)
        half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
        return [(lo & mask, 0), (lo >> half, 32), (hi & mask, 64), (hi >> half, 96)]


def walk(readers: "Sequence[IndexReader]", family: Literal[4, 6], *, records: bool = False) -> Iterator[Stretch]:
    """Walk one family of all files from its first address to its last, in memory that does not grow with the files.

    With ``records`` stretches have the numbers of records in place of slots.

    :raises IndexDamagedError: if a file's segments or slots cannot be followed
    """
    files = [_File(reader, family, records=records) for reader in readers]
    whole = (IPV4_MAX if family == 4 else IPV6_MAX) + 1
    # The middle is a cut too: the length of the whole IPv6 space would not fit into 128 bits.
    cuts = {0, whole >> 1, whole}
    for file in files:
        cuts.update(file.start(position) for position in range(0, file.count, max(1, _CHUNK // len(files))))
    ends = sorted(cuts)
    for begin, end in itertools.pairwise(ends):
        yield _between(files, family, begin, end)
        if len(ends) > _SMALL_WALK:
            # It was copied. Else both files would stand in this process's memory, to the last page, in the end.
            for file in files:
                file.reader.let_go()


class _File:
    """One family of one file."""

    def __init__(self, reader: "IndexReader", family: Literal[4, 6], *, records: bool) -> None:
        self.path = reader.path
        self.records = records
        self.limit = reader.record_count if records else reader.location_count
        self.reader = reader
        self.family = family
        self.count = reader.header.sections[f"v{family}.slot"].length

    def start(self, position: int) -> int:
        return self.reader.first(self.family, position)

    def position(self, address: int) -> int:
        """The number of segments that begin before an address."""
        return bisect_left(range(self.count), address, key=self.start)

    def between(self, begin: int, end: int) -> tuple[U64, U64, I64]:
        """Halves of the starts and slots from ``begin`` up to ``end``; a segment that begins earlier and reaches in
        comes first."""
        first, past = self.position(begin), self.position(end)
        # If a segment begins exactly here, the one before it has no length.
        before = max(first - 1, 0)
        if self.family == 4:
            starts, found = segments_v4(self.reader, before, past, records=self.records)
            lo = starts[first - before :].astype(np.uint64)
            hi = np.zeros(len(lo), np.uint64)
        else:
            hi, lo, found = segments_v6(self.reader, before, past, records=self.records)
            hi, lo = hi[first - before :], lo[first - before :]
        ordered = (hi[1:] > hi[:-1]) | ((hi[1:] == hi[:-1]) & (lo[1:] > lo[:-1]))
        if (
            not len(found)
            or not ordered.all()
            or (past > first and not begin <= self.start(first) <= self.start(past - 1) < end)
        ):
            raise IndexDamagedError(f"{self.path}: a segment is out of order around entry {first}: the file is damaged")
        slots = np.append(found[0], found[first - before :]).astype(np.int64)
        slots[slots == EMPTY] = -1
        if int(slots.max()) >= self.limit:
            raise IndexDamagedError(f"{self.path}: entry {first} or one soon after names no location: it is damaged")
        return np.append(np.uint64(begin >> 64), hi), np.append(np.uint64(begin & _LOW64), lo), slots


def _between(files: list[_File], family: Literal[4, 6], begin: int, end: int) -> Stretch:
    if not files:  # nothing covers anything
        return Stretch(
            hi=np.array([begin >> 64], np.uint64), lo=np.array([begin & _LOW64], np.uint64), end=end, slots=()
        )
    parts = [file.between(begin, end) for file in files]
    all_hi, all_lo, all_slots = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Both sorts are stable, and find each file's own order there already.
    order = np.argsort(all_lo, kind="stable") if family == 4 else np.lexsort((all_lo, all_hi))
    place = np.arange(len(order))
    slots = all_slots[order]
    hi, lo = all_hi[order], all_lo[order]
    # Of several starts at one address only the last reaches any.
    reaches = np.flatnonzero(np.append((hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1]), True))
    columns = []
    offset = 0
    for _, _, own in parts:
        mine = (order >= offset) & (order < offset + len(own))
        # Every start carries the newest slot of each file on. All files begin at the first address, so the last start
        # there, and each one after it, has one of every file.
        columns.append(slots[np.maximum.accumulate(np.where(mine, place, 0))[reaches]])
        offset += len(own)
    return Stretch(hi=hi[reaches], lo=lo[reaches], end=end, slots=tuple(columns))
