"""Heads and bodies as they are read, against h11: what is accepted here, it accepts too, and reads it as the same."""

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model.errors import RequestRefusedError
from geolookup.web.request import END_OF_HEAD, Request

LINES = (
    "Host: a",
    "Host: a",
    "Host: a",
    "Host:",
    "host:\ta \t",
    "Content-Length: 5",
    "Content-Length: 3 ",
    "content-length:0",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "Content-Length: 0x5",
    "Content-Length:",
    "Content-Length : 5",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: Chunked ",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: identity",
    "Transfer-Encoding:",
    "Transfer-Encoding: \x0bchunked",
    "Connection: close",
    "Connection: keep-alive, Upgrade",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "X:",
    "X: a: b",
    " folded",
    "\tfolded",
    ": b",
    "no colon",
    "X-\xe4: b",
    "X: \xe4",
    "X: a\x01b",
    "X: a\x00b",
    "X: a\rb",
    "X: a\nb",
    "",
)
METHODS = ("GET", "GET", "POST", "PUT", "HEAD", "CONNECT", "PRI", "BREW", "get", "", "G\tT", "M-SEARCH", "\r\nGET")
TARGETS = ("/", "/lookup/192.0.2.1", "/a?b=c", "/%00", "*", "http://a/b", "a:80", "/a b", "/\xff", "", "/a#b")
VERSIONS = ("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "http/1.1", "")
BODIES = (
    b"",
    b"abc",
    b"abcde",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"3;x=y\r\nabc\r\n0\r\nHost: b\r\nAuthorization: c\r\n\r\n",
    b"3\nabc\n0\n\n",
    b"3 \r\nabc\r\n0\r\n\r\n",
    b"-1\r\nabc\r\n0\r\n\r\n",
    b"2\r\nabc\r\n0\r\n\r\n",
    b"0\r\n\r\n",
)
NEXT = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
#: Bytes that have a meaning somewhere in a head, or must not be there.
SUSPICIOUS = tuple(bytes([byte]) for byte in b"\0\t\n\x0b\x0c\r :;,/0aA\x7f\xa0\xff")
SPACES = st.sampled_from((" ", " ", " ", " ", "  ", "\t", ""))

odd_lines = st.tuples(
    st.sampled_from(METHODS), SPACES, st.sampled_from(TARGETS), SPACES, st.sampled_from(VERSIONS)
).map("".join)
good_lines = st.builds("{} {} HTTP/1.1".format, st.sampled_from(METHODS[:8]), st.sampled_from(TARGETS[:4]))
PLAIN = ("X:", "X: a: b", "X: \xe4", "Connection: close", "Upgrade: h2c", "Connection: keep-alive, Upgrade")
FRAMINGS = ((), (), ("Content-Length: 5",), ("Content-Length: 3 ",), ("Transfer-Encoding: chunked",))


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """A head that is good but for little, in any of its parts."""
    odd = draw(st.sampled_from(("", "", "", "first", "line", "lines", "end", "byte")))
    lines = ["Host: a", *draw(st.lists(st.sampled_from(PLAIN), max_size=3)), *draw(st.sampled_from(FRAMINGS))]
    if odd == "line":
        lines.append(draw(st.sampled_from(LINES)))
    if odd == "lines":
        lines = draw(st.lists(st.sampled_from(LINES), max_size=5))
    first = draw(odd_lines if odd == "first" else good_lines)
    end = draw(st.sampled_from(("\n", "\r", "\r\r\n"))) if odd == "end" else "\r\n"
    head = (end.join([first, *draw(st.permutations(lines))]) + end + end).encode("latin-1")
    if odd == "byte":
        place = draw(st.integers(0, len(head) - 1))
        replaced = draw(st.integers(0, 1))
        head = head[:place] + draw(st.sampled_from(SUSPICIOUS)) + head[place + replaced :]
    return head


def read_by_h11(data: bytes) -> tuple[h11.Request, bytes | None, bytes]:
    """The head, the body (None if it has no end), and what comes after it.

    :raises h11.RemoteProtocolError: if it is refused
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    event = connection.next_event()
    assert isinstance(event, h11.Request), event
    body = b""
    while True:
        part = connection.next_event()
        if isinstance(part, h11.EndOfMessage):
            return event, body, connection.trailing_data[0]
        if not isinstance(part, h11.Data):
            return event, None, b""
        body += part.data


def read(data: bytes) -> tuple[Request, bytes | None, bytes]:
    """The same by `Request`.

    :raises RequestRefusedError: if it is refused
    """
    end = data.index(END_OF_HEAD) + len(END_OF_HEAD)
    request, rest = Request(data[:end]), bytearray(data[end:])
    while not request.is_whole and rest:
        request.feed(rest)
    return request, request.piece if request.is_whole else None, bytes(rest)


@given(heads(), st.sampled_from(BODIES))
@example(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\n", b"abcde")
@example(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", b"")
@example(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", BODIES[4])
@example(b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", b"")
@example(b"GET /\r\nHost: a\r\n\r\n", b"")
def test_whatever_is_accepted_means_to_h11_what_it_means_here(head: bytes, body: bytes) -> None:
    data = head + body + NEXT
    try:
        request, found, rest = read(data)
    except RequestRefusedError:
        return
    theirs, their_body, their_rest = read_by_h11(data)
    assert request.method.encode() == theirs.method
    assert request.target == theirs.target
    assert request.version.encode() == theirs.http_version
    # h11 writes the coding's name in lower case.
    assert [(name, value.lower()) for name, value in request.headers] == [(n, v.lower()) for n, v in theirs.headers]
    assert found == their_body
    if any(name == b"transfer-encoding" for name, _ in request.headers):
        assert found is None or request.followed  # what follows is never read: the connection ends
    else:
        assert rest == their_rest


FIELDS = ("expects_continue", "headers", "is_whole", "keep_alive", "method", "piece", "target", "version")


@given(heads(), heads(), st.booleans())
@example(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST /b HTTP/1.1\r\nHost: a\r\n\r\n", False)
@example(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", False)
@example(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", b"GET /b HTTP/1.0\r\nHost: a\r\n\r\n", True)
def test_a_request_that_becomes_the_next_one_is_what_would_be_read(first: bytes, head: bytes, same: bool) -> None:
    if same:  # but for its method and path
        head = b" ".join(head.split(b" ", 2)[:2]) + b" " + first.split(b" ", 2)[-1]
    try:
        request = Request(first)
    except RequestRefusedError:
        return
    if not request.became(head):
        return
    read_anew = Request(head)  # which is not refused
    assert [getattr(request, name) for name in FIELDS] == [getattr(read_anew, name) for name in FIELDS]
    assert request.is_whole


def test_the_headers_are_read_once_for_all_requests_that_have_the_same() -> None:
    request = Request(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert request.became(b"HEAD /b?c HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (request.method, request.target) == ("HEAD", b"/b?c")
    for other in (b"GET /b HTTP/1.1\r\nHost: b\r\n\r\n", b"GET /b HTTP/1.0\r\nHost: a\r\n\r\n"):
        assert not request.became(other)
    with_body = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"
    assert not Request(with_body).became(with_body)


@pytest.mark.parametrize("method", ["GET", "POST", "BREW", "PRI", "CONNECT"])
@pytest.mark.parametrize("more", ["", "Content-Length: 5\r\n", "Connection: upgrade\r\nUpgrade: h2c\r\n"])
def test_a_good_head_is_read(method: str, more: str) -> None:
    request = Request(f"{method} /a%20b?c=d HTTP/1.1\r\nHOST:  x \r\nX: \r\n{more}\r\n".encode())
    assert (request.method, request.target, request.version) == (method, b"/a%20b?c=d", "1.1")
    assert request.headers[:2] == [(b"host", b"x"), (b"x", b"")]
    assert request.keep_alive
    assert request.is_whole == ("5" not in more)


@pytest.mark.parametrize(
    ("first", "more", "kept"),
    [
        ("GET / HTTP/1.1", "", True),
        ("GET / HTTP/1.1", "Connection: close\r\n", False),
        ("GET / HTTP/1.1", "Connection: x, Close\r\n", False),
        ("GET / HTTP/1.0", "", False),
        ("GET / HTTP/1.0", "Connection: keep-alive\r\n", False),
    ],
)
def test_whether_the_connection_is_kept(first: str, more: str, kept: bool) -> None:
    assert Request(f"{first}\r\nHost: a\r\n{more}\r\n".encode()).keep_alive is kept


def test_a_trailer_is_not_a_header() -> None:
    request, body, _ = read(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + BODIES[4])
    assert body == b"abc"
    assert request.headers == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]
    assert not request.followed


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("Transfer-Encoding: gzip", "not-implemented"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "not-implemented"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3", "bad-request"),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", "bad-request"),
        ("Content-Length: 3\r\nContent-Length: 3", "bad-request"),
        ("Transfer-Encoding: chunked\r\nConnection: upgrade\r\nUpgrade: x", "bad-request"),
        ("Host: b", "bad-request"),
        ("X: y\r\n folded", "bad-request"),
    ],
)
def test_doubtful_framing_is_refused(line: str, problem: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        Request(f"POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n".encode())
    assert refused.value.problem == problem
