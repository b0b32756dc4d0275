"""The picture of a map as a specification of Vega, in which every text is data: nothing in it is an expression."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from geolookup.columns import outlines
from geolookup.columns.map_content import Content, Table
from geolookup.model.continents import countries

WIDTH: Final = 960
_MAP_HEIGHT: Final = 470
_MARGIN: Final = 16
_LINE: Final = 19
_GUTTER: Final = 40

_INK: Final = "#1f2a33"
_FAINT: Final = "#5b6770"
_SEA: Final = "#eef3f7"
_LAND: Final = "#fbfbf8"
_BORDER: Final = "#a9b3ba"
#: From few to many; each is told from its neighbours also by people who see no colours.
SHADES: Final = ("#d6e6f4", "#abcfe6", "#6aaed6", "#3787c0", "#105ba4", "#08306b")
_POINT: Final = "#c8421f"
_BAR: Final = "#6aaed6"
#: A circle lets its country be seen.
_CLEAR: Final = 0.4
#: The disc of a country that is less than one such part of the map wide and high.
_SMALL_AREA: Final = 70
_SMALL_PARTS: Final = 120
#: Pixels between the shades and the sizes in the legend.
_BESIDE: Final = 12


def specification(content: Content, *, whole: bool) -> dict[str, Any]:
    """The picture: with ``whole`` the title, tables and footer too, else only the map and its legend."""
    marks: list[dict[str, Any]] = []
    at = 0.0
    if whole:
        marks += [_text(content.title, 0, at + 22, size=22, bold=True), _text(content.summary, 0, at + 44, size=13)]
        at += 58
    marks.append(_map(at))
    at += _MAP_HEIGHT + 8
    marks += _legend(content, at + (6 if content.points else 0))
    at += 36 if content.points else 26
    if whole:
        width = (WIDTH - _GUTTER) / 2
        for column, table in enumerate(content.tables[:2]):
            marks += _table(table, column * (width + _GUTTER), at + 20, width)
        rows = max((len(table.rows) for table in content.tables), default=0)
        at += (rows + 2) * _LINE if rows else 0
        for line in content.footer:
            marks.append(_text(line, 0, at + 14, size=11, colour=_FAINT))
            at += 15
    west, south, east, north = content.focus.box
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "description": f"{content.title}: {content.summary}",
        "width": WIDTH,
        "height": at,
        "padding": _MARGIN,
        "background": "#ffffff",
        "projections": [
            {
                "name": "projection",
                "type": "naturalEarth1" if content.focus.codes is None else "azimuthalEqualArea",
                "rotate": [-(west + east) / 2, 0 if content.focus.codes is None else -(south + north) / 2, 0],
                **({} if content.focus.codes is None else {"clipAngle": 90}),
                "fit": {"type": "MultiPoint", "coordinates": list(map(list, outlines.edge(content.focus.box)))},
                "size": [WIDTH, _MAP_HEIGHT],
                "clipExtent": [[-5, -5], [WIDTH + 5, _MAP_HEIGHT + 5]],
                "pointRadius": 0,
            }
        ],
        "data": [
            {
                "name": "shades",
                "values": [
                    {"id": code, "fill": SHADES[shade(number, _begins(content))], "label": _told(code, number)}
                    for code, number in content.countries.items()
                ],
            },
            {
                "name": "outlines",
                "values": content.focus.topology(),
                "format": {"type": "topojson", "feature": "countries"},
                "transform": [
                    {
                        "type": "lookup", "from": "shades", "key": "id", "fields": ["id"],
                        "values": ["fill", "label"], "as": ["fill", "label"],
                    }
                ],
            },
            {
                "name": "small",
                "values": list(_small(content)),
                "transform": [
                    {"type": "geopoint", "projection": "projection", "fields": ["x", "y"], "as": ["px", "py"]}
                ],
            },
            {
                "name": "points",
                "values": [
                    {"label": point.label, "x": point.longitude, "y": point.latitude, "size": _area(point.size)}
                    for point in sorted(content.points, key=lambda point: -point.size)  # the small above the large
                ],
                "transform": [
                    {"type": "geopoint", "projection": "projection", "fields": ["x", "y"], "as": ["px", "py"]}
                ],
            },
        ],
        "marks": marks,
    }  # fmt: skip


def _map(top: float) -> dict[str, Any]:
    shape = {
        "type": "shape",
        "from": {"data": "outlines"},
        "encode": {
            "enter": {
                "fill": [{"test": "datum.fill", "field": "fill"}, {"value": _LAND}],
                "stroke": {"value": _BORDER},
                "strokeWidth": {"value": 0.5},
                "description": {"field": "label"},
                "aria": [{"test": "datum.label", "value": True}, {"value": False}],
            }
        },
        "transform": [{"type": "geoshape", "projection": "projection"}],
    }
    points = {
        "type": "symbol",
        "from": {"data": "points"},
        "encode": {
            "enter": {
                "x": {"field": "px"},
                "y": {"field": "py"},
                "size": {"field": "size"},
                "fill": {"value": _POINT},
                "fillOpacity": {"value": _CLEAR},
                "stroke": {"value": _POINT},
                "strokeWidth": {"value": 0.8},
                "description": {"field": "label"},
            }
        },
    }
    small = {
        "type": "symbol",
        "from": {"data": "small"},
        "encode": {
            "enter": {
                "x": {"field": "px"},
                "y": {"field": "py"},
                "size": {"value": _SMALL_AREA},
                "fill": {"field": "fill"},
                "stroke": {"value": _FAINT},
                "strokeWidth": {"value": 0.8},
                "description": {"field": "label"},
            }
        },
    }
    return {
        "type": "group",
        "encode": {
            "enter": {
                "clip": {"value": True},
                "x": {"value": 0},
                "y": {"value": top},
                "width": {"value": WIDTH},
                "height": {"value": _MAP_HEIGHT},
                "fill": {"value": _SEA},
                "aria": {"value": False},
            }
        },
        "marks": [shape, small, points],
    }


def _area(size: float) -> float:
    """The area of a circle, in square pixels."""
    return 12 + 440 * size


def _small(content: Content) -> Iterator[dict[str, Any]]:
    """A disc for each counted country that is too small to be seen on this map, where that country is."""
    west, _, east, _ = content.focus.box
    for code, number in content.countries.items():
        box = outlines.country_box(code) if code else None
        if box is not None and max(box[2] - box[0], box[3] - box[1]) < (east - west) / _SMALL_PARTS:
            yield {
                "x": (box[0] + box[2]) / 2,
                "y": (box[1] + box[3]) / 2,
                "fill": SHADES[shade(number, _begins(content))],
                "label": _told(code, number),
            }


def steps(most: int) -> list[int]:
    """The first counts of the shades up to ``most``: each several times the one before, as many as `SHADES`."""
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10**power for power in range(20) for factor in factors if factor * 10**power <= max(most, 1)]
        if len(found) <= len(SHADES):
            return found
    # More powers of ten than shades: the smallest ones share a shade.
    return [1, *found[-len(SHADES) + 1 :]]


def shade(number: int, begins: list[int]) -> int:
    """The number of a count's shade, from 0 on."""
    return max(sum(number >= begin for begin in begins) - 1, 0)


