"""The reference service: its database, what is loaded into it, and how one process or several serve it."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from geolookup.service.app import PATHS, create_app
from geolookup.service.geolocations.loader import load_demo, load_files
from geolookup.service.hotels import loader as hotels_loader
from geolookup.service.http.watch.health import Health
from geolookup.service.http.watch.metrics import Metrics
from geolookup.service.lookups.lookup_index import LookupIndex
from geolookup.service.process.application import Application, Opens
from geolookup.service.process.launch import launch
from geolookup.service.process.options import Options
from geolookup.service.store.gauges import DatabaseGauges
from geolookup.service.store.store import Store


def _nobody_waits(_url: str) -> None:
    pass


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    db: str | os.PathLike[str] | None = None,
    load: Iterable[str | os.PathLike[str]] = (),
    load_hotels: Iterable[str | os.PathLike[str]] = (),
    demo: bool = False,
    ignore_idempotency_keys: bool = False,
    options: Options | None = None,
    on_ready: Callable[[str], None] = _nobody_waits,
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way and return.

    ``port`` 0 lets the system choose one. Without ``db`` the database is a temporary one, removed at the end. The
    address is reserved first; the service listens only when everything is loaded. Then ``on_ready`` is called, with the
    base address that clients need. ``ignore_idempotency_keys`` makes it behave like services without
    ``Idempotency-Key``.

    :raises ServiceError: if the host is beyond loopback and no tokens are given, the address is in use, the database
        cannot be used, or a worker cannot start
    :raises SettingsError: if the tokens or the access log cannot be used
    :raises DataFileError: if a file to load is bad: then nothing is loaded from it or the others of its kind
    """
    options = options or Options()
    prepared = _prepared(
        db, load, load_hotels, demo=demo, ignore_keys=ignore_idempotency_keys, alone=options.workers == 1
    )
    launch(prepared, host=host, port=port, options=options, on_ready=on_ready)


@contextlib.contextmanager
def _prepared(
    db: str | os.PathLike[str] | None,
    load: Iterable[str | os.PathLike[str]],
    load_hotels: Iterable[str | os.PathLike[str]],
    *,
    demo: bool,
    ignore_keys: bool,
    alone: bool,
) -> Iterator[Opens]:
    """The database, open and loaded, and how the process that serves gets its application."""
    with contextlib.ExitStack() as stack:
        path = os.fspath(db) if db is not None else stack.enter_context(_temporary())
        store = stack.enter_context(Store.open(path))
        if demo:
            load_demo(store)
            hotels_loader.load_demo_hotels(store)
        load_files(store, load)
        hotels_loader.load_hotels(store, load_hotels)
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
    health = Health(database=lambda: store.snapshot().close(), index=lambda: index.is_ready)
    metrics = Metrics()
    DatabaseGauges(store, metrics)
    return Application(
        asgi=create_app(store, index, ignore_idempotency_keys=ignore_keys, health=health, metrics=metrics),
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
