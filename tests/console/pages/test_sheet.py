"""A sheet of sites in the browser: read, planned, applied, undone; and what else is kept: history, exports, backups."""

import re
import shutil
import tarfile
from collections.abc import Iterator
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import DataFileError
from geolookup.settings.table import Settings
from geolookup.sites.applying import apply_all, parts_of, plan_all
from geolookup.sites.file import read_sites
from geolookup.sites.servers.server import read_exports
from geolookup.sites.site import Problems
from geolookup.sites.undo import undo
from geolookup.state.base.actor import acting, who
from geolookup.sync.opening import open_editor
from tests.files.test_workbooks import ods
from tests.sites.test_exports import folder as exported
from tests.support.data.two_sources import NOTHING, state
from tests.support.users.running_console import RunningConsole, Visitor, hidden

HEAD = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
LODZ = "Łódź office,PL,LD,Łódź,,51.77,19.46,,,12.1.0.0/24\n"
LYON = "Lyon,FR,ARA,Lyon,,45.76,4.84,,,12.2.0.0/24 12.3.0.0/25\n"


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(state(tmp_path)) as running:
        yield running


@pytest.fixture
def visitor(console: RunningConsole) -> Iterator[Visitor]:
    with console.client() as client:
        yield client


def sites(console: RunningConsole) -> set[str]:
    with open_editor(console.home) as editor:
        return set(editor.sites())


def upload(visitor: Visitor, text: str, name: str = "sites.csv") -> Any:
    return visitor.post(
        "/custom/sheet", data=hidden(visitor.get("/custom/sheet").text), files={"file": (name, text.encode())}
    )


def written(path: Path, text: str) -> Path:
    """A table as its name says: CSV, or a workbook with these cells."""
    rows = [line.split(",") for line in text.splitlines()]
    if path.suffix == ".csv":
        path.write_text(text, encoding="utf-8")
    elif path.suffix == ".ods":
        cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
        ods(path, "".join(f"<table:table-row>{''.join(map(cell.format, row))}</table:table-row>" for row in rows))
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in rows:
            book.active.append(row)
        book.save(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "xlsx", "ods"])
def test_a_sheet_is_dropped_looked_at_applied_and_undone(
    console: RunningConsole, browser: Any, tmp_path: Path, kind: str
) -> None:
    sheet = written(tmp_path / f"sites.{kind}", HEAD + LODZ + LYON)
    watched = console.tab(browser)
    tab = watched.page()
    tab.goto(f"{console.url}/custom")
    tab.get_by_role("link", name="Upload a sheet").click()
    tab.get_by_label("Your sheet").set_input_files(sheet)
    tab.get_by_role("button", name="Show what it would change").click()
    assert "Sites in the file: 2 (2 to create)" in tab.get_by_role("status").inner_text()
    assert "create Łódź office" in tab.get_by_role("region", name="5 changes").inner_text()
    assert "640 IPv4" in tab.get_by_role("region", name="Whose answer would change").inner_text()
    assert not sites(console) & {"Lyon"}
    tab.get_by_role("button", name="Make these changes").click()
    assert f"5 changes made from sites.{kind}" in tab.get_by_role("status").first.inner_text()
    assert sites(console) >= {"Lyon", "Łódź office"}
    tab.get_by_role("link", name="Undo the last change").click()
    assert "Lyon is gone again" in tab.locator("main").inner_text()
    assert "640 IPv4" in tab.get_by_role("region", name="Whose answer would change").inner_text()
    tab.get_by_role("button", name="Undo it").click()
    assert "Undone: " in tab.get_by_role("status").first.inner_text()
    assert console.console.geo().match("12.1.0.1") is None
    watched.close()
    assert watched.unwanted == []


def test_a_sheet_that_cannot_be_made_says_all_that_is_wrong(console: RunningConsole, visitor: Visitor) -> None:
    answer = upload(visitor, HEAD + LODZ.replace("51.77", "951") + LYON.replace("12.2.0.0/24", "12.2.0.1/24"))
    assert answer.status_code == 422
    assert "line 2" in answer.text
    assert "\\n" not in answer.text
    assert re.search(r"<li>[^<]*line 2[^<]*</li>", answer.text), "a line for each"
    assert "line 3" in answer.text
    assert upload(visitor, "", "").status_code == 422
    assert not sites(console) & {"Lyon"}


