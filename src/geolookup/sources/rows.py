"""From chunks of CSV rows to batches of blocks: what the kinds that are CSV share."""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from geolookup.files.tables import Chunk
from geolookup.index.flatten import U32, Array
from geolookup.sources.blocks import Batch, BlocksV4, BlocksV6, NetworkBatch
from geolookup.sources.facts import SAID_BEFORE, of_texts, path_of_fact, said_before
from geolookup.sources.places import BadFieldError, PlaceFields
from geolookup.sources.protocol import Gathered, KeptKey
from geolookup.sources.shape import OURS, Leaf, Shape, hollow

Key: TypeAlias = tuple[str, ...]

_MOST_KEYS = 1 << 20
#: In place of the number of a row that says nothing.
NOWHERE = -1
#: Below it are bad keys: `_FIRST_BAD` less the position of the reason.
_FIRST_BAD = -2
#: In place of the number of a record, or of facts, of which a row of both has none.
_NOTHING = 0xFFFF_FFFF


def keys_of(chunk: Chunk, positions: Sequence[int]) -> list[Key]:
    """The values of each row in these columns."""
    if len(positions) > 1:
        return list(map(itemgetter(*positions), chunk.rows))
    return [tuple([row[at] for at in positions]) for row in chunk.rows]


def says_nothing_more(_key: Key, _place: PlaceFields | None) -> dict[str, bytes]:
    """The parts of the records of a table that has none but our fields."""
    return {}


class Columns:
    """The columns of a table: what its rows say besides our fields becomes parts of their records.

    A row that says no more than our fields has none: its record is made of those.
    """

    def __init__(self, columns: Sequence[str], fields: Mapping[str, str], *, nothing: str = "") -> None:
        """
        :param columns: those of keys, in their order
        :param fields: the column of each of our fields
        :param nothing: a text that stands for an unknown value
        """
        ours = {column: name for name, column in fields.items()}
        self._shape = Shape(complete=True)
        self._plan = self._shape.plan(tuple(OURS + ours[column] if column in ours else column for column in columns))
        self._country = columns.index(fields["country"]) if "country" in fields else None
        self._more = [at for at, column in enumerate(columns) if column not in ours]
        self._nothing = ("", nothing)

    def says(self, key: Key, place: PlaceFields | None) -> dict[str, bytes]:
        """The parts of the record of a row's values; without a place it is weak."""
        values: list[Leaf] = ["" if (text := value.strip()) in self._nothing else text for value in key]
        if place is None:
            return self._plan(values, "")
        if not any(values[at] for at in self._more):
            return {}
        for at, name, _ in self._plan.degrees:
            if values[at]:
                values[at] = hollow(values[at], values[at], getattr(place, name))
        if self._country is not None:
            values[self._country] = place.country
        return self._plan(values, place.country)

    def kept(self) -> list[KeptKey]:
        """The columns that hold none of our fields, and how many distinct rows have them."""
        return [each for each in self._shape.kept() if not each.key.startswith(OURS)]


class PlaceNumbers:
    """The place of each row by the row's own texts, so that each distinct text is understood once.

    If the source has records, it is the number of the row's record in place of that of its place. ``make`` makes the
    fields of a key, or None for a row that covers nothing; it may raise BadFieldError. ``says`` makes the parts of the
    record of a key. With ``empty_covers`` a row without country, region, city and postal code is a place like any
    other.
    """

    def __init__(
        self,
        gathered: Gathered,
        make: Callable[[Key], PlaceFields | None],
        *,
        says: Callable[[Key, PlaceFields | None], Mapping[str, bytes]] = says_nothing_more,
        empty_covers: bool = False,
    ) -> None:
        self._gathered = gathered
        self._make = make
        self._says = says
        self._weak = False
        self._empty_covers = empty_covers
        self._known: dict[Key, int] = {}
        self._reasons: list[str] = []

    def of(self, chunk: Chunk, keys: Sequence[Key]) -> tuple[Chunk, U32]:
        """The rows of a chunk that have a place, and its number for each; the others are counted."""
        if len(self._known) > _MOST_KEYS:
            self._known.clear()
            self._reasons.clear()
        known = list(map(self._known.get, keys))
        if None in known:
            known = [self._number(key) for key in keys]
        found = np.array(known, np.int64)
        placed = found >= 0
        if not placed.all():
            self._gathered.rows_without_location += int(np.count_nonzero(found == NOWHERE))
            for at in np.flatnonzero(found <= _FIRST_BAD).tolist():
                chunk.bad(at, self._reasons[_FIRST_BAD - int(found[at])])
            chunk = chunk.only(np.flatnonzero(placed).tolist())
            found = found[placed]
        numbers: U32 = found.astype(np.uint32)
        self._gathered.rows_without_location += self._weak_among(numbers)
        return chunk, numbers

    def _weak_among(self, numbers: U32) -> int:
        """How many rows have records that name no place."""
        records = self._gathered.records
        return int(np.count_nonzero(records.are_weak(numbers))) if self._weak and records is not None else 0

    def meanings(self, numbers: U32) -> Array:
        """The places of the numbers of records: rows of one block that have others contradict each other."""
        return numbers if self._gathered.records is None else self._gathered.records.places(numbers)

    def _number(self, key: Key) -> int:
        number = self._known.get(key)
        return self._find(key) if number is None else number

    def _find(self, key: Key) -> int:
        try:
            found = self._added(key)
        except BadFieldError as error:
            found = _FIRST_BAD - len(self._reasons)
            self._reasons.append(str(error))
        self._known[key] = found
        return found

    def _added(self, key: Key) -> int:
        """The number of a key's place or record, or `NOWHERE`."""
        place = self._make(key)
        if place is not None and not (self._empty_covers or place.covers()):
            place = None
        return self._found(key, place)

    def _found(self, key: Key, place: PlaceFields | None) -> int:
        records = self._gathered.records
        number = None if place is None else self._gathered.places.add(place)
        if records is None:
            return NOWHERE if number is None else number
        parts = self._says(key, place)
        if number is None and not parts:
            return NOWHERE
        self._weak |= number is None
        return records.add(number, parts)


