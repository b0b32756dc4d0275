"""The structure of a MaxMind DB (specification 2.0): its metadata, checked before they are used, and its search tree.

The tree is walked level by level, many nodes at once. A level that has grown too wide is cut in pieces that lie one
after the other in the address space, and each piece is walked by itself: so memory is bounded for any size of tree,
and networks come in order without being sorted together.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import maxminddb
import numpy as np
from maxminddb.decoder import Decoder

from geolookup.base.text import harmless
from geolookup.files.streams import Limits
from geolookup.index.flatten import U32, U64, Flags
from geolookup.index.mapped import let_go
from geolookup.model.errors import DataFileError

MARKER = b"\xab\xcd\xefMaxMind.com"
#: The specification puts the metadata within the last 128 KiB.
TAIL_BYTES = 128 << 10

#: The zeros between the search tree and the data.
_SEPARATOR_BYTES = 16

#: The errors of `maxminddb`'s decoder for damaged content: its own error, text that is not UTF-8, a map as a map's key.
DECODING_FAILED = (maxminddb.InvalidDatabaseError, ValueError, TypeError, LookupError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The file's metadata, and the bounds that follow from them.

    ``record_bits`` is 24, 28 or 32; ``width`` the bits of an address, 32 or 128. The tree's bytes are the first
    ``tree_bytes``; data begin at ``data_begin`` and end before ``data_end``.
    """

    node_count: int
    record_bits: int
    width: int
    data_begin: int
    data_end: int
    about: dict[str, str] = field(default_factory=dict)

    @property
    def tree_bytes(self) -> int:
        """The size of the search tree."""
        return self.node_count * self.record_bits // 4


def read_metadata(name: str, buffer: mmap.mmap) -> Metadata:
    """The metadata of a mapped file.

    :raises DataFileError: if there are none, or they do not fit the file
    """
    at = buffer.rfind(MARKER, max(0, len(buffer) - TAIL_BYTES))
    if at < 0:
        raise DataFileError(f"{name}: is not a MaxMind DB, or was cut short: its metadata are missing")
    begin = at + len(MARKER)
    try:
        found, _ = Decoder(buffer, begin).decode(begin)
    except DECODING_FAILED as error:
        raise DataFileError(f"{name}: the file is damaged: its metadata cannot be read") from error
    if not isinstance(found, dict):
        raise DataFileError(f"{name}: the file is damaged: its metadata are not a map")
    major, nodes, bits, version = (
        _whole(name, found, key) for key in ("binary_format_major_version", "node_count", "record_size", "ip_version")
    )
    if major != 2:
        raise DataFileError(f"{name}: is a MaxMind DB of version {major}: this release reads version 2")
    if bits not in (24, 28, 32):
        raise DataFileError(f"{name}: the file is damaged: records of {bits} bits are not 24, 28 or 32")
    if version not in (4, 6):
        raise DataFileError(f"{name}: the file is damaged: unknown IP version {version}")
    data_begin = nodes * bits // 4 + _SEPARATOR_BYTES
    if not nodes or data_begin > at:
        raise DataFileError(f"{name}: the file is damaged or was cut short: a tree of {nodes} nodes does not fit it")
    return Metadata(
        node_count=nodes,
        record_bits=bits,
        width=32 if version == 4 else 128,
        data_begin=data_begin,
        data_end=at,
        about=_about(found),
    )


def _whole(name: str, found: dict[Any, Any], key: str) -> int:
    value = found.get(key)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise DataFileError(f"{name}: the file is damaged: {key} is missing from its metadata")
    return value


def _about(found: dict[Any, Any]) -> dict[str, str]:
    about = {name: str(found[name]) for name in ("record_size", "ip_version", "node_count")}
    if isinstance(kind := found.get("database_type"), str):
        about["database_type"] = harmless(kind)
    if isinstance(epoch := found.get("build_epoch"), int):
        about["build_epoch"] = str(epoch)
    description = found.get("description")
    if isinstance(description, dict):
        text = description.get("en") or next(iter(description.values()), None)
        if isinstance(text, str) and text:
            about["description"] = harmless(text)
        others = {name: text for name, text in description.items() if name != "en" and isinstance(text, str) and text}
        about |= {f"description.{harmless(name)}": harmless(text) for name, text in others.items()}
    languages = found.get("languages")
    if isinstance(languages, list) and languages:
        about["languages"] = " ".join(harmless(name) for name in languages if isinstance(name, str))
    return about


_WIDEST = 1 << 14
_PIECE = 1 << 12
_SCAN = 1 << 16
#: Nodes that lie so far from each other are read in steps: the system maps 64 KiB around each, soon the whole tree.
_FAR, _STEP = 1 << 20, 1 << 10
# Trees of IPv4 are walked as if they stood in ::/96, so that every tree ends after 128 bits.
_DEEPEST = 128
_MAPPED = np.uint64(0xFFFF)
_FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

_U8: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


