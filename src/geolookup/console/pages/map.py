"""Map: the custom geolocations as points, and the countries shaded by addresses, or by the rows of a dropped log."""

import gzip
import hashlib
import json
import threading
from functools import cache
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from geolookup.base.text import harmless
from geolookup.columns import map_drawing, outlines
from geolookup.columns.counts import Counts
from geolookup.columns.map_content import CountryTotals, CustomPlace, custom_places
from geolookup.console.console import Console, Html, Page
from geolookup.console.forms import MAX_FILE_BYTES, READS, AnyRequest, Table, count_dropped, dropped_name, query
from geolookup.console.html import called
from geolookup.console.pages.custom import wanted
from geolookup.index.reader import IndexReader
from geolookup.model.continents import countries
from geolookup.model.errors import GeoLookupError, RequestRefusedError

PAGE = Page(title="Map", path="/map", icon="map")

#: Segments of a state that are walked at once; for more, the countries are shaded afterwards.
_AT_ONCE_SEGMENTS = 300_000
#: Letters of a place's name that go with its point.
_LABEL_LENGTH = 40

_lock = threading.Lock()
#: The walk over what is served, for as long as that stays.
_walked: list[CountryTotals] = []


_COLUMNS: dict[str, Any] = {
    "name": lambda each: called(each.place, each.site).casefold(),
    "place": lambda each: each.place.place_text().casefold(),
    "addresses": lambda each: (each.addresses_v4, each.networks_v6),
    "networks": lambda each: (each.networks_v6, each.addresses_v4),
}


@get("/map", sync_to_thread=True)
def show_map(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The map of what is served."""
    return _page(request, console, None)


@post("/map", sync_to_thread=True, opt=READS, request_max_body_size=MAX_FILE_BYTES)
def map_of_file(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The map of a log or a list: the countries shaded by its rows."""
    try:
        found, *_ = count_dropped(request, console.geo().in_vrf(console.settings().vrf))
    except GeoLookupError as error:
        return _page(request, console, None, status=422, error=error.told)
    return _page(request, console, found, name=dropped_name(request))


def _page(
    request: AnyRequest,
    console: Console,
    counted: Counts | None,
    *,
    name: str = "",
    status: int = 200,
    error: str | None = None,
) -> Html:
    geo = console.geo()
    base, overlay = geo.with_readers(lambda *readers: readers)
    sources = base.sources or ("service",)
    show = query(request, "show")
    show = show if show in ("custom", "default", *(f"source:{each}" for each in sources)) else "all"
    numbers: dict[str, int] | None = None
    if counted is not None:
        numbers = {str(group.fields["country"]): group.count for group in counted.groups("country")}
    elif query(request, "count") == "all" or base.segment_count_v4 + base.segment_count_v6 <= _AT_ONCE_SEGMENTS:
        numbers = _by_country(base, overlay, show)
    find = query(request, "find")
    is_wanted = wanted(find)
    places = custom_places(geo) if show in ("all", "custom") else []
    places = [each for each in places if is_wanted(each.place, each.site or "")]
    layer = console.layer()
    of_vrfs = sum(is_wanted(each.place, layer.names.get(each.place.locid, "")) for each in layer.of_vrfs)
    begins = map_drawing.steps(max(numbers.values(), default=0)) if numbers else []
    known = countries()
    rows = [(code, known[code].name if code in known else "", number) for code, number in (numbers or {}).items()]
    return console.page(
        request,
        "map.html",
        status,
        show=show,
        find=find,
        shows=[("all", "all"), ("custom", "your sites"), ("default", "the sources")]
        + ([(f"source:{each}", f"source {each}") for each in sources] if len(sources) > 1 else []),
        numbers=numbers,
        rows=rows,
        unit="requests" if counted else "IPv4 addresses",
        counted=counted,
        name=name,
        legend=list(enumerate(map_drawing.labels(begins))) if begins else [],
        shades=_json(
            {
                code: (map_drawing.shade(number, begins), label, f"{number:,}")
                for code, label, number in rows
                if len(code) == 2
            }
        ),
        points=_json(_points(places)),
        outlines=f"/map/outlines/{_outlines()[1]}",
        table=Table(request, places, _COLUMNS, default="addresses", falling=("addresses", "networks")),
        elsewhere=sum(each.place.latitude is None or each.place.longitude is None for each in places),
        of_vrfs=of_vrfs,
        error=error,
    )


def _by_country(base: IndexReader, overlay: IndexReader, show: str) -> dict[str, int]:
    with _lock:
        if not _walked or _walked[0].base is not base or _walked[0].overlay is not overlay:
            _walked[:] = [CountryTotals(base, overlay)]
        found = _walked[0]
    if show in ("custom", "default"):
        return found.by_country(layer=show)  # type: ignore[arg-type] # that is what a layer is
    return found.by_country(source=show.removeprefix("source:") if show != "all" else None)


def _points(places: list[CustomPlace]) -> list[tuple[float, float, int, float, str]]:
    """Latitude, longitude, locid, size from 0 to 1, and what it is called."""
    largest = max((each.size for each in places), default=0.0) or 1.0
    return [
        (
            round(each.place.latitude, 3),
            round(each.place.longitude, 3),
            each.place.locid,
            round(each.size / largest, 2),
            harmless(called(each.place, each.site), _LABEL_LENGTH),
        )
        for each in places
        if each.place.latitude is not None and each.place.longitude is not None
    ]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@cache
def _outlines() -> tuple[bytes, str]:
    """The outlines of the countries, and a short hash of them."""
    content = outlines.world_text().encode()
    return gzip.compress(content, 9, mtime=0), hashlib.sha256(content).hexdigest()[:12]


@get("/map/outlines/{digest:str}", sync_to_thread=True)
def outlines_file(request: AnyRequest, digest: FromPath[str]) -> ASGIResponse:
    """The outlines of the countries, which the page's script draws."""
    content, known = _outlines()
    if digest != known:
        raise RequestRefusedError("there is no such file", problem="not-found")
    headers = {"cache-control": "private, max-age=31536000, immutable", "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return ASGIResponse(body=content, media_type="application/json", headers=headers)


HANDLERS = [show_map, map_of_file, outlines_file]
