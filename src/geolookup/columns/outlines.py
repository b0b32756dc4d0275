"""The outlines of the countries (Natural Earth's, bundled), and the part of the world that a map shows.

`focus_of` reads that part from a text: the world, a continent or a country.
"""

import functools
import gzip
import importlib.resources
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

from geolookup.model.continents import CONTINENTS, countries
from geolookup.model.errors import SettingsError

Topology: TypeAlias = dict[str, Any]
#: West, south, east and north in degrees; east may be beyond 180.
Box: TypeAlias = tuple[float, float, float, float]

#: The parts drawn of a country that is shown alone: the largest, those of at least this share of it, and those so near.
#: France is drawn without Guiana, the United States without Guam.
_SHARE: Final = 0.18
_NEAR_DEGREES: Final = 6.0
#: Antarctica is left out of the world: it is uninhabited, and it takes a fifth of a map.
_WORLD: Final[Box] = (-169.0, -56.0, 190.0, 79.0)
_CONTINENTS: Final[dict[str, Box]] = {
    "AF": (-19.0, -36.0, 52.5, 38.5),
    "AN": (-180.0, -90.0, 180.0, -60.0),
    "AS": (26.0, -11.0, 150.0, 56.0),
    "EU": (-23.0, 35.0, 42.0, 70.5),
    "NA": (-150.0, 8.0, -52.0, 71.0),
    "OC": (111.0, -48.0, 181.0, 1.0),
    "SA": (-82.5, -56.0, -34.0, 13.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The part of the world that a map shows. ``codes`` are the countries in its tables, or None for all of them."""

    name: str
    box: Box
    codes: frozenset[str] | None

    @property
    def is_country(self) -> bool:
        """True if it shows one country."""
        return self.codes is not None and len(self.codes) == 1

    def topology(self) -> Topology:
        """The outlines to draw."""
        if self.codes is None:
            return world()
        west, south, east, north = self.box
        margin = max(east - west, north - south) / 2
        wide = (west - margin, south - margin, east + margin, north + margin)
        return near(detailed() if self.is_country else world(), wide)


def focus_of(text: str | None) -> Focus:
    """The focus of a code of two letters, the English name of a country, or a continent; None is the world.

    :raises SettingsError: if it is none of these
    """
    if text is None or _plain(text) == "world":
        return Focus(name="", box=_WORLD, codes=None)
    plain = _plain(text)
    for code, name in CONTINENTS.items():
        if _plain(name) == plain:
            members = frozenset(country for country, each in countries().items() if each.continent == code)
            return Focus(name=name, box=_CONTINENTS[code], codes=members)
    code = text.strip().upper() if text.strip().upper() in countries() else _by_name().get(plain, "")
    box = country_box(code) if code else None
    if not code:
        continents = ", ".join(_plain(name).replace(" ", "-") for name in CONTINENTS.values())
        raise SettingsError(f"unknown focus {text!r:.60}: give the code of a country (DE), or one of {continents}")
    if box is None:
        raise SettingsError(f"the focus cannot be {countries()[code].name}: the map has no outline of it")
    return Focus(name=countries()[code].name, box=box, codes=frozenset((code,)))


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("-", " ").replace("_", " ").split())


@functools.cache
def _by_name() -> dict[str, str]:
    return {_plain(country.name): code for code, country in countries().items()}


def world_text() -> str:
    """TopoJSON of the countries, simplified for maps of the world; each has its code of two letters as its id."""
    return importlib.resources.files("geolookup_data").joinpath("outlines-world.json").read_text("utf-8")


@functools.cache
def world() -> Topology:
    """`world_text`, decoded."""
    found: Topology = json.loads(world_text())
    return found


@functools.cache
def detailed() -> Topology:
    """The same in as much detail as is bundled."""
    packed = importlib.resources.files("geolookup_data").joinpath("outlines-detail.json.gz").read_bytes()
    found: Topology = json.loads(gzip.decompress(packed))
    return found


def country_box(code: str) -> Box | None:
    """The box around most of a country; None if it has no outline of its own."""
    arcs = _detailed_arc_boxes()
    boxes = [
        _ring_box(arcs, polygon[0])
        for geometry in detailed()["objects"]["countries"]["geometries"]
        if geometry.get("id") == code
        for polygon in _polygons(geometry)
    ]
    if not boxes:
        return None
    main = max(boxes, key=_area)
    return _around(box for box in boxes if _area(box) >= _SHARE * _area(main) or _gap(box, main) < _NEAR_DEGREES)


def near(topology: Topology, box: Box) -> Topology:
    """The parts of the countries that touch ``box``; distant ones need not be drawn."""
    arcs = _arc_boxes(topology)
    boxes = [tuple(edge + turn if at % 2 == 0 else edge for at, edge in enumerate(box)) for turn in (-360, 0, 360)]
    geometries = []
    for geometry in topology["objects"]["countries"]["geometries"]:
        kept = [
            polygon
            for polygon in _polygons(geometry)
            if any(_gap(_ring_box(arcs, polygon[0]), each) == 0 for each in boxes)  # type: ignore[arg-type] # of four
        ]
        if kept:
            geometries.append({**geometry, "type": "MultiPolygon", "arcs": kept})
    return {**topology, "objects": {"countries": {"type": "GeometryCollection", "geometries": geometries}}}


def _polygons(geometry: dict[str, Any]) -> list[list[list[int]]]:
    found: list[list[list[int]]] = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
    return found


@functools.cache
def _detailed_arc_boxes() -> list[Box]:
    return _arc_boxes(detailed())


def _arc_boxes(topology: Topology) -> list[Box]:
    """The box of each arc (TopoJSON 1.0, section 2.1.3: each point is the difference from the one before)."""
    (wide, high), (left, low) = topology["transform"]["scale"], topology["transform"]["translate"]
    found = []
    for arc in topology["arcs"]:
        xs = list(accumulate(point[0] for point in arc))
        ys = list(accumulate(point[1] for point in arc))
        found.append((min(xs) * wide + left, min(ys) * high + low, max(xs) * wide + left, max(ys) * high + low))
    return found


def _ring_box(arcs: list[Box], ring: list[int]) -> Box:
    """The box of a ring of arcs; a number below zero is the complement of that of an arc walked backwards."""
    return _around(arcs[number if number >= 0 else ~number] for number in ring)


def _around(boxes: Iterable[Box]) -> Box:
    west, south, east, north = zip(*boxes, strict=True)
    return min(west), min(south), max(east), max(north)


def _area(box: Box) -> float:
    """In an unnamed unit: only compared."""
    west, south, east, north = box
    return (east - west) * (math.sin(math.radians(north)) - math.sin(math.radians(south)))


def _gap(one: Box, other: Box) -> float:
    """The degrees between two boxes, the larger of both directions; 0 if they touch."""
    return max(one[0] - other[2], other[0] - one[2], one[1] - other[3], other[1] - one[3], 0.0)


def edge(box: Box, steps: int = 24) -> Iterator[tuple[float, float]]:
    """Points along the edge of a box, as longitude and latitude, for a projection to fit."""
    west, south, east, north = box
    for step in range(steps + 1):
        across, up = west + (east - west) * step / steps, south + (north - south) * step / steps
        yield from ((across, south), (across, north), (west, up), (east, up))
