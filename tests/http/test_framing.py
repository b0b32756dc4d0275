"""The streamed list under every framing, cut anywhere, compressed, dripping: it ends normally only when whole."""

import gzip
import random
import zlib

import pytest

from geolookup.http import body as body_module
from geolookup.model.errors import UpstreamAnswerError, UpstreamError, UpstreamUnavailableError
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer, Script, answer
from tests.upstream.helpers import TWO, locids, transport

FRAMINGS = ["length", "chunked", "close"]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_whole_list_is_read_under_each_framing(framing: str) -> None:
    with RawServer(answer(TWO, framing=framing)) as server:
        with transport(server) as connection, GeolocationsClient(connection).list() as listing:
            rows = list(listing)
        assert [row.locid for row in rows] == [1, -2]
        assert (listing.complete, listing.framed) == (True, framing != "close")
        assert (listing.geolocations_seen, listing.blocks_seen, listing.bytes_read) == (2, 1, len(TWO))


@pytest.mark.parametrize("reset", [False, True], ids=["end", "reset"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_list_cut_at_any_offset_never_ends_normally(framing: str, reset: bool) -> None:
    whole = answer(b'[{"locid":1},{"locid":-2}]', framing=framing)
    scripts = [Script([whole[:end]], reset=reset) for end in range(len(whole))]
    with RawServer(*scripts) as server, transport(server) as connection:
        client = GeolocationsClient(connection)
        for _ in scripts:
            with pytest.raises(UpstreamError), client.list() as listing:  # noqa: PT012
                list(listing)
                assert not listing.complete
        assert len(server.requests) == len(scripts)


@pytest.mark.parametrize("tail", [b"x", b"[]", b"\x00", b',{"locid":3}]', b"<!-- -->"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_data_after_the_end_is_refused(framing: str, tail: bytes) -> None:
    with RawServer(answer(TWO + tail, framing=framing)) as server, pytest.raises(UpstreamAnswerError):
        locids(server)


def test_a_page_of_html_with_status_200_is_refused_and_quoted() -> None:
    page = b"<!DOCTYPE html><title>Maintenance\x1b[2J</title>"
    with RawServer(answer(page)) as server, pytest.raises(UpstreamAnswerError, match="DOCTYPE") as caught:
        locids(server)
    assert str(caught.value).isprintable()


def test_a_problem_report_with_status_200_is_no_empty_list() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/problem+json\r\nContent-Length: 13\r\n\r\n"
    with RawServer(head + b'{"errors":[]}') as server, pytest.raises(UpstreamAnswerError, match="problem report"):
        locids(server)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\xff\xfe garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n[]   ",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\nContent-Length: 2\r\n\r\n[]",
    ],
)
def test_an_answer_that_is_not_a_list_over_http_is_refused(raw: bytes) -> None:
    with RawServer(raw) as server, pytest.raises(UpstreamError):
        locids(server)


@pytest.mark.parametrize("declared", [0, 1, 3, 10**17])
def test_another_number_than_declared_is_refused(declared: int) -> None:
    with (
        RawServer(answer(TWO, headers=[f"X-Total-Count: {declared}"])) as server,
        pytest.raises(UpstreamAnswerError, match="declared"),
    ):
        locids(server)


def test_rejected_rows_count_towards_the_declared_number() -> None:
    with (
        RawServer(answer(b'[{"locid":0},{"locid":2}]', headers=["X-Total-Count: 2"])) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        assert [row.locid for row in listing] == [2]
        assert (listing.total_count, listing.rejected_geolocations) == (2, 1)


def test_with_top_the_declared_number_may_be_that_of_all() -> None:
    scripts = [answer(TWO, headers=[f"X-Total-Count: {count}"]) for count in (2, 9, 1)]
    with RawServer(*scripts) as server, transport(server) as connection:
        client = GeolocationsClient(connection)
        for _ in range(2):
            with client.list(top=2) as listing:
                assert len(list(listing)) == 2
        with client.list(top=2) as listing, pytest.raises(UpstreamAnswerError, match="declared 1"):
            list(listing)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_list_is_read_where_compression_is_on(coding: str) -> None:
    packed = gzip.compress(TWO) if coding == "gzip" else zlib.compress(TWO)
    with RawServer(answer(packed, headers=[f"Content-Encoding: {coding}"])) as server:
        assert locids(server, compression=True) == [1, -2]
        assert server.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_compressed_list_cut_at_any_offset_never_ends_normally(framing: str) -> None:
    packed = gzip.compress(b'[{"locid":1},{"locid":-2}]')
    scripts = [answer(packed[:end], framing=framing, headers=["Content-Encoding: gzip"]) for end in range(len(packed))]
    with RawServer(*scripts) as server, transport(server, compression=True) as connection:
        client = GeolocationsClient(connection)
        for _ in scripts:
            with pytest.raises(UpstreamAnswerError), client.list() as listing:
                list(listing)
        assert len(server.requests) == len(scripts)


@pytest.mark.parametrize("tail", [b"x", gzip.compress(b"", mtime=0), b"\x00" * 8])
def test_something_after_the_compressed_list_is_refused(tail: bytes) -> None:
    packed = gzip.compress(TWO)
    for parts in ([packed + tail], [packed, tail]):
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
        with RawServer(Script([head, *parts], pause_s=0.02)) as server, pytest.raises(UpstreamAnswerError):
            locids(server, compression=True)


def test_a_damaged_compressed_list_is_refused() -> None:
    packed = bytearray(gzip.compress(TWO))
    packed[-6] ^= 1
    with (
        RawServer(answer(bytes(packed), headers=["Content-Encoding: gzip"])) as server,
        pytest.raises(UpstreamAnswerError, match="compression"),
    ):
        locids(server, compression=True)


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, gzip", "zstd"])
def test_compression_that_was_not_asked_for_is_refused(coding: str) -> None:
    asked_for = coding != "gzip"
    with RawServer(answer(gzip.compress(TWO), headers=[f"Content-Encoding: {coding}"])) as server:
        with pytest.raises(UpstreamAnswerError, match="not asked for"):
            locids(server, compression=asked_for)
        assert server.requests[0].headers["accept-encoding"] == ("gzip" if asked_for else "identity")


def test_a_decompression_bomb_is_refused_in_bounded_pieces() -> None:
    machine = zlib.compressobj(9, wbits=31)
    bomb = machine.compress(b"[") + b"".join(machine.compress(b" " * (1 << 20)) for _ in range(64)) + machine.flush()
    seen: list[int] = []
    with (
        RawServer(answer(bomb, headers=["Content-Encoding: gzip"])) as server,
        transport(server, compression=True) as connection,
    ):
        answered = connection.stream("/geolocations")
        with pytest.raises(UpstreamAnswerError, match="expands"):
            seen.extend(len(piece) for piece in answered)
        answered.close()
    assert max(seen) <= 1 << 20
    assert sum(seen) < 40 << 20


def test_a_list_that_compresses_well_but_not_absurdly_is_read() -> None:
    generator = random.Random(5)
    text = b"[" + b",".join(b'{"locid":%d}' % generator.randrange(1, 2**62) for _ in range(300_000)) + b"]"
    assert len(text) > body_module._PRODUCED_AT_ONCE
    with RawServer(answer(gzip.compress(text, 1), headers=["Content-Encoding: gzip"])) as server:
        assert len(locids(server, compression=True)) == 300_000


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("start", "drip"),
    [
        (HEAD, b"X-Slow: 1\r\n"),
        (HEAD + b"\r\n[", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
        (HEAD + b"Content-Length: 99999\r\n\r\n[", b'{"locid":1},'),
    ],
    ids=["headers", "blanks", "chunk size", "chunk extension", "elements"],
)
def test_an_answer_that_drips_ends_when_its_time_is_up(start: bytes, drip: bytes) -> None:
    with RawServer(Script([start, *[drip] * 2000], pause_s=0.01)) as server:
        with pytest.raises(UpstreamUnavailableError, match="total_timeout_s"):
            locids(server, total_timeout_s=0.4, attempts=5)
        assert server.broken_off.wait(10)
        assert server.connections == 1


def test_a_drip_into_a_reused_connection_ends_when_its_time_is_up() -> None:
    keep = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
    with RawServer(Script([keep, None, HEAD, *[b"X-Slow: 1\r\n"] * 2000], pause_s=0.01)) as server:
        with transport(server, total_timeout_s=0.4) as connection:
            client = GeolocationsClient(connection)
            assert list(client.list()) == []
            with pytest.raises(UpstreamUnavailableError, match="total_timeout_s"):
                list(client.list())
        assert server.broken_off.wait(10)
        assert (server.connections, len(server.requests)) == (1, 2)


def test_a_whole_answer_without_framing_that_ends_because_its_time_is_up_is_not_believed() -> None:
    with (
        RawServer(Script([HEAD + b"\r\n[]"], hold=True)) as server,
        pytest.raises(UpstreamUnavailableError, match="total_timeout_s"),
    ):
        locids(server, total_timeout_s=0.4)


def test_a_silence_longer_than_the_read_timeout_ends_the_list() -> None:
    with (
        RawServer(Script([HEAD + b"\r\n[{"], hold=True)) as server,
        pytest.raises(UpstreamUnavailableError, match="silent"),
    ):
        locids(server, read_timeout_s=0.2)


def test_a_list_that_broke_after_it_began_is_not_asked_for_again() -> None:
    with RawServer(answer(TWO)[:-5], answer(TWO)) as server:
        with pytest.raises(UpstreamAnswerError):
            locids(server, attempts=5)
        assert server.connections == 1
