"""How many addresses each country answers, of what is served now: one walk over the segments of both layers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.segments import segments_v4
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.types import Layer


class Answering:
    """The IPv4 addresses that each location answers, as lookups do: the custom layer first."""

    def __init__(self, base: IndexReader, overlay: IndexReader) -> None:
        self.base, self.overlay = base, overlay
        (base_first, base_slots), (over_first, over_slots) = segments_v4(base), segments_v4(overlay)
        first = np.union1d(base_first, over_first)
        sizes = np.diff(np.append(first.astype(np.int64), IPV4_MAX + 1))
        over = over_slots[np.searchsorted(over_first, first, "right") - 1]
        under = base_slots[np.searchsorted(base_first, first, "right") - 1]
        under[over != EMPTY] = EMPTY
        self._counts = [
            (reader, _summed(slots, sizes, reader.location_count)) for reader, slots in ((base, under), (overlay, over))
        ]

    def by_country(self, layer: Layer | None = None, source: str | None = None) -> dict[str, int]:
        """The addresses of each country's code, those with the most first; only of one layer or source if it is given.

        The source of the custom layer is ``custom``, and that of an index that names none ``service``.
        """
        found: dict[str, int] = {}
        for reader, counts in self._counts:
            if layer not in (None, reader.layer):
                continue
            chosen = counts if source is None else np.where(_is_of(reader, source), counts, 0)
            slots = np.flatnonzero(chosen)
            codes, where, inverse = np.unique(
                reader.arrays()["loc.country"][slots], return_index=True, return_inverse=True
            )
            sums = np.zeros(len(codes), np.int64)
            np.add.at(sums, inverse, chosen[slots])
            for slot, number in zip(slots[where].tolist(), sums.tolist(), strict=True):
                code = reader.country(slot)
                found[code] = found.get(code, 0) + number
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _summed(slots: NDArray[np.uint32], sizes: NDArray[np.int64], locations: int) -> NDArray[np.int64]:
    counts = np.zeros(locations, np.int64)
    covered = slots != EMPTY
    np.add.at(counts, slots[covered], sizes[covered])
    return counts


def _is_of(reader: IndexReader, source: str) -> Any:
    """Which locations are of a source."""
    if reader.layer == "custom":
        return source == "custom"
    names = reader.sources or ("service",)
    if source not in names:
        return False
    numbers = reader.arrays().get("loc.source")
    return names.index(source) == (0 if numbers is None else numbers)
