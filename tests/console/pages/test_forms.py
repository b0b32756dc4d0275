"""The form of a site: a city is picked, all that is wrong is said at once beside its field, and Back keeps it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from geolookup.sync.opening import open_editor
from tests.console.many import many
from tests.support.users.browser import settled
from tests.support.users.running_console import RunningConsole, Visitor, hidden


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console whose source has a few cities of the world."""
    home, settings = many(tmp_path_factory.mktemp("forms"), count=3)
    with RunningConsole(home, settings=lambda: settings) as running:
        yield running


def test_a_city_is_picked_and_a_site_made_by_the_keyboard_alone(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom/create")
    tab.get_by_label("Name").focus()
    tab.keyboard.type("Our new office in Lyon")
    tab.keyboard.press("Tab")
    tab.keyboard.type("lyo")
    city = tab.get_by_role("combobox", name="City")
    tab.get_by_role("option", name="Lyon, ARA, 69001, FR").wait_for()
    assert city.get_attribute("aria-expanded") == "true"
    tab.keyboard.press("Escape")
    assert (city.get_attribute("aria-expanded"), tab.get_by_role("option").count()) == ("false", 0)
    tab.keyboard.press("Backspace")
    tab.get_by_role("option", name="Lyon, ARA, 69001, FR").wait_for()
    tab.keyboard.press("ArrowDown")
    assert city.get_attribute("aria-activedescendant") == "city-1"
    tab.keyboard.press("Enter")
    assert tab.get_by_label("Country").input_value() == "FR"
    assert tab.get_by_label("Latitude").input_value() == "45.76"
    tab.get_by_label("Networks").focus()
    tab.keyboard.type("10.99.0.0-10.99.0.29")
    tab.keyboard.press("Enter")
    tab.keyboard.type("10.98.0.0/24")
    tab.get_by_role("button", name="Show whose answer would change").focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("region", name="Whose answer would change").get_by_text("286 IPv4").wait_for()
    settled(tab)
    tab.get_by_role("button", name="Create this site").focus()
    tab.keyboard.press("Enter")
    tab.get_by_role("heading", level=1, name="Our new office in Lyon").wait_for()
    with open_editor(console.home) as editor:
        place = editor.get(editor.sites()["Our new office in Lyon"]).place
    assert (place.city, place.country, len(place.ipblocks)) == ("Lyon", "FR", 2)


def test_without_scripts_a_place_gets_the_coordinates_of_its_city(console: RunningConsole, mine: Visitor) -> None:
    mine.save("/custom/create", name="Bare", country="PL", city="łódź", block="10.97.0.0/24")
    with open_editor(console.home) as editor:
        assert editor.get(editor.sites()["Bare"]).place.latitude == 51.77


def test_without_scripts_a_city_is_picked_from_a_list(mine: Visitor) -> None:
    offered = mine.fill("/custom/create", name="Kept", city="BER", step="city").text
    assert re.findall(r'value="(city \d)">([^<]*)<', offered) == [("city 0", "Berlin, BE, 10115, DE")]
    picked = mine.fill("/custom/create", name="Kept", city="ber", step="city 0").text
    values = dict(re.findall(r'<input id="(\w+)" name="\w+" value="([^"]*)"', picked))
    assert [values[name] for name in ("name", "city", "country", "latitude")] == ["Kept", "Berlin", "DE", "52.52"]
    assert "No source has coordinates" in mine.fill("/custom/create", city="Nowhere", step="city").text


@pytest.mark.parametrize("country", ["fr", "France", "Frankreich", "フランス"])
def test_a_country_may_be_named(mine: Visitor, country: str) -> None:
    looked = mine.fill("/custom/create", country=country, city="Lyon", block="10.92.0.0/24", step="check").text
    assert "Lyon, FR" in looked.partition('data-label="To"')[2].partition("</td>")[0]


def test_the_picker_knows_accents_and_passes_signs_over(mine: Visitor) -> None:
    assert "Łódź, LD, 90-001, PL" in mine.get("/cities?city=łód").text
    assert "Berlin, BE, 10115, DE" in mine.get("/cities?city=Bérl").text, "the source writes no accent"
    assert "Łódź, LD, 90-001, PL" in mine.get("/cities?city=lod").text, "nobody else begins so"
    mine.save("/custom/create", name="Ours", country="PL", city="Kraków", latitude="50.06", longitude="19.94")
    assert "Kraków, PL (as of your own sites)" in mine.get("/cities?city=krak").text
    assert mine.get("/cities?city=Berl").text.count("<li") == 1, "a source knows it"
    for text in ("%", "_", "\\", "'", "Nowhere"):
        assert "data-fill" not in mine.get("/cities", params={"city": text}).text
    assert "<li" not in mine.get("/cities?city=").text


def test_a_comma_is_read_as_the_decimal_sign(console: RunningConsole, mine: Visitor) -> None:
    fields = {"name": "Bonn", "country": "DE", "city": "Bonn", "latitude": "50,73", "longitude": "7,1"}
    assert 'value="50,73"' in mine.fill("/custom/create", **fields, step="check").text
    told = mine.save("/custom/create", **fields)
    with open_editor(console.home) as editor:
        locid = editor.sites()["Bonn"]
        assert (editor.get(locid).place.latitude, editor.get(locid).place.longitude) == (50.73, 7.1)
    assert told.url.path == f"/custom/{locid}"


def test_all_that_is_wrong_is_said_at_once_each_beside_its_field(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom/create")
    typed = {"Name": "Köln", "Country": "Germanland", "Latitude": "north", "Longitude": "7", "Networks": "10.0.0.1/8"}
    for label, text in typed.items():
        tab.get_by_label(label).fill(text)
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_text("Nothing was saved. Look at Country, Latitude and Networks.").wait_for()
    tab.get_by_role("link", name="Networks").click()
    assert tab.evaluate("location.hash") == "#block"
    for label, said in {"Country": "two letters", "Latitude": "north", "Networks": "10.0.0.0/8"}.items():
        field = tab.get_by_label(label)
        assert field.get_attribute("aria-invalid") == "true"
        (wrong,) = [each for each in field.get_attribute("aria-describedby").split() if each.endswith("-wrong")]
        assert said in tab.locator(f"#{wrong}").inner_text()
    for label, text in typed.items():
        assert tab.get_by_label(label).input_value() == text
    assert tab.locator("[aria-invalid]").count() == 3


def test_a_pasted_list_is_read_with_any_sign_between(console: RunningConsole, mine: Visitor) -> None:
    pasted = "10.96.0.1\r\n10.96.0.3 10.96.0.5;10.96.0.7,\t10.96.0.1\r\n10.96.0.16 - 10.96.0.17\r\n"
    fields = {"name": "Pasted", "country": "FR", "city": "Lyon", "block": pasted}
    looked = mine.fill("/custom/create", **fields, step="check")
    assert "Nothing is saved yet. The answer of 6 addresses would change" in looked.text
    assert f">\n{pasted}</textarea>".replace("\r", "") in looked.text.replace("\r", "")
    mine.save("/custom/create", **fields)
    with open_editor(console.home) as editor:
        assert len(editor.get(editor.sites()["Pasted"]).place.ipblocks) == 5


def test_a_list_with_wrong_lines_names_each_of_them(mine: Visitor) -> None:
    block = "10.95.0.1\n10.95.0.256\n10.95.1.0 255.255.255.0\nLyon"
    answer = mine.fill("/custom/create", name="Wrong lines", country="FR", city="Lyon", block=block, step="check")
    assert answer.status_code == 422
    for said in ("10.95.0.256", "write 10.95.1.0/24", "Lyon"):
        assert said in answer.text.partition('id="block-wrong"')[2]


def test_a_city_that_is_typed_and_not_picked_offers_its_coordinates(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        place = {"country": "PL", "region": "LD", "city": "Łódź", "latitude": 51.77, "longitude": 19.46}
        locid = editor.create(name="Moves", blocks=["10.94.0.0/24"], **place)  # type: ignore[arg-type]
    path, typed = f"/custom/{locid}/update", {name: str(value) for name, value in place.items()}
    typed |= {"city": "lyon", "country": "FR", "postalcode": "", "dmacode": "", "areacode": ""}
    looked = mine.fill(path, **typed, step="check").text
    assert "The coordinates stay as before: 51.77, 19.46. Lyon, ARA, 69001, FR is at 45.76, 4.84." in looked
    assert "Take 45.76, 4.84" in looked
    taken = mine.fill(path, **typed, step="instead").text
    assert "stay as before" not in taken
    values = dict(re.findall(r'<input id="(\w+)" name="\w+" value="([^"]*)"', taken))
    assert [values[name] for name in ("city", "region", "latitude", "longitude")] == ["Lyon", "ARA", "45.76", "4.84"]
    changed = taken.partition('data-label="From"')[2].partition("</tr>")[0]
    assert 'Łódź, LD, PL<span class="under">Moves: 51.77, 19.46</span>' in changed
    assert '<span class="under">Moves: 45.76, 4.84</span>' in changed
    assert "stay as before" not in mine.fill(path, **{**typed, "latitude": "45.8"}, step="check").text
    unknown = mine.fill(path, **{**typed, "city": "Nowhere"}, step="check").text
    assert "The coordinates stay as before: 51.77, 19.46. Change them too if the place moved." in unknown


def test_the_preview_of_a_new_site_calls_it_by_its_name(mine: Visitor) -> None:
    fields = {"name": "Not there yet", "country": "FR", "city": "Lyon", "block": "10.93.0.0/24"}
    looked = mine.fill("/custom/create", **fields, step="check").text
    assert '<span class="under">Not there yet: 45.76, 4.84</span>' in looked


def test_back_keeps_what_was_typed(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom/create")
    tab.get_by_label("Name").fill("Half typed")
    tab.get_by_label("Latitude").fill("50,7")
    tab.get_by_label("Networks").fill("10.0.0.1\n10.0.0.2")
    tab.get_by_role("navigation", name="Pages").get_by_role("link", name="Sites").click()
    tab.get_by_role("heading", level=1, name="Sites").wait_for()
    tab.go_back()
    tab.get_by_role("heading", level=1, name="New site").wait_for()
    assert tab.get_by_label("Name").input_value() == "Half typed"
    assert tab.get_by_label("Latitude").input_value() == "50,7"
    assert tab.get_by_label("Networks").input_value() == "10.0.0.1\n10.0.0.2"
    tab.goto(f"{console.url}/custom/create")
    assert tab.get_by_label("Name").input_value() == ""


def test_the_name_of_a_person_is_changed_in_the_midst_of_a_form(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom/create?country=FR")
    assert tab.evaluate("document.activeElement.id") == "name"
    tab.keyboard.type("Half typed")
    tab.get_by_role("link", name="Change this").click()
    tab.get_by_label("Your name").fill("Dora")
    tab.get_by_role("button", name="Save this name").click()
    tab.get_by_text("The history calls you Dora").wait_for()
    assert tab.get_by_label("Name").input_value() == "Half typed"
    assert tab.get_by_label("Country").input_value() == "FR"


@pytest.mark.parametrize("back", ["//elsewhere.example/", "https://elsewhere.example/", "/\\elsewhere.example"])
def test_the_form_of_a_name_leads_to_no_other_host(mine: Visitor, back: str) -> None:
    assert "elsewhere" not in mine.get("/name", params={"back": back}).text.partition("<footer")[0]
    answer = mine.post(
        "/name", data={**hidden(mine.get("/name").text), "back": back, "name": "x"}, follow_redirects=False
    )
    assert answer.headers["location"].startswith("/?told=")


def test_a_name_that_is_taken_is_refused(mine: Visitor) -> None:
    (name,) = re.findall(r">(Łódź, ulica[^<]*)</a>", mine.get("/custom?within=global").text)[:1]
    fields = {"name": name, "country": "PL", "latitude": "51", "longitude": "19"}
    answer = mine.fill("/custom/create", **fields, step="check")
    assert (answer.status_code, "there is a site" in answer.text) == (422, True)


def test_sources_are_added_moved_and_removed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, settings = many(tmp_path, count=1)
    table = settings.sources[0].location
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "settings.toml"))
    with RunningConsole(home) as running, running.client() as client:

        def order() -> list[str]:
            return [source.name for source in running.console.settings().stack]

        form = client.get("/sources/add").text
        for name, position in (("below", "last"), ("above", "first"), ("between", "last")):
            sent = {**hidden(form), "location": str(table), "name": name, "position": position}
            assert f"{name} is added" in client.post("/sources/add", data=sent).text
        assert order() == ["above", "below", "between"]
        wrong = client.post("/sources/add", data={**hidden(form), "location": "dbip-city-lit"})
        assert (wrong.status_code, "did you mean dbip-city-lite?" in wrong.text) == (422, True)
        assert 'value="dbip-city-lit"' in wrong.text
        assert (
            "above moved down" in client.post("/sources", data={**hidden(form), "name": "above", "step": "down"}).text
        )
        assert order() == ["below", "above", "between"]
        client.post("/sources", data={**hidden(form), "name": "above", "step": "down"})
        client.post("/sources", data={**hidden(form), "name": "between", "step": "up"})
        assert order() == ["between", "below", "above"]
        assert client.get("/sources/remove?name=nobody").status_code == 409
        asked = client.get("/sources/remove?name=below").text
        assert "Remove the source below?" in asked
        assert (
            "below is removed"
            in client.post("/sources", data={**hidden(asked), "name": "below", "step": "remove"}).text
        )
        assert order() == ["between", "above"]
        told = client.get("/history").text
        assert told.count("sources changed") == 6, "there were no settings before the first"
        assert "above, below, between → below, above, between" in told
        assert client.post("/sources", data={**hidden(form), "name": "below", "step": "up"}).status_code == 409


def test_a_name_that_no_country_has_and_half_of_a_point_are_called_so(mine: Visitor) -> None:
    answer = mine.fill("/custom/create", country="Atlantis", latitude="50", step="check")
    text = unescape(answer.text)
    assert "no country is called 'Atlantis': write its code of two letters, such as DE" in text
    assert "longitude is missing: a place has both coordinates or none" in text


def test_a_point_far_from_its_country_is_doubted_before_it_is_saved(mine: Visitor) -> None:
    far = {"country": "PL", "city": "Kraków", "latitude": "50.11", "longitude": "8.68", "block": "12.90.0.0/24"}
    assert (
        "50.11, 8.68 is far from Poland (PL): is that meant?" in mine.fill("/custom/create", **far, step="check").text
    )
    near = mine.fill("/custom/create", **{**far, "longitude": "19.94"}, step="check").text
    assert "is that meant" not in near


def test_a_city_typed_over_the_one_that_was_given_has_not_its_coordinates(mine: Visitor) -> None:
    path = "/custom/create?city=Berlin&country=DE&latitude=52.52&longitude=13.4"
    given = {"country": "DE", "latitude": "52.52", "longitude": "13.4", "block": "11.86.0.1"}
    same = mine.fill(path, **given, city="Berlin", step="check").text
    assert "still those of" not in same
    typed = unescape(mine.fill(path, **given, city="lyon", step="check").text)
    assert "The coordinates are still those of Berlin. Lyon, ARA, 69001, FR is at 45.76, 4.84." in typed
    assert "Take Lyon, ARA, 69001, FR" in typed
    taken = unescape(mine.fill(path, **given, city="lyon", step="instead").text)
    assert 'name="country" value="FR"' in taken
    assert 'name="latitude" value="45.76"' in taken
    assert "still those of" not in taken
    unknown = unescape(mine.fill(path, **given, city="Nowhere", step="check").text)
    assert "still those of Berlin. Change them, too, unless they are meant." in unknown
