"""TLS around the connections of a service: its certificate, followed when it is renewed, and limits of its own."""

import asyncio
import logging
import os
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any

from geolookup.base.stamp import stamp_of
from geolookup.model.errors import SettingsError

logger = logging.getLogger("geolookup.service")

#: The stamps of both files.
Seen = tuple[tuple[int, ...] | None, ...]


class Certificate:
    """The certificate chain and its key, from files in PEM; a renewed one serves connections from then on.

    :raises SettingsError: if they cannot be used
    """

    def __init__(self, cert: str, key: str) -> None:
        self._paths = os.path.abspath(cert), os.path.abspath(key)
        self._seen = self._look()
        # It allows TLS 1.2 and newer.
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.set_alpn_protocols(["http/1.1"])
        self._load(self.context)

    def follow(self) -> None:
        """Read the files again if they changed; one that cannot be used is logged, and the present one stays."""
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            # Tried first: a key that does not fit must not reach the context that serves.
            self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
            self._load(self.context)
        except SettingsError as error:
            logger.error("%s; the certificate from before goes on", error)  # noqa: TRY400 - the message names the file
        else:
            logger.warning("%s: the certificate was read again", self._paths[0])

    def _load(self, context: ssl.SSLContext) -> None:
        cert, key = self._paths
        for path in self._paths:
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise SettingsError(f"{path}: reading failed: {error.strerror}") from error
        try:
            # Without this, OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(cert, key, password=_no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise SettingsError(
                f"{cert}, {key}: not a certificate chain and its key without a password, both in PEM: "
                f"{getattr(error, 'reason', None) or error}"
            ) from error

    def _look(self) -> Seen:
        return tuple(map(stamp_of, self._paths))


def _no_password() -> str:
    raise ValueError("the key has a password: remove it with `openssl pkey`")


class Secured(SSLProtocol):
    """A connection's TLS, below the protocol that reads requests; it makes no other difference.

    asyncio could do this by itself, but with 60 seconds for a handshake, and without counting connections whose
    handshake is under way: a client could take all open files with connections on which it says nothing.
    """

    def __init__(
        self, inner: asyncio.Protocol, context: ssl.SSLContext, *, seconds: float, opened: set[Any], most: int
    ):
        no_waiter: Any = None  # for the handshake
        timeout: Any = seconds  # which becomes a timer's delay
        super().__init__(
            asyncio.get_running_loop(), inner, context, no_waiter, server_side=True, ssl_handshake_timeout=timeout
        )
        self._opened = opened
        self._most = most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._opened.add(self)
        super().connection_made(transport)
        if len(self._opened) > self._most and isinstance(transport, asyncio.WriteTransport):
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection ended, from either side."""
        self._opened.discard(self)
        super().connection_lost(exc)


def secured(
    inner: Callable[..., asyncio.Protocol], context: ssl.SSLContext, *, seconds: float, most: int
) -> Callable[..., asyncio.BaseProtocol]:
    """A factory of ``inner`` connections below TLS; ``seconds`` for a handshake, ``most`` connections at once."""
    opened: set[Any] = set()

    def make(*arguments: Any, **more: Any) -> asyncio.BaseProtocol:
        return Secured(inner(*arguments, **more), context, seconds=seconds, opened=opened, most=most)

    return make
