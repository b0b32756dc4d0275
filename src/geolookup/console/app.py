"""The console as one application, its errors as pages, and `console`, which serves it on loopback until a signal."""

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from litestar import Litestar, Response, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException, MethodNotAllowedException

from geolookup.base.text import harmless, size
from geolookup.console.console import Console, Html
from geolookup.console.entry import Door, Refusals, refusal_words
from geolookup.console.files import one_file
from geolookup.console.forms import TOKEN, AnyRequest, StaleFormError, UnwantedError, require_own_form
from geolookup.console.pages import custom, edits, generations, keeping, lookup, outbox, sheet, sources
from geolookup.console.pages import map as map_page
from geolookup.console.runs import Run, Runs
from geolookup.model.errors import (
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
from geolookup.settings.load import load
from geolookup.web.application import Application, Opens, Paths
from geolookup.web.launch import launch
from geolookup.web.options import Options
from geolookup.web.problems import ASKS_FOR_METHODS, PROBLEMS, note, problem
from geolookup.web.routing import Methods

_log = logging.getLogger("geolookup.console")

#: Loopback only, and an address: a name might mean others too.
HOST = "127.0.0.1"
#: Every page, in the order of the navigation. Each module has ``PAGE`` and ``HANDLERS``.
PAGES: tuple[ModuleType, ...] = (lookup, custom, map_page, outbox, generations, sources)
#: Pages behind those: ``HANDLERS`` without a place in the navigation.
_BEHIND: tuple[ModuleType, ...] = (edits, sheet, keeping)
#: No form is larger, except one with a file.
_MAX_BODY_BYTES = 1 << 20

#: The status of HTTP and the heading for each kind of error: the first that fits.
_KINDS: tuple[tuple[type[GeoLookupError], int, str], ...] = (
    (UnknownGeolocationError, 404, "There is no such site"),
    (UnknownGenerationError, 404, "There is no such version"),
    (BlockError, 409, "The network cannot be used"),
    (EditError, 409, "The change cannot be made"),
    (InvalidAddressError, 422, "Not an address"),
    (InvalidRangeError, 422, "Not a range"),
    (NoStateError, 409, "Nothing has been published yet"),
    (StateBusyError, 503, "Another run is under way"),
    (StaleFormError, 403, "The console was started again since this page was opened"),
    (HeldError, 409, "Not published: a person must decide"),
    (SettingsError, 409, "A setting cannot be used"),
    (StateError, 500, "The state directory cannot do that"),
    (UpstreamError, 502, "The service could not be used"),
    (GeoLookupError, 409, "That did not work"),
)
#: Fields of a form that no person typed.
_NOT_TYPED = frozenset({TOKEN, "seen", "checked", "step", "once"})


def console(
    *,
    port: int = 0,
    path: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    on_ready: Callable[[str, Runs, threading.Event], None],
    on_wait: Callable[[Run], None],
    on_end: Callable[[Run], None],
) -> None:
    """Serve the pages of a state on loopback until SIGTERM or SIGINT; then wait for the runs under way, and return.

    ``path`` is the state as `geolookup.open` takes it, ``port`` 0 any free one. ``on_ready`` is called with the address
    to open, which opens the console once, the runs, and what is set once a browser got in; ``on_wait`` with each run
    that is waited for, and ``on_end`` once it has ended.

    :raises KeyboardInterrupt: at another SIGINT while it waits
    :raises ServiceError: if the port cannot be used
    :raises SettingsError: if the settings cannot be used
    """
    load()  # bad settings are an error before anything is served
    home = None if path is None else os.path.abspath(os.fspath(path))
    served = Console(load, home=home, read_only=read_only)

    @contextlib.contextmanager
    def opened(_folder: str | None) -> Iterator[Application]:
        yield application(served)

    @contextlib.contextmanager
    def prepared() -> Iterator[Opens]:
        yield opened

    def ready(url: str) -> None:
        threading.Thread(target=_warm_up, args=(served,), name="geolookup-warm-up", daemon=True).start()
        on_ready(served.session.address(url), served.runs, served.session.admitted)

    launch(
        prepared(),
        host=HOST,
        port=port,
        options=Options(asks_itself=True),
        on_ready=ready,
    )
    going = served.runs.under_way()
    for run in going:
        on_wait(run)
    served.runs.wait()
    for run in going:
        on_end(run)


def _warm_up(served: Console) -> None:
    served.warm_up()
    # Objects loaded by now stay: a collection that visited all of them would make every tenth page slow.
    gc.collect()
    gc.freeze()


def application(console: Console) -> Application:
    """The application of a console, which it closes at the end."""
    console.navigation = tuple(page.PAGE for page in PAGES)

    async def before(request: AnyRequest) -> None:
        await require_own_form(request, console.session, read_only=console.read_only, ends=console.ends)

    app = Litestar(
        route_handlers=[
            Router(
                "/",
                route_handlers=[one_file, *(handler for page in (*PAGES, *_BEHIND) for handler in page.HANDLERS)],
                before_request=before,
            )
        ],
        dependencies={"console": Provide(lambda: console, sync_to_thread=False)},
        exception_handlers=_error_pages(console),
        request_max_body_size=_MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
    )
    # Addresses and places that a person looks up are private: no log has them.
    paths = Paths(private={"/": "/"}, error_page=Refusals(console.templates).page)
    return Application(asgi=Door(Methods(app), console.session, console.templates), paths=paths, close=console.close)


def _words_of(error: GeoLookupError) -> tuple[int, str, str]:
    """The status, the heading and the text for an error."""
    if isinstance(error, RequestRefusedError):
        return PROBLEMS[error.problem][0], *refusal_words(error.problem, error.told)
    return next((status, title, error.told) for kind, status, title in _KINDS if isinstance(error, kind))


def _error_pages(console: Console) -> dict[int | type[Exception], Any]:
    """For Litestar: every exception that leaves a handler, or the routing before it."""

    def page(request: AnyRequest, status: int, title: str, text: str, **values: Any) -> Html:
        shown = {"no_state": False, "typed": {}, "refused": status in (403, 413), "sent": {}, **values}
        return console.page(request, "error.html", status, title=title, text=text, **shown)

    def known(request: AnyRequest, error: GeoLookupError) -> Html:
        status, title, text = _words_of(error)
        if isinstance(error, RequestRefusedError):
            note(request.scope, problem(error.problem, error.told))
        form = getattr(request.state, "form", None)
        sent = {} if form is None else form.typed()
        kept = {name: text for name, text in sent.items() if name not in _NOT_TYPED}
        again = {name: text for name, text in sent.items() if name != TOKEN and isinstance(error, StaleFormError)}
        return page(request, status, title, text, typed=kept, no_state=isinstance(error, NoStateError), sent=again)

    def by_routing(request: AnyRequest, error: HTTPException) -> Html:
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
            limit = request.route_handler.resolve_request_max_body_size() if "route_handler" in request.scope else None
            if limit is not None and limit > _MAX_BODY_BYTES:
                told = f"Here a file may have {size(limit)}. Data of addresses are added as a source: see Sources."
                return page(request, 413, "The file is too large", told)
            return page(request, 413, *refusal_words("body-too-large"))
        return page(request, error.status_code, "The request cannot be used", error.detail)

    def failed(request: AnyRequest, error: Exception) -> Html:
        _log.error("%s %s failed", harmless(request.method), harmless(request.url.path), exc_info=error)
        return page(request, 500, "The console failed", "This is an error in geolookup: its standard error says more.")

    def unwanted(request: AnyRequest, _error: UnwantedError) -> Html:
        return page(request, 503, "The console is ending", "Start it again with geolookup console.")

    return {GeoLookupError: known, UnwantedError: unwanted, HTTPException: by_routing, Exception: failed}