def test_a_plan_that_was_overtaken_is_not_applied(console: RunningConsole, visitor: Visitor) -> None:
    shown = upload(visitor, HEAD + LODZ + LYON)
    with open_editor(console.home) as editor:
        editor.create(name="Lyon", **{**NOTHING, "country": "FR"})
    sent = {**hidden(shown.text), "step": "apply"}
    answer = visitor.post("/custom/sheet", data=sent)
    assert (answer.status_code, "the sites were changed meanwhile" in answer.text) == (422, True)
    assert "Łódź office" not in sites(console)
    upload(visitor, HEAD + LODZ)
    assert "another one was uploaded" in visitor.post("/custom/sheet", data=sent).text


def test_a_sheet_that_lost_most_rows_needs_a_tick(console: RunningConsole, visitor: Visitor) -> None:
    many = "".join(f"Site {n},FR,,Lyon,,45.76,4.84,,,12.4.{n}.0/24\n" for n in range(40))
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + many).text), "step": "apply"})
    shown = upload(visitor, HEAD + many.split("\n")[0] + "\n")
    assert "This is meant" in shown.text
    alert, _, rest = shown.text.partition('role="status"')
    assert "<li>39 of 40 sites would be gone (98%).</li>" in alert, "what is lost stands first"
    assert "This is meant: 39 of 40 sites would be gone (98%)" in rest
    sent = {**hidden(shown.text), "step": "apply"}
    assert visitor.post("/custom/sheet", data=sent).status_code == 422
    assert len(sites(console)) >= 40
    assert "changes made" in visitor.post("/custom/sheet", data={**sent, "accept": "yes"}).text


def test_what_others_changed_since_is_shown_in_three_versions_and_asked(
    console: RunningConsole, visitor: Visitor
) -> None:
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + LODZ + LYON).text), "step": "apply"})
    mine = visitor.get("/export/sites.csv").text
    with open_editor(console.home) as editor:
        editor.update(editor.sites()["Lyon"], city="Villeurbanne")
        editor.delete(editor.sites()["Łódź office"])
    asked = upload(visitor, mine.replace("12.3.0.0/25", "12.3.0.0/26")).text
    assert "Make these changes" not in asked
    row = asked.partition('<th scope="row">city</th>')[2].partition("</tr>")[0]
    assert re.findall(r">([^<>]+)</td>", row) == ["Lyon", "Villeurbanne", "Lyon"]
    assert "deleted it at" in asked
    assert asked.count('type="radio"') == 4
    names = re.findall(r'name="changed-site" value="([^"]*)"', asked)
    sent = {**hidden(asked), "changed-site": names}
    keep = {f"keep-{number}": "mine" if name == "Lyon" else "theirs" for number, name in enumerate(names)}
    half = visitor.post("/custom/sheet", data={**sent, "keep-0": keep["keep-0"]}).text
    assert half.count('type="radio"') == 2, "the other is asked for again"
    shown = visitor.post("/custom/sheet", data={**sent, **keep}).text
    made = visitor.post("/custom/sheet", data={**hidden(shown), "changed-site": names, **keep, "step": "apply"})
    assert "changes made" in made.text
    with open_editor(console.home) as editor:
        assert editor.get(editor.sites()["Lyon"]).place.city == "Lyon"
        assert "Łódź office" not in {editor.site_names()[laid.place.locid] for laid in editor.custom()}


def test_what_stays_as_it_was_decided_is_said_and_can_be_decided_anew(
    console: RunningConsole, visitor: Visitor
) -> None:
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + LODZ + LYON).text), "step": "apply"})
    with open_editor(console.home) as editor:
        editor.update(editor.sites()["Lyon"], city="Villeurbanne")
    asked = upload(visitor, HEAD + LODZ.replace("51.77", "51.78") + LYON)
    keep = {"changed-site": "Lyon", "keep-0": "theirs"}
    shown = visitor.post("/custom/sheet", data={**hidden(asked.text), **keep}).text
    assert "changes made" in visitor.post(
        "/custom/sheet", data={**hidden(shown), **keep, "step": "apply"}
    ).text.replace("1 change ", "1 changes ")
    again = upload(visitor, HEAD + LODZ.replace("51.77", "51.78") + LYON).text
    assert "Left as a person decided at an earlier apply, though the file says otherwise: Lyon" in again
    assert "as the sheet says: nothing to change" not in again
    anew = visitor.post("/custom/sheet", data=hidden(again.partition('<form method="post"')[2])).text
    assert "1 to change" in anew
    assert "Villeurbanne, ARA, FR" in anew.partition('data-label="From"')[2]
    assert "Make this change" in anew


