"""One connection, byte by byte: however requests come, they are answered in their order, at once or not."""

import asyncio
import itertools
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from geolookup.web.options import Limits
from geolookup.web.protocol import Protocol
from geolookup.web.timeouts import Deadline

QUICK = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"
BAD = b"GET /bad HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"


def post(body: bytes) -> bytes:
    return b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Transport(asyncio.Transport):
    """What a client sees: `written`. With ``reads`` false it reads nothing."""

    def __init__(self, *, reads: bool = True) -> None:
        super().__init__()
        self.protocol: Protocol
        self.written = b""
        self.reads = reads
        self.reading = True
        self.closing = False
        #: Whether it was closed from here.
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closing
        self.written += data
        if not self.reads and len(self.written) > 65536:
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0 if self.reads else len(self.written)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def can_write_eof(self) -> bool:
        return False


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Tells what was asked."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        if not message["more_body"]:
            break
    if scope["path"] == "/late":
        await asyncio.sleep(0.3)
    answer = f"{scope['method']} {scope['path']} ".encode() + body
    headers = [(b"x", b"y")] if scope["path"] == "/unknown" else [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer[:5], "more_body": True})
    await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": answer[5:]})


def at_once(scope: Any) -> tuple[bytes, bytes] | None:
    if scope["path"] != "/quick":
        return None
    return b"content-length: 11\r\n", b"GET /quick "


async def _settle() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


def exchange(
    *pieces: bytes,
    reads: bool = True,
    limits: Limits | None = None,
    look: Callable[[Transport], None] | None = None,
    wait_s: float = 0,
) -> Transport:
    """Send the pieces one after another, until the connection ends, as long as it reads; then wait for answers."""

    async def run() -> Transport:
        config = Config(cast(Any, application), lifespan="off", log_config=None)
        transport = Transport(reads=reads)
        transport.protocol = Protocol(
            config,
            ServerState(),
            {},
            limits=limits or Limits(),
            refused=lambda name, client: "id",
            at_once=at_once,
        )
        transport.protocol.connection_made(transport)
        for piece in pieces:
            while not transport.reading and not transport.closing and reads:
                await _settle()
            if transport.closing:
                break
            transport.protocol.data_received(piece)
            await asyncio.sleep(0)
        await _settle()
        await asyncio.sleep(wait_s)
        if look is not None:
            look(transport)
        transport.ended = transport.closing
        transport.protocol.connection_lost(None)
        return transport

    return asyncio.run(run())


def answers(transport: Transport) -> list[tuple[int, bytes]]:
    """The status and the body of each answer; of a problem its name."""
    found, rest = [], transport.written
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
        body, rest = rest[:length], rest[length:]
        problem = re.search(rb"urn:geolookup:problem:([a-z-]+)", body)
        found.append((int(head.split(b" ")[1]), problem[1] if problem else body))
    return found


EXPECTED = {
    QUICK: (200, b"GET /quick "),
    SLOW: (200, b"GET /slow "),
    post(b"hello"): (200, b"POST /p hello"),
    post(b""): (200, b"POST /p "),
    post(QUICK): (200, b"POST /p " + QUICK),
    CHUNKED: (200, b"POST /c abcde"),
    BAD: (400, b"bad-request"),
}


