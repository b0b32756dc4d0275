"""What the OpenAPI document says of each operation: parameters, bodies, answers and every problem."""

from dataclasses import dataclass
from typing import Any

from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

from geolookup.model import FIELD_NAMES
from geolookup.service.problems import MEDIA_TYPE, PROBLEMS
from geolookup.service.schema import FILTERS
from geolookup.service.wire import MAX_TEXT

_TEXT = Schema(type=OpenAPIType.STRING)
_FIELD = Schema(type=OpenAPIType.STRING, max_length=MAX_TEXT)
_INTEGER = Schema(type=OpenAPIType.INTEGER)
_ADDRESS = Schema(type=OpenAPIType.STRING, description="A strict dotted quad, or IPv6 (RFC 4291).")
_NULLABLE = Schema(type=[OpenAPIType.NUMBER, OpenAPIType.NULL])


def _object(properties: dict[str, Schema]) -> Schema:
    return Schema(type=OpenAPIType.OBJECT, properties=dict(properties), required=list(properties))


def _array(items: Schema) -> Schema:
    return Schema(type=OpenAPIType.ARRAY, items=items)


def _degrees(limit: int) -> Schema:
    decimal = Schema(type=OpenAPIType.STRING, description="The same as a quoted decimal.")
    return Schema(one_of=[Schema(type=OpenAPIType.NUMBER, minimum=-limit, maximum=limit), decimal])


_BLOCK = _object({"startip": _ADDRESS, "endip": _ADDRESS, "startipnum": _INTEGER, "endipnum": _INTEGER})
_GEOLOCATION = _object(
    {
        "locid": Schema(type=OpenAPIType.INTEGER, description="Below zero custom, above zero default."),
        **{name: _NULLABLE if name in ("latitude", "longitude") else _TEXT for name in FIELD_NAMES},
        "ipblocks": _array(_BLOCK),
    }
)
_FIELDS = _object(
    {name: {"latitude": _degrees(90), "longitude": _degrees(180)}.get(name, _FIELD) for name in FIELD_NAMES}
)
_NEW_BLOCK = _object({"startip": _ADDRESS, "endip": _ADDRESS})
_REPLACEMENT = _object(dict.fromkeys(("startip", "endip", "newstartip", "newendip"), _ADDRESS))
_LOCID_ANSWER = _object({"locid": _INTEGER})
_DELETED = _object({"totalMatchingBlocks": _INTEGER, "customerDefinedMatchingBlocks": _INTEGER})
_PROBLEM = Schema(
    type=OpenAPIType.OBJECT,
    properties={
        "type": _TEXT,
        "title": _TEXT,
        "status": _INTEGER,
        "detail": _TEXT,
        "errors": _array(_object({"pointer": _TEXT, "detail": _TEXT})),
    },
    required=["type", "title", "status", "detail"],
)


def _query(name: str, schema: Schema, description: str, *, required: bool = False) -> Parameter:
    return Parameter(name=name, param_in="query", schema=schema, description=description, required=required)


def _header(name: str, description: str) -> Parameter:
    return Parameter(name=name, param_in="header", schema=_TEXT, description=description, required=False)


_LOCID = _query("locid", _INTEGER, "The custom geolocation's locid.", required=True)
_KEY = _header("Idempotency-Key", "The same key and body get the first answer again, and create nothing twice.")
_IF_MATCH = _header("If-Match", "The ETag of a list: refused where anything in the list has changed since.")
_LIST_PARAMETERS = [
    _query("top", Schema(type=OpenAPIType.INTEGER, minimum=1), "The most geolocations to return; all by default."),
    *(_query(name, _TEXT, "Compared without regard to case; empty is no filter.") for name in FILTERS),
    _query("locid", _INTEGER, "Only this geolocation (beyond the interface: what Location points to)."),
    _header("If-None-Match", "An ETag given out before: 304 while the list is the same."),
]


def _content(media_type: str, schema: Schema) -> dict[str, OpenAPIMediaType]:
    return {media_type: OpenAPIMediaType(schema=schema)}


def _problems(names: tuple[str, ...]) -> dict[str, OpenAPIResponse]:
    by_status: dict[int, list[str]] = {}
    for name in (*names, "unknown-host", "internal-error", "storage-unavailable"):
        by_status.setdefault(PROBLEMS[name][0], []).append(name)
    return {
        str(status): OpenAPIResponse(
            description="Problem: " + ", ".join(f"`{name}`" for name in found),
            content=_content(MEDIA_TYPE, _PROBLEM),
            headers={"Retry-After": OpenAPIHeader(schema=_INTEGER)} if status == 503 else None,
        )
        for status, found in sorted(by_status.items())
    }


def _operation(
    summary: str,
    parameters: list[Parameter],
    body: Schema | None,
    answers: dict[str, OpenAPIResponse],
    refusals: tuple[str, ...],
) -> type[Operation]:
    """A class that Litestar fills in from the handler, and that then says what the handler's signature cannot."""

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            self.summary = summary
            self.parameters = list(parameters)
            self.request_body = None if body is None else RequestBody(_content("application/json", body), required=True)
            self.responses: Any = {**answers, **_problems(refusals)}

    return Described


def _answer(schema: Schema, description: str, *headers: str) -> OpenAPIResponse:
    return OpenAPIResponse(
        description=description,
        content=_content("application/json", schema),
        headers={name: OpenAPIHeader(schema=_TEXT) for name in headers} or None,
    )


_DONE = {"200": _answer(_LOCID_ANSWER, "Done.")}
_NOT_JSON = ("malformed-json", "body-too-large", "invalid-body")
_WRITE = ("invalid-parameter", "cross-site-request", "stale-precondition")
_TARGET = (*_WRITE, "unknown-geolocation", "default-geolocation-immutable")
_CONFLICTS = ("block-exists", "block-taken")

LIST = _operation(
    "List geolocations with their blocks, by ascending locid",
    _LIST_PARAMETERS,
    None,
    {
        "200": _answer(_array(_GEOLOCATION), "A streamed array; nothing found is [].", "ETag", "X-Total-Count"),
        "304": OpenAPIResponse(description="The list is the one that If-None-Match names."),
    },
    ("invalid-parameter",),
)
CREATE = _operation(
    "Create a custom geolocation",
    [_KEY, _IF_MATCH],
    _FIELDS,
    {"201": _answer(_LOCID_ANSWER, "Created.", "Location")},
    (*_WRITE, *_NOT_JSON, "idempotency-key-reused"),
)
CREATE_BLOCK = _operation(
    "Create a custom IP block",
    [_LOCID, _KEY, _IF_MATCH],
    _NEW_BLOCK,
    {"201": _answer(_LOCID_ANSWER, "Created.")},
    (*_TARGET, *_NOT_JSON, *_CONFLICTS, "idempotency-key-reused"),
)
UPDATE = _operation("Update a custom geolocation", [_LOCID, _IF_MATCH], _FIELDS, _DONE, (*_TARGET, *_NOT_JSON))
REPLACE_BLOCK = _operation(
    "Replace a custom IP block",
    [_LOCID, _IF_MATCH],
    _REPLACEMENT,
    _DONE,
    (*_TARGET, *_NOT_JSON, *_CONFLICTS, "unknown-block"),
)
DELETE = _operation("Delete a custom geolocation and its blocks", [_LOCID, _IF_MATCH], None, _DONE, _TARGET)
DELETE_BLOCKS = _operation(
    "Delete all blocks of a custom geolocation",
    [_LOCID, _IF_MATCH],
    None,
    {"200": _answer(_DELETED, "How many blocks matched, and how many were deleted.")},
    _TARGET,
)