def test_one_of_several_sheets_is_chosen_and_how_it_is_read_is_said(
    console: RunningConsole, visitor: Visitor, tmp_path: Path
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "2025"
    for name, city in (("2025", "Paris"), ("2026", "Lyon")):
        page = book[name] if name in book.sheetnames else book.create_sheet(name)
        for row in (["Standort", "Ort", "Land", "Netz"], ["Filiale", city, "Frankreich", "12.9.0.0/24"]):
            page.append(row)
    book.save(tmp_path / "sites.xlsx")
    page = visitor.get("/custom/sheet").text
    content = (tmp_path / "sites.xlsx").read_bytes()
    asked = visitor.post("/custom/sheet", data=hidden(page), files={"file": ("sites.xlsx", content)})
    assert asked.status_code == 422
    assert re.findall(r"<option[^>]*>([^<]*)", asked.text) == ["2025", "2026"]
    shown = visitor.post("/custom/sheet", data={**hidden(asked.text), "which": "2026"}).text
    assert "city = &#39;Ort&#39;" in shown
    assert "1 country in words" in shown
    visitor.post("/custom/sheet", data={**hidden(shown), "step": "apply"})
    with open_editor(console.home) as editor:
        assert editor.get(editor.sites()["Filiale"]).place.city == "Lyon"


def test_an_undo_of_something_else_than_was_shown_is_refused(console: RunningConsole, visitor: Visitor) -> None:
    shown = form_of_undo(visitor)
    with open_editor(console.home) as editor:
        editor.create(name="Meanwhile", **NOTHING)
    answer = visitor.post("/custom/undo", data=shown)
    assert answer.status_code == 409
    assert "Something else was changed meanwhile: nothing was undone. This is what would be undone now." in answer.text
    assert "Meanwhile is gone again" in answer.text
    assert "Meanwhile" in sites(console)
    assert visitor.post("/custom/undo", data=form_of_undo(visitor)).status_code == 200
    with open_editor(console.home) as editor:
        assert "Meanwhile" not in {editor.site_names().get(laid.place.locid) for laid in editor.custom()}


def test_a_bare_list_of_addresses_is_told_where_it_belongs(visitor: Visitor) -> None:
    answer = upload(visitor, "10.250.7.10\n10.250.7.11\n", "lyon.txt")
    assert answer.status_code == 422
    assert "Its first line must name the columns: name,country,city,networks. A bare list" in answer.text
    assert "--field" not in answer.text
    assert 'href="/custom/create"' in answer.text
    (sample,) = re.findall("<code>(name,.*)</code>", answer.text)
    sample = sample.replace("<br>", "\n")
    assert "Sites in the file: 1 (1 to create)" in upload(visitor, f"{sample}\n").text


def test_undo_says_who_did_it_and_its_button_what_it_does(console: RunningConsole, visitor: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Lyon office", blocks=["12.5.0.0/24"], **{**NOTHING, "country": "FR"})
    assert 'href="/custom/undo"' in visitor.get("/custom").text
    asked = visitor.get("/custom/undo").text
    assert re.search(r"<p class=\"lead\">\w+ made it at <time [^<]+</time> \(library\)\.</p>", asked)
    assert "<li>Lyon office is gone again</li>" in asked
    assert '<button class="risky">Undo it</button>' in asked
    assert "256 IPv4" in asked
    assert str(locid) not in asked.partition("<main")[2]
    assert "Undone: Lyon office is gone again." in visitor.post("/custom/undo", data=hidden(asked)).text


def test_an_undo_says_what_will_be_and_what_is_now_without_numbers_of_edits(
    console: RunningConsole, visitor: Visitor
) -> None:
    berlin = {**NOTHING, "country": "DE", "city": "Berlin", "latitude": 52.52, "longitude": 13.4}
    with open_editor(console.home) as editor:
        locid = editor.create(name="Office", blocks=["12.5.0.0/24"], **berlin)
        editor.update(locid, city="Potsdam", latitude=52.39, longitude=13.06)
    asked = visitor.get("/custom/undo").text
    assert "<li>Office is in Berlin, DE again (now: Potsdam, DE)</li>" in asked
    assert "edit " not in asked.partition("<main")[2].partition("Whose answer")[0]
    done = visitor.post("/custom/undo", data=hidden(asked))
    assert done.url.path == f"/custom/{locid}"
    assert "Undone: Office is in Berlin, DE again." in done.text
    rows = re.findall(r'data-label="What"><div>([^<]*).*?data-label="Outcome">([^<]*)', done.text, re.DOTALL)
    me = who()
    assert rows[:2] == [
        ("undone", f"undoes a change by {me}, "),
        ("place changed", f"undone by {me}, "),
    ]
    with open_editor(console.home) as editor, editor.transaction():
        editor.add_block(locid, "12.6.0.0/24")
        editor.remove_block(locid, "12.5.0.0/24")
    asked = visitor.get("/custom/undo").text
    assert "<li>Office answers for 12.5.0.0/24 again</li><li>Office answers no more for 12.6.0.0/24</li>" in asked
    assert '<button class="risky">Undo it</button>' in asked


def rows_of(page: str) -> list[dict[str, str]]:
    """The rows of a history: the text of each cell, and the link that undoes it."""
    rows = page.partition('aria-labelledby="history"')[2] or page
    found = []
    for row in rows.partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")[:-1]:
        cells = dict(re.findall(r'data-label="(\w+)">(.*?)</td>', row, re.DOTALL))
        link = re.search(r'<a href="(/custom/undo[^"]*)">Undo (?:this<|all of it)', cells["What"])
        texts = {name: unescape(re.sub("<[^>]*>", " ", text)) for name, text in cells.items()}
        found.append({**texts, "link": unescape(link[1]) if link else ""})
    return found


def undone(visitor: Visitor, link: str) -> str:
    """Press a link of the history, and the button behind it."""
    looked = visitor.get(link)
    assert looked.status_code == 200, looked.text
    return visitor.post("/custom/undo", data=hidden(looked.text)).text


def test_any_change_that_still_stands_is_undone_from_its_row(console: RunningConsole, visitor: Visitor) -> None:
    berlin = {**NOTHING, "country": "DE", "city": "Berlin", "latitude": 52.52, "longitude": 13.4}
    with open_editor(console.home) as editor:
        locid = editor.create(name="Office", **berlin)
        with editor.transaction():
            for block in ("12.5.0.0/24", "12.6.0.0/24", "12.7.0.0/24"):
                editor.add_block(locid, block)
        with acting("console", "Anna"):
            editor.update(locid, city="Potsdam", latitude=52.39, longitude=13.06)
        with acting("console", "Bob"):
            editor.update(locid, city="Cottbus")
        editor.replace_block(locid, "12.6.0.0/24", None, "12.8.0.0/24", None)
        editor.rename(locid, "Bureau")
        editor.create(name="Newer", **NOTHING)  # which is what the undo of the last change is about
    page = f"/custom/{locid}"
    named, replaced, bobs, annas, added, created = rows_of(visitor.get(page).text)
    assert not annas["link"]
    assert re.search(r"place changed by Bob \(\w+\), +[-\d]+ [:\d]+ : +undo that first", annas["What"])
    assert bobs["link"].replace("&", "&amp;") + '">undo that first</a>' in visitor.get(page).text
    for row in (named, replaced, bobs, added, created):
        assert row["link"], row["What"]
    assert [row["link"] for row in rows_of(visitor.get("/history?find=Bureau").text)] == [
        row["link"] for row in (named, replaced, bobs, annas, added, created)
    ]
    assert "<h1>Office</h1>" in undone(visitor, named["link"]), "which leads back to the site"
    assert (
        "The very last change was an undo. This is the last one that still stands." in visitor.get("/custom/undo").text
    )
    undone(visitor, bobs["link"])
    rows = rows_of(visitor.get(page).text)
    assert rows[0]["Outcome"].startswith(f"undoes a change by Bob ({who()}), ")
    assert rows[0]["link"], "an undo can be undone"
    assert rows[1]["Outcome"].startswith(f"undoes a change by {who()}, ")
    assert [row["Outcome"].partition(",")[0] for row in rows[2:6]] == [
        f"undone by {who()}", "saved", f"undone by {who()}", "saved"
    ]  # fmt: skip
    assert not rows[4]["link"]
    again = undone(visitor, rows[0]["link"])
    assert "is in Cottbus, DE again" in again
    bobs = rows_of(visitor.get(page).text)[5]
    assert (bobs["Outcome"], bool(bobs["link"])) == ("saved", True), "it stands again"
    undone(visitor, bobs["link"])
    rows = rows_of(visitor.get(page).text)
    undone(visitor, next(row["link"] for row in rows if row["Who"].startswith("Anna")))
    assert not rows_of(visitor.get(page).text)[1]["link"], "what it undid cannot come back before that"
    assert "12.7.0.0/24" in undone(visitor, added["link"])
    with open_editor(console.home) as editor:
        place = editor.get(locid).place
        assert (place.city, place.latitude, place.longitude) == ("Berlin", 52.52, 13.4)
        assert [str(each) for each in place.ipblocks] == ["12.8.0.0-12.8.0.255"], "what came in its place stays"
        assert editor.sites()["Office"] == locid
    last = unescape(visitor.get(rows_of(visitor.get(page).text)[-1]["link"]).text)
    assert "Office is gone again" in last
    assert re.search(r"Office \(-\d+\) goes with what was changed of it since, by .*Anna \(\w+\), Bob", last)


def test_the_page_of_a_deleted_site_says_who_deleted_it_and_brings_it_back(
    console: RunningConsole, visitor: Visitor
) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Doppel", blocks=["12.5.0.0/24"], **{**NOTHING, "country": "NL"})
        editor.delete(locid)
    gone = visitor.get(f"/custom/{locid}")
    assert gone.status_code == 404
    assert "<h1>Doppel</h1>" in gone.text
    deleted, *_, created = rows_of(gone.text)
    assert (deleted["Outcome"], created["link"]) == ("saved", "")
    assert "site deleted by" in created["What"]
    assert f'<a href="/custom/{locid}">Doppel</a>' in visitor.get("/history").text
    assert "Undone: Doppel is there again: NL." in undone(visitor, deleted["link"])
    assert visitor.get(f"/custom/{locid}").status_code == 200
    assert visitor.get("/custom/-77").status_code == 404
    for step in ("x", "4711"):
        assert visitor.get(f"/custom/undo?step={step}").status_code == 409


def test_one_site_of_a_sheet_is_undone_alone(console: RunningConsole, visitor: Visitor) -> None:
    planned = upload(visitor, HEAD + LODZ + LYON)
    visitor.post("/custom/sheet", data={**hidden(planned.text), "step": "apply"})
    (row,) = (each for each in rows_of(visitor.get("/history").text) if each["From"] == "sheet sites.csv")
    with open_editor(console.home) as editor:
        lyon, lodz = editor.sites()["Lyon"], editor.sites()["Łódź office"]
    (alone,) = (each["link"] for each in rows_of(visitor.get(f"/custom/{lyon}").text))
    assert alone == f"{row['link']}&site={lyon}"
    undone(visitor, alone)
    assert "Lyon<" not in visitor.get("/custom").text
    assert [each["Outcome"].partition(" by")[0] for each in rows_of(visitor.get(f"/custom/{lyon}").text)] == [
        "undoes a change", "undone"
    ]  # fmt: skip
    assert rows_of(visitor.get(f"/custom/{lodz}").text)[0]["Outcome"] == "saved"
    undone(visitor, row["link"])
    assert "Łódź office<" not in visitor.get("/custom").text


def test_a_move_is_told_at_both_sites_and_undone_as_a_whole(console: RunningConsole, visitor: Visitor) -> None:
    with open_editor(console.home) as editor:
        new = editor.create(name="Lyon new", blocks=["12.5.0.0/24"], **{**NOTHING, "country": "FR"})
        old = editor.create(name="Lyon old", **{**NOTHING, "country": "FR"})
        with editor.transaction():
            editor.remove_block(new, "12.5.0.0/24")
            editor.add_block(old, "12.5.0.0/24")
    for site, told in ((new, "moved to Lyon old"), (old, "moved from Lyon new")):
        row = rows_of(visitor.get(f"/custom/{site}").text)[0]
        assert told in re.sub(" +", " ", row["What"]), row
        assert "Undo all of it" in row["What"]
    assert "Lyon new answers for 12.5.0.0/24 again" in undone(visitor, row["link"])
    with open_editor(console.home) as editor:
        assert [str(each) for each in editor.get(new).place.ipblocks] == ["12.5.0.0-12.5.0.255"]
        for at in range(3):
            editor.update(new, city=f"Lyon {at}")
        undo(editor, last=2)
    row = rows_of(visitor.get(f"/custom/{new}").text)[0]
    assert row["Outcome"].startswith(f"undoes 2 changes, the last by {who()}, ")


def test_a_part_that_was_undone_is_told_as_a_part(console: RunningConsole, visitor: Visitor) -> None:
    third = "Gdańsk port,PL,PM,Gdańsk,,54.3,18.6,,,12.9.0.0/24\n"
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + LODZ + LYON + third).text), "step": "apply"})
    with open_editor(console.home) as editor:
        names = editor.sites()

    def made() -> dict[str, str]:
        (row,) = (each for each in rows_of(visitor.get("/history").text) if each["From"] == "sheet sites.csv")
        return row

    alone = f"{made()['link']}&site={names['Lyon']}"
    again = visitor.get(alone).text
    undone(visitor, alone)
    assert made()["Outcome"].startswith(f"1 of 3 undone by {who()}, ")
    assert re.search(r"Lyon [^Ł]*undone by", made()["What"])
    assert (made()["What"].count("undone by"), made()["What"].count("Undo this alone")) == (1, 2)
    refused = visitor.post("/custom/undo", data=hidden(again))
    assert (refused.status_code, "Something else was changed meanwhile" in refused.text) == (409, True)
    undid = rows_of(visitor.get("/history").text)[0]
    assert undid["What"].strip().startswith("undone: the site is gone again")
    undone(visitor, undid["link"])
    assert made()["Outcome"] == "saved", "it is there again"
    last = visitor.get(made()["link"]).text
    undone(visitor, made()["link"])
    assert made()["Outcome"].startswith(f"undone by {who()}, ")
    assert "undone by" not in made()["What"]
    refused = visitor.post("/custom/undo", data=hidden(last))
    assert re.search(rf"already undone by {who()}, 20", refused.text)
    all_of_it = rows_of(visitor.get("/history").text)[0]
    assert re.match(r"\s*3 × undone: the site is gone again", all_of_it["What"])
    undone(visitor, f"{all_of_it['link']}&site={names['Łódź office']}")
    back, outcome = (rows_of(visitor.get("/history").text)[at] for at in (0, 1))
    assert back["What"].strip().startswith("undone: the site is there again")
    assert re.match(r"1 of 3 undone by .*undoes a change by ", outcome["Outcome"], re.DOTALL), outcome
    assert made()["Outcome"].startswith(f"2 of 3 undone by {who()}, "), "one is there again"
    assert re.search(r"Łódź office [^L]*undone by \w+, [-:\d ]+; +that was undone by", made()["What"], re.DOTALL)


