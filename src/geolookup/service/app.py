"""The web application: which path and method does which operation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from litestar import Litestar, Request, Router, delete, get, post, put, route
from litestar.di import NamedDependency, Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.params import RawBody
from litestar.response.base import ASGIResponse

from geolookup._version import __version__
from geolookup.errors import RequestRefusedError
from geolookup.service.geolocations import search, writes
from geolookup.service.hotels import routes as hotels_routes
from geolookup.service.http import openapi, problems, wire
from geolookup.service.http.allow import Allow
from geolookup.service.http.health import Health, healthz, readyz
from geolookup.service.http.metrics import Metrics, metrics_page
from geolookup.service.http.stream import SnapshotStream
from geolookup.service.http.wire import DeletedBlocks, LocidAnswer
from geolookup.service.lookups import routes as lookups_routes
from geolookup.service.lookups.lookup_index import LookupIndex
from geolookup.service.store import replay
from geolookup.service.store.store import Store, Transaction

AnyRequest: TypeAlias = Request[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Service:
    """What the operations work with."""

    store: Store
    ignore_idempotency_keys: bool
    lookup_index: LookupIndex


def create_app(
    store: Store,
    lookup_index: LookupIndex,
    *,
    ignore_idempotency_keys: bool = False,
    health: Health | None = None,
    metrics: Metrics | None = None,
) -> Allow:
    """The ASGI application over an open store and the index that follows it; it closes neither.

    It refuses nobody by itself: `geolookup.service.http.guard.Guard` goes around it. ``ignore_idempotency_keys``
    makes it a service that knows no ``Idempotency-Key``, as others are.
    """
    health, metrics = health or Health(), metrics or Metrics()
    service = Service(store, ignore_idempotency_keys, lookup_index)
    app = Litestar(
        # One router, since Litestar (2.25) wraps a handler in a worker thread once more for each later handler that is
        # registered with the application itself under the same path.
        route_handlers=[Router("/", route_handlers=_HANDLERS)],
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            "store": Provide(lambda: store, sync_to_thread=False),
            "lookup_index": Provide(lambda: lookup_index, sync_to_thread=False),
            "health": Provide(lambda: health, sync_to_thread=False),
            "metrics": Provide(lambda: metrics, sync_to_thread=False),
        },
        exception_handlers=problems.HANDLERS,
        request_max_body_size=wire.MAX_BODY_BYTES,
        # The pages that Litestar offers load scripts from other hosts: only the document itself is served.
        openapi_config=OpenAPIConfig(
            title="geolookup reference service",
            version=__version__,
            components=openapi.COMPONENTS,
            security=openapi.SECURITY,
            render_plugins=[JsonRenderPlugin(), YamlRenderPlugin()],
            openapi_router=Router(
                "/schema", route_handlers=[], include_in_schema=False, after_request=problems.no_html_not_found
            ),
        ),
        logging_config=None,
    )
    return Allow(app)


@get("/", include_in_schema=False, sync_to_thread=False)
def links() -> dict[str, str]:
    """Where to go from here."""
    return {"service": f"geolookup {__version__}", "geolocations": "/geolocations", "openapi": "/schema/openapi.json"}


@get("/geolocations", operation_id="listGeolocations", operation_class=openapi.LIST, sync_to_thread=True)
def list_geolocations(request: AnyRequest, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 1."""
    wanted = search.Filter.parse(request.scope["query_string"])
    snapshot = service.store.snapshot()
    try:
        tag = search.etag(service.store, snapshot.revision, wanted)
        known = ",".join(request.headers.getall("if-none-match", []))
        if known and wire.tag_matches(known, lambda _weak, given: given == tag):
            snapshot.close()
            return ASGIResponse(status_code=304, headers={"ETag": tag})
        headers = {"ETag": tag, "X-Total-Count": str(search.count(snapshot, wanted))}
        return SnapshotStream(search.encode(snapshot, wanted), snapshot, headers=headers)
    except BaseException:
        snapshot.close()
        raise


