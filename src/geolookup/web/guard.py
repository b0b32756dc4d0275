"""The guard before routing: it refuses unknown clients and names, cross-site writes, and what exceeds the limits."""

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from geolookup.model.addresses import is_loopback
from geolookup.model.errors import RequestRefusedError
from geolookup.web.application import SAFE, AnswerAtOnce, ErrorPage, Paths, not_at_once, plain_path
from geolookup.web.auth import Client, Keys, Scope, Tokens
from geolookup.web.host import allowed_host, canonical_address, host_of
from geolookup.web.options import Limits
from geolookup.web.probes import FREE_PATHS, Health
from geolookup.web.problems import FORM, PAGE, RECORD, RETRY_AFTER_S, Problem, problem, send_problem
from geolookup.web.request import SAME

HTTPScope: TypeAlias = Any

#: How many clients' requests are counted at once. The client that was silent longest is forgotten first, so that memory
#: stays bounded.
MAX_CLIENTS = 10_000
#: Set in the state of a request whose connection exceeds the limit.
CROWDED = "geolookup.crowded"
#: Set in the scope of a request that was checked: its refusal, or None.
_CHECKED = "geolookup.checked"
#: The key of `_Headers` in what requests with the same headers have in common.
_READ = "guard"


@dataclass(frozen=True, slots=True)
class _Refusal:
    body: Problem
    headers: dict[str, str] = field(default_factory=dict)


class _Headers:
    """The headers of a request by their names, and what they say by themselves."""

    __slots__ = ("_client", "_keys", "encoded", "is_ours", "page", "size", "values")
    encoded: _Refusal | None
    is_ours: bool

    def __init__(self, scope: HTTPScope, page_for: Callable[[str], ErrorPage | None]) -> None:
        self.values: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            self.values.setdefault(name.lower(), []).append(value.decode("latin-1"))
        self.size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        self.page = page_for(", ".join(self.values.get(b"accept", [])))
        self._keys: Keys | None = None
        self._client: Client | None = None

    def client(self, tokens: Tokens, *, basic: bool) -> Client | None:
        """Whose token they have, None if it is not known; it is looked for again after each change of the tokens."""
        keys = tokens.keys()
        if keys is not self._keys:
            given = self.values.get(b"authorization", [])
            self._client = tokens.find(given[0], basic=basic) if len(given) == 1 else None
            self._keys = keys
        return self._client


