"""Operations 8 and 9: details and list, every way to search and every refusal."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolookup.service.hotels.records import load_hotels
from tests.contract.answers import refused
from tests.oracle import hotel_search
from tests.support.data.hotels import SECTIONS, bare, hotel, ndjson
from tests.support.services.running_service import RunningService

LIST = "/v1/api/hotel/list"
HOTELS = [
    hotel("A1", "Austin", "wifi", "Pool"),
    hotel("A2", "Austin", "wifi", destinationId="D-2"),
    hotel("B1", "Köln", "pool", "gym", state="NW", postalCode="50667", country="DE", destinationId="d-2"),
    hotel("b0", "Portland", "wifi", "gym", "pool", state="ME", postalCode="04101"),
    hotel("C1", "Portland", state="OR", postalCode="97204", destinationId="D-3"),
]
BY_ID = {one["hotelId"]: one for one in HOTELS}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that has the hotels above, which no test here changes: one for them all."""
    folder = tmp_path_factory.mktemp("hotels")
    with contextlib.ExitStack() as stack:
        db = str(folder / "service.db")
        if request.param == "postgresql":
            db = stack.enter_context(request.getfixturevalue("postgres_server").database())
        service = stack.enter_context(RunningService(db))
        load_hotels(service.store, [ndjson(folder / "hotels.ndjson", HOTELS)])
        yield service


@pytest.fixture
def hotels(running: RunningService) -> Iterator[httpx.Client]:
    """A client of that service."""
    with running.client() as client:
        yield client


def details(hotel_id: str, query: str = "") -> str:
    return f"/v1/api/hotel/{hotel_id}/details{query}"


def found(answer: httpx.Response) -> list[str]:
    return [one["hotelId"] for one in answer.raise_for_status().json()]


# Records and their sections


def test_a_record_comes_without_sections_unless_they_are_asked_for(hotels: httpx.Client) -> None:
    assert hotels.get(details("A1")).json() == bare(BY_ID["A1"])
    assert hotels.get(LIST, params={"id": "A1"}).json() == [bare(BY_ID["A1"])]


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("key", ["@include", "%40include"])
def test_a_section_that_is_asked_for_comes_alone(hotels: httpx.Client, name: str, key: str) -> None:
    expected = {**bare(BY_ID["A1"]), name: SECTIONS[name]}
    assert hotels.get(details("A1", f"?{key}={name}")).json() == expected
    assert hotels.get(f"{LIST}?id=A1&{key}={name}").json() == [expected]


@pytest.mark.parametrize(
    "query",
    ["@include=Features,Currency", "%40include=Features%2CCurrency", "@include=Features&%40include=Currency,,Features"],
)
def test_sections_are_repeated_or_separated_by_commas(hotels: httpx.Client, query: str) -> None:
    expected = {**bare(BY_ID["A1"]), "Features": SECTIONS["Features"], "Currency": SECTIONS["Currency"]}
    assert hotels.get(details("A1", f"?{query}")).json() == expected


def test_details_and_list_answer_the_same_bytes(hotels: httpx.Client) -> None:
    query = f"@include={','.join(SECTIONS)}"
    alone = hotels.get(details("B1", f"?{query}")).content
    assert hotels.get(f"{LIST}?id=B1&{query}").content == b"[" + alone + b"]"
    assert json.loads(alone) == BY_ID["B1"]


@pytest.mark.parametrize("path", [details("A1", "?"), f"{LIST}?id=A1&"])
@pytest.mark.parametrize("section", ["Rooms", "features", "Features,x", "Feature s", "%0d%0aX"])
def test_an_unknown_section_is_400_and_names_those_there_are(hotels: httpx.Client, path: str, section: str) -> None:
    body = refused(hotels.get(f"{path}@include={section}"), 400, "invalid-parameter")
    assert all(name in body["detail"] for name in SECTIONS)


@pytest.mark.parametrize(
    "hotel_id", ["Z9", "A1x", "%2e%2e", "%2E", "A1%00", "%ff", "A1%2C", "' OR 1=1 --", "A" * 5000, "%0d%0aX: 1"]
)
def test_an_unknown_hotel_is_404(hotels: httpx.Client, hotel_id: str) -> None:
    refused(hotels.get(details(hotel_id)), 404, "unknown-hotel")


