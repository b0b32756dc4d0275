"""The answers to those who watch a service: ``/healthz``, ``/readyz`` and ``/metrics``.

Each process has its own health, and one registry for Prometheus, which is summed over all workers.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.response.base import ASGIResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from geolookup.base.version import __version__
from geolookup.model.errors import GeoLookupError, RequestRefusedError
from geolookup.web import openapi

#: Names a directory in which the workers of one service share their counts. prometheus_client reads it when it is
#: imported, so it is set before a worker starts.
SHARED_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

#: These are answered to everyone, under every host name, and even if the service is busy.
FREE_PATHS = frozenset({"/healthz", "/readyz"})

#: Anyone may ask ``/readyz``: the checks run once in this many seconds at most.
_KEEP_S = 0.5


class Health:
    """The health of one process.

    ``checks`` are by name; each returns false or raises a `GeoLookupError` if it finds something wrong, and may take
    a moment. ``remark`` tells people about a process that is ready, or is None.
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
    """`healthz` for `geolookup.web.routing.Quick`."""
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


class Metrics:
    """The metrics of one process. Every label is from a fixed set, so that requests cannot create new series."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._shared = SHARED_DIRECTORY in os.environ
        self._requests = Counter(
            "geolookup_requests",
            "Requests answered, by operation, method and status.",
            ["operation", "method", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "geolookup_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["operation"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._bytes = Counter("geolookup_response_bytes", "Bytes of answers' bodies.", ["operation"], registry=registry)
        self._problems = Counter(
            "geolookup_problems", "Requests answered by a problem, by its name.", ["problem"], registry=registry
        )
        self._reloads = Counter(
            "geolookup_token_reloads", "Changes of the file of tokens.", ["outcome"], registry=registry
        )
        self.in_flight = Gauge(
            "geolookup_requests_in_flight", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )
        self._workers = Gauge(
            "geolookup_workers", "Processes that serve.", ["version"], registry=registry, multiprocess_mode="livesum"
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram, Counter]] = {}
        self._readers: list[Callable[[], None]] = []
        self._workers.labels(__version__).set(1)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """A gauge of this registry; of several workers, the last value counts."""
        return Gauge(name, text, labels, registry=self._registry, multiprocess_mode="livemostrecent")

    def before_each(self, read: Callable[[], None]) -> None:
        """Have ``read`` set gauges for each `exposition`; it must not raise."""
        self._readers.append(read)

    def observe(self, operation: str, method: str, status: int, seconds: float, body_bytes: int, problem: str) -> None:
        """Count one request that is over."""
        key = (operation, method if method in _METHODS else "other", status)
        # Finding a series by its labels costs more than counting.
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = (
                self._requests.labels(*map(str, key)),
                self._seconds.labels(operation),
                self._bytes.labels(operation),
            )
        series[0].inc()
        series[1].observe(seconds)
        series[2].inc(body_bytes)
        if problem:
            self._problems.labels(problem).inc()

    def tokens_reloaded(self, good: bool) -> None:
        """Count a change of the file of tokens."""
        self._reloads.labels("loaded" if good else "failed").inc()

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format, over all workers; gauges that others keep are read now."""
        for read in self._readers:
            read()
        registry = self._registry
        if self._shared:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


@get("/metrics", operation_id="metrics", operation_class=openapi.METRICS, sync_to_thread=True)
def metrics_page(metrics: NamedDependency[Metrics]) -> ASGIResponse:
    """For Prometheus; a problem of the database does not stop it."""
    # Litestar would add a charset to the media type, which has one.
    headers = {"Content-Type": CONTENT_TYPE_LATEST}
    return ASGIResponse(body=metrics.exposition(), headers=headers)
