"""The GeoIP2 web services: one address, answered with its record, and with what theirs say of its network."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.response.base import ASGIResponse

from geolookup.index.layout import EMPTY
from geolookup.index.reader import source_of_record
from geolookup.lookup.record import TRAITS
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import addresses
from geolookup.model.addresses import network_around, to_text
from geolookup.model.errors import InvalidAddressError, RequestRefusedError
from geolookup.share.files import AnyRequest
from geolookup.share.state import State
from geolookup.web import openapi
from geolookup.web.application import Paths
from geolookup.web.openapi import ADDRESS

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

#: The services, by what they say of an address.
Service: TypeAlias = Literal["country", "city", "insights"]

BASE = "/geoip/v2.1"
#: The address of the client itself.
_ME = "me"
_CODES = {
    "invalid-address": "IP_ADDRESS_INVALID",
    "address-not-covered": "IP_ADDRESS_NOT_FOUND",
    "unauthenticated": "AUTHORIZATION_INVALID",
}
#: What the Country service says of a place, and of a network.
_COUNTRY = ("continent", "country", "registered_country", "represented_country")
_COUNTRY_TRAITS = frozenset({"is_anycast"})
#: What the City service says of a network. The Insights service says all.
_CITY_TRAITS = _COUNTRY_TRAITS | {
    *("autonomous_system_number", "autonomous_system_organization", "connection_type", "domain", "isp"),
    *("mobile_country_code", "mobile_network_code", "organization"),
}
_TRAITS = {"country": _COUNTRY_TRAITS.__contains__, "city": _CITY_TRAITS.__contains__, "insights": bool}
_RECORD = openapi.object_of({TRAITS: openapi.object_of({"ip_address": ADDRESS, "network": openapi.TEXT})})


def _form(name: str, _status: int, detail: str) -> dict[str, str]:
    """An error as clients of that service know it."""
    return {"code": _CODES.get(name, name.upper().replace("-", "_")), "error": detail}


#: Logs keep no address that was looked up.
PATHS = Paths(
    private={f"{BASE}/{service}/": f"{BASE}/{service}/{{ip}}" for service in _TRAITS},
    error_forms={BASE: _form},
)


def _handler(service: Service, about: str) -> Any:
    """The operation of one service."""

    async def answer(request: AnyRequest, shared: NamedDependency[State]) -> ASGIResponse:
        return await _answer(request, shared, service)

    return get(
        f"{BASE}/{service}/{{ip:path}}",
        operation_id=f"geoip2{service.title()}",
        operation_class=openapi.operation(
            f"Look an address up, as the GeoIP2 web service answers: {service}",
            [openapi.path("ip", ADDRESS, "Or `me`, the client's own.")],
            None,
            {"200": openapi.answer(_RECORD, about)},
            ("invalid-address", "address-not-covered", "index-not-ready", "licence-forbids", "stale-data"),
        ),
    )(answer)


HANDLERS = [
    _handler("country", "What is known of its country, with the network that has it."),
    _handler("city", "All that is known of its place, and who runs the network that has it."),
    _handler("insights", "All that is known of its place and of its network."),
]


async def _answer(request: AnyRequest, state: State, service: Service) -> ASGIResponse:
    # Not Litestar's own parameter, which has lost its slashes: an address with a slash is malformed.
    text = unquote(request.scope["raw_path"].decode("latin-1")).partition(f"/{service}/")[2]
    if text == _ME:
        client = request.scope.get("client")
        text = client[0].partition("%")[0] if client else ""
    moment = await state.layers()
    try:
        family, value = addresses.parse(text)
    except InvalidAddressError as error:
        raise RequestRefusedError(str(error), problem="invalid-address") from error

    def of(snapshot: Snapshot) -> dict[str, Any]:
        whole = moment.record(snapshot, family, value, _TRAITS[service]) or {}
        found = {key: part for key, part in whole.items() if service != "country" or key in (*_COUNTRY, TRAITS)}
        if not any(found.values()):
            raise RequestRefusedError("no source says anything of it", problem="address-not-covered")
        traits = found.get(TRAITS, {})
        own = {**_origin(snapshot, family, value, service), **_said(snapshot, text, traits)}
        asked = {"ip_address": text, "network": _network(snapshot, text, family, value)}
        return {**found, TRAITS: {**traits, **asked}, "geolookup": own}

    return ASGIResponse(
        body=msgspec.json.encode(moment.ask(of)),
        media_type=f"application/vnd.maxmind.com-{service}+json; charset=UTF-8; version=2.1",
    )


def _network(snapshot: Snapshot, text: str, family: "Family", value: int) -> str:
    """The largest network around the address in which every address has its record."""
    first, last = snapshot.record_ends(family, value)
    return network_around(text, to_text(family, first), to_text(family, last))


def _origin(snapshot: Snapshot, family: "Family", value: int, service: Service) -> dict[str, Any]:
    """Where the place is from: the map of our own that the records of databases have, too."""
    found = snapshot.place_record(family, value)
    if found is None:
        return {}
    reader, number = found
    slot = reader.slot_of_record(number)
    locid = {} if slot == EMPTY or service == "country" else {"locid": str(reader.location(slot)[0])}
    return {**locid, "layer": reader.layer, "source": source_of_record(reader, number)}


def _said(snapshot: Snapshot, text: str, traits: Collection[str]) -> dict[str, Any]:
    """In the same map, the source that said each of the traits."""
    network = snapshot.network_text(text) if traits else None
    return {} if network is None else {"sources": {key: network.sources[key] for key in traits}}