@pytest.mark.parametrize("path", ["A%2f1/details", "%2e%2e%2f%2e%2e/details", "..%5c../x/details", "A1/details/x"])
def test_a_path_inside_an_identifier_leads_nowhere(hotels: httpx.Client, path: str) -> None:
    assert hotels.get(f"/v1/api/hotel/{path}").status_code == 404


@pytest.mark.parametrize("hotel_id", ["a1", "A1", "B0"])
def test_an_identifier_compares_without_regard_to_case(hotels: httpx.Client, hotel_id: str) -> None:
    assert hotels.get(details(hotel_id)).json()["hotelId"].casefold() == hotel_id.casefold()


NASTY = (
    '"number":1.10,"tiny":1e-400,"huge":1e999,"long":123456789012345678901234567890.0,"minus":-0.0,'
    '"escaped":"\\u00e9\\u0000\\ud83d\\ude00","plain":"é\u2028","empty":{"":[]},"attributes":[true,null]'
)


def test_members_that_are_not_known_and_numbers_pass_through_as_they_were(
    service: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    text = json.dumps(bare(hotel("N1")), separators=(",", ":"))[:-1] + f",{NASTY}}}"
    text = text.replace('"latitude":30.25', '"latitude":"30.250"')
    load_hotels(service.store, [ndjson(tmp_path / "hotels.ndjson", [text])])
    assert client.get(details("N1")).content.decode() == text
    assert client.get(f"{LIST}?city=austin").content.decode() == f"[{text}]"


# Searching


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("city=Austin", ["A1", "A2"]),
        ("city=AUSTIN", ["A1", "A2"]),
        ("city=k%C3%96ln", ["B1"]),
        ("city=Ko%CC%88ln", ["B1"]),
        ("city=Portland", ["C1", "b0"]),
        ("city=Portland&state=me", ["b0"]),
        ("state=nw&country=de", ["B1"]),
        ("postalCode=97204", ["C1"]),
        ("country=us", ["A1", "A2", "C1", "b0"]),
        ("country=US&postalCode=50667", []),
        ("destinationId=D-2", ["A2", "B1"]),
        ("amenity=wifi", ["A1", "A2", "b0"]),
        ("amenity=WiFi,POOL", ["A1", "b0"]),
        ("amenity=wifi&amenity=pool&amenity=gym", ["b0"]),
        ("amenity=nothing", []),
        ("city=Portland&amenity=gym", ["b0"]),
        ("destinationId=d-2&amenity=gym", ["B1"]),
        ("id=C1,A1,b0&amenity=wifi", ["A1", "b0"]),
        ("id=C1&id=A1", ["C1", "A1"]),
        ("id=C1, A1 ,c1,C1", ["C1", "A1"]),
        ("city=&id=A1&destinationId=", ["A1"]),
        ("country=US&page=7&top=1", ["A1", "A2", "C1", "b0"]),
        ("city=%25&country=_", []),
        ("city=' OR '1'='1", []),
        ("city=Austin'%3B DROP TABLE hotels%3B --", []),
    ],
)
def test_a_search_finds_what_has_all_that_was_asked_for(hotels: httpx.Client, query: str, expected: list[str]) -> None:
    assert found(hotels.get(f"{LIST}?{query}")) == expected


ADDRESSES = st.sampled_from(["Austin", "PORTLAND", "köln", "KO\u0308LN", "tx", "ME", "US", "de", "04101", "", "x"])
VALUES = {
    **dict.fromkeys(("city", "state", "postalCode", "country"), ADDRESSES.map(lambda text: [text])),
    "destinationId": st.sampled_from(["D-1", "d-2", "", "x"]).map(lambda text: [text]),
    "id": st.lists(st.sampled_from(["A1", "a1", "B1", "B0", "C1", "x", ""]), max_size=4),
    "amenity": st.lists(st.sampled_from(["wifi", "POOL", "gym", "x", ""]), max_size=3),
}