def test_a_sheet_may_add_and_change_sites_and_leave_the_others_alone(console: RunningConsole, visitor: Visitor) -> None:
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + LODZ + LYON).text), "step": "apply"})
    with open_editor(console.home) as editor:
        editor.put_vrf_place("CUST-A", "Depot", country="DE", blocks=["10.1.0.0/24"])
    new = "Nice,FR,PAC,Nice,,43.7,7.27,,,12.4.0.0/24\n"
    whole = (
        "only add and change. Nothing is changed before you have seen what it would do. The file stays on this machine."
    )
    assert whole in visitor.get("/custom/sheet").text
    planned = upload(visitor, HEAD + LODZ.replace("12.1.0.0/24", "12.1.0.0/25") + new).text
    assert "would be deleted: an earlier sheet had it, and this one does not." in planned
    choice = {**hidden(planned.partition("Only add and change")[0]), "absent": "stay"}
    alone = visitor.post("/custom/sheet", data=choice).text
    assert "Sites that this sheet lacks stay as they are." in alone
    assert "Sites in the file: 2 (1 to create, 1 to change); to delete: 0 of 2" in unescape(alone)
    assert "would be deleted" not in alone
    made = visitor.post("/custom/sheet", data={**hidden(alone), "step": "apply"})
    assert re.search(r'4 changes made from sites.csv: created <a href="/custom/-\d+">Nice</a>\. ', made.text)
    assert '<a href="/custom/undo">Undo it</a>' in made.text
    assert sites(console) == {"Łódź office", "Lyon", "Nice"}
    taken = upload(visitor, HEAD + LODZ.replace("12.1.0.0/24", "12.2.0.0/24"))
    refused = visitor.post("/custom/sheet", data={**hidden(taken.text.partition("Only add")[0]), "absent": "stay"})
    assert (refused.status_code, "12.2.0.0/24 belongs to" in refused.text) == (422, True)
    again = visitor.post("/custom/sheet", data={**hidden(planned.partition("Only add")[0]), "absent": ""})
    assert "not kept any more" in again.text
    back = upload(visitor, HEAD + LODZ)
    alone = visitor.post("/custom/sheet", data={**hidden(back.text.partition("Only add")[0]), "absent": "stay"}).text
    all_of_it = visitor.post("/custom/sheet", data={**hidden(alone.partition("Show the plan that")[0]), "absent": ""})
    assert re.search(r"2 of your \d+ sites would be deleted: an earlier sheet had them", all_of_it.text)
    with open_editor(console.home) as editor, acting("console", "Anna"):
        editor.add_block(editor.sites()["Lyon"], "12.9.0.0/24")
    some = upload(visitor, HEAD + new.replace("12.4.", "12.6."))
    alone = visitor.post("/custom/sheet", data={**hidden(some.text.partition("Only add")[0]), "absent": "stay"}).text
    assert "changes made" in visitor.post("/custom/sheet", data={**hidden(alone), "step": "apply"}).text
    old = upload(visitor, HEAD + LODZ.replace("12.1.0.0/24", "12.1.0.0/25") + LYON + new).text
    assert "Changed since the sheet was made" in old, "the sheet between them said nothing of Lyon"


