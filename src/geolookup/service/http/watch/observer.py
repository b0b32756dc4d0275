"""Every request, watched from its head to the end of its answer: its id, the access log, the metrics."""

import re
import time
import uuid
from dataclasses import dataclass
from typing import Any, TypeAlias

from geolookup.service.http.paths import Paths
from geolookup.service.http.problems import PROBLEMS, RECORD
from geolookup.service.http.watch.access_log import AccessLog, Entry, now, shown
from geolookup.service.http.watch.health import FREE_PATHS
from geolookup.service.http.watch.metrics import Metrics

AsgiScope: TypeAlias = Any

#: An id from the client is kept if it is harmless in every log.
_HARMLESS_ID = re.compile(rb"[A-Za-z0-9._~+/=:-]{1,128}")
#: nginx's status for a client that left before there was an answer.
_CLIENT_LEFT = 499


@dataclass(slots=True)
class Record:
    """What is known about one request."""

    id: str
    status: int = 0
    bytes: int = 0
    whole: bool = False
    token: str = ""
    problem: str = ""


class Observer:
    """An ASGI application, watched. ``log`` None keeps no access log; ``paths`` are as the log may show them."""

    def __init__(self, app: Any, metrics: Metrics, log: AccessLog | None = None, paths: Paths | None = None) -> None:
        self.app = app
        self._paths = paths or Paths()
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass the request on, and remember how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = scope[RECORD] = Record(_request_id(scope))
        began = time.perf_counter()

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
            self._over(scope, record, time.perf_counter() - began)

    def refused_unread(self, problem: str, client: str) -> str:
        """Count and log a request that could not be parsed; returns the id for its answer."""
        record = Record(uuid.uuid4().hex, PROBLEMS[problem][0], whole=True, problem=problem)
        scope = {"client": (client, 0), "method": "", "path": ""}
        self._over(scope, record, 0.0)
        return record.id

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


def _request_id(scope: AsgiScope) -> str:
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(given) == 1 and _HARMLESS_ID.fullmatch(given[0]):
        return bytes(given[0]).decode("ascii")
    return uuid.uuid4().hex


def _operation(scope: AsgiScope) -> str:
    """The operation's id, or its handler's name; ``none`` if no handler was reached."""
    handler = scope.get("route_handler")
    if handler is None:
        return "none"
    name = getattr(handler, "operation_id", None)
    return name if isinstance(name, str) else str(getattr(handler, "handler_name", "other"))