@settings(max_examples=80)
@given(names=st.sets(st.sampled_from(sorted(VALUES)), max_size=4), commas=st.booleans(), data=st.data())
def test_a_search_agrees_with_looking_at_each_hotel(
    hotels: httpx.Client, names: set[str], commas: bool, data: st.DataObject
) -> None:
    asked = {name: data.draw(VALUES[name], label=name) for name in sorted(names)}
    pairs = [
        (name, value)
        for name, values in asked.items()
        for value in ([",".join(values)] if commas and name in ("id", "amenity") else values)
    ]
    expected = hotel_search.search(HOTELS, asked)
    answer = hotels.get(f"{LIST}?{urlencode(pairs)}")
    if expected is None:
        refused(answer, 400, "invalid-parameter")
    else:
        assert found(answer) == expected
        missing = {unquote(item) for item in answer.headers.get("x-missing-ids", "").split(",") if item}
        assert missing == ({"x"} & set(asked.get("id", [])))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "city=",
        "id=,&amenity=",
        "@include=Features",
        "unknown=1",
        "city=Austin&destinationId=D-1",
        "country=US&id=A1",
        "destinationId=D-1&id=A1",
        "state=TX&destinationId=D-1&id=A1&amenity=wifi",
        "city=Austin&city=Austin",
        "destinationId=D-1&destinationId=D-1",
        "city=%ff",
        "city=%00",
        "id=%00",
        "amenity=a%00",
        "id=" + ",".join(map(str, range(201))),
        "id=" + "A" * 101,
        "amenity=" + ",".join(map(str, range(21))),
        "id=1" + "&id=1" * 100,
    ],
)
def test_a_search_that_cannot_be_made_is_400(hotels: httpx.Client, query: str) -> None:
    refused(hotels.get(f"{LIST}?{query}"), 400, "invalid-parameter")


def test_identifiers_that_are_not_known_are_left_out_and_named_as_they_were_given(hotels: httpx.Client) -> None:
    answer = hotels.get(f"{LIST}?id=Z9,B1&id=zürich&id=A1,z9")
    assert found(answer) == ["B1", "A1"]
    assert [unquote(item) for item in answer.headers["x-missing-ids"].split(",")] == ["Z9", "zürich"]
    assert "x-missing-ids" not in hotels.get(f"{LIST}?id=A1").headers
    only = hotels.get(f"{LIST}?id=Z9")
    assert (only.json(), only.headers["x-missing-ids"]) == ([], "Z9")


def test_a_known_hotel_without_the_amenity_is_not_missing(hotels: httpx.Client) -> None:
    answer = hotels.get(f"{LIST}?id=C1,A1,Z9&amenity=wifi")
    assert found(answer) == ["A1"]
    assert answer.headers["x-missing-ids"] == "Z9"


@pytest.mark.parametrize("evil", ["x\r\nSet-Cookie: a=b", "x\nY: 1", "\x1b[31m", "ä\u2028", "a b", '"', "%0d%0a"])
def test_an_identifier_cannot_break_out_of_the_header(hotels: httpx.Client, evil: str) -> None:
    answer = hotels.get(f"{LIST}?id={quote(evil, safe='')}")
    assert answer.status_code == 200
    assert unquote(answer.headers["x-missing-ids"]) == evil.strip()
    assert answer.headers["x-missing-ids"].isascii()
    assert set(answer.headers) == set(hotels.get(f"{LIST}?id=Z9").headers)


def test_a_long_list_is_whole_and_by_identifier(service: RunningService, client: httpx.Client, tmp_path: Path) -> None:
    names = [f"{'Hh'[number % 2]}{number:03d}" for number in range(150)]
    records: list[dict[str, Any]] = [hotel(name, padding="x" * 2000) for name in reversed(names)]
    load_hotels(service.store, [ndjson(tmp_path / "many.ndjson", records)])
    answer = client.get(f"{LIST}?country=US")
    assert len(answer.content) > 2 * 131072
    assert found(answer) == sorted(names)


def test_no_snapshot_stays_open_after_answers_and_refusals(running: RunningService, hotels: httpx.Client) -> None:
    for path in (details("A1"), details("Z9"), f"{LIST}?id=A1", LIST):
        hotels.get(path)
    # The lookups' index may be looking at the database meanwhile, with a snapshot of its own.
    until = time.monotonic() + 20
    while running.store.open_snapshots and time.monotonic() < until:
        time.sleep(0.01)
    assert running.store.open_snapshots == 0
