"""Slow, numerous and greedy clients: each is refused or dropped, and the others are served."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.guard import MAX_CLIENTS, RateLimit, address_key
from geolookup.web.options import Limits, Options
from tests.support.clocks import Clock
from tests.support.services.plain_http import PLAIN
from tests.support.services.raw_http import PATIENCE_S, connected, exchange, parse, read_all, read_until
from tests.support.services.running_service import FIELDS, RunningService
from tests.web.test_stream import wait_until_none_is_open

HEAD = b"POST /geolocations HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.contextmanager
def limited(tmp_path: Path, **limits: float) -> Iterator[RunningService]:
    options = Options(limits=Limits(**limits))  # type: ignore[arg-type]  # whole ones are given whole
    with RunningService(tmp_path / "x.db", options=options) as service:
        yield service


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    limit = RateLimit(2, 4, clock=clock)
    assert [limit.wait_s("a") for _ in range(4)] == [0] * 4
    assert limit.wait_s("a") == pytest.approx(0.5)
    assert limit.wait_s("b") == 0
    clock.now += 0.5
    assert limit.wait_s("a") == 0
    assert limit.wait_s("a") > 0
    clock.now += 3600
    assert [limit.wait_s("a") > 0 for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize(("hard", "left"), [(4096, 1000), (1024, 184), (300, 1)])
def test_as_many_files_are_allowed_as_the_limits_need_or_else_fewer_connections(hard: int, left: int) -> None:
    # In a process of its own, since what is lowered cannot be raised again.
    program = (
        "import resource\n"
        "from geolookup.web.options import Limits, with_files\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))\n"
        "print(with_files(Limits(connections=1000, lists=100)).connections)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [str(left), str(min(hard, 2656))]


def test_more_idle_connections_than_files_leave_the_service_answering(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))\n"
        "from geolookup.__main__ import main\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--db", str(tmp_path / "x.db")]
    log = tmp_path / "log"
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as service, contextlib.ExitStack() as stack:
        stack.callback(service.terminate)
        for _ in range(600):
            if "serving on" in log.read_text():
                break
            time.sleep(0.1)
        url = log.read_text().partition("serving on ")[2].split()[0]
        with contextlib.ExitStack() as idle:
            connections = []
            for _ in range(800):
                with contextlib.suppress(ConnectionError):
                    connections.append(idle.enter_context(connected(url)))
            for connection in connections:  # until it has dropped them all, it may drop the next one with them
                with contextlib.suppress(OSError):  # it is dropped already
                    connection.shutdown(socket.SHUT_WR)
                read_all(connection)
        assert httpx.get(f"{url}/healthz", timeout=PATIENCE_S, verify=PLAIN).status_code == 200
        assert log.stat().st_size < 10_000, log.read_text()[:2000]


def test_the_memory_of_buckets_is_bounded() -> None:
    limit = RateLimit(1, 1, clock=Clock())
    for number in range(MAX_CLIENTS + 10):
        limit.wait_s(str(number))
    assert len(limit) == MAX_CLIENTS


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("rubbish", "other rubbish", False),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_network(one: str, other: str, same: bool) -> None:
    assert (address_key(one) == address_key(other)) is same


def test_a_client_that_asks_too_often_is_told_when_to_ask_again(tmp_path: Path) -> None:
    with limited(tmp_path, rate=0.01) as service, service.client() as client:
        assert client.get("/").status_code == 200
        answer = client.get("/")
        assert answer.status_code == 429
        assert answer.json()["type"].endswith(":too-many-requests")
        assert 1 <= int(answer.headers["retry-after"]) <= 100
        assert client.get("/healthz").status_code == 200


def test_each_token_has_a_rate_of_its_own_and_strangers_share_that_of_their_address(tmp_path: Path) -> None:
    tokens = [new_token() for _ in range(3)]
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text("\n".join(line_for(f"c{number}", Scope.READ, tokens[number]) for number in range(2)))
    options = Options(tokens=str(path), limits=Limits(rate=0.01))
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        statuses = [
            [client.get("/", headers={"Authorization": f"Bearer {token}"}).status_code for _ in range(2)]
            for token in tokens
        ]
        assert statuses == [[200, 429], [200, 429], [401, 429]]


def test_only_a_trusted_proxy_says_who_the_client_is(tmp_path: Path) -> None:
    for trusted, expected in (((), [200, 429, 429]), (("127.0.0.0/8",), [200, 200, 429])):
        options = Options(limits=Limits(rate=0.01), trusted_proxies=trusted)
        with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
            clients = ("192.0.2.1", "198.51.100.9, 192.0.2.2", "192.0.2.2")
            answers = [client.get("/", headers={"X-Forwarded-For": one}).status_code for one in clients]
            assert answers == expected


def test_a_head_that_does_not_come_is_408(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.3) as service:
        with connected(service.url) as connection:
            connection.sendall(HEAD)
            answer = parse(read_all(connection))
        assert (answer.status, answer.problem) == (408, "request-timeout")
        assert answer.headers["connection"] == "close"
        assert httpx.get(service.url, trust_env=False, verify=PLAIN).status_code == 200


def test_a_head_that_comes_drop_by_drop_has_no_more_time(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.5) as service, connected(service.url) as connection:
        connection.sendall(HEAD)
        connection.settimeout(0.05)
        data = b""
        for number in range(400):
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"X-%d: a\r\n" % number)
            with contextlib.suppress(TimeoutError):
                data = connection.recv(65536)
                connection.settimeout(PATIENCE_S)
                data += read_all(connection)
                break
        assert parse(data).problem == "request-timeout"


def test_a_second_request_on_a_connection_has_the_same_deadline(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.5) as service, connected(service.url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_until(connection, b'"alive"}').startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET ")
        assert parse(read_all(connection)).problem == "request-timeout"


def test_a_body_that_does_not_come_is_408_and_changes_nothing(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.3) as service:
        answer = exchange(service.url, HEAD + b"Content-Length: 100\r\n\r\n", b'{"country":')
        assert (answer.status, answer.problem) == (408, "request-timeout")
        with service.client() as client:
            assert client.get("/geolocations").json() == []


def test_a_body_that_is_refused_unread_is_not_awaited_for_ever(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.3) as service:
        answer = exchange(service.url, b"POST /no/such HTTP/1.1\r\nHost: evil\r\nContent-Length: 100\r\n\r\n{")
        assert answer.problem == "unknown-host"


def test_a_silent_connection_is_closed_and_an_idle_one_between_requests_is_kept(tmp_path: Path) -> None:
    with limited(tmp_path, request_s=0.3) as service:
        with connected(service.url) as connection:
            assert read_all(connection) == b""
        with connected(service.url) as connection:
            for _ in range(2):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert read_until(connection, b'"alive"}').startswith(b"HTTP/1.1 200")
                time.sleep(0.7)


def test_a_client_that_takes_nothing_is_dropped_and_gives_its_snapshot_back(long_list: Path) -> None:
    options = Options(limits=Limits(stall_s=0.5))
    with (
        RunningService(long_list, options=options) as service,
        connected(service.url, receive_bytes=4096) as connection,
    ):
        connection.sendall(b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        wait_until_none_is_open(service.store)
        assert not read_all(connection).endswith(b"0\r\n\r\n")


def test_a_slow_reader_is_served_as_long_as_it_takes_something(long_list: Path) -> None:
    options = Options(limits=Limits(stall_s=3))
    with (
        RunningService(long_list, options=options) as service,
        connected(service.url, receive_bytes=4096) as connection,
    ):
        connection.sendall(b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for _ in range(50):  # five seconds, in which less than one piece is taken
            assert connection.recv(1024)
            time.sleep(0.1)
        assert read_all(connection).endswith(b"0\r\n\r\n")


def test_one_connection_too_many_is_refused_and_health_is_told_on_it(tmp_path: Path) -> None:
    with limited(tmp_path, connections=2) as service, connected(service.url), connected(service.url):
        answer = exchange(service.url, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (answer.status, answer.problem, answer.headers["connection"]) == (503, "busy", "close")
        assert int(answer.headers["retry-after"]) > 0
        answer = exchange(service.url, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.status == 200


def test_far_too_many_connections_are_not_even_read(tmp_path: Path) -> None:
    with limited(tmp_path, connections=1) as service, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(service.url))
        assert exchange(service.url, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 0
        stack.close()
        for _ in range(100):
            answer = exchange(service.url, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if answer.status == 200:
                break
            time.sleep(0.05)
        assert answer.status == 200


@pytest.mark.parametrize("path", ["/geolocations", "/geolocations/", "//geolocations"])
def test_one_list_too_many_waits_for_another_to_end(long_list: Path, path: str) -> None:
    options = Options(limits=Limits(lists=1))
    with RunningService(long_list, options=options) as service, service.client() as client:
        with connected(service.url, receive_bytes=4096) as slow:
            slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert slow.recv(100)
            answer = client.get(f"{service.url}{path}")
            assert answer.status_code == 503
            assert answer.json()["type"].endswith(":busy")
            assert client.post("/geolocations", json=FIELDS).status_code == 201
        wait_until_none_is_open(service.store)
        assert client.head("/geolocations").status_code == 200
        assert client.get("/geolocations", params={"country": "US"}).status_code == 200
