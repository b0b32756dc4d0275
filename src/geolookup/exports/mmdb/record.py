"""One answer as the record that a database has for it, for those who ask over HTTP; `records` is its oracle."""

import math
import re
from typing import Any

from geolookup.exports.countries import CONTINENTS, countries
from geolookup.exports.mmdb.records import Detail, metro_code
from geolookup.model.countries import in_capitals
from geolookup.model.types import Match

_REGION_CODE = re.compile(r"[A-Z0-9]{1,3}", re.ASCII)


def record(found: Match, detail: Detail) -> dict[str, Any]:
    """The record; empty parts are left out, as in a database."""
    place = found.geolocation
    own = {"locid": str(place.locid)} if detail == "city" else {}
    made: dict[str, Any] = {**_country(place.country)}
    if detail == "city":
        if place.region:
            is_code = _REGION_CODE.fullmatch(place.region)
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
