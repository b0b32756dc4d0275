"""Custom geolocations: the table, and the page of one."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath

from geolookup.base.text import without_accents
from geolookup.console.console import Console, CustomLayer, Html, Page
from geolookup.console.editing import LEFT, MOVE
from geolookup.console.forms import AnyRequest, Table, query
from geolookup.console.html import called
from geolookup.console.past import Past
from geolookup.lookup.pasted import read_pasted
from geolookup.model.addresses import parse_range, range_ends
from geolookup.model.continents import country_text
from geolookup.model.countries import country_in_words
from geolookup.model.errors import GeoLookupError, UnknownGeolocationError
from geolookup.model.fields import FIELDS, TEXT_NAMES
from geolookup.model.linter import Finding
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.layer import Laid

PAGE = Page(title="Sites", path="/custom", icon="place", parts=("/history", "/export"))

#: Letters of what is offered as a filter; an address cannot be as long as some texts.
_MAX_COUNTRY = 100
_SHOW = {"all": "all", "pending": "not sent yet", "doubtful": "with problems"}
_ORDERS = {
    "name": "by name",
    "place": "by place",
    "addresses": "most addresses",
    "blocks": "most networks",
    "locid": "by number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table."""

    laid: Laid
    name: str
    vrf: str
    ipv4: int
    ipv6: int
    findings: int

    @property
    def place(self) -> Geolocation:
        """The geolocation."""
        return self.laid.place


def _natural(text: str) -> list[tuple[int, str]]:
    """The key by which people sort: Branch 13 comes before Branch 108, and Łódź stands at L."""
    parts = re.split("([0-9]{1,18})", without_accents(text).casefold())
    return [(int(part), "") if number % 2 else (0, part) for number, part in enumerate(parts)]


#: The columns that the table can be sorted by, each with its key.
_COLUMNS: dict[str, Any] = {
    "locid": lambda row: row.place.locid,
    "place": lambda row: row.place.place_text().casefold(),
    "country": lambda row: (row.place.country.casefold(), row.place.city.casefold()),
    "name": lambda row: _natural(called(row.place, row.name)),
    "blocks": lambda row: len(row.place.ipblocks),
    "addresses": lambda row: (row.ipv4, row.ipv6),
}
_FALLING = ("locid", "blocks", "addresses")


