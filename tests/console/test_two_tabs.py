"""Two tabs of one browser on the same form, and a command meanwhile: whoever comes second is told, and sees both."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from geolookup.model.types import Geolocation
from geolookup.sync.opening import open_editor
from tests.console.pages.test_custom import new
from tests.support.users.running_console import RunningConsole, hidden

SHOW, SAVE = "Show whose answer would change", "Save this place"


class Tabs:
    """Two tabs of the browser that the console let in."""

    def __init__(self, console: RunningConsole, browser: Any) -> None:
        self.watched = console.tab(browser)
        self.first, self.second = self.watched.page(), self.watched.page()
        self.url = console.url

    def open(self, path: str) -> None:
        for tab in (self.first, self.second):
            tab.goto(self.url + path)


@pytest.fixture
def tabs(console: RunningConsole, browser: Any) -> Iterator[Tabs]:
    tabs = Tabs(console, browser)
    yield tabs
    tabs.watched.close()
    assert tabs.watched.unwanted == []


def place(console: RunningConsole, locid: int) -> Geolocation:
    with open_editor(console.home) as editor:
        return editor.get(locid).place


def press(tab: Any, name: str) -> None:
    tab.get_by_role("button", name=name, exact=True).click()


def save(tab: Any, button: str = SAVE) -> str:
    """Look at what it changes, save it, and what the page says then."""
    press(tab, SHOW)
    tab.get_by_role("region", name="Whose answer would change").wait_for()
    press(tab, button)
    tab.get_by_role("status").wait_for()
    return str(tab.get_by_role("status").first.inner_text())


def told_that_it_was_overtaken(tab: Any) -> tuple[str, str]:
    """What the page says it is now, and what was typed."""
    tab.get_by_text("It was changed meanwhile").wait_for()
    both = tab.get_by_role("region", name="What it is now, and what your form has")
    now, typed = (both.locator(".sides > div").nth(number).inner_text() for number in (0, 1))
    assert now.startswith("Now")
    assert typed.startswith("In your form")
    return now, typed


@pytest.mark.parametrize("looked_first", [True, False], ids=["the second had looked", "the second had only typed"])
def test_the_second_tab_is_told_and_sees_both(console: RunningConsole, tabs: Tabs, looked_first: bool) -> None:
    locid = new(console, city="Oldtown", dmacode="7")
    tabs.open(f"/custom/{locid}/update")
    tabs.first.get_by_label("City").fill("Of the first")
    tabs.second.get_by_label("City").fill("Of the second")
    if looked_first:
        press(tabs.second, SHOW)
        tabs.second.get_by_role("button", name=SAVE).wait_for()
    assert "is now in Of the first" in save(tabs.first)
    press(tabs.second, SAVE if looked_first else SHOW)
    now, typed = told_that_it_was_overtaken(tabs.second)
    assert "Of the first" in now
    assert "Of the second" in typed
    assert place(console, locid).city == "Of the first"
    assert tabs.second.get_by_label("City").input_value() == "Of the second"
    # Whoever has seen both may still want it.
    assert "is now in Of the second" in save(tabs.second)
    found = place(console, locid)
    assert (found.city, found.dmacode) == ("Of the second", "7")


def test_a_command_meanwhile_is_not_overwritten(console: RunningConsole, tabs: Tabs) -> None:
    locid = new(console, city="Oldtown")
    tabs.open(f"/custom/{locid}/update")
    tabs.first.get_by_label("City").fill("Of the tab")
    press(tabs.first, SHOW)
    tabs.first.get_by_role("button", name=SAVE).wait_for()
    command = [sys.executable, "-m", "geolookup", "custom", "update", str(locid), "--city", "Of the command"]
    environment = {"GEOLOOKUP_HOME": console.home, "PATH": "/usr/bin:/bin"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    press(tabs.first, SAVE)
    now, typed = told_that_it_was_overtaken(tabs.first)
    assert "Of the command" in now
    assert "Of the tab" in typed
    assert place(console, locid).city == "Of the command"
    # The other tab has typed nothing yet: what it opened is overtaken as well.
    tabs.second.get_by_text("Postal code, DMA code, area code").click()
    tabs.second.get_by_label("Postal code").fill("12345")
    press(tabs.second, SHOW)
    told_that_it_was_overtaken(tabs.second)
    assert place(console, locid).postalcode == ""


def test_of_two_removals_of_one_block_the_second_finds_it_gone(console: RunningConsole, tabs: Tabs) -> None:
    locid = new(console, "12.99.0.0/24", city="Blocks")
    tabs.open(f"/custom/{locid}/remove-block?old=12.99.0.0/24")
    press(tabs.first, "Remove this network")
    tabs.first.get_by_text("no longer answers for").first.wait_for()
    press(tabs.second, "Remove this network")
    now, _ = told_that_it_was_overtaken(tabs.second)
    assert "12.99.0.0" not in now
    tabs.open(f"/custom/{locid}/delete")
    press(tabs.first, "Delete this site")
    tabs.first.get_by_text("Deleted ").first.wait_for()
    press(tabs.second, "Delete this site")
    tabs.second.get_by_text(f"custom geolocation {locid} does not exist").wait_for()


def test_a_double_click_saves_once(console: RunningConsole, tabs: Tabs) -> None:
    tab = tabs.first
    tab.goto(f"{tabs.url}/custom/create")
    for label, text in (("City", "Clicked twice"), ("Latitude", "1"), ("Longitude", "2")):
        tab.get_by_label(label).fill(text)
    tab.get_by_role("button", name=SHOW, exact=True).dblclick()
    tab.get_by_role("button", name="Create this site", exact=True).dblclick()
    tab.get_by_text("Created Clicked twice").wait_for()
    with open_editor(console.home) as editor:
        assert [laid.place.city for laid in editor.custom()].count("Clicked twice") == 1


def test_a_form_from_before_a_restart_is_sent_once_more(console: RunningConsole, tabs: Tabs) -> None:
    tab = tabs.first
    tab.goto(f"{console.url}/custom/create")
    tab.get_by_label("Country", exact=True).fill("FR")
    tab.get_by_label("City", exact=True).fill("Lyon")
    tab.evaluate("for (const each of document.getElementsByName('form-token')) each.value = 'of another console'")
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_text("was started again since this page was opened. Send it once more").wait_for()
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_text("No answer would change").wait_for()
    assert tab.get_by_label("City", exact=True).input_value() == "Lyon"


def test_without_scripts_a_form_from_before_a_restart_is_sent_once_more(console: RunningConsole) -> None:
    with console.client() as mine:
        sent = {"form-token": "of another console", "country": "FR", "city": "Lyon", "step": "check"}
        answer = mine.post("/custom/create", data=sent, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 403
        assert "was started again since this page was opened" in answer.text
        for headers in ({}, {"Sec-Fetch-Site": "none"}):
            refused = mine.post("/custom/create", data=sent, headers=headers)
            assert "This form does not come from the console" in refused.text
            assert console.console.session.form_token not in refused.text
        assert "Lyon" in mine.post("/custom/create", data=hidden(answer.text)).text
        assert mine.post("/custom/create", data={"country": "FR"}).status_code == 403
