"""Which methods a path has: ``OPTIONS`` and 405 say it in one and the same way."""

from typing import Any

from geolookup.service.http.problems import ASKS_FOR_METHODS

#: A method that no path has, so that the router names those that there are.
_NO_METHOD = "-"


class Methods:
    """An application of Litestar that answers ``OPTIONS`` with the ``Allow`` of its own 405 (RFC 9110, 10.2.1).

    Litestar (2.25) answers ``OPTIONS`` by itself, but with the methods of a single handler, even if a path has several.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["method"] == "OPTIONS":
            scope = {**scope, "method": _NO_METHOD, ASKS_FOR_METHODS: True}
        await self.app(scope, receive, send)
