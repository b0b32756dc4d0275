"""The service with dials: with none turned it is the reference service, and each dial does what it says."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from geolookup.model.types import FIELD_NAMES
from tests.dials.dials import MEANINGS, Dials, turned
from tests.dials.faces import OverHttp
from tests.dials.machine import Time
from tests.dials.upstream import LostError, Upstream
from tests.support.services.running_service import FIELDS, RunningService

BLOCKS = [("10.0.0.0", "10.0.0.255"), ("10.0.0.0", "10.0.0.127"), ("10.1.0.0", "10.1.0.0")]


def sent(upstream: Upstream, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    answer = upstream.handle(method, target, headers, b"" if body is None else json.dumps(body).encode())
    return answer.status, json.loads(answer.body or b"null")


def service(**dials: Any) -> tuple[Upstream, Time]:
    time = Time()
    return Upstream(Dials(**dials), Random(1), time), time


def listed(upstream: Upstream) -> dict[int, dict[str, Any]]:
    return {place["locid"]: place for place in sent(upstream, "GET", "/geolocations")[1] if place["locid"] < 0}


def test_with_no_dial_turned_it_answers_as_the_reference_service_does(tmp_path: Path) -> None:
    csv = tmp_path / "defaults.csv"
    csv.write_text("startip,endip,country\n192.0.2.0,192.0.2.255,US\n")
    random = Random(4)
    with (
        RunningService(tmp_path / "service.db", load=[csv], ignore_idempotency_keys=True) as reference,
        reference.client() as right,
        OverHttp(service()[0]) as fake,
        httpx.Client(base_url=fake.url, trust_env=False) as left,
    ):
        for number in range(300):
            method, target, body = _request(random)
            answers = [
                client.request(method, target, json=body, headers={"Idempotency-Key": f"key-{number}"})
                for client in (left, right)
            ]
            assert _said(answers[0]) == _said(answers[1]), (method, target, body)
        assert _customs(left) == _customs(right)
        assert len(_customs(left)) > 2


def _request(random: Random) -> tuple[str, str, Any]:
    locid = random.randint(-9, -1)
    startip, endip = random.choice(BLOCKS)
    newstartip, newendip = random.choice(BLOCKS)
    block = {"startip": startip, "endip": endip}
    fields = {**FIELDS, "city": random.choice(["Berlin", "Bonn"])}
    return random.choice(
        [
            ("POST", "/geolocations", fields),
            ("PUT", f"/geolocations?locid={locid}", fields),
            ("DELETE", f"/geolocations?locid={locid}", None),
            ("POST", f"/geolocations/ipblocks?locid={locid}", block),
            ("POST", f"/geolocations/ipblocks?locid={locid}", block),
            (
                "PUT",
                f"/geolocations/ipblocks?locid={locid}",
                {**block, "newstartip": newstartip, "newendip": newendip},
            ),
            ("DELETE", f"/geolocations/ipblocks?locid={locid}", None),
            ("GET", "/geolocations?city=berlin", None),
        ]
    )


def _said(answer: httpx.Response) -> Any:
    if answer.status_code >= 400:
        return answer.status_code, answer.json()["type"].replace("/", ":").rpartition(":")[2]
    if answer.request.method != "GET":
        return answer.status_code, answer.json()
    return answer.status_code, sorted(
        (place["locid"], place["city"], sorted(block["startip"] for block in place["ipblocks"]))
        for place in answer.json()
        if place["locid"] < 0
    )


def _customs(client: httpx.Client) -> Any:
    places = [place for place in client.get("/geolocations").json() if place["locid"] < 0]
    return sorted(
        (
            place["locid"],
            [place[name] for name in FIELD_NAMES],
            sorted((block["startip"], block["endip"], block["startipnum"]) for block in place["ipblocks"]),
        )
        for place in places
    )


@pytest.mark.parametrize(
    ("dials", "before", "after"),
    [
        ({"capitals": True}, {"city": "Bonn"}, {"city": "BONN"}),
        ({"digits": 2}, {"latitude": 37.8049}, {"latitude": 37.8}),
        ({"dropped": ("dmacode",)}, {"dmacode": "807"}, {"dmacode": ""}),
        ({"blanks": True}, {"city": " Bad  Orb"}, {"city": "Bad Orb"}),
        ({"names": True}, {"city": "Köln"}, {"city": "Cologne"}),
    ],
)
def test_what_is_normalised_is_stored_so_and_stays_so(
    dials: dict[str, Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    upstream, _ = service(**dials)
    sent(upstream, "POST", "/geolocations", {**FIELDS, **before})
    stored = {name: listed(upstream)[-1][name] for name in after}
    assert stored == after
    assert upstream.dials.stored({**FIELDS, **after}) == upstream.dials.stored({**FIELDS, **before})


def test_a_lagging_list_shows_what_was_seconds_ago() -> None:
    upstream, time = service(lag_s=5.0)
    sent(upstream, "POST", "/geolocations", FIELDS)
    assert not listed(upstream)
    time.sleep(5.1)
    assert listed(upstream)


def test_a_list_in_pieces_mixes_moments() -> None:
    upstream, time = service(pieces_s=5.0)
    time.sleep(10)
    for _ in range(20):
        sent(upstream, "POST", "/geolocations", FIELDS)
    assert 0 < len(listed(upstream)) < 20
    time.sleep(5.1)
    assert len(listed(upstream)) == 20


def test_a_number_that_became_free_is_given_again_only_where_that_is_the_dial() -> None:
    for reuse, expected in ((True, -1), (False, -3)):
        upstream, _ = service(reuse=reuse)
        for _ in range(2):
            sent(upstream, "POST", "/geolocations", FIELDS)
        sent(upstream, "DELETE", "/geolocations?locid=-1")
        assert sent(upstream, "POST", "/geolocations", FIELDS)[1] == {"locid": expected}


def test_a_create_may_be_applied_twice_and_both_are_in_the_log_under_one_key() -> None:
    upstream, _ = service(twice=1.0)
    assert sent(upstream, "POST", "/geolocations", FIELDS, **{"idempotency-key": "k"}) == (201, {"locid": -2})
    assert upstream.by_key() == {"k": [-1, -2]}


def test_a_lie_names_another_number_and_a_conflict_comes_after_the_work() -> None:
    upstream, _ = service(lie=1.0)
    assert sent(upstream, "POST", "/geolocations", FIELDS)[1]["locid"] != -1
    upstream, _ = service(conflict=1.0)
    assert sent(upstream, "POST", "/geolocations", FIELDS)[0] == 409
    assert list(listed(upstream)) == [-1]


def test_a_lost_answer_may_come_before_after_or_long_after_the_work() -> None:
    upstream, time = service(lost=1.0, late_s=20.0)
    made = []
    for _ in range(60):
        before = len(upstream.places)
        try:
            status = sent(upstream, "POST", "/geolocations", FIELDS)[0]
        except LostError:
            status = 0
        made.append((status, len(upstream.places) - before))
    assert {(0, 0), (0, 1), (500, 1)} == set(made)
    before = len(upstream.places)
    time.sleep(21)
    assert len(upstream.places) > before


@pytest.mark.parametrize("name", sorted(set(MEANINGS) & {"normalise", "lost", "lag", "reuse", "twice", "lie"}))
def test_turning_a_dial_makes_another_service(name: str) -> None:
    turn: Callable[[int], Dials] = lambda seed: turned(frozenset({name}), Random(seed))  # noqa: E731
    assert all(turn(seed) != Dials() for seed in range(20))
    assert turn(3) == turn(3)
