"""Running the service: its address, its database, its signals, and uvicorn around the application."""

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from geolookup.addresses import is_loopback
from geolookup.errors import ServiceError
from geolookup.service.app import create_app
from geolookup.service.geolocations.loader import load_csv, load_demo
from geolookup.service.hotels import loader as hotels_loader
from geolookup.service.http.access_log import AccessLog
from geolookup.service.http.auth import VARIABLE, Tokens
from geolookup.service.http.guard import Guard
from geolookup.service.http.health import Health
from geolookup.service.http.host import canonical_address, host_of
from geolookup.service.http.limits import ACCEPTED_AT_ONCE, with_files
from geolookup.service.http.metrics import Metrics
from geolookup.service.http.observer import Observer
from geolookup.service.http.protocol import Protocol
from geolookup.service.lookups.lookup_index import LookupIndex
from geolookup.service.process.options import Options
from geolookup.service.process.workers import Supervisor
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
    options: Options | None = None,
    on_ready: Callable[[str], None] = _nobody_waits,
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way and return.

    ``port`` 0 lets the system choose one. Without ``db`` the database is a temporary one, removed at the end. The
    address is taken first, and listened on only when everything is loaded: ``on_ready`` is called then, with the base
    address that clients need.

    :raises ServiceError: where the host is beyond loopback and there are no tokens, the address is in use, the database
        cannot be used, or a worker cannot start
    :raises SettingsError: where the tokens or the access log cannot be used
    :raises DataFileError: where a file to load is bad: nothing is kept of it and of the others of its kind
    """
    options = options or Options()
    with contextlib.suppress(_StopRequested), contextlib.ExitStack() as stack:
        stop = stack.enter_context(_stopped_by_signals())
        options = replace(options, limits=with_files(options.limits))
        tokens = Tokens.load(options.tokens)
        address = stack.enter_context(bind(host, port, beyond_loopback=tokens is not None))
        path = os.fspath(db) if db is not None else stack.enter_context(_temporary())
        store = stack.enter_context(Store.open(path))
        if demo:
            load_demo(store)
            hotels_loader.load_demo_hotels(store)
        load_csv(store, load)
        hotels_loader.load_hotels(store, load_hotels)
        if (name := host_of(host)) is not None and canonical_address(name) is None:
            options = replace(options, allow_hosts=(name, *options.allow_hosts))
        if options.workers == 1:
            server = Server(store, address, options)
            server.when_ready = on_ready
            stop.call = server.handle_exit
            server.run(sockets=[address])
            return
        # The store stays open: the database is this process's, and its workers' through it.
        supervisor = Supervisor(
            partial(_work, path, address, options),
            count=options.workers,
            stop_within_s=options.drain_s + options.grace_s,
        )
        stop.call = supervisor.stop
        supervisor.run(lambda: on_ready(url_of(address)), [address])


def _work(db: str, address: socket.socket, options: Options, folder: str, ready: Callable[[], None]) -> None:
    """One worker, in a process of its own: ``folder`` is one that all workers share."""
    with contextlib.suppress(_StopRequested), contextlib.ExitStack() as stack:
        stop = stack.enter_context(_stopped_by_signals())
        stack.enter_context(address)
        store = stack.enter_context(Store.open(db, worker=True))
        server = Server(store, address, options, folder=folder)
        server.when_ready = lambda _url: ready()
        stop.call = server.handle_exit
        server.run(sockets=[address])


class Server(uvicorn.Server):
    """uvicorn around the application, on a socket that is bound already. ``url`` is the base address.

    ``folder`` is one that other processes use that serve the same database, or None.

    :raises SettingsError: where the tokens or the access log cannot be used
    """

    def __init__(
        self,
        store: Store,
        address: socket.socket,
        options: Options | None = None,
        *,
        folder: str | None = None,
    ) -> None:
        options = options or Options()
        self.tokens = Tokens.load(options.tokens)
        self.lookup_index = LookupIndex(store, folder)
        self.health = Health(database=lambda: store.snapshot().close(), index=lambda: self.lookup_index.is_ready)
        self.metrics = Metrics()
        DatabaseGauges(store, self.metrics)
        if self.tokens is not None:
            self.tokens.reloaded = self.metrics.tokens_reloaded
        self._log = None
        if options.access_log is not None:
            self._log = AccessLog(options.access_log, options.access_log_format)
        self._drain_s = options.drain_s
        name = str(address.getsockname()[0])
        guard = Guard(
            create_app(
                store,
                self.lookup_index,
                ignore_idempotency_keys=options.ignore_idempotency_keys,
                health=self.health,
                metrics=self.metrics,
            ),
            options.allow_hosts,
            tokens=self.tokens,
            limits=options.limits,
            health=self.health,
            beyond_loopback=not is_loopback(name),
        )
        observer = Observer(guard, self.metrics, self._log)
        app: Any = observer
        if options.trusted_proxies:
            app = ProxyHeadersMiddleware(observer, list(options.trusted_proxies))
        # uvicorn calls what it takes for a class.
        protocol: Any = partial(Protocol, limits=options.limits, refused=observer.refused_unread)
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                access_log=False,
                log_config=None,
                # What it warns of is what clients send: that is for the access log.
                log_level="error",
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                ws="none",
                # asyncio accepts so many in one go, before it closes any that are too many.
                backlog=ACCEPTED_AT_ONCE,
                h11_max_incomplete_event_size=options.limits.head_bytes,
                timeout_keep_alive=options.limits.keep_alive_s,  # type: ignore[arg-type]  # it becomes a timer's delay
                timeout_graceful_shutdown=options.grace_s,  # type: ignore[arg-type]  # likewise
            )
        )
        self.url = url_of(address)
        self.when_ready: Callable[[str], None] = _nobody_waits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.lookup_index.start()
        self.when_ready(self.url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: `Health` says so at once."""
        self.health.draining = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is under way, the index's threads last: the database may be closed then."""
        self.health.draining = True
        until = asyncio.get_running_loop().time() + self._drain_s
        while not self.force_exit and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.1)
        self.health.stopping = True
        await super().shutdown(sockets)
        self.lookup_index.close()
        if self._log is not None:
            self._log.close()


