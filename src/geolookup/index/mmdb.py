"""Values of the data section (MaxMind DB 2.0, "Output Data Section"), and the pool of those that are shared."""

import struct
from collections.abc import Iterable

#: The numbers of types; those above 7 stand in a byte of their own.
_TEXT, _DOUBLE, _UINT16, _UINT32, _MAP = 2, 3, 5, 6, 7
_UINT64, _ARRAY, _BOOLEAN = 9, 11, 14

#: Where the sizes that take one, two and three bytes more begin.
_SIZES = (29, 285, 65_821)
#: Where pointers of three, four and five bytes begin, and how many bytes a pointer then has.
_POINTERS = (2048, 526_336, 134_744_064)


def _control(kind: int, size: int) -> bytes:
    if size < _SIZES[0]:
        held, more = size, b""
    elif size < _SIZES[1]:
        held, more = 29, (size - _SIZES[0]).to_bytes(1, "big")
    elif size < _SIZES[2]:
        held, more = 30, (size - _SIZES[1]).to_bytes(2, "big")
    else:
        held, more = 31, (size - _SIZES[2]).to_bytes(3, "big")
    if kind > 7:
        return bytes((held, kind - 7)) + more
    return bytes((kind << 5 | held,)) + more


def text(value: str | bytes) -> bytes:
    """A text; bytes are taken for UTF-8."""
    octets = value if isinstance(value, bytes) else value.encode("utf-8")
    return _control(_TEXT, len(octets)) + octets


def double(value: float) -> bytes:
    """A number of 64 bits."""
    return _control(_DOUBLE, 8) + struct.pack(">d", value)


def _whole(kind: int, value: int) -> bytes:
    octets = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return _control(kind, len(octets)) + octets


def uint16(value: int) -> bytes:
    """A whole number below 2**16."""
    return _whole(_UINT16, value)


def uint32(value: int) -> bytes:
    """A whole number below 2**32."""
    return _whole(_UINT32, value)


def uint64(value: int) -> bytes:
    """A whole number below 2**64."""
    return _whole(_UINT64, value)


def boolean(value: bool) -> bytes:
    """True or false."""
    return _control(_BOOLEAN, int(value))


def map_of(members: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map, its keys (texts, or pointers to texts) and values as they are."""
    pairs = [key + value for key, value in members]
    return map_head(len(pairs)) + b"".join(pairs)


def map_head(count: int) -> bytes:
    """The first bytes of a map of so many members."""
    return _control(_MAP, count)


def array_of(items: Iterable[bytes]) -> bytes:
    """An array."""
    found = list(items)
    return _control(_ARRAY, len(found)) + b"".join(found)


def pointer(place: int) -> bytes:
    """A pointer to a place in the data section."""
    if place < _POINTERS[0]:
        return (1 << 13 | place).to_bytes(2, "big")
    if place < _POINTERS[1]:
        return (0b00101 << 19 | place - _POINTERS[0]).to_bytes(3, "big")
    if place < _POINTERS[2]:
        return (0b00110 << 27 | place - _POINTERS[1]).to_bytes(4, "big")
    return bytes((0b00111000,)) + place.to_bytes(4, "big")


class Pool:
    """The beginning of a data section: values that are written once, and pointed at from then on."""

    def __init__(self) -> None:
        self._octets = bytearray()
        self._known: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._octets)

    def shared(self, value: bytes) -> bytes:
        """The bytes for a value: a pointer to it, or the value itself if that is not longer."""
        known = self._known.get(value)
        if known is None:
            known = pointer(len(self._octets))
            if len(known) >= len(value):
                known = value
            else:
                self._octets += value
            self._known[value] = known
        return known

    def octets(self) -> bytes:
        """All of it."""
        return bytes(self._octets)
