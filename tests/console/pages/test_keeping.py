"""Who changed what: the name that a person gives, and times."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from geolookup.state.base.actor import who
from geolookup.sync.opening import open_editor
from tests.support.data.two_sources import NOTHING
from tests.support.users.running_console import RunningConsole, Visitor

ANNA = "Anna Łęcka; <b>"


def test_a_person_is_asked_once_for_a_name_which_the_history_has(console: RunningConsole, mine: Visitor) -> None:
    assert "Your name, for the history" in mine.get("/").text
    assert f"The history calls you Anna Łęcka; &lt;b&gt; ({who()})." in mine.fill("/name", name=f" {ANNA} ").text
    assert "Your name, for the history" not in mine.get("/").text
    mine.save("/custom/create", name="Named by Anna", city="Lyon", latitude="45", longitude="4")
    assert console.console.editor().history()[-1]["who"] == f"{ANNA} ({who()})"
    assert "Anna Łęcka; &lt;b&gt;" in mine.get("/history?find=Łęcka").text
    assert "Anna Łęcka; &lt;b&gt;" in mine.get("/history?find=anna lecka").text
    assert f"The history calls you {who()}." in mine.fill("/name", name="x", step="stay").text
    assert "Your name, for the history" not in mine.get("/").text


def test_what_was_done_to_a_site_together_is_one_row(console: RunningConsole, mine: Visitor) -> None:
    path = mine.save("/custom/create", name="Of two", country="FR", city="Lyon", block="10.91.0.1 10.91.0.3").url.path
    assert "No line of the history has this" in mine.get("/history?find=10.91.0.2").text
    assert ">Of two</a>" in mine.get("/history?find=10.91.0.1").text
    for page in (path, "/history?find=Of two"):
        rows = mine.get(page).text.split("<tbody>")[-1]
        assert rows.partition("</tbody>")[0].count("<tr>") == 1, page
        assert rows.index("site created") < rows.index("<div>named")


def test_times_are_of_the_reader_and_kept_for_programs(console: RunningConsole, browser: Any, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Just now", **NOTHING)
    path = f"/custom/{locid}"
    kept, said = re.findall(r'<time datetime="([^"]*)">([^<]*)</time>', mine.get(path).text)[0]
    at = datetime.fromisoformat(kept)
    assert said == f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    tokyo = console.tab(browser, timezone_id="Asia/Tokyo")
    page = tokyo.page()
    page.goto(console.url + path)
    there = at.astimezone(ZoneInfo("Asia/Tokyo"))
    assert page.locator("time").first.inner_text() == f"{there:%Y-%m-%d %H:%M:%S}"
    assert "Asia/Tokyo" in page.get_by_role("contentinfo").inner_text()
    tokyo.close()
