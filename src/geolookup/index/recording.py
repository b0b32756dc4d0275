"""The records of an index that is being built: for each its location, and for each key the number of its part."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from geolookup.index.flatten import I64, U32, Array, in_order
from geolookup.index.layout import EMPTY, PART
from geolookup.index.mapped import damaged
from geolookup.index.scratch import Column, Texts, too_long
from geolookup.model.errors import IndexFileError

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_LARGEST_I32 = (1 << 31) - 1


class RecordColumns:
    """Collects records. With a folder, memory grows with the distinct parts only."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._count = 0
        self._slots = Column("u4", folder)
        self._keys: dict[str, _Key] = {}

    def __len__(self) -> int:
        return self._count

    def parts(self, name: str) -> Texts:
        """The parts of a key."""
        if name not in self._keys:
            self._keys[name] = _Key(self._folder, self._count)
        return self._keys[name].parts

    def part(self, name: str, part: bytes) -> int:
        """The number of a part of a key.

        :raises OSError: if the disk is full, or fails
        """
        return self.parts(name).number(part) if part else 0

    def add(self, slot: int, parts: Mapping[str, bytes]) -> int:
        """Add a record of a location, or of none if the slot is `EMPTY`: its number.

        :raises OSError: if the disk is full, or fails
        """
        numbers = {name: np.array([self.part(name, part)], np.uint32) for name, part in parts.items()}
        return self.extend(np.array([slot], np.uint32), numbers)

    def extend(self, slots: U32, parts: Mapping[str, U32]) -> int:
        """Add many records, of each key the numbers of their parts: the number of the first.

        :raises OSError: if the disk is full, or fails
        """
        first = self._count
        self._slots.append(slots)
        for name, key in self._keys.items():
            key.numbers.append(parts[name] if name in parts else np.zeros(len(slots), np.uint32))
        self._count += len(slots)
        return first

    def facts(self) -> dict[str, "Array | Column"]:
        """The sections of records that are all of no location: those of a layer of networks.

        :raises IndexFileError: if the parts are longer than offsets can say
        :raises OSError: if the disk is full, or fails
        """
        self._slots.close()
        return part_sections(self._numbers(), self._folder)

    def _numbers(self) -> dict[str, tuple[Texts, Array]]:
        return {PART + name: (key.parts, key.numbers.whole()) for name, key in self._keys.items()}

    def sections(
        self, renumbered: Array | None, locations: int
    ) -> tuple[Array | None, int, dict[str, "Array | Column"]]:
        """The new number of each record, or None if they stay, the first that is weak, and the sections that hold them.

        :param renumbered: the new slot of each location, or None if they stay
        :raises IndexFileError: if a location has no record, or the parts are longer than offsets can say
        :raises OSError: if the disk is full, or fails
        """
        slots = self._slots.whole()
        self._slots.close()
        if renumbered is not None:
            slots = np.append(renumbered, np.uint32(EMPTY))[np.minimum(slots, len(renumbered))]
        order = in_order([slots])
        if order is not None:
            slots = slots[order]
        weak = int(np.searchsorted(slots, EMPTY))
        if len(np.unique(slots[:weak])) != locations:
            raise IndexFileError("a location has no record")
        sections: dict[str, Array | Column] = {}
        if len(slots) != locations:
            sections["record.slot"] = slots.astype(np.uint32)
        sections |= part_sections(self._numbers(), self._folder, order)
        changed = None
        if order is not None:
            changed = np.empty(len(order), np.uint32)
            changed[order] = np.arange(len(order), dtype=np.uint32)
        return changed, weak, sections