class Guard:
    """The application behind its guard: an ASGI application itself.

    ``at_once`` is what the application can answer without waiting.
    ``hosts`` are the names by which the service may be addressed, in addition to those of loopback. Without ``tokens``
    anyone may do anything: use that on loopback only. With ``beyond_loopback``, the address on which a connection came
    in is also allowed as a name.
    """

    def __init__(
        self,
        app: Any,
        hosts: Iterable[str] = (),
        *,
        paths: Paths | None = None,
        tokens: Tokens | None = None,
        limits: Limits | None = None,
        health: Health | None = None,
        beyond_loopback: bool = False,
        at_once: AnswerAtOnce = not_at_once,
    ) -> None:
        self.app = app
        self._at_once = at_once
        self._hosts = frozenset({"localhost", *map(allowed_host, hosts)})
        self._paths = paths or Paths()
        self._tokens = tokens
        self._limits = limits or Limits()
        self._health = health or Health()
        self._beyond_loopback = beyond_loopback
        rate = self._limits.rate
        self._rate = RateLimit(rate, max(1.0, 2 * rate)) if rate else None
        self._lists = 0

    def at_once(self, scope: HTTPScope) -> bytes | None:
        """The JSON of the 200 that a request without a body gets; None if it must be passed to `__call__`."""
        refused = scope[_CHECKED] = self._check(scope)
        # The end of a connection is told by `__call__`.
        return None if refused is not None or self._health.draining else self._at_once(scope)

    async def __call__(self, scope: HTTPScope, receive: Any, send: Any) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Once for each request, since it counts.
        refused = scope.pop(_CHECKED) if _CHECKED in scope else self._check(scope)
        if refused is not None:
            await send_problem(scope, receive, send, refused.body, refused.headers)
            return
        if self._is_free(scope):
            await self.app(scope, receive, send)
            return
        if self._health.draining:
            send = _closing(send)
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
            receive = _InTime(receive, self._limits.request_s)
        if not self._paths.is_list(scope["method"], scope["path"]):
            await self.app(scope, receive, send)
            return
        self._lists += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._lists -= 1

    @staticmethod
    def _is_free(scope: HTTPScope) -> bool:
        """True if any client may ask this at any time."""
        return plain_path(scope["path"]) in FREE_PATHS and scope["method"] in SAFE

    def _check(self, scope: HTTPScope) -> _Refusal | None:
        """The refusal of the request, if there is one."""
        if self._is_free(scope):
            return None
        # In the request itself: nothing after this, nor the log, sees a token that stands in the path.
        scope["path"], token = self._paths.without_token(scope["path"])
        if token is not None:
            scope["raw_path"] = quote(scope["path"]).encode("ascii")
        if (form := self._paths.error_form(scope["path"])) is not None:
            scope[FORM] = form
        headers = self._headers(scope)
        if headers.page is not None:
            scope[PAGE] = headers.page
        return (
            self._too_much(scope, headers)
            or self._stranger(scope, headers)
            or self._without_right(scope, headers, token)
            or headers.encoded
        )

    def _headers(self, scope: HTTPScope) -> _Headers:
        """The request's headers, read once for all requests of a connection that have the same."""
        same = scope.get(SAME, {})
        found: _Headers | None = same.get(_READ)
        if found is None:
            found = same[_READ] = _Headers(scope, self._paths.page_for)
            hosts = found.values.get(b"host", [])
            found.is_ours = len(hosts) == 1 and self._is_ours(hosts[0], scope)
            found.encoded = self._encoded(found.values)
        return found

    def _too_much(self, scope: HTTPScope, headers: _Headers) -> _Refusal | None:
        """Refuse to every client too large sizes, doubtful framing, and more than the limits allow."""
        again = {"Retry-After": str(RETRY_AFTER_S)}
        if self._health.stopping:
            body = problem("shutting-down", "this process is ending: send the request again")
            return _Refusal(body, {**again, "Connection": "close"})
        if scope["state"].get(CROWDED):
            return _Refusal(problem("busy", "too many connections"), {**again, "Connection": "close"})
        target = len(scope["raw_path"]) + len(scope["query_string"])
        if target > self._limits.target_bytes:
            return _Refusal(problem("target-too-long", f"at most {self._limits.target_bytes} bytes"))
        # The parser's own limit applies only to heads that come in pieces.
        if target + headers.size > self._limits.head_bytes:
            return _Refusal(problem("head-too-large", f"at most {self._limits.head_bytes} bytes"))
        if b"content-length" in headers.values and b"transfer-encoding" in headers.values:
            # RFC 9112, section 6.1: a client that sends both may be smuggling a request; the connection cannot be
            # trusted.
            detail = "Content-Length and Transfer-Encoding cannot both be given"
            return _Refusal(problem("bad-request", detail), {"Connection": "close"})
        if scope["http_version"] not in ("1.0", "1.1"):
            return _Refusal(problem("bad-request", "this is a server for HTTP/1.1"), {"Connection": "close"})
        if self._lists >= self._limits.lists and self._paths.is_list(scope["method"], scope["path"]):
            return _Refusal(problem("busy", "too many lists are being sent: ask again later"), again)
        return None

    def _stranger(self, scope: HTTPScope, headers: _Headers) -> _Refusal | None:
        """Refuse DNS rebinding, and a write from another site's page."""
        if not headers.is_ours:
            return _Refusal(problem("unknown-host", "use a name that the service is configured to have"))
        if scope["method"] in SAFE:
            return None
        # A browser names the page's origin in each of its cross-site writes; programs send neither header.
        sites = headers.values.get(b"sec-fetch-site", [])
        origins = headers.values.get(b"origin", [])
        # Under `Referrer-Policy: no-referrer` it names none (`null`), even for a form of its own: the other one counts.
        own = [headers.values[b"host"][0].lower()] + (["null"] if sites == ["same-origin"] else [])
        if any(site not in ("same-origin", "none") for site in sites) or any(
            _origin_host(origin) not in own for origin in origins
        ):
            return _Refusal(problem("cross-site-request", "send writes from a program, or from a page of this service"))
        return None

    def _without_right(self, scope: HTTPScope, headers: _Headers, token: str | None) -> _Refusal | None:
        """Refuse a client that is unknown, asks too often, or may not do this: 429 comes before 401 and 403.

        ``token`` is one that stood in the path: it counts, and no header does then.
        """
        client: Client | None = None
        if self._tokens is not None and token is not None:
            client = self._tokens.of(token)
        elif self._tokens is not None:
            client = headers.client(self._tokens, basic=self._paths.basic)
        if client is not None and RECORD in scope:
            scope[RECORD].token = client.name
        if self._rate is not None:
            host = scope["client"][0] if scope.get("client") else ""
            wait_s = self._rate.wait_s(address_key(host) if client is None else f"token:{client.name}")
            if wait_s:
                whole_s = str(int(wait_s) + 1)
                body = problem("too-many-requests", f"at most {self._limits.rate:g} a second: wait {whole_s} s")
                return _Refusal(body, {"Retry-After": whole_s})
        if self._tokens is None:
            return None
        if client is None:
            # RFC 6750, section 3: no error code if no token was given.
            given = token is not None or b"authorization" in headers.values
            invalid = ', error="invalid_token"' if given else ""
            detail = "this token is not known here" if given else "send one: Authorization: Bearer …"
            body = problem("unauthenticated", detail)
            challenge = f'Bearer realm="geolookup"{invalid}'
            if self._paths.basic:
                challenge = f'Basic realm="geolookup", charset="UTF-8", {challenge}'
            return _Refusal(body, {"WWW-Authenticate": challenge})
        if client.scope < Scope.WRITE and not self._paths.only_reads(scope["method"], scope["path"]):
            challenge = 'Bearer realm="geolookup", error="insufficient_scope", scope="write"'
            body = problem("insufficient-scope", "this needs a token with the scope `write`; this one has `read`")
            return _Refusal(body, {"WWW-Authenticate": challenge})
        return None

    @staticmethod
    def _encoded(headers: dict[bytes, list[str]]) -> _Refusal | None:
        """A body in a content coding is refused (RFC 9110, section 8.4): it is not decoded here."""
        given = ",".join(headers.get(b"content-encoding", []))
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        if not (given and has_body) or {coding.strip().lower() for coding in given.split(",")} <= {"", "identity"}:
            return None
        body = problem("encoded-body", "send it as it is, without Content-Encoding: it is not decompressed here")
        return _Refusal(body, {"Accept-Encoding": "identity"})

    def _is_ours(self, header: str, scope: HTTPScope) -> bool:
        host = host_of(header)
        if host is None:
            return False
        if host in self._hosts or is_loopback(host):
            return True
        # DNS rebinding needs a name: it does not work with an address.
        server = scope.get("server")
        return self._beyond_loopback and server is not None and host == canonical_address(server[0].partition("%")[0])


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


class _InTime:
    """A request's body, which must be whole within ``seconds`` of its head."""

    def __init__(self, receive: Any, seconds: float) -> None:
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + seconds
        self._whole = False

    async def __call__(self) -> Any:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise RequestRefusedError("the body took too long", problem="request-timeout") from None
        if message["type"] == "http.disconnect":
            # No client sees the answer, but the log gets an entry without a stack trace.
            raise RequestRefusedError("the client left before its body was complete", problem="bad-request")
        self._whole = not message.get("more_body", False)
        return message


def _closing(send: Any) -> Any:
    """Let the client look for another process with its next request."""

    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return closing


def _origin_host(origin: str) -> str:
    """Host and port of an ``Origin`` (RFC 6454, section 7); ``null`` as it is, and empty for what is not an origin."""
    if origin == "null":
        return origin
    scheme, separator, host = origin.partition("://")
    return host.lower() if separator and scheme in ("http", "https") and host_of(host) is not None else ""
