"""From chunks of CSV rows to batches of blocks: what the kinds that are CSV share."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from geolookup.files.tables import Chunk
from geolookup.index.flatten import U32
from geolookup.sources.places import BadFieldError, PlaceFields
from geolookup.sources.protocol import Gathered

Key: TypeAlias = tuple[str, ...]

_MOST_KEYS = 1 << 20
#: In place of the number of a row that says nothing.
NOWHERE = -1
#: Below it are bad keys: `_FIRST_BAD` less the position of the reason.
_FIRST_BAD = -2


def keys_of(chunk: Chunk, positions: Sequence[int]) -> list[Key]:
    """The values of each row in these columns."""
    if len(positions) > 1:
        return list(map(itemgetter(*positions), chunk.rows))
    return [tuple([row[at] for at in positions]) for row in chunk.rows]


class PlaceNumbers:
    """The place of each row by the row's own texts, so that each distinct text is understood once.

    ``make`` makes the fields of a key, or None for a row that covers nothing; it may raise BadFieldError. With
    ``empty_covers`` a row without country, region, city and postal code is a place like any other.
    """

    def __init__(
        self, gathered: Gathered, make: Callable[[Key], PlaceFields | None], *, empty_covers: bool = False
    ) -> None:
        self._gathered = gathered
        self._make = make
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
        return chunk, found.astype(np.uint32)

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
        """The number of a key's place, or `NOWHERE`."""
        place = self._make(key)
        if place is None or not (self._empty_covers or place.covers()):
            return NOWHERE
        return self._gathered.places.add(place)


class FactNumbers(PlaceNumbers):
    """The number among `Gathered.networks` of each row's facts; of a row without any it says nothing."""

    def __init__(self, gathered: Gathered, facts: Callable[[Key], Mapping[str, bytes]]) -> None:
        """``facts`` may raise BadFieldError."""
        super().__init__(gathered, lambda _: None)
        self._facts = facts

    def _added(self, key: Key) -> int:
        facts = self._facts(key)
        return self._gathered.networks.add(None, facts) if facts else NOWHERE
