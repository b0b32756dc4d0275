"""Segments as numpy arrays of whole addresses and slots, the sections that hold them in parts, and what they cover."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from geolookup.index.flatten import U32, U64, Array
from geolookup.index.layout import EMPTY, NARROW_EMPTY, TABLE_LENGTH, WIDE_EMPTY
from geolookup.index.scratch import Column
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.errors import IndexDamagedError

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: So many zeros are written at a time.
_ZEROS = 1 << 16


def segments_v4(
    reader: "IndexReader", begin: int = 0, end: int | None = None, *, records: bool = False
) -> tuple[U32, U32]:
    """First address and slot (or `EMPTY`) of the IPv4 segments from ``begin`` up to ``end``, gaps included: copies.

    With ``records`` the numbers of records in place of slots; without, neighbours may have the same slot.

    :raises IndexDamagedError: if the table does not count the segments
    """
    arrays = reader.arrays()
    low = arrays["v4.low"][begin:end]
    inside = np.clip(arrays["v4.table"], begin, begin + len(low)).astype(np.int64)
    try:
        upper = np.repeat(np.arange(len(inside) - 1, dtype=np.uint32) << np.uint32(16), np.diff(inside))
    except ValueError:  # a count below zero
        upper = np.empty(0, np.uint32)
    if len(upper) != len(low):
        raise IndexDamagedError(f"{reader.path}: v4.table is out of order: the file is damaged")
    return upper | low, _slots(reader.path, arrays, "v4", slice(begin, end), records=records)


def segments_v6(
    reader: "IndexReader", begin: int = 0, end: int | None = None, *, records: bool = False
) -> tuple[U64, U64, U32]:
    """As `segments_v4`: upper and lower half of the first address, which are not copied, and slot, of IPv6 segments."""
    arrays = reader.arrays()
    hi = arrays["v6.hi"][begin:end]
    lo = arrays["v6.lo"][begin:end] if "v6.lo" in arrays else np.broadcast_to(np.uint64(0), len(hi))
    return hi, lo, _slots(reader.path, arrays, "v6", slice(begin, end), records=records)


def _slots(path: str, arrays: Mapping[str, Array], family: str, part: slice, *, records: bool) -> U32:
    found: U32 = arrays[f"{family}.slot"][part].astype(np.uint32)
    high = arrays.get(f"{family}.slot_high")
    if high is not None:
        found |= high[part].astype(np.uint32) << np.uint32(16)
    none = found == (NARROW_EMPTY if high is None else WIDE_EMPTY)
    if not records and (of_record := arrays.get("record.slot")) is not None:
        found[none] = 0
        if int(found.max(initial=0)) >= len(of_record):
            raise IndexDamagedError(f"{path}: {family}.slot names a record that is not there: the file is damaged")
        found = of_record[found]
    found[none] = EMPTY
    return found


def numbers_of_records(reader: "IndexReader") -> U32:
    """The number of each record of a file, or `EMPTY` if it is weak: it does not say where its addresses are."""
    numbers: U32 = np.arange(reader.record_count, dtype=np.uint32)
    of_record = reader.arrays().get("record.slot")
    if of_record is not None:
        numbers[of_record == EMPTY] = EMPTY
    return numbers


class SegmentSections:
    """Takes segments in the order of their addresses, piece by piece, and makes the sections that hold them."""

    def __init__(self, locations: int, folder: str | None = None, *, weak: int = EMPTY) -> None:
        """``locations`` is how many the file will have. What is large is kept in ``folder``; without one, in memory.

        Numbers from ``weak`` on are of records that do not count as an answer.
        """
        self._weak = weak
        self._wide = locations > NARROW_EMPTY
        kinds = {"v4.low": "u2", "v6.hi": "u8", "v6.lo": "u8"}
        for family in ("v4", "v6"):
            kinds[f"{family}.slot"] = "u2"
            kinds[f"{family}.slot_high"] = "u1"
        # Plain arrays without a folder: most indexes are overlays of a few geolocations.
        self._columns = {} if folder is None else {name: Column(kind, folder) for name, kind in kinds.items()}
        self._arrays: dict[str, list[Array]] = {} if folder is not None else {name: [] for name in kinds}
        self._has_lower = False
        self._lower_zeros = 0
        self._families = {family: _Counted() for family in ("v4", "v6")}

    def add_v4(self, first: U32, slot: U32) -> None:
        """Add IPv4 segments, as `flatten.Flattener` hands them out: the first of all begins at 0.

        :raises OSError: if the disk is full, or fails
        """
        if len(slot):
            self._append("v4.low", first.astype(np.uint16))
            self._add("v4", (first,), first >> np.uint32(16), slot)

    def add_v6(self, hi: U64, lo: U64, slot: U32) -> None:
        """`add_v4` for IPv6 segments."""
        if not len(slot):
            return
        self._append("v6.hi", hi)
        # As long as all are zero, they are only counted: then the section is left out.
        if self._has_lower or lo.any():
            for begin in range(0, self._lower_zeros, _ZEROS):
                self._append("v6.lo", np.zeros(min(_ZEROS, self._lower_zeros - begin), np.uint64))
            self._lower_zeros = 0
            self._append("v6.lo", lo)
            self._has_lower = True
        else:
            self._lower_zeros += len(lo)
        self._add("v6", (hi, lo), hi >> np.uint64(48), slot)

    def _add(self, family: str, starts: tuple[Array, ...], upper: Array, slot: U32) -> None:
        self._append(f"{family}.slot", slot.astype(np.uint16))
        if self._wide:
            self._append(f"{family}.slot_high", (slot >> np.uint32(16)).astype(np.uint8))
        if self._weak != EMPTY:
            slot = np.where(slot < self._weak, slot, np.uint32(EMPTY))
        self._families[family].add(starts, upper, slot)

    def _append(self, name: str, values: Array) -> None:
        if name in self._arrays:
            self._arrays[name].append(values)
        else:
            self._columns[name].append(values)

    def finish(self, counts: Mapping[str, int]) -> tuple[dict[str, "Array | Column"], dict[str, int]]:
        """The sections, and ``counts`` with the numbers of segments and covered addresses added.

        A family of which no segments came has one, from its first address to its last, which is a gap.
        """
        if self._families["v4"].is_empty:
            self.add_v4(np.zeros(1, np.uint32), np.full(1, EMPTY, np.uint32))
        if self._families["v6"].is_empty:
            self.add_v6(np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.full(1, EMPTY, np.uint32))
        sections: dict[str, Array | Column] = {name: column for name, column in self._columns.items() if len(column)}
        while self._arrays:
            name, parts = self._arrays.popitem()
            if parts:
                sections[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        counted = dict(counts)
        for family, limit in (("v4", IPV4_MAX), ("v6", IPV6_MAX)):
            found = self._families[family]
            sections[f"{family}.table"] = found.table()
            counted[f"segments_{family}"] = found.segments
            counted[f"covered_{family}"] = found.covered + (limit + 1 if found.slot != EMPTY else 0)
        return sections, counted


class _Counted:
    """One family's segments as far as they are known; ``slot`` is of the newest, not counted yet."""

    def __init__(self) -> None:
        self.is_empty = True
        self.segments = 0
        self.covered = 0
        self.slot = EMPTY
        self._starts = np.zeros(TABLE_LENGTH - 1, np.int64)

    def add(self, starts: tuple[Array, ...], upper: Array, slot: U32) -> None:
        self.is_empty = False
        self.segments += int(np.count_nonzero(slot != EMPTY))
        self.covered += _covered_up_to(starts, slot, is_open=self.slot != EMPTY)
        self.slot = int(slot[-1])
        # They ascend, so only the values from the first to the last of them are counted.
        begin = int(upper[0])
        counted = np.bincount((upper - upper[0]).astype(np.int64))
        self._starts[begin : begin + len(counted)] += counted

    def table(self) -> U32:
        """For each value of the upper 16 bits, how many segments begin before it, and how many there are."""
        table = np.zeros(TABLE_LENGTH, np.uint32)
        table[1:] = np.cumsum(self._starts)
        return table


