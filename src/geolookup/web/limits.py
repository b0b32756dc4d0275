"""How much one service takes from its clients: sizes, times, numbers, and requests a second."""

import ipaddress
import logging
import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

logger = logging.getLogger("geolookup.service")

#: How many clients' requests are counted at once. The client that was silent longest is forgotten first, so that memory
#: stays bounded.
MAX_CLIENTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process of the service allows. Each operation has its own limit for bodies."""

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


class RateLimit:
    """A token bucket for each client: ``rate`` requests a second, ``burst`` at once."""

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Take one request from the client's bucket: 0, or the seconds until there is one."""
        now = self._clock()
        left, since = self._buckets.get(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        wait_s = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return wait_s

    def __len__(self) -> int:
        return len(self._buckets)


def address_key(host: str) -> str:
    """The key under which a client without a token is counted: its IPv4 address, or its IPv6 network of 64 bits.

    A client with one IPv6 address usually has such a network.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "address:" + host[:64]
    if address.version == 6 and address.ipv4_mapped is None:
        return f"address:{ipaddress.ip_network((int(address) >> 64 << 64, 64))}"
    return f"address:{address}"
