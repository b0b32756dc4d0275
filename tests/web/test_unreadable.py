"""What is said of a request that cannot be read: what is wrong, and what to send, in words for who wrote its client."""

import json

import pytest

from tests.support.services.attacked import WRITER, refused, running
from tests.support.services.raw_http import exchange
from tests.support.services.running_service import RunningService

__all__ = ["running"]

SECRET = "glk_of-somebody"
GET = f"GET /geolocations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n".encode()
POST = f"POST /geolocations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {WRITER}\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LINE = "its first line must be METHOD PATH HTTP/1.1, with one space between them"
CHUNK = ". Each is its length in hexadecimal, CR LF, its bytes and CR LF"

SAID: dict[str, tuple[bytes, str]] = {
    "LF alone": (b"GET / HTTP/1.1\nHost: a\n\n", "a line of its head ends with LF alone: end each with CR LF"),
    "LF alone, at first": (
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        "a line of its head ends with LF alone: end each with CR LF",
    ),
    "LF alone, in a header": (GET + b"X: a\nY: b\r\n\r\n", "header 3 ends with LF alone: end each line with CR LF"),
    "folded": (
        GET + b"X: a\r\n b\r\n\r\n",
        "header 4 begins with a blank: a header takes one line, and may not go on in the next",
    ),
    "folded at once": (
        b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n",
        "header 1 begins with a blank: a header takes one line, and may not go on in the next",
    ),
    "blank before the colon": (GET + b"X : a\r\n\r\n", "header 3 has a blank before its colon: leave it out"),
    "no colon": (GET + SECRET.encode() + b"\r\n\r\n", "header 3 has no colon: a header is NAME: VALUE"),
    "no name": (GET + b": a\r\n\r\n", "header 3 has a name that HTTP does not allow"),
    "odd name": (GET + b"X(y): a\r\n\r\n", "header 3 has a name that HTTP does not allow"),
    "NUL": (GET + b"X: a\0b\r\n\r\n", "header 3 (X) has a control character in its value"),
    "CR": (GET + b"X: a\rb\r\n\r\n", "header 3 (X) has a control character in its value"),
    "two lengths": (
        POST + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}",
        "it has several Content-Length: send one",
    ),
    "a length in words": (
        POST + b"Content-Length: two\r\n\r\n{}",
        "its Content-Length is not one whole number of bytes",
    ),
    "no length": (POST + b"Content-Length:\r\n\r\n{}", "its Content-Length is not one whole number of bytes"),
    "length and chunks": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "it has Content-Length and Transfer-Encoding: send one of the two",
    ),
    "a chunk's size": (
        CHUNKED + b"zz\r\n",
        f"its body in chunks cannot be read: Invalid character in chunk size{CHUNK}",
    ),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", "it must have one header Host, and has none"),
    "two hosts": (GET + b"Host: a\r\n\r\n", "it must have one header Host, and has 2"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "it is of HTTP/2.0: send HTTP/1.1"),
    "lower case": (b"GET / http/1.1\r\nHost: a\r\n\r\n", "it is of http/1.1: send HTTP/1.1"),
    "HTTP/0.9": (b"GET /\r\n\r\n", LINE),
    "two spaces": (
        b"GET  / HTTP/1.1\r\n\r\n",
        f"{LINE}, and the path's own blanks and letters beyond ASCII percent-encoded",
    ),
    "a blank in the path": (
        b"GET /lookup/8.8.8.8 x HTTP/1.1\r\n\r\n",
        f"{LINE}, and the path's own blanks and letters beyond ASCII percent-encoded",
    ),
    "letters in the path": (
        "GET /lookup/é HTTP/1.1\r\n\r\n".encode(),
        f"{LINE}, and the path's own blanks and letters beyond ASCII percent-encoded",
    ),
    "a NUL in the path": (
        b"GET /\0 HTTP/1.1\r\n\r\n",
        "its first line holds a control character: percent-encode it",
    ),
    "TLS": (
        bytes.fromhex("16030100f8010000f40303"),
        "this is TLS, and plain HTTP is spoken here: write http:// in place of https://",
    ),
    "an empty line before it": (
        b"\r\n" + GET + b"\r\n",
        "it begins with an empty line: send nothing before its first line",
    ),
    "a blank before it": (b" " + GET + b"\r\n", "it begins with a blank: send nothing before its first line"),
    "nothing known": (b"\0\0", "this is not HTTP/1.1"),
}


@pytest.mark.parametrize(("data", "said"), SAID.values(), ids=SAID)
def test_what_cannot_be_read_says_what_is_wrong_and_what_to_send(
    running: RunningService, data: bytes, said: str
) -> None:
    answer = exchange(running.url, data)
    refused(answer, 400, "bad-request")
    assert json.loads(answer.body)["detail"] == said
    assert SECRET.encode() not in answer.body
