"""Values as a MaxMind DB has them (specification 2.0, "Output Data Section"): written, read, and made self-contained.

A value is its bytes: they say its type, so what came as a uint16 goes out as one, and a float stays a float. Values
in an index have no pointers; those of a file, which may have them, become such values by `Section`.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

#: The numbers of types; those above 7 stand in a byte of their own. 12 and 13 are of caches and are in no file.
POINTER, TEXT, DOUBLE, BYTES, UINT16, UINT32, MAP = 1, 2, 3, 4, 5, 6, 7
INT32, UINT64, UINT128, ARRAY, BOOLEAN, FLOAT = 8, 9, 10, 11, 14, 15

#: Where the sizes that take one, two and three bytes more begin.
SIZES = (29, 285, 65_821)
#: Where pointers of three, four and five bytes begin, and how many bytes a pointer then has.
POINTERS = (2048, 526_336, 134_744_064)
#: The most bytes of a whole number of each type.
_WHOLE = {UINT16: 2, UINT32: 4, INT32: 4, UINT64: 8, UINT128: 16}

#: Maps and arrays inside each other: a real record has five.
_DEEPEST: Final = 64
#: Pointers can make a value of any size from a small file. A real record has some 2 kB.
_LARGEST: Final = 1 << 20

#: So many values that were pointed at, and short texts, are kept: some 20 MB, if all have names in eight languages.
_MOST_KNOWN: Final = 1 << 13

_double = struct.Struct(">d")
_float = struct.Struct(">f")

#: A value for Python: text, whole numbers, floats, booleans, bytes, lists, dictionaries with text as keys.
Plain: TypeAlias = Any


class BadValueError(ValueError):
    """Octets that are no value. Those who read a file say which one."""


class Value(NamedTuple):
    """A value, for Python and as self-contained octets; ``members`` are those of a map."""

    plain: Plain
    octets: bytes
    members: "Mapping[str, Value]" = MappingProxyType({})


def _control(kind: int, size: int) -> bytes:
    if size < SIZES[0]:
        held, more = size, b""
    elif size < SIZES[1]:
        held, more = 29, (size - SIZES[0]).to_bytes(1, "big")
    elif size < SIZES[2]:
        held, more = 30, (size - SIZES[1]).to_bytes(2, "big")
    else:
        held, more = 31, (size - SIZES[2]).to_bytes(3, "big")
    if kind > 7:
        return bytes((held, kind - 7)) + more
    return bytes((kind << 5 | held,)) + more


def text(value: str | bytes) -> bytes:
    """A text; bytes are taken for UTF-8."""
    octets = value if isinstance(value, bytes) else value.encode("utf-8")
    return (_SHORT[len(octets)] if len(octets) < SIZES[0] else _control(TEXT, len(octets))) + octets


#: The first byte of each text that is short.
_SHORT: Final = tuple(_control(TEXT, size) for size in range(SIZES[0]))


def double(value: float) -> bytes:
    """A number of 64 bits."""
    return _control(DOUBLE, 8) + _double.pack(value)


def single(value: float) -> bytes:
    """A number of 32 bits.

    :raises OverflowError: if it is too large for that
    """
    return _control(FLOAT, 4) + _float.pack(value)


def _whole(kind: int, value: int) -> bytes:
    octets = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return _control(kind, len(octets)) + octets


def uint16(value: int) -> bytes:
    """A whole number below 2**16."""
    return _whole(UINT16, value)


def uint32(value: int) -> bytes:
    """A whole number below 2**32."""
    return _whole(UINT32, value)


def uint64(value: int) -> bytes:
    """A whole number below 2**64."""
    return _whole(UINT64, value)


def whole(value: int) -> bytes:
    """A whole number of the narrowest type of 32 bits or more; as text if none has room for it."""
    if -(1 << 31) <= value < 0:
        return _control(INT32, 4) + value.to_bytes(4, "big", signed=True)
    kind = next((kind for kind in (UINT32, UINT64, UINT128) if 0 <= value < 1 << 8 * _WHOLE[kind]), None)
    return text(str(value)) if kind is None else _whole(kind, value)


def boolean(value: bool) -> bytes:
    """True or false."""
    return _control(BOOLEAN, int(value))


def map_of(members: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map, its keys (texts, or pointers to texts) and values as they are."""
    pairs = [key + value for key, value in members]
    return map_head(len(pairs)) + b"".join(pairs)


def map_head(count: int) -> bytes:
    """The first bytes of a map of so many members."""
    return _control(MAP, count)


def array_of(items: Iterable[bytes]) -> bytes:
    """An array."""
    found = list(items)
    return array_head(len(found)) + b"".join(found)


def array_head(count: int) -> bytes:
    """The first bytes of an array of so many items."""
    return _control(ARRAY, count)


def is_nested(octets: bytes) -> bool:
    """True if a value is a map or an array."""
    return octets[0] >> 5 == MAP or (not octets[0] >> 5 and octets[1] + 7 == ARRAY)


