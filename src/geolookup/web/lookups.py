"""Lookups over HTTP: one address by its path, many by a body, answered from the compiled index."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote

import msgspec
from anyio import to_thread
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import OpenAPIType, Parameter, Schema
from litestar.params import RawBody
from litestar.response.base import ASGIResponse

from geolookup.model.errors import InvalidAddressError, RequestRefusedError
from geolookup.model.facts import FACTS
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.web import openapi, wire
from geolookup.web.application import AnswerAtOnce, Paths
from geolookup.web.openapi import ADDRESS, NULLABLE_NUMBER

#: `Match.flat`, and perhaps more members.
Flat: TypeAlias = dict[str, Any]

#: Addresses in one body: with more, the longest ones would not fit into the bytes that a body may have.
MAX_ADDRESSES = 1000
_PATH = "/lookup"

#: The access log keeps no address that was looked up: logs are kept for longer than a guest's address may be.
PATHS = Paths(reading_posts=frozenset({_PATH}), private={f"{_PATH}/": f"{_PATH}/{{ip}}"})

_NULLABLE_TEXT = Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL])
_NULLABLE_INTEGER = Schema(type=[OpenAPIType.INTEGER, OpenAPIType.NULL])
_NULLABLE_BOOLEAN = Schema(type=[OpenAPIType.BOOLEAN, OpenAPIType.NULL])
_FLAT = {
    "ip": Schema(type=OpenAPIType.STRING, description="As it was asked for."),
    "locid": Schema(type=[OpenAPIType.INTEGER, OpenAPIType.NULL], description="Null if nothing says where it is."),
    **{name: NULLABLE_NUMBER if name in DEGREES else _NULLABLE_TEXT for name in FIELD_NAMES},
    "first": _NULLABLE_TEXT,
    "last": _NULLABLE_TEXT,
    "layer": Schema(enum=["custom", "default", None]),
    "pending": _NULLABLE_BOOLEAN,
    "source": _NULLABLE_TEXT,
}
_FACT_SCHEMAS = {"text": _NULLABLE_TEXT, "boolean": _NULLABLE_BOOLEAN}
_FACTS = {
    "network": _NULLABLE_TEXT,
    **{fact.name: _FACT_SCHEMAS.get(fact.kind, _NULLABLE_INTEGER) for fact in FACTS},
}
_RECORD = Schema(
    type=[OpenAPIType.OBJECT, OpenAPIType.NULL],
    description="All that is known of it, in the shape of GeoIP2's records; only if it was asked for.",
)
_ASKS_RECORD = openapi.query(
    "record", Schema(type=OpenAPIType.BOOLEAN), "With true, objects have all that is known under `record`."
)
_MANY = Schema(type=OpenAPIType.ARRAY, items=ADDRESS, max_items=MAX_ADDRESSES)


class Layers(Protocol):
    """Both layers at one moment: they do not change as long as they are held."""

    def answer(self, address: str, *, record: bool) -> Flat:
        """The object for an address, which it repeats as ``ip``; with ``record``, that is its last member.

        :raises InvalidAddressError: if it is malformed
        """


@runtime_checkable
class Lookups(Protocol):
    """The index behind lookups."""

    async def layers(self) -> Layers:
        """The layers as they are now.

        :raises RequestRefusedError: ``index-not-ready`` if there are none yet
        """

    def layers_at_once(self) -> Layers | None:
        """The same; None if `layers` would wait for something, or if there are none yet."""


@runtime_checkable
class LookupsWithVrfs(Lookups, Protocol):
    """Lookups that know routing domains."""

    def in_vrf(self, name: str) -> Lookups:
        """The lookups in a routing domain.

        :raises RequestRefusedError: ``invalid-parameter`` if there is none of this name
        """


async def _lookup_address(request: Request[Any, Any, Any], lookups: NamedDependency[Lookups]) -> ASGIResponse:
    """One address: 200 whether it is covered or not."""
    record = _asks_record(request.scope["query_string"])
    try:
        layers = await _in_vrf(lookups, request.scope["query_string"]).layers()
        return _json(layers.answer(_asked(request.scope), record=record))
    except InvalidAddressError as error:
        raise RequestRefusedError(str(error), problem="invalid-address") from error


async def _lookup_addresses(
    request: Request[Any, Any, Any], body: RawBody, lookups: NamedDependency[Lookups]
) -> ASGIResponse:
    """Many addresses at once, all answered from one state of the database."""
    record = _asks_record(request.scope["query_string"])
    asked = wire.read_json(body)
    if not isinstance(asked, list) or len(asked) > MAX_ADDRESSES:
        detail = f"must be an array of at most {MAX_ADDRESSES} addresses"
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=(("", detail),))
    layers = await _in_vrf(lookups, request.scope["query_string"]).layers()
    # In a thread: a thousand lookups would block everyone else for a while.
    return _json(await to_thread.run_sync(partial(_find_all, layers, asked, record=record)))


def _handlers(
    members: Mapping[str, Schema], covered: str, refusals: tuple[str, ...] = (), more: tuple[Parameter, ...] = ()
) -> list[HTTPRouteHandler]:
    """Both operations, whose objects have these ``members``; ``covered`` says it of them. ``more`` are parameters."""
    flat = openapi.object_of({**members, "record": _RECORD}, optional=("record",))
    address = get(
        f"{_PATH}/{{ip:path}}",
        operation_id="lookupAddress",
        operation_class=openapi.operation(
            "Look an address up",
            [openapi.path("ip", ADDRESS, "Percent-encoded or not."), _ASKS_RECORD, *more],
            None,
            {"200": openapi.answer(flat, covered)},
            ("invalid-address", "invalid-parameter", "index-not-ready", *refusals),
        ),
    )
    many = post(
        _PATH,
        operation_id="lookupAddresses",
        operation_class=openapi.operation(
            "Look many addresses up",
            [_ASKS_RECORD, *more],
            _MANY,
            {"200": openapi.answer(openapi.array_of(flat), "One object an address, in the same order.")},
            (
                *("invalid-address", "invalid-parameter", "cross-site-request", "index-not-ready"),
                *openapi.NOT_JSON,
                *refusals,
            ),
        ),
        status_code=200,
    )
    return [address(_lookup_address), many(_lookup_addresses)]


#: Of a service that keeps the fields of places alone.
HANDLERS = _handlers(_FLAT, "Its geolocation and range; all null if nothing covers it.")
#: Of one that has all that sources say.
WITH_FACTS = _handlers(
    {**_FLAT, **_FACTS},
    "Its geolocation and range, null if nothing says where it is, and all facts, each null if no source says it.",
    ("licence-forbids", "stale-data"),
    (
        openapi.query(
            "vrf",
            Schema(type=OpenAPIType.STRING),
            "The routing domain (VRF) whose own blocks answer first; empty for none. One that is not there is refused.",
        ),
    ),
)


def quick(
    lookups: Lookups, handlers: Sequence[HTTPRouteHandler] = HANDLERS
) -> dict[str, tuple[HTTPRouteHandler, AnswerAtOnce]]:
    """`HANDLERS`' or `WITH_FACTS`' answer for one address, for `geolookup.web.routing.Quick`."""

    def answer(scope: Any) -> bytes | None:
        layers = _in_vrf(lookups, scope["query_string"]).layers_at_once()
        if layers is None:
            return None
        return msgspec.json.encode(layers.answer(_asked(scope), record=_asks_record(scope["query_string"])))

    return {f"{_PATH}/": (handlers[0], answer)}


def _asked(scope: Any) -> str:
    """The address, as it was asked for."""
    # Not Litestar's own parameter, which has lost its slashes: an address with a slash is malformed.
    return unquote(scope["raw_path"].decode("latin-1")).partition(f"{_PATH}/")[2]


def _in_vrf(lookups: Lookups, query: bytes) -> Lookups:
    """The lookups in the routing domain that the query names, if it names one."""
    name = wire.parameters(query, "vrf").get("vrf") if query else None
    if name is None:
        return lookups
    if not isinstance(lookups, LookupsWithVrfs):
        raise RequestRefusedError("vrf: this service knows no routing domains", problem="invalid-parameter")
    return lookups.in_vrf(name)


def _asks_record(query: bytes) -> bool:
    if not query:
        return False
    asked = wire.parameters(query, "record").get("record", "false")
    if asked not in ("true", "false"):
        raise RequestRefusedError(f"record must be true or false, not {asked!r:.60}", problem="invalid-parameter")
    return asked == "true"


def _find_all(layers: Layers, asked: list[Any], *, record: bool) -> list[Flat]:
    found: list[Flat] = []
    errors: list[tuple[str, str]] = []
    for position, text in enumerate(asked):
        if not isinstance(text, str):
            errors.append((f"/{position}", "an address is text"))
            continue
        try:
            found.append(layers.answer(text, record=record))
        except InvalidAddressError as error:
            errors.append((f"/{position}", str(error)))
    if errors:
        raise RequestRefusedError(
            f"{len(errors)} of {len(asked)} are not addresses", problem="invalid-address", errors=tuple(errors)
        )
    return found


def _json(value: Flat | list[Flat]) -> ASGIResponse:
    return ASGIResponse(body=msgspec.json.encode(value), media_type="application/json")
