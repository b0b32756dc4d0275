"""The search tree of a MaxMind DB, from segments that are disjoint and sorted: in numpy, without a node object.

A *boundary* is an address at which the value changes. A node stands for a prefix, and exists if and only if a boundary
lies strictly inside that prefix: behind its first address. So the tree is the smallest one, in which two equal siblings
are always one record of their parent.

All nodes of one depth, by ascending address, are told from the boundaries alone. Each node has a first and a last
boundary inside. The first one lies in the left half, which is then a node, or the left half has the value before it.
The last one lies behind the middle, and the right half is a node, or the right half has the value after it. The
children that are nodes, in their order, are the nodes of the next depth. Nodes are numbered as a walk meets them that
takes every node before its left half and that before its right one: so a lookup stays in few pages of the file.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from geolookup.exports.segments import Segments, joined, side_by_side
from geolookup.index.flatten import EMPTY, U32, U64, Array
from geolookup.model.addresses import SIX_TO_FOUR
from geolookup.model.errors import DataFileError

#: What stands in a tree for a place that points at the IPv4 part: unlike any record's number.
ALIAS = 0xFFFF_FFFE
RECORD_BITS = (24, 28, 32)
#: The zeros between the search tree and the data.
SEPARATOR_BYTES = 16

_BITS = 128
#: IPv4 stands in ::/96, so its root is the node of this depth.
_IPV4_DEPTH = 96
#: Inclusive ends of the IPv4-mapped addresses (RFC 4291), which point at IPv4 once more.
_MAPPED = (0xFFFF << 32, (0x1_0000 << 32) - 1)
_PACKED_AT_ONCE = 1 << 18
_DEPTHS_AT_ONCE = 1 << 18
_LOW64 = (1 << 64) - 1

_I8: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]


class Tree:
    """A finished search tree, whose values are record numbers until `packed` puts their places into them.

    ``node_count`` is at least 1, as readers want it.
    """

    def __init__(self, segments: Segments) -> None:
        self._value = segments.value
        self._hi, self._lo = segments.hi[1:], segments.lo[1:]
        deepest, shared = _depths(self._hi, self._lo)
        # The depths above which a boundary opens nodes, because the one before lies in the others too; and the
        # depths above which it closes them.
        self._deepest = deepest
        self._opens = np.append(np.int8(-1), np.minimum(shared, deepest[:-1])) if len(deepest) else deepest
        self._closes = np.append(shared, np.int8(-1)) if len(deepest) else deepest
        lengths = deepest.astype(np.int16) - self._opens
        self._number = np.cumsum(lengths, dtype=np.int64)
        self.node_count = max(1, int(self._number[-1]) if len(lengths) else 0)
        self._number -= lengths

    def packed(self, offsets: Array, progress: Callable[[int, int], None]) -> tuple[int, Iterator[bytes]]:
        """The bits of a record of the tree, and the bytes of the tree.

        ``offsets`` has the place in the data section of each record. ``progress`` is told (depths done, all).

        :raises DataFileError: if the widest records cannot point so far
        """
        farthest = self.node_count + SEPARATOR_BYTES + int(offsets.max(initial=0))
        bits = next((bits for bits in RECORD_BITS if farthest < 1 << bits), None)
        if bits is None:
            raise DataFileError(
                f"a MaxMind DB cannot hold so much: it would have {self.node_count} nodes and its farthest record "
                f"would stand at {farthest}, and 2**32 is the limit"
            )
        return bits, _pack(self._records(offsets, progress), bits)

    def _records(self, offsets: Array, progress: Callable[[int, int], None]) -> U32:
        """Both values of every node, one after the other: a node's number, or where a record stands."""
        value = self._placed(offsets)
        records = np.empty(2 * self.node_count, np.uint32)
        if not len(self._deepest):
            records[:] = value[0]
            return records
        waiting = np.empty(0, np.int64)
        for depth in range(_BITS):
            deep = self._deepest >= depth
            first = np.flatnonzero(deep & (self._opens < depth))
            last = np.flatnonzero(deep & (self._closes < depth))
            number = self._number[first] + (depth - 1 - self._opens[first])
            records[waiting] = number
            records[2 * number] = value[first]
            records[2 * number + 1] = value[last + 1]
            is_node = np.empty(2 * len(first), np.bool_)
            is_node[::2] = self._bit(first, depth) == 0
            is_node[1::2] = (self._bit(last, depth) == 1) & (self._deepest[last] > depth)
            nodes = np.flatnonzero(is_node)
            waiting = 2 * number[nodes >> 1] + (nodes & 1)
            progress(depth + 1, _BITS)
        return records

    def _placed(self, offsets: Array) -> U32:
        """The value of each segment as it stands in a node."""
        # One past the last record is for what is not covered.
        places = np.append(offsets.astype(np.int64) + self.node_count + SEPARATOR_BYTES, self.node_count)
        numbers = np.where(self._value == EMPTY, len(offsets), self._value)
        is_alias = self._value == ALIAS
        value = places[np.where(is_alias, 0, numbers)].astype(np.uint32)
        value[is_alias] = _IPV4_DEPTH  # the first boundary lies in IPv4 and opens a node of every depth from the root
        return value

    def _bit(self, boundaries: Array, depth: int) -> U64:
        half = self._hi if depth < 64 else self._lo
        return half[boundaries] >> np.uint64(63 - depth % 64) & np.uint64(1)


