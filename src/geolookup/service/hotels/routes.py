"""Operations 8 to 10 over HTTP: hotel details, the hotel list, rate plans; and what OpenAPI says of them."""

from typing import Any

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIType, Parameter, Schema
from litestar.params import RawBody
from litestar.response.base import ASGIResponse

from geolookup.service.hotels import documents, rates
from geolookup.service.hotels import search as hotels
from geolookup.service.hotels.records import SECTIONS
from geolookup.service.hotels.search import Search
from geolookup.service.store.hotel_schema import ADDRESS, ADDRESS_KEYS
from geolookup.service.store.store import Store
from geolookup.web import openapi
from geolookup.web.application import Paths
from geolookup.web.openapi import TEXT
from geolookup.web.stream import SnapshotStream

PATHS = Paths(lists=frozenset({"/v1/api/hotel/list"}))

_DEGREES = Schema(
    one_of=[Schema(type=OpenAPIType.NUMBER), Schema(type=OpenAPIType.STRING, description="A quoted decimal.")]
)
_LIST = Schema(type=OpenAPIType.ARRAY)


def _hotel() -> Schema:
    schema = openapi.object_of(
        {
            "hotelId": TEXT,
            "name": TEXT,
            "address": openapi.object_of(dict.fromkeys(ADDRESS, TEXT)),
            "destinationId": TEXT,
            "amenities": openapi.array_of(TEXT),
            "latitude": _DEGREES,
            "longitude": _DEGREES,
        }
    )
    sections = {name: _LIST if name in ("Attributes", "DiningOptions", "Features") else Schema() for name in SECTIONS}
    schema.properties = {**(schema.properties or {}), **sections}
    return schema


def _texts(name: str, description: str) -> Parameter:
    return openapi.query(name, openapi.array_of(TEXT), f"{description} Repeated, or separated by commas.")


_RATE_PLAN = openapi.object_of(
    {
        "hotelId": TEXT,
        "ratePlanCode": TEXT,
        "type": Schema(type=OpenAPIType.STRING, enum=list(rates.TYPES)),
        "name": TEXT,
        "currency": TEXT,
    }
)
_INCLUDE = _texts(hotels.INCLUDE, f"Sections to add to the record, of {', '.join(SECTIONS)}.")
_HOTEL_ID = Parameter(
    name="hotelId", param_in="path", schema=TEXT, required=True, description="The hotel's identifier."
)
_DETAILS = openapi.operation(
    "A hotel's record",
    [_HOTEL_ID, _INCLUDE],
    None,
    {"200": openapi.answer(_hotel(), "The record, with the sections that were asked for.")},
    ("invalid-parameter", "not-found", "unknown-hotel"),
)
_SEARCH = openapi.operation(
    "Search hotels by address, by destination, by identifier or by amenity",
    [
        *(openapi.query(name, TEXT, "Compared without regard to case; empty sets no filter.") for name in ADDRESS_KEYS),
        openapi.query("destinationId", TEXT, "The destination; not together with an address."),
        _texts("id", f"Identifiers, at most {hotels.MAX_IDS}; not together with an address or a destination."),
        _texts("amenity", f"Amenities that must all be there, at most {hotels.MAX_ASKED_AMENITIES}."),
        _INCLUDE,
    ],
    None,
    {
        "200": openapi.answer(
            openapi.array_of(_hotel()),
            "The records in the order of the identifiers asked for, else by hotelId. X-Missing-Ids, if present, "
            "names the identifiers that are not known: percent-encoded, separated by commas.",
        )
    },
    ("invalid-parameter",),
)
_UPSERT = openapi.operation(
    "Create or update a rate or group rate",
    [],
    _RATE_PLAN,
    {
        "201": openapi.answer(_RATE_PLAN, "Created: the stored record.", "X-Outcome"),
        "200": openapi.answer(_RATE_PLAN, "Updated, or unchanged, as X-Outcome says: the stored record.", "X-Outcome"),
    },
    (*openapi.NOT_JSON, "cross-site-request", "unknown-hotel"),
)


@get(
    "/v1/api/hotel/{hotelId:str}/details",
    operation_id="hotelDetails",
    operation_class=_DETAILS,
    sync_to_thread=True,
)
def hotel_details(request: Request[Any, Any, Any], store: NamedDependency[Store]) -> ASGIResponse:
    """Operation 8."""
    hidden = hotels.hidden_sections(request.scope["query_string"])
    snapshot = store.snapshot()
    try:
        return _json(hotels.one(snapshot.connection, request.path_params["hotelId"], hidden))
    finally:
        snapshot.close()


@get("/v1/api/hotel/list", operation_id="listHotels", operation_class=_SEARCH, sync_to_thread=True)
def list_hotels(request: Request[Any, Any, Any], store: NamedDependency[Store]) -> ASGIResponse:
    """Operation 9."""
    search = Search.parse(request.scope["query_string"])
    snapshot = store.snapshot()
    try:
        missing = hotels.missing(snapshot, search)
        headers = {"X-Missing-Ids": hotels.header_list(missing)} if missing else {}
        return SnapshotStream(hotels.encode(snapshot, search), snapshot, headers=headers)
    except BaseException:
        snapshot.close()
        raise


@post("/admin/product/ratePlans", operation_id="putRatePlan", operation_class=_UPSERT, sync_to_thread=True)
def put_rate_plan(body: RawBody, store: NamedDependency[Store]) -> ASGIResponse:
    """Operation 10."""
    document = documents.read(body)
    with store.write() as transaction:
        outcome, text = rates.put(transaction, document)
    return _json(text.encode(), 201 if outcome == "created" else 200, {"X-Outcome": outcome})


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> ASGIResponse:
    return ASGIResponse(body=body, status_code=status, headers=headers, media_type="application/json")


HANDLERS = [hotel_details, list_hotels, put_rate_plan]
