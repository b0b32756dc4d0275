"""Every request, watched from its head to the end of its answer: its id, the access log, the metrics."""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from geolookup.web.application import AnswerAtOnce, Paths, not_at_once
from geolookup.web.logs import AccessLog, Entry, now, shown
from geolookup.web.probes import FREE_PATHS, Metrics
from geolookup.web.problems import PROBLEMS, RECORD
from geolookup.web.request import SAME

AsgiScope: TypeAlias = Any

#: An id from the client is kept if it is harmless in every log.
_HARMLESS_ID = re.compile(rb"[A-Za-z0-9._~+/=:-]{1,128}")
#: nginx's status for a client that left before there was an answer.
_CLIENT_LEFT = 499
#: The key of the id that the client gave, in what requests with the same headers have in common.
_GIVEN = "id"
_IDS_AT_ONCE = 256


@dataclass(slots=True)
class Record:
    """The facts about one request."""

    id: str
    status: int = 0
    bytes: int = 0
    whole: bool = False
    token: str = ""
    problem: str = ""
    began: float = field(default_factory=time.perf_counter)


class Observer:
    """An ASGI application, watched. ``log`` None keeps no access log; ``paths`` are as the log may show them.

    ``at_once`` is what the application can answer without waiting.
    """

    def __init__(
        self,
        app: Any,
        metrics: Metrics,
        log: AccessLog | None = None,
        paths: Paths | None = None,
        *,
        at_once: AnswerAtOnce = not_at_once,
    ) -> None:
        self.app = app
        self._at_once = at_once
        self._paths = paths or Paths()
        self._metrics = metrics
        self._log = log
        self._ids = _new_ids()

    def at_once(self, scope: AsgiScope) -> tuple[bytes, bytes] | None:
        """The headers and the body of the 200 that a request without a body gets.

        None if it must be passed to `__call__`.
        """
        record = scope[RECORD] = Record(self._id(scope))
        body = self._at_once(scope)
        if body is None:
            return None
        record.status, record.bytes, record.whole = 200, len(body), True
        self._over(scope, record, time.perf_counter() - record.began)
        form = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %s\r\n"
        return form % (len(body), record.id.encode()), body

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass the request on, and remember how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = scope.get(RECORD)
        if record is None:
            record = scope[RECORD] = Record(self._id(scope))

        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", record.id.encode())]}
            await send(message)
            if message["type"] == "http.response.body":
                record.bytes += len(message.get("body", b""))
                record.whole = not message.get("more_body", False)

        self._metrics.in_flight.inc()
        try:
            await self.app(scope, receive, watched)
        except BaseException:
            record.status = record.status or 500
            raise
        finally:
            self._metrics.in_flight.dec()
            record.status = record.status or _CLIENT_LEFT
            self._over(scope, record, time.perf_counter() - record.began)

    def refused_unread(self, problem: str, client: str) -> str:
        """Count and log a request that could not be parsed; returns the id for its answer."""
        record = Record(next(self._ids), PROBLEMS[problem][0], whole=True, problem=problem)
        scope = {"client": (client, 0), "method": "", "path": ""}
        self._over(scope, record, 0.0)
        return record.id

    def _id(self, scope: AsgiScope) -> str:
        """The request's id: the client's own, if it gave a harmless one."""
        same = scope.get(SAME, {})
        if _GIVEN not in same:
            same[_GIVEN] = _given_id(scope)
        return same[_GIVEN] or next(self._ids)

    def _over(self, scope: AsgiScope, record: Record, seconds: float) -> None:
        operation = _operation(scope)
        self._metrics.observe(operation, scope["method"], record.status, seconds, record.bytes, record.problem)
        # Probes ask every few seconds: their answers are logged only if they say no.
        if self._log is not None and (scope["path"] not in FREE_PATHS or record.status >= 400):
            client = scope.get("client")
            self._log.write(
                Entry(
                    time=now(),
                    id=record.id,
                    client=shown(client[0]) if client else "",
                    token=record.token,
                    method=shown(scope["method"]),
                    path=shown(self._paths.logged(scope["path"])),
                    operation=operation,
                    status=record.status,
                    bytes=record.bytes,
                    ms=round(seconds * 1000, 3),
                    problem=record.problem,
                    whole=record.whole,
                )
            )


def _given_id(scope: AsgiScope) -> str:
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return bytes(given[0]).decode("ascii") if len(given) == 1 and _HARMLESS_ID.fullmatch(given[0]) else ""


def _new_ids() -> Iterator[str]:
    """Ids of 128 random bits; many are made at once, since the system takes as long for one."""
    while True:
        many = os.urandom(_IDS_AT_ONCE * 16).hex()
        yield from (many[at : at + 32] for at in range(0, len(many), 32))


def _operation(scope: AsgiScope) -> str:
    """The operation's id, or its handler's name; ``none`` if no handler was reached."""
    handler = scope.get("route_handler")
    if handler is None:
        return "none"
    name = getattr(handler, "operation_id", None)
    return name if isinstance(name, str) else str(getattr(handler, "handler_name", "other"))
