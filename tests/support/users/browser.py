"""A real browser, driven by Playwright: Debian's Chromium, one for all tests of a package."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: Without these, Chromium asks hosts of its own for news, and so the network for what no page asked.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_AXE = Path("axe-core", "axe.min.js")


def chromium() -> str:
    """The browser's path. A missing one skips the test; where REQUIRE_BROWSER is set, it fails it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _missing("Chromium is not installed (Debian: chromium)")
    assert found is not None
    return found


def axe() -> str:
    """The source of axe-core, which is installed by npm; as `chromium` if it is missing."""
    folders = [*os.environ.get("NODE_PATH", "").split(":"), str(Path(__file__).parents[3] / ".venv/node/node_modules")]
    found = next((path for folder in folders if folder and (path := Path(folder) / _AXE).exists()), None)
    if found is None:
        _missing("axe-core is not installed (npm install --prefix .venv/node axe-core)")
    assert found is not None
    return found.read_text(encoding="utf-8")


def _missing(text: str) -> None:
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail(text)
    pytest.skip(text)


@contextmanager
def running() -> Iterator[Any]:
    """A browser for the length of the ``with``."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*QUIET])
        yield browser
        browser.close()


def settled(tab: Any) -> None:
    """Wait until htmx has set the focus: a key that is pressed while it puts an answer in goes anywhere."""
    tab.locator(".htmx-settling, .htmx-added, .htmx-request").first.wait_for(state="detached")


class Watched:
    """A browser's context, and what its pages did that no page should do: `unwanted` is empty if all is well."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(30_000)
        self._url = url
        self.unwanted: list[str] = []
        self.context.on("request", self._asked)
        self.context.on("console", self._wrote)
        self.context.on("weberror", lambda error: self.unwanted.append(f"error: {error.error}"))

    def page(self) -> Any:
        """A new tab."""
        return self.context.new_page()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self._url, "data:", "blob:")):
            self.unwanted.append(f"request: {request.url}")

    def _wrote(self, message: Any) -> None:
        # What the console refuses is refused with a status: the browser notes each of them.
        refused = re.search(r"the server responded with a status of 4\d\d ", message.text)
        if message.type in ("error", "warning") and not refused:
            self.unwanted.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        """Close all of its tabs."""
        self.context.close()
