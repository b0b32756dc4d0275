"""Operations 8 to 10 over HTTP, and as the OpenAPI document has them: hotel details, the hotel list, rate plans."""

from typing import Any, Literal, TypeAlias

from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIType, Parameter, Schema
from litestar.params import RawBody
from litestar.response.base import ASGIResponse
from sqlalchemy import insert, select, update

from geolookup.base.reasons import reason
from geolookup.model.errors import RequestRefusedError
from geolookup.service.hotels import records
from geolookup.service.hotels import search as hotels
from geolookup.service.hotels.records import SECTIONS, Document
from geolookup.service.hotels.search import Search
from geolookup.service.store.schema import ADDRESS, ADDRESS_KEYS, fold, rate_plans
from geolookup.service.store.schema import hotels as hotels_table
from geolookup.service.store.store import Store, Transaction
from geolookup.web import openapi, wire
from geolookup.web.application import Paths
from geolookup.web.openapi import TEXT
from geolookup.web.stream import SnapshotStream

#: The possible outcomes for a rate plan that was sent.
RateOutcome: TypeAlias = Literal["created", "updated", "unchanged"]

_TYPES = ("rate", "groupRate")
_TEXTS = ("hotelId", "ratePlanCode", "name", "currency")

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
        "type": Schema(type=OpenAPIType.STRING, enum=list(_TYPES)),
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
    document = records.read(body)
    with store.write() as transaction:
        outcome, text = _put(transaction, document)
    return _json(text.encode(), 201 if outcome == "created" else 200, {"X-Outcome": outcome})


HANDLERS = [hotel_details, list_hotels, put_rate_plan]


def _put(transaction: Transaction, document: Document) -> tuple[RateOutcome, str]:
    """Store a rate plan as it was sent; returns the outcome, and the JSON text that is stored now.

    A plan that says the same as the stored one changes nothing, even if its members are in another order.

    :raises RequestRefusedError: ``invalid-body`` with an error for each member that is missing or wrong;
        ``unknown-hotel``
    """
    value = _check_rate_plan(document.value)
    key, code = fold(value["hotelId"]), value["ratePlanCode"]
    connection = transaction.connection
    # Locked if a database has several writers: two that create the same plan at once must come one after the other.
    hotel = select(hotels_table.c.hotel_key).where(hotels_table.c.hotel_key == key).with_for_update()
    if connection.execute(hotel).first() is None:
        raise hotels.unknown_hotel(value["hotelId"])
    here = (rate_plans.c.hotel_key == key, rate_plans.c.code == code)
    before = connection.execute(select(rate_plans.c.content).where(*here)).scalar()
    if before is None:
        connection.execute(insert(rate_plans).values(hotel_key=key, code=code, content=document.text))
        return "created", document.text
    if records.same(before, document.text):
        return "unchanged", before
    connection.execute(update(rate_plans).where(*here).values(content=document.text))
    return "updated", document.text


def _check_rate_plan(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=(("", "must be an object"),))
    errors: list[tuple[str, str]] = []
    for name in (*_TEXTS, "type"):
        try:
            if name not in value:
                raise ValueError("is required")
            if name == "type" and value[name] not in _TYPES:
                raise ValueError(f"must be {' or '.join(_TYPES)}")
            if name != "type" and not wire.text(value[name]).strip():
                raise ValueError("must not be empty")
        except ValueError as error:
            errors.append((f"/{name}", reason(error)))
    if errors:
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=tuple(errors))
    return value


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> ASGIResponse:
    return ASGIResponse(body=body, status_code=status, headers=headers, media_type="application/json")
