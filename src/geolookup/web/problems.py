"""Errors as RFC 9457 problems: their stable names, their statuses, and how each exception becomes one."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException
from litestar.response.base import ASGIResponse

from geolookup.base.text import harmless
from geolookup.model.errors import RequestRefusedError

logger = logging.getLogger("geolookup.service")

MEDIA_TYPE = "application/problem+json"
#: Of a problem that is a page.
HTML = "text/html"

#: The names by which programs know the problems, with status and title. A published name never changes its meaning.
PROBLEMS: dict[str, tuple[int, str]] = {
    "malformed-json": (400, "The body is not JSON"),
    "invalid-parameter": (400, "A query parameter or header cannot be used"),
    "invalid-address": (400, "What was to be looked up is not an IP address"),
    "bad-request": (400, "The request cannot be understood"),
    "unauthenticated": (401, "The request needs a token that this service knows"),
    "default-geolocation-immutable": (403, "Default geolocations can be neither edited nor deleted"),
    "cross-site-request": (403, "A page of another site may not write here"),
    "insufficient-scope": (403, "The token may not do this"),
    "licence-forbids": (403, "The licence of the source does not let others have its data"),
    "not-found": (404, "There is nothing at this path"),
    "unknown-geolocation": (404, "No geolocation has this locid"),
    "unknown-block": (404, "The geolocation has no such block"),
    "unknown-hotel": (404, "No hotel has this identifier"),
    "address-not-covered": (404, "No block covers the address"),
    "unknown-edition": (404, "Unknown database"),
    "unknown-build": (404, "This build of the database is not kept any more"),
    "method-not-allowed": (405, "The path does not have this method"),
    "request-timeout": (408, "The request did not come in time"),
    "block-exists": (409, "The geolocation has this block already"),
    "block-taken": (409, "Another custom geolocation has this block"),
    "stale-precondition": (412, "The list has changed since its ETag was given out"),
    "body-too-large": (413, "The body is too large"),
    "encoded-body": (415, "The body has a content coding"),
    "target-too-long": (414, "The path and query are too long"),
    "unknown-host": (421, "The service does not have this name"),
    "invalid-body": (422, "The body is JSON, but not what was asked for"),
    "idempotency-key-reused": (422, "The idempotency key was used for another request"),
    "range-not-satisfiable": (416, "The file is shorter than the range that was asked for"),
    "too-many-requests": (429, "More requests than this client may make"),
    "head-too-large": (431, "The headers are too large"),
    "internal-error": (500, "The service failed"),
    "not-implemented": (501, "The request asks for a transfer coding that is not known here"),
    "storage-unavailable": (503, "The database cannot be used at the moment"),
    "outcome-unknown": (503, "The database was lost while it kept the change"),
    "index-not-ready": (503, "The index for lookups is being compiled"),
    "not-built": (503, "The file is being built for the first time"),
    "stale-data": (503, "The data are older than the settings allow"),
    "busy": (503, "The service is at the limit of what it takes"),
    "shutting-down": (503, "This process of the service is ending"),
    "not-ready": (503, "The service cannot answer requests yet"),
}
#: What every operation may answer: given before its handler runs, or instead of it.
ANYWHERE = (
    "unauthenticated",
    "insufficient-scope",
    "request-timeout",
    "target-too-long",
    "unknown-host",
    "too-many-requests",
    "head-too-large",
    "internal-error",
    "storage-unavailable",
    "outcome-unknown",
    "busy",
    "shutting-down",
)

# The message for clients if the database fails: the error's own message names the database and may quote its content.
_STORAGE = {
    "storage-unavailable": "nothing was changed; try again later",
    "outcome-unknown": "it is not known whether the change was made: look before you send it again",
}

#: Seconds that a client waits before it asks again, if nothing better is known.
RETRY_AFTER_S = 5
#: Where an ASGI scope has the request's `geolookup.web.observer.Record`.
RECORD = "geolookup.record"
#: Set in the scope of an ``OPTIONS``: see `geolookup.web.routing`.
ASKS_FOR_METHODS = "geolookup.asks_for_methods"
#: Where an ASGI scope has the form of its path's errors (`geolookup.web.application.ErrorForm`), if it has one.
FORM = "geolookup.form"
#: Where an ASGI scope has how a problem becomes a page (`geolookup.web.application.ErrorPage`), if it does.
PAGE = "geolookup.page"
_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}


class FieldError(msgspec.Struct, frozen=True):
    """The fault of one member of the body; ``pointer`` is a JSON pointer (RFC 6901)."""

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


async def send_problem(scope: Any, receive: Any, send: Any, body: Problem, headers: dict[str, str]) -> None:
    """Answer an ASGI request with a problem, without any part of the application."""
    head = scope["method"] == "HEAD"
    page: Callable[[str, int, str], tuple[str, Mapping[str, str]]] | None = scope.get(PAGE)
    if page is None:
        formed, media_type = _formed(scope, body)
        content = msgspec.json.encode(formed)
    else:
        text, more = page(name_of(body), body.status, body.detail)
        content, media_type, headers = text.encode(), HTML, {**headers, **more}
    answer = ASGIResponse(
        body=b"" if head else content,
        is_head_response=head,
        status_code=body.status,
        media_type=media_type,
        headers=headers,
    )
    note(scope, body)
    await answer(scope, receive, send)


def _formed(scope: Any, body: Problem) -> tuple[Any, str]:
    """The content that is sent for a problem, and its media type."""
    form: Callable[[str, int, str], Any] | None = scope.get(FORM)
    if form is None:
        return body, MEDIA_TYPE
    return form(name_of(body), body.status, body.detail), "application/json"


def note(scope: Any, body: Problem) -> None:
    """Leave the problem's name where the access log and the metrics find it."""
    record = scope.get(RECORD)
    if record is not None:
        record.problem = name_of(body)