def url_of(address: socket.socket) -> str:
    """The base address of a service on that socket."""
    name, port = address.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def bind(host: str, port: int, *, beyond_loopback: bool = False) -> socket.socket:
    """A socket that has the address, and does not listen yet.

    :raises ServiceError: where the host is no loopback address and must be, or the address cannot be had
    """
    if not 0 <= port <= 65535:  # the C library would take the lower 16 bits of it
        raise ServiceError(f"{host}, port {port}: a port is a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"{host}: is no host of this machine") from error
    # Every address of a name, lest one beyond loopback hides behind one that is not.
    if not beyond_loopback and not all(is_loopback(str(address[0])) for *_, address in found):
        raise ServiceError(
            f"{host}: is not a loopback address, and without tokens the service goes no further: make one with "
            f"`geolookup serve-token`, and name its file as --tokens (or set {VARIABLE})"
        )
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise ServiceError(f"{host}, port {port}: {error.strerror}: choose another address or port") from error
    return taken


@contextlib.contextmanager
def _temporary() -> Iterator[str]:
    """The path for a database in a private directory that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="geolookup-service-", ignore_cleanup_errors=True) as directory:
        yield os.path.join(directory, "service.db")


class _StopRequested(BaseException):
    """A signal asked to stop while there was no server yet; a BaseException, so that nothing takes it for a failure."""


class _Stop:
    """What a signal does: it ends the server, or whatever comes before there is one.

    uvicorn has handlers of its own while it runs, and at its end raises what it caught once more: these catch it, so
    that the process lives to clean up.
    """

    def __init__(self) -> None:
        self.call: Callable[[int, FrameType | None], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.call is None:
            raise _StopRequested
        self.call(number, frame)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[_Stop]:
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
