"""The records of a source: for each number that blocks have, the place, and all else that the source says of it."""

from array import array
from collections.abc import Mapping

import numpy as np

from geolookup.index.flatten import U32, Flags
from geolookup.sources.blocks import MASKED, NO_V4, NO_V6, Batch, BlocksV4, BlocksV6

#: In place of the place of a weak record: it says something of its addresses, but not where they are.
NOWHERE = 0xFFFF_FFFE


class _Key:
    """One key: its distinct parts by number, from 1 on, and the number of each record's, 0 for none."""

    def __init__(self, before: int) -> None:
        """:param before: how many records came before the first that has the key"""
        self.parts = [b""]
        self.numbers = array("I", bytes(4 * before))
        self.known: dict[bytes, int] = {}

    def number(self, part: bytes) -> int:
        """The number of a part that is not ``known`` yet."""
        found = self.known[part] = len(self.parts)
        self.parts.append(part)
        return found


class Records:
    """Records by number, from 0 in the order in which they were added; equal ones are one.

    A record takes four bytes for its place and four for each key, and each distinct part of a key is there once.
    """

    def __init__(self) -> None:
        self._places = array("I")
        self._keys: dict[str, _Key] = {}
        self._index: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, place: int | None, parts: Mapping[str, bytes]) -> int:
        """The number of the record of a place (its number among `Places`) with these parts by their keys.

        Without a place it is weak.
        """
        for name in parts:
            if name not in self._keys:
                self._keys[name] = _Key(len(self._places))
        row = [NOWHERE if place is None else place]
        for name, key in self._keys.items():
            part = parts.get(name)
            row.append(0 if part is None else key.known.get(part) or key.number(part))
        while len(row) > 1 and not row[-1]:  # keys that others brought later do not make it another record
            row.pop()
        own = array("I", row).tobytes()
        number = self._index.get(own)
        if number is None:
            number = self._index[own] = len(self._places)
            self._places.append(row[0])
            row += [0] * (len(self._keys) + 1 - len(row))
            for key, part_number in zip(self._keys.values(), row[1:], strict=True):
                key.numbers.append(part_number)
        return number

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that some record has."""
        return tuple(self._keys)

    def column(self, key: str, numbers: U32) -> U32:
        """The numbers of the parts of a key that these records have; 0 for none."""
        return np.frombuffer(self._keys[key].numbers, np.uint32)[numbers]

    def part(self, key: str, number: int) -> bytes:
        """A part of a key by its number."""
        return self._keys[key].parts[number]

    def places(self, numbers: U32) -> U32:
        """The places of records, `NOWHERE` for weak ones, and `MASKED` as it is."""
        if not len(self._places):
            return numbers
        masked = numbers == MASKED
        known: U32 = np.frombuffer(self._places, np.uint32)[np.where(masked, 0, numbers)]
        known[masked] = MASKED
        return known

    def apart(self, batch: Batch) -> tuple[Batch, Batch]:
        """The blocks whose records say a place, and the others."""
        four, six = batch
        weak = self.are_weak(four.place), self.are_weak(six.place)
        if not weak[0].any() and not weak[1].any():
            return batch, Batch(NO_V4, NO_V6)
        strong, others = (
            Batch(
                BlocksV4._make(column[weak[0] == kind] for column in four),
                BlocksV6._make(column[weak[1] == kind] for column in six),
            )
            for kind in (False, True)
        )
        return strong, others

    def are_weak(self, numbers: U32) -> Flags:
        """Which of these records say no place."""
        weak: Flags = self.places(numbers) == NOWHERE
        return weak

    def as_places(self, batch: Batch) -> Batch:
        """A batch with the numbers of places in place of those of records."""
        four, six = batch
        return Batch(four._replace(place=self.places(four.place)), six._replace(place=self.places(six.place)))
