"""Operations 1 to 7 over HTTP, and as the OpenAPI document has them: the list of geolocations, and every write."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from litestar import Request, delete, get, post, put
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIResponse, OpenAPIType, Schema
from litestar.params import RawBody
from litestar.response.base import ASGIResponse

from geolookup.model.errors import RequestRefusedError
from geolookup.model.fields import DEGREES, FIELD_NAMES, FILTER_NAMES
from geolookup.service.geolocations import search, writes
from geolookup.service.store.store import Store, Transaction
from geolookup.web import wire
from geolookup.web.application import Paths
from geolookup.web.openapi import (
    ADDRESS,
    INTEGER,
    NOT_JSON,
    NULLABLE_NUMBER,
    TEXT,
    answer,
    array_of,
    header,
    object_of,
    operation,
    query,
)
from geolookup.web.stream import SnapshotStream
from geolookup.web.wire import MAX_TEXT, DeletedBlocks, LocidAnswer

_FIELD = Schema(type=OpenAPIType.STRING, max_length=MAX_TEXT)


def _degrees(limit: float) -> Schema:
    decimal = Schema(type=OpenAPIType.STRING, description="The same as a quoted decimal.")
    return Schema(one_of=[Schema(type=OpenAPIType.NUMBER, minimum=-limit, maximum=limit), decimal])


_BLOCK = object_of({"startip": ADDRESS, "endip": ADDRESS, "startipnum": INTEGER, "endipnum": INTEGER})
_GEOLOCATION = object_of(
    {
        "locid": Schema(type=OpenAPIType.INTEGER, description="Below zero custom, above zero default."),
        **{name: NULLABLE_NUMBER if name in DEGREES else TEXT for name in FIELD_NAMES},
        "ipblocks": array_of(_BLOCK),
    }
)
_FIELDS = object_of({name: _degrees(DEGREES[name]) if name in DEGREES else _FIELD for name in FIELD_NAMES})
_NEW_BLOCK = object_of({"startip": ADDRESS, "endip": ADDRESS})
_REPLACEMENT = object_of(dict.fromkeys(("startip", "endip", "newstartip", "newendip"), ADDRESS))
_LOCID_ANSWER = object_of({"locid": INTEGER})
_DELETED = object_of({"totalMatchingBlocks": INTEGER, "customerDefinedMatchingBlocks": INTEGER})
_LOCID = query("locid", INTEGER, "The custom geolocation's locid.", required=True)
_KEY = header("Idempotency-Key", "The same key and body get the first answer again, and create nothing twice.")
_IF_MATCH = header("If-Match", "The ETag of a list: refused if anything in the list has changed since.")
_LIST_PARAMETERS = [
    query("top", Schema(type=OpenAPIType.INTEGER, minimum=1), "The most geolocations to return; all by default."),
    *(query(name, TEXT, "Compared without regard to case; empty sets no filter.") for name in FILTER_NAMES),
    query("locid", INTEGER, "Only this geolocation (an addition to the interface: what Location points to)."),
    header("If-None-Match", "An ETag given out before: 304 while the list is the same."),
]
_DONE = {"200": answer(_LOCID_ANSWER, "Done.")}
_WRITE = ("invalid-parameter", "cross-site-request", "stale-precondition")
_TARGET = (*_WRITE, "unknown-geolocation", "default-geolocation-immutable")
_CONFLICTS = ("block-exists", "block-taken")

_LIST = operation(
    "List geolocations with their blocks, by ascending locid",
    _LIST_PARAMETERS,
    None,
    {
        "200": answer(array_of(_GEOLOCATION), "A streamed array; nothing found is [].", "ETag", "X-Total-Count"),
        "304": OpenAPIResponse(description="The list is the one that If-None-Match names."),
    },
    ("invalid-parameter",),
)
_CREATE = operation(
    "Create a custom geolocation",
    [_KEY, _IF_MATCH],
    _FIELDS,
    {"201": answer(_LOCID_ANSWER, "Created.", "Location")},
    (*_WRITE, *NOT_JSON, "idempotency-key-reused"),
)
_CREATE_BLOCK = operation(
    "Create a custom IP block",
    [_LOCID, _KEY, _IF_MATCH],
    _NEW_BLOCK,
    {"201": answer(_LOCID_ANSWER, "Created.")},
    (*_TARGET, *NOT_JSON, *_CONFLICTS, "idempotency-key-reused"),
)
_UPDATE = operation("Update a custom geolocation", [_LOCID, _IF_MATCH], _FIELDS, _DONE, (*_TARGET, *NOT_JSON))
_REPLACE_BLOCK = operation(
    "Replace a custom IP block",
    [_LOCID, _IF_MATCH],
    _REPLACEMENT,
    _DONE,
    (*_TARGET, *NOT_JSON, *_CONFLICTS, "unknown-block"),
)
_DELETE = operation("Delete a custom geolocation and its blocks", [_LOCID, _IF_MATCH], None, _DONE, _TARGET)
_DELETE_BLOCKS = operation(
    "Delete all blocks of a custom geolocation",
    [_LOCID, _IF_MATCH],
    None,
    {"200": answer(_DELETED, "How many blocks matched, and how many were deleted.")},
    _TARGET,
)


AnyRequest: TypeAlias = Request[Any, Any, Any]

PATHS = Paths(lists=frozenset({"/geolocations"}))


@dataclass(frozen=True, slots=True)
class Geolocations:
    """The store of these operations; with ``ignore_idempotency_keys``, as if ``Idempotency-Key`` were not known."""

    store: Store
    ignore_idempotency_keys: bool = False


@get("/geolocations", operation_id="listGeolocations", operation_class=_LIST, sync_to_thread=True)
def list_geolocations(request: AnyRequest, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 1."""
    wanted = search.Filter.parse(request.scope["query_string"])
    snapshot = geolocations.store.snapshot()
    try:
        tag = search.etag(geolocations.store, snapshot.revision, wanted)
        known = ",".join(request.headers.getall("if-none-match", []))
        if known and wire.tag_matches(known, lambda _weak, given: given == tag):
            snapshot.close()
            return ASGIResponse(status_code=304, headers={"ETag": tag})
        headers = {"ETag": tag, "X-Total-Count": str(search.count(snapshot, wanted))}
        return SnapshotStream(search.encode(snapshot, wanted), snapshot, headers=headers)
    except BaseException:
        snapshot.close()
        raise


