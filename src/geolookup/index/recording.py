"""The records of an index that is being built: for each its location, and for each key the number of its part."""

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from geolookup.index.flatten import I64, Array, in_order
from geolookup.index.layout import PART
from geolookup.index.scratch import Column, Texts, too_long
from geolookup.model.errors import IndexFileError

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: So many numbers of a column are kept in memory, if there is a folder.
_KEPT = 1 << 16
_LARGEST_I32 = (1 << 31) - 1


class RecordColumns:
    """Collects records. With a folder, memory grows with the distinct parts only."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._count = 0
        self._slots = _Numbers(folder)
        self._keys: dict[str, _Key] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, slot: int, parts: Mapping[str, bytes]) -> int:
        """Add a record of a location: its number.

        :raises OSError: if the disk is full, or fails
        """
        self._slots.append(slot)
        for name in parts:
            if name not in self._keys:
                self._keys[name] = _Key(self._folder, self._count)
        for name, key in self._keys.items():
            key.append(parts.get(name, b""))
        self._count += 1
        return self._count - 1

    def sections(self, renumbered: Array | None, locations: int) -> tuple[Array | None, dict[str, "Array | Column"]]:
        """The new number of each record, or None if they stay, and the sections that hold them.

        :param renumbered: the new slot of each location, or None if they stay
        :raises IndexFileError: if a location has no record, or the parts are longer than offsets can say
        :raises OSError: if the disk is full, or fails
        """
        slots = self._slots.whole()
        if renumbered is not None:
            slots = renumbered[slots]
        order = in_order([slots])
        if order is not None:
            slots = slots[order]
        if len(np.unique(slots)) != locations:
            raise IndexFileError("a location has no record")
        sections: dict[str, Array | Column] = {}
        if len(slots) != locations:
            sections["record.slot"] = slots.astype(np.uint32)
        keys = {name: (key.parts, key.numbers.whole()) for name, key in self._keys.items()}
        sections |= _part_sections(keys, order, self._folder)
        changed = None
        if order is not None:
            changed = np.empty(len(order), np.uint32)
            changed[order] = np.arange(len(order), dtype=np.uint32)
        return changed, sections


def stacked(
    readers: "Sequence[IndexReader]", slots: Sequence[I64], folder: str | None
) -> tuple[dict[str, "Array | Column"], list[I64]]:
    """The sections of the records of several files together, and for each file the new number of each of its own.

    If no file has any there are no sections, and the numbers are those of slots.

    :param slots: for each file the new slot of each of its own, below zero for one that is left out; the last item
        stands for what the file does not cover
    :raises IndexFileError: if the parts are longer than offsets can say
    :raises OSError: if the disk is full, or fails
    """
    arrays = [reader.arrays() for reader in readers]
    if not any(reader.record_keys or "record.slot" in own for reader, own in zip(readers, arrays, strict=True)):
        return {}, list(slots)
    found = [
        own[each["record.slot"]] if "record.slot" in each else own[:-1] for each, own in zip(arrays, slots, strict=True)
    ]
    kept = [own >= 0 for own in found]
    together = np.concatenate([own[keep] for own, keep in zip(found, kept, strict=True)])
    order = np.argsort(together, kind="stable")
    sections: dict[str, Array | Column] = {}
    if len(together) and len(together) != int(together.max()) + 1:
        sections["record.slot"] = together[order].astype(np.uint32)
    keys = {}
    for name in dict.fromkeys(name for reader in readers for name in reader.record_keys):
        table = Texts(folder)
        columns = [_renumbered(name, each, table)[keep] for each, keep in zip(arrays, kept, strict=True)]
        keys[name] = table, np.concatenate(columns)
    sections |= _part_sections(keys, order, folder)
    changed = np.empty(len(order), np.int64)
    changed[order] = np.arange(len(order))
    numbers, begin = [], 0
    for own, keep in zip(found, kept, strict=True):
        number = np.full(len(own) + 1, -1, np.int64)
        count = int(np.count_nonzero(keep))
        number[:-1][keep] = changed[begin : begin + count]
        numbers.append(number)
        begin += count
    return sections, numbers


def _renumbered(name: str, arrays: Mapping[str, Array], table: Texts) -> Array:
    """The numbers of one file's parts of a key in a table, which grows."""
    if PART + name not in arrays:
        records = arrays["record.slot"] if "record.slot" in arrays else arrays["loc.locid"]
        return np.zeros(len(records), np.uint32)
    used, which = np.unique(arrays[PART + name], return_inverse=True)
    offsets, octets = arrays["parts.offsets"], arrays["parts.bytes"]
    new = [
        table.number(octets[begin:end].tobytes()) if end > begin else 0
        for begin, end in zip(offsets[used].tolist(), offsets[used.astype(np.int64) + 1].tolist(), strict=True)
    ]
    return np.array(new, np.uint32)[which.reshape(-1)]


def _part_sections(
    keys: Mapping[str, tuple[Texts, Array]], order: Array | None, folder: str | None
) -> dict[str, "Array | Column"]:
    """The sections of parts: for each key its distinct parts, and the number among them of each record's."""
    sections: dict[str, Array | Column] = {}
    offsets, octets = Column("i4", folder), Column("u1", folder)
    offsets.append(np.zeros(2, np.int32))  # part 0 is none
    # Keys of few parts come first, so that their numbers are small.
    for name, (parts, numbers) in sorted(keys.items(), key=lambda item: (len(item[1][0]), item[0])):
        first, most = len(offsets) - 2, len(offsets) - 2 + len(parts)
        column = numbers if order is None else numbers[order]
        column = np.where(column, column + np.uint32(first), np.uint32(0))
        sections[PART + name] = column.astype(np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.uint32)
        own_offsets, own_octets = parts.sections()
        shift = len(octets)
        if shift + len(own_octets) > _LARGEST_I32:
            raise too_long(shift + len(own_octets))
        for piece in own_octets.parts():
            octets.append(piece)
        offsets.append(own_offsets.whole()[2:] + np.int32(shift))
    if keys:
        sections["parts.offsets"], sections["parts.bytes"] = offsets, octets
    return sections


class _Numbers:
    """Whole numbers of 32 bits that grow at their end."""

    def __init__(self, folder: str | None) -> None:
        self._newest = array("I")
        self._column = Column("u4", folder)

    def append(self, number: int) -> None:
        self._newest.append(number)
        if len(self._newest) == _KEPT:
            self._keep()

    def extend(self, zeros: int) -> None:
        self._keep()
        self._column.append(np.zeros(zeros, np.uint32))

    def _keep(self) -> None:
        self._column.append(np.frombuffer(self._newest, np.uint32))
        self._newest = array("I")

    def whole(self) -> Array:
        self._keep()
        found = self._column.whole()
        self._column.close()
        return found


class _Key:
    """One key: its distinct parts, and the number of each record's."""

    def __init__(self, folder: str | None, before: int) -> None:
        """:param before: how many records came before the first that has the key"""
        self.parts = Texts(folder)
        self.numbers = _Numbers(folder)
        self.numbers.extend(before)

    def append(self, part: bytes) -> None:
        self.numbers.append(self.parts.number(part) if part else 0)
