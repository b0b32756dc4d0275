"""Index files as columns: slots, records and texts are numbered as in the index that they are compared with.

A location that went makes all later slots smaller by one, and a text that came moves all later texts: so each is given
the number that the same location, record or text has in the base; what the base does not have is numbered behind that.
A location is the same if its locid and its source are; a record if it says the same of the same location, else if it is
the next of those of its location that are left.

What the base lets expect is not written (`changes`): of a location what the base says of it, of a segment the answer
that the base has for its first address, of texts that they stand in the order in which locations name them. The columns
of such differences have a mark behind their names, as the base has none.
"""

import hashlib
import itertools
import mmap
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from geolookup.base import plainjson
from geolookup.index.layout import EMPTY, ITEM_FORMATS, NARROW_EMPTY, PART, SOURCES, WIDE_EMPTY
from geolookup.index.mapped import read_header
from geolookup.index.scratch import spread
from geolookup.model.fields import TEXT_NAMES
from geolookup.state.packs.changes import (
    Known,
    Pieces,
    changed,
    changes,
    numbers,
    order,
    order_again,
    places,
    places_again,
)
from geolookup.state.packs.forms import Column, let_go, mapped, write_at

Array = np.ndarray[Any, Any]

_HEAD, _LOCIDS, _SOURCES = "head", "loc.locid", "loc.source"
_OFFSETS, _TEXTS, _PART_OFFSETS, _PARTS = "strings.offsets", "strings.bytes", "parts.offsets", "parts.bytes"
_RECORDS, _SAID = "record.slot", "record.said"
#: Columns of differences: in which rows of locations something differs, and what; texts; the slots of segments.
_MARK = "~"
_ROWS, _STRINGS = f"loc{_MARK}", f"strings{_MARK}"
#: What the rest is numbered by comes back first; then the parts of records.
_FIRST = (_HEAD, _LOCIDS, _SOURCES, _OFFSETS, _TEXTS, _PART_OFFSETS, _PARTS, _RECORDS, _SAID)
_TEXT_NUMBERS = tuple(f"loc.{name}" for name in TEXT_NAMES)
#: Where an item came, all later ones are larger, but the steps between them are as they were.
_RISING = frozenset((_OFFSETS, _PART_OFFSETS, "v4.table", "v6.table"))
_UPPER_BITS = {"v4.slot": "v4.slot_high", "v6.slot": "v6.slot_high"}
#: By what the slots of a family are expected.
_FIRST_ADDRESSES = {"v4.slot": ("v4.low", "v4.table"), "v6.slot": ("v6.hi",)}
_WIDE_BYTES = 4
#: What is reckoned with for each slot takes several numbers of eight bytes: so parts of slots are shorter than others.
_COUNTED_BYTES = 16
#: So many locations are looked at at once.
_ROWS_AT_ONCE = 1 << 16


def _is_renumbered(name: str) -> bool:
    """True if the items of a section are numbers of something else, which are compared as 32 bits."""
    return name in _TEXT_NUMBERS or name in (_RECORDS, _SAID) or name in _UPPER_BITS or name.startswith(PART)


