"""The outlines of the countries, and whether a place fits its country: a code whose outline holds the coordinates.

The outlines are those of Natural Earth that are bundled.
"""

import functools
import gzip
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

from geolookup.model.countries import wrong_country
from geolookup.model.fields import DEGREES

Topology: TypeAlias = dict[str, Any]
#: Longitude and latitude.
Point: TypeAlias = tuple[float, float]
#: West, south, east and north in degrees.
Box: TypeAlias = tuple[float, float, float, float]

#: Outlines leave out small islands and bays: a point that is no farther from a part of a country may be in it.
_NEAR_DEGREES: Final = 1.0
#: And so far from the coast a town may seem to be.
_COAST_DEGREES: Final = 0.25


@functools.cache
def detailed() -> Topology:
    """TopoJSON of the countries, in as much detail as is bundled; each has its code of two letters as its id."""
    packed = importlib.resources.files("geolookup_data").joinpath("outlines-detail.json.gz").read_bytes()
    found: Topology = json.loads(gzip.decompress(packed))
    return found


def may_be_in(code: str, latitude: float, longitude: float) -> bool:
    """True if a point may be in a country: it is near to the box of one of its parts, or the outline is unknown."""
    parts = _parts(code)
    return not parts or any(
        west - _NEAR_DEGREES <= longitude <= east + _NEAR_DEGREES
        and south - _NEAR_DEGREES <= latitude <= north + _NEAR_DEGREES
        for (west, south, east, north), _ in parts
    )


def is_in(code: str, latitude: float, longitude: float) -> bool:
    """True if a point is in a country, or at its coast; false if the outline is unknown."""
    return any(
        _inside(ring, longitude, latitude)
        or any(abs(x - longitude) < _COAST_DEGREES and abs(y - latitude) < _COAST_DEGREES for x, y in ring)
        for _, ring in _parts(code)
    )


@functools.cache
def _parts(code: str) -> tuple[tuple[Box, tuple[Point, ...]], ...]:
    """The outer ring of each part of a country, with its box."""
    found = []
    for geometry in detailed()["objects"]["countries"]["geometries"]:
        if geometry.get("id") != code:
            continue
        polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
        for polygon in polygons:
            ring = tuple(point for number in polygon[0] for point in _arc(number))
            xs, ys = zip(*ring, strict=True)
            found.append(((min(xs), min(ys), max(xs), max(ys)), ring))
    return tuple(found)


def _arc(number: int) -> list[Point]:
    """The points of an arc (TopoJSON 1.0, section 2.1.3: each is the difference from the one before).

    A number below zero is the complement of that of an arc walked backwards.
    """
    topology = detailed()
    (wide, high), (left, low) = topology["transform"]["scale"], topology["transform"]["translate"]
    arc = topology["arcs"][number if number >= 0 else ~number]
    xs, ys = accumulate(point[0] for point in arc), accumulate(point[1] for point in arc)
    points = [(x * wide + left, y * high + low) for x, y in zip(xs, ys, strict=True)]
    return points if number >= 0 else points[::-1]


def _inside(ring: tuple[Point, ...], x: float, y: float) -> bool:
    """True if a ring goes round a point: a line from it to the east meets the ring an odd number of times."""
    inside = False
    for (x1, y1), (x2, y2) in pairwise((*ring, ring[0])):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            inside = not inside
    return inside


def misfits(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values that cannot be meant, each with its field: a country in words, coordinates in the wrong order.

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
    elif abs(longitude) <= most and _is_swapped(country, latitude, longitude):
        there = f"latitude {latitude:g}, longitude {longitude:g} is not in {country}"
        yield "latitude", f"{there}, and would be with the two swapped: {asked}"


def _is_swapped(country: str, latitude: float, longitude: float) -> bool:
    """True if a point is far from a country, and in it with latitude and longitude in each other's place."""
    code = country.upper()
    return not may_be_in(code, latitude, longitude) and is_in(code, longitude, latitude)


def is_far(fields: Mapping[str, Any]) -> bool:
    """True if the coordinates are far from the country that is named: it may be right, and seldom is."""
    country, latitude, longitude = fields["country"], fields["latitude"], fields["longitude"]
    known = bool(country) and latitude is not None and longitude is not None
    return known and not may_be_in(country.upper(), latitude, longitude)
