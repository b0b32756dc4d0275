"""The GeoIP2 web service: one address, answered with the record that the database has for it."""

from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.response.base import ASGIResponse

from geolookup.lookup.record import Detail, record
from geolookup.model import addresses
from geolookup.model.addresses import cidrs, to_text
from geolookup.model.errors import InvalidAddressError, RequestRefusedError
from geolookup.model.types import Match
from geolookup.share.files import AnyRequest
from geolookup.share.state import State
from geolookup.web import openapi
from geolookup.web.application import Paths
from geolookup.web.openapi import ADDRESS

BASE = "/geoip/v2.1"
#: The address of the client itself.
_ME = "me"
_CODES = {
    "invalid-address": "IP_ADDRESS_INVALID",
    "address-not-covered": "IP_ADDRESS_NOT_FOUND",
    "unauthenticated": "AUTHORIZATION_INVALID",
}
_RECORD = openapi.object_of({"traits": openapi.object_of({"ip_address": ADDRESS, "network": openapi.TEXT})})


def _form(name: str, _status: int, detail: str) -> dict[str, str]:
    """An error as clients of that service know it."""
    return {"code": _CODES.get(name, name.upper().replace("-", "_")), "error": detail}


#: Logs keep no address that was looked up.
PATHS = Paths(
    private={f"{BASE}/{detail}/": f"{BASE}/{detail}/{{ip}}" for detail in ("city", "country")},
    error_forms={BASE: _form},
)


def _described(detail: str) -> Any:
    return openapi.operation(
        f"Look an address up, as the GeoIP2 web service answers: {detail}",
        [openapi.path("ip", ADDRESS, "Or `me`, the client's own.")],
        None,
        {"200": openapi.answer(_RECORD, "Its record, with the network that has it.")},
        ("invalid-address", "address-not-covered", "index-not-ready", "licence-forbids", "stale-data"),
    )


@get(f"{BASE}/city/{{ip:path}}", operation_id="geoip2City", operation_class=_described("city"))
async def city(request: AnyRequest, shared: NamedDependency[State]) -> ASGIResponse:
    """All that is known of a place."""
    return await _answer(request, shared, "city")


@get(f"{BASE}/country/{{ip:path}}", operation_id="geoip2Country", operation_class=_described("country"))
async def country(request: AnyRequest, shared: NamedDependency[State]) -> ASGIResponse:
    """The country alone."""
    return await _answer(request, shared, "country")


HANDLERS = [city, country]


async def _answer(request: AnyRequest, state: State, detail: Detail) -> ASGIResponse:
    # Not Litestar's own parameter, which has lost its slashes: an address with a slash is malformed.
    text = unquote(request.scope["raw_path"].decode("latin-1")).partition(f"/{detail}/")[2]
    if text == _ME:
        client = request.scope.get("client")
        text = client[0].partition("%")[0] if client else ""
    layers = await state.layers()
    try:
        family, value = addresses.parse(text)
    except InvalidAddressError as error:
        raise RequestRefusedError(str(error), problem="invalid-address") from error
    found = layers.match(text, family, value)
    if found is None:
        raise RequestRefusedError("no block covers the address", problem="address-not-covered")
    traits = {"ip_address": text, "network": _network(found, value)}
    return ASGIResponse(
        body=msgspec.json.encode({**record(found, detail), "traits": traits}),
        media_type=f"application/vnd.maxmind.com-{detail}+json; charset=UTF-8; version=2.1",
    )


def _network(found: Match, value: int) -> str:
    """The largest network around the address in which every address has its answer."""
    (family, first), (_, last) = addresses.parse(found.first), addresses.parse(found.last)
    bits = 32 if family == 4 else 128
    for start, length in cidrs(family, first, last):
        if value < start + (1 << (bits - length)):
            break
    return f"{to_text(family, start)}/{length}"
