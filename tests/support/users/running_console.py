"""`geolookup console` for the length of a test: in a thread of this process, and the browser that it lets in."""

import os
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from geolookup.console.app import application
from geolookup.console.console import Console
from geolookup.console.forms import TOKEN
from geolookup.settings.load import load
from geolookup.settings.table import Settings
from geolookup.sync.opening import open_editor
from geolookup.web.options import Limits, Options
from tests.support.services.plain_http import PLAIN
from tests.support.services.server_thread import PATIENCE_S, ServerThread, client_of
from tests.support.users.browser import Watched


class RunningConsole(ServerThread):
    """A console in a thread. ``address`` is the one to open, which opens it once; ``url`` its base address."""

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        settings: Callable[[], Settings] = load,
        read_only: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.home = os.fspath(home)
        self.console = Console(settings, home=self.home, read_only=read_only)
        self.start(application(self.console), Options(asks_itself=True, limits=limits or Limits()))
        self.address = self.console.session.address(self.url)

    def stranger(self) -> httpx.Client:
        """A client that the console does not know."""
        return client_of(self.url)

    @cached_property
    def cookie(self) -> tuple[str, str]:
        """The session's cookie: this opens the address, once."""
        with self.stranger() as client:
            client.get(self.address)
            ((name, value),) = client.cookies.items()
        return name, value

    def client(self) -> "Visitor":
        """A client of the browser that opened the address."""
        visitor = Visitor(base_url=self.url, trust_env=False, timeout=PATIENCE_S, verify=PLAIN, follow_redirects=True)
        visitor.cookies.set(*self.cookie)
        return visitor

    def tab(self, browser: Any, **options: Any) -> Watched:
        """A real browser that opened the address."""
        watched = Watched(browser, self.url, **options)
        name, value = self.cookie
        cookie = {"name": name, "value": value, "url": self.url, "httpOnly": True, "sameSite": "Strict"}
        watched.context.add_cookies([cookie])
        return watched

    def content(self) -> list[Any]:
        """Our own places, and all edits: what an attack must not change."""
        with open_editor(self.home) as editor:
            return [*editor.custom(), *editor.outbox()]

    def stop(self) -> None:
        """End it, and what is still under way."""
        super().stop()
        self.console.runs.wait()


class Visitor(httpx.Client):
    """A client that sends forms as a browser does, with the hidden fields of the page that has the form."""

    def fill(self, path: str, /, **fields: str) -> httpx.Response:
        """Open a page, fill its form in, and send it to the same address."""
        page = self.get(path)
        assert page.status_code == 200, page.text
        return self.post(path, data={**hidden(page.text), **fields})

    def save(self, path: str, /, **fields: str) -> httpx.Response:
        """Fill a form in, look at what it would change, and save it."""
        looked = self.fill(path, **fields, step="check")
        assert looked.status_code == 200, looked.text
        return self.post(path, data={**hidden(looked.text), **fields, "step": "save"})


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of a page that has one form that writes."""
    found = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page))
    assert TOKEN in found
    return found


def static_files() -> Path:
    """Where the pages' own files are."""
    return Path(__file__).parents[3] / "src" / "geolookup" / "console"
