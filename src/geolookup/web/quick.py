"""The questions that are asked most, answered before the framework, whose own work takes longer than theirs.

This stands inside the guard and the observer, so that nothing is refused, logged or counted otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

#: The JSON of a 200, from a request's scope, without waiting for anything. If it is None, or whatever it raises, the
#: framework is asked.
Answer: TypeAlias = Callable[[Any], bytes | None]


def not_at_once(_scope: Any) -> None:
    """Whatever is asked, the application must be asked."""


class Quick:
    """An application, and the answers to ``GET`` that come before it.

    ``answers`` are by path, or by the path's first part with both slashes, each with the handler that would answer
    otherwise: the access log and the metrics read from it which operation it was.
    """

    def __init__(self, app: Any, answers: Mapping[str, tuple[Any, Answer]]) -> None:
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
