"""The needs of the state's next sync, and the dates of its data, as metrics."""

import contextlib
import time

from prometheus_client import Gauge

from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import GeoLookupError
from geolookup.state.publishing import checks
from geolookup.state.publishing.directory import StateDirectory
from geolookup.web.probes import Metrics

#: The checks write and sync a file, so they are tried once in this many seconds at most.
_EVERY_S = 60.0


class Needs:
    """The gauges of one process; they are made at the first reading."""

    def __init__(self, geo: GeoLookup, metrics: Metrics) -> None:
        self._geo = geo
        self._metrics = metrics
        self._gauges: dict[str, Gauge] = {}
        self._tried_at: float | None = None

    def read(self) -> None:
        """Try the checks and set the gauges; a state that cannot be read leaves them as they were."""
        now = time.monotonic()
        if self._tried_at is not None and now - self._tried_at < _EVERY_S:
            return
        self._tried_at = now
        with contextlib.suppress(GeoLookupError):  # readyz says so
            self._geo.with_snapshot(self._set)

    def _set(self, snapshot: Snapshot) -> None:
        found = checks.gauges(StateDirectory(self._geo.home), snapshot.current)
        for name, (what, of, values) in found.items():
            if name not in self._gauges:
                self._gauges[name] = self._metrics.gauge(name, what, *([of] if of else []))
            for label, value in values.items():
                (self._gauges[name].labels(label) if label else self._gauges[name]).set(value)
