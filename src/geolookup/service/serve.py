"""The reference service: its database, what is loaded into it, and how one process or several serve it."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from geolookup.service.app import PATHS, create_app
from geolookup.service.geolocations.loader import Loaded, load_files
from geolookup.service.hotels import loader as hotels_loader
from geolookup.service.lookups.lookup_index import LookupIndex
from geolookup.service.store.counted import OnRows, nobody_counts
from geolookup.service.store.gauges import DatabaseGauges
from geolookup.service.store.store import Store
from geolookup.sources.country_ranges import bundled_ranges_path
from geolookup.web.application import Application, Opens
from geolookup.web.launch import launch
from geolookup.web.options import Options
from geolookup.web.probes import Health, Metrics

logger = logging.getLogger(__name__)

#: What is said of a database without a geolocation, in the log and by ``/readyz``.
EMPTY = (
    "the database has no geolocations: lists are empty and no address is covered. "
    "Load a file with --load FILE, or the bundled data with --demo"
)


def _nobody_waits(_url: str) -> None:
    pass


def _nobody_asks(_loaded: Loaded) -> None:
    pass


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
    on_ready: Callable[[str], None] = _nobody_waits,
    on_replaced: Callable[[Loaded], None] = _nobody_asks,
    on_rows: OnRows = nobody_counts,
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
            hotels_loader.load_demo_hotels(store)
        loaded = load_files(store, geolocations, replace=replace, on_rows=on_rows)
        if replace:
            on_replaced(loaded)
        hotels_loader.load_hotels(store, load_hotels, on_rows=on_rows)
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
