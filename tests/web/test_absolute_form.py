"""Targets in absolute form (RFC 9112, section 3.2.2): their authority takes the place of ``Host`` in every check."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from geolookup.web.options import Options
from geolookup.web.request import path_in
from tests.service.test_operating import entries
from tests.support.services.raw_http import Answer, exchange
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.web.test_guard import NOT_OURS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("absolute")
    (folder / "defaults.csv").write_text(DEFAULTS)
    with RunningService(folder / "service.db", load=[folder / "defaults.csv"]) as service:
        yield service


def ask(service: RunningService, line: str, *headers: str, body: str = "") -> Answer:
    lines = [line, *(headers or ("Host: localhost",)), f"Content-Length: {len(body)}", "Connection: close", "", body]
    return exchange(service.url, "\r\n".join(lines).encode("latin-1"))


@pytest.mark.parametrize(
    ("target", "listed"),
    [
        ("{url}/geolocations", [1, 2]),
        ("{url}/geolocations?country=de", [2]),
        ("HTTP://LocalHost/geolocations?top=1", [1]),
        ("http://[::1]:80//geolocations/", [1, 2]),
    ],
)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_it_is_answered_as_its_path_whatever_host_says(
    running: RunningService, target: str, listed: list[int], version: str
) -> None:
    answer = ask(running, f"GET {target.format(url=running.url)} HTTP/{version}", "Host: evil.example")
    assert answer.status == 200
    body = answer.body[answer.body.index(b"[") : answer.body.rindex(b"]") + 1]  # without the chunks of HTTP/1.1
    assert [one["locid"] for one in json.loads(body)] == listed


@pytest.mark.parametrize("target", ["http://localhost", "http://localhost?x=y", "http://localhost/"])
def test_without_a_path_it_is_the_first_page(running: RunningService, target: str) -> None:
    assert ask(running, f"GET {target} HTTP/1.1").body == ask(running, "GET / HTTP/1.1").body


@pytest.mark.parametrize("host", [host for host in NOT_OURS if not set(host) & set(" \t/?#")])
def test_a_name_that_is_refused_as_host_is_refused_there_too(running: RunningService, host: str) -> None:
    answer = ask(running, f"GET http://{host}/geolocations HTTP/1.1", "Host: localhost")
    assert (answer.status, answer.problem) == (421, "unknown-host")


def test_a_page_may_write_to_the_name_that_it_came_from(running: RunningService) -> None:
    line = f"POST {running.url}/geolocations HTTP/1.1"
    headers = ["Host: other.example", "Content-Type: application/json"]
    body = json.dumps(FIELDS)
    other = ask(running, line, *headers, "Origin: http://other.example", body=body)
    assert (other.status, other.problem) == (403, "cross-site-request")
    assert ask(running, line, *headers, f"Origin: {running.url}", body=body).status == 201


@pytest.mark.parametrize("scheme", ["https", "ftp", "x"])
def test_another_scheme_is_refused(running: RunningService, scheme: str) -> None:
    answer = ask(running, f"GET {scheme}://localhost/geolocations HTTP/1.1")
    assert (answer.status, answer.problem) == (400, "bad-request")
    assert json.loads(answer.body)["detail"] == (
        f"its target begins with {scheme}://, but here it must be http://, or the path alone"
    )


@pytest.mark.parametrize("hosts", [[], ["Host: localhost", "Host: localhost"]])
def test_host_must_be_there_once_nevertheless(running: RunningService, hosts: list[str]) -> None:
    assert ask(running, f"GET {running.url}/geolocations HTTP/1.1", *hosts, "X: y").status == 400


def test_it_does_not_pass_the_limit_of_a_target(running: RunningService) -> None:
    assert ask(running, f"GET {running.url}/{'a' * 9000} HTTP/1.1").status == 414


def test_the_log_has_its_path(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with RunningService(tmp_path / "service.db", options=Options(access_log=str(log))) as service:
        ask(service, f"GET {service.url}/no/such?token=x HTTP/1.1")
        assert [entry["path"] for entry in entries(log, 1)] == ["/no/such"]


def test_the_path_of_a_head_that_is_refused_is_known() -> None:
    assert path_in(b"GET http://a/b%20c?d HTTP/1.1\r\n") == "/b c"
