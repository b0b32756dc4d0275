"""The segments of an open index as numpy arrays of whole addresses and slots, of which the file holds parts."""

from typing import TYPE_CHECKING

import numpy as np

from geolookup.errors import IndexDamagedError
from geolookup.index.flatten import U32, U64, Array
from geolookup.index.layout import EMPTY, NARROW_EMPTY, WIDE_EMPTY

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


def split_slots(family: str, slots: U32, locations: int) -> dict[str, Array]:
    """The sections that hold slots: their lower 16 bits, and the 8 above, which few locations can do without."""
    sections: dict[str, Array] = {f"{family}.slot": slots.astype(np.uint16)}
    if locations > NARROW_EMPTY:
        sections[f"{family}.slot_high"] = (slots >> np.uint32(16)).astype(np.uint8)
    return sections
