"""Methods that every path has: ``OPTIONS`` lists its methods, ``HEAD`` answers as ``GET`` without the body."""

from typing import Any

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
        """What `geolookup.web.quick.Quick` has for this request."""
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
