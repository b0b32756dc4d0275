"""Rate plans on their way to the service: sent as they are written, and which answers are believed."""

import json
from typing import Any

import pytest

from geolookup.model.errors import EditError, UpstreamAnswerError, UpstreamAuthError, UpstreamRefusedError
from geolookup.upstream.rates import RatePlan, RatesClient, StoredRatePlan
from tests.faults.raw_server import RawServer, Request, answer
from tests.upstream.helpers import transport

TEXT = b'{"hotelId":"A1","ratePlanCode":"BAR","amount":189.50,"huge":1e999,"tiny":0.10000000000000000555}'
PLAN = RatePlan.parse(TEXT)


def put(
    body: bytes, *, status: str = "200 OK", headers: tuple[str, ...] = (), **changes: Any
) -> tuple[StoredRatePlan, Request]:
    raw = answer(body, status=status, headers=headers)
    with RawServer(raw) as server, transport(server, **changes) as connection:
        result = RatesClient(connection).put(PLAN)
        [request] = server.requests
    return result, request


def test_a_rate_plan_is_sent_to_the_last_digit() -> None:
    spaced = TEXT.replace(b",", b",\n\t ")
    with RawServer(answer(TEXT)) as server, transport(server) as connection:
        stored = RatesClient(connection).put(RatePlan.parse(spaced))
        [request] = server.requests
    assert (request.method, request.target) == ("POST", "/admin/product/ratePlans")
    assert request.headers["content-type"] == "application/json"
    assert request.body == TEXT
    assert stored.content == TEXT


def test_the_path_can_be_set() -> None:
    assert put(TEXT, path_rate_plans="/rates")[1].target == "/rates"


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        ("201 Created", (), "created"),
        ("201 Created", ("X-Outcome: unchanged",), "created"),
        ("200 OK", (), "updated"),
        ("200 OK", ("X-Outcome: updated",), "updated"),
        ("200 OK", ("X-Outcome: Unchanged",), "unchanged"),
        ("200 OK", ("X-Outcome: nonsense",), "updated"),
    ],
)
def test_the_outcome_is_what_the_status_says_and_unchanged_only_where_the_service_says_so(
    status: str, headers: tuple[str, ...], outcome: str
) -> None:
    assert put(TEXT, status=status, headers=headers)[0].outcome == outcome


@pytest.mark.parametrize("body", [b"{}", b'{"hotelId":"a1","ratePlanCode":"BAR"}', b'{"id":7}'])
def test_a_record_that_is_not_another_ones_is_believed(body: bytes) -> None:
    assert put(body)[0].content == body


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"7", b'{"hotelId":"A1"', b'{"hotelId":"B2"}', b'{"ratePlanCode":null}', b"[" * 100_000],
)
def test_success_without_the_record_is_not_believed(body: bytes) -> None:
    with pytest.raises(UpstreamAnswerError):
        put(body)


def test_accepted_for_later_is_not_done() -> None:
    with pytest.raises(UpstreamAnswerError, match="202"):
        put(TEXT, status="202 Accepted")


def test_a_refusal_names_its_problem_and_members() -> None:
    body = {"type": "urn:x:invalid-body", "errors": [{"pointer": "/currency", "detail": "is required"}]}
    with pytest.raises(UpstreamRefusedError, match="/currency: is required") as refused:
        put(json.dumps(body).encode(), status="422 X")
    assert refused.value.problem_type == "invalid-body"
    with pytest.raises(UpstreamAuthError, match="check the token"):
        put(b"", status="401 X")


def test_where_no_answer_came_it_is_sent_again_since_the_same_changes_nothing() -> None:
    with RawServer(answer(b"", status="503 X"), answer(TEXT)) as server, transport(server, attempts=2) as connection:
        assert RatesClient(connection).put(PLAN).outcome == "updated"
        assert [request.body for request in server.requests] == [TEXT, TEXT]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"hotelId":"\xff"}', "is not JSON"),
        (b'{"hotelId":"\\ud800"}', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"ratePlanCode":"BAR"}', "hotelId is missing"),
        (b'{"hotelId":7,"ratePlanCode":"BAR"}', "hotelId is missing, empty or not text"),
        (b'{"hotelId":"A1","ratePlanCode":" "}', "ratePlanCode is missing"),
    ],
)
def test_what_names_no_rate_plan_is_not_sent(text: bytes, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        RatePlan.parse(text)