@given(st.lists(st.sampled_from(list(EXPECTED)), max_size=6), st.data())
def test_however_requests_are_cut_each_is_answered_in_its_turn(requests: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(requests)
    ends, end = set(), 0
    for request in requests:
        end += len(request)
        ends.add(end)
    cuts = sorted({0, len(sent), *data.draw(st.lists(st.integers(0, len(sent)), max_size=12))})
    expected = []
    end = 0
    for request in requests:
        end += len(request)
        expected.append(EXPECTED[request])
        # What comes in one piece with the end of a body in chunks is not read: the connection ends.
        if request == BAD or (request == CHUNKED and end not in cuts):
            break
    transport = exchange(*(sent[first:last] for first, last in itertools.pairwise(cuts)))
    assert answers(transport) == expected


def test_what_follows_a_body_in_chunks_is_never_taken_for_a_request() -> None:
    transport = exchange(CHUNKED + QUICK)
    assert answers(transport) == [EXPECTED[CHUNKED]]
    assert b"connection: close" in transport.written
    assert transport.ended


@pytest.mark.parametrize("request_line", [b"GET /quick HTTP/1.1", b"GET /slow HTTP/1.1", b"GET /slow HTTP/1.0"])
def test_the_connection_ends_if_the_client_says_so(request_line: bytes) -> None:
    more = b"Connection: close\r\n" if request_line.endswith(b"1") else b""
    transport = exchange(request_line + b"\r\nHost: a\r\n" + more + b"\r\n" + QUICK)
    assert len(answers(transport)) == 1
    assert b"connection: close" in transport.written
    assert transport.ended


def test_an_answer_of_unknown_length_ends_with_the_connection_where_there_are_no_chunks() -> None:
    transport = exchange(b"GET /unknown HTTP/1.0\r\nHost: a\r\n\r\n")
    assert transport.written.endswith(b"\r\n\r\nGET /unknown ")
    assert b"transfer-encoding" not in transport.written
    assert transport.ended
    transport = exchange(b"GET /unknown HTTP/1.1\r\nHost: a\r\n\r\n")
    assert transport.written.endswith(b"\r\n0\r\n\r\n")
    assert not transport.ended


def test_a_client_that_reads_nothing_is_not_answered_for_ever() -> None:
    seen = []

    def look(transport: Transport) -> None:
        seen.append((len(transport.written), transport.reading))

    exchange(*[QUICK * 100] * 200, reads=False, look=look)
    ((written, reading),) = seen
    assert written < 2 * 65536
    assert not reading


def test_a_flood_of_requests_is_read_no_faster_than_it_is_answered() -> None:
    paused = []

    class Watched(Transport):
        def pause_reading(self) -> None:
            paused.append(len(self.written))
            super().pause_reading()

    async def run() -> None:
        config = Config(cast(Any, application), lifespan="off", log_config=None)
        transport = Watched()
        transport.protocol = protocol = Protocol(
            config, ServerState(), {}, limits=Limits(), refused=lambda name, client: "id", at_once=at_once
        )
        protocol.connection_made(transport)
        protocol.data_received(QUICK * 100)
        assert len(answers(transport)) < 100  # others have their turn
        assert not transport.reading
        await _settle()
        assert len(answers(transport)) == 100
        assert transport.reading
        protocol.connection_lost(None)

    asyncio.run(run())
    assert len(paused) > 1


def test_trailers_and_extensions_have_a_limit() -> None:
    head = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert answers(exchange(head, b"3;", *[b"x" * 1000] * 30)) == [(431, b"head-too-large")]
    assert answers(exchange(head, b"3\r\nabc\r\n0\r\n", *[b"X: %s\r\n" % (b"y" * 1000)] * 30)) == [
        (431, b"head-too-large")
    ]
    assert answers(exchange(head, b"3\r\nabc\r\n0\r\n", b"X: y\r\n", b"\r\n")) == [(200, b"POST /c abc")]


@pytest.mark.parametrize(
    "beginning", [b"\0" * 10, b" GET", b"\r\n", b"\n", b"GET / HTTP/1.1\nHost: a\n\n", b"\x16\x03"]
)
def test_what_cannot_become_a_request_is_refused_without_waiting_for_its_end(beginning: bytes) -> None:
    assert answers(exchange(beginning)) == [(400, b"bad-request")]


def test_an_answer_may_take_longer_than_its_request() -> None:
    late = b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n"
    for pieces in ((late,), (late[:9], late[9:]), (QUICK, late), (late + QUICK,), (post(b"x"), late)):
        transport = exchange(*pieces, limits=Limits(request_s=0.05), wait_s=0.6)
        assert (200, b"GET /late ") in answers(transport), pieces
        assert len(answers(transport)) == b"".join(pieces).count(b"HTTP/1.1"), pieces


def test_a_deadline_that_is_moved_passes_once_and_at_its_last_time() -> None:
    async def run() -> list[float]:
        passed: list[float] = []
        loop = asyncio.get_running_loop()
        deadline = Deadline(loop, lambda: passed.append(loop.time()))
        began = loop.time()
        deadline.set(30)
        deadline.set(0.05)
        deadline.set(0.1)
        await asyncio.sleep(0.3)
        assert len(passed) == 1
        assert passed[0] - began >= 0.09
        deadline.set(0.05)
        deadline.clear()
        await asyncio.sleep(0.15)
        deadline.set(0.01)
        deadline.close()
        await asyncio.sleep(0.1)
        return passed

    assert len(asyncio.run(run())) == 1