# Not Litestar's own `head`, which would answer with the length of a body of None.
@route("/geolocations", http_method="HEAD", include_in_schema=False, sync_to_thread=True)
def head_geolocations(request: AnyRequest, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 1 without its rows."""
    wanted = search.Filter.parse(request.scope["query_string"])
    snapshot = service.store.snapshot()
    try:
        tag = search.etag(service.store, snapshot.revision, wanted)
        total = search.count(snapshot, wanted)
    finally:
        snapshot.close()
    headers = {"ETag": tag, "X-Total-Count": str(total), "Content-Type": "application/json"}
    return ASGIResponse(headers=headers, is_head_response=True)


@post("/geolocations", operation_id="createGeolocation", operation_class=openapi.CREATE, sync_to_thread=True)
def create_geolocation(request: AnyRequest, body: RawBody, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 2."""
    value = wire.read_json(body)

    def create(transaction: Transaction) -> int:
        return writes.create(transaction, wire.geolocation(value))

    answer = _once(request, service, "create", None, value, create)
    locid = msgspec.json.decode(answer.body, type=LocidAnswer).locid
    return _json(answer.body, answer.status, {"Location": f"/geolocations?locid={locid}"})


@put("/geolocations", operation_id="updateGeolocation", operation_class=openapi.UPDATE, sync_to_thread=True)
def update_geolocation(request: AnyRequest, body: RawBody, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 4."""
    locid = _locid(request)
    value = wire.read_json(body)
    with service.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, service, transaction)
        writes.change(transaction, locid, wire.geolocation(value))
    return _json(_locid_answer(locid))


@delete(
    "/geolocations",
    operation_id="deleteGeolocation",
    operation_class=openapi.DELETE,
    sync_to_thread=True,
    status_code=200,
)
def delete_geolocation(request: AnyRequest, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 6."""
    locid = _locid(request)
    with service.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, service, transaction)
        writes.remove(transaction, locid)
    return _json(_locid_answer(locid))


@post("/geolocations/ipblocks", operation_id="createBlock", operation_class=openapi.CREATE_BLOCK, sync_to_thread=True)
def create_block(request: AnyRequest, body: RawBody, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 3."""
    locid = _locid(request)
    value = wire.read_json(body)

    def create(transaction: Transaction) -> int:
        writes.require_custom(transaction, locid)
        writes.create_block(transaction, locid, wire.block(value))
        return locid

    answer = _once(request, service, "create-block", locid, value, create)
    return _json(answer.body, answer.status)


@put("/geolocations/ipblocks", operation_id="replaceBlock", operation_class=openapi.REPLACE_BLOCK, sync_to_thread=True)
def replace_block(request: AnyRequest, body: RawBody, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 5."""
    locid = _locid(request)
    value = wire.read_json(body)
    with service.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, service, transaction)
        old, new = wire.block(value), wire.block(value, "newstartip", "newendip")
        writes.replace_block(transaction, locid, old, new)
    return _json(_locid_answer(locid))


@delete(
    "/geolocations/ipblocks",
    operation_id="deleteBlocks",
    operation_class=openapi.DELETE_BLOCKS,
    sync_to_thread=True,
    status_code=200,
)
def delete_blocks(request: AnyRequest, service: NamedDependency[Service]) -> ASGIResponse:
    """Operation 7."""
    locid = _locid(request)
    with service.store.write() as transaction:
        writes.require_custom(transaction, locid)
        _check_precondition(request, service, transaction)
        matching, deleted = writes.delete_blocks(transaction, locid)
    counts = DeletedBlocks(total_matching_blocks=matching, customer_defined_matching_blocks=deleted)
    return _json(msgspec.json.encode(counts))


def _once(
    request: AnyRequest,
    service: Service,
    operation: str,
    locid: int | None,
    value: Any,
    create: Callable[[Transaction], int],
) -> replay.Answer:
    """Create, or give the answer that the request's idempotency key got before: in one transaction either way."""
    key = None if service.ignore_idempotency_keys else wire.idempotency_key(request.headers.get("idempotency-key"))
    with service.store.write() as transaction:
        wanted = replay.digest(operation, locid, value)
        if key is not None and (first := replay.find(transaction, key, wanted)) is not None:
            return first
        _check_precondition(request, service, transaction)
        answer = replay.Answer(201, _locid_answer(create(transaction)))
        if key is not None:
            replay.keep(transaction, key, wanted, answer)
        return answer


def _check_precondition(request: AnyRequest, service: Service, transaction: Transaction) -> None:
    """``If-Match`` (RFC 9110, section 13.1.1) against the list's present ETag, whatever the list's filter was."""
    given = ",".join(request.headers.getall("if-match", []))
    if not given:
        return
    now = f'"{search.revision_tag(service.store, transaction.revision)}-'
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


_HANDLERS = [
    links,
    list_geolocations,
    head_geolocations,
    create_geolocation,
    update_geolocation,
    delete_geolocation,
    create_block,
    replace_block,
    delete_blocks,
    *hotels_routes.HANDLERS,
    *lookups_routes.HANDLERS,
    healthz,
    readyz,
    metrics_page,
]
