"""The page Generations: comparing, going back, pinning, and accepting what is held."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from geolookup.console.pages import generations as page
from geolookup.model.errors import HeldError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.actor import who
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.accept import accept
from tests.console.files_console import HOSTILE, FilesConsole
from tests.support.users.running_console import Visitor, hidden


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FilesConsole]:
    """Two generations: in the second one, town 7 is called otherwise, and 20 towns are new."""
    made = FilesConsole(tmp_path)
    made.write(220, city="Town")
    text = (tmp_path / "towns.csv").read_text("utf-8").replace("DE,Town 7,", "FR,Ville 7,")
    (tmp_path / "towns.csv").write_text(text, encoding="utf-8")
    made.sync()
    with made.running:
        yield made


def form_of(text: str, button: str) -> dict[str, str]:
    """The hidden fields of the form that has a button, and what it sends."""
    (form,) = [each for each in re.findall(r"<form.*?</form>", text, re.DOTALL) if button in each]
    (step,) = re.findall(r'name="step" value="([^"]*)"', form)
    return {**hidden(form), "step": step}


def test_a_person_goes_back_after_a_bad_night(files: FilesConsole, browser: Any) -> None:
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/generations")
    rows = tab.get_by_role("region", name="Kept versions").get_by_role("row")
    newest = r"Version 2 answers now\s+20.*\s+(.*\s+)*220 places, 220 networks, from towns"
    assert re.match(newest, rows.nth(1).inner_text())
    rows.nth(2).get_by_role("link", name="What changed since version 1").click()
    assert tab.get_by_role("heading", level=1).inner_text() == "What changed from version 1 to 2"
    answers = tab.get_by_role("region", name="Answers", exact=True)
    assert "5,376 IPv4, 0 IPv6" in answers.inner_text()
    assert re.search(r"Germany \(DE\)\s+France \(FR\)\s+256\s+0", answers.inner_text())
    tab.get_by_text(re.compile(r"^Places: \d+ added")).click()
    tab.get_by_text(re.compile(r"^Networks: \d+ added")).click()
    places = tab.get_by_role("region", name="Places of towns").inner_text()
    assert re.search(r"Town 200, DE\s+added", places)
    assert "Ville 7" in places
    networks = tab.get_by_role("region", name="Networks of towns").inner_text()
    assert re.search(r"20\.0\.200\.0/24\s+no place\s+Town 200, DE", networks)
    tab.go_back()
    tab.get_by_role("link", name="Roll back to this version (1)").click()
    back = tab.get_by_role("region", name="Roll back to version 1")
    assert "9.1% of the IPv4 addresses that have an answer would have none" in back.get_by_role("alert").inner_text()
    back.get_by_role("textbox").fill("Wrong towns")
    back.get_by_role("button", name="Roll back to this version").click()
    told = tab.get_by_role("status").inner_text()
    assert told.startswith("Rolled back: version 1 answers now. It lasts: an update that brings back most of what")
    assert files.served == 1
    assert "rolled back" in rows.nth(1).inner_text()
    watched.close()
    assert watched.unwanted == []


def test_your_sites_are_no_part_of_a_comparison(files: FilesConsole, visitor: Visitor) -> None:
    with open_editor(files.home, settings=files.settings) as editor:
        lyon = {"country": "FR", "city": "Lyon"}
        editor.create(name="Lyon office", blocks=["10.250.7.0/27", "20.0.7.0/24"], **lyon)  # type: ignore[arg-type]
    for old, new in ((1, 2), (2, 1)):
        text = visitor.get(f"/generations/diff?old={old}&new={new}").text
        assert "Addresses whose answer differs: 5,120 IPv4, 0 IPv6." in text  # without 20.0.7.0/24, which is a site
        assert "France" not in text
        assert "Your sites stay as they are" in text
    assert "<h1>Roll back to version 1: what would change</h1>" in text
    told = "5,120 IPv4 and 0 IPv6 addresses get another answer, most of them from Germany (DE) to not known."
    assert told in text
    assert text.index(told) < text.index("Roll back to this version") < text.index("Answers that differ, by country")
    assert (
        '<a class="button second" href="/generations/diff?old=2&amp;new=1">Roll back to version 1</a>'
        in visitor.get("/generations/diff?old=1&new=2").text
    )


def test_a_network_that_moved_is_shown_once_with_both_places(files: FilesConsole, visitor: Visitor) -> None:
    text = (files.folder / "towns.csv").read_text("utf-8").replace("20.0.9.0/24,DE,Town 9,", "20.0.9.0/24,DE,Town 8,")
    (files.folder / "towns.csv").write_text(text, encoding="utf-8")
    files.sync()
    found = visitor.get("/generations/diff?old=2&new=3").text
    assert found.count("20.0.9.0/24") == 1
    row = r'20\.0\.9\.0/24</th><td class="text" data-label="Before">Town 9, DE</td><td[^>]*>Town 8, DE</td>'
    assert re.search(row, found)


def test_a_double_click_pins_once(files: FilesConsole, browser: Any) -> None:
    watched = files.running.tab(browser)
    tab = watched.page()
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.method))
    tab.goto(f"{files.running.url}/generations")
    tab.get_by_role("button", name="Pin version 1").dblclick()
    tab.get_by_role("button", name="Unpin version 1").wait_for()
    assert sent.count("POST") == 1
    assert tab.locator(".problem").count() == 0
    tab.go_back()
    tab.reload()
    tab.get_by_role("button", name="Unpin version 1").click()
    tab.get_by_role("button", name="Pin version 1", exact=True).wait_for()
    watched.close()
    assert watched.unwanted == []


def test_the_answers_of_a_dropped_list_are_compared(files: FilesConsole, browser: Any, tmp_path: Path) -> None:
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/generations/diff?old=1&new=2")
    (tmp_path / "list.txt").write_text("20.0.7.1\n20.0.210.1\n20.0.8.1\n\nnothing\n")
    tab.get_by_label("A list of addresses, one a line").set_input_files(tmp_path / "list.txt")
    tab.get_by_role("button", name="Show changed addresses").click()
    told = tab.get_by_role("status").inner_text()
    assert told == "Of 3 addresses, 2 have another answer; 1 malformed (line 5: 'nothing' is not an IP address)."
    rows = tab.get_by_role("region", name="Addresses whose answer differs").get_by_role("row")
    assert re.match(r"20.0.7.1\s+Town 7, DE \(towns\)\s+Ville 7, FR", rows.nth(1).inner_text())
    assert re.match(r"20.0.210.1\s+not known\s+Town 210, DE", rows.nth(2).inner_text())
    watched.close()
    assert watched.unwanted == []


def test_a_generation_is_pinned_and_unpinned(files: FilesConsole, visitor: Visitor) -> None:
    text = visitor.get("/generations").text
    answer = visitor.post("/generations", data=form_of(text, 'Pin <span class="unseen">version 1<'))
    assert "Version 1 is kept until it is unpinned" in answer.text
    assert files.directory.require_current().pins == (1,)
    answer = visitor.post("/generations", data=form_of(answer.text, "Unpin"))
    assert "Version 1 is pinned no longer" in answer.text
    assert files.directory.require_current().pins == ()


def test_what_was_held_and_rolled_back_is_said_where_people_look(files: FilesConsole, visitor: Visitor) -> None:
    files.write(100)
    with pytest.raises(HeldError) as held:
        files.sync()
    accept(files.directory, held.value.digest, Settings())
    versions = visitor.get("/generations").text
    (row,) = re.findall(r'<span class="mark waits">was held</span>(.*?)</td>', versions, re.DOTALL)
    assert re.search(r"fewer than 95%.*; published by .+ at <time datetime=\"20", row, re.DOTALL)
    assert "Look at it" not in row
    sent = form_of(visitor.get("/generations/diff?old=3&new=2").text, "Roll back to this version")
    visitor.post("/generations", data={**sent, "reason": "Half of it was gone"})
    told = visitor.get("/history").text
    assert "version 3 → 2: Half of it was gone" in told
    assert "not published, held for a person: " in told
    assert "HeldError" not in told
    found = visitor.get("/history?find=half OF it").text
    assert "version 3 → 2: Half of it was gone" in found
    assert "held for a person" not in found
    assert "No line of the history has this." in visitor.get("/history?find=nobody%3Cb%3E").text
    assert "geolookup sync --accept" not in told
    assert (
        "Version 2 answers: version 3 was rolled back, and an update that repeats it asks first"
        in visitor.get("/").text
    )
    assert files.sync().outcome == "rolled-back"
    assert "not published: it is what was rolled back" in visitor.get("/history").text
    held = visitor.get("/generations").text.partition('id="held"')[2].partition("</section>")[0]
    assert "It has what was rolled back here" in held
    assert "Half of it was gone" in held
    assert 'href="/generations/diff?old=2&amp;new=held:towns">See what it would change, and decide</a>' in held
    assert f"towns still has what {who()} rolled back: nothing has to be done" in visitor.get("/").text
    assert "Use this version" in visitor.get("/generations").text
    again = visitor.get("/generations/diff?old=2&new=3").text
    assert "<h1>Use version 3: what would change</h1>" in again
    assert re.search(rf"{who()} rolled it back at <time[^<]*</time>: Half of it was gone\.", again)
    looked = visitor.get("/generations/diff?old=2&new=3&look=only").text
    assert "<h1>What changed from version 2 to 3</h1>" in looked
    assert 'class="risky"' not in looked
    answer = visitor.post("/generations", data=form_of(again, "Use this version"))
    assert "Version 3 answers now." in answer.text
    assert "was rolled back" not in visitor.get("/").text
    assert 'id="held"' not in visitor.get("/generations").text, "it answers now"


def test_a_version_says_for_how_many_addresses_the_country_changed(files: FilesConsole, visitor: Visitor) -> None:
    row = visitor.get("/generations").text
    assert (
        "another country, or none before or after, "
        "for 5,376 IPv4 addresses (56,320 have an answer now) and 0 of IPv6, "
        "most of them from no answer to Germany (DE)<br>" in row
    )


def test_a_version_says_which_sources_came_and_went(files: FilesConsole, visitor: Visitor) -> None:
    towns = files.settings
    (files.folder / "partner.csv").write_text("network,country\n20.0.7.0/24,PL\n", encoding="utf-8")
    partner = SourceSettings(name="partner", location=str(files.folder / "partner.csv"))
    for settings in (Settings(sources=(partner, *towns.sources), attempts=1), towns):
        files.settings = settings
        files.sync()
    text = visitor.get("/generations").text
    assert text.index("without the source partner<br>") < text.index("new source: partner<br>")
    assert text.count("partner<br>") == 2


def test_the_start_says_that_many_answers_changed_their_country(files: FilesConsole, visitor: Visitor) -> None:
    assert "another country" not in visitor.get("/").text
    files.write(220, city="Town", country="PL")
    with pytest.raises(HeldError) as held:
        files.sync()
    assert re.search(
        r"another country \([\d,]+ addresses, most of them from Germany \(DE\) to Poland \(PL\)\)", str(held.value)
    )
    accept(files.directory, held.value.digest, Settings())
    text = visitor.get("/").text
    assert "gave 100% of the IPv4 addresses with an answer another country" in text
    assert "or a first one, most of them from Germany (DE) to Poland (PL)" in text
    assert f"Version 3, which {who()} published at 20" in text
    assert '<a href="/generations/diff?look=only">Look whether that is right</a>' in text
    files.write(221, city="Town", country="PL")
    files.sync()
    files.directory.keeping.rollback(3)
    assert "another country" not in visitor.get("/").text, "a person has just looked at the versions"


def test_an_answer_says_what_it_was_before_and_leads_to_what_else_changed(
    files: FilesConsole, visitor: Visitor
) -> None:
    text = visitor.get("/?q=20.0.7.1").text
    assert re.search(r"Until <time[^>]*>20[^<]*</time> the answer was <strong>Town 7, DE</strong>", text)
    assert '<a href="/generations/diff?old=1&amp;new=2">See what else changed</a>' in text
    assert "<dt>Country</dt><dd>France (FR)</dd>" in text
    (back,) = re.findall(r'<a class="button" href="([^"]*)">Put back Town 7, DE for 20.0.7.0/24</a>', text)
    form = visitor.get(unescape(back)).text
    assert "<h1>Correct 20.0.7.0/24</h1>" in form
    assert 'name="city" value="Town 7"' in form
    assert "See what else changed" not in visitor.get("/?q=20.0.8.1").text
    more = visitor.get("/?q=20.0.200.1").text
    assert re.search(r"More is known since <time[^>]*>20[^<]*</time>: before, the answer was not known\.", more)


def test_an_answer_that_was_rolled_back_or_only_got_more_exact_is_not_put_back(
    files: FilesConsole, visitor: Visitor
) -> None:
    visitor.post("/generations", data=form_of(visitor.get("/generations/diff?old=2&new=1").text, "Roll back to this"))
    text = visitor.get("/?q=20.0.7.1").text
    assert re.search(rf"Rolled back by {who()} at <time[^<]*</time>: before, the answer was Ville 7, FR\.", text)
    assert "Put back" not in text
    files.write(200)
    lines = (files.folder / "towns.csv").read_text("utf-8").replace("DE,Town 7,1.5,2.5", "DE,,,")
    (files.folder / "towns.csv").write_text(lines.replace("Town 9,", "Stadt 9,"), encoding="utf-8")
    files.sync()
    (files.folder / "towns.csv").write_text(lines.replace("DE,,,", "DE,Ville 7,1.5,2.5"), encoding="utf-8")
    files.sync()
    text = visitor.get("/?q=20.0.7.1").text
    assert re.search(r"More is known since <time[^<]*</time>: before, the answer was DE\.", text)
    assert "Put back" not in text
    assert "Put back Stadt 9, DE" in visitor.get("/?q=20.0.9.1").text


def test_a_page_that_was_overtaken_goes_nowhere(files: FilesConsole, visitor: Visitor) -> None:
    sent = form_of(visitor.get("/generations/diff?old=2&new=1").text, "Roll back to this version")
    files.write(221)
    assert files.sync().generation == 3
    answer = visitor.post("/generations", data=sent)
    assert answer.status_code == 409
    assert "generation 3 is served by now, and not 2 any more: look again before you go back" in answer.text
    assert files.served == 3
    again = form_of(visitor.get("/generations/diff?old=3&new=1").text, "Roll back to this version")
    assert "version 1 answers now. It lasts" in visitor.post("/generations", data=again).text


def test_what_is_held_is_accepted_with_its_reasons_seen(files: FilesConsole, browser: Any) -> None:
    files.write(100)
    with pytest.raises(HeldError):
        files.sync()
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/generations")
    held = tab.get_by_role("region", name="Not published: look, and decide")
    assert "fewer than 95%" in held.inner_text()
    assert "100 places, 100 networks" in held.inner_text()
    held.get_by_role("link", name="See what it would change, and decide").click()
    tab.get_by_text("Addresses whose answer differs: 30,976 IPv4").wait_for()
    assert files.served == 2
    tab.get_by_role("button", name="Publish it all the same").click()
    assert "Version 3 is published: 100 places" in tab.get_by_role("status").inner_text()
    assert files.served == 3
    assert tab.get_by_role("region", name="Not published: look, and decide").count() == 0
    watched.close()
    assert watched.unwanted == []


def test_an_update_that_repeats_what_was_rolled_back_asks_first(files: FilesConsole, browser: Any) -> None:
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/generations/diff?old=2&new=1")
    assert "It lasts: an update that brings back most of this" in tab.get_by_role("main").inner_text()
    tab.get_by_role("button", name="Roll back to this version").click()
    text = (files.folder / "towns.csv").read_text("utf-8")
    (files.folder / "towns.csv").write_text(f"{text}21.0.0.0/24,SE,Lund,1.5,2.5\n", encoding="utf-8")
    tab.goto(f"{files.running.url}/sources")
    tab.get_by_role("button", name="Update now").click()
    reason = re.compile(r"brings back the answers of all 5,376 IPv4 addresses that \S+ rolled back at")
    tab.get_by_text(reason).first.wait_for()
    assert files.served == 1
    for path in ("", "/generations", "/history"):
        tab.goto(f"{files.running.url}{path}")
        assert reason.search(tab.get_by_role("main").inner_text()), path
    tab.goto(f"{files.running.url}/generations")
    tab.get_by_role("link", name="See what it would change, and decide").click()
    assert reason.search(tab.get_by_role("main").inner_text())
    tab.get_by_text("To publish it ends the roll-back: later updates are not compared").wait_for()
    tab.get_by_role("button", name="Publish it all the same").click()
    assert "Version 3 is published" in tab.get_by_role("status").inner_text()
    row = tab.get_by_role("row").filter(has_text="Version 2").inner_text()
    assert re.search(r"rolled back\s.*That is over: a person published it again", row, re.DOTALL)
    watched.close()
    assert watched.unwanted == []


def test_of_large_generations_the_comparison_comes_afterwards(
    files: FilesConsole, visitor: Visitor, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_AT_ONCE_BLOCKS", 0)
    without_scripts = visitor.get("/generations/diff").text
    assert "Ville 7" not in without_scripts
    assert re.search(r"Version 1</th>.*?200 places.*?Version 2</th>.*?220 places", without_scripts, re.DOTALL)
    (link,) = re.findall(r'<a href="([^"]*)">Compare every network</a>', without_scripts)
    assert "Ville 7" in visitor.get(link.replace("&amp;", "&")).text
    watched = files.running.tab(browser)
    tab = watched.page()
    tab.goto(f"{files.running.url}/generations/diff")
    tab.get_by_text(re.compile(r"^Places: \d+ added")).wait_for()
    watched.close()
    assert watched.unwanted == []


def test_wrong_questions_are_answered_in_words(visitor: Visitor) -> None:
    answer = visitor.get("/generations/diff?old=77&new=2")
    assert (answer.status_code, "generation 77 is not kept" in answer.text) == (422, True)
    answer = visitor.get("/generations/diff?old=%3Cb%3E&new=2")
    assert (answer.status_code, "<b>" in answer.text) == (422, False)
    sent = form_of(visitor.get("/generations/diff?old=2&new=1").text, "Roll back to this version")
    answer = visitor.post("/generations", data={**sent, "seen": "1"})
    assert (answer.status_code, "first look at what would change" in answer.text) == (409, True)
    answer = visitor.post("/generations", data={**sent, "number": "77"})
    assert (answer.status_code, "generation 77 is not kept" in answer.text) == (409, True)
    answer = visitor.post("/generations/diff?old=1&new=2", data=hidden(visitor.get("/generations/diff").text))
    assert (answer.status_code, "Choose a file first." in answer.text) == (422, True)


def test_hostile_places_stay_text(files: FilesConsole, visitor: Visitor) -> None:
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    text = (files.folder / "towns.csv").read_text("utf-8").replace("Town 9,", f"{quoted},")
    (files.folder / "towns.csv").write_text(text, encoding="utf-8")
    files.sync()
    found = visitor.get("/generations/diff").text
    assert "<script>alert" not in found
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in found
    assert "\u202e" not in found
    assert "49" not in re.findall(r"onclick=.{0,20}", found)[0]


def test_a_console_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    made = FilesConsole(tmp_path, read_only=True)
    made.write(201)
    made.sync()
    with made.running as running, running.client() as client:
        text = client.get("/generations").text
        assert "Roll back to this" not in text
        assert "Roll back" not in client.get("/generations/diff?old=2&new=1").text
        assert "Pin <" not in text
        token = hidden(client.get("/generations/diff").text)
        answer = client.post("/generations", data={**token, "step": "rollback", "number": "1", "served": "2"})
        assert (answer.status_code, made.served) == (403, 2)
        compared = client.post("/generations/diff", data=token, files={"file": ("list", b"20.0.200.1\n")})
        assert "Of 1 address, 1 has another answer" in compared.text
