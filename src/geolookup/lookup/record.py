"""One answer as the record that a database has for it, for those who ask over HTTP; `records` is its oracle."""

import math
import re
from typing import Any, Literal, TypeAlias

from geolookup.model.continents import CONTINENTS, countries
from geolookup.model.countries import in_capitals
from geolookup.model.types import Match

#: What records hold: all that is known of a place, or its country alone.
Detail: TypeAlias = Literal["city", "country"]

#: A region that is a code, not a name.
REGION_CODE = re.compile(r"[A-Z0-9]{1,3}", re.ASCII)
_METRO_CODE = re.compile(r"0*[0-9]{1,5}", re.ASCII)
_MOST_METRO = 0xFFFF


def record(found: Match, detail: Detail) -> dict[str, Any]:
    """The record; empty parts are left out, as in a database."""
    place = found.geolocation
    own = {"locid": str(place.locid)} if detail == "city" else {}
    made: dict[str, Any] = {**_country(place.country)}
    if detail == "city":
        if place.region:
            is_code = REGION_CODE.fullmatch(place.region)
            made["subdivisions"] = [{"iso_code": place.region} if is_code else {"names": {"en": place.region}}]
        if place.city:
            made["city"] = {"names": {"en": place.city}}
        if place.postalcode:
            made["postal"] = {"code": place.postalcode}
        location: dict[str, Any] = {
            name: degrees
            for name, degrees in (("latitude", place.latitude), ("longitude", place.longitude))
            if degrees is not None and not math.isnan(degrees)
        }
        if code := metro_code(place.dmacode or ""):
            location["metro_code"] = code
        if location:
            made["location"] = location
    made["geolookup"] = {**own, "layer": found.layer, "source": found.source}
    return made


def _country(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    code = in_capitals(text)
    country: dict[str, Any] = {"iso_code": code}
    known = countries().get(code)
    if known is None:
        return {"country": country}
    if known.in_eu:
        country["is_in_european_union"] = True
    country["names"] = {"en": known.name}
    continent = {"code": known.continent, "names": {"en": CONTINENTS[known.continent]}}
    return {"country": country, "continent": continent}


def metro_code(text: str) -> int:
    """The number that a DMA code is, or 0 if it cannot be a metro code."""
    number = int(text) if _METRO_CODE.fullmatch(text) else 0
    return number if number <= _MOST_METRO else 0
