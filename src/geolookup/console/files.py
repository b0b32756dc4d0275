"""The files that the pages load, all from this machine: our own, those of others with their licences, and `world.svg`.

That is a map of the land in equal degrees, which a browser keeps; `spot` says where on it a place is.
"""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from litestar import get
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.columns import outlines
from geolookup.model.errors import RequestRefusedError

_HERE = os.path.dirname(__file__)
_FOLDERS = ("static", "vendored")
_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
#: Units of the picture for a degree.
SCALE = 10
WIDTH, HEIGHT = 360 * SCALE, 180 * SCALE
#: Degrees to both sides of a place that is shown.
_AROUND = 40, 20


@cache
def _all() -> dict[str, tuple[bytes, str, str]]:
    """Every file by its name: its bytes, its media type, and a short hash of it."""
    found = {}
    for folder in _FOLDERS:
        for name in os.listdir(os.path.join(_HERE, folder)):
            kind = _TYPES.get(os.path.splitext(name)[1])
            if kind is None:
                continue
            with open(os.path.join(_HERE, folder, name), "rb") as file:
                content = file.read()
            found[name] = _file(content, kind)
    found["world.svg"] = _file(land(), _TYPES[".svg"])
    return found


def _file(content: bytes, kind: str) -> tuple[bytes, str, str]:
    return content, kind, hashlib.sha256(content).hexdigest()[:12]


def address(name: str) -> str:
    """The address of a file: another one for another content, so that a browser may keep it."""
    return f"/files/{_all()[name][2]}/{name}"


@get("/files/{digest:str}/{name:str}", sync_to_thread=False)
def one_file(digest: FromPath[str], name: FromPath[str]) -> ASGIResponse:
    """One file."""
    content, kind, known = _all().get(name, (b"", "", ""))
    if not kind or digest != known:
        raise RequestRefusedError("there is no such file", problem="not-found")
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return ASGIResponse(body=content, media_type=kind, headers=headers)


@dataclass(frozen=True, slots=True)
class Spot:
    """The point of a place in the picture, and the part of the picture to show."""

    x: float
    y: float
    view: str


def spot(latitude: float, longitude: float) -> Spot:
    """The spot of a place: degrees to units."""
    x, y = (longitude + 180) * SCALE, (90 - latitude) * SCALE
    wide, high = (2 * each * SCALE for each in _AROUND)
    left = min(max(0.0, x - wide / 2), WIDTH - wide)
    top = min(max(0.0, y - high / 2), HEIGHT - high)
    return Spot(round(x, 1), round(y, 1), f"{left:.0f} {top:.0f} {wide} {high}")


@cache
def land() -> bytes:
    """The land as SVG. Its colour is right on light and on dark."""
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
    paths = "".join(
        _path(arcs, ring) for each in topology["objects"]["countries"]["geometries"] for ring in _rings(each)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        '<path fill="#8a96a3" fill-opacity=".45" stroke="#8a96a3" stroke-width="1" fill-rule="evenodd" '
        f'd="{paths}"/></svg>'
    ).encode()


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