def name_of(body: Problem) -> str:
    """The problem's name, which is one of `PROBLEMS`."""
    return body.type.rpartition(":")[2]


def _answer(request: Request[Any, Any, Any], body: Problem, headers: dict[str, str] | None = None) -> Response[Any]:
    note(request.scope, body)
    content, media_type = _formed(request.scope, body)
    return Response(content, status_code=body.status, media_type=media_type, headers=headers)


def _refused(request: Request[Any, Any, Any], error: RequestRefusedError) -> Response[Any]:
    body = problem(error.problem, str(error), error.errors)
    if (told := _STORAGE.get(error.problem)) is not None:
        logger.error("%s", error)
        body = problem(error.problem, told)
    # The rest of a late request may still arrive, and would be read as the head of the next one.
    closing = {408: {"Connection": "close"}, 503: {"Retry-After": str(RETRY_AFTER_S)}}
    return _answer(request, body, closing.get(body.status))


def _http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    if error.status_code >= 500:
        return _failed(request, error)
    headers = error.headers
    if isinstance(error, MethodNotAllowedException):
        # The router names the methods in the order of a set, which differs from one process to the next.
        methods = set((headers or {}).get("allow", "").split(", "))
        if "GET" in methods:
            methods.add("HEAD")
        headers = {"Allow": ", ".join(sorted(methods))}
        if request.scope.get(ASKS_FOR_METHODS):
            return Response(None, status_code=204, headers=headers)
    name = _BY_STATUS.get(error.status_code, "bad-request")
    return _answer(request, problem(name, error.detail), headers)


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    logger.error("%s %s failed", harmless(request.method), harmless(request.url.path), exc_info=error)
    return _answer(request, problem("internal-error", "this is an error in the service: its log says more"))


async def no_html_not_found(response: Response[Any]) -> Response[Any]:
    """Litestar answers an unknown path next to its OpenAPI document with an HTML page: replace it by a problem."""
    if response.status_code != 404:
        return response
    return Response(problem("not-found", "Not Found"), status_code=404, media_type=MEDIA_TYPE)


#: For Litestar: every exception that leaves a handler, or the routing before it.
HANDLERS: dict[int | type[Exception], Any] = {
    RequestRefusedError: _refused,
    HTTPException: _http,
    Exception: _failed,
}
