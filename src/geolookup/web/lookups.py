"""Lookups over HTTP: one address by its path, many by a body, answered from the compiled index."""

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote

import msgspec
from anyio import to_thread
from litestar import Request, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIType, Schema
from litestar.params import RawBody
from litestar.response.base import ASGIResponse

from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError, RequestRefusedError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.model.types import Match, flat_not_covered
from geolookup.web import openapi, wire
from geolookup.web.application import AnswerAtOnce, Paths
from geolookup.web.openapi import ADDRESS, NULLABLE_NUMBER

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

Flat: TypeAlias = dict[str, str | int | float | bool | None]

#: Addresses in one body: with more, the longest ones would not fit into the bytes that a body may have.
MAX_ADDRESSES = 1000
_PATH = "/lookup"

#: The access log keeps no address that was looked up: logs are kept for longer than a guest's address may be.
PATHS = Paths(reading_posts=frozenset({_PATH}), private={f"{_PATH}/": f"{_PATH}/{{ip}}"})

_NULLABLE_TEXT = Schema(type=[OpenAPIType.STRING, OpenAPIType.NULL])
_FLAT = openapi.object_of(
    {
        "ip": Schema(type=OpenAPIType.STRING, description="As it was asked for."),
        "locid": Schema(type=[OpenAPIType.INTEGER, OpenAPIType.NULL], description="Null if nothing covers it."),
        **{name: NULLABLE_NUMBER if name in DEGREES else _NULLABLE_TEXT for name in FIELD_NAMES},
        "first": _NULLABLE_TEXT,
        "last": _NULLABLE_TEXT,
        "layer": Schema(enum=["custom", "default", None]),
        "pending": Schema(type=[OpenAPIType.BOOLEAN, OpenAPIType.NULL]),
        "source": _NULLABLE_TEXT,
    }
)
_MANY = Schema(type=OpenAPIType.ARRAY, items=ADDRESS, max_items=MAX_ADDRESSES)


class Layers(Protocol):
    """Both layers at one moment: they do not change as long as they are held."""

    def match(self, address: str, family: "Family", value: int) -> Match | None:
        """The match of an address, or None; the match repeats ``address``."""


@runtime_checkable
class Lookups(Protocol):
    """The index behind lookups."""

    async def layers(self) -> Layers:
        """The layers as they are now.

        :raises RequestRefusedError: ``index-not-ready`` if there are none yet
        """

    def layers_at_once(self) -> Layers | None:
        """The same; None if `layers` would wait for something, or if there are none yet."""


@get(
    f"{_PATH}/{{ip:path}}",
    operation_id="lookupAddress",
    operation_class=openapi.operation(
        "Look an address up",
        [openapi.path("ip", ADDRESS, "Percent-encoded or not.")],
        None,
        {"200": openapi.answer(_FLAT, "Its geolocation and range; all null if nothing covers it.")},
        ("invalid-address", "index-not-ready"),
    ),
)
async def lookup_address(request: Request[Any, Any, Any], lookups: NamedDependency[Lookups]) -> ASGIResponse:
    """One address: 200 whether it is covered or not."""
    try:
        return _json(_find(await lookups.layers(), _asked(request.scope)))
    except InvalidAddressError as error:
        raise RequestRefusedError(str(error), problem="invalid-address") from error


def quick(lookups: Lookups) -> dict[str, tuple[Any, AnswerAtOnce]]:
    """`lookup_address` for `geolookup.web.routing.Quick`."""

    def answer(scope: Any) -> bytes | None:
        layers = lookups.layers_at_once()
        return None if layers is None else msgspec.json.encode(_find(layers, _asked(scope)))

    return {f"{_PATH}/": (lookup_address, answer)}


def _asked(scope: Any) -> str:
    """The address, as it was asked for."""
    # Not Litestar's own parameter, which has lost its slashes: an address with a slash is malformed.
    return unquote(scope["raw_path"].decode("latin-1")).partition(f"{_PATH}/")[2]


@post(
    _PATH,
    operation_id="lookupAddresses",
    operation_class=openapi.operation(
        "Look many addresses up",
        [],
        _MANY,
        {"200": openapi.answer(openapi.array_of(_FLAT), "One object an address, in the same order.")},
        ("invalid-address", "cross-site-request", "index-not-ready", *openapi.NOT_JSON),
    ),
    status_code=200,
)
async def lookup_addresses(body: RawBody, lookups: NamedDependency[Lookups]) -> ASGIResponse:
    """Many addresses at once, all answered from one state of the database."""
    asked = wire.read_json(body)
    if not isinstance(asked, list) or len(asked) > MAX_ADDRESSES:
        detail = f"must be an array of at most {MAX_ADDRESSES} addresses"
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=(("", detail),))
    layers = await lookups.layers()
    # In a thread: a thousand lookups would block everyone else for a while.
    return _json(await to_thread.run_sync(_find_all, layers, asked))


HANDLERS = [lookup_address, lookup_addresses]


def _find(layers: Layers, text: str) -> Flat:
    family, value = addresses.parse(text)
    found = layers.match(text, family, value)
    return flat_not_covered(text) if found is None else found.flat()


def _find_all(layers: Layers, asked: list[Any]) -> list[Flat]:
    found: list[Flat] = []
    errors: list[tuple[str, str]] = []
    for position, text in enumerate(asked):
        if not isinstance(text, str):
            errors.append((f"/{position}", "an address is text"))
            continue
        try:
            found.append(_find(layers, text))
        except InvalidAddressError as error:
            errors.append((f"/{position}", str(error)))
    if errors:
        raise RequestRefusedError(
            f"{len(errors)} of {len(asked)} are not addresses", problem="invalid-address", errors=tuple(errors)
        )
    return found


def _json(value: Flat | list[Flat]) -> ASGIResponse:
    return ASGIResponse(body=msgspec.json.encode(value), media_type="application/json")
