"""The page Map: shades and points in a real browser, and tables that say the same without scripts."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.columns.map_content import CountryTotals
from geolookup.console.pages import map as page
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import parse
from geolookup.sync.opening import open_editor
from tests.console.files_console import HOSTILE
from tests.support.data.two_sources import NOTHING, state
from tests.support.users.running_console import RunningConsole, Visitor, hidden

LOG = "10.20.0.1 - GET /\n10.20.0.2\n2400::1\n203.0.113.9\n"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console whose state has a place with a hostile name, two near it, and one without coordinates."""
    home = state(tmp_path_factory.mktemp("map"))
    with open_editor(home) as editor:
        for number, name in enumerate((HOSTILE[:1000], "Near", "Nearer")):
            locid = editor.create(**{**NOTHING, "country": "BR", "city": name, "latitude": -10.0, "longitude": -50.0})
            editor.add_block(locid, f"10.77.{number}.0/24")
    with RunningConsole(home) as running:
        yield running


def opened(tab: Any, console: RunningConsole, path: str = "/map") -> Any:
    tab.goto(console.url + path)
    tab.wait_for_selector("#map[data-ready=yes]")
    return tab


def test_countries_are_shaded_and_lead_to_the_list(tab: Any, console: RunningConsole) -> None:
    opened(tab, console)
    shaded = tab.locator("#map path.country[class*=shade-]")
    rows = tab.get_by_role("region", name="Countries by IPv4 addresses").get_by_role("row")
    assert rows.count() - 1 > shaded.count() == 3
    assert re.match(r"Germany\s+16.8 million\s+sites in DE", rows.nth(1).inner_text())
    brazil = tab.locator("#map path.country.shade-0")
    box = brazil.bounding_box()
    brazil.click(position={"x": 0.5 * box["width"], "y": 0.62 * box["height"]})
    popup = tab.locator(".leaflet-popup-content")
    assert "Brazil: 768 IPv4 addresses" in popup.inner_text()
    popup.get_by_role("link", name="Sites in BR").click()
    assert tab.url.endswith("/custom?country=BR")


def test_no_outline_jumps_round_the_world(tab: Any, console: RunningConsole) -> None:
    opened(tab, console)
    jumps = tab.evaluate(
        """() => {
          const whole = document.querySelector("#map").clientWidth;
          return [...document.querySelectorAll("#map path.country")].flatMap((path) =>
            path.getAttribute("d").split("M").map((ring) => {
              const xs = [...ring.matchAll(/(-?[0-9.]+)[ ,](-?[0-9.]+)/g)].map((point) => Number(point[1]));
              return xs.filter((x, at) => at && Math.abs(x - xs[at - 1]) > whole / 2).length;
            })).reduce((sum, each) => sum + each, 0);
        }"""
    )
    assert jumps <= 1  # the lower edge of Antarctica, if it is in sight


def test_points_are_grouped_and_a_hostile_name_is_text(tab: Any, console: RunningConsole) -> None:
    opened(tab, console)
    points = tab.locator("#map path.point")
    assert points.count() == int(tab.locator("#map").get_attribute("data-groups")) == 3
    for number in range(3):
        points.nth(number).click()
        if "Nearer" in tab.locator(".leaflet-popup-content").inner_text():
            break
    text = tab.locator(".leaflet-popup-content").inner_text()
    assert "<script>alert(1)</script>\\u202e" in text
    assert "w" * 41 not in text
    links = tab.locator(".leaflet-popup-content a")
    assert links.count() == 3
    links.nth(0).click()
    assert re.search(r"/custom/-\d+$", tab.url)


def test_a_filter_by_layer_shows_that_alone(tab: Any, console: RunningConsole, mine: Visitor) -> None:
    opened(tab, console)
    tab.get_by_label("Show").first.select_option("the sources")
    with tab.expect_navigation():
        tab.get_by_role("button", name="Show", exact=True).click()
    tab.wait_for_selector("#map[data-ready=yes]")
    assert tab.locator("#map path.point").count() == 0
    custom = mine.get("/map?show=custom").text
    assert re.search(r"<th scope=\"row\">Germany</th><td class=\"number\"[^>]*>65,536</td>", custom)
    assert re.search(r'United States</th><td class="number"[^>]*>256<', custom)
    of_source = mine.get("/map?show=source:country").text
    assert "United States" not in of_source.partition('<h2 id="countries">')[2].partition("</table>")[0]


