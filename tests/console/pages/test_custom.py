"""The page Custom: the table, one geolocation, and every edit, shown before it is saved."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from geolookup.console.console import Console
from geolookup.settings.table import Settings
from geolookup.state.edits.session import EditSession
from geolookup.sync.opening import open_editor
from tests.support.data.two_sources import NOTHING, state
from tests.support.users.browser import settled
from tests.support.users.running_console import RunningConsole, Visitor, hidden


def new(console: RunningConsole, block: str | None = None, **fields: Any) -> int:
    """A geolocation, made as a command makes it."""
    with open_editor(console.home) as editor:
        locid = editor.create(**{**NOTHING, "city": "Oldtown", **fields})
        if block is not None:
            editor.add_block(locid, block)
    return locid


def test_a_person_makes_a_geolocation_and_sees_first_what_it_changes(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom")
    tab.get_by_role("link", name="New site").click()
    tab.get_by_label("City").fill("Potsdam")
    tab.get_by_label("Country").fill("DE")
    tab.get_by_label("Latitude").fill("52.4")
    tab.get_by_label("Longitude").fill("13.0")
    tab.get_by_label("Networks").fill("9.0.0.0/25")
    tab.get_by_role("button", name="Show whose answer would change").click()
    changes = tab.get_by_role("region", name="Whose answer would change")
    assert "Addresses whose answer differs: 128 IPv4, 0 IPv6." in changes.inner_text()
    row = changes.get_by_role("row").nth(1).inner_text()
    assert re.search(
        r"München, Bayern, 80331, DE\s+city: [\d., ]+\s+Potsdam, DE\s+your site: 52.4, 13.0\s+128\s+0\s+9.0.0.0/25", row
    )
    assert console.console.geo().match("9.0.0.1").geolocation.city == "München"  # type: ignore[union-attr]
    tab.get_by_role("button", name="Create this site").click()
    assert re.search(
        r"Created Potsdam, DE. Potsdam, DE now answers for 128 addresses: 9.0.0.0/25.",
        tab.get_by_role("status").inner_text(),
    )
    assert console.console.geo().match("9.0.0.1").geolocation.city == "Potsdam"  # type: ignore[union-attr]
    assert tab.get_by_role("heading", level=1).inner_text() == "Potsdam, DE"


def test_the_same_form_sent_twice_makes_one(console: RunningConsole, mine: Visitor) -> None:
    fields = {"country": "FR", "city": "Twice", "latitude": "1", "longitude": "2"}
    looked = mine.fill("/custom/create", **fields, step="check")
    sent = {**hidden(looked.text), **fields, "step": "save"}
    first, second = mine.post("/custom/create", data=sent), mine.post("/custom/create", data=sent)
    assert first.url.path == second.url.path
    with open_editor(console.home) as editor:
        assert [laid.place.city for laid in editor.custom()].count("Twice") == 1


def test_a_country_in_small_letters_is_kept_in_capitals(console: RunningConsole, mine: Visitor) -> None:
    mine.save("/custom/create", country="fr", city="Small", latitude="47", longitude="2")
    with open_editor(console.home) as editor:
        (found,) = [laid.place for laid in editor.custom() if laid.place.city == "Small"]
        assert found.country == "FR"
    mine.save(f"/custom/{found.locid}/update", country="ad", city="Small", latitude="47", longitude="2")
    with open_editor(console.home) as editor:
        assert editor.get(found.locid).place.country == "AD"


def test_an_unknown_country_and_swapped_coordinates_are_refused_as_by_the_commands(
    console: RunningConsole, mine: Visitor
) -> None:
    before = len(console.console.layer().laid)
    locid = new(console)
    for path in ("/custom/create", f"/custom/{locid}/update"):
        for fields, said in (
            ({"country": "Germanland", "latitude": "52.5", "longitude": "13.4"}, "two letters"),
            ({"country": "DE", "latitude": "13.4", "longitude": "52.5"}, "latitude and longitude"),
        ):
            for step in ("check", "save"):
                answer = mine.fill(path, city="Nowhere", **fields, step=step)
                assert answer.status_code == 422, (path, fields)
                assert said in answer.text
                assert 'value="Nowhere"' in answer.text
    # What is there already may stay: only what was changed is looked at.
    with open_editor(console.home) as editor:
        fields = {**NOTHING, "city": "Oldtown", "country": "Germany"}  # as an earlier version took it
        old = editor.sessions.edit(EditSession.create, fields)
    fields = {**dict.fromkeys(NOTHING, ""), "latitude": "1.5", "longitude": "2.5", "country": "Germany", "city": "Y"}
    assert (
        "The site is now in Y, Germany (before: Oldtown, Germany)." in mine.save(f"/custom/{old}/update", **fields).text
    )
    assert len(console.console.layer().laid) == before + 2


def test_fields_are_changed_and_what_no_browser_can_send_stays(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console, city="Old\ntown", region="<b>\u202e\u2066", dmacode="7")
    path = f"/custom/{locid}/update"
    page = mine.get(path).text
    assert "<b>" not in page
    sent = {"country": "", "region": "<b>\u202e\u2066", "city": "Oldtown", "postalcode": "", "areacode": ""}
    sent |= {"latitude": "1.5", "longitude": "2.5", "dmacode": "8"}
    answer = mine.save(path, **sent)
    assert "Changed the place of Old" in answer.text
    with open_editor(console.home) as editor:
        place = editor.get(locid).place
        assert (place.city, place.region, place.dmacode) == ("Old\ntown", "<b>\u202e\u2066", "8")
    sent["dmacode"] = "8"
    assert "has these values already" in mine.fill(path, **sent, step="check").text


def test_what_cannot_be_is_said_beside_what_was_typed(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console)
    fields = {**dict.fromkeys(NOTHING, ""), "latitude": "91", "longitude": "2.5", "city": "Typed & kept"}
    answer = mine.fill(f"/custom/{locid}/update", **fields, step="check")
    assert answer.status_code == 422
    assert (
        "latitude is a number of degrees from -90 to 90, not 91.0: are latitude and longitude swapped?" in answer.text
    )
    assert 'value="Typed &amp; kept"' in answer.text
    answer = mine.fill(f"/custom/{locid}/add-block", block="10.0.0.1/8", step="check")
    assert "has host bits set: did you mean 10.0.0.0/8?" in answer.text
    answer = mine.fill(f"/custom/{locid}/add-block", block="10.20.0.0/16", step="check")
    assert 'belongs to <a href="/custom/-' in answer.text
    assert "</a>. Move it here, or leave it there." in answer.text


@pytest.mark.parametrize("typed", ["11.1.0.0-11.1.0.9", "11.1.0.0 - 11.1.0.9", "11.1.0.0–11.1.0.9"])
def test_a_block_is_added_replaced_and_removed(console: RunningConsole, mine: Visitor, typed: str) -> None:
    locid = new(console)
    path = f"/custom/{locid}"
    looked = mine.fill(f"{path}/add-block", block=typed, step="check").text
    assert "Addresses whose answer differs: 10 IPv4, 0 IPv6." in looked
    assert "not known" in looked
    assert (
        "Oldtown now answers for 10 addresses: 11.1.0.0-11.1.0.9." in mine.save(f"{path}/add-block", block=typed).text
    )
    old = f"{path}/replace-block?old=11.1.0.0-11.1.0.9"
    told = mine.save(old, block="11.1.0.8/29", old="11.1.0.0-11.1.0.9").text
    assert "Oldtown now answers for 8 addresses: 11.1.0.8/29, in place of 11.1.0.0-11.1.0.9." in told
    shown = mine.get(f"{path}/remove-block?old=11.1.0.8/29").text
    assert "Addresses whose answer differs: 8 IPv4, 0 IPv6." in shown
    told = mine.post(f"{path}/remove-block", data={**hidden(shown), "step": "save"}).text
    assert "Oldtown no longer answers for 11.1.0.8/29." in told
    assert "No address resolves to it yet." in told
    shown = mine.get(f"{path}/delete").text
    told = mine.post(f"{path}/delete", data={**hidden(shown), "step": "save"})
    assert told.url.path == "/custom"
    assert "Deleted Oldtown." in told.text
    assert mine.get(path).status_code == 404


def test_what_was_typed_after_the_look_is_looked_at_again(console: RunningConsole, mine: Visitor) -> None:
    path = f"/custom/{new(console)}/add-block"
    looked = mine.fill(path, block="11.2.0.0/24", step="check")
    answer = mine.post(path, data={**hidden(looked.text), "block": "11.2.0.0/16", "step": "save"})
    assert "Nothing is saved yet." in answer.text or "Show whose answer would change" in answer.text
    assert console.console.geo().match("11.2.0.1") is None


def test_an_overtaken_form_says_so_and_shows_both(console: RunningConsole, mine: Visitor) -> None:
    """By a command meanwhile; another tab is the same."""
    locid = new(console)
    path = f"/custom/{locid}/update"
    fields = {**dict.fromkeys(NOTHING, ""), "latitude": "1.5", "longitude": "2.5", "city": "Newtown"}
    looked = mine.fill(path, **fields, step="check")
    with open_editor(console.home) as editor:
        editor.update(locid, city="Elsewhere", postalcode="12345")
    answer = mine.post(path, data={**hidden(looked.text), **fields, "step": "save"})
    assert answer.status_code == 409
    assert "It was changed meanwhile" in answer.text
    assert "<dd>Elsewhere</dd>" in answer.text
    assert "<mark>Newtown</mark>" in answer.text
    with open_editor(console.home) as editor:
        assert editor.get(locid).place.city == "Elsewhere"
    looked = mine.post(path, data={**hidden(answer.text), **fields, "step": "check"})
    assert looked.status_code == 200
    mine.post(path, data={**hidden(looked.text), **fields, "step": "save"})
    with open_editor(console.home) as editor:
        assert (editor.get(locid).place.city, editor.get(locid).place.postalcode) == ("Newtown", "")


def test_what_was_typed_for_a_geolocation_that_is_gone_is_still_there(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console)
    looked = mine.fill(f"/custom/{locid}/add-block", block="11.3.0.0/24", step="check")
    with open_editor(console.home) as editor:
        editor.delete(locid)
    sent = {**hidden(looked.text), "block": "11.3.0.0/24", "step": "save"}
    answer = mine.post(f"/custom/{locid}/add-block", data=sent)
    assert answer.status_code == 404
    assert f"custom geolocation {locid} does not exist" in answer.text
    assert "<dd>11.3.0.0/24</dd>" in answer.text


def test_a_form_of_another_origin_changes_nothing(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console)
    for token in ("", "x"):
        answer = mine.post(f"/custom/{locid}/delete", data={"form-token": token, "step": "save"})
        assert answer.status_code == 403
    good = hidden(mine.get(f"/custom/{locid}/delete").text)
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
        assert mine.post(f"/custom/{locid}/delete", data={**good, "step": "save"}, headers=headers).status_code == 403
    own = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    assert mine.post(f"/custom/{locid}/delete", data={**good, "step": "save"}, headers=own).status_code == 200


def test_the_table_is_found_in_filtered_sorted_and_paged(tab: Any, console: RunningConsole) -> None:
    with open_editor(console.home) as editor, editor.transaction():
        for number in range(60):
            editor.create(**{**NOTHING, "country": "NL", "city": f"Dorp {number:02}"})
    tab.goto(f"{console.url}/custom")
    tab.get_by_label("Country").select_option("NL")
    tab.get_by_text("1 to 50 of 60").wait_for()
    tab.get_by_role("link", name="Place").click()
    assert "Dorp 00, NL" in tab.get_by_role("row").nth(1).inner_text()
    tab.get_by_role("link", name="Place").click()
    assert "Dorp 59, NL" in tab.get_by_role("row").nth(1).inner_text()
    tab.get_by_role("link", name="Next").click()
    assert "51 to 60 of 60" in tab.get_by_role("status").inner_text()
    assert "Dorp 09, NL" in tab.get_by_role("row").nth(1).inner_text()
    tab.get_by_label("Find").fill("dorp 3")
    tab.get_by_text("1 to 10 of 10").wait_for()
    tab.get_by_label("Country").select_option("")
    tab.get_by_label("Find").fill("10.20.3.4")
    tab.get_by_text("1 to 1 of 1").wait_for()
    assert "Berlin, DE" in tab.get_by_role("row").nth(1).inner_text()


def test_the_linters_findings_stand_where_the_blocks_are(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console, "12.0.0.0/24")
    looked = mine.fill(f"/custom/{locid}/add-block", block="12.0.0.0/25", step="check").text
    assert "Problems that it would make" in looked
    mine.save(f"/custom/{locid}/add-block", block="12.0.0.0/25")
    assert "12.0.0.0-12.0.0.127 of" in mine.get(f"/custom/{locid}").text
    assert str(locid) in mine.get("/custom?show=doubtful").text


def test_of_many_edits_what_a_deletion_changes_is_asked_for(
    console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geolookup.console.editing.AT_ONCE_EDITS", -1)
    path = f"/custom/{new(console, '11.4.0.0/24')}/delete"
    page = mine.get(path).text
    assert "Whose answer would change" not in page.replace("Show whose answer", "")
    looked = mine.post(path, data={**hidden(page), "step": "check"}).text
    assert "256 IPv4" in looked
    assert "Deleted Oldtown." in mine.post(path, data={**hidden(looked), "step": "save"}).text


def test_what_is_kept_of_the_layer_follows_every_change(console: RunningConsole) -> None:
    kept = console.console.layer()
    assert console.console.layer() is kept
    locid = new(console)
    after = console.console.layer()
    assert locid in {laid.place.locid for laid in after.laid}
    assert locid not in {laid.place.locid for laid in kept.laid}
    with open_editor(console.home) as editor:
        editor.update(locid, city="Elsewhere")
        assert [laid.place for laid in console.console.layer().laid] == [laid.place for laid in editor.custom()]


def test_no_page_after_an_edit_lays_all_edits_again(
    console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = new(console, "11.7.0.0/24")
    mine.get("/custom")
    monkeypatch.setattr("geolookup.state.edits.session.laid", lambda *_: pytest.fail("laid again"))
    path = f"/custom/{locid}/add-block"
    assert "now answers for 256 more addresses: 11.8.0.0/24" in mine.save(path, block="11.8.0.0/24").text
    for each in ("/", "/custom", f"/custom/{locid}", "/outbox", f"/custom/{locid}/update"):
        assert mine.get(each).status_code == 200


def test_what_is_opened_before_the_first_page_makes_nothing(console: RunningConsole, tmp_path: Path) -> None:
    empty = Console(Settings, home=str(tmp_path))
    empty.warm_up()
    assert list(tmp_path.iterdir()) == []
    warm = Console(Settings, home=console.home)
    warm.warm_up()
    kept = warm.layer()
    assert [laid.place for laid in kept.laid] == [laid.place for laid in console.console.layer().laid]
    assert warm.layer() is kept
    warm.close()


@pytest.mark.parametrize("text", ["10.1.7.0 255.255.255.0", "10.1.7.0/255.255.255.0", "10.1.7.0 - 255.255.255.0"])
def test_a_netmask_is_refused_with_the_network_to_write(console: RunningConsole, mine: Visitor, text: str) -> None:
    locid = new(console)
    for path in (f"/custom/{locid}/add-block", "/custom/create"):
        fields = {"latitude": "1", "longitude": "2"} if path.endswith("create") else {}
        looked = mine.fill(path, **fields, block=text, step="check")
        assert looked.status_code == 422
        assert "write 10.1.7.0/24" in looked.text
    assert "write 10.1.7.0/24" in mine.get("/", params={"q": text}).text


def test_a_very_wide_block_needs_a_tick(console: RunningConsole, mine: Visitor) -> None:
    locid = new(console)
    path, block = f"/custom/{locid}/add-block", "0.0.0.0-245.255.255.255"
    looked = mine.fill(path, block=block, step="whole")
    assert "covers 3,702,258,688 public addresses, 86 % of IPv4" in looked.text
    sent = {**hidden(looked.text), "block": block, "step": "save"}
    refused = mine.post(path, data=sent)
    assert refused.status_code == 422
    assert "tick" in refused.text
    assert "This is meant" in refused.text
    with open_editor(console.home) as editor:
        assert editor.get(locid).place.ipblocks == ()
    assert mine.post(path, data={**sent, "wide": "yes"}).status_code == 200
    with open_editor(console.home) as editor:
        assert [str(each) for each in editor.get(locid).place.ipblocks] == [block]
        editor.delete(locid)


def test_the_button_that_saves_comes_after_the_count(
    console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geolookup.console.editing._AT_ONCE_SEGMENTS", 0)
    fields = {"latitude": "1", "longitude": "2", "block": "9.0.0.0/16"}
    looked = mine.fill("/custom/create", **fields, step="check")
    assert "Count the addresses it affects" in looked.text
    assert "Create this site" not in looked.text
    assert mine.post("/custom/create", data={**hidden(looked.text), **fields, "step": "save"}).url.path.endswith(
        "create"
    )
    counted = mine.fill("/custom/create", **fields, step="whole")
    assert "Addresses whose answer differs" in counted.text
    assert "Create this site" in counted.text


def test_a_site_is_renamed_at_once_and_the_history_and_undo_say_so(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(**{**NOTHING, "city": "Oldtown"}, name="Depot 7")
    page = f"/custom/{locid}/rename"
    assert f'href="{page}"' in mine.get(f"/custom/{locid}").text
    form = mine.get(page).text
    assert "No answer changes." in form
    saved = mine.post(page, data={**hidden(form), "name": "Depot North", "step": "save"}).text
    assert "<h1>Depot North</h1>" in saved
    assert "Depot 7 is now called Depot North." in saved
    assert 'named<span class="under long">Depot 7 → Depot North' in saved
    late = mine.post(page, data={**hidden(form), "name": "Depot South", "step": "save"})
    assert late.status_code == 409
    assert "It was changed meanwhile by " in late.text
    for name, told in (("", "one line"), ("Depot North", "already")):
        wrong = mine.post(page, data={**hidden(mine.get(page).text), "name": name, "step": "save"})
        assert wrong.status_code == 422
        assert told in wrong.text
    undone = mine.get("/custom/undo").text
    assert "Depot North is named Depot 7 again" in undone
    assert "Depot North is named Depot 7 again." in mine.post("/custom/undo", data=hidden(undone)).text
    assert console.console.layer().names[locid] == "Depot 7"


def test_problems_call_sites_by_their_names(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        wide = editor.create(**{**NOTHING, "city": "Oldtown"}, name="Wide site", blocks=["11.40.0.0/24"])
        editor.create(**NOTHING, name="Narrow A", blocks=["11.40.0.0/25"])
        editor.create(**NOTHING, name="Narrow B", blocks=["11.40.0.128/25"])
    problems = unescape(mine.get(f"/custom/{wide}").text)
    assert "11.40.0.0-11.40.0.255 of Wide site is shadowed" in problems
    assert "of Narrow A, " in problems
    assert "of Narrow B" in problems


def test_an_arrow_points_the_way_that_a_column_goes(tmp_path: Path) -> None:
    with RunningConsole(state(tmp_path)) as console, console.client() as client:
        new(console, "9.7.0.0/16", city="Largeville")
        new(console, "9.8.0.0/32", city="Smallville")
        for page in ("/custom", "/map"):
            for sort, arrow in (("addresses", "↓"), ("-addresses", "↑")):
                text = client.get(page, params={"sort": sort}).text
                table = text[text.index('<h2 id="places">') :] if page == "/map" else text
                assert f'ddresses <span aria-hidden="true">{arrow}</span>' in table, (page, sort)
                falls = table.index("Largeville") < table.index("Smallville")
                assert falls == (arrow == "↓"), (page, sort)


def test_a_page_marks_the_part_of_the_menu_that_it_belongs_to(mine: Visitor) -> None:
    for path, part in (("/history", "/custom"), ("/export", "/custom"), ("/backups", "/generations")):
        assert re.findall(r'<a href="([^"]*)" aria-current="page"', mine.get(path).text) == [part]


def test_sites_are_sorted_as_people_do(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor, editor.transaction():
        for number in (108, 13, 2):
            editor.create(**NOTHING, name=f"Branch {number}")
    assert re.findall(r">(Branch \d+)</a>", mine.get("/custom?find=branch").text) == [
        "Branch 2",
        "Branch 13",
        "Branch 108",
    ]


def test_several_networks_are_added_at_once_and_those_of_others_are_named_with_links(
    console: RunningConsole, mine: Visitor
) -> None:
    with open_editor(console.home) as editor:
        owner = editor.create(name="Lyon <office>", blocks=["11.70.0.1", "11.70.0.2"], **NOTHING)
    path = f"/custom/{new(console)}/add-block"
    assert "256 addresses: 11.71.0.0/25, 11.72.0.0/25." in mine.save(path, block="11.71.0.0/25, 11.72.0.0/25").text
    sent = {"block": "11.70.0.2\n11.70.0.0/24\n11.70.0.1"}
    for step in ("check", "save"):
        answer = mine.fill(path, **sent, step=step)
        assert answer.status_code == 422
        assert "Nothing was saved. Look at" in answer.text
        told = f'belong to <a href="/custom/{owner}" hx-boost="false">Lyon &lt;office&gt;</a>. Move them'
        assert told in answer.text
        assert "geolocation -" not in answer.text


def test_what_is_wrong_in_a_long_list_is_found_by_its_line(mine: Visitor) -> None:
    lines = [*(f"11.80.0.{number}" for number in range(11)), "11.80.1.256", "printer-3rd-floor", "11.80.0.9-x"]
    answer = mine.fill("/custom/create", country="FR", block="\n".join(lines), step="check")
    text = unescape(answer.text)
    assert "line 12: '11.80.1.256' is not an IP address<br>line 14: '11.80.0.9-x' is not an IP address" in text
    assert "<br>Without an address: line 13: printer-3rd-floor" in text
    assert 'rows="10"' in text
    one = unescape(mine.fill("/custom/create", country="FR", block="11.80.1.256", step="check").text)
    assert "id=\"block-wrong\">'11.80.1.256' is not" in one
    assert 'rows="4"' in one


MAIL = (
    "Hi service desk,\nour new office: 11.81.0.1, 11.81.0.2:443\n11.81.0.300\nfrom 11.81.0.16 up to 11.81.0.20\nMarie\n"
)


def test_a_mail_is_read_in_its_place_and_keeps_what_was_typed(console: RunningConsole, mine: Visitor) -> None:
    typed = {"name": "Lyon Gare", "country": "FR", "city": "Lyon", "block": MAIL}
    refused = unescape(mine.fill("/custom/create", **typed, step="check").text)
    assert "line 3: '11.81.0.300' is not an IP address" in refused
    assert "Without an address: line 1: Hi service desk; line 2: our new office; line 4: from; line 5: Marie" in refused
    assert "Keep the 3 networks, leave the rest out" in refused
    read = unescape(mine.fill("/custom/create", **typed, step="read").text)
    assert "Read 3 networks of what was pasted." in read
    assert "since it was not clear: 11.81.0.300." in read
    assert ">\n11.81.0.1\n11.81.0.2\n11.81.0.16-11.81.0.20</textarea>" in read
    assert [f'value="{typed[name]}"' in read for name in ("name", "country", "city")] == [True] * 3
    blocks = "11.81.0.1\n11.81.0.2\n11.81.0.16-11.81.0.20\n10.0.0.5"
    typed |= {"block": blocks, "left": "11.81.0.300, 11.81.0.1 - 11.81.0.2"}
    looked = mine.fill("/custom/create", **typed, step="check").text
    assert "since it was not clear: 11.81.0.300." in looked, "the others are there by now"
    assert "Private addresses, which other networks may have too: 10.0.0.5." in looked
    made = mine.save("/custom/create", **typed).text
    assert "Left out of what was pasted: 11.81.0.300" in made
    assert "now answers for 8 addresses" in made
    with open_editor(console.home) as editor:
        assert len(editor.get(editor.sites()["Lyon Gare"]).place.ipblocks) == 4


def test_a_mail_in_a_form_of_no_city_brings_the_one_that_its_addresses_are_known_as(mine: Visitor) -> None:
    mail = {"name": "Known", "country": "", "city": "", "block": "Please add 9.0.0.201 and 9.0.0.202"}
    read = mine.fill("/custom/create", **mail, step="read").text
    assert re.search(r'id="city" name="city" value="München"', read)
    assert 'value="München"' not in mine.fill("/custom/create", **{**mail, "country": "FR"}, step="read").text


def test_what_was_changed_after_the_check_is_said(mine: Visitor) -> None:
    typed = {"name": "Changed", "country": "FR", "city": "Lyon", "block": "11.82.0.1"}
    checked = hidden(mine.fill("/custom/create", **typed, step="check").text)
    for change, told in (({"block": "11.82.0.0/30"}, "the networks"), ({"city": "Paris"}, "the form")):
        sent = {**checked, **typed, **change, "step": "save"}
        text = mine.post("/custom/create", data=sent).text
        assert f"You changed {told} after the check: this is what would change now." in text
        assert "Nothing is saved yet." in text
    assert "after the check" not in mine.post("/custom/create", data={**checked, **typed, "step": "check"}).text


def test_many_networks_are_named_up_to_some(mine: Visitor) -> None:
    blocks = " ".join(f"11.83.{number}.0/24" for number in range(6))
    assert "11.83.4.0/24 and 1 more network." in mine.save("/custom/create", **NOTHING, block=blocks).text


def test_one_network_is_replaced_by_one(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="One", blocks=["11.84.0.0/24"], **NOTHING)
    for block, told in (("", "an address is missing"), ("11.84.1.0/24 11.84.2.0/24", "several networks: give one")):
        answer = mine.fill(f"/custom/{locid}/replace-block", old="11.84.0.0/24", block=block, step="check")
        assert (answer.status_code, told in answer.text) == (422, True)


def test_enter_in_a_field_leaves_what_was_pasted_as_it_is(tab: Any, console: RunningConsole) -> None:
    mail = MAIL.replace("11.81.", "11.85.")
    tab.goto(f"{console.url}/custom/create?country=FR&city=Lyon")
    tab.get_by_label("Networks").fill(mail)
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_role("button", name="Keep the 3 networks").wait_for()
    settled(tab)
    tab.get_by_label("Name").fill("Enter")
    tab.keyboard.press("Enter")
    tab.locator("#problem:focus").wait_for()
    assert tab.get_by_label("Networks").input_value() == mail
    assert tab.get_by_label("Name").input_value() == "Enter"
    tab.get_by_role("button", name="Keep the 3 networks").click()
    tab.get_by_text("Read 3 networks of what was pasted.").wait_for()
    settled(tab)
    tab.get_by_label("Name").press("Enter")
    tab.get_by_text("Nothing is saved yet.").wait_for()
    settled(tab)
    tab.get_by_label("Name").fill("Enter again")
    tab.get_by_label("Name").press("Enter")
    tab.locator("td", has_text="Enter again").wait_for()
    with open_editor(console.home) as editor:
        assert "Enter again" not in editor.sites(), "it checks, and does not save"


def test_an_address_that_is_listed_twice_counts_once(mine: Visitor) -> None:
    made = mine.save("/custom/create", **NOTHING, block="11.87.0.1-11.87.0.4 11.87.0.1").text
    assert "now answers for 4 addresses: 11.87.0.1-11.87.0.4, 11.87.0.1" in made
    assert "4 addresses in all" in mine.get("/?q=11.88.0.1-11.88.0.4, 11.88.0.1").text
