"""The reference service: its application and gauges, its database with the files loaded into it, and its processes."""

import contextlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from litestar import get
from sqlalchemy import func, select

from geolookup.base.version import __version__
from geolookup.model.errors import ServiceError
from geolookup.service.geolocations import routes as geolocations_routes
from geolookup.service.geolocations.loader import Loaded, load_files
from geolookup.service.geolocations.routes import Geolocations
from geolookup.service.hotels import records as hotels_records
from geolookup.service.hotels import routes as hotels_routes
from geolookup.service.lookup_index import LookupIndex
from geolookup.service.store.schema import geolocations, ipblocks
from geolookup.service.store.store import OnRows, Store
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.web import lookups as lookups_routes
from geolookup.web.application import Application, Opens, ignore
from geolookup.web.launch import launch
from geolookup.web.lookups import Lookups
from geolookup.web.options import Options
from geolookup.web.probes import Health, Metrics
from geolookup.web.routing import Methods, routed

PATHS = geolocations_routes.PATHS | hotels_routes.PATHS | lookups_routes.PATHS


def create_app(
    store: Store,
    lookups: Lookups,
    *,
    ignore_idempotency_keys: bool = False,
    health: Health | None = None,
    metrics: Metrics | None = None,
) -> Methods:
    """The ASGI application over an open store and the index that follows it; it closes neither.

    ``ignore_idempotency_keys`` makes it behave like services without ``Idempotency-Key``.
    """
    return routed(
        [links, *geolocations_routes.HANDLERS, *hotels_routes.HANDLERS, *lookups_routes.HANDLERS],
        {"geolocations": Geolocations(store, ignore_idempotency_keys), "store": store, "lookups": lookups},
        title="geolookup reference service",
        quick=lookups_routes.quick(lookups),
        health=health,
        metrics=metrics,
    )


@get("/", include_in_schema=False, sync_to_thread=False)
def links() -> dict[str, str]:
    """Where to go from here."""
    return {"service": f"geolookup {__version__}", "geolocations": "/geolocations", "openapi": "/schema/openapi.json"}


logger = logging.getLogger(__name__)

#: What is said of a database without a geolocation, in the log and by ``/readyz``.
EMPTY = (
    "the database has no geolocations: lists are empty and no address is covered. "
    "Load a file with --load FILE, or the bundled data with --demo"
)


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    db: str | os.PathLike[str] | None = None,
    load: Iterable[str | os.PathLike[str]] = (),
    load_hotels: Iterable[str | os.PathLike[str]] = (),
    demo: bool = False,
    replace: bool = False,
    ignore_idempotency_keys: bool = False,
    options: Options | None = None,
    on_ready: Callable[[str], None] = ignore,
    on_replaced: Callable[[Loaded], None] = ignore,
    on_rows: OnRows = ignore,
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way and return.

    ``port`` 0 lets the system choose one. Without ``db`` the database is a temporary one, removed at the end. The
    address is reserved first; the service listens only when everything is loaded. Then ``on_ready`` is called, with the
    base address that clients need. ``replace`` removes the default geolocations and blocks that neither ``load`` nor
    the ``demo`` has, and ``on_replaced`` is told what that changed. ``on_rows`` is told
    how many more rows were loaded. ``ignore_idempotency_keys`` makes it behave like
    services without ``Idempotency-Key``.

    :raises ServiceError: if the host is beyond loopback and no tokens are given, the address is in use, the database
        cannot be used, or a worker cannot start
    :raises SettingsError: if the tokens or the access log cannot be used
    :raises DataFileError: if a file to load is bad: then nothing is loaded from it or the others of its kind; if
        nothing would be left after ``replace``
    """
    options = options or Options()
    geolocations = [*([bundled_ranges_path()] if demo else []), *load]

    def fill(store: Store) -> None:
        if demo:
            hotels_records.load_demo_hotels(store)
        loaded = load_files(store, geolocations, replace=replace, on_rows=on_rows)
        if replace:
            on_replaced(loaded)
        hotels_records.load_hotels(store, load_hotels, on_rows=on_rows)
        if store.is_empty():
            logger.warning("%s", EMPTY)

    prepared = _prepared(db, fill, ignore_keys=ignore_idempotency_keys, alone=options.workers == 1)
    launch(prepared, host=host, port=port, options=options, on_ready=on_ready)


@contextlib.contextmanager
def _prepared(
    db: str | os.PathLike[str] | None,
    fill: Callable[[Store], None],
    *,
    ignore_keys: bool,
    alone: bool,
) -> Iterator[Opens]:
    """The database, open and loaded, and how the process that serves gets its application."""
    with contextlib.ExitStack() as stack:
        path = os.fspath(db) if db is not None else stack.enter_context(_temporary())
        store = stack.enter_context(Store.open(path))
        fill(store)
        if alone:
            yield lambda folder: contextlib.nullcontext(application(store, folder, ignore_keys=ignore_keys))
        else:
            # The store stays open: the database is this process's, and its workers' through it.
            yield partial(_opened_by_worker, path, ignore_keys)


@contextlib.contextmanager
def _opened_by_worker(path: str, ignore_keys: bool, folder: str | None) -> Iterator[Application]:
    with Store.open(path, worker=True) as store:
        yield application(store, folder, ignore_keys=ignore_keys)


def application(store: Store, folder: str | None = None, *, ignore_keys: bool = False) -> Application:
    """The reference service on an open store, which it does not close, as one process serves it.

    ``folder`` is one that other processes use that serve the same database, or None.
    """
    index = LookupIndex(store, folder)
    health = Health(
        database=lambda: store.snapshot().close(),
        index=lambda: index.is_ready,
        remark=lambda: EMPTY if store.is_empty() else None,
    )
    metrics = Metrics()
    DatabaseGauges(store, metrics)
    asgi = create_app(store, index, ignore_idempotency_keys=ignore_keys, health=health, metrics=metrics)
    return Application(
        asgi=asgi,
        at_once=asgi.at_once,
        paths=PATHS,
        health=health,
        metrics=metrics,
        start=index.start,
        # The index's threads read the database, which may be closed after this.
        close=index.close,
    )


@contextlib.contextmanager
def _temporary() -> Iterator[str]:
    """The path for a database in a private directory that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="geolookup-service-", ignore_cleanup_errors=True) as directory:
        yield os.path.join(directory, "service.db")


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
