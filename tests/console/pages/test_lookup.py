"""The page Look up: addresses, ranges and files, in a real browser and without scripts."""

import gzip
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from geolookup.console import picture
from geolookup.console.pages import lookup as page
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.ranges import pieces
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sync.opening import open_editor
from tests.support.data.two_sources import NOTHING
from tests.support.users.running_console import RunningConsole, Visitor, hidden


def ask(tab: Any, console: RunningConsole, text: str) -> None:
    tab.goto(console.url)
    tab.get_by_label("Address, network, range or site").fill(text)
    with tab.expect_navigation():
        tab.keyboard.press("Enter")


def test_an_address_is_looked_up_and_explained(tab: Any, console: RunningConsole) -> None:
    ask(tab, console, "10.20.0.1")
    assert tab.title() == "10.20.0.1 – Look up – geolookup"
    answer = tab.get_by_role("region", name="10.20.0.1")
    assert answer.get_by_text("Berlin, DE", exact=True).first.is_visible()
    assert answer.get_by_text("10.20.0.0 – 10.20.255.255").is_visible()
    assert "latitude 52.5, longitude 13.4" in answer.get_by_role("img").get_attribute("aria-label")
    rows = answer.get_by_role("row")
    assert "answers your own sites come before every source" in rows.nth(1).inner_text()