class Networks(NamedTuple):
    """Networks: the first address in upper and lower 64 bits (an IPv4 address in the lower), the prefix's length, and
    the position of the record in the data section."""

    hi: U64
    lo: U64
    length: _U8
    record: U32


class Tree:
    """The search tree of a mapped file.

    :raises DataFileError: from all methods, if the tree points outside of the file, or has a cycle
    """

    def __init__(self, name: str, buffer: mmap.mmap, about: Metadata, limits: Limits) -> None:
        self._name = name
        self._about = about
        self._buffer = buffer
        self._bytes = np.frombuffer(buffer, np.uint8, about.tree_bytes)
        self._visits_left = about.node_count * limits.tree_visits + 1024

    def records(self) -> U32:
        """The positions, in the data section, of all data records that the tree points at, ascending, each once.

        Counts in `pointers` how many networks there are to come, for those who wait.
        """
        self.pointers = 0
        size = self._about.data_end - self._about.data_begin
        seen = np.zeros(size, np.bool_)
        for begin in range(0, self._about.node_count, _SCAN):
            nodes = np.arange(begin, min(begin + _SCAN, self._about.node_count), dtype=np.uint32)
            for children in self._children(nodes):
                positions = self._positions(children[children > self._about.node_count])
                seen[positions] = True
                self.pointers += len(positions)
            let_go(self._buffer)  # else the whole tree would stand in this process's memory
        return np.flatnonzero(seen).astype(np.uint32)

    def networks(self) -> Iterator[tuple[int, Networks]]:
        """The family and networks of each part of the address space, IPv4 first.

        Networks of a tree of IPv6 that lie in ``::/96`` are IPv4 (there the specification puts them). The places that
        point at them once more (``::ffff:0:0/96``, ``2002::/16``, ``2001::/32``) are not followed. If ``::/96`` is
        empty, networks in ``::ffff:0:0/96`` are IPv4.
        """
        root = np.zeros(1, np.uint32)
        if self._about.width == 32:
            yield from ((4, part) for part in self._walk(_Front.at(root, 0, 0, 96)))
            return
        start, _ = self._descend([0] * 96)
        if start != self._about.node_count:
            yield from self._below(start)
        else:
            mapped, depth = self._descend([0] * 80 + [1] * 16)
            if mapped < self._about.node_count or depth == 96:
                yield from self._below(mapped)
        # A node below ::/96 is IPv4's, even if other nodes point at it.
        skipped = start if start < self._about.node_count else None
        for part in self._walk(_Front.at(root, 0, 0, 0), skipped=skipped):
            six = (part.hi != 0) | (part.lo >> np.uint64(32) != _MAPPED)
            yield 6, part if six.all() else Networks._make(column[six] for column in part)

    def _below(self, value: int) -> Iterator[tuple[int, Networks]]:
        """IPv4 from what stands at ``::/96``, or covers it."""
        if value < self._about.node_count:
            node = np.asarray([value], np.uint32)
            yield from ((4, part) for part in self._walk(_Front.at(node, 0, 0, 96)))
        elif value > self._about.node_count:
            zero = np.zeros(1, np.uint64)
            position = self._positions(np.asarray([value], np.uint32))
            yield 4, Networks(zero, zero, np.asarray([96], np.uint8), position)

    def _descend(self, bits: list[int]) -> tuple[int, int]:
        """The value at the end of a path of bits, or at the node where the path ends early; and its depth in bits."""
        value = 0
        for depth, bit in enumerate(bits):
            if value >= self._about.node_count:
                return value, depth
            value = int(self._children(np.asarray([value], np.uint32))[bit][0])
        return value, len(bits)

    def _children(self, nodes: U32) -> tuple[U32, U32]:
        """The left and right values of nodes."""
        size = self._about.record_bits // 4
        # Rows of a node's bytes: gathered as a whole, which is several times cheaper than byte by byte.
        rows = self._bytes.reshape(-1, size)[nodes].astype(np.uint32)
        byte = [rows[:, at] for at in range(size)]
        eight, sixteen, twentyfour = np.uint32(8), np.uint32(16), np.uint32(24)
        if size == 6:
            return (
                byte[0] << sixteen | byte[1] << eight | byte[2],
                byte[3] << sixteen | byte[4] << eight | byte[5],
            )
        if size == 7:
            middle = byte[3]
            left = (middle >> np.uint32(4)) << twentyfour | byte[0] << sixteen | byte[1] << eight | byte[2]
            right = (middle & np.uint32(15)) << twentyfour | byte[4] << sixteen | byte[5] << eight | byte[6]
            return left, right
        return (
            byte[0] << twentyfour | byte[1] << sixteen | byte[2] << eight | byte[3],
            byte[4] << twentyfour | byte[5] << sixteen | byte[6] << eight | byte[7],
        )

    def _positions(self, values: U32) -> U32:
        """The positions in the data section of the records of data values, all greater than the number of nodes."""
        positions = values.astype(np.int64) - self._about.node_count - _SEPARATOR_BYTES
        if len(positions) and (positions.min() < 0 or positions.max() >= self._about.data_end - self._about.data_begin):
            raise DataFileError(f"{self._name}: the file is damaged: its search tree points outside of the data")
        return positions.astype(np.uint32)

    def _walk(
        self, front: "_Front", found: Networks | None = None, *, skipped: int | None = None
    ) -> Iterator[Networks]:
        """The networks below nodes of one depth, which lie in the order of their addresses, and those ``found``."""
        parts = [_NO_NETWORKS if found is None else found]
        while 0 < len(front.node) <= _WIDEST:
            if front.depth == _DEEPEST:
                raise DataFileError(f"{self._name}: the file is damaged: its search tree is too deep")
            self._visits_left -= len(front.node)
            if self._visits_left < 0:
                raise DataFileError(f"{self._name}: the file is damaged: its search tree goes round in circles")
            front, networks = self._expand(front, skipped)
            parts.append(networks)
        found = _sorted(parts)
        if not len(front.node):
            for cut in range(0, len(found.hi), _WIDEST):
                yield Networks._make(column[cut : cut + _WIDEST] for column in found)
            return
        del parts
        begin = 0
        for cut in range(0, len(front.node), _PIECE):
            end = len(found.hi)
            if cut + _PIECE < len(front.node):
                # Networks of lesser depth that lie before the next piece go with this one.
                hi, lo = front.hi[cut + _PIECE], front.lo[cut + _PIECE]
                end = int(np.count_nonzero((found.hi < hi) | ((found.hi == hi) & (found.lo < lo))))
            piece = _Front(*front.columns(slice(cut, cut + _PIECE)), front.depth)
            yield from self._walk(piece, Networks._make(column[begin:end] for column in found), skipped=skipped)
            begin = end

    def _expand(self, front: "_Front", skipped: int | None) -> tuple["_Front", Networks]:
        """The nodes one level down, and the networks that end there."""
        if len(front.node) > _STEP and int(np.ptp(front.node)) > _FAR:
            parts = []
            for cut in range(0, len(front.node), _STEP):
                parts.append(_both(*self._children(front.node[cut : cut + _STEP])))
                let_go(self._buffer)
            values = np.concatenate(parts)
        else:
            values = _both(*self._children(front.node))
        hi, lo = np.repeat(front.hi, 2), np.repeat(front.lo, 2)
        if front.depth < 64:
            hi[1::2] |= np.uint64(1 << (63 - front.depth))
        else:
            lo[1::2] |= np.uint64(1 << (127 - front.depth))
        nodes = values < self._about.node_count
        data = values > self._about.node_count
        if skipped is not None:
            nodes &= values != skipped
        length = np.full(int(np.count_nonzero(data)), front.depth + 1, np.uint8)
        networks = Networks(hi[data], lo[data], length, self._positions(values[data]))
        return _Front(values[nodes], hi[nodes], lo[nodes], front.depth + 1), networks