def _is_said(name: str) -> bool:
    """True if a section has what is said of each location, or record."""
    return name.startswith(("loc.", PART)) and name not in (_LOCIDS, _SOURCES)


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
        self._base = base
        self._names = None if base is None else _Names(self.things, base.things)

    def array(self, name: str) -> Array:
        """A section's items as they stand in the file."""
        kind, begin, end = self._places[name]
        return np.frombuffer(self.data[begin:end], _DTYPES[kind])

    def numbers(self, name: str, begin: int = 0, end: int | None = None) -> Array:
        """Items of a section without signs, numbers of something else as 32 bits; none if it is not there."""
        if name not in self._places:
            return np.empty(0, "<u4")
        items = self.array(name)[begin:end]
        if name in _UPPER_BITS:
            upper = _UPPER_BITS[name]
            return _joined(items, self.array(upper)[begin:end] if upper in self._places else None)
        return items.astype("<u4") if _is_renumbered(name) else items.view(f"<u{items.itemsize}")

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
        listed = [found[name] for name in (*first, *(name for name in found if name not in first))]
        return listed if self._base is None else self._as_differences(listed)

    def _as_differences(self, listed: list[Column]) -> list[Column]:
        said = [Column(f"{name}{_MARK}", 1, 1) for name in self._all_said]
        slots = [
            Column(f"{each.name}{_MARK}", each.items, _COUNTED_BYTES) for each in listed if each.name in _UPPER_BITS
        ]
        other = {*self._all_said, *_UPPER_BITS, _OFFSETS, _TEXTS}
        texts = [Column(_STRINGS, 1, 1)] if _TEXTS in self._places else []
        return [*(each for each in listed if each.name not in other), Column(_ROWS, 1, 1), *said, *texts, *slots]

    @cached_property
    def _all_said(self) -> list[str]:
        """The sections with what is said of each location: what records say if each location has one."""
        assert self._base is not None
        with_records = self.things.are_one and self._base.things.are_one
        return [name for name in self._places if _is_said(name) and (with_records or not name.startswith(PART))]

    def read(self, name: str, begin: int, end: int) -> list[bytes]:
        """See `forms.Source`."""
        if name.endswith(_MARK):
            return self._differences(name, begin, end)
        if name == _HEAD:
            return [bytes(self.data[begin:end])]
        if _is_renumbered(name):
            return [self._renumbered(name, begin, end).tobytes()]
        items = self.array(name)
        part = items[begin:end]
        if name in _RISING:
            before = items[begin - 1] if begin else part.dtype.type(0)
            part = np.diff(part, prepend=before)
        return [part.tobytes()]

    def _renumbered(self, name: str, begin: int = 0, end: int | None = None) -> Array:
        """Items as 32 bits, with the numbers that the base has for the same things."""
        return _renumbered(self.numbers(name, begin, end), None if self._names is None else self._names.of(name))

    def _differences(self, name: str, begin: int, end: int) -> list[bytes]:
        """What differs from what the base lets expect."""
        assert self._base is not None
        assert self._names is not None
        if name == _ROWS:
            return places(self._rows)
        if name == _STRINGS:
            texts = self._names.of(_TEXT_NUMBERS[0])
            known = self._base.things.count("text")
            new = [self.things.split[each] for each in np.flatnonzero(texts >= known)]
            lengths = np.array([len(text) for text in new], "<u4")
            rules = _orders(
                [self._renumbered(each) for each in _TEXT_NUMBERS if each in self._places], known + len(new)
            )
            return [*numbers(lengths), b"".join(new), _counted(len(texts)), *order(texts, rules)]
        section = name.removesuffix(_MARK)
        if _is_said(section):
            said, expected = (each(section)[self._rows] for each in (self._said, self._expected))
            return changes(said, expected, self._base.known(section, said.dtype))
        firsts = _first_addresses(section, self.numbers, begin, end)
        slots = changes(self._renumbered(section, begin, end), self._base.expected_slots(section, *firsts))
        return [_counted(end - begin), *slots]

    def _said(self, name: str) -> Array:
        return self._renumbered(name) if _is_renumbered(name) else self.numbers(name)

    def _expected(self, name: str) -> Array:
        assert self._base is not None
        assert self._names is not None
        return self._base.expected_of(name, self._names.of_locations, self._said(name).dtype)

    @cached_property
    def _rows(self) -> Array:
        """The locations of which something else is said than the base says of the same ones."""
        differ = np.zeros(len(self.array(_LOCIDS)), np.bool_) if _LOCIDS in self._places else np.empty(0, np.bool_)
        for name in self._all_said:
            differ |= self._said(name) != self._expected(name)
        return np.flatnonzero(differ)

    def expected_of(self, name: str, locations: Array, dtype: Any) -> Array:
        """What this base says of locations that have these numbers in it; zeros of those that it does not have."""
        own = self.numbers(name)
        found = np.zeros(len(locations), dtype)
        there = locations < len(own)
        found[there] = own[locations[there]]
        return found

    def known(self, name: str, dtype: Any) -> Known:
        """The distinct values that this base has in a column."""
        return Known.of(self.numbers(name).astype(dtype))

    def expected_slots(self, name: str, firsts: Array, ranks: Array) -> Array:
        """The slots that this base has for segments with these first addresses, the n-th of equal ones for the n-th."""
        count = len(self.numbers(name, 0, 1)) and len(self.array(name))
        if not count or not len(firsts):
            return np.zeros(len(firsts), "<u4")
        low, high = 0, count
        if name == "v4.slot":  # only those around them, for the memory's sake
            table = self.array("v4.table")
            low = max(0, int(table[int(firsts[0]) >> 16]) - 1)
            high = int(table[(int(firsts[-1]) >> 16) + 1])
        else:
            own = self.array(_FIRST_ADDRESSES[name][0])
            low = max(0, int(np.searchsorted(own, firsts[0], "left")) - 1)
            high = int(np.searchsorted(own, firsts[-1], "right"))
        own, _ = _first_addresses(name, self.numbers, low, high)
        begins, ends = (np.searchsorted(own, firsts, side) for side in ("left", "right"))
        at = np.where(ends > begins, np.minimum(begins + ranks, ends - 1), begins - 1)
        return self.numbers(name, low, high)[np.maximum(at, 0)]