def test_a_dropped_log_shades_by_its_rows(tab: Any, console: RunningConsole, tmp_path: Path) -> None:
    opened(tab, console)
    (tmp_path / "access.log").write_text(LOG)
    tab.get_by_label("A log, a list or a mail").set_input_files(tmp_path / "access.log")
    tab.get_by_role("button", name="Shade the countries by it").click()
    tab.wait_for_selector("#map[data-ready=yes]")
    assert "4 addresses found; 1 not known" in tab.get_by_role("status").inner_text()
    rows = tab.get_by_role("region", name="Countries by requests").get_by_role("row")
    assert re.match(r"Germany\s+2\s", rows.nth(1).inner_text())
    assert tab.locator("#map path.country[class*=shade-]").count() == 2


def test_of_a_large_state_the_shades_come_afterwards(
    tab: Any, console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_AT_ONCE_SEGMENTS", 0)
    without_scripts = mine.get("/map").text
    (link,) = re.findall(r'<a href="([^"]*)">Count the addresses', without_scripts)
    assert "United States" in mine.get(link.replace("&amp;", "&")).text
    opened(tab, console)
    tab.get_by_role("region", name="Countries by IPv4 addresses").wait_for()
    assert tab.locator("#map path.country[class*=shade-]").count() == 3


def test_without_scripts_the_tables_say_the_same(mine: Visitor, console: RunningConsole) -> None:
    text = mine.get("/map").text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "sites in BR" in text
    assert "10.77" not in text
    places = text.partition('<h2 id="places">')[2]
    assert re.search(r"Berlin, DE.*?52.5, 13.4.*?65,536", places, re.DOTALL)
    points = json.loads(re.findall(r'data-points="([^"]*)"', text)[0].replace("&#34;", '"').replace("&#39;", "'")
                        .replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))  # fmt: skip
    assert max(len(point[4]) for point in points) <= 40
    answer = mine.post("/map", data=hidden(text), files={"file": ("x.zip", b"PK\x03\x04 etc")})
    assert (answer.status_code, "is a zip archive" in answer.text) == (422, True)


def test_the_outlines_are_kept_by_the_browser(mine: Visitor) -> None:
    (path,) = re.findall(r'data-outlines="([^"]*)"', mine.get("/map").text)
    packed = mine.get(path)
    assert packed.headers["content-encoding"] == "gzip"
    assert "immutable" in packed.headers["cache-control"]
    plain = mine.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == packed.json()
    assert len(gzip.compress(plain.content)) < 60_000
    assert mine.get("/map/outlines/000000000000").status_code == 404


def test_shades_count_what_lookups_answer(console: RunningConsole) -> None:
    with GeoLookup(console.home) as geo:
        expected: Counter[tuple[str, str, str]] = Counter()
        for segment in geo.segments(4):
            text = ".".join(str(segment.first >> shift & 255) for shift in (24, 16, 8, 0))
            match = geo.match(text)
            assert match is not None
            assert parse(match.first)[1] <= segment.first
            key = (segment.geolocation.country, segment.layer, match.source)
            expected[key] += segment.last - segment.first + 1
        found = geo.with_readers(CountryTotals)

    def sums(*, layer: str | None = None, source: str | None = None) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for (country, of_layer, of_source), number in expected.items():
            if layer in (None, of_layer) and source in (None, of_source):
                counts[country] += number
        return counts

    assert found.by_country() == sums()
    for layer in ("custom", "default"):
        assert found.by_country(layer=layer) == sums(layer=layer)  # type: ignore[arg-type]
    for source in ("city", "country", "custom", "unknown"):
        assert found.by_country(source=source) == sums(source=source)
    assert len(expected) > 4