class _Front(NamedTuple):
    node: U32
    hi: U64
    lo: U64
    depth: int

    def columns(self, part: slice) -> tuple[U32, U64, U64]:
        return self.node[part], self.hi[part], self.lo[part]

    @classmethod
    def at(cls, node: U32, hi: int, lo: int, depth: int) -> "_Front":
        return cls(node, np.asarray([hi], np.uint64), np.asarray([lo], np.uint64), depth)


_NO_NETWORKS = Networks(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.uint32))


def _both(left: U32, right: U32) -> U32:
    both = np.empty(2 * len(left), np.uint32)
    both[::2], both[1::2] = left, right
    return both


def _sorted(parts: list[Networks]) -> Networks:
    """Networks in the order of their addresses: they are disjoint, so their first addresses tell."""
    joined = Networks._make(np.concatenate([part[at] for part in parts]) for at in range(4))
    order = np.lexsort((joined.lo, joined.hi)) if joined.lo.any() else np.argsort(joined.hi, kind="stable")
    return Networks._make(column[order] for column in joined)


def last_addresses(networks: Networks) -> tuple[U64, U64]:
    """The upper and lower 64 bits of the last address of each network."""
    length = networks.length.astype(np.uint64)
    upper_host: Flags = length < 64
    # A shift by 64 has no meaning, so both halves are shifted by 63 at most, and once more by what is missing.
    hi_bits = np.minimum(length, np.uint64(64))
    lo_bits = np.where(upper_host, np.uint64(0), length - np.minimum(length, np.uint64(64)))
    hi_mask = np.where(hi_bits == 64, np.uint64(0), _FULL >> np.minimum(hi_bits, np.uint64(63)))
    lo_mask = np.where(lo_bits == 64, np.uint64(0), _FULL >> np.minimum(lo_bits, np.uint64(63)))
    return networks.hi | hi_mask, networks.lo | lo_mask
