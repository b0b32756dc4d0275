"""Whether this process is alive, and whether it should get requests."""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.response.base import ASGIResponse

from geolookup.errors import GeoLookupError, RequestRefusedError
from geolookup.web import openapi

#: These are answered to everyone, under every host name, and even if the service is busy.
FREE_PATHS = frozenset({"/healthz", "/readyz"})

#: Anybody may ask whether it is ready: the checks run once in this many seconds at most.
_KEEP_S = 0.5


class Health:
    """The health of one process.

    ``checks`` are by name; each returns false or raises a `GeoLookupError` if it finds something wrong, and may take
    a moment. ``remark`` is what a person should know of a process that is ready, or None.
    ``draining`` is set when the process was told to end, ``stopping`` when it stopped listening.
    """

    def __init__(self, *, remark: Callable[[], str | None] = lambda: None, **checks: Callable[[], Any]) -> None:
        self.checks = checks
        self._remark = remark
        self.draining = False
        self.stopping = False
        self._lock = threading.Lock()
        self._found: tuple[float, tuple[str, ...], str | None] | None = None

    def found(self) -> tuple[tuple[str, ...], str | None]:
        """The names of the checks that found something wrong, and the remark, at most half a second ago."""
        with self._lock:
            now = time.monotonic()
            if self._found is None or now - self._found[0] >= _KEEP_S:
                failing = tuple(name for name, check in self.checks.items() if not _passes(check))
                self._found = now, failing, None if failing else self._said()
            return self._found[1:]

    def _said(self) -> str | None:
        try:
            return self._remark()
        except GeoLookupError:  # the next check says so
            return None


def _passes(check: Callable[[], Any]) -> bool:
    try:
        return check() is not False
    except GeoLookupError:
        return False


_ALIVE = {"status": "alive"}


@get("/healthz", operation_id="healthz", operation_class=openapi.HEALTHZ, sync_to_thread=False)
def healthz() -> dict[str, str]:
    """Alive: this process answers."""
    return _ALIVE


def quick_healthz(_scope: Any, body: bytes = msgspec.json.encode(_ALIVE)) -> bytes:
    """`healthz` for `geolookup.web.quick.Quick`."""
    return body


@get("/readyz", operation_id="readyz", operation_class=openapi.READYZ, sync_to_thread=True)
def readyz(health: NamedDependency[Health]) -> ASGIResponse:
    """Ready: everything that requests need is there, and the process was not told to end."""
    if health.draining:
        raise RequestRefusedError("it was told to end", problem="shutting-down")
    failing, remark = health.found()
    if failing:
        # Only the names: everyone may ask, and the log has the reasons.
        raise RequestRefusedError(f"not ready: {', '.join(failing)}", problem="not-ready")
    body = {"status": "ready", **({} if remark is None else {"remark": remark})}
    return ASGIResponse(body=msgspec.json.encode(body), media_type="application/json")
