"""What stands between the service's guard and the pages: the session, and the headers that every answer has."""

from typing import Any, TypeAlias
from urllib.parse import parse_qs

from litestar.response.base import ASGIResponse

from geolookup.console.entry.refusals import HEADERS, NO_STORE, Refusals
from geolookup.console.entry.session import Session
from geolookup.console.html import Templates

ASGIScope: TypeAlias = Any


class Door:
    """The pages behind their door: an ASGI application itself.

    The guard has checked the host, and of writes the origin. Here a request needs the session's cookie, or the token
    that becomes it.
    """

    def __init__(self, app: Any, session: Session, templates: Templates) -> None:
        self.app = app
        self._session = session
        self._templates = templates
        self._refusals = Refusals(templates)

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
        known = self._session.knows("; ".join(headers.get(b"cookie", [])))
        if scope["method"] == "GET" and scope["path"] == "/":
            token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
            if token is not None and known:  # the same address again, in the browser that it let in
                return ASGIResponse(status_code=303, headers={"location": "/"})
            if token is not None:
                return self._admitted(token, sites)
        # Without it, pages of other sites could learn how our answers differ, by loading them as scripts or images.
        if not known or (
            any(site not in ("same-origin", "none") for site in sites)
            and headers.get(b"sec-fetch-mode", []) != ["navigate"]
        ):
            return _page(403, self._refusals.text("unknown-browser"), head=scope["method"] == "HEAD")
        return None

    def _admitted(self, tokens: list[str], sites: list[str]) -> ASGIResponse:
        cookie = self._session.admit(tokens[0]) if len(tokens) == 1 else None
        if cookie is None:
            return _page(403, self._refusals.text("used-address"))
        # Of a link on another site's page, a redirect would still count as that site's: the cookie would not be sent.
        if all(site == "none" for site in sites):
            return ASGIResponse(status_code=303, headers={"location": "/", "set-cookie": cookie})
        answer = _page(200, self._templates.render("admitted.html"))
        answer.headers.add("set-cookie", cookie)
        return answer


def _page(status: int, text: str, *, head: bool = False) -> ASGIResponse:
    return ASGIResponse(
        body=b"" if head else text.encode(), is_head_response=head, status_code=status, media_type="text/html"
    )


def _with_headers(send: Any) -> Any:
    """Add the headers to an answer; one that sets ``Cache-Control`` itself keeps its own."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            given = {name.lower() for name, _ in headers}
            added = HEADERS if b"cache-control" in given else (*HEADERS, NO_STORE)
            message = {**message, "headers": [*headers, *((name.encode(), value.encode()) for name, value in added)]}
        await send(message)

    return sending