def build(segments: Segments) -> Tree:
    """The tree of a whole space of 128 bits."""
    return Tree(segments.merged())


def with_aliases(four: Segments, six: Segments) -> tuple[Segments, int]:
    """Both families in one space: IPv4 in ``::/96``, to which IPv4-mapped and 6to4 addresses point too.

    If IPv6 has blocks of 6to4 addresses, these come first, and all of IPv4 stands around them once more.

    Also how many covered segments of IPv6 reach into ``::/96``, and are left out there. Segments of IPv4-mapped
    addresses do not count: no lookup ever finds them.
    """
    four = four.merged()
    # A family of one value has no node of its own to point at.
    alias = ALIAS if len(four.value) > 1 else int(four.value[0])
    left_out = np.count_nonzero(six.value[: six.position(1 << 32)] != EMPTY)
    six = _laid_over(six, *_MAPPED, alias)
    begin, end = SIX_TO_FOUR
    own = six.part(max(six.position(begin + 1) - 1, 0), six.position(end + 1))
    if (own.value != EMPTY).any():
        six = _laid_over(six, begin, end, EMPTY)
        at = six.position(begin)
        six = joined(six.part(0, at), _around(own, four), six.part(at + 1, None))
    else:
        six = _laid_over(six, begin, end, alias)
    six = _laid_over(six, 0, (1 << 32) - 1, EMPTY)
    return joined(four, six.part(1, None)), int(left_out)


def _around(own: Segments, four: Segments) -> Segments:
    """The segments of 6to4: ``own``, of which the first may begin before it, and IPv4 wherever these have gaps."""
    begin = np.uint64(SIX_TO_FOUR[0] >> 64)
    early = own.hi < begin
    own = Segments(np.where(early, begin, own.hi), np.where(early, np.uint64(0), own.lo), own.value)
    held = Segments(begin | four.lo << np.uint64(16), np.zeros(len(four.lo), np.uint64), four.value)
    hi, lo, (of_own, of_four) = side_by_side(own, held)
    return Segments(hi, lo, np.where(of_own == EMPTY, of_four, of_own)).merged()


def _laid_over(segments: Segments, first: int, last: int, value: int) -> Segments:
    """The segments with another value from ``first`` to ``last``, which is not the space's last address."""
    begin, end = segments.position(first), segments.position(last + 1)
    goes_on = end == len(segments.value) or segments.start(end) != last + 1
    starts = [first, last + 1] if goes_on else [first]
    values = [value, int(segments.value[end - 1])] if goes_on else [value]
    middle = Segments(
        np.array([start >> 64 for start in starts], np.uint64),
        np.array([start & _LOW64 for start in starts], np.uint64),
        np.array(values, np.uint32),
    )
    return joined(segments.part(0, begin), middle, segments.part(end, None))


def _depths(hi: U64, lo: U64) -> tuple[_I8, _I8]:
    """The depth of the deepest node that each boundary lies inside of; how many bits each shares with the one before.

    The second has one item less.
    """
    deepest, shared = np.empty(len(hi), np.int8), np.empty(max(0, len(hi) - 1), np.int8)
    # A part at a time: what stands between takes several times the memory of what comes out.
    for begin in range(0, len(hi), _DEPTHS_AT_ONCE):
        end = begin + _DEPTHS_AT_ONCE
        upper, lower = hi[begin:end], lo[begin:end]
        low = np.where(lower != 0, lower, upper)
        lowest = _bit_length(low & (~low + np.uint64(1)))
        deepest[begin:end] = np.where(lower != 0, 128 - lowest, 64 - lowest)
        upper, lower = hi[begin : end + 1], lo[begin : end + 1]
        differs_hi, differs_lo = upper[1:] ^ upper[:-1], lower[1:] ^ lower[:-1]
        shared[begin:end] = np.where(differs_hi != 0, 64 - _bit_length(differs_hi), 128 - _bit_length(differs_lo))
    return deepest, shared


def _bit_length(values: U64) -> Array:
    # By halves, which a float holds exactly; whole values could be rounded up to the next power of two.
    upper = np.frexp((values >> np.uint64(32)).astype(np.float64))[1]
    lower = np.frexp((values & np.uint64(0xFFFF_FFFF)).astype(np.float64))[1]
    return np.where(upper > 0, upper + 32, lower)


def _pack(records: U32, bits: int) -> Iterator[bytes]:
    for begin in range(0, len(records), 2 * _PACKED_AT_ONCE):
        octets = records[begin : begin + 2 * _PACKED_AT_ONCE].astype(">u4").view(np.uint8).reshape(-1, 2, 4)
        if bits == 24:
            yield octets[:, :, 1:].tobytes()
        elif bits == 28:
            packed = np.empty((len(octets), 7), np.uint8)
            packed[:, :3], packed[:, 4:] = octets[:, 0, 1:], octets[:, 1, 1:]
            packed[:, 3] = octets[:, 0, 0] << np.uint8(4) | octets[:, 1, 0]
            yield packed.tobytes()
        else:
            yield octets.tobytes()
