"""How many addresses each location answers: one number a location, whatever the length of what is counted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.counts.distinct import Distinct
from geolookup.columns.kernel import ABSENT, BAD, EMPTY, OVERLAY, SlotFinder, Slots
from geolookup.index.reader import IndexReader
from geolookup.model.addresses import to_text

Numbers = NDArray[np.int64]

_SLOT: Final = np.uint32(~OVERLAY & EMPTY)


class Tally:
    """Counts tokens by the location that answers for them, in one snapshot.

    ``layers`` are the default and the custom layer with the count of each of their slots; ``covered`` and
    ``not_covered`` count tokens. What is not an address is not counted.
    """

    def __init__(self, base: IndexReader, overlay: IndexReader, finder: SlotFinder | None = None) -> None:
        self._finder = finder or SlotFinder(base, overlay)
        self.layers = tuple((reader, np.zeros(reader.location_count, np.int64)) for reader in (base, overlay))
        self.covered = self.not_covered = 0

    def anew(self) -> "Tally":
        """A tally of the same snapshot in which nothing is counted yet."""
        (base, _), (overlay, _) = self.layers
        return Tally(base, overlay, self._finder)

    def add(self, found: Mapping[bytes, int]) -> list[bytes]:
        """Count tokens, each as often as ``found`` says; returns those that are not addresses."""
        tokens = list(found)
        times = np.fromiter(found.values(), np.int64, len(tokens))
        slots = self._slots(tokens)
        self._add(slots, times)
        return [tokens[row] for row in np.flatnonzero(slots == BAD).tolist()]

    def add_distinct(self, found: Distinct) -> None:
        """Count each address of a set once."""
        for numbers in found.fours():
            slots = self._finder.integers(np.ascontiguousarray(numbers).data, None, 0, len(numbers), bits=32)
            self._add(slots, np.ones(len(slots), np.int64))
        for many in found.sixes():
            slots = self._slots([to_text(6, value).encode("ascii") for value in many])
            self._add(slots, np.ones(len(slots), np.int64))

    def _slots(self, tokens: Sequence[bytes]) -> Slots:
        offsets = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)), out=offsets[1:])
        return self._finder.strings(b"".join(tokens), offsets.data, None, 0, len(tokens), large=True)

    def _add(self, slots: Slots, times: Numbers) -> None:
        is_base = slots < OVERLAY
        is_over = (slots >= OVERLAY) & (slots < ABSENT)
        for (_, counts), chosen in zip(self.layers, (is_base, is_over), strict=True):
            np.add.at(counts, slots[chosen] & _SLOT, times[chosen])
        self.covered += _sum(times[is_base | is_over])
        self.not_covered += _sum(times[slots == EMPTY])


def _sum(times: Any) -> int:
    return int(times.sum())
