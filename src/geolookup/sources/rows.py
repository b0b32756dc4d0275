"""From chunks of CSV rows to batches of blocks: what the kinds that are CSV share."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from geolookup.index.flatten import U32
from geolookup.sources.files.table import Chunk
from geolookup.sources.places import BadFieldError, PlaceFields
from geolookup.sources.protocol import Gathered

_Key = TypeVar("_Key", bound=Hashable)
_MOST_KEYS = 1 << 20
_NOWHERE = -1


class PlaceNumbers(Generic[_Key]):
    """The place of each row by the row's own texts, so that each distinct text is understood once.

    ``make`` makes the fields of a key, or None for a row that covers nothing; it may raise BadFieldError. With
    ``empty_covers`` a row without country, region, city and postal code is a place like any other.
    """

    def __init__(
        self, gathered: Gathered, make: Callable[[_Key], PlaceFields | None], *, empty_covers: bool = False
    ) -> None:
        self._gathered = gathered
        self._make = make
        self._empty_covers = empty_covers
        self._known: dict[_Key, int | str] = {}

    def of(self, chunk: Chunk, keys: Sequence[_Key]) -> tuple[Chunk, U32]:
        """The rows of a chunk that have a place, and its number for each; the others are counted."""
        known = self._known
        if len(known) > _MOST_KEYS:
            known.clear()
        found = [self._find(key) if (number := known.get(key)) is None else number for key in keys]
        good = [at for at, number in enumerate(found) if type(number) is int and number >= 0]
        if len(good) < len(found):
            for at, number in enumerate(found):
                if isinstance(number, str):
                    chunk.bad(at, number)
                elif number == _NOWHERE:
                    self._gathered.rows_without_location += 1
            chunk = Chunk(
                [chunk.rows[at] for at in good],
                [chunk.numbers[at] for at in good],
                [chunk.lines[at] for at in good],
                chunk.gathered,
            )
            found = [found[at] for at in good]
        return chunk, np.asarray(found, np.uint32)

    def _find(self, key: _Key) -> int | str:
        try:
            place = self._make(key)
        except BadFieldError as error:
            found: int | str = str(error)
        else:
            if place is None or not (self._empty_covers or place.covers()):
                found = _NOWHERE
            else:
                found = self._gathered.places.add(place)
        self._known[key] = found
        return found
