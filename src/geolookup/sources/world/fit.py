"""Whether what a person wrote of a place fits together: the country is a code, and the coordinates lie in it."""

from collections.abc import Iterator, Mapping
from typing import Any

from geolookup.model.countries import wrong_country
from geolookup.model.fields import DEGREES
from geolookup.sources.world.outlines import is_in, may_be_in


def misfits(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What cannot be meant, each with its field: a country in words, coordinates in the wrong order.

    The order is wrong for certain if the point is far from the country, and lies in it the other way round, or if a
    latitude is no latitude and would be a longitude. It cannot be told without a country, for a country without an
    outline, and near the equator if both ways lie in the country.
    """
    country, latitude, longitude = fields["country"], fields["latitude"], fields["longitude"]
    if (wrong := wrong_country(country)) is not None:
        yield "country", wrong
    if not isinstance(latitude, float) or not isinstance(longitude, float):
        return
    most, asked = DEGREES["latitude"], "are latitude and longitude swapped?"
    if abs(latitude) > most:
        if abs(longitude) <= most and abs(latitude) <= DEGREES["longitude"]:
            yield "latitude", f"latitude is a number of degrees from -{most} to {most}, not {latitude}: {asked}"
    elif abs(longitude) <= most and is_swapped(country, latitude, longitude):
        there = f"latitude {latitude:g}, longitude {longitude:g} is not in {country}"
        yield "latitude", f"{there}, and would be with the two swapped: {asked}"


def is_swapped(country: str, latitude: float, longitude: float) -> bool:
    """Whether a point is far from a country, and in it with latitude and longitude in each other's place."""
    code = country.upper()
    return not may_be_in(code, latitude, longitude) and is_in(code, longitude, latitude)


def is_far(fields: Mapping[str, Any]) -> bool:
    """Whether the coordinates are far from the country that is named: it may be right, and seldom is."""
    country, latitude, longitude = fields["country"], fields["latitude"], fields["longitude"]
    known = bool(country) and latitude is not None and longitude is not None
    return known and not may_be_in(country.upper(), latitude, longitude)
