"""Operations 8 to 10, service and client together: one test a sentence of the interface."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.model.errors import UpstreamRefusedError
from geolookup.upstream.hotels import HotelsClient
from geolookup.upstream.rates import RatePlan, RatesClient
from tests.contract.answers import refused
from tests.support.data.hotels import RATE_PLAN, SECTIONS, bare, hotel, ndjson
from tests.support.services.running_service import RunningService
from tests.upstream.helpers import transport

LIST = "/v1/api/hotel/list"
RATES = "/admin/product/ratePlans"
LISTS = ("Attributes", "DiningOptions", "Features")
HOTELS = [
    hotel("B2", "Austin", "wifi", "pool", destinationId="D-2"),
    hotel("A1", "Austin", "wifi", future={"kept": [1, 2.50]}),
    hotel("C3", "Dallas", "pool", "wifi", postalCode="75201"),
    hotel("E5", "Zürich", "Pool", state="ZH", country="CH", postalCode="8001"),
]


@pytest.fixture
def hotels(service: RunningService, client: httpx.Client, tmp_path: Path) -> httpx.Client:
    """A client of a service that knows these hotels."""
    service.load_hotels(ndjson(tmp_path / "hotels.ndjson", HOTELS))
    return client


@pytest.fixture
def ours(service: RunningService, hotels: httpx.Client) -> Iterator[HotelsClient]:
    """geolookup's own client of the same service."""
    with transport(service.url, secret=None) as connection:
        yield HotelsClient(connection)


@pytest.fixture
def rates(service: RunningService, hotels: httpx.Client) -> Iterator[RatesClient]:
    with transport(service.url, secret=None) as connection:
        yield RatesClient(connection)


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["hotelId"] for one in answer.json()]


# --- hotel content


def test_details_and_list_answer_the_same_record(hotels: httpx.Client, ours: HotelsClient) -> None:
    """Interface: "one record per hotel; details and list return records with identical content"."""
    for query in ("", "?@include=Features,Currency"):
        details = hotels.get(f"/v1/api/hotel/A1/details{query}")
        listed = hotels.get(f"{LIST}{query}", params=None if query else {"id": "A1"})
        if query:
            listed = hotels.get(f"{LIST}{query}&id=A1")
        assert listed.content == b"[" + details.content + b"]"
    assert ours.details("A1").content == ours.list(ids=["A1"]).hotels[0].content


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_comes_only_with_include_keyed_by_its_name(
    hotels: httpx.Client, ours: HotelsClient, name: str
) -> None:
    """Interface: "Each section is keyed by its name exactly as above and appears only when asked for"."""
    assert name not in hotels.get("/v1/api/hotel/A1/details").json()
    found = hotels.get(f"/v1/api/hotel/A1/details?@include={name}").json()
    assert [one for one in SECTIONS if one in found] == [name]
    assert found[name] == SECTIONS[name]
    assert ours.details("A1", include=[name]).sections == {name: SECTIONS[name]}


def test_attributes_dining_options_and_features_are_lists(hotels: httpx.Client) -> None:
    """Interface: "`Attributes`, `DiningOptions` and `Features` are lists"."""
    found = hotels.get(f"/v1/api/hotel/A1/details?@include={','.join(SECTIONS)}").json()
    assert [name for name in SECTIONS if isinstance(found[name], list)] == list(LISTS)


def test_a_record_always_has_its_members(hotels: httpx.Client) -> None:
    """Interface: "a record always has `hotelId`, `name`, `address` {`line1`, `city`, `state`, `postalCode`,
    `country`}, `destinationId`, `amenities` (array of strings), `latitude`, `longitude`".
    """
    for record in hotels.get(f"{LIST}?amenity=pool").json():
        assert set(record) == {
            "hotelId", "name", "address", "destinationId", "amenities", "latitude", "longitude",
        }  # fmt: skip
        assert set(record["address"]) == {"line1", "city", "state", "postalCode", "country"}
        assert all(isinstance(one, str) for one in record["amenities"])


def test_members_that_we_do_not_know_pass_through(hotels: httpx.Client, ours: HotelsClient) -> None:
    """Interface: "Members that we do not know pass through unchanged"."""
    assert hotels.get("/v1/api/hotel/A1/details").json() == bare(HOTELS[1])
    assert json.loads(ours.details("A1").content)["future"] == {"kept": [1, 2.5]}
    assert b"2.5" in ours.details("A1").content


