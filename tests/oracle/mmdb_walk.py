"""A MaxMind DB, read as its specification (2.0) says it, one address bit and one value at a time: no numpy, no caches.

It knows the types of values, which the readers that people use do not tell.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

MARKER = b"\xab\xcd\xefMaxMind.com"
_TYPES = {
    1: "pointer",
    2: "text",
    3: "double",
    4: "bytes",
    5: "uint16",
    6: "uint32",
    7: "map",
    8: "int32",
    9: "uint64",
    10: "uint128",
    11: "array",
    14: "boolean",
    15: "float",
}


class Typed(NamedTuple):
    """A value that is no map and no array, with its type."""

    kind: str
    value: Any


class Database:
    """One file."""

    def __init__(self, content: bytes) -> None:
        at = content.rfind(MARKER)
        self._content = content
        self._base = at + len(MARKER)
        self.metadata = plain(self._value(0)[0])
        self.nodes: int = self.metadata["node_count"]
        self._bits: int = self.metadata["record_size"]
        self._base = self.nodes * self._bits // 4 + 16

    def networks(self) -> Iterator[tuple[int, int, int, Any]]:
        """(family, first, last, record) of each network, in the order of addresses, IPv4 first.

        What points at the tree of IPv4 once more (``::ffff:0:0/96``, ``2002::/16``, ``2001::/32``) is left out.
        """
        if self.metadata["ip_version"] == 4:
            yield from self._below(0, 4, 0, 32, None)
            return
        four = 0
        for _ in range(96):
            if four < self.nodes:
                four = self._child(four, 0)
        if four != self.nodes:
            yield from self._below(four, 4, 0, 32, None)
        yield from self._below(0, 6, 0, 128, four)

    def _below(self, value: int, family: int, first: int, bits: int, skipped: int | None) -> Iterator[Any]:
        if value == self.nodes or value == skipped:
            return
        if value > self.nodes:
            yield family, first, first + (1 << bits) - 1, self._value(value - self.nodes - 16)[0]
            return
        for bit in (0, 1):
            yield from self._below(self._child(value, bit), family, first | bit << bits - 1, bits - 1, skipped)

    def _child(self, node: int, bit: int) -> int:
        size = self._bits // 4
        octets = self._content[node * size : node * size + size]
        if self._bits != 28:
            half = size // 2
            return int.from_bytes(octets[bit * half : bit * half + half], "big")
        upper = octets[3] & 15 if bit else octets[3] >> 4
        return upper << 24 | int.from_bytes(octets[4:] if bit else octets[:3], "big")

    def _value(self, at: int) -> tuple[Any, int]:
        """The value at a place of the data, and where the next one stands."""
        content, base = self._content, self._base
        control = content[base + at]
        at += 1
        kind = control >> 5
        if kind == 1:
            more = (control >> 3 & 3) + 1
            number = int.from_bytes(content[base + at : base + at + more], "big")
            number += (0 if more == 4 else (control & 7) << 8 * more) + (0, 0, 2048, 526336, 0)[more]
            return self._value(number)[0], at + more
        if kind == 0:
            kind = content[base + at] + 7
            at += 1
        size = control & 31
        if size >= 29:
            more = size - 28
            size = (29, 285, 65821)[more - 1] + int.from_bytes(content[base + at : base + at + more], "big")
            at += more
        name = _TYPES[kind]
        if name == "map":
            members = {}
            for _ in range(size):
                key, at = self._value(at)
                members[key.value], at = self._value(at)
            return members, at
        if name == "array":
            items = []
            for _ in range(size):
                item, at = self._value(at)
                items.append(item)
            return items, at
        if name == "boolean":
            return Typed(name, bool(size)), at
        return Typed(name, _leaf(name, content[base + at : base + at + size])), at + size


def _leaf(name: str, octets: bytes) -> Any:
    if name == "text":
        return octets.decode()
    if name == "bytes":
        return octets
    if name in ("double", "float"):
        return struct.unpack(">d" if name == "double" else ">f", octets)[0]
    return int.from_bytes(octets, "big", signed=name == "int32" and len(octets) == 4)


def plain(value: Any) -> Any:
    """A value without its types."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return list(map(plain, value)) if isinstance(value, list) else value.value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a record by their paths; an empty map or list counts as one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        yield path, value
        return
    for key, each in items:
        yield from leaves(each, f"{path}.{key}" if path else str(key))
