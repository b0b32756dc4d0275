"""Many flat records of a MaxMind DB at once: where the values of each key stand, and which of them are distinct.

`mmdb.Section` reads what a value is; here numpy finds where values begin, so that each distinct one is read once. A
record that is no map of texts and numbers, or is damaged, is left out: it is read by itself, which says what is wrong.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from geolookup.index import mmdb
from geolookup.index.flatten import I64, U64, Array, Flags

#: Nearly all records of a file point at the same few places for their keys. If they do not, each is read by itself.
_MOST_PLACES = 1 << 10
#: Most records of a file have the same keys. Those of more different keys are read one by one.
_MOST_KINDS = 64
#: Values of so many bytes and fewer are told apart by their bytes, all others by where they stand.
_SHORT = 7
_STANDS = np.uint64(1 << 63)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_SHORT + 1)], np.uint64)
_OCTET = np.uint64(0xFF)
#: What stands before the number in a pointer of one byte more, two, three and four.
_SHIFTS = np.array((0, *mmdb.POINTERS[:2], 0))


class Distinct(NamedTuple):
    """The distinct values of a key, and for each record the number of its own among them."""

    values: list[mmdb.Value]
    which: I64


class Group(NamedTuple):
    """Records of the same keys: their numbers among those that were asked for, and by key where the values begin."""

    keys: tuple[str, ...]
    rows: I64
    places: list[I64]


class _Heads(NamedTuple):
    """Of values the types, and where they end; that of a map or an array does not say."""

    kind: Array
    end: I64


class Columns:
    """The data section of a file, for many records at a time."""

    def __init__(self, section: mmdb.Section) -> None:
        self._section = section
        #: Where the last eight octets begin: what reaches beyond is left out.
        self._size = len(section.octets) - 8
        #: By place, the eight octets that begin there, the first one lowest.
        self._words: U64 = np.ndarray((max(0, self._size + 1),), "<u8", section.octets, 0, (1,))
        self._keys: dict[int, int] = {}
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}

    def groups(self, positions: I64) -> Iterator[Group]:
        """The flat records among those that begin at these positions, by their keys."""
        rows = np.flatnonzero(positions < self._size)
        control = (self._words[positions[rows]] & _OCTET).astype(np.int64)
        size = control & 31
        flat = (control >> 5 == mmdb.MAP) & (size > 0) & (size < mmdb.SIZES[0])
        rows, left = rows[flat], size[flat]
        at = positions[rows] + 1
        most = int(left.max(initial=0))
        keys = np.full((most, len(rows)), -1, np.int16)
        places = np.zeros((most, len(rows)), np.int64)
        whole = np.ones(len(rows), np.bool_)
        for step in range(most):
            has = np.flatnonzero(whole & (left > step))
            key, head, after = self._read(at[has])
            good = (head.kind == mmdb.TEXT) & (after <= self._size)
            has = _kept(whole, has, good)
            number = self._key_numbers(key[good])
            value, head, end = self._read(after[good])
            good = (number >= 0) & _IS_LEAF[head.kind] & (head.end <= self._size) & (end <= self._size)
            has = _kept(whole, has, good)
            keys[step, has], places[step, has], at[has] = number[good], value[good], end[good]
        rows, keys, places = rows[whole], keys[:, whole], places[:, whole]
        for _ in range(_MOST_KINDS):
            if not len(rows):
                return
            same = np.all(keys == keys[:, :1], axis=0)
            names = tuple(self._names[key] for key in keys[:, 0].tolist() if key >= 0)
            if len(set(names)) == len(names):  # else the last of two counts
                yield Group(names, rows[same], [places[at, same] for at in range(len(names))])
            rows, keys, places = rows[~same], keys[:, ~same], places[:, ~same]

    def distinct(self, places: I64) -> Distinct:
        """The distinct values of those that begin at these places, of which a group told.

        :raises BadValueError: if one of them is none
        """
        length = self._heads(places, self._words[places]).end - places
        short = length <= _SHORT
        identity = places.astype(np.uint64) | _STANDS
        octets = self._words[places[short]] & _MASKS[length[short]]
        identity[short] = length[short].astype(np.uint64) << np.uint64(56) | octets
        _, first, which = np.unique(identity, return_index=True, return_inverse=True)
        return Distinct([self._section.at(at) for at in places[first].tolist()], which.reshape(-1))

    def numbers(self, places: I64) -> tuple[Array, Flags] | None:
        """The numbers that begin at these places, and which of them have 64 bits; None if one is no float."""
        control = self._words[places] & np.uint64(0xFFFF)
        double = (control & _OCTET) == (mmdb.DOUBLE << 5 | 8)
        single = control == (4 | (mmdb.FLOAT - 7) << 8)
        if not np.all(double | single):
            return None
        found = np.empty(len(places), np.float64)
        found[double] = self._words[places[double] + 1].byteswap().view(np.float64)
        found[single] = self._words[places[single] + 2].astype(np.uint32).byteswap().view(np.float32)
        return found, double

    def _read(self, at: I64) -> tuple[I64, _Heads, I64]:
        """Where the values begin that stand at places or are pointed at from there, their heads, and what comes after
        the value or pointer that stands there.
        """
        word = self._words[at]
        pointers = np.flatnonzero(word & np.uint64(0xE0) == mmdb.POINTER << 5)
        if not len(pointers):
            head = self._heads(at, word)
            return at, head, head.end
        own = word[pointers]
        octets = (own >> np.uint64(3) & np.uint64(3)).astype(np.int64)
        # The octets after the first, the first of them highest.
        number = (own.byteswap() << np.uint64(8)) >> (np.uint64(56) - np.uint64(8) * octets.astype(np.uint64))
        upper = np.where(octets < 3, own & np.uint64(7), np.uint64(0))
        target = (number | upper << (np.uint64(8) * (octets + 1).astype(np.uint64))).astype(np.int64) + _SHIFTS[octets]
        found = at.copy()
        found[pointers] = np.minimum(target, self._size)  # where no value ends in time
        head = self._heads(found, self._words[found])
        after = head.end.copy()
        after[pointers] = at[pointers] + octets + 2
        return found, head, after

    def _heads(self, at: I64, word: U64) -> _Heads:
        """``word`` has the eight octets at each place."""
        control = (word & _OCTET).astype(np.int64)
        kind, size = control >> 5, control & 31
        extended = kind == 0
        kind[extended] = (word[extended] >> np.uint64(8) & _OCTET).astype(np.int64) + 7
        content = at + 1 + extended
        long = np.flatnonzero(size >= mmdb.SIZES[0])
        if len(long):
            octets = size[long] - 28
            after = word[long] >> (np.uint64(8) * (content[long] - at[long]).astype(np.uint64))
            more = after.byteswap() >> (np.uint64(64) - np.uint64(8) * octets.astype(np.uint64))
            size[long] = more.astype(np.int64) + np.array(mmdb.SIZES)[octets - 1]
            content[long] += octets
        size[kind == mmdb.BOOLEAN] = 0  # its size is its value
        return _Heads(kind, content + size)

    def _key_numbers(self, places: I64) -> Array:
        """The numbers of the keys that stand at places, or -1 for what is none."""
        distinct, which = np.unique(places, return_inverse=True)
        if len(distinct) > _MOST_PLACES:
            return np.full(len(places), -1, np.int16)
        return np.array([self._key_number(at) for at in distinct.tolist()], np.int16)[which.reshape(-1)]

    def _key_number(self, at: int) -> int:
        number = self._keys.get(at)
        if number is None:
            try:
                name = self._section.at(at).plain
            except mmdb.BadValueError:
                return -1
            if name not in self._numbers and len(self._names) == _MOST_PLACES:
                return -1
            number = self._numbers.setdefault(name, len(self._names))
            if number == len(self._names):
                self._names.append(name)
            if len(self._keys) < _MOST_PLACES:
                self._keys[at] = number
        return number


def _kept(whole: Flags, has: I64, good: Flags) -> I64:
    """Those of the records that are good; the others are not whole."""
    whole[has[~good]] = False
    return has[good]


#: By type, whether a value is no map, array or pointer.
_IS_LEAF = np.zeros(256 + 7, np.bool_)
_IS_LEAF[[*mmdb.LEAVES, mmdb.BOOLEAN]] = True