def test_an_unknown_hotel_is_404(hotels: httpx.Client, ours: HotelsClient) -> None:
    """Interface: "404 unknown"."""
    refused(hotels.get("/v1/api/hotel/nowhere/details"), 404, "unknown-hotel")
    with pytest.raises(UpstreamRefusedError) as error:
        ours.details("nowhere")
    assert (error.value.status, error.value.problem_type) == (404, "unknown-hotel")


# --- hotel list


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("city=austin", ["A1", "B2"]),
        ("state=tx", ["A1", "B2", "C3"]),
        ("postalCode=75201", ["C3"]),
        ("country=ch", ["E5"]),
        ("city=AUSTIN&state=TX&postalCode=78701&country=us", ["A1", "B2"]),
        ("city=Z%C3%9CRICH", ["E5"]),
        ("destinationId=d-2", ["B2"]),
        ("id=C3", ["C3"]),
        ("amenity=POOL", ["B2", "C3", "E5"]),
    ],
)
def test_each_search_method_compares_without_regard_to_case(
    hotels: httpx.Client, query: str, expected: list[str]
) -> None:
    """Interface: "search by address (city, state, postal code, country), by destination, by one or more hotel
    identifiers, or by amenity ... text compares without regard to case".
    """
    assert ids(hotels.get(f"{LIST}?{query}")) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("amenity=wifi&city=Austin", ["A1", "B2"]),
        ("amenity=pool&destinationId=D-1", ["C3", "E5"]),
        ("amenity=wifi&id=E5&id=C3", ["C3"]),
        ("amenity=pool&amenity=wifi", ["B2", "C3"]),
        ("amenity=pool,wifi", ["B2", "C3"]),
        ("amenity=pool,wifi&city=Austin", ["B2"]),
    ],
)
def test_amenity_combines_with_any_other_method_and_several_must_all_hold(
    hotels: httpx.Client, query: str, expected: list[str]
) -> None:
    """Interface: "by amenity, which also combines with any of the others ... several amenities must all hold"."""
    assert ids(hotels.get(f"{LIST}?{query}")) == expected


@pytest.mark.parametrize("query", ["id=C3&id=A1&id=B2", "id=C3,A1,B2", "id=C3,A1&id=B2", "id=C3%2CA1%2CB2"])
def test_identifiers_may_be_repeated_or_comma_separated_and_give_the_order(
    hotels: httpx.Client, ours: HotelsClient, query: str
) -> None:
    """Interface: "`id` and `amenity` may be repeated or comma-separated ... a JSON array in the order of the ids
    asked for, or by `hotelId`".
    """
    assert ids(hotels.get(f"{LIST}?{query}")) == ["C3", "A1", "B2"]
    assert [one.hotel_id for one in ours.list(ids=["C3", "A1", "B2"]).hotels] == ["C3", "A1", "B2"]


@pytest.mark.parametrize(
    "query",
    ["city=Austin&destinationId=D-1", "country=US&id=A1", "destinationId=D-1&id=A1", "", "city=", "@include=Features"],
)
def test_two_methods_together_or_none_at_all_is_400(hotels: httpx.Client, query: str) -> None:
    """Interface: "Two of address, destination and id together, or no method at all, is 400"."""
    refused(hotels.get(f"{LIST}?{query}"), 400, "invalid-parameter")


def test_unknown_identifiers_are_left_out_and_named(hotels: httpx.Client, ours: HotelsClient) -> None:
    """Interface: "unknown ids are left out and named in the header `X-Missing-Ids`"."""
    answer = hotels.get(f"{LIST}?id=nowhere,A1,elsewhere")
    assert ids(answer) == ["A1"]
    assert [one.strip() for one in answer.headers["x-missing-ids"].split(",")] == ["nowhere", "elsewhere"]
    assert ours.list(ids=["nowhere", "A1", "else, where"]).missing == ("nowhere", "else", "where")


