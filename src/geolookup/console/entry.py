"""Entry to the console: one browser gets in, and every other request is refused by a page in plain words.

The console's address carries a token that works once and becomes a cookie (`Session`). `Door` stands between the guard
of `geolookup.web` and the pages: it checks that cookie, and gives every answer its headers.
"""

import contextlib
import html
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, quote, unquote

from litestar.response.base import ASGIResponse

from geolookup.base.text import harmless
from geolookup.console.html import Templates
from geolookup.state.base.actor import acting
from geolookup.web.problems import PROBLEMS

#: The page's own files alone: no inline script or style, no other host, no frame around it.
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "img-src 'self' data:"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
#: Neither a disk nor the back button shows a page again once the console has ended.
NO_STORE = ("cache-control", "no-store")

#: Heading and advice by the name of the problem.
_REFUSALS: dict[str, tuple[str, str]] = {
    "used-address": (
        "This address was used already, or is of an earlier console",
        (
            "An address of the console opens it once, in one browser. If that was you, go on in that browser, or run "
            "`geolookup console` again for a new address. If it was not you, stop `geolookup console` now."
        ),
    ),
    "unknown-browser": (
        "This console does not know this browser",
        (
            "Open the address that `geolookup console` printed last. If it was used in another browser, or the console "
            "was started again since this page was opened, that address is not valid any more. Stop "
            "`geolookup console` and start it again: it prints a new address."
        ),
    ),
    "unknown-host": (
        "The console does not answer under this name",
        (
            "Open the address that `geolookup console` printed: it begins with http://127.0.0.1. If a link led here, "
            "close this page: another site tried to reach your console."
        ),
    ),
    "cross-site-request": (
        "This form does not come from the console",
        (
            "The console changes nothing if another page asks for it. If you filled in a form of the console, open "
            "that page again from the console's own links, and send it once more."
        ),
    ),
    "insufficient-scope": (
        "This console only reads",
        "It was started with --read-only. Run `geolookup console` without it to change something.",
    ),
    "target-too-long": (
        "That is too long for this field",
        "Go back, and look for something shorter. The form for a new site takes a long list, or a whole mail.",
    ),
    "body-too-large": ("The form is too large", "A form may have 1 MiB. Go back, and send less text."),
    "head-too-large": (
        "The browser sent too many cookies",
        (
            "Other programs on this machine may have set them. Delete the cookies of 127.0.0.1 in the browser's "
            "settings, run `geolookup console` again, and open the address that it prints."
        ),
    ),
    "request-timeout": ("The request did not arrive in time", "Go back, and send it again."),
    "busy": ("The console is busy", "Too many pages are open at once. Wait a moment, and load this page again."),
    "shutting-down": ("The console is ending", "Run `geolookup console` again, and open the address that it prints."),
}
_OTHERWISE = "Open the address that `geolookup console` printed, in a current browser."


def refusal_words(name: str, otherwise: str = "") -> tuple[str, str]:
    """The heading and the advice for a problem; ``otherwise`` is the advice if nothing better is known."""
    return _REFUSALS.get(name) or (PROBLEMS[name][1], otherwise or _OTHERWISE)


class Refusals:
    """Pages for refused requests, which show nothing from behind the door."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def text(self, name: str) -> str:
        """The page of a problem."""
        heading, advice = refusal_words(name)
        return self._templates.render("refused.html", heading=heading, advice=advice)

    def page(self, name: str, status: int, detail: str) -> tuple[str, Mapping[str, str]]:  # noqa: ARG002
        """The same for the guard, with the headers that every page has."""
        return self.text(name), dict((*HEADERS, NO_STORE))


#: A header that is longer is not one of ours.
_MAX_HEADER = 8192


class Session:
    """The one browser that may use the console, until the process ends.

    Every form carries ``form_token``: a page of another origin cannot know it. ``admitted`` is set once it got in.
    """

    def __init__(self) -> None:
        self.admitted = threading.Event()
        self._token: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._name = "geolookup"
        self.form_token = secrets.token_urlsafe(32)

    def address(self, url: str) -> str:
        """The address to open, of a console whose base address is ``url``."""
        # Cookies are not kept apart by port: two consoles must not take each other's.
        self._name = f"geolookup-{url.rpartition(':')[2]}"
        return f"{url}/?token={self._token}"

    def admit(self, token: str) -> str | None:
        """The cookie to set, as its header has it; None if the token is wrong, or was used before."""
        if self._token is None or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = None
        self.admitted.set()
        return f"{self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def knows(self, header: str) -> bool:
        """True if a header ``Cookie`` has the session's cookie."""
        if len(header) > _MAX_HEADER:
            return False
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        given = [value for name, _, value in pairs if name == self._name]
        return len(given) == 1 and secrets.compare_digest(given[0].encode(), self._cookie.encode())

    def is_form_of_ours(self, token: str) -> bool:
        """True if a form came from a page of this console."""
        return secrets.compare_digest(token.encode(), self.form_token.encode())


#: The cookie with the name that a person gave, for the history. Consoles of all ports share it: it says who, not what.
PERSON = "geolookup-person"
#: Letters of such a name.
MAX_PERSON = 60


def person_of(header: str) -> str | None:
    """The name that a person gave, by a header ``Cookie``: empty if they want none, None if they were never asked."""
    if len(header) > _MAX_HEADER:
        return None
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    found = next((value for name, _, value in pairs if name == PERSON), None)
    return None if found is None else harmless(" ".join(unquote(found).split()), MAX_PERSON)


def person_cookie(name: str) -> str:
    """The header that keeps a name for a year."""
    return f"{PERSON}={quote(name, safe='')}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict"


@contextlib.contextmanager
def opening_page(address: str) -> Iterator[Path]:
    """A file for a browser, which leads it to an address; only its owner can read it, and at the end it is gone.

    Every user of a machine can read the arguments of every process: this keeps a token out of those of the browser. It
    is in a folder of the home that is not hidden, since browsers of a snap or flatpak read neither hidden ones nor
    temporary files; without a home that can be written to, it is a temporary file.

    :raises OSError: if it cannot be written
    """
    home = os.path.expanduser("~")
    where = home if os.path.isabs(home) and os.access(home, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="geolookup-console-", dir=where, ignore_cleanup_errors=True) as folder:
        path = Path(folder, "open.html")
        with open(path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(_OPENING.format(html.escape(address)))
        yield path


_OPENING = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>geolookup</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
</head>
<body><p><a href="{0}">Open the console</a></p></body>
</html>
"""

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
        with acting("console", person_of("; ".join(headers.get(b"cookie", []))) or ""):
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
