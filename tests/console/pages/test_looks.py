"""How every page looks with 400 sites whose names are long, from a phone to a large screen, light and dark."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from geolookup.console import app
from tests.console import components
from tests.console.many import many
from tests.support.users import browser as browsers
from tests.support.users.running_console import RunningConsole

WIDTHS = (360, 390, 768, 1280, 1920)
#: Finds text beyond the window or its box, words broken into letters, and controls too small for a finger.
_LOOK = (Path(__file__).parents[1] / "look.js").read_text(encoding="utf-8")
_CONTROLS = {"button", "link", "textbox", "searchbox", "combobox", "radio", "checkbox", "DisclosureTriangle"}


@dataclass(slots=True, kw_only=True)
class Looks:
    """What one walk over all pages found, by the width and the page."""

    wrong: dict[str, list[str]]
    nameless: dict[str, list[str]]
    unwanted: list[str]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of 400 sites, which has the page of components too."""
    home, settings = many(tmp_path_factory.mktemp("many"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "_BEHIND", (*app._BEHIND, components))
        with RunningConsole(home, settings=lambda: settings) as running:
            yield running


@pytest.fixture(scope="module")
def looks(console: RunningConsole, browser: Any) -> Looks:
    """The one walk of this module: each page is loaded once, and looked at in each width and scheme."""
    watched = console.tab(browser)
    tab = watched.page()
    found = Looks(wrong={}, nameless={}, unwanted=watched.unwanted)
    tree = watched.context.new_cdp_session(tab)
    for path in paths(console):
        tab.goto(console.url + path)
        tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark") if width == WIDTHS[0] else ("light",):
                tab.emulate_media(color_scheme=scheme)
                if wrong := tab.evaluate(_LOOK):
                    found.wrong[f"{path} {width} {scheme}"] = wrong
        if nameless := _nameless(tree.send("Accessibility.getFullAXTree")["nodes"]):
            found.nameless[path] = nameless
    watched.close()
    return found


def paths(console: RunningConsole) -> tuple[str, ...]:
    """Every kind of page."""
    places = [laid.place for laid in console.console.layer().laid[1:5]]
    one = f"/custom/{places[0].locid}"
    of_vrf = f"/custom/{console.console.layer().of_vrfs[0].place.locid}"
    return (
        *(
            "/",
            "/?q=198.51.100.7",
            "/?q=10.0.1.7",
            "/?q=8.0.0.0/5",
            "/?q=10.0.1.7+10.0.2.0/24+203.0.113.9+x",
            "/?q=Heidingsfeld",
            "/?q=nonsense",
        ),
        *("/custom", "/custom?find=nothing", one, f"/custom/{places[-1].locid}"),
        *(
            "/custom/create",
            f"{one}/update",
            f"{one}/rename",
            f"{one}/add-block",
            f"{one}/replace-block?old=10.0.1.0/24",
            f"{one}/delete",
        ),
        *(of_vrf, f"{of_vrf}/update", f"{of_vrf}/delete", "/custom?within=vrf:kunden-süd-0"),
        *("/custom/sheet", "/custom/undo", "/history", "/export", "/backups", "/map", "/outbox", "/generations"),
        *("/sources", "/sources/add", "/sources/remove?name=cities", "/nothing", "/components"),
    )


def _nameless(nodes: list[dict[str, Any]]) -> list[str]:
    """The controls of an accessibility tree that have no name."""
    roles = [(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if not node["ignored"]]
    assert len([role for role, _ in roles if role in _CONTROLS]) > 5
    return [role for role, name in roles if role in _CONTROLS and not name]


def test_nothing_is_cut_off_split_or_too_small_on_any_screen(looks: Looks) -> None:
    assert looks.wrong == {}
    assert looks.unwanted == []


def test_every_control_has_a_name_for_a_screen_reader(looks: Looks) -> None:
    assert looks.nameless == {}


def test_a_look_sees_what_is_wrong(console: RunningConsole, browser: Any) -> None:
    """The look itself is tried on a page that was spoiled."""
    watched = console.tab(browser, viewport={"width": 390, "height": 800})
    tab = watched.page()
    tab.goto(f"{console.url}/custom")
    spoil = {
        "the page is": "document.querySelector('main').style.width = '900px'",
        "split": "document.querySelector('h1').style.cssText = 'width: 2rem; overflow-wrap: anywhere'",
        "clipped": "document.querySelector('.hint').style.cssText = 'overflow: hidden; text-wrap: nowrap'",
        "small": "document.querySelector('button').style.cssText = 'min-height: 0; height: 1rem'",
    }
    for sign, script in spoil.items():
        tab.reload()
        assert not any(each.startswith(sign) for each in tab.evaluate(_LOOK)), sign
        tab.evaluate(script)
        assert any(each.startswith(sign) for each in tab.evaluate(_LOOK)), sign
    watched.close()


def test_axe_finds_nothing_wrong_with_a_component_in_either_scheme(console: RunningConsole, browser: Any) -> None:
    watched = console.tab(browser)
    tab = watched.page()
    tab.goto(f"{console.url}/components")
    tab.evaluate(browsers.axe())
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        found = tab.evaluate(
            "async () => (await axe.run()).violations.map(each => `${each.id}: ${each.nodes[0].target}`)"
        )
        assert found == [], scheme
    watched.close()
