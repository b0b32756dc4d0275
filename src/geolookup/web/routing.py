"""An application of Litestar with what every application here has: probes, metrics, problems, its OpenAPI document.

Around it stand answers before the framework (`Quick`), and the methods that every path has (`Methods`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin

from geolookup.base.version import __version__
from geolookup.web import openapi, problems, wire
from geolookup.web.application import AnswerAtOnce
from geolookup.web.probes import Health, Metrics, healthz, metrics_page, quick_healthz, readyz
from geolookup.web.problems import ASKS_FOR_METHODS

#: An unknown method, so that the router names the known ones.
_NO_METHOD = "-"


class Methods:
    """An application of Litestar that answers ``OPTIONS`` and ``HEAD`` for each of its paths.

    ``OPTIONS`` gets the ``Allow`` of the path's own 405 (RFC 9110, section 10.2.1): Litestar (2.25) answers it by
    itself, but with the methods of a single handler, even if a path has several. ``HEAD`` gets the head that ``GET``
    would get (section 9.3.2).
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    def at_once(self, scope: Any) -> bytes | None:
        """The answer that `Quick` has for this request."""
        found: bytes | None = self.app.at_once(scope)
        return found

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._head(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            scope = {**scope, "method": _NO_METHOD, ASKS_FOR_METHODS: True}
        await self.app(scope, receive, send)

    async def _head(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer by ``GET`` up to the head; a stream ends there, since its client then counts as gone."""
        over = False

        async def without_body(message: Any) -> None:
            nonlocal over
            if message["type"] == "http.response.start" and not over:
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                over = True

        async def until_over() -> Any:
            return {"type": "http.disconnect"} if over else await receive()

        get = {**scope, "method": "GET"}
        try:
            await self.app(get, until_over, without_body)
        finally:
            # The access log and the metrics read from the scope which operation it was.
            if "route_handler" in get:
                scope["route_handler"] = get["route_handler"]


class Quick:
    """An application, and the answers to its most frequent ``GET``: the framework's own work takes longer than theirs.

    It stands inside the guard and the observer, so that nothing is refused, logged or counted otherwise.

    ``answers`` are by path, or by the path's first part with both slashes, each with the handler that would answer
    otherwise: the access log and the metrics read from it which operation it was.
    """

    def __init__(self, app: Any, answers: Mapping[str, tuple[Any, AnswerAtOnce]]) -> None:
        self.app = app
        self._answers = dict(answers)

    def at_once(self, scope: Any) -> bytes | None:
        """The JSON of the 200 that this request gets, None if the framework must be asked."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        path = scope["path"]
        found = self._answers.get(path[: path.find("/", 1) + 1] or path)
        if found is None:
            return None
        handler, answer = found
        try:
            body = answer(scope)
        except Exception:
            return None  # the framework meets it again, and makes a problem of it
        if body is not None:
            scope["route_handler"] = handler
        return body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, or pass the request on."""
        body = self.at_once(scope)
        if body is None:
            await self.app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def routed(
    handlers: Iterable[Any],
    dependencies: Mapping[str, Any],
    *,
    title: str,
    quick: Mapping[str, tuple[Any, AnswerAtOnce]] | None = None,
    health: Health | None = None,
    metrics: Metrics | None = None,
) -> Methods:
    """The ASGI application of these handlers; ``dependencies`` are the objects that they need, by name.

    ``quick`` are the answers that come before the framework, as `Quick` takes them.

    It does not refuse clients itself: `geolookup.web.guard.Guard` goes around it.
    """
    known = {**dependencies, "health": health or Health(), "metrics": metrics or Metrics()}
    app = Litestar(
        # One router, since Litestar (2.25) wraps a handler in one more worker thread for each later handler that is
        # registered with the application itself under the same path.
        route_handlers=[Router("/", route_handlers=[*handlers, healthz, readyz, metrics_page])],
        dependencies={name: _provide(value) for name, value in known.items()},
        exception_handlers=problems.HANDLERS,
        request_max_body_size=wire.MAX_BODY_BYTES,
        # The pages that Litestar offers load scripts from other hosts: only the document itself is served.
        openapi_config=OpenAPIConfig(
            title=title,
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
    return Methods(Quick(app, {"/healthz": (healthz, quick_healthz), **(quick or {})}))


def _provide(value: Any) -> Provide:
    return Provide(lambda: value, sync_to_thread=False)
