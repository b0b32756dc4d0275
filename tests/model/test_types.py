"""The values that lookups answer with."""

import pickle

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation, geolocation_of

VALUES = ("DE", "BE", "Berlin", "10115", 52.5, None, "", "30")


def test_a_geolocation_made_of_a_row_is_the_one_that_its_constructor_makes() -> None:
    place = geolocation_of((7, *VALUES))
    constructed = Geolocation(locid=7, **dict(zip(FIELD_NAMES, VALUES, strict=True)))  # type: ignore[arg-type]
    assert (place, hash(place), repr(place)) == (constructed, hash(constructed), repr(constructed))
    assert pickle.loads(pickle.dumps(place)) == constructed