@pytest.mark.parametrize(
    "query",
    [
        "@include=Features&@include=Currency", "@include=Features,Currency", "%40include=Features%2CCurrency",
        "%40include=Features&@include=Currency",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/api/hotel/A1/details?", f"{LIST}?id=A1&"])
def test_include_is_repeated_or_comma_separated_literal_or_percent_encoded(
    hotels: httpx.Client, path: str, query: str
) -> None:
    """Interface: "`@include` (given) on 8 and 9; ours: repeated or comma-separated, `@` literal or
    percent-encoded".
    """
    found = hotels.get(f"{path}{query}").json()
    record = found[0] if isinstance(found, list) else found
    assert {name for name in SECTIONS if name in record} == {"Features", "Currency"}


@pytest.mark.parametrize("path", ["/v1/api/hotel/A1/details", LIST])
def test_an_unknown_section_is_400_and_names_those_supported(hotels: httpx.Client, path: str) -> None:
    """Interface: "unknown section 400 naming those supported"."""
    body = refused(hotels.get(f"{path}?id=A1&@include=Rooms"), 400, "invalid-parameter")
    assert all(name in body["detail"] for name in SECTIONS)


# --- rate plans


def test_a_rate_plan_is_201_when_created_and_200_when_updated(hotels: httpx.Client, rates: RatesClient) -> None:
    """Interface: "201 when created, 200 when updated, answers with the stored record"."""
    for status, name in ((201, "Best available"), (200, "Better")):
        sent = {**RATE_PLAN, "name": name}
        answer = hotels.post(RATES, json=sent)
        assert (answer.status_code, answer.json()) == (status, sent)
    plan = RatePlan.parse(json.dumps({**RATE_PLAN, "ratePlanCode": "NEW"}).encode())
    assert [rates.put(plan).outcome, rates.put(plan).outcome] == ["created", "unchanged"]


@pytest.mark.parametrize("kind", ["rate", "groupRate"])
def test_a_rate_or_a_group_rate_keeps_every_other_member(hotels: httpx.Client, kind: str) -> None:
    """Interface: "a JSON object with `hotelId`, `ratePlanCode`, `type` (`rate` or `groupRate`), `name`, `currency`;
    every other member is kept as sent".
    """
    sent = {**RATE_PLAN, "type": kind, "amount": 189.5, "rules": [{"min": 2}, None]}
    assert hotels.post(RATES, json=sent).json() == sent


def test_the_same_rate_plan_again_changes_nothing(hotels: httpx.Client) -> None:
    """Interface: "sending the same again changes nothing"."""
    first = hotels.post(RATES, json={**RATE_PLAN, "amount": 1})
    again = hotels.post(RATES, json={**RATE_PLAN, "amount": 1})
    assert (again.status_code, again.content) == (200, first.content)


def test_a_rate_plan_is_keyed_by_hotel_and_code(hotels: httpx.Client) -> None:
    """Interface: "Keyed by (`hotelId`, `ratePlanCode`)"."""
    plans = [RATE_PLAN, {**RATE_PLAN, "hotelId": "B2"}, {**RATE_PLAN, "ratePlanCode": "OTHER"}]
    assert [hotels.post(RATES, json=plan).status_code for plan in plans] == [201, 201, 201]


def test_a_rate_plan_of_an_unknown_hotel_is_404(hotels: httpx.Client, rates: RatesClient) -> None:
    """Interface: "An unknown hotel is 404"."""
    sent = {**RATE_PLAN, "hotelId": "nowhere"}
    refused(hotels.post(RATES, json=sent), 404, "unknown-hotel")
    with pytest.raises(UpstreamRefusedError) as error:
        rates.put(RatePlan.parse(json.dumps(sent).encode()))
    assert error.value.status == 404


@pytest.mark.parametrize(
    "change", [{"type": "weekly"}, {"name": 7}, {"currency": None}, {"ratePlanCode": ""}, {"hotelId": None}]
)
def test_a_rate_plan_that_is_not_one_is_422_with_pointers(hotels: httpx.Client, change: dict[str, Any]) -> None:
    """Interface: "`errors: [{pointer, detail}]` for fields: ... 422 well-formed but invalid"."""
    body = refused(hotels.post(RATES, json={**RATE_PLAN, **change}), 422, "invalid-body")
    assert [one["pointer"] for one in body["errors"]] == [f"/{name}" for name in change]
