"""The page Look up in a routing domain (VRF)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from geolookup.console.console import Console
from geolookup.settings.table import Settings
from geolookup.state.publishing import archive
from geolookup.state.publishing.directory import StateDirectory
from tests.support.data.states import place, publish
from tests.support.users.running_console import RunningConsole, Visitor, hidden


def test_a_state_without_vrfs_does_not_offer_them(mine: Visitor) -> None:
    assert "Routing domain" not in mine.get("/?q=10.20.0.1").text


def test_an_address_is_looked_up_in_the_vrf_that_is_chosen(console: RunningConsole, mine: Visitor) -> None:
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
    console.console.editor().put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    text = mine.get("/?q=10.20.0.1&vrf=CUST-A").text
    assert "Utrecht, NL" in text
    assert "<option selected>CUST-A</option>" in text
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
    assert "no VRF is named" in mine.get("/?q=10.20.0.1&vrf=CUST-B").text


def test_the_answer_of_a_vrf_names_it_with_its_site_and_its_reason(console: RunningConsole, mine: Visitor) -> None:
    editor = console.console.editor()
    editor.create(name="Hamburg office", country="DE", city="Hamburg", blocks=["10.20.0.0/20"])
    editor.put_vrf_place("CUST-N", "Utrecht office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    text = mine.get("/?q=10.20.0.1&vrf=CUST-N").text
    assert "Utrecht office</a><br>" in text
    assert "<dt>Routing domain (VRF)</dt><dd>CUST-N</dd>" in text
    assert "a network of the VRF CUST-N comes before all others" in text
    assert "your site in CUST-N" in text
    locid = editor.vrf_places("CUST-N")["Utrecht office"].locid
    assert f'<a class="button" href="/custom/{locid}/update">Correct this site</a>' in text
    assert "vrf=CUST-N" in text.split("New site for these addresses")[0].rsplit("href=", 1)[1]
    beside = mine.get("/?q=10.20.1.1&vrf=CUST-N").text
    assert "Hamburg office</a><br>" in beside
    assert "Correct this" in beside
    assert "<dt>Routing domain (VRF)</dt>" not in beside
    pieces = mine.get("/?q=10.20.0.0/20&vrf=CUST-N").text
    assert "Utrecht office: Utrecht, NL" in pieces
    assert "&amp;vrf=CUST-N" in pieces
    assert "vrf=CUST-N" in pieces.split("New site for these addresses")[0].rsplit("href=", 1)[1]


def test_the_vrf_of_the_settings_is_chosen_until_another_is(
    console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.console.editor().put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    settings = msgspec.structs.replace(console.console.settings(), vrf="CUST-A")
    monkeypatch.setattr(console.console, "settings", lambda: settings)
    text = mine.get("/?q=10.20.0.1").text
    assert "Utrecht, NL" in text
    assert "<option selected>CUST-A</option>" in text
    none = mine.get("/?q=10.20.0.0/16&vrf=").text
    assert "Utrecht" not in none
    assert "&amp;vrf=&amp;" in none or '&amp;vrf="' in none


def test_sites_of_vrfs_are_in_the_list_and_have_a_page_and_are_found_by_name(
    console: RunningConsole, mine: Visitor
) -> None:
    editor = console.console.editor()
    fields: Any = {"country": "PL", "city": "Łódź", "time_zone": "Europe/Warsaw", "blocks": ["10.78.0.0/24"]}
    locid = editor.put_vrf_place("CUST-L", "Hall of Łódź", **fields)
    text = mine.get("/custom").text
    assert "in routing domains (VRFs), which answer only there" in text
    assert f'<a href="/custom/{locid}">Hall of Łódź</a> <span class="mark">VRF CUST-L</span>' in text
    assert "Hall of Łódź" in mine.get("/custom", params={"within": "vrf:CUST-L"}).text
    assert "Hall of Łódź" not in mine.get("/custom", params={"within": "global"}).text
    found = mine.get("/", params={"q": "hall of łódź", "vrf": ""})
    assert found.url.path == f"/custom/{locid}"
    for asked in ("hall of lodz", "lodz", "Poland", "Polen"):
        assert "Hall of Łódź" in mine.get("/", params={"q": asked, "vrf": ""}).text, asked
        assert "Hall of Łódź" in mine.get("/custom", params={"find": asked}).text, asked
    told = f'In the routing domain CUST-L it is of your site <a href="/custom/{locid}">Hall of Łódź</a>.'
    assert told in mine.get("/?q=10.78.0.9&vrf=").text
    assert told not in mine.get("/?q=10.78.0.9&vrf=CUST-L").text
    assert told not in mine.get("/?q=10.78.1.9&vrf=").text
    page = mine.get(f"/custom/{locid}").text
    assert "<dt>Time zone</dt><dd>Europe/Warsaw</dd>" in page
    assert "VRF CUST-L" in page
    assert "10.78.0.0/24" in page
    assert '<div>site created<span class="under long">+10.78.0.0/24</span>' in page
    assert "/replace-block" not in page
    assert mine.get(f"/custom/{locid}/add-block").status_code == 404
    assert "of routing domains (VRFs), which are not on the map" in mine.get("/map?find=hall of").text
    assert "Hall of Łódź of the VRF CUST-L" in mine.get("/history?find=hall of").text
    assert "/export/sites.csv?vrf=CUST-L" in mine.get("/export").text
    answer = mine.get("/export/sites.csv?vrf=CUST-L")
    assert answer.headers["content-disposition"] == 'attachment; filename="geolookup-sites-CUST-L.csv"'
    assert answer.content.startswith("\ufeff".encode()), "for Excel"
    sheet = answer.text
    assert "Hall of Łódź" in sheet
    assert "Berlin" not in sheet
    assert "of them in routing domains (VRFs)" in mine.get("/").text


def test_a_site_of_a_vrf_is_made_changed_renamed_and_deleted_with_a_preview_within_its_vrf(
    console: RunningConsole, mine: Visitor
) -> None:
    editor, before = console.console.editor(), console.content()
    typed = {"name": "Lab one", "country": "FR", "city": "Lyon", "vrf": "CUST-E", "block": "10.20.100.0/24, 10.79.0.1",
             "latitude": "45,76", "longitude": "4.83", "time_zone": "Europe/Paris"}  # fmt: skip
    looked = mine.fill("/custom/create", **typed, step="check").text
    assert "The answer of 257 addresses would change" in looked
    assert "Berlin, DE" in looked, "the global table answers in a VRF that has no block there"
    assert editor.vrf_places("CUST-E") == {}
    made = mine.save("/custom/create", **typed)
    assert made.history, made.text
    place = editor.vrf_places("CUST-E")["Lab one"]
    assert (place.city, place.latitude, len(place.ipblocks)) == ("Lyon", 45.76, 2)
    assert editor.vrf_time_zones("CUST-E") == {"Lab one": "Europe/Paris"}
    again = mine.fill("/custom/create", **typed, step="check")
    assert "the VRF CUST-E has a site &#39;Lab one&#39; already" in again.text
    path = f"/custom/{place.locid}/update"
    assert "10.20.100.0/24\n10.79.0.1</textarea>" in mine.get(path).text
    assert "Optional." not in mine.get(path).text.partition('id="name-hint"')[2].partition("</p>")[0]
    change = {**typed, "name": "Lab two", "city": "Nice", "block": "10.20.100.0/25"}
    del change["vrf"]
    looked = mine.fill(path, **change, step="check").text
    assert "The answer of 257 addresses would change" in looked
    assert mine.save(path, **change).history
    (name, place), *others = editor.vrf_places("CUST-E").items()
    assert (name, place.city, others) == ("Lab two", "Nice", [])
    assert mine.save(f"/custom/{place.locid}/update", **{**change, "city": "Cannes"}).history
    back = mine.get("/history").text.split("Undo this")[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert "Lab two of the VRF CUST-E is as it was before" in mine.get(back).text
    assert "Lab two" in mine.get(f"/custom/{place.locid}/delete").text
    assert mine.save(f"/custom/{place.locid}/delete").history
    assert editor.vrf_places("CUST-E") == {}
    assert console.content() == before, "no site of the global table, and nothing to send"


def test_a_form_of_a_site_of_a_vrf_that_was_overtaken_saves_nothing(console: RunningConsole, mine: Visitor) -> None:
    editor = console.console.editor()
    locid = editor.put_vrf_place("CUST-O", "Store", country="NL", city="Utrecht", blocks=["10.80.0.0/24"])
    page = mine.fill(
        f"/custom/{locid}/update", name="Store", country="NL", city="Delft", block="10.80.0.0/24", step="check"
    )
    editor.put_vrf_place(
        "CUST-O", "Store", time_zone="Europe/Amsterdam", country="NL", city="Utrecht", blocks=["10.80.0.0/24"]
    )
    form = {
        **hidden(page.text),
        "name": "Store",
        "country": "NL",
        "city": "Delft",
        "block": "10.80.0.0/24",
        "step": "save",
    }
    answer = mine.post(f"/custom/{locid}/update", data=form)
    assert answer.status_code == 409
    assert "It was changed meanwhile" in answer.text
    assert editor.vrf_places("CUST-O")["Store"].city == "Utrecht"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"name": "", "vrf": "X"}, "needs a name"),
        ({"name": "", "time_zone": "Europe/Berlin"}, "needs a name"),
        ({"name": "A", "time_zone": "Europe/Berln"}, "is it Europe/Berlin?"),
        ({"name": "A", "vrf": "X\u202e"}, "site&#39;s name is one line"),
    ],
)
def test_a_wrong_time_zone_or_routing_domain_is_said_beside_its_field(
    mine: Visitor, unharmed: None, typed: dict[str, str], told: str
) -> None:
    answer = mine.fill("/custom/create", country="DE", **typed, step="check")
    assert answer.status_code == 422
    assert told in answer.text.split('<form method="post"')[1]


def test_the_time_zone_of_a_site_is_typed_shown_changed_and_in_the_history(
    console: RunningConsole, mine: Visitor
) -> None:
    rome = {"name": "Rome office", "country": "IT", "city": "Rome", "latitude": "41.9", "longitude": "12.5"}
    made = mine.save("/custom/create", **rome, time_zone="Europe/Rome")
    assert made.history, made.text
    path = made.url.path
    assert "<dt>Time zone</dt><dd>Europe/Rome</dd>" in mine.get(path).text
    assert 'name="time_zone" value="Europe/Rome"' in mine.get(f"{path}/update").text
    del rome["name"]
    saved = mine.save(f"{path}/update", **rome, time_zone="Europe/Malta")
    assert saved.history, saved.text
    assert console.console.editor().time_zones()["Rome office"] == "Europe/Malta"
    for page in (path, "/history"):
        text = mine.get(page).text
        assert "time zone of Rome office: Europe/Rome → Europe/Malta" in text
        assert "time zone of Rome office: - → Europe/Rome" in text
        assert "<div>time zone changed" in text
        assert '<div>named<span class="under long">Rome office</span>' in text
    mine.save(f"{path}/delete")


def test_the_history_names_the_site_of_a_vrf_and_leads_to_its_page(console: RunningConsole, mine: Visitor) -> None:
    locid = console.console.editor().put_vrf_place("CUST-H", "Hall 7", country="NL", blocks=["10.77.0.0/24"])
    text = mine.get("/history").text
    assert f'<a href="/custom/{locid}">Hall 7 of the VRF CUST-H</a>' in text
    assert "site created" in text
    assert mine.get(f"/custom/{locid}").status_code == 200


def test_sites_of_vrfs_are_those_of_the_state_that_was_restored(home: str, tmp_path: Path) -> None:
    publish(home, [place(1, "8.8.8.0/24")])
    console, file = Console(Settings, home=home), str(tmp_path / "backup.tar.gz")
    console.editor().put_vrf_place("CUST-A", "store", country="NL", city="Leiden", blocks=["10.30.0.0/24"])
    archive.backup(StateDirectory(home), file)
    for city, edits in (("Utrecht", 2), ("Delft", 1)):  # a restore counts as one
        for blocks in (["10.20.0.0/25"], ["10.20.0.0/24"])[-edits:]:
            console.editor().put_vrf_place("CUST-A", "office", country="NL", city=city, blocks=blocks)
        assert {laid.place.city for laid in console.layer().of_vrfs} == {"Leiden", city}
        archive.restore(file, home, replace=True)
