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

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from geolookup.exports.segments import Segments, joined, seamless, side_by_side
from geolookup.index.accelerator import accelerator
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
    """A finished search tree, whose values are the numbers of records until `packed` puts their places there.

    ``node_count`` is at least 1, as readers want it.
    """

    def __init__(self, parts: list[Segments], *, owned: bool = False) -> None:
        """``parts`` follow each other, and no two neighbours have one value. They are not kept; if they are ``owned``,
        their values are written over, which takes less memory.
        """
        lay: Callable[[list[Segments], U32 | None], int] = getattr(accelerator(), "tree", laid)
        self.node_count = max(1, lay(parts, None))
        self._begin = self.node_count + SEPARATOR_BYTES
        numbered = []
        for hi, lo, value in parts:
            is_gap, is_alias = value == EMPTY, value == ALIAS
            numbers = np.add(value, np.uint32(self._begin), out=value if owned else None)
            numbers[is_gap] = self.node_count
            # The first boundary lies in IPv4 and opens a node of every depth from the root: so the depth is the number.
            numbers[is_alias] = _IPV4_DEPTH
            numbered.append(Segments(hi, lo, numbers))
        #: Both values of every node, one after the other: a node's number, or ``_begin`` and that of a record.
        self._records = np.full(2 * self.node_count, numbered[0].value[0], np.uint32)
        lay(numbered, self._records)

    def packed(self, offsets: Array) -> tuple[int, Iterator[bytes]]:
        """The bits of a record of the tree, and the bytes of the tree.

        ``offsets`` has the place in the data section of each record.

        :raises DataFileError: if the widest records cannot point so far
        """
        farthest = self._begin + int(offsets.max(initial=0))
        bits = next((bits for bits in RECORD_BITS if farthest < 1 << bits), None)
        if bits is None:
            raise DataFileError(
                f"a MaxMind DB cannot hold so much: it would have {self.node_count} nodes and its farthest record "
                f"would stand at {farthest}, and 2**32 is the limit"
            )
        return bits, self._packed((offsets + self._begin).astype(np.uint32), bits)

    def _packed(self, places: U32, bits: int) -> Iterator[bytes]:
        for begin in range(0, len(self._records), 2 * _PACKED_AT_ONCE):
            records = self._records[begin : begin + 2 * _PACKED_AT_ONCE].copy()
            leaves = records >= self._begin
            records[leaves] = places[records[leaves] - np.uint32(self._begin)]
            octets = records.astype(">u4").view(np.uint8).reshape(-1, 2, 4)
            if bits == 24:
                yield octets[:, :, 1:].tobytes()
            elif bits == 28:
                packed = np.empty((len(octets), 7), np.uint8)
                packed[:, :3], packed[:, 4:] = octets[:, 0, 1:], octets[:, 1, 1:]
                packed[:, 3] = octets[:, 0, 0] << np.uint8(4) | octets[:, 1, 0]
                yield packed.tobytes()
            else:
                yield octets.tobytes()


def laid(parts: list[Segments], records: U32 | None) -> int:
    """The number of nodes of a tree; both values of each are written into ``records``, if that is given.

    The accelerator's ``tree`` does the same in one pass.
    """
    hi, lo, value = joined(*parts)
    hi, lo = hi[1:], lo[1:]
    deepest, shared = _depths(hi, lo)
    if not len(deepest):
        return 0
    # The depths above which a boundary opens nodes, because the one before lies in the others too; and the depths above
    # which it closes them.
    opens = np.append(np.int8(-1), np.minimum(shared, deepest[:-1]))
    closes = np.append(shared, np.int8(-1))
    lengths = deepest.astype(np.int16) - opens
    numbers = np.cumsum(lengths, dtype=np.int64)
    count = int(numbers[-1])
    if records is None:
        return count
    numbers -= lengths
    waiting = np.empty(0, np.int64)
    for depth in range(_BITS):
        half, shift = hi if depth < 64 else lo, np.uint64(63 - depth % 64)
        deep = deepest >= depth
        first = np.flatnonzero(deep & (opens < depth))
        last = np.flatnonzero(deep & (closes < depth))
        number = numbers[first] + (depth - 1 - opens[first])
        records[waiting] = number
        records[2 * number] = value[first]
        records[2 * number + 1] = value[last + 1]
        is_node = np.empty(2 * len(first), np.bool_)
        is_node[::2] = half[first] >> shift & np.uint64(1) == 0
        is_node[1::2] = (half[last] >> shift & np.uint64(1) == 1) & (deepest[last] > depth)
        nodes = np.flatnonzero(is_node)
        waiting = 2 * number[nodes >> 1] + (nodes & 1)
    return count


def with_aliases(four: Segments, six: Segments) -> tuple[list[Segments], int]:
    """Both families in one space, in parts: IPv4 in ``::/96``, to which IPv4-mapped and 6to4 addresses point too.

    If IPv6 has blocks of 6to4 addresses, these come first, and all of IPv4 stands around them once more.

    Also how many covered segments of IPv6 reach into ``::/96``, and are left out there. Segments of IPv4-mapped
    addresses do not count: no lookup ever finds them.
    """
    four = four.merged()
    # A family of one value has no node of its own to point at.
    alias = ALIAS if len(four.value) > 1 else int(four.value[0])
    left_out = np.count_nonzero(six.value[: six.position(1 << 32)] != EMPTY)
    begin, end = SIX_TO_FOUR
    own = six.part(max(six.position(begin + 1) - 1, 0), six.position(end + 1))
    held = _around(own, four) if (own.value != EMPTY).any() else _one(begin, alias)
    ranges = ((0, (1 << 32) - 1, four), (*_MAPPED, _one(_MAPPED[0], alias)), (begin, end, held))
    return seamless(_with(six.merged(), ranges)), int(left_out)


def _around(own: Segments, four: Segments) -> Segments:
    """The segments of 6to4: ``own``, of which the first may begin before it, and IPv4 wherever these have gaps."""
    begin = np.uint64(SIX_TO_FOUR[0] >> 64)
    early = own.hi < begin
    own = Segments(np.where(early, begin, own.hi), np.where(early, np.uint64(0), own.lo), own.value)
    if (own.value != EMPTY).all():
        return own
    held = Segments(begin | four.lo << np.uint64(16), np.zeros(len(four.lo), np.uint64), four.value)
    hi, lo, (of_own, of_four) = side_by_side(own, held)
    return Segments(hi, lo, np.where(of_own == EMPTY, of_four, of_own)).merged()


def _with(segments: Segments, ranges: Iterable[tuple[int, int, Segments]]) -> Iterator[Segments]:
    """The segments in parts, with others in ascending ranges, none of which ends with the space."""
    begin = 0
    for first, last, other in ranges:
        yield segments.part(begin, segments.position(first))
        yield other
        begin = segments.position(last + 2)
        yield _one(last + 1, int(segments.value[begin - 1]))
    yield segments.part(begin, None)


def _one(start: int, value: int) -> Segments:
    """One segment from an address on."""
    hi, lo = (np.array([half], np.uint64) for half in (start >> 64, start & _LOW64))
    return Segments(hi, lo, np.array([value], np.uint32))


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
