"""Texts of 10,000 characters, as an upstream may have them, on every page, the map's pop-ups included."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from geolookup.sync.opening import open_editor
from tests.console.files_console import HOSTILE
from tests.support.data.states import place, publish
from tests.support.users.running_console import RunningConsole, Visitor

LONG = f"</p><img src=x onerror='window.attacked = 1'>{HOSTILE}"[:10_000]
TEXTS = dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), LONG)
#: Not long, until it stands in an address.
JAPANESE = {"country": "JP", "region": "かごしまけん", "city": "みなみきゅうしゅうし" * 8, "postalcode": "897-0302"}
MINE = -7
PATHS = (
    *("/?q=10.0.0.1", "/?q=11.0.0.1", "/?q=8.0.0.0/5", "/map", "/custom", f"/custom/{MINE}", "/custom?sort=country"),
    *(f"/custom/{MINE}/{what}" for what in ("update", "add-block", "delete", "clear-blocks")),
    *("/outbox", "/outbox/1", "/outbox/1/drop", "/generations", "/generations/diff", "/sources"),
    f"/?q={'w' * 5000}",
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of two generations: every text of a custom and a default place is long, and one edit is pending."""
    home = str(tmp_path_factory.mktemp("long"))
    assert len(LONG) == 10_000
    custom = place(MINE, "10.0.0.0/24", latitude=-10.0, longitude=-50.0, **TEXTS)
    publish(home, [place(1, "11.0.0.0/8", **{**TEXTS, "city": "Before"}), custom])
    publish(home, [place(1, "11.0.0.0/8", **TEXTS), place(2, "12.0.0.0/8", **JAPANESE), custom])
    with open_editor(home) as editor:
        editor.add_block(MINE, "10.0.1.0/24")
    with RunningConsole(home) as running:
        yield running


def whole(made: str) -> list[str]:
    """The words of a page that are longer than what is shown of any text."""
    return [word for word in made.split() if len(word) > 310]


def test_no_page_shows_more_than_the_beginning_and_none_is_wider_than_the_screen(
    console: RunningConsole, browser: Any
) -> None:
    watched = console.tab(browser, viewport={"width": 360, "height": 800})
    tab = watched.page()
    for path in PATHS:
        tab.goto(console.url + path)
        text = tab.locator("body").inner_text()
        assert whole(text) == [], path
        assert not any(character in text for character in "\u202e\u2066"), path
        assert tab.evaluate("window.attacked") is None, path
        assert tab.locator("main img").count() == 0, path
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth"), path
    watched.close()
    assert watched.unwanted == []


def test_the_maps_pop_ups_show_the_beginning_as_text(console: RunningConsole, browser: Any) -> None:
    watched = console.tab(browser)
    tab = watched.page()
    tab.goto(f"{console.url}/map")
    tab.wait_for_selector("#map[data-ready=yes]")
    tab.locator("#map path.point").click()
    popup = tab.locator(".leaflet-popup-content")
    assert re.match(r"</p><img src=x onerror='window\.attacked$", popup.inner_text())
    assert max(map(len, popup.inner_text().split("\n"))) < 60
    assert popup.locator("img").count() == 0
    assert popup.bounding_box()["width"] < 400
    popup.get_by_role("link").click()
    tab.wait_for_url(f"**/custom/{MINE}")
    assert tab.evaluate("window.attacked") is None
    watched.close()
    assert watched.unwanted == []


def test_pages_are_not_longer_for_it_and_a_form_has_all_of_it(mine: Visitor) -> None:
    for path in PATHS:
        answer = mine.get(path)
        assert answer.status_code in (200, 422), path
        if not path.endswith("/update"):
            assert len(answer.content) < 60_000, path
    form = mine.get(f"/custom/{MINE}/update").text
    assert form.count("w" * 9_000) == 6


def test_a_form_with_long_texts_that_nobody_touched_says_which_one_cannot_stay(mine: Visitor) -> None:
    answer = mine.fill(f"/custom/{MINE}/update", **{**TEXTS, "latitude": "1", "longitude": "2"}, step="check")
    assert answer.status_code in (200, 422)
    assert whole(re.sub(r'value="[^"]*"', "", answer.text)) == []


@pytest.mark.parametrize("address", ["12.0.0.1", "11.0.0.1", "10.0.0.1", "12.0.0.0/16"])
def test_correct_this_leads_to_a_form_with_what_an_address_can_carry(mine: Visitor, address: str) -> None:
    link, *_ = re.findall(r'href="(/custom/create[^"]*)"', mine.get("/", params={"q": address}).text)
    answer = mine.get(unescape(link))
    assert answer.status_code == 200
    assert re.search(r'<textarea id="block"[^>]*>\n1[012]\.0\.0\.0/(8|16|23)</textarea>', answer.text)
    for text in JAPANESE.values():
        assert (f'value="{text}"' in answer.text) == address.startswith("12."), text


def test_what_is_no_country_is_offered_neither_as_a_filter_nor_as_a_link(mine: Visitor) -> None:
    for path in ("/map", "/custom"):
        links = [unescape(link) for link in re.findall(r'(?:href|value)="([^"]*)"', mine.get(path).text)]
        assert max(map(len, links)) < 500, path
    assert 'data-shades="{&#34;JP&#34;:' in mine.get("/map").text
