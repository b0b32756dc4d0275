"""Index files as columns: slots, records and texts are numbered as in the index that they are compared with.

A location that went makes all later slots smaller by one, and a text that came moves all later texts: so each is given
the number that the same location, record or text has in the base; what the base does not have is numbered behind that.
A location is the same if its locid and its source are; a record if it says the same of the same location, else if it is
the next of those of its location that are left.
"""

import hashlib
import itertools
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from geolookup.base import plainjson
from geolookup.index.layout import EMPTY, ITEM_FORMATS, NARROW_EMPTY, PART, SOURCES, WIDE_EMPTY
from geolookup.index.mapped import read_header
from geolookup.model.fields import TEXT_NAMES
from geolookup.state.packs.forms import Column, mapped, write_at

Array = np.ndarray[Any, Any]

_HEAD, _LOCIDS, _SOURCES = "head", "loc.locid", "loc.source"
_OFFSETS, _TEXTS, _PART_OFFSETS, _PARTS = "strings.offsets", "strings.bytes", "parts.offsets", "parts.bytes"
_RECORDS, _SAID = "record.slot", "record.said"
#: What the rest is numbered by comes back first; then the parts of records.
_FIRST = (_HEAD, _LOCIDS, _SOURCES, _OFFSETS, _TEXTS, _PART_OFFSETS, _PARTS, _RECORDS, _SAID)
_TEXT_NUMBERS = frozenset(f"loc.{name}" for name in TEXT_NAMES)
#: Where an item came, all later ones are larger, but the steps between them are as they were.
_RISING = frozenset((_OFFSETS, _PART_OFFSETS, "v4.table", "v6.table"))
_UPPER_BITS = {"v4.slot": "v4.slot_high", "v6.slot": "v6.slot_high"}
_WIDE_BYTES = 4


def _is_renumbered(name: str) -> bool:
    """True if the items of a section are numbers of something else, which are compared as 32 bits."""
    return name in _TEXT_NUMBERS or name in (_RECORDS, _SAID) or name in _UPPER_BITS or name.startswith(PART)


