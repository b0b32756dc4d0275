"""Errors as pages: what was wrong, where, and what to do, in the words of the error."""

import logging
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException, MethodNotAllowedException

from geolookup.base.text import harmless
from geolookup.console.console import Answer, Console
from geolookup.console.entry import refusals
from geolookup.console.forms import TOKEN, AnyRequest
from geolookup.errors import (
    BlockError,
    EditError,
    GeoLookupError,
    HeldError,
    InvalidAddressError,
    InvalidRangeError,
    NoStateError,
    RequestRefusedError,
    SettingsError,
    StateBusyError,
    StateError,
    UnknownGenerationError,
    UnknownGeolocationError,
    UpstreamError,
)
from geolookup.web.problems import ASKS_FOR_METHODS, PROBLEMS, note, problem

logger = logging.getLogger("geolookup.console")

#: What an error means as a status of HTTP, and as a heading. The first that fits.
_KINDS: tuple[tuple[type[GeoLookupError], int, str], ...] = (
    (UnknownGeolocationError, 404, "Unknown geolocation"),
    (UnknownGenerationError, 404, "Unknown generation"),
    (BlockError, 409, "The block cannot be used"),
    (EditError, 409, "The edit cannot be made"),
    (InvalidAddressError, 422, "Not an address"),
    (InvalidRangeError, 422, "Not a range"),
    (NoStateError, 409, "Nothing has been published yet"),
    (StateBusyError, 503, "Another run is under way"),
    (HeldError, 409, "Held for a person"),
    (SettingsError, 409, "A setting cannot be used"),
    (StateError, 500, "The state directory cannot do that"),
    (UpstreamError, 502, "The service could not be used"),
    (GeoLookupError, 409, "That did not work"),
)


#: What a form carries that nobody typed.
_NOT_TYPED = frozenset({TOKEN, "seen", "checked", "step", "once"})


def words_of(error: GeoLookupError) -> tuple[int, str, str]:
    """The status, the heading and the text for an error."""
    if isinstance(error, RequestRefusedError):
        return PROBLEMS[error.problem][0], *refusals.words(error.problem, str(error))
    return next((status, title, str(error)) for kind, status, title in _KINDS if isinstance(error, kind))


def handlers(console: Console) -> dict[int | type[Exception], Any]:
    """For Litestar: every exception that leaves a handler, or the routing before it."""

    def page(request: AnyRequest, status: int, title: str, text: str) -> Answer:
        return console.page(
            request, "error.html", status, title=title, text=text, no_state=False, typed={}, refused=status == 413
        )

    def known(request: AnyRequest, error: GeoLookupError) -> Answer:
        status, title, text = words_of(error)
        if isinstance(error, RequestRefusedError):
            note(request.scope, problem(error.problem, str(error)))
        form = getattr(request.state, "form", None)
        kept = {} if form is None else {name: text for name, text in form.typed().items() if name not in _NOT_TYPED}
        return console.page(
            request, "error.html", status, title=title, text=text, typed=kept,
            no_state=isinstance(error, NoStateError), refused=status == 403,
        )  # fmt: skip

    def by_routing(request: AnyRequest, error: HTTPException) -> Answer:
        if error.status_code >= 500:
            return failed(request, error)
        if isinstance(error, MethodNotAllowedException):
            if request.scope.get(ASKS_FOR_METHODS):
                allowed = (error.headers or {}).get("allow", "")
                return Response("", status_code=204, headers={"allow": allowed})
            return page(request, 405, "This page does not take that", "Open it by its link instead.")
        if error.status_code == 404:
            return page(request, 404, "There is no such page", "The links at the top lead to those that there are.")
        if error.status_code == 413:
            return page(request, 413, *refusals.words("body-too-large"))
        return page(request, error.status_code, "The request cannot be used", error.detail)

    def failed(request: AnyRequest, error: Exception) -> Answer:
        logger.error("%s %s failed", harmless(request.method), harmless(request.url.path), exc_info=error)
        return page(request, 500, "The console failed", "This is an error in geolookup: its standard error says more.")

    return {GeoLookupError: known, HTTPException: by_routing, Exception: failed}
