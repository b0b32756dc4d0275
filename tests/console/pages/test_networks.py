"""Who runs an address, and its whole record, folded on the page Look up; sources of networks on the page Sources."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from geolookup.console.pages import lookup as page
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.console.pages.test_every_page import _harm, _inaccessible
from tests.console.rich import HOSTILE
from tests.support.data.networked import FILES, state
from tests.support.users import browser as browsers
from tests.support.users.running_console import RunningConsole, Visitor

LONG = "M" * 10_000


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of a state with networks."""
    with RunningConsole(state(tmp_path_factory.mktemp("console"))) as running:
        yield running


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of a state whose sources say hostile things of networks and places, also as keys."""
    folder = tmp_path_factory.mktemp("hostile")
    sources = []
    for name, column, number in (("above", "organization", 64512), ("below", "as_organization", 64513)):
        path = folder / f"{name}.csv"
        rows = "".join(
            f'10.{at}.0.0/16,DE,{number},"{text}","{text}"\n'
            for at, text in enumerate((each.replace('"', '""') for each in (*HOSTILE, LONG, "", "Plain")), start=1)
        )
        path.write_text(f"network,country,asn,{column},<b>{HOSTILE[0].replace(',', ' ')}\n{rows}")
        sources.append(SourceSettings(name=name, location=str(path)))
    pull(StateDirectory(str(folder / "home")), Settings(sources=tuple(sources), attempts=1))
    with RunningConsole(str(folder / "home")) as running:
        yield running


def rows_of(text: str, label: str) -> list[list[str]]:
    """The cells of the table with a label, row by row."""
    table = text.partition(f'aria-label="{label}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    return [[cell.replace("&amp;", "&") for cell in row] for row in cells]


def folded(text: str, name: str) -> dict[str, list[str]]:
    """What a folded list says: by its terms, the text and what stands behind it in small print."""
    part = text.partition(f'<details id="{name}">')[2].partition("</details>")[0]
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)(?: <span class=\"quiet\">(.*?)</span>)?</dd>", part)
    return {term: [unescape(text), unescape(small)] for term, text, small in found}


def record_of(text: str) -> dict[str, str]:
    return {path: value for path, (value, _) in folded(text, "record").items()}


def test_an_address_has_its_network_and_its_record_folded(mine: Visitor) -> None:
    text = mine.get("/?q=81.2.69.160").text
    assert re.findall(r"<details[^>]*>", text) == ['<details id="network">', '<details id="record">']
    facts = folded(text, "network")
    assert facts["isp"] == ["Andrews & Arnold Ltd", "isp says it"]
    assert facts["is_anonymous_vpn"] == ["yes", "anonymous says it"]
    assert facts["domain"][1] == "domain says it"
    record = record_of(text)
    assert record["city.names.en"] == "London"
    assert record["location.time_zone"] == "Europe/London"
    assert record["subdivisions.0.iso_code"] == "ENG"
    assert record["registered_country.geoname_id"] == "6252001"
    assert not any(path.startswith("traits") for path in record)
    assert "all that city says of the place" in text


def test_each_fact_has_what_others_say_of_it(hostile: RunningConsole) -> None:
    with hostile.client() as client:
        facts = folded(client.get("/?q=10.11.0.1").text, "network")
    assert facts["asn"] == ["64512", "above says it; below: 64513"]
    assert facts["organization"] == ["Plain", "above says it"]
    assert facts["as_organization"] == ["Plain", "below says it"]


def test_an_address_with_a_network_and_no_place_says_so(mine: Visitor) -> None:
    text = mine.get("/?q=1.128.0.1").text
    assert '<span class="place">no place known</span>' in text
    assert "<dt>Run by</dt><dd>AS1221 Telstra Pty Ltd" in text
    assert '<details id="record">' not in text
    assert "Run by" not in mine.get("/?q=203.0.113.9").text
    assert '<span class="place">not known</span>' in mine.get("/?q=203.0.113.9").text
    weak = mine.get("/?q=2.3.3.7").text
    assert '<span class="place">no place known</span>' in weak
    assert record_of(weak)["continent.code"] == "EU"


def test_a_place_of_our_own_keeps_the_network(mine: Visitor) -> None:
    text = mine.get("/?q=1.128.5.7").text
    assert "<dt>Run by</dt><dd>AS1221 Telstra Pty Ltd" in text
    assert record_of(text)["country.names.fr"] == "Nouvelle-Zélande"
    assert "all that your site says of the place" in text


def test_a_range_tells_what_has_no_place_from_what_nobody_knows(mine: Visitor) -> None:
    pieces = {
        re.sub("<[^>]*>", "", row[0]): row[1]
        for row in rows_of(mine.get("/?q=1.128.4.0/22").text, "What its addresses resolve to")
    }
    assert pieces == {
        "1.128.4.0/24": "no place known, but who runs some of it",
        "1.128.5.0/24": "NZ",
        "1.128.6.0/23": "no place known, but who runs some of it",
    }
    assert "not known" in mine.get("/?q=203.0.113.0/24").text


def test_a_long_record_says_how_to_see_all(mine: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_LEAVES", 3)
    text = mine.get("/?q=81.2.69.160").text
    assert len(record_of(text)) == 3
    assert "geolookup 81.2.69.160 --record" in text


def test_sources_say_what_they_have_of_places_and_of_networks(mine: Visitor) -> None:
    rows = {row[0].partition("<")[0]: row for row in rows_of(mine.get("/sources").text, "Sources in their order")}
    assert set(rows) == set(FILES)
    assert re.search(r"\d+ places, \d+ networks; 1 network with who runs it", rows["city"][1])
    for name in ("asn", "anonymous"):
        assert re.search(r"who runs [\d,.]+( million)? IPv4 addresses, .* of IPv6<", rows[name][1])
        assert re.search(r"[\d,]+ networks with who runs them", rows[name][1])


@pytest.mark.parametrize("scripts", [True, False])
def test_it_unfolds_by_the_keyboard_also_with_scripts_off(console: RunningConsole, browser: Any, scripts: bool) -> None:
    watched = console.tab(browser, java_script_enabled=scripts)
    tab = watched.page()
    tab.goto(f"{console.url}/?q=81.2.69.160")
    for name, inside in (("Its network", "#network dl"), ("Its record", "#record dl")):
        listed = tab.locator(inside)
        assert not listed.is_visible()
        tab.locator("summary", has_text=name).focus()
        tab.keyboard.press("Enter")
        assert listed.is_visible()
    watched.close()
    assert watched.unwanted == []


def test_unfolded_it_is_accessible_narrow_and_harmless(
    console: RunningConsole, hostile: RunningConsole, browser: Any, full_sweep: bool
) -> None:
    wrong: dict[str, Any] = {}
    source, text = browsers.axe(), ""
    for running, paths in (
        (console, ("/?q=81.2.69.160", "/?q=1.128.0.1", "/?q=1.128.4.0/22", "/sources")),
        (hostile, tuple(f"/?q=10.{at}.0.1" for at in range(1, len(HOSTILE) + 2))),
    ):
        watched = running.tab(browser, viewport={"width": 390, "height": 800})
        tab = watched.page()
        tab.on("dialog", lambda dialog: wrong.update(dialog=dialog.message))
        for path in paths:
            tab.goto(running.url + path)
            tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            text += (shown := tab.locator("body").inner_text())
            if harm := _harm(tab, shown):
                wrong[f"{path} harm"] = harm
            tab.evaluate(source)
            for width in (360, 390, 1280):
                tab.set_viewport_size({"width": width, "height": 800})
                if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    wrong[f"{path} {width}"] = "it is wider than the screen"
            for width in (360, 1280):
                tab.set_viewport_size({"width": width, "height": 800})
                if found := _inaccessible(tab, width, full_sweep):
                    wrong[f"{path} {width}"] = found
            tab.set_viewport_size({"width": 390, "height": 800})
        watched.close()
        assert watched.unwanted == []
    assert wrong == {}
    for said in (*HOSTILE[:4], HOSTILE[5], "\\u202eevil\\u2066\\x07", "M" * 300 + "…", f"extra.<b>{HOSTILE[0]}"):
        assert said in text
