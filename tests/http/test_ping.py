"""Pings: what reaches the monitor, what does not, and that its address is shown nowhere."""

import logging
from typing import Any

import pytest

from geolookup.http.ping import Monitor
from geolookup.settings.table import Settings
from tests.faults.raw_server import RawServer, Script, answer

CANARY = "5d7c2f0e-canary-do-not-show"
OK = answer(b"OK")


def monitor(server: RawServer | str, **options: Any) -> Monitor:
    base = server if isinstance(server, str) else server.url
    return Monitor(f"{base}/{CANARY}", Settings(), **options)


def test_start_success_and_failure_go_to_the_addresses_of_the_convention() -> None:
    with RawServer(OK) as server:
        told = monitor(server)
        assert [told.start(), told.end(0, "went well: ü"), told.end(3, "held")] == [None, None, None]
    assert [(request.method, request.target, request.body.decode()) for request in server.requests] == [
        ("POST", f"/{CANARY}/start", ""),
        ("POST", f"/{CANARY}", "went well: ü"),
        ("POST", f"/{CANARY}/3", "held"),
    ]
    assert "authorization" not in server.requests[0].headers


def test_the_query_of_an_address_stays_at_its_end() -> None:
    with RawServer(OK) as server:
        assert Monitor(f"{server.url}/{CANARY}/?create=1", Settings()).start() is None
    assert server.requests[0].target == f"/{CANARY}/start?create=1"


def test_a_long_summary_is_cut_to_what_monitors_keep() -> None:
    with RawServer(OK) as server:
        assert monitor(server).end(1, "x" * 20_000) is None
    assert len(server.requests[0].body) == 10_000


def test_a_ping_that_is_lost_is_sent_again_and_one_that_is_refused_is_not() -> None:
    with RawServer(Script([], reset=True), answer(b"", status="503 X"), OK) as server:
        assert monitor(server).start() is None
        assert len(server.requests) == 3
    with RawServer(answer(b"", status="404 Not Found")) as server:
        assert "answered 404" in (monitor(server).start() or "")
        assert len(server.requests) == 1


FAULTS: list[bytes | Script] = [
    answer(b"", status="302 Found", headers=[f"Location: http://127.0.0.1:9/{CANARY}"]),
    answer(CANARY.encode(), status=f"500 {CANARY}"),
    b"HTTP/1.1 2xx " + CANARY.encode() + b"\r\n\r\n",
    CANARY.encode() + b"\r\n\r\n",
    Script([], reset=True),
    Script([b"HTTP/1.1 200 OK\r\n"], hold=True),
    Script([b"HTTP/1.1 200 OK\r\n", *[b"X-%d: y\r\n" % number for number in range(100)]], pause_s=0.1),
]


def test_whatever_the_monitor_does_the_run_goes_on_and_its_address_is_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = []
    for fault in FAULTS:
        with RawServer(fault) as server:
            told = monitor(server, timeout_s=0.3)
            shown += [str(told.start()), repr(told)]
            assert "the monitor was not told" in shown[-2]
            assert server.requests[0].target == f"/{CANARY}/start"
    shown.append(str(monitor("http://127.0.0.1:9").start()))
    assert "http://127.0.0.1:9 cannot be reached" in shown[-1]
    logged = [record.getMessage() + str(record.__dict__) for record in caplog.records]
    assert any("[secret]" in text for text in logged)
    for text in [*shown, *logged]:
        assert CANARY not in text


def test_a_monitor_without_tls_at_a_tls_address_is_only_a_warning() -> None:
    with RawServer(OK) as server:
        told = monitor(server.url.replace("http:", "https:"), timeout_s=0.3).end(0, "")
    assert "the monitor was not told of the run's end" in str(told)
    assert CANARY not in str(told)
