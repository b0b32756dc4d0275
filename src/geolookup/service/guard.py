"""What is refused before routing: names that are not ours (DNS rebinding), writes that another site's page sends."""

import ipaddress
from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from litestar import Litestar
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from geolookup.service.problems import MEDIA_TYPE, Problem, problem

Scope: TypeAlias = Any

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """The application behind its guard: an ASGI application itself.

    ``hosts`` are the names, besides those of loopback, by which the service may be addressed.
    """

    def __init__(self, app: Litestar, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self._hosts = frozenset({"localhost", *(host.lower() for host in hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "http":
            refused = self._refuse(scope)
            if refused is not None:
                body = msgspec.json.encode(refused)
                head = scope["method"] == "HEAD"
                answer = ASGIResponse(
                    body=b"" if head else body,
                    is_head_response=head,
                    status_code=refused.status,
                    media_type=MEDIA_TYPE,
                )
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _refuse(self, scope: Scope) -> Problem | None:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return problem("unknown-host", "address the service by the name or address that it listens on")
        if scope["method"] in _SAFE:
            return None
        # A browser names the page's origin in each of its cross-site writes; programs send neither header.
        sites = headers.get(b"sec-fetch-site", [])
        origins = headers.get(b"origin", [])
        if any(site not in ("same-origin", "none") for site in sites) or any(
            _origin_host(origin) != hosts[0].lower() for origin in origins
        ):
            return problem("cross-site-request", "send writes from a program, or from a page of this service")
        return None

    def _is_ours(self, header: str) -> bool:
        host = _without_port(header.lower())
        if host in self._hosts:
            return True
        try:
            return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
        except ValueError:
            return False


def _origin_host(origin: str) -> str:
    """Host and port of an ``Origin``; empty for ``null`` and for what is no origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