def test_of_a_large_state_the_reasons_come_after_the_answer(
    tab: Any, console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_AT_ONCE_BLOCKS", 0)
    without_scripts = mine.get("/?q=10.20.0.1").text
    assert "your own sites come before" not in without_scripts
    (link,) = set(re.findall(r'<a href="(/\?q=[^"]*)">Show every network', without_scripts))
    assert "your own sites come before every source" in mine.get(link.replace("&amp;", "&")).text
    ask(tab, console, "10.20.0.1")
    tab.get_by_text("your own sites come before every source").wait_for()


def test_what_is_no_address_says_so_and_stays_in_its_field(tab: Any, console: RunningConsole) -> None:
    ask(tab, console, "10.20.0.1x")
    assert "'10.20.0.1x' is not an IP address" in tab.get_by_role("alert").inner_text()
    assert tab.get_by_label("Address, network, range or site").input_value() == "10.20.0.1x"


@pytest.mark.parametrize("asked", ["10.19.255.0-10.20.0.255", "10.19.255.0 - 10.20.0.255", "10.19.255.0 – 10.20.0.255"])
def test_a_range_is_answered_piece_by_piece(mine: Visitor, asked: str) -> None:
    text = mine.get("/", params={"q": asked}).text
    assert "512 addresses." in text
    cells = [
        re.sub(r"\s*<[^>]*>\s*", "|", row) for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", text, re.DOTALL)
    ]
    assert [re.findall(r"[^|]+", row) for row in cells] == [
        ["10.19.255.0/24", "XX", "256", "country"],
        ["10.20.0.0/24", "Berlin, DE", "256", "your site"],
    ]


def test_a_long_range_goes_on_where_the_page_ends(mine: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_PIECES", 1)
    text = mine.get("/?q=10.19.255.0-10.20.0.255").text
    assert "Go on from 10.20.0.0" in text
    assert "Berlin, DE" not in text


@pytest.mark.parametrize(
    "block", ["0.0.0.0/0", "10.0.0.0/8", "9.0.0.128/25", "2001:db8::/31", "11.0.0.0/30", "10.20.0.1"]
)
def test_the_pieces_of_a_range_are_whole_and_answer_as_single_lookups(console: RunningConsole, block: str) -> None:
    with GeoLookup(console.home) as geo:
        whole = IPBlock.parse(block)
        found, rest = geo.with_snapshot(lambda snapshot: pieces(snapshot, whole, 1000))
        assert rest is None
        at = whole.first
        for piece in found:
            assert piece.block.first == at
            for address in (piece.block.startip, piece.block.endip):
                single = geo.match(address)
                assert (single and single.geolocation) == (piece.match and piece.match.geolocation)
            at = piece.block.last + 1
        assert at == whole.last + 1


def test_correcting_begins_with_the_place_and_the_range(tab: Any, console: RunningConsole) -> None:
    ask(tab, console, "9.0.0.7")
    tab.get_by_role("link", name="Correct this").click()
    assert tab.get_by_label("City").input_value() == "München"
    assert tab.get_by_label("Postal code").input_value() == "80331"
    assert tab.get_by_label("Latitude").input_value() == "48.125"
    assert tab.get_by_label("Networks").input_value() == "9.0.0.0/24"
    ask(tab, console, "10.20.0.1")
    tab.get_by_role("link", name="Correct this site").click()
    assert tab.get_by_role("heading", level=1).inner_text() == "Change the place of Berlin, DE"


LOG = "10.20.0.1 - - GET /\n10.20.0.2 GET\n9.0.0.1 x 10.20.0.1\n203.0.113.9 y\n"


def test_the_addresses_of_a_log_are_counted(tab: Any, console: RunningConsole, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(LOG)
    tab.goto(console.url)
    tab.get_by_label("A log, a list or a mail").set_input_files(log)
    tab.get_by_role("button", name="Locate its addresses").click()
    assert "5 addresses found; 1 not known" in tab.get_by_role("status").inner_text()
    rows = tab.get_by_role("region", name="Countries by addresses").get_by_role("row")
    assert re.match(r"Germany DE\s+4\s+80.0%", rows.nth(1).inner_text())
    assert "Berlin" in tab.get_by_role("region", name="Cities by addresses").inner_text()
    tab.get_by_role("link", name="New site for these addresses").click()
    assert tab.get_by_label("Networks").input_value() == "10.20.0.1\n10.20.0.2\n9.0.0.1\n203.0.113.9"


def test_a_log_may_be_dropped_on_the_page(tab: Any, console: RunningConsole) -> None:
    tab.goto(console.url)
    dropped = tab.evaluate_handle(
        "text => { const data = new DataTransfer(); data.items.add(new File([text], 'x.log')); return data; }", LOG
    )
    tab.dispatch_event("body", "drop", {"dataTransfer": dropped})
    tab.get_by_text("5 addresses found; 1 not known").wait_for()


def test_a_file_that_cannot_be_counted_says_why(mine: Visitor) -> None:
    fields = hidden(mine.get("/").text)
    for name, content, said in (
        ("x.zip", b"PK\x03\x04 etc", "is a zip archive"),
        ("x.csv", b"a,b\n1,2\n", "ip"),
        ("", b"", "Choose a file first."),
    ):
        answer = mine.post("/count", data=fields, files={"file": (name, content)})
        assert answer.status_code == 422, answer.text
        assert said in answer.text
    packed = mine.post("/count", data=fields, files={"file": ("x.log.gz", gzip.compress(LOG.encode()))})
    assert "5 addresses found; 1 not known" in packed.text
    nothing = mine.post("/count", data=fields, files={"file": ("x.log", "no address\n")})
    assert "0 addresses found" in nothing.text
    assert "No address was found in it" in nothing.text
    assert "No address was found in it" not in packed.text
    assert mine.post("/count", files={"file": ("x.log", LOG)}).status_code == 403


def geolocation(latitude: float | None, longitude: float | None, **fields: str) -> Geolocation:
    """A place of which only this is known."""
    known = {**dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), ""), **fields}
    return Geolocation(locid=1, latitude=latitude, longitude=longitude, ipblocks=(), **known)


def test_of_a_country_alone_the_picture_shows_all_of_it() -> None:
    found = picture.picture(geolocation(None, None, country="DE"))
    assert found is not None
    assert (found.spot, found.says) == (None, "On a map of the world: Germany")
    left, top, wide, high = map(float, found.view.split())
    assert left < 1860 < 1950 < left + wide
    assert top < 350 < 425 < top + high
    assert picture.picture(geolocation(None, None, country="XX")) is None


def test_a_site_is_found_by_its_name_and_its_place(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        for name in ("Łódź office", "Łódź depot"):
            editor.create(name=name, **{**NOTHING, "country": "PL", "city": "Łódź"})
        locid = editor.sites()["Łódź depot"]
    assert mine.get("/", params={"q": "łódź DEPOT"}).url.path == f"/custom/{locid}"
    both = mine.get("/?q=Łódź").text
    assert both.index("Łódź office</a>") > 0 < both.index("Łódź depot</a>")
    assert "No site has this in its name" in mine.get("/?q=Nowhere").text


def test_the_start_says_what_is_served_and_what_waits(console: RunningConsole, tab: Any, mine: Visitor) -> None:
    tab.goto(console.url)
    glance = tab.get_by_role("list", name="At a glance").inner_text()
    assert "city" in glance
    assert "date not given by the file" in glance
    assert re.search(rf"Sites\s+{len(console.console.layer().laid)}\s", glance)
    assert "Nothing waits." in glance
    assert tab.evaluate("document.activeElement.id") == "q"
    with open_editor(console.home) as editor:
        locid = editor.create(blocks=["12.9.0.0/24", "12.9.0.0/25"], **NOTHING)
    assert "of your sites&#39; networks" in mine.get("/").text
    with open_editor(console.home) as editor:
        editor.delete(locid)
    assert "of your sites&#39; networks" not in mine.get("/").text


def test_the_picture_of_the_land_has_germany_where_it_is() -> None:
    at = picture.picture(geolocation(51.0, 10.0, country="DE", city="Somewhere"), 50)
    assert at is not None
    assert at.spot == (1900, 390)
    left, top, wide, high = map(float, at.view.split())
    assert left < 1900 < left + wide < left + 130
    assert top < 390 < top + high
    assert 4 < at.area < 5
    assert at.outline.startswith("M")
    corner = picture.picture(geolocation(90.0, 180.0))
    assert corner is not None
    assert corner.view == "3000 0 600 300"
    found = picture.land()
    assert 50_000 < len(found) < 250_000
    assert b"NaN" not in found
    # Every ring of the land, followed step by step: some corner is near Berlin's border, none in the South Atlantic.
    corners = []
    for ring in re.findall(r"M(-?\d+) (-?\d+)([^Mz]*)z", found.decode()):
        x, y = start = int(ring[0]), int(ring[1])
        corners.append(start)
        for wide, high in re.findall(r"l(-?\d+) (-?\d+)", ring[2]):
            x, y = x + int(wide), y + int(high)
            corners.append((x, y))
            # No band from one edge to the other where a ring crosses the 180th degree, except below Antarctica.
            assert abs(int(wide)) < picture.WIDTH / 2 or y == picture.HEIGHT
        assert abs(x - start[0]) < picture.WIDTH / 2 or y == picture.HEIGHT
    assert all(-picture.WIDTH / 2 <= x <= 1.5 * picture.WIDTH and 0 <= y <= picture.HEIGHT for x, y in corners)
    for edge in (0, picture.WIDTH):  # the land of the Chukchi is on both sides of it
        assert any(edge - 100 < x < edge and 200 < y < 260 for x, y in corners)
        assert any(edge < x < edge + 100 and 200 < y < 260 for x, y in corners)
    assert any(abs(x - 1946) < 15 and abs(y - 375) < 15 for x, y in corners)  # 52.5, 14.6
    assert not any(1450 < x < 1800 and 1150 < y < 1300 for x, y in corners)


def test_of_a_url_the_host_is_looked_up_if_it_is_an_address(mine: Visitor) -> None:
    assert '<h2 id="answer" data-first>8.8.8.8</h2>' in mine.get("/?q=http://8.8.8.8/x").text
    assert "is a URL, not an IP address: resolve its host first" in mine.get("/?q=http://printer.example/x").text


def test_networks_of_other_sites_are_moved_to_the_chosen_one(console: RunningConsole, mine: Visitor) -> None:
    lyon = {"country": "FR", "city": "Lyon", "latitude": 45.76, "longitude": 4.84}
    with open_editor(console.home) as editor:
        old = editor.create(name="Part-Dieu", blocks=["12.82.1.0/28"], **lyon)  # type: ignore[arg-type]
        new = editor.create(name="Confluence", blocks=["12.82.2.1", "12.82.2.2"], **lyon)  # type: ignore[arg-type]
    text = mine.get("/", params={"q": "12.82.1.3, 12.82.2.1, 12.82.3.1, 12.82.3.777, 10.0.0.9"}).text
    assert f'Networks of your sites already: 12.82.2.1 of <a href="/custom/{new}">Confluence</a>.' in text
    assert f'Within a wider network of your sites already: 12.82.1.3 of <a href="/custom/{old}">Part-Dieu</a>.' in text
    assert "Private addresses, which other networks may have too: 10.0.0.9." in text
    (link,) = re.findall(r'href="([^"]*)">Add all 4 to a site, and move 1 there', text)
    choice = mine.get(unescape(link)).text
    assert "<h1>Add 4 networks to which site?</h1>" in choice
    assert "1 of them moves there from Confluence." in choice
    (form,) = re.findall(r'<a href="(/custom/-[^"]*)">Part-Dieu', choice)
    page = mine.get(unescape(form)).text
    assert 'name="move" value="yes" checked> Move networks here from the sites that have them' in page
    asked = {"block": "12.82.2.1 12.82.3.1"}
    refused = mine.fill(f"/custom/{old}/add-block", **asked, step="check").text
    assert 'name="move" value="yes"> Move networks here' in refused
    made = mine.save(f"/custom/{old}/add-block", **asked, move="yes").text
    assert "Part-Dieu now answers for 2 more addresses: 12.82.2.1, 12.82.3.1 (3 networks in all)" in made
    assert "12.82.2.1 moved here from Confluence." in made
    with open_editor(console.home) as editor:
        assert [block.startip for block in editor.get(new).place.ipblocks] == ["12.82.2.2"]
        assert len(editor.get(old).place.ipblocks) == 3
        steps = {line["step"] for line in editor.history()[-2:]}
    assert len(steps) == 1, "both are one change, which is undone as one"
    (create,) = re.findall(r'href="(/custom/create[^"]*)">New site for the others', text)
    assert "it was not clear: 12.82.3.777." in mine.get(unescape(create)).text
    fields = {"name": "Third", "country": "FR", "city": "", "latitude": "", "longitude": "", "left": "12.82.3.777"}
    assert (
        "Left out of what was pasted: 12.82.3.777."
        in mine.save("/custom/create", **fields, block="12.82.3.1", move="yes").text
    )


@pytest.mark.parametrize(
    "asked", ["10.1.2.3:8080", "[::ffff:10.1.2.3]:80", '"10.1.2.3"', "10.1.2.3, 192.0.2.1", "10.1.2.3/32"]
)
def test_an_address_may_be_copied_out_of_a_log(mine: Visitor, asked: str) -> None:
    answer = mine.get(f"/?q={quote(asked)}")
    assert answer.status_code == 200
    assert "not an IP address" not in answer.text
    assert ">10.1.2.3<" in answer.text


@pytest.mark.parametrize("asked", ["foo:80", "unknown", "10.1.2.3:80000", "x, y"])
def test_what_holds_no_address_is_no_address_in_any_form(mine: Visitor, asked: str) -> None:
    assert "is not an IP address" in mine.get(f"/?q={quote(asked)}").text


def test_a_pasted_list_is_answered_address_by_address_with_what_is_none(mine: Visitor) -> None:
    asked = "10.20.0.1 10.20.0.2:8443 9.0.0.1, 203.0.113.9; 10.20.0.1 printer-3rd-floor 185.12.2.256"
    answer = mine.get("/", params={"q": asked})
    assert answer.status_code == 200
    assert "5 addresses or networks" in answer.text
    assert "4 different, 1 repeated." in answer.text
    assert "Words passed over: printer-3rd-floor." in answer.text
    assert "Not known: 203.0.113.9." in answer.text
    assert "Not read: &#39;185.12.2.256&#39; is not an IP address" in answer.text
    assert "Read so: 10.20.0.2:8443 as 10.20.0.2." in answer.text
    rows = re.findall(r'<th scope="row"><a href="/[?]q=([^"]*)">[^<]*</a></th>\s*<td[^>]*>([^<]*)', answer.text)
    found = [("10.20.0.1", "Berlin, DE"), ("10.20.0.2", "Berlin, DE"), ("9.0.0.1", "München, Bayern, 80331, DE")]
    assert rows == [*found, ("203.0.113.9", "not known")]
    (link,) = re.findall(r'href="(/custom/create[^"]*)">New site for these addresses', answer.text)
    assert re.search(r">\s*10.20.0.1\n10.20.0.2\n9.0.0.1\n203.0.113.9</textarea>", mine.get(link).text)
    networks = mine.get("/", params={"q": "10.19.255.0/24, 10.20.0.0/16"}).text
    assert re.findall(r'data-label="Place">([^<]*)', networks) == ["XX", "Berlin, DE"]
    for two in ("10.20.0.1 9.0.0.1", "10.20.0.1,9.0.0.1", "10.20.0.1;9.0.0.1", "10.20.0.1 , 9.0.0.1"):
        text = mine.get("/", params={"q": two}).text
        assert re.findall(r'data-label="Place">([^<]*)', text) == ["Berlin, DE", "München, Bayern, 80331, DE"], two
    bullets = mine.get("/", params={"q": "10.20.0.1; - 9.0.0.1; - 10.20.0.9 - 10.20.0.11"}).text
    assert "3 addresses or networks" in bullets
    masks = mine.get("/", params={"q": "10.20.0.1 10.20.0.2 10.1.7.0 255.255.255.0"}).text
    assert "Not read: 10.1.7.0 has the netmask 255.255.255.0: write 10.1.7.0/24" in masks
    for one in ("10.20.0.1 GET /index.html", "please see (10.20.0.1)"):
        sentence = mine.get("/", params={"q": one}).text
        assert "1 address or network<" in sentence
        assert re.findall(r'data-label="Place">([^<]*)', sentence) == ["Berlin, DE"], one
    bits = mine.get("/", params={"q": "10.20.0.1/24，10.20.0.2、9.0.0.1"}).text
    assert "has host bits set" in bits
    assert "2 addresses or networks" in bits
    refused = mine.get("/", params={"q": "10.20.0.256 10.20.0.257"})
    assert refused.status_code == 422
    assert re.search('role="alert">.*10.20.0.256.*; .*10.20.0.257', refused.text)


def test_a_list_that_is_too_long_for_a_page_says_so(mine: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_PIECES", 2)
    text = mine.get("/", params={"q": "10.20.0.1 10.20.0.2 9.0.0.1 9.0.0.2"}).text
    assert "and 2 more: look up fewer at once" in text


def test_a_counted_list_says_where_each_address_is_and_which_lines_have_none(mine: Visitor) -> None:
    fields = hidden(mine.get("/").text)
    lines = "10.20.0.1\n\nprinter <3rd>\n203.0.113.9\n10.20.0.1\n"
    text = mine.post("/count", data=fields, files={"file": ("list.txt", lines.encode())}).text
    assert "2 different, 1 repeated." in text
    assert "Words passed over: printer 3rd." in text
    assert "Not known: 203.0.113.9." in text
    each = text.partition('aria-label="Each address"')[2]
    assert re.findall(r'data-label="Place">([^<]*)', each) == ["Berlin, DE", "not known"]
    table = "name,ip\na,10.20.0.1:80\nb,10.20.0.2\n"
    log = "12:00:01 10.20.0.1 -> 10.20.0.9\n12:00:02 10.20.0.1 -> 10.20.0.9\n"
    logged = mine.post("/count", data=fields, files={"file": ("list.txt", log.encode())}).text
    assert "2 different, 2 repeated." in logged, "of a log no sign makes a range"
    rows = mine.post("/count", data=fields, files={"file": ("list.csv", table.encode())}).text
    assert "Words passed over" not in rows
    assert re.findall(r'<a href="/[?]q=([^"]*)">', rows) == ["10.20.0.1", "10.20.0.2"]


@pytest.mark.parametrize("width", [390, 1280])
def test_the_bars_of_shares_begin_at_one_line_and_stay_in_their_table(
    tab: Any, console: RunningConsole, tmp_path: Path, width: int
) -> None:
    log = tmp_path / "access.log"
    log.write_text("10.20.0.1\n" * 19 + "9.0.0.1\n")
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(console.url)
    tab.get_by_label("A log, a list or a mail").set_input_files(log)
    tab.get_by_role("button", name="Locate its addresses").click()
    bars = tab.get_by_role("region", name="Cities by addresses").get_by_role("meter")
    bars.first.wait_for()  # a click goes on before the answer is there
    boxes = [bars.nth(number).bounding_box() for number in range(bars.count())]
    tab.set_viewport_size({"width": 1280, "height": 720})
    assert len(boxes) == 2
    assert len({(box["x"], box["width"]) for box in boxes}) == 1
    cut = "[...document.querySelectorAll('.table')].filter(each => each.scrollWidth > each.clientWidth).length"
    assert tab.evaluate(cut) == 0


def test_of_a_list_only_what_no_site_has_is_offered_for_a_new_one(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Lyon", blocks=["12.81.0.1", "12.81.0.2"], **NOTHING)
    both = mine.get("/", params={"q": "12.81.0.1 12.81.0.2 12.81.0.3"}).text
    of_lyon = f'12.81.0.1 of <a href="/custom/{locid}">Lyon</a>, 12.81.0.2 of <a href="/custom/{locid}">Lyon</a>'
    assert f"Networks of your sites already: {of_lyon}." in both
    assert ">Add all 3 to a site, and move 2 there</a>" in both
    (link,) = re.findall(r'href="(/custom/create[^"]*)">New site for the others', both)
    assert link.endswith("block=12.81.0.3")
    fields = hidden(mine.get("/").text)
    all_of_them = mine.post("/count", data=fields, files={"file": ("x", b"12.81.0.1\n12.81.0.2\n")}).text
    assert f"Networks of your sites already: {of_lyon}." in all_of_them
    assert ">Move these 2 to another site</a>" in all_of_them
    assert "/custom/create" not in all_of_them
    with open_editor(console.home) as editor:
        editor.delete(locid)


def test_correcting_says_for_how_many_addresses_and_may_be_for_one(console: RunningConsole, mine: Visitor) -> None:
    text = mine.get("/?q=9.0.0.7").text
    links = dict(re.findall(r'href="/custom/create[?]block=([^&"]*)[^"]*">([^<]*)', text))
    assert links == {"9.0.0.0%2F24": "Correct this for 9.0.0.0/24 (256 addresses)", "9.0.0.7": "Only for 9.0.0.7"}
    assert "keep their answers" not in text
    with open_editor(console.home) as editor:
        locid = editor.create(name="Hut", blocks=["9.0.0.128"], **NOTHING)
    text = mine.get("/?q=9.0.0.7").text
    assert re.findall(r'block=([^&"]*)[^"]*">Correct this for 9.0.0.0/24', text) == ["9.0.0.0%2F24"]
    assert "Your sites in 9.0.0.0/24 keep their answers." in text
    with open_editor(console.home) as editor:
        editor.delete(locid)
    unknown = mine.get("/?q=203.0.113.9").text
    assert re.findall(r'href="/custom/create[^"]*">([^<]*)', unknown) == ["New site for this address"]


def test_a_picture_is_no_list(mine: Visitor) -> None:
    fields = hidden(mine.get("/").text)
    answer = mine.post("/count", data=fields, files={"file": ("x.png", b"\x89PNG\r\n\0\0 ::6 9:: 10.20.0.1")})
    assert answer.status_code == 422
    assert "x.png is not text: choose a log, a list, or a table" in answer.text


def test_what_comes_in_afterwards_takes_the_focus_along(
    tab: Any, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_AT_ONCE_BLOCKS", 0)
    tab.goto(f"{console.url}/?q=9.0.0.1")
    tab.get_by_role("region", name="Every network that covers it").wait_for()
    assert tab.evaluate("document.activeElement.id === 'answer'"), "it takes no focus that was elsewhere"
    tab.route("**/?q=9.0.0.1&why=1", lambda route: (tab.wait_for_timeout(1500), route.continue_()))
    tab.goto(f"{console.url}/?q=9.0.0.1")
    tab.get_by_role("link", name="Show every network").focus()
    tab.get_by_role("region", name="Every network that covers it").wait_for()
    tab.unroute("**/?q=9.0.0.1&why=1")
    assert tab.evaluate("document.activeElement.textContent") == "Why this answer"


def test_a_site_is_found_by_one_of_the_words_if_none_has_all(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        for name in ("Gdynia Mitte", "Gdynia Lab west"):
            editor.create(name=name, **{**NOTHING, "country": "PL"})
    both = mine.get("/?q=Gdynia office").text
    assert both.index(">Gdynia Mitte<") < both.index(">Gdynia Lab west<")
    one = mine.get("/?q=west gdynia").text
    assert ">Gdynia Lab west<" in one
    assert ">Gdynia Mitte<" not in one
    assert "12.1.1.7" in mine.get("/?q=the Gdynia printer 12.1.1.7").text.partition('id="answer"')[2]


def test_an_address_is_read_as_it_stands_in_a_mail_and_all_that_is_not_is_named(mine: Visitor) -> None:
    read = "IP:81.64.96.4 81.64.96.10! 81.64.96.30: http://81.64.96.5/ https://81.64.96.6/a 81[.]64[.]96[.]25"
    read += " 81.64.96.7|81.64.96.8."
    text = mine.get("/", params={"q": read}).text
    assert "8 addresses or networks" in text
    assert "Not read" not in text
    wrong = [f"81.64.{number}.999" for number in range(15)]
    text = mine.get("/", params={"q": " ".join(["81.64.96.4", *wrong])}).text
    assert all(f"&#39;{each}&#39; is not an IP address" in text for each in wrong)


def test_ranges_and_networks_of_a_dropped_list_stay_whole(mine: Visitor) -> None:
    mail = b"Hi\n11.83.1.7\nfrom 11.83.1.16 to 11.83.1.47\n11.83.2.1 - 11.83.2.9\n11.83.3.0/24\n11.83.4.1-11.83.4.9\n"
    text = mine.post("/count", data=hidden(mine.get("/").text), files={"file": ("mail.txt", mail)}).text
    (link,) = re.findall(r'href="(/custom/create[^"]*)">New site for these addresses', text)
    assert unquote(unescape(link)).partition("block=")[2].split() == [
        "11.83.1.7", "11.83.1.16-11.83.1.47", "11.83.2.1-11.83.2.9", "11.83.3.0/24", "11.83.4.1-11.83.4.9"
    ]  # fmt: skip


def test_an_answer_has_the_focus(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/")
    tab.get_by_label("Address, network, range or site").fill("10.68.1.0/24, 10.68.2.7")
    tab.keyboard.press("Enter")
    tab.locator("#answer:focus").wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "New site for these addresses"


def test_a_list_is_added_to_a_site_that_is_chosen_by_its_name(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        locid = editor.create(name="Lyon Part-Dieu", country="FR", city="Lyon", latitude=45.76, longitude=4.84)
    pasted = mine.get("/", params={"q": "please add 10.66.1.0/24, 10.66.2.7, 10.66.2.700"}).text
    (link,) = re.findall(r'href="(/custom[^"]*)">Add these addresses to a site', pasted)
    chosen = mine.get(f"{unescape(link)}&find=part-dieu").text
    assert "<h1>Add 2 networks to which site?</h1>" in chosen
    assert "<p>10.66.1.0/24, 10.66.2.7. " in chosen
    (form,) = re.findall(r'<a href="(/custom/-[^"]*)">Lyon Part-Dieu', chosen)
    page = mine.get(unescape(form)).text
    assert "<h1>Add networks to Lyon Part-Dieu</h1>" in page
    assert "10.66.1.0/24\n10.66.2.7</textarea>" in page
    assert "since it was not clear: 10.66.2.700." in page
    mine.save(f"/custom/{locid}/add-block", block="10.66.1.0/24 10.66.2.7")
    with open_editor(console.home) as editor:
        assert len(editor.get(locid).place.ipblocks) == 2


@pytest.mark.parametrize(
    "asked", ["from 10.67.1.10 to 10.67.1.20 please", "10.67.1.10 bis 10.67.1.20", "10.67.1.10 à 10.67.1.20"]
)
def test_a_range_may_be_written_in_words(mine: Visitor, asked: str) -> None:
    text = mine.get("/", params={"q": asked}).text
    assert "10.67.1.10-10.67.1.20" in text
    assert ">11<" in text or "11 addresses" in text


def test_a_text_with_an_address_is_never_taken_for_the_name_of_a_site(console: RunningConsole, mine: Visitor) -> None:
    with open_editor(console.home) as editor:
        editor.create(name="Wifi Gallarate", **{**NOTHING, "country": "IT"})
        named = editor.create(name="Router 12.69.9.9", **NOTHING)
    for asked, first in (
        ("Networks: 12.69.0.0/28.", "12.69.0.0/28"),
        ("gateway - 12.69.0.1 - wifi - 12.69.0.5", "12.69.0.1"),
        ("12.69.0.0/30 - office; 12.69.0.4/30 - wifi", "12.69.0.0/30"),
    ):
        text = mine.get("/", params={"q": asked}).text
        assert "Sites like" not in text, asked
        assert f">{first}</a></th>" in text, asked
        assert "New site for these addresses" in text, asked
    wrong = mine.get("/", params={"q": "12.69.0.1/27 of the wifi"})
    assert (wrong.status_code, "did you mean 12.69.0.0/27?" in wrong.text) == (422, True)
    assert "Sites like" not in wrong.text
    assert mine.get("/?q=Router 12.69.9.9").url.path == f"/custom/{named}"


def test_one_address_network_or_range_is_added_to_a_site(mine: Visitor) -> None:
    for asked, block in (("12.68.0.64/27", "12.68.0.64/27"), ("12.68.0.70-12.68.0.75", "12.68.0.70-12.68.0.75")):
        text = mine.get("/", params={"q": asked}).text
        (link,) = re.findall(r'href="(/custom[?][^"]*)">Add these addresses to a site', text)
        assert f"<p>{block}. " in mine.get(unescape(link)).text
    (link,) = re.findall(r'href="(/custom[?][^"]*)">Add 9.0.0.7 to a site', mine.get("/?q=9.0.0.7").text)
    assert "<p>9.0.0.7. " in mine.get(unescape(link)).text


def test_the_city_that_all_addresses_are_known_as_is_that_of_the_new_site(
    console: RunningConsole, mine: Visitor
) -> None:
    def filled(asked: str) -> dict[str, str]:
        (link,) = re.findall(r'href="(/custom/create[^"]*)">New site', mine.get("/", params={"q": asked}).text)
        return dict(re.findall(r'<input id="(\w+)" name="\w+" value="([^"]*)"', mine.get(unescape(link)).text))

    both = filled("9.0.0.1 9.0.0.9 203.0.113.9")
    assert (both["city"], both["country"]) == ("München", "DE")
    assert float(both["latitude"]) == 48.125
    assert filled("9.0.0.1 10.20.0.1")["city"] == ""
    assert filled("203.0.113.9")["country"] == ""
    with open_editor(console.home) as editor:
        locid = editor.create(name="Taken", blocks=["9.0.0.77"], **NOTHING)
    assert filled("9.0.0.1 9.0.0.77")["city"] == "München", "what another site has stays there"
    with open_editor(console.home) as editor:
        editor.delete(locid)


def test_a_text_that_is_too_long_for_an_address_is_read_all_the_same(tab: Any, console: RunningConsole) -> None:
    tab.goto(console.url)
    lines = [
        *(f"12.67.{number // 250}.{number % 250}" for number in range(700)),
        "12.67.9.300",
        "12.67.8.1 to 12.67.8.9",
    ]
    box = tab.get_by_label("Address, network, range or site")
    paste = "const data = new DataTransfer(); data.setData('text', text);"
    paste += "const how = {clipboardData: data, bubbles: true, cancelable: true};"
    paste += "box.focus(); box.dispatchEvent(new ClipboardEvent('paste', how))"
    box.evaluate(f"(box, text) => {{ {paste} }}", "\n".join(["Hi,", *lines, "Marie"]))
    box.press("Enter")
    tab.get_by_role("heading", level=1, name="Addresses of what you pasted").wait_for()
    text = tab.locator("main").inner_text()
    assert "Not read: '12.67.9.300' is not an IP address." in text
    assert "Words passed over: Hi Marie." in text
    assert tab.get_by_role("navigation", name="Pages").is_visible()
    tab.get_by_role("button", name="New site for these addresses").click()
    tab.get_by_text("Read 701 networks of what was pasted.").wait_for()
    assert "since it was not clear: 12.67.9.300." in tab.locator("main").inner_text()
    assert tab.get_by_label("Networks").input_value().splitlines()[-1] == "12.67.8.1-12.67.8.9"
    tab.get_by_label("Country").fill("FR")
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_text("Nothing is saved yet.").wait_for()


def test_what_a_page_did_to_its_fields_is_no_inline_style_of_the_next(tab: Any, console: RunningConsole) -> None:
    tab.goto(f"{console.url}/custom/create?country=FR&name=x")
    touched = "for (const each of document.querySelectorAll('textarea')) each.style.height = '90px'"
    tab.evaluate(touched)  # as whoever pulls at its corner
    tab.get_by_role("button", name="Show whose answer would change").click()
    tab.get_by_text("Nothing is saved yet").wait_for()
    tab.wait_for_timeout(300)  # it settles; the tab notes what its policy refuses
