"""Whether a point is in a country, by the bundled outlines."""

from typing import Any

import pytest

from geolookup.sources.outlines import is_far, is_in, may_be_in, misfits

PLACES = {
    "DE": (52.52, 13.4),
    "FR": (48.85, 2.35),
    "AU": (-33.87, 151.2),
    "US": (21.3, -157.8),
    "JP": (35.68, 139.69),
    "MT": (35.9, 14.5),
    "CH": (47.4, 8.5),
    "NO": (59.9, 10.75),
    "KE": (-1.3, 36.8),
    "NG": (6.5, 3.4),
    "SG": (1.35, 103.8),
    "NZ": (-43.9, -176.5),
}


def fields(country: str, latitude: float | None, longitude: float | None) -> dict[str, Any]:
    return {"country": country, "latitude": latitude, "longitude": longitude}


@pytest.mark.parametrize("country", PLACES)
def test_a_place_is_in_its_country_and_swapped_it_is_told(country: str) -> None:
    latitude, longitude = PLACES[country]
    assert may_be_in(country, latitude, longitude)
    assert not is_far(fields(country, latitude, longitude))
    assert list(misfits(fields(country, latitude, longitude))) == []
    swapped = [field for field, _ in misfits(fields(country.lower(), longitude, latitude))]
    # Both ways lie in Nigeria, or near to it: then it cannot be told.
    assert swapped == ([] if country == "NG" else ["latitude"])


def test_without_a_country_an_outline_or_coordinates_nothing_is_told() -> None:
    for each in (fields("", 13.4, 52.5), fields("ZZ", 13.4, 52.5), fields("DE", None, None), fields("DE", 1.0, None)):
        assert list(misfits(each)) == []
        assert not is_far(each)


def test_what_is_far_both_ways_is_only_far() -> None:
    assert is_far(fields("DE", -33.87, 151.2 - 90))
    assert list(misfits(fields("DE", -33.87, 61.2))) == []


def test_a_hole_of_the_coast_is_still_the_country_and_the_sea_is_not() -> None:
    assert is_in("AU", -33.87, 151.25)
    assert not is_in("AU", -33.87, 155.0)
    assert not is_in("DE", 48.85, 2.35)
