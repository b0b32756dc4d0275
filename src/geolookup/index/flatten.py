"""Overlapping blocks to disjoint sorted segments, by the precedence rule.

The narrowest block that covers an address wins; between two of equal size, the one of the greater rank (the absolute
value of its locid), or the later one if the source has no numbers. Nearly all blocks overlap no other: numpy passes
them on unchanged. Only clusters of overlapping blocks go through a sweep, whose active set (sortedcontainers) has the
winner in front.

Ranges are inclusive everywhere: one past the last address would not fit into the arrays.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from sortedcontainers import SortedList

from geolookup.addresses import IPV4_MAX
from geolookup.index.layout import EMPTY

U32: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
U64: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
I64: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Array: TypeAlias = np.ndarray[Any, Any]
#: The ranks of blocks, by their slots and by their places among the sorted blocks.
Ranks: TypeAlias = Callable[[U32, I64], I64]

__all__ = ["EMPTY", "flatten_v4", "flatten_v6"]

_CHUNK = 1 << 16
_LOW64 = (1 << 64) - 1


def flatten_v4(first: U32, last: U32, slot: U32, rank: I64 | None) -> tuple[U32, U32]:
    """Flatten IPv4 blocks.

    ``first``, ``last`` (inclusive, ``first <= last``) and ``slot`` have one item a block, in any order; ``rank`` has
    one a slot. If ``rank`` is None, a later block beats an earlier one of its size. The inputs are not changed.

    :returns: first address and slot of each segment, ascending, beginning at 0, gaps (slot `EMPTY`) included; no two
        neighbours have the same slot
    """
    if not len(first):
        return np.zeros(1, np.uint32), np.full(1, EMPTY, np.uint32)
    order = None
    if np.any(first[1:] < first[:-1]):
        order = np.argsort(first, kind="stable")
        first, last, slot = first[order], last[order], slot[order]
    reached = np.maximum.accumulate(last)
    overlapping = _in_clusters(first[1:] <= reached[:-1])
    del reached
    if overlapping.any():
        swept = array("I"), array("I"), array("I"), array("I")
        for begin, end, winner, source in _sweep(_blocks_v4(first, last, slot, _ranks(rank, order), overlapping)):
            swept[0].append(begin)
            swept[1].append(end)
            swept[2].append(winner)
            swept[3].append(source)
        pieces: list[tuple[Array, array[int]]] = list(zip((first, last, slot), swept[:3], strict=True))
        first, last, slot = _put_back(overlapping, swept[3], pieces)
        del swept, pieces
    del order
    distance = first[1:] - last[:-1]
    gap = np.empty(len(first) + 1, np.bool_)
    gap[0], gap[-1] = first[0] > 0, last[-1] < IPV4_MAX
    np.greater(distance, 1, out=gap[1:-1])
    keep = np.empty(len(first), np.bool_)
    keep[0] = True
    np.not_equal(slot[1:], slot[:-1], out=keep[1:])
    keep[1:] |= gap[1:-1]
    del distance
    wanted = _interleave(gap, keep)
    # One past the very last address wraps to 0 here, and is never used.
    starts = _interleave(np.concatenate([np.zeros(1, np.uint32), last + np.uint32(1)]), first)[wanted]
    slots = _interleave(np.full(len(first) + 1, EMPTY, np.uint32), slot)[wanted]
    return starts, slots


def flatten_v6(
    first_hi: U64, first_lo: U64, last_hi: U64, last_lo: U64, slot: U32, rank: I64 | None
) -> tuple[U64, U64, U32]:
    """Flatten IPv6 blocks, whose ends are given as upper and lower 64 bits; otherwise like `flatten_v4`.

    :returns: upper and lower half of the first address, and slot, of each segment
    """
    if not len(slot):
        return np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.full(1, EMPTY, np.uint32)
    order = None
    if not np.all(_less_or_equal(first_hi[:-1], first_lo[:-1], first_hi[1:], first_lo[1:])):
        order = np.lexsort((first_lo, first_hi))
        columns: tuple[Array, ...] = (first_hi, first_lo, last_hi, last_lo, slot)
        first_hi, first_lo, last_hi, last_lo, slot = (column[order] for column in columns)
        del columns
    overlapping = _in_clusters(_meets_earlier_v6(first_hi, first_lo, last_hi, last_lo))
    if overlapping.any():
        ends = array("Q"), array("Q"), array("Q"), array("Q")
        swept_slot, sources = array("I"), array("I")
        blocks = _blocks_v6(first_hi, first_lo, last_hi, last_lo, slot, _ranks(rank, order), overlapping)
        for begin, end, winner, source in _sweep(blocks):
            ends[0].append(begin >> 64)
            ends[1].append(begin & _LOW64)
            ends[2].append(end >> 64)
            ends[3].append(end & _LOW64)
            swept_slot.append(winner)
            sources.append(source)
        pieces: list[tuple[Array, array[int]]] = [
            (first_hi, ends[0]),
            (first_lo, ends[1]),
            (last_hi, ends[2]),
            (last_lo, ends[3]),
            (slot, swept_slot),
        ]
        first_hi, first_lo, last_hi, last_lo, slot = _put_back(overlapping, sources, pieces)
        del ends, swept_slot, sources, pieces
    del order
    next_lo = last_lo + np.uint64(1)
    next_hi = last_hi + (next_lo == 0)
    gap = np.empty(len(slot) + 1, np.bool_)
    gap[0] = first_hi[0] > 0 or first_lo[0] > 0
    gap[-1] = last_hi[-1] < _LOW64 or last_lo[-1] < _LOW64
    np.not_equal(next_hi[:-1], first_hi[1:], out=gap[1:-1])
    gap[1:-1] |= next_lo[:-1] != first_lo[1:]
    keep = np.empty(len(slot), np.bool_)
    keep[0] = True
    np.not_equal(slot[1:], slot[:-1], out=keep[1:])
    keep[1:] |= gap[1:-1]
    wanted = _interleave(gap, keep)
    zero = np.zeros(1, np.uint64)
    hi = _interleave(np.concatenate([zero, next_hi]), first_hi)[wanted]
    del next_hi, first_hi, last_hi
    lo = _interleave(np.concatenate([zero, next_lo]), first_lo)[wanted]
    return hi, lo, _interleave(np.full(len(slot) + 1, EMPTY, np.uint32), slot)[wanted]


def _interleave(before: Array, own: Array) -> Array:
    """before[0], own[0], before[1], own[1], ..., before[n]."""
    both = np.empty(len(before) + len(own), own.dtype)
    both[::2], both[1::2] = before, own
    return both


def _in_clusters(meets_earlier: Flags) -> Flags:
    """Which blocks overlap any other, given which of all but the first overlap an earlier one."""
    overlapping = np.zeros(len(meets_earlier) + 1, np.bool_)
    overlapping[1:] = meets_earlier
    # The first of a cluster meets none before it. A block that meets some earlier one also lies in the cluster of the
    # one just before, since what it meets reaches over that one too.
    overlapping[:-1] |= meets_earlier
    return overlapping


def _less_or_equal(hi: U64, lo: U64, other_hi: U64, other_lo: U64) -> Flags:
    smaller: Flags = hi < other_hi
    smaller |= (hi == other_hi) & (lo <= other_lo)
    return smaller


def _meets_earlier_v6(first_hi: U64, first_lo: U64, last_hi: U64, last_lo: U64) -> Flags:
    """Which of all blocks but the first overlap an earlier one; they are sorted by first address."""
    meets_previous = _less_or_equal(first_hi[1:], first_lo[1:], last_hi[:-1], last_lo[:-1])
    if not meets_previous.any():
        return meets_previous
    # numpy has no running maximum over pairs: it is taken over their positions in sorted order.
    order = np.lexsort((last_lo, last_hi))
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    reached = order[np.maximum.accumulate(position)[:-1]]
    return _less_or_equal(first_hi[1:], first_lo[1:], last_hi[reached], last_lo[reached])


def _ranks(rank: I64 | None, order: I64 | None) -> Ranks:
    """A function that gives the ranks of some sorted blocks: by their slots, else by the order in which they came."""
    if rank is not None:
        return lambda slots, _places: rank[slots]
    if order is not None:
        return lambda _slots, places: order[places]
    return lambda _slots, places: places


def _blocks_v4(
    first: U32, last: U32, slot: U32, ranks: Ranks, overlapping: Flags
) -> Iterator[tuple[int, int, int, int]]:
    for begin in range(0, len(slot), _CHUNK):
        chosen = slice(begin, begin + _CHUNK)
        where = overlapping[chosen]
        slots = slot[chosen][where]
        yield from zip(
            first[chosen][where].tolist(),
            last[chosen][where].tolist(),
            slots.tolist(),
            ranks(slots, begin + np.flatnonzero(where)).tolist(),
            strict=True,
        )


def _blocks_v6(
    first_hi: U64, first_lo: U64, last_hi: U64, last_lo: U64, slot: U32, ranks: Ranks, overlapping: Flags
) -> Iterator[tuple[int, int, int, int]]:
    for begin in range(0, len(slot), _CHUNK):
        chosen = slice(begin, begin + _CHUNK)
        where = overlapping[chosen]
        slots = slot[chosen][where]
        ends = [column[chosen][where].tolist() for column in (first_hi, first_lo, last_hi, last_lo)]
        for low_hi, low_lo, high_hi, high_lo, own, own_rank in zip(
            *ends, slots.tolist(), ranks(slots, begin + np.flatnonzero(where)).tolist(), strict=True
        ):
            yield low_hi << 64 | low_lo, high_hi << 64 | high_lo, own, own_rank


def _sweep(blocks: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Disjoint pieces (first, last, slot, source) of blocks (first, last, slot, rank) sorted by first address.

    ``source`` is the number of a block of the cluster that the piece lies in. A block leaves the active set when it
    comes to the front after its end. So blocks are never sorted by their ends, and each enters and leaves once.
    """
    # Winners first: (size, -rank, last, slot).
    active: SortedList = SortedList()
    position = source = 0
    piece_first = piece_slot = piece_source = -1

    def advance(limit: int) -> Iterator[tuple[int, int, int, int]]:
        """The pieces from ``position`` up to ``limit``, except the last, which may go on."""
        nonlocal position, piece_first, piece_slot, piece_source
        while active and position < limit:
            _, _, last, slot = active[0]
            if last < position:
                active.pop(0)
                continue
            if slot != piece_slot:
                if piece_slot >= 0:
                    yield piece_first, position - 1, piece_slot, piece_source
                piece_first, piece_slot, piece_source = position, slot, source
            position = min(last + 1, limit)
        if piece_slot >= 0 and position < limit:
            yield piece_first, position - 1, piece_slot, piece_source
            piece_slot = -1

    for number, (first, last, slot, rank) in enumerate(blocks):
        if position < first:
            yield from advance(first)
            position = first
        source = number
        active.add((last - first, -rank, last, slot))
    yield from advance(1 << 129)


def _put_back(
    overlapping: Flags, sources: "array[int]", columns: Iterable[tuple[Array, "array[int]"]]
) -> Iterator[Array]:
    """Columns in which the overlapping blocks are replaced by what the sweep made of them, in order."""
    # How many blocks that overlap none stand before each one that does; the same for all of a cluster.
    alone_before = np.flatnonzero(overlapping)
    alone_before -= np.arange(len(alone_before))
    places = alone_before[np.frombuffer(sources, np.uint32)]
    del alone_before
    places += np.arange(len(places))
    alone = ~overlapping
    from_sweep = np.zeros(int(np.count_nonzero(alone)) + len(places), np.bool_)
    from_sweep[places] = True
    del places
    for column, swept in columns:
        merged = np.empty(len(from_sweep), column.dtype)
        merged[from_sweep] = np.frombuffer(swept, column.dtype)
        merged[~from_sweep] = column[alone]
        yield merged
