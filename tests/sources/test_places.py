"""The table of places: many at once against each by itself, also where hashes are equal."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.fields import DEGREES, TEXT_NAMES
from geolookup.sources import places
from geolookup.sources.places import PlaceFields, Places
from tests.support.examples import examples

PLACES = st.builds(
    lambda **known: PlaceFields(**known),
    country=st.sampled_from(["", "DE", "FR"]),
    city=st.sampled_from(["", "Bonn", "Paris"]),
    latitude=st.sampled_from([None, 0.0, -0.0, 1.5]),
)
#: Batches, and whether a batch comes at once.
BATCHES = st.lists(st.tuples(st.lists(PLACES, max_size=12), st.booleans()), max_size=6)


def _at_once(table: Places, batch: list[PlaceFields]) -> list[int]:
    texts = {name: table.text_numbers([getattr(place, name) for place in batch]) for name in TEXT_NAMES}
    degrees = {
        name: np.array([np.nan if (value := getattr(place, name)) is None else value for place in batch], np.float64)
        for name in DEGREES
    }
    return table.extend(texts, degrees, len(batch)).tolist()


@pytest.mark.parametrize("kinds", [1, 3, 1 << 64])
def test_places_are_the_same_at_once_and_one_by_one(kinds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes: Callable[[np.ndarray], np.ndarray] = places._hashes
    monkeypatch.setattr(
        places, "_hashes", lambda rows: hashes(rows) % np.uint64(kinds) if kinds < 1 << 64 else hashes(rows)
    )

    @given(BATCHES)
    @examples(150)
    def compare(batches: list[tuple[list[PlaceFields], bool]]) -> None:
        table, known = Places(), dict[tuple[str | float | None, ...], int]()
        for batch, at_once in batches:
            numbers = _at_once(table, batch) if at_once and batch else [table.add(place) for place in batch]
            for place, number in zip(batch, numbers, strict=True):
                assert known.setdefault(tuple(place), number) == number
        assert sorted(known.values()) == list(range(len(table)))
        assert all(tuple(table[number]) == place for place, number in known.items())

    compare()
