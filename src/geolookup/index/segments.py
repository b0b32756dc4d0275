"""Segments as numpy arrays of whole addresses and slots, the sections that hold them in parts, and what they cover."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from geolookup.addresses import IPV4_MAX, IPV6_MAX
from geolookup.errors import IndexDamagedError
from geolookup.index.flatten import U32, U64, Array, Flags
from geolookup.index.layout import EMPTY, NARROW_EMPTY, TABLE_LENGTH, WIDE_EMPTY

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader


def segments_v4(reader: "IndexReader", begin: int = 0, end: int | None = None) -> tuple[U32, U32]:
    """First address and slot (or `EMPTY`) of the IPv4 segments from ``begin`` up to ``end``, gaps included: copies.

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
    return upper | low, _slots(arrays["v4.slot"], arrays.get("v4.slot_high"), begin, end)


def segments_v6(reader: "IndexReader", begin: int = 0, end: int | None = None) -> tuple[U64, U64, U32]:
    """Upper and lower half of the first address, and slot (or `EMPTY`), of IPv6 segments: halves are not copied."""
    arrays = reader.arrays()
    hi = arrays["v6.hi"][begin:end]
    lo = arrays["v6.lo"][begin:end] if "v6.lo" in arrays else np.broadcast_to(np.uint64(0), len(hi))
    return hi, lo, _slots(arrays["v6.slot"], arrays.get("v6.slot_high"), begin, end)


def _slots(low: Array, high: Array | None, begin: int, end: int | None) -> U32:
    slots: U32 = low[begin:end].astype(np.uint32)
    if high is not None:
        slots |= high[begin:end].astype(np.uint32) << np.uint32(16)
    slots[slots == (NARROW_EMPTY if high is None else WIDE_EMPTY)] = EMPTY
    return slots


def _split_slots(family: str, slots: U32, locations: int) -> dict[str, Array]:
    """The sections that hold slots: their lower 16 bits, and the 8 above, which few locations can do without."""
    sections: dict[str, Array] = {f"{family}.slot": slots.astype(np.uint16)}
    if locations > NARROW_EMPTY:
        sections[f"{family}.slot_high"] = (slots >> np.uint32(16)).astype(np.uint8)
    return sections


def segment_sections(
    v4: tuple[U32, U32],
    v6: tuple[U64, U64, U32],
    locations: int,
    counts: Mapping[str, int],
) -> tuple[dict[str, Array], dict[str, int]]:
    """The sections that hold segments, and ``counts`` with the numbers of segments and covered addresses added.

    ``v4`` and ``v6`` are as `flatten.flatten_v4` and `flatten.flatten_v6` return them.
    """
    (first, slot), (hi, lo, slot_v6) = v4, v6
    counted = {
        **counts,
        "segments_v4": int(np.count_nonzero(slot != EMPTY)),
        "segments_v6": int(np.count_nonzero(slot_v6 != EMPTY)),
        "covered_v4": covered_v4(first, slot),
        "covered_v6": covered_v6(hi, lo, slot_v6),
    }
    sections: dict[str, Array] = {
        "v4.low": first.astype(np.uint16),
        "v4.table": table_v4(first),
        "v6.hi": hi,
        "v6.table": table_v6(hi),
    }
    if lo.any():
        sections["v6.lo"] = lo
    for family, slots in (("v4", slot), ("v6", slot_v6)):
        sections.update(_split_slots(family, slots, locations))
    return sections, counted


def covered_v4(first: U32, slot: U32) -> int:
    """How many IPv4 addresses the segments cover, without gaps: exact."""
    covered = slot != EMPTY
    total = int(np.sum(first[1:] - first[:-1], where=covered[:-1], dtype=np.uint64))
    return total + (IPV4_MAX + 1 - int(first[-1]) if covered[-1] else 0)


def covered_v6(hi: U64, lo: U64, slot: U32) -> int:
    """How many IPv6 addresses the segments cover, without gaps: exact."""
    covered = slot != EMPTY
    total = _span_v6(hi, lo, covered[:-1])
    return total + (IPV6_MAX + 1 - (int(hi[-1]) << 64 | int(lo[-1])) if covered[-1] else 0)


def _span_v6(hi: U64, lo: U64, wanted: Flags) -> int:
    """The sum of the addresses between each wanted start and the next start; there is one start more."""
    upper = int(np.sum(hi[1:] - hi[:-1], where=wanted, dtype=np.uint64))
    # Lower halves rise and fall, so they are summed separately, and in halves again, since a sum must fit into 64 bits.
    lower = [
        (int(np.sum(half >> np.uint64(32), where=wanted)) << 32)
        + int(np.sum(half & np.uint64(0xFFFFFFFF), where=wanted))
        for half in (lo[1:], lo[:-1])
    ]
    return (upper << 64) + lower[0] - lower[1]


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
