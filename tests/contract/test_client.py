"""What the interface says of clients: geolookup's own against the real service, one test a sentence."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from geolookup.model.errors import UpstreamAuthError, UpstreamError, UpstreamRefusedError
from geolookup.settings.table import Settings
from geolookup.upstream.geolocations import GeolocationsClient
from geolookup.upstream.hotels import HotelsClient
from geolookup.upstream.rates import RatePlan, RatesClient
from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Limits, Options
from tests.contract.answers import BLOCKS, PATH, blocks_of, refused
from tests.faults.raw_server import RawServer, answer
from tests.support.data.hotels import RATE_PLAN, hotel
from tests.support.data.lists import item
from tests.support.services.running_service import FIELDS, RunningService
from tests.upstream.helpers import locids, transport

READER, WRITER = new_token(), new_token()


@pytest.fixture
def ours(service: RunningService) -> Iterator[GeolocationsClient]:
    """geolookup's own client of the service."""
    with transport(service.url, secret=None) as connection:
        yield GeolocationsClient(connection)


@pytest.fixture
def guarded(db: str, tmp_path: Path) -> Iterator[RunningService]:
    """A service that knows a token of each scope."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{line_for('reader', Scope.READ, READER)}\n{line_for('writer', Scope.WRITE, WRITER)}\n")
    tokens.chmod(0o600)
    with RunningService(db, options=Options(tokens=str(tokens))) as running:
        yield running


# --- operations 1 to 7, from end to end


def test_every_operation_that_the_client_sends_does_what_it_says(
    ours: GeolocationsClient, client: httpx.Client
) -> None:
    """Interface: "What the client speaks and the reference service serves"."""
    locid = ours.create(FIELDS, idempotency_key="one")
    assert locid < 0
    assert ours.create_block(locid, "10.0.0.0", "10.0.0.9", idempotency_key="two") == locid
    assert ours.create_block(locid, "10.1.0.0", "10.1.0.9", idempotency_key="three") == locid
    assert ours.update(locid, {**FIELDS, "city": "Berkeley"}) == locid
    assert ours.replace_block(locid, "10.0.0.0", "10.0.0.9", "::1", "::2") == locid
    with ours.list(city="berkeley") as listing:
        (found,) = list(listing)
    assert (found.locid, found.city, len(found.blocks)) == (locid, "Berkeley", 2)
    assert blocks_of(client, locid) == [("10.1.0.0", "10.1.0.9"), ("::1", "::2")]
    assert ours.delete_blocks(locid) == (2, 2)
    assert ours.delete(locid) == locid
    with ours.list() as listing:
        assert [one.locid for one in listing] == [1, 2]


def test_the_client_verifies_the_declared_count_and_revalidates_by_the_etag(ours: GeolocationsClient) -> None:
    """Interface: "It verifies `X-Total-Count` where there is one" and "a strong `ETag`, and 304 to a matching
    `If-None-Match`".
    """
    with ours.list() as listing:
        assert len(list(listing)) == listing.total_count == 2
        assert listing.complete
        tag = listing.etag
    with ours.list(etag=tag) as again:
        assert again.not_modified


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: rows, lambda rows: {"data": rows}, lambda rows: {"items": rows, "total": 2},
        lambda rows: {"geolocations": rows, "page": {"size": 10}},
    ],
)  # fmt: skip
def test_the_client_takes_an_array_or_an_object_with_one(client: httpx.Client, wrap: Any) -> None:
    """Interface: "The client accepts an array, one bare object, or an object with exactly one array of geolocations
    in it (`data`, `geolocations`, `items`, …)".
    """
    rows = client.get(PATH).json()  # as the service has them, in whatever others wrap them
    with RawServer(answer(json.dumps(wrap(rows)).encode())) as server:
        assert locids(server) == [1, 2]


def test_the_client_takes_one_bare_object(client: httpx.Client) -> None:
    """Interface: "The client accepts an array, one bare object, ..."."""
    first, _ = client.get(PATH).json()
    with RawServer(answer(json.dumps(first).encode())) as server:
        assert locids(server) == [1]


def test_quoted_coordinates_and_numbers_that_disagree_are_taken(tmp_path: Path) -> None:
    """Interface: "real clients also send them as quoted decimals, so both are accepted" and "a number that disagrees
    with its text (or is missing, null, or quoted) is counted in the sync report, never trusted".
    """
    row = item(5, ("10.0.0.0", "10.0.0.9"), latitude="1.5", longitude=2)
    row["ipblocks"][0] |= {"startipnum": "7", "endipnum": None}
    with (
        RawServer(answer(json.dumps([row]).encode())) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        (found,) = list(listing)
        assert (found.latitude, found.longitude) == (1.5, 2.0)
        assert found.blocks[0][:3] == (4, 10 << 24, (10 << 24) + 9)
        assert listing.number_disagreements == 1


def test_a_block_that_is_no_range_is_rejected_with_its_locid_and_the_rest_goes_on() -> None:
    """Interface: "a block that is not is rejected with its locid and reason, and the rest goes on"."""
    rows = [item(5, ("10.0.0.9", "10.0.0.0"), ("10.1.0.0", "10.1.0.9"), ("10.2.0.0", "::1")), item(6)]
    with (
        RawServer(answer(json.dumps(rows).encode())) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        found = list(listing)
        assert [len(one.blocks) for one in found] == [1, 0]
        assert [one.locid for one in listing.rejected] == [5, 5]
        assert all(one.reason for one in listing.rejected)


def test_paths_can_be_set_for_other_deployments() -> None:
    """Interface: "Every path of the client can be set in its configuration, since other deployments differ"."""
    paths = [field.name for field in msgspec.structs.fields(Settings) if field.name.startswith("path_")]
    elsewhere = {name: f"/elsewhere/{name}" for name in paths} | {"path_hotel_details": "/elsewhere/{hotelId}"}
    bodies = [
        b"[]", *[b'{"locid":-1}'] * 5, b'{"totalMatchingBlocks":0,"customerDefinedMatchingBlocks":0}',
        json.dumps(hotel("A1")).encode(), b"[]", json.dumps(RATE_PLAN).encode(),
    ]  # fmt: skip
    with RawServer(*map(answer, bodies)) as server, transport(server, **elsewhere) as connection:
        places = GeolocationsClient(connection)
        with places.list() as listing:
            assert list(listing) == []
        places.create(FIELDS, idempotency_key="a")
        places.update(-1, FIELDS)
        places.delete(-1)
        places.create_block(-1, "10.0.0.0", "10.0.0.1", idempotency_key="b")
        places.replace_block(-1, "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3")
        places.delete_blocks(-1)
        HotelsClient(connection).details("A1")
        HotelsClient(connection).list(city="Austin")
        RatesClient(connection).put(RatePlan.parse(json.dumps(RATE_PLAN).encode()))
    asked = [request.target.partition("?")[0] for request in server.requests]
    assert asked == [elsewhere[name].replace("{hotelId}", "A1") for name in paths]


# --- everything else


def test_the_client_always_sends_a_key_and_the_service_replays_by_it(
    ours: GeolocationsClient, client: httpx.Client
) -> None:
    """Interface: "the service replays the first answer for the same key and body ... The client always sends one"."""
    assert ours.create(FIELDS, idempotency_key="k") == ours.create(FIELDS, idempotency_key="k")
    with pytest.raises(UpstreamRefusedError) as error:
        ours.create({**FIELDS, "city": "other"}, idempotency_key="k")
    assert (error.value.status, error.value.problem_type) == (422, "idempotency-key-reused")
    assert len(client.get(PATH).json()) == 3


def test_a_refusal_reaches_the_caller_with_its_type_and_pointers(ours: GeolocationsClient) -> None:
    """Interface: "Errors are RFC 9457 `application/problem+json` with a stable `type`, and `errors: [{pointer,
    detail}]` for fields".
    """
    with pytest.raises(UpstreamRefusedError) as error:
        ours.create({**FIELDS, "latitude": 91, "city": "x" * 300}, idempotency_key="k")
    assert (error.value.status, error.value.problem_type) == (422, "invalid-body")
    assert sorted(pointer for pointer, _ in error.value.errors) == ["/city", "/latitude"]


@pytest.mark.parametrize("body", [b"<html><h1>Bad gateway</h1>", b"", b"\xff\xfe\0", b"[" * 5000, b'{"type": 7}'])
@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "502 Bad Gateway"])
def test_the_client_survives_any_body_on_an_error(body: bytes, status: str) -> None:
    """Interface: "The client must survive any body at all on an error, HTML included"."""
    with RawServer(answer(body, status=status)) as server, pytest.raises(UpstreamError):
        locids(server)


def test_default_geolocations_are_refused_by_their_own_problem(ours: GeolocationsClient) -> None:
    """Interface: "Editing or deleting a default geolocation is 403 `default-geolocation-immutable`"."""
    with pytest.raises(UpstreamRefusedError) as error:
        ours.delete(1)
    assert not isinstance(error.value, UpstreamAuthError)
    assert error.value.problem_type == "default-geolocation-immutable"


def test_a_token_is_needed_and_its_scope_decides(guarded: RunningService) -> None:
    """Interface: "Authentication: bearer token. The service reads its tokens from a file or the environment, ...
    knows a read and a write scope" and "401/403 not allowed".
    """
    with guarded.client() as client:
        answered = client.get(PATH)
        refused(answered, 401, "unauthenticated")
        assert answered.headers["www-authenticate"].startswith("Bearer")
        reader, writer = ({"Authorization": f"Bearer {token}"} for token in (READER, WRITER))
        assert client.get(PATH, headers=reader).status_code == 200
        assert client.post("/lookup", json=[], headers=reader).status_code == 200
        refused(client.post(PATH, json=FIELDS, headers=reader), 403, "insufficient-scope")
        refused(client.delete(f"{BLOCKS}?locid=-1", headers=reader), 403, "insufficient-scope")
        assert client.post(PATH, json=FIELDS, headers=writer).status_code == 201


def test_the_client_sends_its_token_and_tells_want_of_scope_from_refusals(guarded: RunningService) -> None:
    """Interface: "bearer token" and "401/403 not allowed"."""
    with transport(guarded.url, secret=WRITER) as connection:
        assert GeolocationsClient(connection).create(FIELDS, idempotency_key="k") < 0
    for secret, status in ((READER, 403), ("stranger", 401)):
        with transport(guarded.url, secret=secret) as connection, pytest.raises(UpstreamAuthError) as error:
            GeolocationsClient(connection).create(FIELDS, idempotency_key="l")
        assert str(status) in str(error.value)
        assert secret not in str(error.value)


def test_more_than_a_client_may_ask_is_429_with_retry_after(db: str) -> None:
    """Interface: "429/503 with `Retry-After`"."""
    with RunningService(db, options=Options(limits=Limits(rate=1))) as running, running.client() as client:
        answers = [client.get("/lookup/192.0.2.1") for _ in range(12)]
    last = answers[-1]
    refused(last, 429, "too-many-requests")
    assert int(last.headers["retry-after"]) >= 1
    assert answers[0].status_code in (200, 503)
