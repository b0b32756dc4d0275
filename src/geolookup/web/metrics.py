"""What the service counts, for Prometheus: one registry for each process, summed over all workers."""

import os
from collections.abc import Callable
from typing import Final

from litestar import get
from litestar.di import NamedDependency
from litestar.response.base import ASGIResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from geolookup.base.version import __version__
from geolookup.web import openapi

#: Names a directory in which the workers of one service share their counts. prometheus_client reads it when it is
#: imported, so it is set before a worker starts.
SHARED_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


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