class SectionsAgain:
    """An index file that is made again; ``base`` is the one that its numbers refer to."""

    def __init__(self, descriptor: int, base: Sections) -> None:
        self._descriptor = descriptor
        self._base = base
        self._places: dict[str, tuple[str, int, int]] = {}
        self._tree: Any = None
        self._data = memoryview(b"")
        self._last: dict[str, int] = {}
        self._inverse: dict[str, Array] = {}
        self._rows: Array = np.empty(0, np.int64)
        self._texts: dict[str, Array] = {}

    def place(self, name: str, begin: int, data: bytes) -> None:
        """See `forms.Target`."""
        if name == _HEAD:
            self._tree = plainjson.loads(data[8:])
            self._places = _places_of(self._tree, len(data))
            write_at(self._descriptor, 0, data)
            self._data = memoryview(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))
        elif name.endswith(_MARK):
            self._place_differences(name, begin, Pieces(data))
        else:
            items = np.frombuffer(data, "<u4" if _is_renumbered(name) else _DTYPES[self._places[name][0]])
            if name in _RISING:
                items = (np.cumsum(items, dtype=np.int64) + self._last.get(name, 0)).astype(items.dtype)
                self._last[name] = int(items[-1]) if len(items) else 0
            self._write(name, begin, items)
        let_go(self._base.data)
        let_go(self._data)

    def _place_differences(self, name: str, begin: int, pieces: Pieces) -> None:
        section = name.removesuffix(_MARK)
        if name == _ROWS:
            self._rows = places_again(pieces, self._count(_LOCIDS))
        elif name == _STRINGS:
            self._place_texts(pieces)
        elif _is_said(section):
            dtype = np.dtype("<u4") if _is_renumbered(section) else np.dtype(f"<u{self._item_bytes(section)}")
            items = self._base.expected_of(section, self._locations, dtype)
            items[self._rows] = changed(pieces, items[self._rows], self._base.known(section, dtype))
            if section in _TEXT_NUMBERS:
                self._texts[section] = items  # what they are numbers of comes behind them
            else:
                self._write(section, 0, items)
        else:
            (count,) = pieces.whole("<u4")
            firsts = _first_addresses(section, self._all, begin, begin + count)
            slots = changed(pieces, self._base.expected_slots(section, *firsts))
            self._write(section, begin, slots)

    def _place_texts(self, pieces: Pieces) -> None:
        lengths = pieces.numbers("<u4")
        texts = list(self._base.things.split)
        known = len(texts)
        texts += [pieces.bytes(length) for length in lengths.tolist()]
        (count,) = pieces.whole("<u4")
        columns = [self._texts[each] for each in _TEXT_NUMBERS if each in self._texts]
        sequence = order_again(pieces, _orders(columns, len(texts)), int(count))
        own = [texts[each] for each in sequence.tolist()]
        self._write(_OFFSETS, 0, np.cumsum([0, *map(len, own)]))
        self._write(_TEXTS, 0, np.frombuffer(b"".join(own), np.uint8))
        self._inverse["text"] = _inverse(sequence.astype(np.int64), known)
        for name, items in self._texts.items():
            self._write(name, 0, items)

    def _write(self, name: str, begin: int, items: Array) -> None:
        """Write items of a section, which are numbered as in the base."""
        kind, start, end = self._places[name]
        if _is_renumbered(name):
            items = _renumbered(items, self._own_numbers(name))
        if name in _UPPER_BITS:
            upper = self._places.get(_UPPER_BITS[name])
            items = np.where(items == EMPTY, NARROW_EMPTY if upper is None else WIDE_EMPTY, items)
            if upper is not None:
                write_at(self._descriptor, upper[1] + begin, (items >> 16).astype(np.uint8).tobytes())
        data = items.astype(_DTYPES[kind], copy=False) if items.dtype.kind != "u" or _is_renumbered(name) else items
        if start + begin * data.itemsize + data.nbytes > end:
            raise ValueError(f"{name} would be too long")
        write_at(self._descriptor, start + begin * data.itemsize, data.tobytes())

    def _item_bytes(self, name: str) -> int:
        return ITEM_FORMATS[self._places[name][0]][1]

    def _count(self, name: str) -> int:
        if name not in self._places:
            return 0
        _, begin, end = self._places[name]
        return (end - begin) // self._item_bytes(name)

    def _all(self, name: str) -> Array:
        """All items of a section; those that are not there by now are zeros."""
        kind, begin, end = self._places[name]
        return np.frombuffer(self._data[begin:end], _DTYPES[kind])

    @cached_property
    def _locations(self) -> Array:
        """The numbers that the locations have in the base."""
        return self._names.of_locations

    @property
    def _names(self) -> "_Names":
        return _Names(_Things({name: self._all(name) for name in self._places}, self._tree), self._base.things)

    def _own_numbers(self, name: str) -> Array:
        """The numbers of this file, by those of the base. All that they depend on is there by now."""
        kind = _kind_of(name)
        if kind not in self._inverse:
            self._inverse[kind] = _inverse(self._names.of(name), self._base.things.count(kind))
        return self._inverse[kind]