def pointer(place: int) -> bytes:
    """A pointer to a place in the data section."""
    if place < POINTERS[0]:
        return (1 << 13 | place).to_bytes(2, "big")
    if place < POINTERS[1]:
        return (0b00101 << 19 | place - POINTERS[0]).to_bytes(3, "big")
    if place < POINTERS[2]:
        return (0b00110 << 27 | place - POINTERS[1]).to_bytes(4, "big")
    return bytes((0b00111000,)) + place.to_bytes(4, "big")


def value_of(value: Plain) -> bytes:
    """A value of JSON: text, a number, a boolean, a list or a dictionary. What is null in one is left out.

    :raises UnicodeEncodeError: if a text has half of a surrogate pair
    """
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return double(value)
    if isinstance(value, list):
        return array_of(value_of(item) for item in value if item is not None)
    return map_of((text(key), value_of(item)) for key, item in value.items() if item is not None)


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
    """The data section of a file. What was pointed at lately is not read again: files share most of their values."""

    def __init__(self, octets: bytes, *, pointers: bool = True, key: Callable[[str], bytes] | None = None) -> None:
        """Without ``pointers`` a value that has one is damaged. ``key`` writes the keys of maps."""
        self.octets = octets
        self._key = key or _key_octets
        self._pointers = pointers
        #: By the octets of pointers what they lead to, and by those of short texts the texts.
        self._known: dict[bytes, Value] = {}
        #: By the same octets, the keys of maps.
        self._keys: dict[bytes, str] = {}

    def at(self, position: int) -> Value:
        """The value that begins at a position.

        :raises BadValueError: if there is none
        """
        try:
            return self._read(position, 0)[0]
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise BadValueError(f"no value begins at {position}") from error

    def members(self, position: int) -> dict[str, Value]:
        """The members of the map that begins at a position.

        :raises BadValueError: if there is no map
        """
        try:
            kind, size, at = self._head(position)
            if kind == POINTER:
                kind, size, at = self._head(self._target(position)[0])
            if kind != MAP:
                raise BadValueError(f"no map begins at {position}")
            return self._members(size, at, 1)[0]
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise BadValueError(f"no value begins at {position}") from error

    def _head(self, at: int) -> tuple[int, int, int]:
        """The type of a value, its size, and where its content begins."""
        octets = self.octets
        control = octets[at]
        at += 1
        kind = control >> 5
        if kind == POINTER:
            return kind, 0, at
        if not kind:
            kind = octets[at] + 7
            at += 1
        size = control & 31
        if size >= SIZES[0]:
            more = size - 28
            size = SIZES[more - 1] + int.from_bytes(octets[at : at + more], "big")
            at += more
        return kind, size, at

    def _target(self, at: int) -> tuple[int, int]:
        """Where a pointer leads, and where it ends."""
        octets = self.octets
        control = octets[at]
        more = (control >> 3 & 3) + 1
        end = at + 1 + more
        found = int.from_bytes(octets[at + 1 : end], "big")
        if more < 4:
            found |= (control & 7) << 8 * more
        if more in (2, 3):
            found += POINTERS[more - 2]
        if end > len(octets) or found >= len(octets) or octets[found] >> 5 == POINTER:
            raise BadValueError(f"the pointer at {at} leads to no value")
        return found, end

    def _read(self, at: int, depth: int) -> tuple[Value, int]:
        octets = self.octets
        control = octets[at]
        if control >> 5 == POINTER:
            return self._pointed(at, depth)
        kind, size, begin = control >> 5, control & 31, at + 1
        if not kind or size >= SIZES[0]:
            kind, size, begin = self._head(at)
        read = LEAVES.get(kind)
        if read is not None:
            end = begin + size
            if size > _LARGEST:
                _bounded(size)
            content = octets[begin:end]
            if len(content) != size:
                raise BadValueError(f"the value at {at} was cut short")
            whole = octets[at:end]
            value = _value((read(content), whole, _NO_MEMBERS))
            if _SPANS[control]:
                self._remember(whole, value)
            return value, end
        if kind == MAP:
            members, end = self._members(size, begin, depth + 1)
            plain = {key: value.plain for key, value in members.items()}
            return Value(plain, self._map(members), members), end
        if kind == ARRAY:
            return self._array(size, begin, depth + 1)
        if kind == BOOLEAN:
            if size > 1:
                raise BadValueError(f"the boolean at {at} is neither true nor false")
            return Value(size == 1, octets[at:begin]), begin
        raise BadValueError(f"a value of type {kind} cannot be")

    def _pointed(self, at: int, depth: int) -> tuple[Value, int]:
        """The value to which a pointer leads, and the pointer's end."""
        if not self._pointers:
            raise BadValueError(f"a pointer stands at {at}")
        end = at + (self.octets[at] >> 3 & 3) + 2
        pointer_ = self.octets[at:end]
        found = self._known.get(pointer_)
        if found is None:
            if depth > _DEEPEST:
                raise BadValueError(f"the value at {at} is too deep")
            found, _ = self._read(self._target(at)[0], depth + 1)
            self._remember(pointer_, found)
        return found, end

    def _map(self, members: Mapping[str, Value]) -> bytes:
        return map_head(len(members)) + b"".join([self._key(key) + value.octets for key, value in members.items()])

    def _members(self, count: int, at: int, depth: int) -> tuple[dict[str, Value], int]:
        if depth > _DEEPEST or count > len(self.octets):
            raise BadValueError(f"the map at {at} is too deep, or too large")
        octets, known, keys, spans = self.octets, self._known, self._keys, _SPANS
        found: dict[str, Value] = {}
        size = 0
        for _ in range(count):
            # Nearly all keys and values of millions of records are pointers and short texts that were read before.
            end = at + spans[octets[at]]
            key = keys.get(octets[at:end])
            if key is None:
                key, end = self._key_at(at, depth)
            at = end
            end = at + spans[octets[at]]
            value = known.get(octets[at:end])
            if value is None:
                value, end = self._read(at, depth)
            at = end
            found[key] = value
            size += len(value.octets)
            if size > _LARGEST:
                _bounded(size)
        return found, at

    def _key_at(self, at: int, depth: int) -> tuple[str, int]:
        """A key of a map, and where it ends."""
        found, end = self._read(at, depth)
        key = found.plain
        if type(key) is not str:
            raise BadValueError(f"the key at {at} is not text")
        if _SPANS[self.octets[at]]:
            if len(self._keys) >= _MOST_KNOWN:
                self._keys.clear()
            self._keys[self.octets[at:end]] = key
        return key, end

    def _remember(self, octets: bytes, value: Value) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()  # cheaper than an order of use; what is needed again comes back
        self._known[octets] = value

    def _array(self, count: int, at: int, depth: int) -> tuple[Value, int]:
        if depth > _DEEPEST or count > len(self.octets):
            raise BadValueError(f"the array at {at} is too deep, or too large")
        items, size = [], 0
        for _ in range(count):
            item, at = self._read(at, depth)
            items.append(item)
            size = _bounded(size + len(item.octets))
        return Value([item.plain for item in items], array_of(item.octets for item in items)), at


