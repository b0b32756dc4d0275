"""The options and limits of one service, in a form that can be sent to each of its processes."""

import ipaddress
import logging
import resource
from dataclasses import dataclass, field, replace
from typing import Literal

from geolookup.model.errors import SettingsError
from geolookup.web.host import allowed_host

logger = logging.getLogger("geolookup.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The sizes, times and numbers that a process allows. Each operation has its own limit for bodies."""

    #: Bytes of a request's line and headers.
    head_bytes: int = 16384
    #: Bytes of a request's path and query.
    target_bytes: int = 8192
    #: Seconds for a request's head to arrive, and again for its body.
    request_s: float = 30.0
    #: Seconds after which a client that reads nothing of its answer is dropped.
    stall_s: float = 120.0
    #: Seconds that a connection may be idle between two requests. Longer than proxies keep theirs (nginx: 60): else
    #: a proxy could send a request into a connection that is just being closed.
    keep_alive_s: float = 75.0
    #: Connections at once: requests on more than these are refused, and more than twice as many are closed unread.
    connections: int = 1000
    #: Lists, of geolocations or of hotels, that are being sent at once.
    lists: int = 100
    #: Requests a second that one client may make on average, and twice as many at once; 0 sets no limit.
    rate: float = 0.0


#: Connections that may wait to be accepted.
ACCEPTED_AT_ONCE = 128

#: Descriptors of a list (the database, its log, its shared memory, and one to spare), and of everything else.
_FILES_OF_A_LIST = 4
_OTHER_FILES = 128 + ACCEPTED_AT_ONCE


def with_files(limits: Limits) -> Limits:
    """Let this process and its children open as many files as the limits may need, or else allow fewer connections.

    Usually 1024 are allowed, though any process may ask for more. A process that has none left cannot accept
    connections, and asyncio then spends its time on logging that.
    """
    others = _FILES_OF_A_LIST * limits.lists + _OTHER_FILES
    needed = 2 * limits.connections + others
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            limits = replace(limits, connections=max(1, (soft - others) // 2))
            logger.warning("%d open files are allowed: at most %d connections at once", soft, limits.connections)
    return limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything about running a service except its address and what it serves.

    :raises SettingsError: if an allowed host is not a host name without a port, a trusted proxy is not an address or
        network, or there is a certificate without a key or a key without a certificate
    """

    #: A file of token lines (see `geolookup.web.auth`), mode 0600.
    tokens: str | None = None
    #: The application knows by itself who may ask: no client needs a token, and the environment is not asked.
    asks_itself: bool = False
    #: Files in PEM: the certificate chain and its key, both or neither. With them, it is served by TLS only.
    tls_cert: str | None = None
    tls_key: str | None = None
    #: Names by which the service may be addressed, in addition to those of loopback.
    allow_hosts: tuple[str, ...] = ()
    #: Addresses and networks whose ``X-Forwarded-For`` is believed.
    trusted_proxies: tuple[str, ...] = ()
    #: The file that gets a line for each request; ``-`` is standard error, None is nowhere.
    access_log: str | None = None
    access_log_format: Literal["json", "text"] = "json"
    #: Processes that answer requests.
    workers: int = 1
    #: Seconds between ``/readyz`` saying no and the end of listening: the time a load balancer needs.
    drain_s: float = 0.0
    #: Seconds that answers under way may take after that.
    grace_s: float = 10.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        for name in self.allow_hosts:
            allowed_host(name)
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise SettingsError(f"trusted proxy {proxy!r:.80}: not an address or network") from error