def _counted(count: int) -> bytes:
    return np.array([count], "<u4").tobytes()


def _first_addresses(name: str, section: Callable[[str], Array], begin: int, end: int) -> tuple[Array, Array]:
    """The first addresses of segments (of IPv6 their upper halves), and how many equal ones stand before each."""
    if name == "v4.slot":
        low, table = map(section, _FIRST_ADDRESSES[name])
        upper = np.searchsorted(table, np.arange(begin, end), "right") - 1
        return (upper.astype("<u4") << np.uint32(16)) | low[begin:end], np.zeros(end - begin, np.int64)
    high = section(*_FIRST_ADDRESSES[name])
    own = high[begin:end]
    return own, np.arange(begin, end) - np.searchsorted(high, own, "left")


def _orders(columns: list[Array], count: int) -> list[Array]:
    """Orders in which texts are likely to stand: that of the base, and that in which locations name them."""
    last = len(columns) * max(map(len, columns), default=0)
    first = np.full(count, last, np.int64)
    for begin in reversed(range(0, last, _ROWS_AT_ONCE * len(columns) or 1)):
        rows = np.stack([column[begin // len(columns) :][:_ROWS_AT_ONCE] for column in columns], axis=1).reshape(-1)
        at = np.flatnonzero(rows < count)[::-1]  # so that the first one of equal ones is written last
        first[rows[at]] = begin + at
    first[:1] = -1
    found = np.argsort(first, kind="stable")
    return [np.arange(count), np.append(found[: np.searchsorted(first[found], last)], np.flatnonzero(first == last))]


class _Things:
    """What the numbers in an index are of: its texts, the parts of records, locations, and records."""

    def __init__(self, arrays: Mapping[str, Array], tree: Any) -> None:
        self._arrays = arrays
        self._sources = str(tree["__metadata__"].get(SOURCES, "")).split()

    def count(self, kind: str) -> int:
        """The number of things of a kind."""
        return len(getattr(self, {"text": "split"}.get(kind, f"{kind}s")))

    @cached_property
    def split(self) -> list[bytes]:
        """The texts."""
        return _split(self._arrays[_OFFSETS], self._arrays[_TEXTS]) if _TEXTS in self._arrays else []

    @cached_property
    def texts(self) -> Array:
        """A number for each text that the same one has in other files."""
        return _digests(self.split)

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

    @property
    def of_locations(self) -> Array:
        """The numbers of locations."""
        return self._location

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
    """Other numbers, one for each, far from each other (as SplitMix64 does)."""
    return spread(numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


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
