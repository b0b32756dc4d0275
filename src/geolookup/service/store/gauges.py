"""Metrics of the database for Prometheus."""

import threading
import time

from sqlalchemy import func, select

from geolookup.errors import ServiceError
from geolookup.service.store.schema import geolocations, ipblocks
from geolookup.service.store.store import Store
from geolookup.web.probes import Metrics

#: Counting 4.5 million blocks takes a while, so it is done at most once in this many seconds.
_COUNT_EVERY_S = 30.0


class DatabaseGauges:
    """Gauges of one database, set again each time the metrics are asked for."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._up = metrics.gauge("geolookup_database_up", "Whether the database answered just now.")
        self._revision = metrics.gauge("geolookup_revision", "The database's revision: it rises with each write.")
        self._geolocations = metrics.gauge("geolookup_geolocations", "Geolocations, by layer.", "layer")
        self._blocks = metrics.gauge("geolookup_blocks", "IP blocks, by layer.", "layer")
        self._lock = threading.Lock()
        self._counted: tuple[int, float] | None = None
        metrics.before_each(self._read)

    def _read(self) -> None:
        try:
            snapshot = self._store.snapshot()
        except ServiceError:
            self._up.set(0)
            return
        try:
            self._up.set(1)
            self._revision.set(snapshot.revision)
            with self._lock:
                now, counted = time.monotonic(), self._counted
                if counted is not None and (counted[0] == snapshot.revision or now - counted[1] < _COUNT_EVERY_S):
                    return
                self._counted = (snapshot.revision, now)
            for gauge, table in ((self._geolocations, geolocations), (self._blocks, ipblocks)):
                for layer, wanted in (("custom", table.c.locid < 0), ("default", table.c.locid > 0)):
                    found = snapshot.connection.execute(select(func.count()).select_from(table).where(wanted))
                    gauge.labels(layer).set(found.scalar_one())
        finally:
            snapshot.close()