def labels(begins: list[int]) -> list[str]:
    """The counts that each shade stands for, as text."""
    ends = [f"{low:,}" if high == low + 1 else f"{low:,}-{high - 1:,}" for low, high in pairwise(begins)]
    return [*ends, f"{begins[-1]:,} or more"]


def _begins(content: Content) -> list[int]:
    return steps(max(content.countries.values(), default=0))


def _legend(content: Content, top: float) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    at = 0.0
    if content.countries:
        for colour, label in zip(SHADES, labels(_begins(content)), strict=False):
            marks += [_rectangle(at, top + 2, 14, 12, colour), _text(label, at + 19, top + 12, size=11)]
            at += 31 + 6.4 * len(label)
        marks.append(_text(content.unit, at, top + 12, size=11, colour=_FAINT))
        at += 40 + 6.4 * len(content.unit)
    if content.points:
        at += _BESIDE if at else 0
        for text, size in content.sizes:
            width = 2 * math.sqrt(_area(size) / math.pi)
            marks += [_circle(at + width / 2, top + 8, _area(size)), _text(text, at + width + 4, top + 12, size=11)]
            at += width + 14 + 6.4 * len(text)
        marks.append(_text(content.points_are, at, top + 12, size=11, colour=_FAINT))
    return marks


def _table(table: Table, left: float, top: float, width: float) -> list[dict[str, Any]]:
    ends = (left + width - 62, left + width)
    marks = [_text(table.title, left, top, size=13, bold=True)]
    marks += [
        _text(heading, end, top, size=11, colour=_FAINT, align="right")
        for heading, end in zip(table.headings, ends, strict=False)
    ]
    for number, row in enumerate(table.rows, 1):
        at = top + number * _LINE
        marks.append(_rectangle(left + 210, at - 9, max(1.0, (width - 350) * row.bar), 9, _BAR))
        marks.append(_text(row.label, left, at, size=12, limit=205))
        marks += [_text(value, end, at, size=12, align="right") for value, end in zip(row.values, ends, strict=False)]
    return marks


def _text(
    text: str, x: float, y: float, *, size: int, bold: bool = False, colour: str = _INK, align: str = "left",
    limit: float = WIDTH,
) -> dict[str, Any]:  # fmt: skip
    """A text mark. A plain value is never read as an expression."""
    values = {
        "text": text, "x": x, "y": y, "fontSize": size, "fill": colour, "align": align, "limit": limit,
        "font": "sans-serif", "fontWeight": "bold" if bold else "normal", "aria": False,
    }  # fmt: skip
    return {"type": "text", "encode": {"enter": {name: {"value": value} for name, value in values.items()}}}


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> dict[str, Any]:
    values = {"x": x, "y": y, "width": width, "height": height, "fill": colour, "aria": False}
    return {"type": "rect", "encode": {"enter": {name: {"value": value} for name, value in values.items()}}}


def _circle(x: float, y: float, area: float) -> dict[str, Any]:
    values = {
        "x": x, "y": y, "size": area, "fill": _POINT, "fillOpacity": _CLEAR, "stroke": _POINT, "strokeWidth": 0.8,
        "aria": False,
    }  # fmt: skip
    return {"type": "symbol", "encode": {"enter": {name: {"value": value} for name, value in values.items()}}}


def _told(code: str, number: int) -> str:
    known = countries().get(code)
    return f"{known.name if known else code}: {number:,}"