def covered(starts: tuple[Array, ...], slot: U32) -> int:
    """The number of addresses that all segments of a family cover, without gaps: exact.

    ``starts`` are the first addresses, of IPv6 in halves.
    """
    limit = IPV4_MAX if len(starts) == 1 else IPV6_MAX
    return _covered_up_to(starts, slot, is_open=False) + (limit + 1 if slot[-1] != EMPTY else 0)


def _covered_up_to(starts: tuple[Array, ...], slot: U32, *, is_open: bool) -> int:
    """The sum of the addresses at which coverage ends less that of those at which it begins; it may go on at the end.

    ``is_open`` says whether the segment before the first is covered.
    """
    edges = np.flatnonzero(np.diff(slot != EMPTY, prepend=is_open))
    total = 0
    for half in starts:
        total <<= 64
        for sign, turns in ((1, edges[not is_open :: 2]), (-1, edges[is_open::2])):
            # In halves again, since a sum must fit into 64 bits.
            found = half[turns].astype(np.uint64)
            total += sign * ((int(np.sum(found >> np.uint64(32))) << 32) + int(np.sum(found & np.uint64(0xFFFFFFFF))))
    return total


def table_v4(first: U32) -> U32:
    """For each value of the upper 16 bits, how many segments begin before it; one past the last is their number."""
    return _table(first, np.arange(TABLE_LENGTH - 1, dtype=np.uint32) << np.uint32(16))


def table_v6(hi: U64) -> U32:
    """As `table_v4`, from the upper halves."""
    return _table(hi, np.arange(TABLE_LENGTH - 1, dtype=np.uint64) << np.uint64(48))


def _table(starts: Array, keys: Array) -> U32:
    table = np.empty(TABLE_LENGTH, np.uint32)
    table[:-1] = np.searchsorted(starts, keys, side="left")
    table[-1] = len(starts)
    return table
