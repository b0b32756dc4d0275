"""What holds for several operations: refusals, preconditions, idempotency keys, problems."""

from typing import Any

import httpx
import pytest

from tests.contract.answers import BLOCKS, PATH, block, blocks_of, refused, replacement
from tests.support.services.running_service import FIELDS, RunningService

WRITES = [
    ("POST", BLOCKS, block("10.0.0.0", "10.0.0.1")),
    ("PUT", PATH, FIELDS),
    ("PUT", BLOCKS, replacement(("192.0.2.0", "192.0.2.127"), ("10.0.0.0", "10.0.0.1"))),
    ("DELETE", PATH, None),
    ("DELETE", BLOCKS, None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
class TestEachWriteToAGeolocation:
    """What holds for operations 3 to 7 alike."""

    def test_editing_or_deleting_a_default_geolocation_is_403(
        self, client: httpx.Client, method: str, path: str, body: Any
    ) -> None:
        """Interface: "Editing or deleting a default geolocation is 403 `default-geolocation-immutable`"."""
        before = client.get(PATH)
        answer = client.request(method, path, params={"locid": 1}, json=body)
        refused(answer, 403, "default-geolocation-immutable")
        assert client.get(PATH).headers["etag"] == before.headers["etag"]

    @pytest.mark.parametrize("locid", ["-77", "77", "-99999999999999999999999"])
    def test_an_unknown_geolocation_is_404(
        self, client: httpx.Client, method: str, path: str, body: Any, locid: str
    ) -> None:
        """Interface: "404 unknown"."""
        answer = client.request(method, path, params={"locid": locid}, json=body)
        refused(answer, 404, "unknown-geolocation")

    @pytest.mark.parametrize("query", ["", "?locid=", "?locid=x", "?locid=0", "?locid=-1.0", "?locid=-1&locid=-1"])
    def test_a_locid_that_is_missing_or_malformed_is_400(
        self, client: httpx.Client, method: str, path: str, body: Any, query: str
    ) -> None:
        """Interface: "400 malformed"."""
        refused(client.request(method, path + query, json=body), 400, "invalid-parameter")

    def test_a_stale_if_match_is_412_and_changes_nothing(
        self, service: RunningService, client: httpx.Client, method: str, path: str, body: Any
    ) -> None:
        """Interface: "412 stale `If-Match`"."""
        stale = client.get(PATH).headers["etag"]
        locid = service.create(("192.0.2.0", "192.0.2.127"))
        now = client.get(PATH).headers["etag"]
        for tag in (stale, f"W/{now}", '"other"'):
            answer = client.request(method, path, params={"locid": locid}, json=body, headers={"If-Match": tag})
            refused(answer, 412, "stale-precondition")
        assert client.get(PATH).headers["etag"] == now
        filtered = client.get(PATH, params={"country": "US"}).headers["etag"]
        answer = client.request(
            method, path, params={"locid": locid}, json=body, headers={"If-Match": f'"other", {filtered}'}
        )
        assert answer.is_success

    def test_the_star_matches_whatever_there_is(
        self, service: RunningService, client: httpx.Client, method: str, path: str, body: Any
    ) -> None:
        """Interface: "412 stale `If-Match`"."""
        locid = service.create(("192.0.2.0", "192.0.2.127"))
        answer = client.request(method, path, params={"locid": locid}, json=body, headers={"If-Match": "*"})
        assert answer.is_success


def test_the_same_key_and_body_get_the_first_answer_and_create_nothing(client: httpx.Client) -> None:
    """Interface: "the service replays the first answer for the same key and body"."""
    key = {"Idempotency-Key": "k1"}
    first = client.post(PATH, json=FIELDS, headers=key)
    again = client.post(PATH, json=dict(reversed(FIELDS.items())), headers=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert len(client.get(PATH).json()) == 3


def test_the_same_key_with_another_body_locid_or_operation_is_422(
    service: RunningService, client: httpx.Client
) -> None:
    """Interface: "and answers 422 to the same key with another body"."""
    key = {"Idempotency-Key": "k1"}
    one, two = service.create(), service.create()
    client.post(BLOCKS, params={"locid": one}, json=block("10.0.0.1", "10.0.0.2"), headers=key).raise_for_status()
    name = "idempotency-key-reused"
    other = block("10.0.0.1", "10.0.0.3")
    refused(client.post(BLOCKS, params={"locid": one}, json=other, headers=key), 422, name)
    refused(client.post(BLOCKS, params={"locid": two}, json=block("10.0.0.1", "10.0.0.2"), headers=key), 422, name)
    refused(client.post(PATH, json=FIELDS, headers=key), 422, name)


def test_a_replayed_block_is_created_once(service: RunningService, client: httpx.Client) -> None:
    """Interface: "`Idempotency-Key` on 2 and 3: the service replays the first answer"."""
    locid, key = service.create(), {"Idempotency-Key": "k1"}
    answers = [
        client.post(BLOCKS, params={"locid": locid}, json=block("10.0.0.1", "10.0.0.2"), headers=key) for _ in range(2)
    ]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(201, {"locid": locid})] * 2
    assert blocks_of(client, locid) == [("10.0.0.1", "10.0.0.2")]


def test_a_replay_outlives_what_it_created(client: httpx.Client) -> None:
    """Interface: "the service replays the first answer for the same key and body"."""
    key = {"Idempotency-Key": "k1"}
    locid = client.post(PATH, json=FIELDS, headers=key).json()["locid"]
    client.delete(PATH, params={"locid": locid}).raise_for_status()
    assert client.post(PATH, json=FIELDS, headers=key).json() == {"locid": locid}
    assert len(client.get(PATH).json()) == 2


def test_a_refusal_is_not_remembered_for_its_key(service: RunningService, client: httpx.Client) -> None:
    """Interface: "the service replays the first answer for the same key and body"."""
    owner, locid = service.create(("10.0.0.1", "10.0.0.2")), service.create()
    key, body = {"Idempotency-Key": "k1"}, block("10.0.0.1", "10.0.0.2")
    refused(client.post(BLOCKS, params={"locid": locid}, json=body, headers=key), 409, "block-taken")
    client.delete(BLOCKS, params={"locid": owner}).raise_for_status()
    assert client.post(BLOCKS, params={"locid": locid}, json=body, headers=key).status_code == 201


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_key_that_cannot_be_one_is_400(client: httpx.Client, key: str) -> None:
    """Interface: "400 malformed"."""
    answer = client.post(PATH, json=FIELDS, headers={b"Idempotency-Key": key.encode()})
    refused(answer, 400, "invalid-parameter")


def test_a_body_too_large_is_413(client: httpx.Client) -> None:
    """Interface: "413 body too large"."""
    refused(client.post(PATH, content=b" " * 70000), 413, "body-too-large")
    refused(client.post(PATH, content=iter([b" " * 40000] * 3)), 413, "body-too-large")


@pytest.mark.parametrize("path", ["/nothing", "/geolocations/1", "/schema/nothing"])
def test_an_unknown_path_is_404_as_a_problem(client: httpx.Client, path: str) -> None:
    """Interface: "Errors are RFC 9457 `application/problem+json` with a stable `type` ... 404 unknown"."""
    refused(client.get(path), 404, "not-found")


@pytest.mark.parametrize(("method", "path"), [("PATCH", PATH), ("GET", BLOCKS), ("POST", "/")])
def test_an_unknown_method_is_405_and_says_which_there_are(client: httpx.Client, method: str, path: str) -> None:
    """Interface: "Errors are RFC 9457 `application/problem+json` with a stable `type`"."""
    answer = client.request(method, path)
    refused(answer, 405, "method-not-allowed")
    assert answer.headers["allow"]
