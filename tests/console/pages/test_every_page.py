"""What holds for every page: accessible on small and large screens, hostile text is text, no other host."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.console.rich import HOSTILE, Rich, rich
from tests.support.users import browser as browsers

#: What passes is not described: that would take longer than finding it.
_AXE = """async rules => (await axe.run(document, {
    resultTypes: ["violations"],
    runOnly: rules ? {type: "rule", values: rules} : [
        "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"
    ]
})).violations.flatMap(each => each.nodes.map(node => `${each.id}: ${node.target} ${node.failureSummary}`))"""
_FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    return [document.activeElement.tagName, style.outlineStyle, style.outlineWidth];
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rich]:
    with rich(tmp_path_factory.mktemp("rich")) as made:
        yield made


@dataclass(slots=True, kw_only=True)
class Seen:
    """Observations of one walk over every page: the problems of each by its path, and all text."""

    wrong: dict[int, dict[str, list[str]]]
    harmed: dict[str, str]
    text: str
    dialogs: list[str]
    unwanted: list[str]


@pytest.fixture(scope="module")
def walks() -> list[Seen]:
    return []


@pytest.fixture
def seen(walks: list[Seen], made: Rich, browser: Any, full_sweep: bool) -> Seen:
    """The one walk of this module."""
    if not walks:
        walks.append(_walk(made, browser, full_sweep))
    return walks[0]


def _walk(made: Rich, browser: Any, full_sweep: bool) -> Seen:
    """Walk over every page, each loaded once: small, then wide."""
    source = browsers.axe()
    watched = made.console.tab(browser, viewport={"width": 360, "height": 800})
    tab = watched.page()
    seen = Seen(wrong={360: {}, 1280: {}}, harmed={}, text="", dialogs=[], unwanted=watched.unwanted)
    tab.on("dialog", lambda dialog: seen.dialogs.append(dialog.message))
    paths = made.paths()
    for path in [*paths, *(f"/custom/{locid}" for locid in made.hostile), *(f"/?q=10.{n}.0.1" for n in range(1, 9))]:
        tab.set_viewport_size({"width": 360, "height": 800})
        tab.goto(made.console.url + path)
        tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        text = tab.locator("body").inner_text()
        if harm := _harm(tab, text):
            seen.harmed[path] = harm
        seen.text += text
        if path not in paths:
            continue
        tab.evaluate(source)
        for width, found in seen.wrong.items():
            tab.set_viewport_size({"width": width, "height": 800})
            if wrong := _inaccessible(tab, width, full_sweep):
                found[path] = wrong
    watched.close()
    return seen


def _harm(tab: Any, text: str) -> str:
    """The first sign that hostile text is more than text; empty if there is none."""
    words = text.split()
    signs = {
        "a script ran": tab.evaluate("window.attacked") is not None,
        "there is an element": tab.locator(
            "main img, main script, main b, main [onfocus], main [autofocus]:not(#q)"
        ).count(),
        "a character is not printable": any(ord(each) in (7, 0x202E, 0x2066) for each in text),
        "a template was evaluated": any("49$" in word for word in words),
        "a word is too long": max(map(len, words)) >= 400,
    }
    return next((sign for sign, holds in signs.items() if holds), "")


def _inaccessible(tab: Any, width: int, full_sweep: bool) -> list[str]:
    """The findings of axe at this width, and whether the page is wider than the screen."""
    # All that the dark scheme changes is colours, and they are the same on any screen.
    schemes: dict[str, list[str] | None] = {"light": None}
    if width == 1280 or full_sweep:
        schemes["dark"] = None if full_sweep else ["color-contrast"]
    wrong = []
    for scheme, rules in schemes.items():
        tab.emulate_media(color_scheme=scheme)
        wrong += [f"{scheme}: {each}" for each in tab.evaluate(_AXE, rules)]
    tab.emulate_media(color_scheme="light")
    if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
        wrong.append("it is wider than the screen")
    return wrong


@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(seen: Seen, width: int) -> None:
    assert seen.wrong[width] == {}
    assert seen.unwanted == []


def test_hostile_text_is_text_everywhere(seen: Seen) -> None:
    assert seen.harmed == {}
    for text in (*HOSTILE[:4], HOSTILE[5], HOSTILE[6], "\\u202eevil\\u2066\\x07", "M" * 300 + "…"):
        assert text in seen.text
    assert seen.dialogs == []
    assert seen.unwanted == []


def test_it_works_offline_and_with_scripts_off(made: Rich, browser: Any) -> None:
    """Look a place up, and edit it, in a browser that runs no script."""
    watched = made.console.tab(browser, java_script_enabled=False)
    tab = watched.page()
    tab.goto(made.console.url)
    tab.get_by_label("Address, network, range or site").fill("10.200.0.9")
    tab.get_by_role("button", name="Look up").click()
    tab.get_by_role("link", name="Correct this").click()
    tab.get_by_label("City").fill("By hand")
    tab.get_by_role("button", name="Show whose answer would change").click()
    assert "65,536 IPv4" in tab.get_by_role("region", name="Whose answer would change").inner_text()
    tab.get_by_role("button", name="Save this place").click()
    assert "is now in " in tab.get_by_role("status").inner_text()
    tab.goto(f"{made.console.url}/custom?sort=place")
    tab.get_by_label("Find").fill("By hand")
    tab.get_by_role("button", name="Filter").click()
    assert "1 to 1 of 1" in tab.get_by_role("status").inner_text()
    watched.close()
    assert watched.unwanted == []


def test_a_lost_connection_says_so_and_keeps_what_was_typed(tmp_path: Path, browser: Any) -> None:
    with rich(tmp_path) as made:
        watched = made.console.tab(browser)
        tab = watched.page()
        tab.goto(f"{made.console.url}/custom/create")
        tab.get_by_label("City").fill("Kept")
        tab.get_by_label("Latitude").fill("1")
        tab.get_by_label("Longitude").fill("2")
        made.console.stop()
        tab.get_by_role("button", name="Show whose answer would change").click()
        tab.get_by_text("The console does not answer").wait_for()
        assert tab.get_by_label("City").input_value() == "Kept"
        # After the end, the back button shows nothing of what was there.
        watched.context.set_offline(False)
        tab.goto("about:blank")
        with pytest.raises(Exception, match="net::"):
            tab.go_back()
        watched.close()


def test_a_form_that_is_refused_unread_says_why_and_keeps_what_was_typed(made: Rich, browser: Any) -> None:
    """Of a console that was started again on the same port, and one that is too large."""
    watched = made.console.tab(browser)
    tab = watched.page()
    tab.goto(f"{made.console.url}/custom/create")
    tab.get_by_label("Latitude").fill("1")
    tab.get_by_label("Longitude").fill("2")
    box, button = tab.locator("#lost"), tab.get_by_role("button", name="Show whose answer would change")
    tab.get_by_label("City").evaluate("each => { each.value = 'W'.repeat(1 << 20); }")
    button.click()
    tab.get_by_text("A form may have 1 MiB").wait_for()
    tab.get_by_label("City").fill("Kept")
    made.console.console.session.form_token, token = "another", made.console.console.session.form_token
    button.click()
    tab.get_by_text("The console was started again since this page was opened").wait_for()
    made.console.console.session.form_token = token
    cookies = watched.context.cookies()
    watched.context.clear_cookies()
    button.click()
    tab.get_by_text("This console does not know this browser").wait_for()
    assert "What you typed is still here." in box.inner_text()
    assert tab.get_by_label("City").input_value() == "Kept"
    watched.context.add_cookies(cookies)
    button.click()
    tab.get_by_role("region", name="Whose answer would change").wait_for()
    assert tab.get_by_label("City").input_value() == "Kept"
    assert not box.is_visible()
    watched.close()


def test_every_page_can_be_used_by_the_keyboard(made: Rich, browser: Any) -> None:
    """The first tab leads past the navigation, and wherever the focus is can be seen."""
    watched = made.console.tab(browser)
    tab = watched.page()
    tab.goto(f"{made.console.url}/custom")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Enter")
    reached = []
    for _ in range(12):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate(_FOCUS))
    assert all(style[1] == "solid" and style[2] == "3px" for style in reached), reached
    assert {style[0] for style in reached} >= {"A", "INPUT", "SELECT", "BUTTON"}
    watched.close()
