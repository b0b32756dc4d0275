"""What stands between the service's guard and the pages: the session, and the headers that every answer has."""

from typing import Any, TypeAlias
from urllib.parse import parse_qs

from litestar.response.base import ASGIResponse

from geolookup.console.html import Templates
from geolookup.console.session import Session

ASGIScope: TypeAlias = Any

#: The page's own files alone: no inline script or style, no other host, no frame around it.
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "img-src 'self' data:"
)
_HEADERS = (
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
#: Neither a disk nor the back button shows a page again once the console has ended.
_NO_STORE = ("cache-control", "no-store")


class Door:
    """The pages behind their door: an ASGI application itself.

    The guard has checked the host, and of writes the origin. Here a request needs the session's cookie, or the token
    that becomes it.
    """

    def __init__(self, app: Any, session: Session, templates: Templates) -> None:
        self.app = app
        self._session = session
        self._templates = templates

    async def __call__(self, scope: ASGIScope, receive: Any, send: Any) -> None:
        """Admit, refuse, or pass on."""
        if scope["type"] != "http":
            return
        send = _with_headers(send)
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        if (answer := self._answer(scope, headers)) is not None:
            await answer(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _answer(self, scope: ASGIScope, headers: dict[bytes, list[str]]) -> ASGIResponse | None:
        sites = headers.get(b"sec-fetch-site", [])
        if scope["method"] == "GET" and scope["path"] == "/":
            token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
            if token is not None:
                return self._admitted(token, sites)
        known = self._session.knows("; ".join(headers.get(b"cookie", [])))
        # Without it, pages of other sites could learn how our answers differ, by loading them as scripts or images.
        if not known or (
            any(site not in ("same-origin", "none") for site in sites)
            and headers.get(b"sec-fetch-mode", []) != ["navigate"]
        ):
            return self._page(403, "stranger.html", scope, used=False)
        return None

    def _admitted(self, tokens: list[str], sites: list[str]) -> ASGIResponse:
        cookie = self._session.admit(tokens[0]) if len(tokens) == 1 else None
        if cookie is None:
            return self._page(403, "stranger.html", used=True)
        # Of a link on another site's page, a redirect would still count as that site's: the cookie would not be sent.
        if all(site == "none" for site in sites):
            return ASGIResponse(status_code=303, headers={"location": "/", "set-cookie": cookie})
        answer = self._page(200, "admitted.html")
        answer.headers.add("set-cookie", cookie)
        return answer

    def _page(self, status: int, name: str, scope: ASGIScope | None = None, **values: Any) -> ASGIResponse:
        body = self._templates.render(name, **values).encode()
        head = scope is not None and scope["method"] == "HEAD"
        return ASGIResponse(
            body=b"" if head else body, is_head_response=head, status_code=status, media_type="text/html"
        )


def _with_headers(send: Any) -> Any:
    """Add the headers to an answer; one that sets ``Cache-Control`` itself keeps its own."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            given = {name.lower() for name, _ in headers}
            added = _HEADERS if b"cache-control" in given else (*_HEADERS, _NO_STORE)
            message = {**message, "headers": [*headers, *((name.encode(), value.encode()) for name, value in added)]}
        await send(message)

    return sending
