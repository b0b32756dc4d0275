"""What the OpenAPI document says of operations 1 to 7."""

from litestar.openapi.spec import OpenAPIResponse, OpenAPIType, Schema

from geolookup.model.fields import DEGREES, FIELD_NAMES, FILTER_NAMES
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
from geolookup.web.wire import MAX_TEXT

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

LIST = operation(
    "List geolocations with their blocks, by ascending locid",
    _LIST_PARAMETERS,
    None,
    {
        "200": answer(array_of(_GEOLOCATION), "A streamed array; nothing found is [].", "ETag", "X-Total-Count"),
        "304": OpenAPIResponse(description="The list is the one that If-None-Match names."),
    },
    ("invalid-parameter",),
)
CREATE = operation(
    "Create a custom geolocation",
    [_KEY, _IF_MATCH],
    _FIELDS,
    {"201": answer(_LOCID_ANSWER, "Created.", "Location")},
    (*_WRITE, *NOT_JSON, "idempotency-key-reused"),
)
CREATE_BLOCK = operation(
    "Create a custom IP block",
    [_LOCID, _KEY, _IF_MATCH],
    _NEW_BLOCK,
    {"201": answer(_LOCID_ANSWER, "Created.")},
    (*_TARGET, *NOT_JSON, *_CONFLICTS, "idempotency-key-reused"),
)
UPDATE = operation("Update a custom geolocation", [_LOCID, _IF_MATCH], _FIELDS, _DONE, (*_TARGET, *NOT_JSON))
REPLACE_BLOCK = operation(
    "Replace a custom IP block",
    [_LOCID, _IF_MATCH],
    _REPLACEMENT,
    _DONE,
    (*_TARGET, *NOT_JSON, *_CONFLICTS, "unknown-block"),
)
DELETE = operation("Delete a custom geolocation and its blocks", [_LOCID, _IF_MATCH], None, _DONE, _TARGET)
DELETE_BLOCKS = operation(
    "Delete all blocks of a custom geolocation",
    [_LOCID, _IF_MATCH],
    None,
    {"200": answer(_DELETED, "How many blocks matched, and how many were deleted.")},
    _TARGET,
)
