"""Values as a MaxMind DB has them (specification 2.0, "Output Data Section"): written, read, and made self-contained.

A value is its bytes: they say its type, so what came as a uint16 goes out as one, and a float stays a float. Values
in an index have no pointers; those of a file, which may have them, become such values by `Section`.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

#: The numbers of types; those above 7 stand in a byte of their own. 12 and 13 are of caches and are in no file.
_POINTER, _TEXT, _DOUBLE, _BYTES, _UINT16, _UINT32, _MAP = 1, 2, 3, 4, 5, 6, 7
_INT32, _UINT64, _UINT128, _ARRAY, _BOOLEAN, _FLOAT = 8, 9, 10, 11, 14, 15

#: Where the sizes that take one, two and three bytes more begin.
_SIZES = (29, 285, 65_821)
#: Where pointers of three, four and five bytes begin, and how many bytes a pointer then has.
_POINTERS = (2048, 526_336, 134_744_064)
#: The most bytes of a whole number of each type.
_WHOLE = {_UINT16: 2, _UINT32: 4, _INT32: 4, _UINT64: 8, _UINT128: 16}

#: Maps and arrays inside each other: a real record has five.
_DEEPEST: Final = 64
#: Pointers can make a value of any size from a small file. A real record has some 2 kB.
_LARGEST: Final = 1 << 20

_double = struct.Struct(">d")
_float = struct.Struct(">f")

#: A value for Python: text, whole numbers, floats, booleans, bytes, lists, dictionaries with text as keys.
Plain: TypeAlias = Any


class BadValueError(ValueError):
    """Octets that are no value. Those who read a file say which one."""


class Value(NamedTuple):
    """A value, for Python and as self-contained octets."""

    plain: Plain
    octets: bytes


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
    return _control(_DOUBLE, 8) + _double.pack(value)


def single(value: float) -> bytes:
    """A number of 32 bits.

    :raises OverflowError: if it is too large for that
    """
    return _control(_FLOAT, 4) + _float.pack(value)


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


class Section:
    """The data section of a file. What is pointed at is read once, however often: files share most of their values."""

    def __init__(self, octets: bytes, *, pointers: bool = True) -> None:
        """Without ``pointers`` a value that has one is damaged."""
        self._octets = octets
        self._pointers = pointers
        self._known: dict[int, Value] = {}

    def at(self, position: int) -> Value:
        """The value that begins at a position.

        :raises BadValueError: if there is none
        """
        try:
            plain, octets, _ = self._read(position, 0)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise BadValueError(f"no value begins at {position}") from error
        return Value(plain, octets)

    def members(self, position: int) -> dict[str, Value]:
        """The members of the map that begins at a position.

        :raises BadValueError: if there is no map
        """
        try:
            kind, size, at = self._head(position)
            if kind == _POINTER:
                kind, size, at = self._head(self._target(position)[0])
            if kind != _MAP:
                raise BadValueError(f"no map begins at {position}")
            return self._members(size, at, 1)[0]
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise BadValueError(f"no value begins at {position}") from error

    def _head(self, at: int) -> tuple[int, int, int]:
        """The type of a value, its size, and where its content begins."""
        octets = self._octets
        control = octets[at]
        at += 1
        kind = control >> 5
        if kind == _POINTER:
            return kind, 0, at
        if not kind:
            kind = octets[at] + 7
            at += 1
        size = control & 31
        if size >= _SIZES[0]:
            more = size - 28
            size = _SIZES[more - 1] + int.from_bytes(octets[at : at + more], "big")
            at += more
        return kind, size, at

    def _target(self, at: int) -> tuple[int, int]:
        """Where a pointer leads, and where it ends."""
        octets = self._octets
        control = octets[at]
        more = (control >> 3 & 3) + 1
        end = at + 1 + more
        found = int.from_bytes(octets[at + 1 : end], "big")
        if more < 4:
            found |= (control & 7) << 8 * more
        if more in (2, 3):
            found += _POINTERS[more - 2]
        if end > len(octets) or found >= len(octets) or octets[found] >> 5 == _POINTER:
            raise BadValueError(f"the pointer at {at} leads to no value")
        return found, end

    def _read(self, at: int, depth: int) -> tuple[Plain, bytes, int]:
        octets = self._octets
        if octets[at] >> 5 == _POINTER:
            if not self._pointers:
                raise BadValueError(f"a pointer stands at {at}")
            target, end = self._target(at)
            found = self._known.get(target)
            if found is None:
                if depth > _DEEPEST:
                    raise BadValueError(f"the value at {at} is too deep")
                plain, own, _ = self._read(target, depth + 1)
                found = self._known[target] = Value(plain, own)
            return found.plain, found.octets, end
        kind, size, begin = self._head(at)
        if kind == _MAP:
            members, end = self._members(size, begin, depth + 1)
            own = map_head(len(members)) + b"".join([text(key) + value.octets for key, value in members.items()])
            return {key: value.plain for key, value in members.items()}, own, end
        if kind == _ARRAY:
            return self._array(size, begin, depth + 1)
        if kind == _BOOLEAN:
            if size > 1:
                raise BadValueError(f"the boolean at {at} is neither true nor false")
            return size == 1, octets[at:begin], begin
        end = begin + _bounded(size)
        content = octets[begin:end]
        if len(content) != size:
            raise BadValueError(f"the value at {at} was cut short")
        return _leaf(kind, content), octets[at:end], end

    def _members(self, count: int, at: int, depth: int) -> tuple[dict[str, Value], int]:
        if depth > _DEEPEST or count > len(self._octets):
            raise BadValueError(f"the map at {at} is too deep, or too large")
        found: dict[str, Value] = {}
        size = 0
        for _ in range(count):
            key, _, at = self._read(at, depth)
            if type(key) is not str:
                raise BadValueError(f"a key of the map before {at} is not text")
            plain, own, at = self._read(at, depth)
            found[key] = Value(plain, own)
            size = _bounded(size + len(own))
        return found, at

    def _array(self, count: int, at: int, depth: int) -> tuple[Plain, bytes, int]:
        if depth > _DEEPEST or count > len(self._octets):
            raise BadValueError(f"the array at {at} is too deep, or too large")
        items, owns, size = [], [], 0
        for _ in range(count):
            plain, own, at = self._read(at, depth)
            items.append(plain)
            owns.append(own)
            size = _bounded(size + len(own))
        return items, array_of(owns), at


def _leaf(kind: int, content: bytes) -> Plain:
    if kind == _TEXT:
        return str(content, "utf-8")
    if kind == _DOUBLE:
        return _double.unpack(content)[0]
    if kind == _FLOAT:
        return _float.unpack(content)[0]
    if kind == _BYTES:
        return content
    if len(content) <= _WHOLE.get(kind, -1):
        # The specification leaves out leading zeros, so a shorter one is never negative.
        return int.from_bytes(content, "big", signed=kind == _INT32 and len(content) == 4)
    raise BadValueError(f"a value of type {kind} and {len(content)} bytes cannot be")


def _bounded(size: int) -> int:
    if size > _LARGEST:
        raise BadValueError(f"a value has more than {_LARGEST:,} bytes")
    return size


def plain(octets: bytes) -> Plain:
    """A self-contained value, for Python.

    :raises BadValueError: if it is none
    """
    section = Section(octets, pointers=False)
    found = section.at(0)
    if len(found.octets) != len(octets):
        raise BadValueError("more follows than one value")
    return found.plain


def members_of(octets: bytes) -> Mapping[str, Value]:
    """The members of a self-contained map.

    :raises BadValueError: if it is none
    """
    return Section(octets, pointers=False).members(0)
