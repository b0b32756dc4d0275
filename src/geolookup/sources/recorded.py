"""The records of a source: for each number that blocks have, the place, and all else that the source says of it."""

import itertools
from array import array
from collections.abc import Mapping, Sequence

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

    A record takes four bytes for its place and four for each key, and each distinct part of a key is there once. What
    finds equal ones is kept of those only that are not the first of their place: most places have one.
    """

    def __init__(self) -> None:
        self._places = array("I")
        self._keys: dict[str, _Key] = {}
        #: For each place the number of its first record, or `NOWHERE`.
        self._first = array("I")
        self._index: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, place: int | None, parts: Mapping[str, bytes]) -> int:
        """The number of the record of a place (its number among `Places`) with these parts by their keys.

        Without a place it is weak.
        """
        keys = self._keys
        row = dict.fromkeys(keys, 0)
        for name, part in parts.items():
            key = self._key(name)
            row[name] = key.known.get(part) or key.number(part)
        if place is None:
            return self._again(NOWHERE, row)
        first = self._first
        if place >= len(first):
            first.extend([NOWHERE] * (place + 1 - len(first)))
        if first[place] == NOWHERE:
            first[place] = number = self._append(place, row)
            return number
        number = first[place]
        if all(keys[name].numbers[number] == part for name, part in row.items()):
            return number
        return self._again(place, row)

    def _again(self, place: int, row: Mapping[str, int]) -> int:
        """The number of a record that is weak, or not the first of its place."""
        numbers = [place, *row.values()]
        while len(numbers) > 1 and not numbers[-1]:  # keys that others brought later do not make it another record
            numbers.pop()
        own = array("I", numbers).tobytes()
        number = self._index.get(own)
        if number is None:
            number = self._index[own] = self._append(place, row)
        return number

    def _append(self, place: int, row: Mapping[str, int]) -> int:
        self._places.append(place)
        for key, part in zip(self._keys.values(), row.values(), strict=True):
            key.numbers.append(part)
        return len(self._places) - 1

    def part_numbers(self, name: str, parts: Sequence[bytes]) -> U32:
        """The numbers of parts of a key, for `extend`; 0 of an empty one, which is none."""
        key = self._key(name)
        return np.array([(key.known.get(part) or key.number(part)) if part else 0 for part in parts], np.uint32)

    def _key(self, name: str) -> _Key:
        if name not in self._keys:
            self._keys[name] = _Key(len(self._places))
        return self._keys[name]

    def extend(self, places: U32, parts: Mapping[str, U32]) -> U32:
        """`add` for many records, none of which is weak: by key the numbers of their parts."""
        nothing = np.zeros(len(places), np.uint32)
        columns = {name: parts.get(name, nothing) for name in self._keys}
        room = int(places.max(initial=0)) + 1 - len(self._first)
        self._first.extend(array("I", [NOWHERE]) * room)
        distinct, begins = np.unique(places, return_index=True)
        begins = np.sort(begins[np.frombuffer(self._first, np.uint32)[distinct] == NOWHERE])
        if len(begins):
            for place, number in zip(places[begins].tolist(), itertools.count(len(self))):
                self._first[place] = number
            self._places.frombytes(places[begins].tobytes())
            for name, key in self._keys.items():
                key.numbers.frombytes(columns[name][begins].tobytes())
        found = np.frombuffer(self._first, np.uint32)[places]
        others = np.zeros(len(places), np.bool_)
        for name, column in columns.items():
            others |= self.column(name, found) != column
        rows = np.stack([places[others], *(column[others] for column in columns.values())], axis=1)
        if len(rows):
            different, which = np.unique(rows, axis=0, return_inverse=True)
            numbers = [self._again(row[0], dict(zip(columns, row[1:], strict=True))) for row in different.tolist()]
            found[others] = np.array(numbers, np.uint32)[which.reshape(-1)]
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The keys that some record has."""
        return tuple(self._keys)

    def column(self, key: str, numbers: U32) -> U32:
        """The numbers of the parts of a key that these records have; 0 for none."""
        return np.frombuffer(self._keys[key].numbers, np.uint32)[numbers]

    def part_count(self, key: str) -> int:
        """The number of the parts of a key, and of none."""
        return len(self._keys[key].parts)

    def seal(self) -> None:
        """Say that no more records come: frees what only adding needs."""
        self._index = {}
        self._first = array("I")
        for key in self._keys.values():
            key.known = {}

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