@get("/custom", sync_to_thread=True)
def table(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The table: filtered, sorted and paged here; with networks, to choose the site that gets them."""
    find, country = query(request, "find"), query(request, "country")
    show = query(request, "show")
    layer, block = console.layer(), query(request, "block")
    found, names, within = layer.laid if block else layer.every, layer.names, query(request, "within")
    findings = Counter(finding.locid for finding in layer.findings)
    is_wanted = wanted(find)
    rows = [
        _row(laid, layer, findings)
        for laid in found
        if (not within or within == _within(layer.vrfs.get(laid.place.locid)))
        and (not country or laid.place.country.casefold() == country.casefold())
        and (show != "pending" or laid.pending)
        and (show != "doubtful" or findings[laid.place.locid])
        and is_wanted(laid.place, names.get(laid.place.locid, ""))
    ]
    # With networks, what leads to the form of the site that gets them.
    chosen = {name: text for name in ("block", MOVE, LEFT) if block and (text := query(request, name))}
    given = {*read_pasted(block).blocks}
    leaving = Counter(
        called(laid.place, names.get(laid.place.locid))
        for laid in (layer.laid if MOVE in chosen else ())
        for each in laid.place.ipblocks
        if each in given
    )
    shown = Table(request, rows, _COLUMNS, default="name", falling=_FALLING)
    return console.page(
        request,
        "custom.html",
        table=shown,
        find=find,
        country=country,
        show=show if show in _SHOW else "all",
        shows=_SHOW,
        sort=query(request, "sort") or "name",
        orders=_ORDERS,
        countries=sorted(
            {laid.place.country for laid in found if 0 < len(laid.place.country) <= _MAX_COUNTRY}, key=country_text
        ),
        block=block,
        chosen=chosen,
        chosen_link=urlencode(chosen),
        leaving=leaving,
        every=len(layer.laid),
        of_vrfs=0 if block else len(layer.of_vrfs),
        within=within,
        vrfs=[
            (_within(None), "none: the global table"),
            *((_within(vrf), vrf) for vrf in dict.fromkeys(layer.vrfs.values())),
        ],
        pending=layer.pending,
        doubtful=sum(findings.values()),
    )


def _within(vrf: str | None) -> str:
    """The choice of a routing domain, or of the global table, in an address."""
    return "global" if vrf is None else f"vrf:{vrf}"


def _row(laid: Laid, layer: CustomLayer, findings: Counter[int]) -> Row:
    sizes = {4: 0, 6: 0}
    for block in laid.place.ipblocks:
        sizes[block.family] += block.last - block.first + 1
    locid = laid.place.locid
    name, vrf = layer.names.get(locid, ""), layer.vrfs.get(locid, "")
    return Row(laid=laid, name=name, vrf=vrf, ipv4=sizes[4], ipv6=sizes[6], findings=findings[locid])


def wanted(find: str) -> Callable[[Geolocation, str], bool]:
    """The test of a site and its name for a search: an address or range in its networks, its number, its country in
    words, or any text, whose case and accents have no meaning.
    """
    if not find:
        return lambda _place, _name: True
    try:
        family, first, last = parse_range(*range_ends(find))
    except GeoLookupError:
        text, country = without_accents(find).casefold(), country_in_words(find)
        return lambda place, name: (
            bool(country and place.country == country)
            or any(
                text in without_accents(each).casefold()
                for each in (name, str(place.locid), place.place_text(), *(getattr(place, one) for one in TEXT_NAMES))
            )
        )
    return lambda place, _name: any(
        block.family == family and block.first <= last and first <= block.last for block in place.ipblocks
    )


#: Lines of the history among which those are looked for that moved networks to or from a site.
_MOST_OTHERS = 2_000


@get("/custom/{locid:int}", sync_to_thread=True)
def one(request: AnyRequest, console: NamedDependency[Console], locid: FromPath[int]) -> Html:
    """One geolocation: fields, blocks, findings, history, pending edits; of a deleted one the history."""
    editor, layer = console.editor(), console.layer()
    history = editor.history(locid)
    steps = {line["step"] for line in history} - {None}
    own = {line["id"] for line in history}
    others = [line for line in editor.history(newest=_MOST_OTHERS) if line["step"] in steps and line["id"] not in own]
    past = Past(history, others, layer.names)
    try:
        laid = layer.find(locid) or editor.get(locid)
    except UnknownGeolocationError:
        if not history:
            raise
        name, deeds = past.names.get(locid, f"Site {locid}"), past.deeds(history[-_MOST_HISTORY:])
        return console.page(request, "custom_gone.html", 404, name=name, history=deeds)
    findings = [finding for finding in layer.findings if finding.locid == laid.place.locid]
    stored = editor.stored().get(laid.place.locid)
    doubtful: dict[IPBlock | None, list[Finding]] = {}
    for finding in findings:
        doubtful.setdefault(finding.block, []).append(finding)
    return console.page(
        request,
        "custom_one.html",
        laid=laid,
        place=laid.place,
        name=layer.names.get(laid.place.locid, ""),
        vrf=layer.vrfs.get(laid.place.locid, ""),
        time_zone=layer.zones.get(laid.place.locid, ""),
        names=layer.names,
        findings=findings,
        doubtful=doubtful,
        stored=stored,
        fields=FIELDS,
        history=past.deeds(history[-_MOST_HISTORY:]),
        more_history=max(0, len(history) - _MOST_HISTORY),
        lines=Table(request, list(laid.place.ipblocks), {}, default=""),
    )


_MOST_HISTORY = 50


HANDLERS = [table, one]
