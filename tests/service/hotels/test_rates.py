"""Operation 10: create or update a rate plan; kept as it was sent, and the same again changes nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from geolookup.service.hotels.records import load_hotels
from geolookup.service.store.schema import rate_plans
from tests.contract.answers import pointers, refused
from tests.support.data.hotels import RATE_PLAN, hotel, ndjson
from tests.support.services.running_service import RunningService

PATH = "/admin/product/ratePlans"
TEXT = (
    '{"hotelId":"A1","ratePlanCode":"BAR","type":"groupRate","name":"Zürich","currency":"CHF",'
    '"amount":189.50,"tiny":1e-400,"long":12345678901234567890.10,"nested":{"b":[true,null,{}],"a":"\\u0000"}}'
)


@pytest.fixture
def rates(service: RunningService, client: httpx.Client, tmp_path: Path) -> httpx.Client:
    """A client of a service that knows two hotels."""
    load_hotels(service.store, [ndjson(tmp_path / "hotels.ndjson", [hotel("A1"), hotel("Ä2")])])
    return client


def content(service: RunningService) -> tuple[int, list[tuple[Any, ...]]]:
    """All that is stored of rate plans, and the revision, which they must not change."""
    snapshot = service.store.snapshot()
    try:
        rows = snapshot.connection.execute(select(rate_plans).order_by(*rate_plans.primary_key))
        return snapshot.revision, [tuple(row) for row in rows]
    finally:
        snapshot.close()


def test_a_rate_plan_is_201_when_created_and_200_when_updated_and_answers_what_is_stored(
    service: RunningService, rates: httpx.Client
) -> None:
    created = rates.post(PATH, content=TEXT)
    assert (created.status_code, created.headers["x-outcome"], created.text) == (201, "created", TEXT)
    changed = TEXT.replace("189.50", "190")
    updated = rates.post(PATH, content=changed)
    assert (updated.status_code, updated.headers["x-outcome"], updated.text) == (200, "updated", changed)
    assert content(service)[1] == [("a1", "BAR", changed)]


@pytest.mark.parametrize(
    "again",
    [
        TEXT,
        json.dumps(json.loads(TEXT), indent=2).replace("189.5", "189.50").replace("0.0", "1e-400"),
        TEXT.replace('"type":"groupRate",', "").replace('"amount"', '"type":"groupRate","amount"'),
        TEXT.replace("ü", "\\u00fc"),
    ],
    ids=["bytes", "spaces", "order", "escapes"],
)
def test_the_same_again_changes_nothing_not_even_how_it_is_written(
    service: RunningService, rates: httpx.Client, again: str
) -> None:
    again = again.replace("1.2345678901234567e+19", "12345678901234567890.10")
    rates.post(PATH, content=TEXT)
    before = content(service)
    answer = rates.post(PATH, content=again)
    assert (answer.status_code, answer.headers["x-outcome"], answer.text) == (200, "unchanged", TEXT)
    assert content(service) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("12345678901234567890.10", "12345678901234567890.11"),
        ("1e-400", "2e-400"),
        ("true", "1"),
        ("189.50", '"189.50"'),
        (',"tiny":1e-400', ""),
        ("null,{}", "{},null"),
    ],
)
def test_a_difference_that_rounding_would_lose_is_an_update(rates: httpx.Client, old: str, new: str) -> None:
    rates.post(PATH, content=TEXT)
    changed = TEXT.replace(old, new)
    answer = rates.post(PATH, content=changed)
    assert (answer.headers["x-outcome"], answer.text) == ("updated", changed)


def test_a_rate_plan_is_keyed_by_hotel_and_code(service: RunningService, rates: httpx.Client) -> None:
    outcomes = [
        rates.post(PATH, json={**RATE_PLAN, "hotelId": hotel_id, "ratePlanCode": code}).headers["x-outcome"]
        for hotel_id, code in [("A1", "BAR"), ("Ä2", "BAR"), ("A1", "bar"), ("A1", "GRP"), ("ä2", "BAR")]
    ]
    assert outcomes == ["created", "created", "created", "created", "updated"]
    assert [row[:2] for row in content(service)[1]] == [("a1", "BAR"), ("a1", "GRP"), ("a1", "bar"), ("ä2", "BAR")]


def test_an_unknown_hotel_is_404_and_nothing_is_kept(service: RunningService, rates: httpx.Client) -> None:
    for hotel_id in ("Z9", "A1 ", "A1' OR ''='", "../A1", "A1\r\nX: y"):
        refused(rates.post(PATH, json={**RATE_PLAN, "hotelId": hotel_id}), 404, "unknown-hotel")
    assert content(service)[1] == []


NO_JSON: list[Any] = [
    "", "{", "[" * 50_000, '{"hotelId":"A1","hotelId":"A1"}', '{"a":NaN}', '{"a":"\\udc00"}', b'{"a":"\xff"}', "{}{}",
]  # fmt: skip


def test_what_is_no_json_is_400(rates: httpx.Client) -> None:
    for body in NO_JSON:
        refused(rates.post(PATH, content=body), 400, "malformed-json")


INVALID: list[tuple[Any, list[str]]] = [
    ([], [""]),
    ("A1", [""]),
    ({}, ["/hotelId", "/ratePlanCode", "/name", "/currency", "/type"]),
    *(({**RATE_PLAN, name: value}, [f"/{name}"]) for name in RATE_PLAN for value in (None, "", 7, [], "x" * 256)),
    *(({**RATE_PLAN, "type": value}, ["/type"]) for value in ("Rate", "grouprate", {}, True)),
    ({**RATE_PLAN, "ratePlanCode": "a\0"}, ["/ratePlanCode"]),
]


def test_a_rate_plan_that_is_not_valid_is_422_and_names_its_members(rates: httpx.Client) -> None:
    for body, wrong in INVALID:
        assert pointers(refused(rates.post(PATH, json=body), 422, "invalid-body")) == wrong, body


def test_many_that_create_one_rate_plan_at_once_create_it_once(service: RunningService, rates: httpx.Client) -> None:
    def post(number: int) -> str:
        with service.client() as client:
            answer = client.post(PATH, json={**RATE_PLAN, "ratePlanCode": f"C{number % 2}"})
            return answer.raise_for_status().headers["x-outcome"]

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(post, range(24)))
    assert sorted(outcomes) == ["created"] * 2 + ["unchanged"] * 22
    assert len(content(service)[1]) == 2


def test_a_rate_plan_outlives_a_restart(tmp_path: Path) -> None:
    hotels = ndjson(tmp_path / "hotels.ndjson", [hotel("A1")])
    outcomes = []
    for _ in range(2):
        with RunningService(tmp_path / "x.db") as service, service.client() as client:
            load_hotels(service.store, [hotels])
            outcomes.append(client.post(PATH, content=TEXT).headers["x-outcome"])
    assert outcomes == ["created", "unchanged"]
