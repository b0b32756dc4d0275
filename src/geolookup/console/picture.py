"""The map beside an answer: the land in equal degrees (`world.svg`, which a browser keeps), and the part of it to show.

How near it is follows from how exact the answer is.
"""

import math
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from geolookup.columns import outlines
from geolookup.model.continents import countries
from geolookup.model.types import Geolocation

#: Units of the picture for a degree.
SCALE = 10
WIDTH, HEIGHT = 360 * SCALE, 180 * SCALE
#: Degrees to both sides of a place that is known by its city, by its region, and by no name.
_CITY, _REGION, _NO_NAME = 6.0, 12.0, 30.0
_KM_OF_A_DEGREE = 111.2
#: Parts of the picture's width that a dot takes.
_DOTS = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The part of the world to show, as SVG has it; what it ``says`` in words; the outline of the country.

    ``spot`` is the point of the place, None if only its country is known; ``area`` is the radius in which it may be,
    ``dot`` that of its dot.
    """

    view: str
    says: str
    outline: str
    spot: tuple[float, float] | None = None
    area: float = 0.0
    dot: float = 0.0


def picture(place: Geolocation, radius_km: float | None = None) -> Picture | None:
    """The picture of a place, None if neither its coordinates nor the outline of its country are known.

    ``radius_km`` is the distance by which its coordinates may be off.
    """
    code = place.country.upper()
    outline, known = _shapes().get(code, ""), countries().get(code)
    called = known.name if known else place.country
    if place.latitude is None or place.longitude is None:
        box = outlines.country_box(code) if outline else None
        if box is None:
            return None
        west, south, east, north = box
        half = max((east - west) / 2, north - south, _CITY) * 1.1
        view = _view((west + east) / 2, (south + north) / 2, half)
        return Picture(view=view, says=f"On a map of the world: {called}", outline=outline)
    radius = (radius_km or 0.0) / _KM_OF_A_DEGREE
    half = max(_CITY if place.city else _REGION if place.region else _NO_NAME, radius * 4)
    x, y = _point(place.longitude, place.latitude)
    off = f", {radius_km:,.0f} km around it" if radius_km else ""
    return Picture(
        view=_view(place.longitude, place.latitude, half),
        says=f"On a map of the world: latitude {place.latitude}, longitude {place.longitude}{off}",
        outline=outline,
        spot=(round(x, 1), round(y, 1)),
        area=round(radius * SCALE, 2),
        dot=round(2 * half * SCALE / _DOTS, 2),
    )


def _point(longitude: float, latitude: float) -> tuple[float, float]:
    return (longitude + 180) * SCALE, (90 - latitude) * SCALE


def _view(longitude: float, latitude: float, half: float) -> str:
    """The part of the picture around a point: ``half`` degrees to its left and right, half of that above and below."""
    x, y = _point(longitude, latitude)
    wide = min(2 * half * SCALE, float(WIDTH))
    high = wide / 2
    left = min(max(0.0, x - wide / 2), WIDTH - wide)
    top = min(max(0.0, y - high / 2), HEIGHT - high)
    return f"{left:.0f} {top:.0f} {math.ceil(wide)} {math.ceil(high)}"


@cache
def land() -> bytes:
    """The land as SVG. Its colour is right on light and on dark."""
    paths = "".join(_shapes().values())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        '<path fill="#8a96a3" fill-opacity=".45" stroke="#8a96a3" stroke-width="1" fill-rule="evenodd" '
        f'd="{paths}"/></svg>'
    ).encode()


@cache
def _shapes() -> dict[str, str]:
    """The path of each country by its code; those without one share the code "-"."""
    topology = outlines.world()
    (wide, high), (left, low) = topology["transform"]["scale"], topology["transform"]["translate"]
    arcs = []
    for arc in topology["arcs"]:
        xs = accumulate(point[0] for point in arc)
        ys = accumulate(point[1] for point in arc)
        arcs.append(
            [
                (round((x * wide + left + 180) * SCALE), round((90 - y * high - low) * SCALE))
                for x, y in zip(xs, ys, strict=True)
            ]
        )
    found: dict[str, str] = {}
    for each in topology["objects"]["countries"]["geometries"]:
        code = str(each.get("id") or "-")
        found[code] = found.get(code, "") + "".join(_path(arcs, ring) for ring in _rings(each))
    return found


def _rings(geometry: dict[str, Any]) -> list[list[int]]:
    polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
    return [ring for polygon in polygons for ring in polygon]


def _path(arcs: list[list[tuple[int, int]]], ring: list[int]) -> str:
    """A ring of arcs; a number below zero is the complement of that of an arc walked backwards."""
    points = _unbroken(
        [point for number in ring for point in (arcs[number] if number >= 0 else reversed(arcs[~number]))]
    )
    xs = [x for x, _ in points]
    # A ring that crosses an edge of the picture is drawn once more at the other edge.
    shifts = [0, *([WIDTH] if min(xs) < 0 else []), *([-WIDTH] if max(xs) > WIDTH else [])]
    return "".join(_steps([(x + shift, y) for x, y in points]) for shift in shifts)


def _unbroken(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A ring that crosses the 180th degree goes on beyond it; one around the south pole is closed there."""
    found: list[tuple[int, int]] = []
    turn, before = 0, points[0][0]
    for x, y in points:
        if abs(x - before) > WIDTH // 2:
            turn += -WIDTH if x > before else WIDTH
        before = x
        found.append((x + turn, y))
    first, last = found[0][0], found[-1][0]
    return [*found, (last, HEIGHT), (first, HEIGHT)] if abs(last - first) > WIDTH // 2 else found


def _steps(points: list[tuple[int, int]]) -> str:
    (x, y), *rest = points
    steps = [f"M{x} {y}"]
    for next_x, next_y in rest:
        if (next_x, next_y) != (x, y):
            steps.append(f"l{next_x - x} {next_y - y}")
            x, y = next_x, next_y
    return "".join(steps) + "z"