@post("/geolocations", operation_id="createGeolocation", operation_class=_CREATE, sync_to_thread=True)
def create_geolocation(request: AnyRequest, body: RawBody, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 2."""
    value = wire.read_json(body)

    def create(transaction: Transaction) -> int:
        return writes.create(transaction, wire.geolocation(value))

    answer = _once(request, geolocations, "create", None, value, create)
    locid = msgspec.json.decode(answer.body, type=LocidAnswer).locid
    return _json(answer.body, answer.status, {"Location": f"/geolocations?locid={locid}"})


@put("/geolocations", operation_id="updateGeolocation", operation_class=_UPDATE, sync_to_thread=True)
def update_geolocation(request: AnyRequest, body: RawBody, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 4."""
    locid = _locid(request)
    value = wire.read_json(body)
    with geolocations.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, geolocations, transaction)
        writes.change(transaction, locid, wire.geolocation(value))
    return _json(_locid_answer(locid))


@delete(
    "/geolocations",
    operation_id="deleteGeolocation",
    operation_class=_DELETE,
    sync_to_thread=True,
    status_code=200,
)
def delete_geolocation(request: AnyRequest, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 6."""
    locid = _locid(request)
    with geolocations.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, geolocations, transaction)
        writes.remove(transaction, locid)
    return _json(_locid_answer(locid))


@post("/geolocations/ipblocks", operation_id="createBlock", operation_class=_CREATE_BLOCK, sync_to_thread=True)
def create_block(request: AnyRequest, body: RawBody, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 3."""
    locid = _locid(request)
    value = wire.read_json(body)

    def create(transaction: Transaction) -> int:
        writes.require_custom(transaction, locid)
        writes.create_block(transaction, locid, wire.block(value))
        return locid

    answer = _once(request, geolocations, "create-block", locid, value, create)
    return _json(answer.body, answer.status)


@put("/geolocations/ipblocks", operation_id="replaceBlock", operation_class=_REPLACE_BLOCK, sync_to_thread=True)
def replace_block(request: AnyRequest, body: RawBody, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 5."""
    locid = _locid(request)
    value = wire.read_json(body)
    with geolocations.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, geolocations, transaction)
        old, new = wire.block(value), wire.block(value, "newstartip", "newendip")
        writes.replace_block(transaction, locid, old, new)
    return _json(_locid_answer(locid))


@delete(
    "/geolocations/ipblocks",
    operation_id="deleteBlocks",
    operation_class=_DELETE_BLOCKS,
    sync_to_thread=True,
    status_code=200,
)
def delete_blocks(request: AnyRequest, geolocations: NamedDependency[Geolocations]) -> ASGIResponse:
    """Operation 7."""
    locid = _locid(request)
    with geolocations.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, geolocations, transaction)
        matching, deleted = writes.delete_blocks(transaction, locid)
    counts = DeletedBlocks(total_matching_blocks=matching, customer_defined_matching_blocks=deleted)
    return _json(msgspec.json.encode(counts))


HANDLERS = [
    list_geolocations,
    create_geolocation,
    update_geolocation,
    delete_geolocation,
    create_block,
    replace_block,
    delete_blocks,
]


def _once(
    request: AnyRequest,
    geolocations: Geolocations,
    operation: str,
    locid: int | None,
    value: Any,
    create: Callable[[Transaction], int],
) -> writes.KeptAnswer:
    """Create, or repeat the earlier answer to the request's idempotency key: both in one transaction."""
    key = None if geolocations.ignore_idempotency_keys else wire.idempotency_key(request.headers.get("idempotency-key"))
    with geolocations.store.write() as transaction:
        wanted = writes.request_digest(operation, locid, value)
        if key is not None and (first := writes.find_answer(transaction, key, wanted)) is not None:
            return first
        _check_precondition(request, geolocations, transaction)
        answer = writes.KeptAnswer(201, _locid_answer(create(transaction)))
        if key is not None:
            writes.keep_answer(transaction, key, wanted, answer)
        return answer


def _check_precondition(request: AnyRequest, geolocations: Geolocations, transaction: Transaction) -> None:
    """``If-Match`` (RFC 9110, section 13.1.1) against the list's present ETag, with any filter."""
    given = ",".join(request.headers.getall("if-match", []))
    if not given:
        return
    now = f'"{search.revision_tag(geolocations.store, transaction.revision)}-'
    if not wire.tag_matches(given, lambda weak, tag: not weak and tag.startswith(now)):
        raise RequestRefusedError(
            "something in the list has changed since that ETag: read it again", problem="stale-precondition"
        )


def _locid(request: AnyRequest) -> int:
    return wire.locid(wire.parameters(request.scope["query_string"], "locid"))


def _locid_answer(locid: int) -> bytes:
    return msgspec.json.encode(LocidAnswer(locid=locid))


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> ASGIResponse:
    return ASGIResponse(body=body, status_code=status, headers=headers, media_type="application/json")