class Sections:
    """An index file; with ``base`` its numbers are given as that one has them."""

    def __init__(self, path: str, base: "Sections | None" = None) -> None:
        """
        :raises IndexFileError: if it is not an index
        """
        self.data = mapped(path)
        header = read_header(self.data, path)
        self._head_bytes = 8 + len(header.raw)
        self._places = _places_of(header.tree, self._head_bytes)
        self.things = _Things({name: self.array(name) for name in self._places}, header.tree)
        self._names = None if base is None else _Names(self.things, base.things)

    def array(self, name: str) -> Array:
        """A section's items as they stand in the file."""
        kind, begin, end = self._places[name]
        return np.frombuffer(self.data[begin:end], _DTYPES[kind])

    def columns(self) -> Sequence[Column]:
        """See `forms.Source`."""
        found = {_HEAD: Column(_HEAD, self._head_bytes, 1)}
        for name, (kind, begin, end) in self._places.items():
            if name in _UPPER_BITS.values():
                continue
            size = ITEM_FORMATS[kind][1]
            found[name] = Column(name, (end - begin) // size, _WIDE_BYTES if _is_renumbered(name) else size)
        first = [name for name in _FIRST if name in found]
        first += sorted(name for name in found if name.startswith(PART))
        return [found[name] for name in (*first, *(name for name in found if name not in first))]

    def read(self, name: str, begin: int, end: int) -> bytes:
        """See `forms.Source`."""
        if name == _HEAD:
            return bytes(self.data[begin:end])
        items = self.array(name)
        part = items[begin:end]
        if _is_renumbered(name):
            if name in _UPPER_BITS:
                upper = _UPPER_BITS[name]
                wide = _joined(part, self.array(upper)[begin:end] if upper in self._places else None)
            else:
                wide = part.astype(np.uint32)
            return _renumbered(wide, None if self._names is None else self._names.of(name)).tobytes()
        if name in _RISING:
            before = items[begin - 1] if begin else part.dtype.type(0)
            return np.diff(part, prepend=before).tobytes()
        return part.tobytes()


class SectionsAgain:
    """An index file that is made again; ``base`` is the one that its numbers refer to."""

    def __init__(self, descriptor: int, base: Sections) -> None:
        self._descriptor = descriptor
        self._base = base
        self._places: dict[str, tuple[str, int, int]] = {}
        self._tree: Any = None
        self._kept: dict[str, list[Array]] = {}
        self._last: dict[str, int] = {}
        self._inverse: dict[str, Array] = {}

    def place(self, name: str, begin: int, data: bytes) -> None:
        """See `forms.Target`."""
        if name == _HEAD:
            self._tree = plainjson.loads(data[8:])
            self._places = _places_of(self._tree, len(data))
            write_at(self._descriptor, 0, data)
            return
        kind, start, _ = self._places[name]
        if name in _UPPER_BITS:
            slots = _renumbered(np.frombuffer(data, "<u4"), self._own_numbers(name))
            upper = self._places.get(_UPPER_BITS[name])
            empty = slots == EMPTY
            slots = np.where(empty, NARROW_EMPTY if upper is None else WIDE_EMPTY, slots)
            write_at(self._descriptor, start + 2 * begin, slots.astype("<u2").tobytes())
            if upper is not None:
                write_at(self._descriptor, upper[1] + begin, (slots >> 16).astype(np.uint8).tobytes())
            return
        if _is_renumbered(name):
            items = _renumbered(np.frombuffer(data, "<u4"), self._own_numbers(name)).astype(_DTYPES[kind])
        else:
            items = np.frombuffer(data, _DTYPES[kind])
        if name in _RISING:
            items = (np.cumsum(items, dtype=np.int64) + self._last.get(name, 0)).astype(items.dtype)
            self._last[name] = int(items[-1]) if len(items) else 0
        if name in _FIRST or name.startswith(PART):
            self._kept.setdefault(name, []).append(items)
        write_at(self._descriptor, start + begin * items.itemsize, items.tobytes())

    def _own_numbers(self, name: str) -> Array:
        """The numbers of this file, by those of the base. All that they depend on is there by now."""
        kind = _kind_of(name)
        if kind not in self._inverse:
            things = _Things({name: np.concatenate(parts) for name, parts in self._kept.items()}, self._tree)
            numbers = _Names(things, self._base.things).of(name)
            self._inverse[kind] = _inverse(numbers, self._base.things.count(kind))
        return self._inverse[kind]


class _Things:
    """What the numbers in an index are of: its texts, the parts of records, locations, and records."""

    def __init__(self, arrays: Mapping[str, Array], tree: Any) -> None:
        self._arrays = arrays
        self._sources = str(tree["__metadata__"].get(SOURCES, "")).split()

    def count(self, kind: str) -> int:
        """The number of things of a kind."""
        counted = {"text": self.texts, "part": self.parts, "location": self.locations, "record": self.records}
        return len(counted[kind])

    @cached_property
    def texts(self) -> Array:
        """A number for each text that the same one has in other files."""
        return _digests(_split(self._arrays[_OFFSETS], self._arrays[_TEXTS]))

    @cached_property
    def parts(self) -> Array:
        """The same of the parts of records, of which some may be equal."""
        if _PARTS not in self._arrays:
            return np.empty(0, np.uint64)
        return _digests(_split(self._arrays[_PART_OFFSETS], self._arrays[_PARTS]))

    @cached_property
    def locations(self) -> Array:
        """A number for each location that the same one has in other files."""
        locids = self._arrays[_LOCIDS].view(np.uint64)
        if _SOURCES not in self._arrays:
            return _mixed(locids)
        named = np.array([zlib.crc32(name.encode()) for name in self._sources] or [0], np.uint64)
        return _mixed(locids ^ _mixed(named[np.minimum(self._arrays[_SOURCES], len(named) - 1)]))

    @cached_property
    def are_one(self) -> bool:
        """True if each location has one record, whose number is the location's."""
        return _RECORDS not in self._arrays and (len(self._arrays[_LOCIDS]) > 0 or not len(self.parts))

    @cached_property
    def homes(self) -> Array:
        """The location of each record as in `locations`, 0 for none."""
        if _RECORDS in self._arrays:
            slots = self._arrays[_RECORDS]
            return np.append(self.locations, np.uint64(0))[np.minimum(slots, len(self.locations))]
        if self.are_one:
            return self.locations
        return np.zeros(max((len(self._arrays[name]) for name in self._keys), default=0), np.uint64)

    @property
    def _keys(self) -> list[str]:
        return sorted(name for name in self._arrays if name.startswith(PART))

    @cached_property
    def records(self) -> Array:
        """A number for each record that an equal one of the same location has in other files."""
        known = self.parts if len(self.parts) else np.zeros(1, np.uint64)
        found = self.homes
        for key in self._keys:
            said = known[np.minimum(self._arrays[key].astype(np.int64), len(known) - 1)]
            found = _mixed(found ^ _mixed(said ^ np.uint64(zlib.crc32(key.encode()))))
        return found


class _Names:
    """For each thing of a file the number that it has in the base, or one behind them."""

    def __init__(self, own: _Things, base: _Things) -> None:
        self._own, self._base = own, base

    def of(self, name: str) -> Array:
        """The numbers of the things that a section's items are of."""
        numbers: Array = getattr(self, f"_{_kind_of(name)}")
        return numbers

    @cached_property
    def _text(self) -> Array:
        return _numbered(_matched(self._own.texts, self._base.texts), self._base.texts)

    @cached_property
    def _part(self) -> Array:
        return _numbered(_matched(self._own.parts, self._base.parts), self._base.parts)

    @cached_property
    def _location(self) -> Array:
        return _numbered(_matched(self._own.locations, self._base.locations), self._base.locations)

    @cached_property
    def _record(self) -> Array:
        own, base = self._own, self._base
        if own.are_one and base.are_one:
            return self._location
        found = _matched(own.records, base.records)
        taken = np.zeros(len(base.records), np.bool_)
        taken[found[found >= 0]] = True
        left, free = np.flatnonzero((found < 0) & (own.homes != 0)), np.flatnonzero(~taken & (base.homes != 0))
        again = _matched(own.homes[left], base.homes[free])
        found[left[again >= 0]] = free[again[again >= 0]]
        return _numbered(found, base.records)


def _kind_of(name: str) -> str:
    """The kind of thing that a section's items are the numbers of."""
    if name in _UPPER_BITS:
        return "record"
    if name == _RECORDS:
        return "location"
    return "text" if name in _TEXT_NUMBERS else "part"


def _digests(texts: list[bytes]) -> Array:
    return np.frombuffer(b"".join([hashlib.blake2b(text, digest_size=8).digest() for text in texts]), "<u8")


def _mixed(numbers: Array) -> Array:
    """Other numbers, one for each, far from each other (the finalizer of SplitMix64)."""
    found = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


def _matched(own: Array, base: Array) -> Array:
    """For each number its place in the base, -1 if it is not there; the first of equal ones with the first there."""
    _, both = np.unique(np.concatenate((own, base)), return_inverse=True)
    both = both.astype(np.int64)
    mine, theirs = both[: len(own)], both[len(own) :]
    times = len(both) + 1
    mine, theirs = mine * times + _occurrence(mine), theirs * times + _occurrence(theirs)
    order = np.argsort(theirs)
    at = np.searchsorted(theirs, mine, sorter=order)
    found = np.full(len(own), -1, np.int64)
    inside = np.flatnonzero(at < len(theirs))
    places = order[at[inside]]
    there = theirs[places] == mine[inside]
    found[inside[there]] = places[there]
    return found


def _occurrence(numbers: Array) -> Array:
    """For each number how many equal ones stand before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    lengths = np.diff(np.append(begins, len(ordered)))
    found = np.empty(len(numbers), np.int64)
    found[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return found


def _numbered(places: Array, base: Array) -> Array:
    """Places in the base as they are, all else numbered behind them."""
    missing = places < 0
    return np.where(missing, len(base) + np.cumsum(missing) - 1, places).astype(np.uint32)


_DTYPES = {"U64": "<u8", "I64": "<i8", "F64": "<f8", "U32": "<u4", "I32": "<i4", "U16": "<u2", "U8": "u1"}


def _places_of(tree: Any, head_bytes: int) -> dict[str, tuple[str, int, int]]:
    """Each section's type, and where it begins and ends in the file."""
    return {
        name: (entry["dtype"], head_bytes + entry["data_offsets"][0], head_bytes + entry["data_offsets"][1])
        for name, entry in tree.items()
        if name != "__metadata__"
    }


def _split(offsets: Array, texts: Array) -> list[bytes]:
    joined, ends = texts.tobytes(), offsets.tolist()
    return [joined[begin:end] for begin, end in itertools.pairwise(ends)]


def _joined(low: Array, high: Array | None) -> Array:
    slots = low.astype(np.uint32)
    if high is not None:
        slots |= high.astype(np.uint32) << np.uint32(16)
    slots[slots == (NARROW_EMPTY if high is None else WIDE_EMPTY)] = EMPTY
    return slots


def _renumbered(numbers: Array, names: Array | None) -> Array:
    if names is None:
        return numbers
    inside = numbers < len(names)
    found = numbers.copy()
    found[inside] = names[numbers[inside]]
    return found


def _inverse(numbers: Array, base_count: int) -> Array:
    found = np.zeros(max(base_count, int(numbers.max(initial=0)) + 1), np.uint32)
    found[numbers] = np.arange(len(numbers), dtype=np.uint32)
    return found