def _text_of(content: bytes) -> str:
    return str(content, "utf-8")


def _double_of(content: bytes) -> float:
    found: float = _double.unpack(content)[0]
    return found


def _float_of(content: bytes) -> float:
    found: float = _float.unpack(content)[0]
    return found


def _whole_of(kind: int) -> Callable[[bytes], int]:
    most, signed = _WHOLE[kind], kind == INT32

    def read(content: bytes) -> int:
        if len(content) > most:
            raise BadValueError(f"a value of type {kind} and {len(content)} bytes cannot be")
        # The specification leaves out leading zeros, so a shorter one is never negative.
        return int.from_bytes(content, "big", signed=signed and len(content) == most)

    return read


#: What reads the content of each type that is no map, array or boolean.
LEAVES: Final[dict[int, Callable[[bytes], Plain]]] = {
    TEXT: _text_of,
    DOUBLE: _double_of,
    FLOAT: _float_of,
    BYTES: bytes,
    **{kind: _whole_of(kind) for kind in _WHOLE},
}
#: By the first byte of a value: the length of a pointer, or of a short text; 0 for all others.
_SPANS: Final = tuple(
    (control >> 3 & 3) + 2
    if control >> 5 == POINTER
    else 1 + (control & 31)
    if control >> 5 == TEXT and control & 31 < SIZES[0]
    else 0
    for control in range(256)
)
_NO_MEMBERS: Final[Mapping[str, Value]] = MappingProxyType({})
#: A `Value`, in half the time that its constructor takes: there are tens of millions.
_value: Final[Callable[[tuple[Plain, bytes, Mapping[str, Value]]], Value]] = partial(tuple.__new__, Value)


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


def first_item(octets: bytes) -> bytes:
    """The first item of a self-contained array.

    :raises BadValueError: if it is none, or empty
    """
    if not is_nested(octets) or octets[0] >> 5 or not octets[0] & 31:
        raise BadValueError("no array with an item")
    head = 2 + max(0, (octets[0] & 31) - 28)
    return Section(octets, pointers=False).at(head).octets


def hollowed(members: Mapping[str, Value], numbers: Mapping[str, float | None]) -> bytes:
    """A map without those numbers, which are kept elsewhere: each is NaN, of the width that it had.

    One that differs is kept.
    """
    found = []
    for name, value in members.items():
        octets = value.octets
        if isinstance(value.plain, float) and value.plain == numbers.get(name):
            octets = double(math.nan) if len(octets) == 9 else single(math.nan)
        found.append((_key_octets(name), octets))
    return map_of(found)


@lru_cache(maxsize=1024)
def _key_octets(name: str) -> bytes:
    return text(name)


def rewritten(values: Iterable[bytes], key: Callable[[str], bytes]) -> Iterator[Value]:
    """Self-contained values with other octets for the keys of their maps: pointers to where they stand, perhaps.

    :raises BadValueError: if one is none
    """
    section = Section(b"", pointers=False, key=key)
    for octets in values:
        section.octets = octets  # keys and texts that were read before are known
        yield section.at(0)
