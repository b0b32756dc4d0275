"""uvicorn around one application: its address, the guard and the observer in between, and an orderly end."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from geolookup.model.addresses import is_loopback
from geolookup.model.errors import ServiceError
from geolookup.web.application import Application, ignore
from geolookup.web.auth import VARIABLE, Tokens
from geolookup.web.guard import Guard
from geolookup.web.logs import AccessLog
from geolookup.web.observer import Observer
from geolookup.web.options import ACCEPTED_AT_ONCE, Options
from geolookup.web.protocol import Protocol
from geolookup.web.tls import Certificate, secured

#: How often it is checked whether the certificate was renewed, in ticks of uvicorn: 0.1 seconds each.
_LOOK_TICKS = 20


def url_of(address: socket.socket, *, tls: bool = False) -> str:
    """The base address of a service on that socket."""
    scheme = "https" if tls else "http"
    name, port = address.getsockname()[:2]
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def bind(host: str, port: int, *, beyond_loopback: bool = False) -> socket.socket:
    """A socket that has the address and does not listen yet.

    :raises ServiceError: if the host must be a loopback address and is not, or the address cannot be used
    """
    if not 0 <= port <= 65535:  # the C library would take the lower 16 bits of it
        raise ServiceError(f"{host}, port {port}: a port is a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"{host}: not a host name or address that this machine knows") from error
    # Every address of the name is checked: one beyond loopback could stand behind one of loopback.
    if not beyond_loopback and not all(is_loopback(str(address[0])) for *_, address in found):
        raise ServiceError(
            f"{host}: not a loopback address; without tokens the service listens on loopback only: make a token with "
            f"`geolookup serve-token`, and give its file as --tokens (or set {VARIABLE})"
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


def _believing(proxies: Sequence[str]) -> Callable[[Any], None]:
    """A function that puts the client that these proxies name into a request's scope."""

    async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
        pass

    # It changes the scope, then calls what it stands before: without waiting, so that one step is all of it.
    middleware: Any = ProxyHeadersMiddleware(nothing, list(proxies))

    def believe(scope: Any) -> None:
        with contextlib.suppress(StopIteration):
            middleware(scope, None, None).send(None)

    return believe


def certificate_of(options: Options) -> Certificate | None:
    """The certificate that the options name, None without one.

    :raises SettingsError: if it cannot be used
    """
    if options.tls_cert is None or options.tls_key is None:
        return None
    return Certificate(options.tls_cert, options.tls_key)


def tokens_of(options: Options) -> Tokens | None:
    """The tokens that clients must have, None if they need none.

    :raises SettingsError: if they cannot be used
    """
    return None if options.asks_itself else Tokens.load(options.tokens)


class Server(uvicorn.Server):
    """uvicorn around the application, on a socket that is bound already. ``url`` is the base address.

    :raises SettingsError: if the tokens, the certificate or the access log cannot be used
    """

    def __init__(self, application: Application, address: socket.socket, options: Options | None = None) -> None:
        options = options or Options()
        self.application = application
        self.health, self.metrics = application.health, application.metrics
        self.tokens = tokens_of(options)
        if self.tokens is not None:
            self.tokens.reloaded = self.metrics.tokens_reloaded
        self._certificate = certificate_of(options)
        self._log = None
        if options.access_log is not None:
            self._log = AccessLog(options.access_log, options.access_log_format)
        self._drain_s = options.drain_s
        guard = Guard(
            application.asgi,
            options.allow_hosts,
            paths=application.paths,
            tokens=self.tokens,
            limits=options.limits,
            health=self.health,
            beyond_loopback=not is_loopback(str(address.getsockname()[0])),
            at_once=application.at_once,
        )
        observer = Observer(guard, self.metrics, self._log, application.paths, at_once=guard.at_once)
        # uvicorn would call it if it looked like a class.
        protocol: Any = partial(
            Protocol,
            limits=options.limits,
            refused=observer.refused_unread,
            paths=application.paths,
            at_once=observer.at_once,
            believe=_believing(options.trusted_proxies) if options.trusted_proxies else None,
        )
        if self._certificate is not None:
            protocol = secured(
                protocol,
                self._certificate.context,
                seconds=options.limits.request_s,
                most=2 * options.limits.connections,
            )
        super().__init__(
            uvicorn.Config(
                cast(Any, observer),
                http=protocol,
                loop="asyncio",
                access_log=False,
                log_config=None,
                # It warns about what clients send, which belongs in the access log.
                log_level="error",
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                ws="none",
                # asyncio accepts this many at once, before it closes those above the limit.
                backlog=ACCEPTED_AT_ONCE,
                timeout_graceful_shutdown=options.grace_s,  # type: ignore[arg-type]  # it becomes a timer's delay
            )
        )
        self.url = url_of(address, tls=self._certificate is not None)
        self.when_ready: Callable[[str], None] = ignore

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        self.application.start()
        self.when_ready(self.url)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; true if it is time to end."""
        if self._certificate is not None and counter % _LOOK_TICKS == 0:
            self._certificate.follow()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end: `Health` says so at once."""
        self.health.draining = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Continue to serve for the time of the drain, let running answers end, then close the application."""
        self.health.draining = True
        until = asyncio.get_running_loop().time() + self._drain_s
        while not self.force_exit and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.1)
        self.health.stopping = True
        await super().shutdown(sockets)
        self.application.close()
        if self._log is not None:
            self._log.close()
