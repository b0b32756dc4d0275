"""The questions that are asked most, answered before the framework, whose own work takes longer than theirs.

This stands inside the guard and the observer, so that nothing is refused, logged or counted otherwise.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

#: The JSON of a 200, from a request's scope. Whatever it raises, the framework is asked then.
Answer: TypeAlias = Callable[[Any], Awaitable[bytes]]


class Quick:
    """An application, and the answers to ``GET`` that come before it.

    ``answers`` are by path, or by the path's first part with both slashes, each with the handler that would answer
    otherwise: the access log and the metrics read from it which operation it was.
    """

    def __init__(self, app: Any, answers: Mapping[str, tuple[Any, Answer]]) -> None:
        self.app = app
        self._answers = dict(answers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, or pass the request on."""
        if scope["type"] == "http" and scope["method"] == "GET":
            path = scope["path"]
            found = self._answers.get(path[: path.find("/", 1) + 1] or path)
            if found is not None:
                handler, answer = found
                body = None
                with contextlib.suppress(Exception):  # the framework meets it again, and makes a problem of it
                    body = await answer(scope)
                if body is not None:
                    scope["route_handler"] = handler
                    await _send(send, body)
                    return
        await self.app(scope, receive, send)


async def _send(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
