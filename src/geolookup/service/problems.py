"""Errors as RFC 9457 problems: their stable names, their statuses, and how each exception becomes one."""

import logging
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from geolookup.errors import RequestRefusedError

logger = logging.getLogger("geolookup.service")

MEDIA_TYPE = "application/problem+json"

#: Names by which programs know the problems, with status and title. A name, once published, keeps its meaning.
PROBLEMS: dict[str, tuple[int, str]] = {
    "malformed-json": (400, "The body is not JSON"),
    "invalid-parameter": (400, "A query parameter or header cannot be used"),
    "bad-request": (400, "The request cannot be understood"),
    "default-geolocation-immutable": (403, "Default geolocations can be neither edited nor deleted"),
    "cross-site-request": (403, "A page of another site may not write here"),
    "not-found": (404, "There is nothing at this path"),
    "unknown-geolocation": (404, "No geolocation has this locid"),
    "unknown-block": (404, "The geolocation has no such block"),
    "method-not-allowed": (405, "The path does not have this method"),
    "block-exists": (409, "The geolocation has this block already"),
    "block-taken": (409, "Another custom geolocation has this block"),
    "stale-precondition": (412, "The list has changed since its ETag was given out"),
    "body-too-large": (413, "The body is too large"),
    "unknown-host": (421, "The service does not go by this name"),
    "invalid-body": (422, "The body is JSON, but not what was asked for"),
    "idempotency-key-reused": (422, "The idempotency key was used for another request"),
    "internal-error": (500, "The service failed"),
    "storage-unavailable": (503, "The database cannot be used at the moment"),
}

_RETRY_AFTER_S = 5
_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one member of the body; ``pointer`` is a JSON pointer (RFC 6901)."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """RFC 9457, section 3.1. The last part of ``type`` is one of `PROBLEMS`."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def problem(name: str, detail: str, errors: tuple[tuple[str, str], ...] = ()) -> Problem:
    """The problem of that name, filled in."""
    status, title = PROBLEMS[name]
    pairs = [FieldError(pointer=pointer, detail=text) for pointer, text in errors]
    return Problem(type=f"urn:geolookup:problem:{name}", title=title, status=status, detail=detail, errors=pairs)


def _answer(body: Problem, headers: dict[str, str] | None = None) -> Response[Problem]:
    return Response(body, status_code=body.status, media_type=MEDIA_TYPE, headers=headers)


def _refused(_request: Request[Any, Any, Any], error: RequestRefusedError) -> Response[Problem]:
    if error.problem != "storage-unavailable":
        return _answer(problem(error.problem, str(error), error.errors))
    # The message names the file and quotes the database: for the log, not for whoever asked.
    logger.error("%s", error)
    body = problem(error.problem, "nothing was changed; try again later")
    return _answer(body, {"Retry-After": str(_RETRY_AFTER_S)})


def _http(_request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    if error.status_code >= 500:
        return _failed(_request, error)
    name = _BY_STATUS.get(error.status_code, "bad-request")
    return _answer(problem(name, error.detail), error.headers)


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(problem("internal-error", "this is a defect of the service: its log says more"))


async def no_html_not_found(response: Response[Any]) -> Response[Any]:
    """Litestar answers an unknown path beside its OpenAPI document with an HTML page: put a problem in its place."""
    return _answer(problem("not-found", "Not Found")) if response.status_code == 404 else response


#: For Litestar: every exception that leaves a handler, or the routing before it.
HANDLERS: dict[int | type[Exception], Any] = {
    RequestRefusedError: _refused,
    HTTPException: _http,
    Exception: _failed,
}