def stacked(
    readers: "Sequence[IndexReader]", slots: Sequence[I64], folder: str | None
) -> tuple[dict[str, "Array | Column"], list[I64], int]:
    """The sections of the records of several files together, for each file the new number of each of its own, and the
    first that is weak.

    If no file has any there are no sections, and the numbers are those of slots.

    :param slots: for each file the new slot of each of its own, below zero for one that is left out; the last item
        stands for what the file does not cover
    :raises IndexFileError: if the parts are longer than offsets can say
    :raises OSError: if the disk is full, or fails
    """
    arrays = [reader.arrays() for reader in readers]
    names = [
        [each.removeprefix(PART) for each in own if each.startswith(PART)] for own in arrays
    ]  # those of sites, too
    if not any(own_names or "record.slot" in own for own_names, own in zip(names, arrays, strict=True)):
        return {}, list(slots), EMPTY
    found = [
        np.append(own[:-1], EMPTY)[np.minimum(each["record.slot"], len(own) - 1)] if "record.slot" in each else own[:-1]
        for each, own in zip(arrays, slots, strict=True)
    ]
    kept = [own >= 0 for own in found]
    together = np.concatenate([own[keep] for own, keep in zip(found, kept, strict=True)])
    order = np.argsort(together, kind="stable")
    weak = int(np.searchsorted(together[order], EMPTY))
    sections: dict[str, Array | Column] = {}
    if len(together) and len(together) != int(together.max()) + 1:
        sections["record.slot"] = together[order].astype(np.uint32)
    if weak < len(together) and len(readers) > 1:  # of all others the location says it
        source = [np.full(np.count_nonzero(keep), number, np.uint8) for number, keep in enumerate(kept)]
        sections["record.source"] = np.concatenate(source)[order]
    keys = {}
    for name in dict.fromkeys(name for own_names in names for name in own_names):
        table = Texts(folder)
        columns = [renumbered_parts(reader, name, table)[keep] for reader, keep in zip(readers, kept, strict=True)]
        keys[PART + name] = table, np.concatenate(columns)
    sections |= part_sections(keys, folder, order)
    changed = np.empty(len(order), np.int64)
    changed[order] = np.arange(len(order))
    numbers, begin = [], 0
    for own, keep in zip(found, kept, strict=True):
        number = np.full(len(own) + 1, -1, np.int64)
        count = int(np.count_nonzero(keep))
        number[:-1][keep] = changed[begin : begin + count]
        numbers.append(number)
        begin += count
    return sections, numbers, weak


def renumbered_parts(reader: "IndexReader", name: str, table: Texts) -> Array:
    """The numbers of one file's parts of a key in a table, which grows.

    :raises IndexDamagedError: if the file is damaged there
    """
    arrays = reader.arrays()
    if PART + name not in arrays:
        records = arrays["record.slot"] if "record.slot" in arrays else arrays["loc.locid"]
        return np.zeros(len(records), np.uint32)
    used, which = np.unique(arrays[PART + name], return_inverse=True)
    offsets, octets = arrays["parts.offsets"], arrays["parts.bytes"]
    if int(used.max(initial=0)) >= len(offsets) - 1:
        raise damaged(reader.path, f"{PART}{name} names a part that is not there")
    new = [
        table.number(octets[begin:end].tobytes()) if end > begin else 0
        for begin, end in zip(offsets[used].tolist(), offsets[used.astype(np.int64) + 1].tolist(), strict=True)
    ]
    return np.array(new, np.uint32)[which.reshape(-1)]


def part_sections(
    keys: Mapping[str, tuple[Texts, Array]], folder: str | None, order: Array | None = None
) -> dict[str, "Array | Column"]:
    """The sections of parts: of each key, by its section, the distinct parts, and the number of each record's.

    :param order: the records in the order that they get, or None if they stay
    :raises IndexFileError: if the parts are longer than offsets can say
    :raises OSError: if the disk is full, or fails
    """
    sections: dict[str, Array | Column] = {}
    offsets, octets = Column("i4", folder), Column("u1", folder)
    offsets.append(np.zeros(2, np.int32))  # part 0 is none
    # Keys of few parts come first, so that their numbers are small.
    for name, (parts, numbers) in sorted(keys.items(), key=lambda item: (len(item[1][0]), item[0])):
        first, most = len(offsets) - 2, len(offsets) - 2 + len(parts)
        column = numbers if order is None else numbers[order]
        column = np.where(column, column + np.uint32(first), np.uint32(0))
        sections[name] = column.astype(np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.uint32)
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


class _Key:
    """One key: its distinct parts, and the number of each record's."""

    def __init__(self, folder: str | None, before: int) -> None:
        """:param before: how many records came before the first that has the key"""
        self.parts = Texts(folder)
        self.numbers = Column("u4", folder)
        self.numbers.append(np.zeros(before, np.uint32))
