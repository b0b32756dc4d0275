"""``geolookup hotel …`` against the real service: what it asks, prints and exits with."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.service.hotels.records import load_demo_hotels, load_hotels
from tests.cli.edits.test_custom import Command
from tests.faults.raw_server import RawServer, answer
from tests.support.data.hotels import SECTIONS, bare, hotel, ndjson
from tests.support.data.states import place, publish
from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import RunningService
from tests.support.users.quick_commands import forked

HOTELS = [
    hotel("A1", "Austin", "wifi", "pool"),
    hotel("A2", "Austin", "wifi", number=1.5, long="x" * 20_000),
    hotel("D1", "Dallas", "pool", "gym"),
    hotel("P1", "Portland", state="OR"),
    hotel("P2", "Portland", state="ME"),
    hotel("K1", "Köln", "wifi", state="NW", country="DE", name="a\x1b[31mb"),
]
BY_ID = {one["hotelId"]: one for one in HOTELS}
AUSTIN_ROW = "A1\tHotel A1\t1 Example Street, Austin, TX, 78701, US\twifi, pool\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the hotels above, which no command here changes."""
    folder = tmp_path_factory.mktemp("hotels")
    with RunningService(folder / "service.db") as service:
        load_hotels(service.store, [ndjson(folder / "hotels.ndjson", HOTELS)])
        yield service


@pytest.fixture
def command(
    home: str, running: RunningService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Commands of a machine that knows some cities, and that service."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", running.url)
    us = {"country": "US", "region": "TX"}
    publish(
        home,
        [
            place(1, "10.1.0.0/16", city="austin", **us),
            place(2, "10.2.0.0/16", city="Waco", **us),
            place(3, "10.3.0.0/16", city="Portland", country="US", region="ME"),
            place(4, "10.4.0.0/16", city="Boise", country="US", region="ID"),
            place(5, "10.5.0.0/16", city="Paris", country="FR"),
            place(-7, "10.6.0.0/16", city="Köln", country="de", latitude=1.0, longitude=2.0),
        ],
        url=running.url,
    )
    return Command(capsys)


def test_details_as_text_json_and_ndjson(command: Command) -> None:
    assert command("hotel", "details", "A1") == (
        "hotel:        A1\nname:         Hotel A1\n"
        "address:      1 Example Street, Austin, TX, 78701, US\n"
        "destination:  D-1\nposition:     30.25, -97.75\namenities:    wifi, pool\n"
    )
    text = command("hotel", "details", "A1", "--include", "Features,Currency", "--include", "ContactInfo")
    assert text.splitlines()[6:] == [
        '  ContactInfo: {"phone":"+1-202-555-0100"}',
        '  Currency: {"code":"USD"}',
        '  Features: ["library"]',
    ]
    assert json.loads(command("hotel", "details", "a2", "--format", "json")) == bare(BY_ID["A2"])
    line = command("hotel", "details", "A2", "--format", "ndjson", "--include", ",".join(SECTIONS))
    assert line.count("\n") == 1
    assert json.loads(line) == BY_ID["A2"]


def test_an_unknown_hotel_and_an_unknown_section_exit_with_1_and_say_so(command: Command) -> None:
    command("hotel", "details", "Z9", exits=1)
    assert "hotel 'Z9' does not exist" in command.error
    command("hotel", "details", "A1", "--include", "Rooms", exits=1)
    assert "ChannelProperties" in command.error
    command("hotel", "details", " ", exits=2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--city", "AUSTIN"], ["A1", "A2"]),
        (["--city", "Portland", "--state", "me"], ["P2"]),
        (["--postal-code", "78701", "--country", "DE"], ["K1"]),
        (["--destination", "d-1", "--amenity", "gym"], ["D1"]),
        (["--amenity", "wifi,pool"], ["A1"]),
        (["--amenity", "wifi", "--amenity", "pool", "--city", "Dallas"], []),
        (["--id", "P1,A1", "--id", "a2"], ["P1", "A1", "A2"]),
    ],
)
def test_the_list_searches_as_the_options_say(command: Command, options: list[str], expected: list[str]) -> None:
    found = json.loads(command("hotel", "list", *options, "--format", "json"))
    assert [one["hotelId"] for one in found] == expected
    rows = command("hotel", "list", *options).splitlines()
    assert [row.split("\t")[0] for row in rows] == expected
    lines = command("hotel", "list", *options, "--format", "ndjson").splitlines()
    assert [json.loads(line) for line in lines] == found


def test_a_row_of_the_list_and_its_sections(command: Command) -> None:
    assert command("hotel", "list", "--id", "A1") == AUSTIN_ROW
    assert (
        command("hotel", "list", "--id", "A1", "--include", "Currency") == AUSTIN_ROW + '  Currency: {"code":"USD"}\n'
    )


def test_identifiers_that_the_service_does_not_know_are_named_on_standard_error(command: Command) -> None:
    assert command("hotel", "list", "--id", "Z9,A1,zürich") == AUSTIN_ROW
    assert command.error.splitlines() == [
        "geolookup: the service knows no hotel Z9",
        "geolookup: the service knows no hotel zürich",
    ]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--city", ""],
        ["--include", "Features"],
        ["--city", "x", "--id", "A1"],
        ["--country", "US", "--destination", "D-1"],
        ["--destination", "D-1", "--id", "A1", "--amenity", "wifi"],
    ],
)
def test_a_search_by_nothing_or_by_two_methods_is_wrong_usage(command: Command, options: list[str]) -> None:
    assert command("hotel", "list", *options, exits=2) == ""