class FactNumbers(PlaceNumbers):
    """The number among `Gathered.networks` of each row's facts; of a row without any it says nothing."""

    def __init__(self, gathered: Gathered, facts: Callable[[Key], Mapping[str, bytes]]) -> None:
        """``facts`` may raise BadFieldError."""
        super().__init__(gathered, lambda _: None)
        self._facts = facts

    def _added(self, key: Key) -> int:
        facts = self._facts(key)
        return self._gathered.networks.add(None, facts) if facts else NOWHERE


class FactColumns:
    """The columns of a table that say who runs addresses."""

    def __init__(self, names: Mapping[str, str], *, nothing: Collection[str] = ()) -> None:
        """``names`` are those of the facts by column; texts in ``nothing`` say nothing."""
        self._names = names
        self._nothing = nothing
        self._counted: Counter[str] = Counter()
        #: How many rows have a column whose fact another one says, too: both by their names.
        self._doubled: Counter[tuple[str, str]] = Counter()

    def of(self, values: Sequence[str]) -> dict[str, bytes]:
        """The facts of the columns' values in a row.

        :raises BadFieldError: if a text cannot be what its name says
        """
        said = [
            (column, name, value)
            for (column, name), value in zip(self._names.items(), values, strict=True)
            if value and value not in self._nothing
        ]
        columns = {name: column for column, name, _ in reversed(said)}
        doubled = {name: columns[first] for name, first in said_before(name for _, name, _ in said).items()}
        for column, name, _ in said:
            if columns[name] != column or name in doubled:
                self._doubled[column, doubled.get(name, columns[name])] += 1
            else:
                self._counted[column] += 1
        return of_texts((name, value) for _, name, value in said)

    def kept(self) -> list[KeptKey]:
        """The columns, and how many distinct rows have them."""
        return [
            KeptKey(key=column, kept_as=path_of_fact(self._names[column]), records=count)
            for column, count in self._counted.items()
        ] + [
            KeptKey(key=column, kept_as="", records=count, reason=SAID_BEFORE.format(first))
            for (column, first), count in self._doubled.items()
        ]


class BothNumbers(PlaceNumbers):
    """Numbers for rows that say something of a place and of a network, or of a network only."""

    def __init__(
        self,
        gathered: Gathered,
        make: Callable[[Key], PlaceFields | None] | None,
        width: int,
        facts: FactColumns,
        *,
        says: Callable[[Key, PlaceFields | None], Mapping[str, bytes]] = says_nothing_more,
        empty_covers: bool = False,
    ) -> None:
        """``make`` and ``says`` are for the first ``width`` values of a key, ``facts`` for those behind them."""
        super().__init__(gathered, lambda _: None, says=says, empty_covers=empty_covers)
        self._place, self._width, self._facts = make, width, facts
        self._both = array("I"), array("I")
        self._positions: dict[tuple[int, int], int] = {}

    def _added(self, key: Key) -> int:
        facts = self._facts.of(key[self._width :])
        key = key[: self._width]
        place = None if self._place is None else self._place(key)
        # A row that leaves its place empty may say that there is none, but not if it says something else.
        if place is not None and not place.covers() and (not self._empty_covers or (facts and place == PlaceFields())):
            place = None
        number = NOWHERE if self._place is None else self._found(key, place)
        if number == NOWHERE and not facts:
            return NOWHERE
        both = (
            _NOTHING if number == NOWHERE else number,
            self._gathered.networks.add(None, facts) if facts else _NOTHING,
        )
        if both not in self._positions:
            self._positions[both] = len(self._positions)
            for numbers, each in zip(self._both, both, strict=True):
                numbers.append(each)
        return self._positions[both]

    def _of_both(self, numbers: U32) -> tuple[U32, U32]:
        places, networks = (np.frombuffer(known, np.uint32)[numbers] if known else numbers for known in self._both)
        return places, networks

    def _weak_among(self, numbers: U32) -> int:
        places, networks = self._of_both(numbers)
        return super()._weak_among(places[(places != _NOTHING) & (networks == _NOTHING)])

    def meanings(self, numbers: U32) -> Array:
        """The places, as of `PlaceNumbers`, and the facts."""
        places, networks = self._of_both(numbers)
        known = places != _NOTHING
        meant = np.full(len(places), _NOTHING, np.uint64)
        meant[known] = super().meanings(places[known])
        return meant << np.uint64(32) | networks

    def batches(self, batch: Batch) -> Iterator[Batch]:
        """The blocks of places and those of networks, of blocks with the numbers of both."""
        of_both = [self._of_both(family.place) for family in batch]
        for form, numbers in zip((Batch, NetworkBatch), zip(*of_both, strict=True), strict=True):
            four, six = batch.v4._replace(place=numbers[0]), batch.v6._replace(place=numbers[1])
            yield form(
                BlocksV4._make(column[four.place != _NOTHING] for column in four),
                BlocksV6._make(column[six.place != _NOTHING] for column in six),
            )
