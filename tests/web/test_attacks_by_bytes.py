"""Hostile paths, framing and sizes, byte by byte: the refusal that each gets, and a service that goes on."""

import pytest

from tests.support.services.attacked import WITH_BODY, WRITER, Operation, ask, reader, refused, running, unharmed
from tests.support.services.raw_http import exchange
from tests.support.services.running_service import RunningService

__all__ = ["reader", "running", "unharmed"]

# Paths

TRAVERSALS = (
    "..",
    "../..",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "%252e%252e%252f",
    "....//",
    "H1%00",
    "H1%0d%0aSet-Cookie:%20a=b",
    "%ff%fe",
    "'%20OR%20'1'='1",
    "%",
    "%zz",
)


@pytest.mark.parametrize("value", TRAVERSALS)
def test_no_identifier_leads_out_of_its_place(running: RunningService, value: str) -> None:
    for path, good in (
        (f"/v1/api/hotel/{value}/details", ((404, "unknown-hotel"), (404, "not-found"), (400, "invalid-parameter"))),
        (f"/lookup/{value}", ((400, "invalid-address"), (404, "not-found"))),
        (f"/schema/{value}", ((404, "not-found"),)),
        (f"/{value}/geolocations", ((404, "not-found"),)),
    ):
        answer = ask(running, f"GET {path} HTTP/1.1")
        assert (answer.status, answer.problem) in good, (path, answer)
        assert "set-cookie" not in answer.headers


TARGETS = ("//evil.example/geolocations", "*", "/geolocations/../../x", "/%2e")


@pytest.mark.parametrize("target", TARGETS)
def test_no_odd_target_is_taken_for_a_good_one(running: RunningService, target: str) -> None:
    refused(ask(running, f"GET {target} HTTP/1.1"), 404, "not-found")


# Framing

REQUEST = f"POST /geolocations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {WRITER}\r\n".encode()
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
FRAMINGS: tuple[tuple[str, bytes, int, str], ...] = (
    ("both framings", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    ("both, reversed", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "bad-request"),
    ("two lengths", b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400, "bad-request"),
    ("lengths in one", b"Content-Length: 5, 6\r\n\r\nabcdef", 400, "bad-request"),
    ("negative length", b"Content-Length: -1\r\n\r\n", 400, "bad-request"),
    ("length no number", b"Content-Length: 0x5\r\n\r\nabcde", 400, "bad-request"),
    ("signed length", b"Content-Length: +5\r\n\r\nabcde", 400, "bad-request"),
    ("unknown coding", b"Transfer-Encoding: gzip\r\n\r\n", 501, "not-implemented"),
    ("two codings", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 501, "not-implemented"),
    ("chunked, hidden", b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, "not-implemented"),
    ("chunk size no number", b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    ("chunk size negative", b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n", 400, "bad-request"),
    ("chunk size endless", b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n", 400, "bad-request"),
    ("chunk longer than said", b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n", 400, "bad-request"),
    ("space before colon", b"Content-Length : 5\r\n\r\nabcde", 400, "bad-request"),
    ("folded header", b"X: a\r\n b\r\nContent-Length : 1\r\n\r\na", 400, "bad-request"),
    ("NUL in a header", b"X: a\0b\r\n\r\n", 400, "bad-request"),
    ("bare return in a header", b"X: a\rb\r\n\r\n", 400, "bad-request"),
    ("second host", b"Host: evil.example\r\n\r\n", 400, "bad-request"),
)


@pytest.mark.parametrize(("headers", "status", "problem"), [row[1:] for row in FRAMINGS], ids=[r[0] for r in FRAMINGS])
def test_doubtful_framing_is_refused_and_nothing_behind_it_is_a_request(
    running: RunningService, headers: bytes, status: int, problem: str
) -> None:
    answer = exchange(running.url, REQUEST + headers + SMUGGLED)
    refused(answer, status, problem)
    assert answer.headers["connection"] == "close"


NO_REQUESTS: dict[str, bytes] = {
    "NULs": b"\0" * 100,
    "one word": b"rubbish\r\n\r\n",
    "no target": b"GET\r\n\r\n",
    "no version of ours": b"GET / HTTP/9.9\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}


@pytest.mark.parametrize("data", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_is_a_problem_too(running: RunningService, data: bytes) -> None:
    refused(exchange(running.url, data), 400, "bad-request")


def test_sizes_are_refused_before_anything_is_read_for_them(running: RunningService) -> None:
    refused(ask(running, "GET /geolocations HTTP/1.1", "X: " + "a" * 17000), 431, "head-too-large")
    refused(ask(running, "GET /geolocations HTTP/1.1", "X: " + "a" * 900000), 431, "head-too-large")
    many = [f"X-{number}: {'a' * 90}" for number in range(200)]
    refused(ask(running, "GET /geolocations HTTP/1.1", *many), 431, "head-too-large")
    refused(ask(running, f"GET /geolocations?city={'a' * 9000} HTTP/1.1"), 414, "target-too-long")
    refused(ask(running, f"GET /{'a' * 9000} HTTP/1.1"), 414, "target-too-long")
    oversized = ask(running, "POST /geolocations HTTP/1.1", "Content-Length: 99999999", body=b"{")
    refused(oversized, 413, "body-too-large")
    chunks = b"".join(b"4000\r\n" + b"a" * 0x4000 + b"\r\n" for _ in range(6))
    refused(
        ask(running, "POST /geolocations HTTP/1.1", "Transfer-Encoding: chunked", body=chunks), 413, "body-too-large"
    )


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_a_body_that_never_comes_is_given_up(running: RunningService, operation: Operation) -> None:
    answer = ask(running, f"{operation.method} {operation.path} HTTP/1.1", "Content-Length: 100", body=b"{")
    refused(answer, 408, "request-timeout")