@pytest.mark.parametrize(
    ("address", "options", "level", "where", "expected"),
    [
        ("10.1.2.3", [], "city", "austin, TX, US", ["A1", "A2"]),
        ("10.1.2.3", ["--amenity", "pool"], "city", "austin, TX, US", ["A1"]),
        ("10.1.2.3", ["--amenity", "gym"], "region", "TX, US", ["D1"]),
        ("10.2.2.3", [], "region", "TX, US", ["A1", "A2", "D1"]),
        ("10.3.2.3", [], "city", "Portland, ME, US", ["P2"]),
        ("10.4.2.3", [], "country", "US", ["A1", "A2", "D1", "P1", "P2"]),
        ("10.6.2.3", [], "city", "Köln, de", ["K1"]),
        ("10.5.2.3", [], None, "Paris, FR", []),
        ("10.1.2.3", ["--amenity", "moat"], None, "austin, TX, US", []),
    ],
)
def test_near_lists_the_hotels_of_the_city_else_region_else_country_and_says_which(
    command: Command, address: str, options: list[str], level: str | None, where: str, expected: list[str]
) -> None:
    found = json.loads(command("hotel", "near", address, *options, "--format", "json"))
    assert (found["ip"], found["level"], found["place"]) == (address, level, where)
    assert [one["hotelId"] for one in found["hotels"]] == expected
    first, *rows = command("hotel", "near", address, *options).splitlines()
    assert first == f"{address}: " + (f"hotels of the {level} {where}" if level else f"no hotels in {where}")
    assert [row.split("\t")[0] for row in rows] == expected
    lines = command("hotel", "near", address, *options, "--format", "ndjson").splitlines()
    each = {"ip": address, "locid": found["locid"], "level": level, "place": where}
    assert [json.loads(line) for line in lines] == [{**each, "hotel": one} for one in found["hotels"] or [None]]


def test_near_counts_a_custom_geolocation_as_soon_as_it_is_there(command: Command) -> None:
    fields = ("--country", "US", "--region", "TX", "--city", "Dallas", "--latitude", 1, "--longitude", 2)
    locid = command.json("custom", "create", *fields)["locid"]
    command("custom", "add-block", locid, "10.1.9.0/24")
    assert command("hotel", "near", "10.1.9.9").startswith("10.1.9.9: hotels of the city Dallas, TX, US\nD1\t")
    assert command("hotel", "near", "10.1.8.9").startswith("10.1.8.9: hotels of the city austin, TX, US\nA1\t")


def test_near_tells_an_address_that_is_not_covered_from_one_that_is_malformed(command: Command) -> None:
    assert command("hotel", "near", "192.0.2.1", exits=4) == "192.0.2.1\tnot covered\n"
    found = json.loads(command("hotel", "near", "192.0.2.1", "--format", "json", exits=4))
    assert found == {"ip": "192.0.2.1", "locid": None, "level": None, "place": "", "hotels": []}
    assert command("hotel", "near", "10.1.2", exits=5) == ""
    assert "10.1.2" in command.error


def test_near_shows_the_sections_that_were_asked_for(command: Command) -> None:
    assert '  Features: ["library"]' in command("hotel", "near", "10.3.0.1", "--include", "Features").splitlines()


def test_on_the_bundled_data_near_falls_back_to_the_country(
    running: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GEOLOOKUP_HOME", raising=False)
    with RunningService(tmp_path / "demo.db") as service:
        load_demo_hotels(service.store)
        out = Command(capsys)("hotel", "near", "1.1.1.1", "--url", service.url)
    first, *rows = out.splitlines()
    assert first == "1.1.1.1: hotels of the country AU"
    assert len(rows) == 3


def test_nothing_that_the_service_sends_reaches_a_terminal_raw(command: Command) -> None:
    for form in ("text", "json", "ndjson"):
        out = command("hotel", "list", "--id", "K1", "--include", "Currency", "--format", form)
        assert "\x1b" not in out
    assert json.loads(out) == bare(BY_ID["K1"]) | {"Currency": SECTIONS["Currency"]}


def test_a_service_that_cannot_be_used_exits_with_1_and_no_service_with_2(
    command: Command, monkeypatch: pytest.MonkeyPatch, default_home: str
) -> None:
    with RawServer(answer(b"<html>"), answer(b"", status="401 X"), answer(b"<html>", status="500 X")) as server:
        for said in ("not JSON", "check the token", "500"):
            command("hotel", "list", "--city", "x", "--url", server.url, exits=1)
            assert said in command.error
    monkeypatch.delenv("GEOLOOKUP_URL")
    monkeypatch.setenv("GEOLOOKUP_HOME", default_home)  # which remembers none
    command("hotel", "list", "--city", "x", exits=2)
    assert "no upstream" in command.error


def test_serve_loads_every_file_of_hotels_before_it_listens_or_names_each_bad_line(tmp_path: Path) -> None:
    files = [ndjson(tmp_path / f"{name}.ndjson", [hotel(name)]) for name in ("A1", "B1")]
    command = [*forked(), "-m", "geolookup", "serve", "--port", "0", *(f"--load-hotels={file}" for file in files)]
    path = "/v1/api/hotel/list?id=B1,A1,C1"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        assert "no geolocations" in service.stderr.readline()  # hotels alone
        address = re.search(r"http://\S+", service.stderr.readline())
        service_answer = None if address is None else httpx.get(f"{address[0]}{path}", trust_env=False, verify=PLAIN)
        service.terminate()
        assert service.wait(30) == 0
    assert service_answer is not None
    assert [one["hotelId"] for one in service_answer.json()] == ["B1", "A1"]
    ndjson(files[0], ["{", hotel("A1"), "[]"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "A1.ndjson, line 1: " in done.stderr
    assert "A1.ndjson, line 3: " in done.stderr
    assert "serving" not in done.stderr
