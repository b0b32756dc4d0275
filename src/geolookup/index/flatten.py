"""Overlapping blocks to disjoint sorted segments, by the precedence rule.

The narrowest block that covers an address wins; between two of equal size, the one of the greater rank (the absolute
value of its locid), or the later one if the source has no numbers. Nearly all blocks overlap no other: numpy passes
them on unchanged. Only clusters of overlapping blocks go through a sweep, whose active set (sortedcontainers) has the
winner in front. Sorted blocks come in pieces of any size, so all of them are never needed at once.

Ranges are inclusive everywhere: one past the last address would not fit into the arrays.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from sortedcontainers import SortedList

from geolookup.index.layout import EMPTY
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.precedence import order

U32: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
U64: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
I64: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Array: TypeAlias = np.ndarray[Any, Any]
#: The ranks of blocks by their slots.
Ranks: TypeAlias = Callable[[U32], Array]

__all__ = ["EMPTY", "Flattener", "flatten_v4", "flatten_v6", "in_order"]

_PIECE = 1 << 18
_CHUNK = 1 << 16
#: More than the addresses of any block.
_WIDER = 1 << 130
_LOW64 = (1 << 64) - 1
_END = 1 << 129


def flatten_v4(first: U32, last: U32, slot: U32, rank: I64 | None) -> tuple[U32, U32]:
    """Flatten IPv4 blocks that are all in memory.

    ``first``, ``last`` (inclusive, ``first <= last``) and ``slot`` have one item a block, in any order; ``rank`` has
    one a slot. If ``rank`` is None, a later block beats an earlier one of its size. The inputs are not changed.

    :returns: first address and slot of each segment, ascending, beginning at 0, gaps (slot `EMPTY`) included; no two
        neighbours have the same slot
    """
    found, slots = _flattened([first], [last], slot, rank)
    return found[0], slots


def flatten_v6(
    first_hi: U64, first_lo: U64, last_hi: U64, last_lo: U64, slot: U32, rank: I64 | None
) -> tuple[U64, U64, U32]:
    """Flatten IPv6 blocks, whose ends are given as upper and lower 64 bits; otherwise like `flatten_v4`.

    :returns: upper and lower half of the first address, and slot, of each segment
    """
    found, slots = _flattened([first_hi, first_lo], [last_hi, last_lo], slot, rank)
    return found[0], found[1], slots


def _flattened(first: list[Array], last: list[Array], slot: U32, rank: I64 | None) -> tuple[list[Array], U32]:
    flattener = Flattener(4 if len(first) == 1 else 6, None if rank is None else rank.__getitem__)
    order = in_order(first)
    found: list[tuple[tuple[Array, ...], U32]] = []
    for begin in range(0, len(slot), _PIECE):
        part: Any = slice(begin, begin + _PIECE)
        if order is not None:
            part = order[part]
        arrival = None if rank is not None else np.arange(begin, begin + _PIECE) if order is None else part
        columns = [column[part] for column in (*first, *last, slot)]
        found.append(flattener.add(columns, None if arrival is None else arrival[: len(columns[0])]))
    found.append(flattener.finish())
    starts = [np.concatenate(halves) for halves in zip(*(starts for starts, _ in found), strict=True)]
    return starts, np.concatenate([slots for _, slots in found])


def in_order(halves: Sequence[Array]) -> Array | None:
    """The order in which addresses ascend, those that are equal as they came; None if they do already."""
    if len(halves) == 2:
        if np.all(_less_or_equal([half[:-1] for half in halves], [half[1:] for half in halves])):
            return None
        return np.lexsort((halves[1], halves[0]))
    (values,) = halves
    if not np.any(values[1:] < values[:-1]):
        return None
    if values.itemsize > 4 or len(values) >> 32:
        return np.argsort(values, kind="stable")
    # Each with its place behind it: numpy sorts plain numbers several times faster than it sorts places by them.
    packed = values.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(len(values), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64(0xFFFF_FFFF)
    return packed.view(np.int64)


class Flattener:
    """Flattens the blocks of one family, which come sorted by their first addresses, in pieces of any size.

    It keeps what overlaps where the newest piece ends, and one block that may overlap what comes.
    """

    def __init__(self, family: int, ranks: Ranks | None, *, weak: int = EMPTY) -> None:
        """``ranks`` gives ranks by slots. Without it, a later block beats an earlier one of its size.

        Slots from ``weak`` on win only where there are no others.
        """
        self._halves = 1 if family == 4 else 2
        self._limit = IPV4_MAX if family == 4 else IPV6_MAX
        self._type = np.uint32 if family == 4 else np.uint64
        self._ranks = ranks
        self._held: list[Array] | None = None
        #: The highest address of the cluster in which the newest piece ended, or -1.
        self._reached = -1
        self._sweep = _Sweep(weak)
        #: One past the newest disjoint piece that was handed on, and its slot.
        self._next = 0
        self._slot = EMPTY
        #: True once two blocks overlapped.
        self.overlaps = False

    def add(self, columns: Sequence[Array], arrival: Array | None = None) -> tuple[tuple[Array, ...], U32]:
        """Add blocks: the columns are their first and last addresses (each in one column, or in two halves) and slots.

        ``arrival`` numbers the blocks in the order in which they came. Pass it if blocks have no ranks.

        :returns: the columns of the first addresses, and the slots, of the segments that are known by now
        """
        rows = [*columns, *([] if self._ranks is not None or arrival is None else [arrival])]
        if self._held is not None:
            rows = [np.concatenate(pair) for pair in zip(self._held, rows, strict=True)]
        count = len(rows[0])
        if not count:
            return self._segments(rows)
        first, last = rows[: self._halves], rows[self._halves : 2 * self._halves]
        overlapping = self._in_clusters(first, last)
        rest = count if overlapping[-1] else count - 1
        self._held = None if rest == count else [row[-1:].copy() for row in rows]
        self._reached = max(self._reached, _highest(last)) if rest == count else -1
        rows, overlapping = [row[:rest] for row in rows], overlapping[:rest]
        if overlapping.any() or self._sweep.is_open:
            self.overlaps = True
            # What comes begins here or later.
            settled = _address(first, count - 1) if rest == count else _END
            rows = self._swept(rows, overlapping, settled)
        return self._segments(rows[: 2 * self._halves + 1])

    def finish(self) -> tuple[tuple[Array, ...], U32]:
        """Say that no more blocks come. Returns the segments that were not handed out yet."""
        held = self._held or [np.empty(0, self._type)] * 2 * self._halves + [np.empty(0, np.uint32)] * 2
        self._held = None
        rows = held[: 2 * self._halves + 2]
        if self._sweep.is_open:
            rows = self._swept(rows, np.zeros(len(rows[0]), np.bool_), _END)
        starts, slots = self._segments(rows[: 2 * self._halves + 1])
        if self._next <= self._limit:
            starts = tuple(map(np.append, starts, self._as_halves(self._next)))
            slots = np.append(slots, np.uint32(EMPTY))
        return starts, slots

    def _as_halves(self, address: int) -> list[Any]:
        return [self._type(address >> 64), self._type(address & _LOW64)][-self._halves :]

    def _in_clusters(self, first: Sequence[Array], last: Sequence[Array]) -> Flags:
        """Which blocks overlap any other; of the last one, any before it."""
        meets_earlier = np.zeros(len(first[0]), np.bool_)
        meets_earlier[1:] = _meets_earlier_v4(first[0], last[0]) if len(first) == 1 else _meets_earlier_v6(first, last)
        if self._reached >= 0:
            ends = [np.full(1, half, self._type) for half in self._as_halves(self._reached)]
            meets_earlier |= _less_or_equal(first, ends)
        overlapping = meets_earlier.copy()
        # The first of a cluster meets none before it. A block that meets some earlier one also lies in the cluster of
        # the one just before, since what it meets reaches over that one too.
        overlapping[:-1] |= meets_earlier[1:]
        return overlapping

    def _swept(self, rows: Sequence[Array], overlapping: Flags, settled: int) -> list[Array]:
        """The rows, those that overlap replaced by disjoint pieces up to the address ``settled``."""
        ends = [array("I" if self._halves == 1 else "Q") for _ in range(2 * self._halves)]
        slots, sources = array("I"), array("q")
        for begin, end, winner, source in self._sweep.pieces(self._blocks(rows, overlapping), settled):
            if self._halves == 1:
                ends[0].append(begin)
                ends[1].append(end)
            else:
                for column, value in zip(ends, (begin >> 64, begin & _LOW64, end >> 64, end & _LOW64), strict=True):
                    column.append(value)
            slots.append(winner)
            sources.append(source)
        return list(_put_back(overlapping, sources, zip(rows[: 2 * self._halves + 1], [*ends, slots], strict=True)))

    def _blocks(self, rows: Sequence[Array], overlapping: Flags) -> Iterator[tuple[int, int, int, int]]:
        halves = self._halves
        for begin in range(0, len(overlapping), _CHUNK):
            chosen = slice(begin, begin + _CHUNK)
            where = overlapping[chosen]
            if not where.any():
                continue
            parts = [row[chosen][where] for row in rows]
            slots = parts[2 * halves]
            ranks = parts[2 * halves + 1] if self._ranks is None else self._ranks(slots)
            ends = [part.tolist() for part in parts[: 2 * halves]]
            if halves == 1:
                yield from zip(*ends, slots.tolist(), ranks.tolist(), strict=True)
                continue
            for low_hi, low_lo, high_hi, high_lo, own, rank in zip(*ends, slots.tolist(), ranks.tolist(), strict=True):
                yield low_hi << 64 | low_lo, high_hi << 64 | high_lo, own, rank

    def _segments(self, rows: Sequence[Array]) -> tuple[tuple[Array, ...], U32]:
        """The segments of disjoint pieces that come after all earlier ones, and the gaps before them."""
        halves = self._halves
        first, last, slot = rows[:halves], rows[halves : 2 * halves], rows[2 * halves]
        if not len(slot):
            return tuple(first), slot
        before = _one_past(last)
        for column, value in zip(before, self._as_halves(self._next), strict=True):
            # One past the very last address wraps to 0 here, and is never used.
            column[1:] = column[:-1]
            column[0] = value
        gap = before[0] != first[0]
        for half, own in zip(before[1:], first[1:], strict=True):
            gap |= half != own
        begins = gap.copy()
        begins[0] |= int(slot[0]) != self._slot
        begins[1:] |= slot[1:] != slot[:-1]
        self._next, self._slot = _address(last, len(slot) - 1) + 1, int(slot[-1])
        if not gap.any():
            return tuple(half[begins] for half in first), slot[begins]
        wanted = _interleave(gap, begins)
        starts = tuple(_interleave(half, own)[wanted] for half, own in zip(before, first, strict=True))
        return starts, _interleave(np.full(len(slot), EMPTY, np.uint32), slot)[wanted]


def _address(halves: Sequence[Array], row: int) -> int:
    found = 0
    for half in halves:
        found = found << 64 | int(half[row])
    return found


def _highest(halves: Sequence[Array]) -> int:
    """The highest of addresses, of which there is one at least."""
    highest = halves[0].max()
    if len(halves) == 1:
        return int(highest)
    return int(highest) << 64 | int(halves[1][halves[0] == highest].max())


def _one_past(halves: Sequence[Array]) -> list[Array]:
    if len(halves) == 1:
        return [halves[0] + np.uint32(1)]
    lower = halves[1] + np.uint64(1)
    return [halves[0] + (lower == 0), lower]


def _interleave(before: Array, own: Array) -> Array:
    """before[0], own[0], before[1], own[1], ..."""
    both = np.empty(2 * len(own), own.dtype)
    both[::2], both[1::2] = before, own
    return both


def _less_or_equal(halves: Sequence[Array], others: Sequence[Array]) -> Flags:
    smaller: Flags
    if len(halves) == 1:
        smaller = halves[0] <= others[0]
        return smaller
    smaller = halves[0] < others[0]
    smaller |= (halves[0] == others[0]) & (halves[1] <= others[1])
    return smaller


def _meets_earlier_v4(first: Array, last: Array) -> Flags:
    """Which of all blocks but the first overlap an earlier one; they are sorted by first address."""
    found: Flags = first[1:] <= np.maximum.accumulate(last)[:-1]
    return found


def _meets_earlier_v6(first: Sequence[Array], last: Sequence[Array]) -> Flags:
    meets_previous = _less_or_equal([half[1:] for half in first], [half[:-1] for half in last])
    if not meets_previous.any():
        return meets_previous
    # numpy has no running maximum over pairs: it is taken over their positions in sorted order.
    order = np.lexsort((last[1], last[0]))
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    reached = order[np.maximum.accumulate(position)[:-1]]
    return _less_or_equal([half[1:] for half in first], [half[reached] for half in last])


class _Sweep:
    """Disjoint pieces (first, last, slot, source) of overlapping blocks (first, last, slot, rank), sorted by their
    first addresses.

    ``source`` is the number, among the blocks of one call, of a block of the cluster that the piece lies in; -1 if the
    cluster is of an earlier call. A block leaves the active set when it comes to the front after its end. So blocks are
    never sorted by their ends, and each enters and leaves once.
    """

    def __init__(self, weak: int) -> None:
        self._weak = weak
        # Winners first: their order (see `precedence`), last address and slot.
        self._active: SortedList = SortedList()
        self._position = 0
        self._source = self._piece_source = -1
        self._piece_first = self._piece_slot = -1

    @property
    def is_open(self) -> bool:
        """True if pieces of earlier blocks are still to come."""
        return bool(self._active) or self._piece_slot >= 0

    def pieces(self, blocks: Iterable[tuple[int, int, int, int]], settled: int) -> Iterator[tuple[int, int, int, int]]:
        """Add blocks, and hand out the pieces that end before ``settled``, where later blocks may begin."""
        self._source = self._piece_source = -1
        for number, (first, last, slot, rank) in enumerate(blocks):
            if self._position < first:
                yield from self._advance(first)
                self._position = first
            self._source = number
            size, behind = order(first, last, rank)
            self._active.add((size if slot < self._weak else size + _WIDER, behind, last, slot))
        yield from self._advance(settled)

    def _advance(self, limit: int) -> Iterator[tuple[int, int, int, int]]:
        """The pieces up to ``limit``, except the last, which may go on."""
        active, position = self._active, self._position
        while active and position < limit:
            _, _, last, slot = active[0]
            if last < position:
                active.pop(0)
                continue
            if slot != self._piece_slot:
                if self._piece_slot >= 0:
                    yield self._piece_first, position - 1, self._piece_slot, self._piece_source
                self._piece_first, self._piece_slot, self._piece_source = position, slot, self._source
            position = min(last + 1, limit)
        if self._piece_slot >= 0 and position < limit:
            yield self._piece_first, position - 1, self._piece_slot, self._piece_source
            self._piece_slot = -1
        self._position = position


def _put_back(
    overlapping: Flags, sources: "array[int]", columns: Iterable[tuple[Array, "array[int]"]]
) -> Iterator[Array]:
    """Columns in which the overlapping blocks are replaced by what the sweep made of them, in order."""
    # How many blocks that overlap none stand before each one that does; the same for all of a cluster. The last item
    # is for source -1: what an earlier piece left over comes before everything.
    alone_before = np.flatnonzero(overlapping)
    alone_before -= np.arange(len(alone_before))
    places = np.append(alone_before, 0)[np.frombuffer(sources, np.int64)]
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
