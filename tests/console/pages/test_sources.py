"""The page Sources: the stack with its problems, and a sync that goes on when its page is closed."""

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from geolookup.console.pages import sources as page
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sync.pull.pull import pull
from tests.console.files_console import FilesConsole
from tests.support.users.running_console import RunningConsole, Visitor, hidden


def test_the_stack_shows_what_each_source_has_and_may(files: FilesConsole, browser: Any) -> None:
    office = SourceSettings(name="office", location=str(files.folder / "office.csv"))
    files.settings = Settings(sources=(*files.settings.sources, office), attempts=1)
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/sources")
    rows = tab.get_by_role("region", name="Sources in their order").get_by_role("row")
    towns = rows.nth(1).inner_text()
    for part in ("towns", "second", "200 places, 200 networks", "51,200 IPv4", "Licence <b>of</b> Example",
                 "Towns by Example", "OK", "not given by the file"):  # fmt: skip
        assert part in towns
    assert "never pulled" in rows.nth(2).inner_text()
    watched.close()
    assert watched.unwanted == []


def test_an_order_that_the_next_update_brings_is_shown_and_said(files: FilesConsole, visitor: Visitor) -> None:
    (files.folder / "office.csv").write_text("network,country\n30.0.0.0/24,FR\n", encoding="utf-8")
    office = SourceSettings(name="office", location=str(files.folder / "office.csv"))
    files.settings = Settings(sources=(*files.settings.sources, office), attempts=1)
    files.sync()
    assert "From the next update on" not in visitor.get("/sources").text
    files.settings = Settings(sources=files.settings.sources[::-1], attempts=1)
    text = visitor.get("/sources").text
    assert "answer in the order below. Until then in this: towns, office." in text
    assert re.findall(r'<th scope="row">(\w+)<', text) == ["office", "towns"]
    files.sync()
    assert "From the next update on" not in visitor.get("/sources").text


def test_a_sync_goes_on_without_its_page_and_is_found_again(
    files: FilesConsole, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, under_way = threading.Event(), threading.Event()

    def slow(directory: Any, settings: Any, *, progress: Any) -> Any:
        progress(120, 200)
        under_way.set()
        assert go_on.wait(60)
        return pull(directory, settings, progress=progress)

    monkeypatch.setattr(page, "pull", slow)
    files.write(201)
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/sources")
    tab.get_by_role("button", name="Update now").click()
    assert under_way.wait(60)
    tab.get_by_text("120 of 200 rows pulled. It goes on if you leave this page.").wait_for()
    assert tab.get_by_role("progressbar", name="Rows pulled").get_attribute("value") == "120"
    tab.close()
    other = watched.page()
    other.goto(f"{files.running.url}/sources")
    other.get_by_role("button", name="Update now").click()
    other.get_by_text("a sync is under way since").wait_for()
    other.goto(f"{files.running.url}/sources")
    other.get_by_role("link", name="An update is under way").click()
    go_on.set()
    other.get_by_text(
        "Version 2 is published: 201 places, 201 networks; places: 1 added, 0 removed, 0 changed"
    ).wait_for()
    assert files.served == 2
    watched.close()
    assert watched.unwanted == []


def test_without_scripts_a_sync_is_started_and_looked_at(files: FilesConsole, visitor: Visitor) -> None:
    answer = visitor.post("/sources/sync", data=hidden(visitor.get("/sources").text))
    for _ in range(600):
        if "Under way" not in answer.text:
            break
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in answer.text
        answer = visitor.get("/sources/sync")
    assert "Nothing new: version 1 goes on answering" in answer.text


def wait(visitor: Visitor) -> str:
    visitor.post("/sources/sync", data=hidden(visitor.get("/sources").text))
    while "Under way" in (text := visitor.get("/sources/sync").text):
        threading.Event().wait(0.05)
    return text


def test_what_is_held_leads_to_the_decision(files: FilesConsole, visitor: Visitor) -> None:
    files.write(50)
    text = wait(visitor)
    assert "fewer than 95%" in text
    assert '<a href="/generations#held">Look at what was not published, and decide</a>' in text
    assert "Not published: " in text
    assert "geolookup sync --accept" not in text
    stack = visitor.get("/sources").text
    assert '<a href="/generations#held">A newer one is not published: look, and decide</a>' in stack
    start = visitor.get("/").text
    assert "fewer than 95%" in start.partition("A new version of towns was not published: ")[2].partition("</p>")[0]
    assert "<p>towns: held" not in start, "said once"
    assert '<span class="mark waits">not published</span> Version ' in start
    assert (
        "To keep what answers now, nothing has to be done"
        in visitor.get("/generations/diff?old=1&new=held:towns&show=all").text
    )
    assert files.served == 1


def test_a_loss_of_countries_and_of_cities_is_held_though_the_rows_are_there(
    files: FilesConsole, visitor: Visitor
) -> None:
    files.write(200, country="FR")
    assert "whose answer names a country would have another country" in wait(visitor)
    lines = [f"20.0.{number}.0/24,DE,,1.5,{number % 90}.5" for number in range(200)]
    (files.folder / "towns.csv").write_text("\n".join(["network,country,city,latitude,longitude", *lines, ""]))
    assert "whose answer names a city would have one that names none" in wait(visitor)
    assert files.served == 1


def test_a_source_that_fails_says_why_and_goes_on_answering(files: FilesConsole, visitor: Visitor) -> None:
    (files.folder / "towns.csv").write_text("<script>alert(1)</script>\n")
    text = wait(visitor)
    assert 'role="alert"' in text
    stack = visitor.get("/sources").text
    assert "The last sync failed" in stack
    assert "<script>alert" not in text + stack
    assert re.search(r'<span class="wrong">since [^:]+:\d\d', stack)
    files.write(200)
    assert "Nothing new" in wait(visitor)
    assert 'class="problem"' not in visitor.get("/sources").text


def test_a_state_of_bundled_data_says_what_to_do(home: str) -> None:
    from geolookup.sync.first import build_bundled_state

    build_bundled_state(home, quiet=True)
    with RunningConsole(home, settings=lambda: Settings()) as running, running.client() as client:
        text = client.get("/sources").text
        assert "Only the bundled registry data answer" in text
        assert "No source is configured" in text
        assert "Update now" not in text


def test_data_that_a_command_loaded_are_not_said_to_be_of_no_source(tmp_path: Path) -> None:
    made = FilesConsole(tmp_path)
    made.settings = Settings()
    with made.running as running, running.client() as client:
        text = client.get("/sources").text
        assert "No source is configured: the data below were loaded by a command" in text
        assert "towns" in text


def test_a_console_that_only_reads_starts_no_sync(tmp_path: Path) -> None:
    made = FilesConsole(tmp_path, read_only=True)
    with made.running as running, running.client() as client:
        assert "Update now" not in client.get("/sources").text
        token = hidden(client.get("/").text)
        assert client.post("/sources/sync", data=token).status_code == 403
        assert running.console.runs.latest("sync") is None
