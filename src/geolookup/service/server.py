"""Running the service: its address, its database, its signals, and uvicorn around the application."""

import contextlib
import ipaddress
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

import uvicorn

from geolookup.errors import ServiceError
from geolookup.service.app import create_app
from geolookup.service.loader import load_csv, load_demo
from geolookup.service.store import Store

#: Seconds that answers under way may take when the service is told to stop.
GRACE_S = 5


def _nobody_waits(_url: str) -> None:
    pass


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    db: str | os.PathLike[str] | None = None,
    load: Iterable[str | os.PathLike[str]] = (),
    demo: bool = False,
    ignore_idempotency_keys: bool = False,
    on_ready: Callable[[str], None] = _nobody_waits,
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is under way and return.

    ``port`` 0 lets the system choose one. Without ``db`` the database is a temporary one, removed at the end. The
    address is taken first, and listened on only when everything is loaded: ``on_ready`` is called then, with the base
    address that clients need.

    :raises ServiceError: where the host is not loopback, the address is in use, or the database cannot be used
    :raises DataFileError: where a file to load is bad; the database is as it was
    """
    with contextlib.suppress(_StopRequested), contextlib.ExitStack() as stack:
        stop = stack.enter_context(_stopped_by_signals())
        address = stack.enter_context(bind(host, port))
        store = stack.enter_context(Store.open(db if db is not None else stack.enter_context(_temporary())))
        if demo:
            load_demo(store)
        load_csv(store, load)
        server = Server(store, address, host=host, ignore_idempotency_keys=ignore_idempotency_keys)
        server.when_ready = on_ready
        stop.server = server
        server.run(sockets=[address])


class Server(uvicorn.Server):
    """uvicorn around the application, on a socket that is bound already. ``url`` is the base address."""

    def __init__(
        self, store: Store, address: socket.socket, *, host: str = "127.0.0.1", ignore_idempotency_keys: bool = False
    ) -> None:
        app = create_app(store, ignore_idempotency_keys=ignore_idempotency_keys, hosts=[host])
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level="warning",
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        name, port = address.getsockname()[:2]
        self.url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        self.when_ready: Callable[[str], None] = _nobody_waits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.when_ready(self.url)


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address, and does not listen yet.

    :raises ServiceError: where the host is no loopback address, or the address cannot be had
    """
    if not 0 <= port <= 65535:  # the C library would take the lower 16 bits of it
        raise ServiceError(f"{host}, port {port}: a port is a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"{host}: is no host of this machine") from error
    # Every address of a name, lest one beyond loopback hides behind one that is not.
    if not all(_is_loopback(str(address[0])) for *_, address in found):
        raise ServiceError(f"{host}: is not a loopback address, and without authentication the service goes no further")
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise ServiceError(f"{host}, port {port}: {error.strerror}: choose another port") from error
    return taken


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


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
        self.server: Server | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.server is None:
            raise _StopRequested
        self.server.handle_exit(number, frame)


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