def form_of_undo(visitor: Visitor) -> dict[str, str]:
    return hidden(visitor.get("/custom/undo").text)


def test_what_a_sheet_did_is_one_row_that_unfolds(console: RunningConsole, visitor: Visitor) -> None:
    many = "".join(f"Row {n},FR,,Lyon,,45.76,4.84,,,12.9.{n}.0/24\n" for n in range(30))
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, HEAD + many).text), "step": "apply"})
    rows = visitor.get("/history").text.partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")
    assert "30 × site created" in rows[0].partition("<summary>")[2].partition("</summary>")[0]
    assert rows[0].count('">Row ') >= 30
    assert ">Row 17<" not in rows[1]


def test_who_changed_what_is_listed_with_the_names(console: RunningConsole, visitor: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Łódź office", **{**NOTHING, "country": "PL"})
        editor.update(locid, city="Łódź")
    text = visitor.get("/history").text
    row = text.partition("<tbody>")[2].partition("</tr>")[0]
    assert "city: - → Łódź" in row
    assert ">Łódź office</a>" in row
    assert "library" in row
    assert "city: - → Łódź" in visitor.get(f"/custom/{locid}").text


def test_sites_and_answers_are_exported(console: RunningConsole, visitor: Visitor, tmp_path: Path) -> None:
    with open_editor(console.home) as editor:
        editor.create(name="Łódź office", blocks=["12.1.0.0/24"], **{**NOTHING, "country": "PL"})
    for name in ("sites.csv", "sites.toml"):
        answer = visitor.get(f"/export/{name}")
        assert answer.headers["content-disposition"] == f'attachment; filename="geolookup-{name}"'
        (tmp_path / name).write_bytes(answer.content)
        assert "Łódź office" in {site.name for site in read_sites(str(tmp_path / name))}
    assert "Names of sites that are there" in upload(visitor, (tmp_path / "sites.csv").read_text("utf-8")).text
    assert b"MaxMind.com" in visitor.get("/export/answers.mmdb").content
    assert "Berlin" in visitor.get("/export/answers.csv").text
    assert visitor.get("/export/nothing").status_code == 404


def test_what_a_licence_forbids_is_not_exported(tmp_path: Path) -> None:
    with RunningConsole(state(tmp_path, redistribute=False)) as running, running.client() as client:
        answer = client.get("/export/answers.mmdb")
        assert (answer.status_code, "licence" in answer.text) == (409, True)


def test_a_backup_is_written_where_it_is_asked_for(console: RunningConsole, visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.get("/backups").text
    assert re.search(r"edits\.backup\.1\.db", page)
    target = tmp_path / "backup.tar.gz"
    answer = visitor.post("/backups", data={**hidden(page), "path": str(target)})
    assert "verified" in answer.text
    with tarfile.open(target) as archive:
        assert archive.getnames()
    wrong = visitor.post("/backups", data={**hidden(page), "path": "backup.tar.gz"})
    assert (wrong.status_code, "give the whole path" in wrong.text) == (422, True)


def test_a_sheet_with_vrfs_is_planned_and_applied(console: RunningConsole, visitor: Visitor) -> None:
    text = "name,country,city,blocks,vrf\nOne,NL,Utrecht,10.1.2.0/24,CUST-A\nTwo,GB,London,10.1.2.0/24,CUST-B\n"
    page = unescape(upload(visitor, text).text)
    assert "Routing domains (VRFs): 2 changes" in page
    assert "create One of the VRF CUST-A: 10.1.2.0/24" in page
    made = visitor.post("/custom/sheet", data={**hidden(page), "step": "apply"})
    assert "2 changes made from sites.csv" in unescape(made.text)
    with open_editor(console.home) as editor:
        assert editor.vrfs() == ["CUST-A", "CUST-B"]
        assert editor.vrf_places("CUST-B")["Two"].city == "London"
    again = upload(visitor, text)
    assert "nothing to change" in again.text
    more = f"{text}Three,FR,Paris,10.9.0.0/24,\n".replace("10.1.2.0/24,CUST-A", "10.1.3.0/24,CUST-A")
    visitor.post("/custom/sheet", data={**hidden(upload(visitor, more).text), "step": "apply"})
    asked = visitor.get("/custom/undo").text
    assert "Undo it for 2 sites (1, and 1 in VRFs)" in asked
    assert all(told in asked for told in ("Three is gone again", "One of the VRF CUST-A is as it was before"))


def test_a_sheet_of_one_vrf_is_told_which(console: RunningConsole, visitor: Visitor) -> None:
    sent = visitor.post(
        "/custom/sheet",
        data={**hidden(visitor.get("/custom/sheet").text), "vrf": "CUST-C"},
        files={"file": ("sites.csv", b"name,country,city,blocks\nOne,NL,Utrecht,10.1.2.0/24\n")},
    )
    assert "create One of the VRF CUST-C" in sent.text
    visitor.post("/custom/sheet", data={**hidden(sent.text), "step": "apply"})
    with open_editor(console.home) as editor:
        assert list(editor.vrf_places("CUST-C")) == ["One"]


@pytest.mark.parametrize("zipped", [False, True])
def test_the_lists_of_netbox_are_chosen_at_once(
    console: RunningConsole, browser: Any, tmp_path: Path, zipped: bool
) -> None:
    folder = exported(tmp_path, ranges=None, addresses=None)
    chosen = sorted(folder.iterdir())
    if zipped:
        archive = Path(shutil.make_archive(str(tmp_path / "lists"), "zip", folder))
        chosen = [archive]
    tab = console.tab(browser).page()
    tab.goto(f"{console.url}/custom/sheet")
    tab.get_by_label("Your sheet").set_input_files(chosen)
    tab.get_by_role("button", name="Show what it would change").click()
    assert "read as the export of prefixes" in tab.get_by_role("region", name="How it is read").inner_text()
    assert str(tmp_path) not in tab.content()
    tab.get_by_role("button", name="Make these changes").click()
    assert "changes made from" in tab.get_by_role("status").first.inner_text()
    with open_editor(console.home) as editor:
        there = read_exports([str(folder)], Settings(), Problems())
        assert {site.name for site in there.sites if not site.vrf} <= set(editor.sites())
        assert editor.vrfs() == sorted({site.vrf for site in there.sites if site.vrf})


def test_an_export_that_is_missing_is_named(visitor: Visitor, tmp_path: Path) -> None:
    folder = exported(tmp_path)
    answer = visitor.post(
        "/custom/sheet",
        data=hidden(visitor.get("/custom/sheet").text),
        files=[("file", (name, (folder / name).read_bytes())) for name in ("prefixes.csv", "ranges.csv")],
    )
    assert answer.status_code == 422
    assert "prefixes.csv, ranges.csv: the export of sites is missing" in unescape(answer.text)


def test_all_that_is_wrong_in_a_sheet_is_said_at_once(
    console: RunningConsole, visitor: Visitor, tmp_path: Path
) -> None:
    head = "name,country,city,latitude,longitude,networks,vrf\n"
    rows = (
        "A,Atlantis,Poseidonis,1,2,12.40.0.0/24,\n"
        "B,FR,Lyon,195,4,12.41.0.0/24,\n"
        "C,FR,Lyon,45,4,12.42.0.1/24,\n"
        "D,FR,Lyon,45,4,12.43.0.0/24,lab\n"
        "E,Lemuria,Lyon,45,4,12.44.0.0/24,lab\n"
    )
    answer = upload(visitor, head + rows, "sites.csv")
    assert answer.status_code == 422
    text = unescape(answer.text)
    alert = text.partition('role="alert"')[2]
    assert [*dict.fromkeys(re.findall(r"sites.csv, line (\d)", alert))] == ["4", "6", "2", "3"]
    assert all(word in alert for word in ("host bits", "Lemuria", "Atlantis", "195"))
    path = written(tmp_path / "sites.csv", head + rows)
    with open_editor(console.home) as editor:
        for make in (plan_all, partial(apply_all, file="sites.csv", guard=None)):
            problems = Problems()
            parts = parts_of(editor, read_sites(str(path), problems=problems), None, "")
            with pytest.raises(DataFileError) as caught:
                make(editor, parts, *([Settings()] if make is plan_all else []), problems=problems)
            assert all(word in str(caught.value) for word in ("host bits", "Lemuria", "Atlantis", "195"))
