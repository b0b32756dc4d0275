"""One browser for all tests of a process, and a console for those of a module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.files_console import FilesConsole
from tests.support.data.two_sources import state
from tests.support.users import browser as browsers
from tests.support.users.running_console import RunningConsole, Visitor


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A real browser, for these tests alone: while Playwright runs, no other test of the process can run a loop."""
    with browsers.running() as browser:
        yield browser


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of a state with two sources and two places of our own."""
    with RunningConsole(state(tmp_path_factory.mktemp("console"))) as running:
        yield running


@pytest.fixture(scope="module")
def tab(console: RunningConsole, browser: Any) -> Iterator[Any]:
    """The one browser that the console let in, with a tab."""
    watched = console.tab(browser)
    page = watched.page()
    page.goto(console.url)
    yield page
    watched.close()
    assert watched.unwanted == []


@pytest.fixture(scope="module")
def mine(console: RunningConsole) -> Iterator[Visitor]:
    """A client of that browser, without scripts."""
    client = console.client()
    yield client
    client.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FilesConsole]:
    """A console of a state of files, for one test."""
    made = FilesConsole(tmp_path)
    with made.running:
        yield made


@pytest.fixture
def visitor(files: FilesConsole) -> Iterator[Visitor]:
    """A client of that console."""
    with files.running.client() as client:
        yield client


@pytest.fixture
def unharmed(console: RunningConsole, mine: Visitor) -> Iterator[None]:
    """Everything is as it was, and the pages answer."""
    before = console.content()
    yield
    assert console.content() == before
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
