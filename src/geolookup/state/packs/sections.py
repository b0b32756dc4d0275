"""Index files as columns: slots and texts are numbered as in the index that they are compared with.

A location that went makes all later slots smaller by one, and a text that came moves all later texts: so each is given
the number that the same locid, or the same text, has in the base; what the base does not have is numbered behind that.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from geolookup.base import plainjson
from geolookup.index.layout import EMPTY, ITEM_FORMATS, NARROW_EMPTY, WIDE_EMPTY
from geolookup.index.mapped import read_header
from geolookup.model.fields import TEXT_NAMES
from geolookup.state.packs.forms import Column, mapped, write_at

Array = np.ndarray[Any, Any]

_HEAD, _LOCIDS, _OFFSETS, _TEXTS = "head", "loc.locid", "strings.offsets", "strings.bytes"
#: What the rest is numbered by comes back first.
_FIRST = (_HEAD, _LOCIDS, _OFFSETS, _TEXTS)
_TEXT_NUMBERS = frozenset(f"loc.{name}" for name in TEXT_NAMES)
#: Where an item came, all later ones are larger, but the steps between them are as they were.
_RISING = frozenset((_OFFSETS, "v4.table", "v6.table"))
_UPPER_BITS = {"v4.slot": "v4.slot_high", "v6.slot": "v6.slot_high"}


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
        self._slots: Array | None = None
        self._texts: Array | None = None
        if base is not None:
            self._slots = _numbers_in(self.array(_LOCIDS), base.array(_LOCIDS))
            self._texts = _numbers_in_texts(self.texts(), base.texts())

    def array(self, name: str) -> Array:
        """A section's items as they stand in the file."""
        kind, begin, end = self._places[name]
        return np.frombuffer(self.data[begin:end], _DTYPES[kind])

    def texts(self) -> list[bytes]:
        """The distinct texts."""
        return _split(self.array(_OFFSETS), self.array(_TEXTS))

    def columns(self) -> Sequence[Column]:
        """See `forms.Source`."""
        found = {_HEAD: Column(_HEAD, self._head_bytes, 1)}
        for name, (kind, begin, end) in self._places.items():
            if name in _UPPER_BITS.values():
                continue
            size = ITEM_FORMATS[kind][1]
            found[name] = Column(name, (end - begin) // size, 4 if name in _UPPER_BITS else size)
        return [found[name] for name in (*_FIRST, *(name for name in found if name not in _FIRST))]

    def read(self, name: str, begin: int, end: int) -> bytes:
        """See `forms.Source`."""
        if name == _HEAD:
            return bytes(self.data[begin:end])
        items = self.array(name)
        part = items[begin:end]
        if name in _UPPER_BITS:
            upper = _UPPER_BITS[name]
            high = self.array(upper)[begin:end] if upper in self._places else None
            return _renumbered(_joined(part, high), self._slots).tobytes()
        if name in _TEXT_NUMBERS:
            return _renumbered(part.astype(np.uint32), self._texts).tobytes()
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
        self._kept: dict[str, list[Array]] = {}
        self._last: dict[str, int] = {}
        self._slots: Array | None = None
        self._texts: Array | None = None

    def place(self, name: str, begin: int, data: bytes) -> None:
        """See `forms.Target`."""
        if name == _HEAD:
            self._places = _places_of(plainjson.loads(data[8:]), len(data))
            write_at(self._descriptor, 0, data)
            return
        kind, start, _ = self._places[name]
        dtype = _DTYPES[kind]
        if name in _UPPER_BITS:
            if self._slots is None:
                own = np.concatenate(self._kept[_LOCIDS])
                self._slots = _inverse(_numbers_in(own, self._base.array(_LOCIDS)), len(self._base.array(_LOCIDS)))
            slots = _renumbered(np.frombuffer(data, "<u4"), self._slots)
            upper = self._places.get(_UPPER_BITS[name])
            empty = slots == EMPTY
            slots = np.where(empty, NARROW_EMPTY if upper is None else WIDE_EMPTY, slots)
            write_at(self._descriptor, start + 2 * begin, slots.astype("<u2").tobytes())
            if upper is not None:
                write_at(self._descriptor, upper[1] + begin, (slots >> 16).astype(np.uint8).tobytes())
            return
        items = np.frombuffer(data, dtype)
        if name in _TEXT_NUMBERS:
            if self._texts is None:
                own_texts = _split(np.concatenate(self._kept[_OFFSETS]), np.concatenate(self._kept[_TEXTS]))
                base_texts = self._base.texts()
                self._texts = _inverse(_numbers_in_texts(own_texts, base_texts), len(base_texts))
            items = _renumbered(np.frombuffer(data, "<u4"), self._texts).astype(dtype)
        elif name in _RISING:
            items = (np.cumsum(items, dtype=np.int64) + self._last.get(name, 0)).astype(dtype)
            self._last[name] = int(items[-1]) if len(items) else 0
        if name in _FIRST:
            self._kept.setdefault(name, []).append(items)
        write_at(self._descriptor, start + begin * items.itemsize, items.tobytes())


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


def _numbers_in(own: Array, base: Array) -> Array:
    """For each locid its place in the ascending ones of the base, or a number behind them if it is not there."""
    at = np.searchsorted(base, own)
    there = np.zeros(len(own), np.bool_)
    inside = at < len(base)
    there[inside] = base[at[inside]] == own[inside]
    return np.where(there, at, len(base) + np.cumsum(~there) - 1).astype(np.uint32)


def _numbers_in_texts(own: list[bytes], base: list[bytes]) -> Array:
    known = {text: number for number, text in enumerate(base)}
    following = len(base)
    found = np.empty(len(own), np.uint32)
    for number, text in enumerate(own):
        there = known.get(text)
        if there is None:
            there, following = following, following + 1
        found[number] = there
    return found


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
