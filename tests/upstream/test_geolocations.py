"""The seven operations: what is asked, and which answers are believed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from geolookup.model.errors import EditError, UpstreamAnswerError, UpstreamError, UpstreamRefusedError
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer, Request, answer
from tests.upstream.helpers import FIELDS, TWO, transport

Use = Callable[[GeolocationsClient], Any]


def run(body: bytes, use: Use, *, status: str = "200 OK", **changes: Any) -> tuple[Any, Request]:
    with RawServer(answer(body, status=status)) as server, transport(server, **changes) as connection:
        result = use(GeolocationsClient(connection))
        [request] = server.requests
    return result, request


OPERATIONS: list[tuple[str, Use, str, str, Any]] = [
    ("create", lambda c: c.create(FIELDS, idempotency_key="k1"), "POST", "/geolocations", FIELDS),
    (
        "create_block",
        lambda c: c.create_block(-7, "1.1.1.1", "1.1.1.2", idempotency_key="k1"),
        "POST",
        "/geolocations/ipblocks?locid=-7",
        {"startip": "1.1.1.1", "endip": "1.1.1.2"},
    ),
    ("update", lambda c: c.update(-7, FIELDS), "PUT", "/geolocations?locid=-7", FIELDS),
    (
        "replace_block",
        lambda c: c.replace_block(-7, "1.1.1.1", "1.1.1.2", "::1", "::2"),
        "PUT",
        "/geolocations/ipblocks?locid=-7",
        {"startip": "1.1.1.1", "endip": "1.1.1.2", "newstartip": "::1", "newendip": "::2"},
    ),
    ("delete", lambda c: c.delete(-7), "DELETE", "/geolocations?locid=-7", None),
]
BY_NAME = {name: use for name, use, *_ in OPERATIONS}
every_operation = pytest.mark.parametrize(("name", "use", "method", "target", "body"), OPERATIONS, ids=list(BY_NAME))


@every_operation
@pytest.mark.parametrize("status", ["200 OK", "201 Created"])
def test_each_operation_asks_as_the_interface_says(
    name: str, use: Use, method: str, target: str, body: Any, status: str
) -> None:
    locid, request = run(b'{"locid": -7, "more": 1}', use, status=status)
    assert locid == -7
    assert (request.method, request.target) == (method, target)
    assert (json.loads(request.body) if request.body else None) == body
    assert request.headers.get("idempotency-key") == ("k1" if name.startswith("create") else None)


@every_operation
def test_each_path_can_be_set(name: str, use: Use, method: str, target: str, body: Any) -> None:
    _, request = run(b'{"locid":-7}', use, **{f"path_{name}": "/elsewhere"})
    assert request.target == "/elsewhere" + target.removeprefix("/geolocations").removeprefix("/ipblocks")


def test_deleting_blocks_answers_with_two_counts() -> None:
    result, request = run(
        b'{"totalMatchingBlocks": 5, "customerDefinedMatchingBlocks": 4}', lambda c: c.delete_blocks(-7)
    )
    assert result == (5, 4)
    assert (request.method, request.target) == ("DELETE", "/geolocations/ipblocks?locid=-7")


@every_operation
@pytest.mark.parametrize(
    "answered",
    [
        b"",
        b"{}",
        b"[]",
        b"-7",
        b"<html>",
        b'{"locid": null}',
        b'{"locid": -7.0}',
        b'{"locid": true}',
        b'{"locid": "x"}',
        b'{"locid": [-7]}',
        b'{"locid": 7}',
        b'{"locid": 0}',
        b'{"locid": -1000000000000000}',
        b'{"locid": -7',
        b'{"locid": -7} x',
        b'{"locid": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
def test_success_without_the_promised_locid_is_not_believed(
    name: str, use: Use, method: str, target: str, body: Any, answered: bytes
) -> None:
    with pytest.raises(UpstreamAnswerError):
        run(answered, use)


@pytest.mark.parametrize(
    ("locid", "what"), [(7, "not negative"), (0, "not negative"), (-(10**15), "below all"), (-(10**18), "below all")]
)
def test_a_locid_that_no_custom_geolocation_has_is_said_to_be_so(locid: int, what: str) -> None:
    with pytest.raises(UpstreamAnswerError, match=f"locid {locid}, which is {what}"):
        run(b'{"locid": %d}' % locid, BY_NAME["create"])


@pytest.mark.parametrize("name", ["create_block", "update", "replace_block", "delete"])
def test_an_answer_for_another_locid_is_not_believed(name: str) -> None:
    with pytest.raises(UpstreamAnswerError, match="-8"):
        run(b'{"locid": -8}', BY_NAME[name])


@every_operation
def test_accepted_for_later_is_not_done(name: str, use: Use, method: str, target: str, body: Any) -> None:
    with pytest.raises(UpstreamAnswerError, match="202"):
        run(b'{"locid": -7}', use, status="202 Accepted")


@pytest.mark.parametrize(
    "answered",
    [b"", b"{}", b'{"totalMatchingBlocks": 1}', b'{"totalMatchingBlocks": -1, "customerDefinedMatchingBlocks": 0}'],
)
def test_deleting_blocks_without_counts_is_not_believed(answered: bytes) -> None:
    with pytest.raises(UpstreamAnswerError):
        run(answered, lambda c: c.delete_blocks(-7))


@every_operation
@pytest.mark.parametrize("status", ["503 X", "429 X", "408 X"])
def test_nothing_that_changes_something_is_sent_again(
    name: str, use: Use, method: str, target: str, body: Any, status: str
) -> None:
    with RawServer(answer(b"", status=status)) as server, transport(server, attempts=5) as connection:
        with pytest.raises(UpstreamError):
            use(GeolocationsClient(connection))
        assert server.connections == 1


def test_a_refusal_of_an_edit_names_its_problem() -> None:
    with pytest.raises(UpstreamRefusedError) as caught:
        run(b'{"type":"https://x/block-exists"}', BY_NAME["create_block"], status="409 Conflict")
    assert caught.value.problem_type == "block-exists"


def test_a_geolocation_without_all_eight_fields_is_not_sent() -> None:
    with pytest.raises(EditError, match="areacode"):
        run(b"{}", lambda c: c.update(-7, {key: value for key, value in FIELDS.items() if key != "areacode"}))


def test_only_the_eight_fields_are_sent() -> None:
    _, request = run(b'{"locid":-7}', lambda c: c.update(-7, {**FIELDS, "locid": -7, "ipblocks": []}))
    assert json.loads(request.body) == FIELDS


def test_a_list_asks_with_its_filters_and_leaves_out_empty_ones() -> None:
    rows, request = run(b"[]", lambda c: list(c.list(top=5, country="us", region="", city="São Paulo & more")))
    assert rows == []
    assert (request.method, request.target.partition("?")[0]) == ("GET", "/geolocations")
    assert request.target.endswith("?top=5&country=us&city=S%C3%A3o+Paulo+%26+more") or request.target.endswith(
        "?top=5&country=us&city=S%C3%A3o%20Paulo%20%26%20more"
    )
    assert "if-none-match" not in request.headers


def test_a_conditional_list_may_be_unmodified() -> None:
    unmodified = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
    with RawServer(unmodified) as server, transport(server) as connection:
        with GeolocationsClient(connection).list(etag='"v1"') as listing:
            assert listing.not_modified
            assert list(listing) == []
        assert server.requests[0].headers["if-none-match"] == '"v1"'


@pytest.mark.parametrize(
    ("header", "etag"),
    [('"v1"', '"v1"'), ('""', '""'), ('W/"v1"', None), ("v1", None), ('"a"b"', None), ('"\xe9"', None), ("", None)],
)
def test_only_a_strong_etag_counts(header: str, etag: str | None) -> None:
    with (
        RawServer(answer(b"[]", headers=[f"ETag: {header}"])) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        assert listing.etag == etag


@pytest.mark.parametrize(
    ("header", "count"), [("2", 2), ("0002", 2), ("x", None), ("-2", None), ("2.0", None), ("", None)]
)
def test_a_declared_count_that_is_no_number_is_none(header: str, count: int | None) -> None:
    with (
        RawServer(answer(TWO, headers=[f"X-Total-Count: {header}"])) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        assert listing.total_count == count
        assert len(list(listing)) == 2


def test_a_listing_is_read_once() -> None:
    with (
        RawServer(answer(TWO)) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        list(listing)
        with pytest.raises(UpstreamError, match="once"):
            list(listing)


def test_a_listing_left_early_is_not_complete_and_lets_go_of_its_connection() -> None:
    with RawServer(answer(TWO)) as server, transport(server) as connection:
        client = GeolocationsClient(connection)
        with client.list() as listing:
            assert next(iter(listing)).locid == 1
        assert not listing.complete
        assert len(list(client.list())) == 2


def test_a_list_larger_than_many_chunks_comes_in_batches() -> None:
    text = b"[" + b",".join(b'{"locid":%d}' % number for number in range(1, 100_001)) + b"]"
    with (
        RawServer(answer(text, framing="chunked")) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        batches = [[row.locid for row in batch] for batch in listing.iter_batches()]
    assert len(batches) > 3
    assert [locid for batch in batches for locid in batch] == list(range(1, 100_001))
