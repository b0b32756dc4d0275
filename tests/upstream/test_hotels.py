"""Hotel details and the hotel list: what is asked, and which answers are believed."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from geolookup.model.errors import SettingsError, UpstreamAnswerError, UpstreamError, UpstreamRefusedError
from geolookup.upstream.hotels import SECTIONS, Hotel, HotelList, HotelsClient
from tests.faults.raw_server import RawServer, Request, answer
from tests.support.data.hotels import hotel
from tests.upstream.helpers import transport

Use = Callable[[HotelsClient], Any]
RECORD = json.dumps(hotel("A1", "Zürich", "wifi", "pool")).encode()


def run(body: bytes, use: Use, *, headers: tuple[str, ...] = (), **changes: Any) -> tuple[Any, Request]:
    with RawServer(answer(body, headers=headers)) as server, transport(server, **changes) as connection:
        result = use(HotelsClient(connection))
        [request] = server.requests
    return result, request


def asked(request: Request) -> dict[str, str]:
    query = request.target.partition("?")[2].replace("+", " ")
    return {unquote(name): unquote(value) for name, value in (pair.split("=", 1) for pair in query.split("&") if pair)}


def test_details_ask_by_the_identifier_with_the_sections() -> None:
    found, request = run(RECORD, lambda c: c.details("A1", include=("Features", "Currency")))
    assert (request.method, request.target.partition("?")[0]) == ("GET", "/v1/api/hotel/A1/details")
    assert asked(request) == {"@include": "Features,Currency"}
    assert (found.hotel_id, found.name, found.city, found.country) == ("A1", "Hotel A1", "Zürich", "US")
    assert (found.postal_code, found.destination_id, found.amenities) == ("78701", "D-1", ("wifi", "pool"))
    assert (found.latitude, found.longitude) == (30.25, -97.75)
    assert list(found.sections) == list(SECTIONS)
    _, request = run(RECORD, lambda c: c.details("A1"))
    assert request.target == "/v1/api/hotel/A1/details"


@pytest.mark.parametrize("hotel_id", ["a/b", "..", ".", "a?b=c", "a#b", "ä b", "%2F", "a\r\nX: y", "\0", "{hotelId}"])
def test_an_identifier_stays_one_segment_of_the_path(hotel_id: str) -> None:
    _, request = run(RECORD, lambda c: c.details(hotel_id))
    before, _, rest = request.target.removeprefix("/v1/api/hotel/").partition("/")
    assert (unquote(before), rest) == (hotel_id, "details")
    assert before.isascii()


def test_the_list_asks_by_what_was_given_and_by_nothing_else() -> None:
    _, request = run(b"[]", lambda c: c.list(city="São Paulo", state="", postal_code="1&2", country="BR"))
    assert (request.method, request.target.partition("?")[0]) == ("GET", "/v1/api/hotel/list")
    assert asked(request) == {"city": "São Paulo", "postalCode": "1&2", "country": "BR"}
    _, request = run(b"[]", lambda c: c.list(destination_id="D-1", amenities=["wifi", "pool"], include=["Features"]))
    assert asked(request) == {"destinationId": "D-1", "amenity": "wifi,pool", "@include": "Features"}
    _, request = run(b"[]", lambda c: c.list(ids=["B", "A"]))
    assert asked(request) == {"id": "B,A"}


def test_each_path_can_be_set_and_one_without_the_identifier_is_refused() -> None:
    _, request = run(RECORD, lambda c: c.details("A 1"), path_hotel_details="/h?of={hotelId}")
    assert request.target == "/h?of=A%201"
    _, request = run(b"[]", lambda c: c.list(city="x"), path_hotel_list="/all")
    assert request.target == "/all?city=x"
    with transport("http://127.0.0.1:9", path_hotel_details="/h") as connection, pytest.raises(SettingsError):
        HotelsClient(connection).details("A1")


@pytest.mark.parametrize("use", [lambda c: c.details("\udcff"), lambda c: c.list(city="\udcff")])
def test_what_is_no_text_is_not_sent(use: Use) -> None:
    with transport("http://127.0.0.1:9") as connection, pytest.raises(SettingsError, match="UTF-8"):
        use(HotelsClient(connection))


def test_members_that_are_not_known_and_numbers_are_kept_as_they_came() -> None:
    text = '{"hotelId":"A1","number":1.10,"huge":1e999,"deep":{"x":[123456789012345678901234567890,"\\u00e9"]}}'
    spaced = text.replace(",", " ,\n ").encode()
    found, _ = run(spaced, lambda c: c.details("A1"))
    assert found.content.decode() == text
    listed, _ = run(b"[" + spaced + b"]", lambda c: c.list(city="x"))
    assert [one.content.decode() for one in listed.hotels] == [text]


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"hotelId": 17}, "hotel_id", "17"),
        ({"hotelId": None}, "hotel_id", ""),
        ({"name": ["x"]}, "name", ""),
        ({"address": None}, "city", ""),
        ({"address": {"city": 5}}, "city", "5"),
        ({"amenities": "wifi"}, "amenities", ()),
        ({"amenities": ["wifi", None, {}, 7]}, "amenities", ("wifi", "7")),
        ({"latitude": "30.5"}, "latitude", 30.5),
        ({"latitude": "north"}, "latitude", None),
        ({"latitude": 91}, "latitude", None),
        ({"longitude": True}, "longitude", None),
        ({"longitude": 10**400}, "longitude", None),
        ({"Features": "odd"}, "sections", {"Features": "odd"}),
        ({"Rooms": 1}, "sections", {}),
    ],
)
def test_a_member_of_another_kind_costs_only_itself(changes: dict[str, Any], field: str, value: Any) -> None:
    record = {name: item for name, item in hotel("A1").items() if name not in SECTIONS} | changes
    found, _ = run(json.dumps(record).encode(), lambda c: c.details("A1"))
    assert isinstance(found, Hotel)
    assert getattr(found, field) == value


@pytest.mark.parametrize(
    "body",
    [
        b"[" + RECORD + b"]",
        RECORD,
        b'{"hotels":[' + RECORD + b"]}",
        b'{"page":1,"data":[' + RECORD + b'],"more":{"a":[1]}}',
    ],
)
def test_the_list_may_come_in_any_container_that_can_be_told(body: bytes) -> None:
    found, _ = run(body, lambda c: c.list(city="x"))
    assert [one.hotel_id for one in found.hotels] == ["A1"]


@pytest.mark.parametrize("use", [lambda c: c.details("A1"), lambda c: c.list(city="x")], ids=["details", "list"])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"7", b'"x"', b"null", b"[7]", b"[[]]", b'{"hotelId":"A1"', b'{"hotelId":"A1"} x',
        b"[" * 100_000, b'{"hotelId":"\xff"}', b'{"hotelId":"\\ud800"}', b'{"hotelId":' + b"9" * 5000 + b"}",
        b'{"hotelId":NaN}', b'{"hotelId":"A1","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)  # fmt: skip
def test_an_answer_without_a_record_is_not_believed(use: Use, body: bytes) -> None:
    with pytest.raises(UpstreamAnswerError):
        run(body, use)


@pytest.mark.parametrize("body", [b"{}", b'{"a":[],"b":[]}', b'{"a":{"b":[]}}'])
def test_a_list_that_cannot_be_told_is_not_believed(body: bytes) -> None:
    with pytest.raises(UpstreamAnswerError, match="list"):
        run(body, lambda c: c.list(city="x"))


def test_a_problem_with_a_good_status_is_not_believed() -> None:
    raw = answer(RECORD).replace(b"application/json", b"application/problem+json")
    with RawServer(raw) as server, transport(server) as connection, pytest.raises(UpstreamAnswerError, match="problem"):
        HotelsClient(connection).details("A1")


def test_an_answer_beyond_all_bounds_is_not_read_to_its_end() -> None:
    with pytest.raises(UpstreamAnswerError, match="more than"):
        run(b"[" + b" " * (17 << 20) + b"]", lambda c: c.list(city="x"))


def missing(result: HotelList) -> tuple[str, ...]:
    return result.missing


def test_identifiers_that_are_missing_are_those_that_the_service_names() -> None:
    found, _ = run(b"[]", lambda c: c.list(ids=["A", "z,\r\n"]), headers=("X-Missing-Ids: z%2C%0D%0A, %C3%A4",))
    assert missing(found) == ("z,\r\n", "ä")
    found, _ = run(b"[]", lambda c: c.list(ids=["A"]), headers=("X-Missing-Ids:",))
    assert missing(found) == ()


def test_where_the_service_names_none_they_are_those_that_did_not_come() -> None:
    found, _ = run(b"[" + RECORD + b"]", lambda c: c.list(ids=["Z", "a1", "Y"]))
    assert missing(found) == ("Z", "Y")
    found, _ = run(b"[" + RECORD + b"]", lambda c: c.list(ids=["Z", "A1"], amenities=["wifi"]))
    assert missing(found) == ()


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff" * 1000, b'{"type":7}', b"[" * 70_000])
def test_a_refusal_with_any_body_is_a_refusal(body: bytes) -> None:
    with RawServer(answer(body, status="404 Not Found")) as server, transport(server) as connection:
        with pytest.raises(UpstreamRefusedError) as refused:
            HotelsClient(connection).details("A1")
        assert refused.value.status == 404


def test_questions_are_asked_again_and_end() -> None:
    with RawServer(answer(b"", status="503 X"), answer(RECORD)) as server, transport(server, attempts=2) as connection:
        assert HotelsClient(connection).details("A1").hotel_id == "A1"
    with RawServer(answer(b"", status="503 X")) as server, transport(server, attempts=3) as connection:
        with pytest.raises(UpstreamError):
            HotelsClient(connection).list(city="x")
        assert server.connections == 3
