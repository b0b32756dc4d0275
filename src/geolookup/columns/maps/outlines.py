"""The outlines of the countries: Natural Earth's, as the bundled data have them."""

import functools
import gzip
import importlib.resources
import json
import math
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, TypeAlias

Topology: TypeAlias = dict[str, Any]
#: West, south, east and north in degrees; east may be beyond 180.
Box: TypeAlias = tuple[float, float, float, float]

#: What is drawn of a country that a person looks at alone: its largest part, those that have this share of it, and
#: those so near to it. France is not drawn with Guiana, nor the United States with Guam.
_SHARE: Final = 0.18
_NEAR_DEGREES: Final = 6.0


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
    """Where most of a country is; None if it has no outline of its own."""
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
    """The parts of the countries that touch ``box``: what is far away need not be drawn."""
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
