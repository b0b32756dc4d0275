"""Health, metrics, the access log, and the way it ends."""

import json
import logging
import signal
import stat
import time
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from geolookup.model.errors import RequestRefusedError, SettingsError
from geolookup.service.hotels import search
from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.logs import AccessLog
from geolookup.web.options import Options
from tests.support.services.plain_http import PLAIN
from tests.support.services.raw_http import connected, exchange, parse, read_all
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import service

#: One of its own for each test: what it counts and how it ends is what is asked here.
__all__ = ["service"]


def samples(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Each metric's value by its name and its labels' values, in the order of their names."""
    answer = client.get("/metrics").raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def wait_until_ready(client: httpx.Client) -> None:
    for _ in range(300):
        if client.get("/readyz").status_code == 200:
            return
        time.sleep(0.05)
    pytest.fail("it did not get ready")


def entries(path: Path, count: int) -> list[dict[str, Any]]:
    """The first lines of the log, once there are that many: a line is written after its answer."""
    for _ in range(200):
        lines = path.read_text().splitlines()
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        time.sleep(0.02)
    pytest.fail(f"the log has {len(lines)} lines, not {count}")


def test_it_is_alive_at_once_and_ready_when_lookups_are_answered(service: RunningService, client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "alive"}
    wait_until_ready(client)
    assert client.get("/readyz").json() == {"status": "ready"}
    assert client.get("/lookup/192.0.2.1").json()["locid"] == 1


def test_it_is_not_ready_while_the_database_does_not_answer(
    service: RunningService, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    wait_until_ready(client)

    def fail() -> None:
        raise RequestRefusedError("/secret/path: disk I/O error", problem="storage-unavailable")

    service.server.health.checks["database"] = fail
    time.sleep(0.6)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["type"].endswith(":not-ready")
    assert "database" in answer.json()["detail"]
    assert "secret" not in answer.text
    assert client.get("/healthz").status_code == 200


def test_requests_are_counted_by_operation_method_and_status(service: RunningService, client: httpx.Client) -> None:
    size = len(client.get("/geolocations").content)
    client.post("/geolocations", json=FIELDS)
    client.post("/geolocations", json={})
    client.get("/nothing")
    client.request("BREW", "/geolocations")
    client.get("/", headers={"Host": "evil.example"})
    exchange(service.url, b"rubbish\r\n\r\n")
    found = samples(client)
    assert found["geolookup_requests_total", "GET", "listGeolocations", "200"] == 1
    assert found["geolookup_requests_total", "POST", "createGeolocation", "201"] == 1
    assert found["geolookup_requests_total", "POST", "createGeolocation", "422"] == 1
    assert found["geolookup_requests_total", "GET", "none", "404"] == 1
    assert found["geolookup_requests_total", "other", "none", "405"] == 1
    assert found["geolookup_requests_total", "other", "none", "400"] == 1
    assert found["geolookup_request_seconds_count", "listGeolocations"] == 1
    assert found["geolookup_response_bytes_total", "listGeolocations"] == size
    for problem in ("invalid-body", "not-found", "method-not-allowed", "unknown-host", "bad-request"):
        assert found["geolookup_problems_total", problem] == 1
    assert found["geolookup_requests_in_flight",] == 1
    assert found["geolookup_revision",] >= 2
    assert found["geolookup_database_up",] == 1
    assert found["geolookup_geolocations", "custom"] == 1
    assert found["geolookup_geolocations", "default"] == 2
    assert found["geolookup_blocks", "default"] == 3


def test_no_request_can_make_a_series_of_its_own(service: RunningService, client: httpx.Client) -> None:
    client.get("/a/b")
    before = set(samples(client))
    for number in range(20):
        client.request(f"METHOD{number}", f"/path/{number}", headers={"X-Request-Id": str(number)})
        client.get(f"/v1/api/hotel/{number}/details")
        client.get(f"/lookup/10.0.0.{number}")
    new = set(samples(client)) - before
    assert {labels[1:] for labels in new if labels[0] == "geolookup_requests_total"} == {
        ("GET", "metrics", "200"),
        ("other", "none", "404"),
        ("GET", "hotelDetails", "404"),
        ("GET", "lookupAddress", "200"),
    }


def test_a_request_keeps_a_harmless_id_and_gets_one_for_any_other(client: httpx.Client) -> None:
    assert client.get("/", headers={"X-Request-Id": "a-1.b_C:/="}).headers["x-request-id"] == "a-1.b_C:/="
    made = set()
    for given in ("", "a b", 'a"b', "a" * 129, "ü".encode()):
        made.add(client.get("/", headers={"X-Request-Id": given}).headers["x-request-id"])
    made.add(client.get("/", headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")]).headers["x-request-id"])
    made.add(client.get("/nothing").headers["x-request-id"])
    assert len(made) == 7
    assert all(len(one) == 32 for one in made)


def test_the_access_log_tells_each_request_and_nothing_secret(tmp_path: Path) -> None:
    token, other = new_token(), new_token()
    tokens, log = tmp_path / "tokens", tmp_path / "access.log"
    tokens.touch(0o600)
    tokens.write_text(line_for("desk", Scope.WRITE, token))
    options = Options(tokens=str(tokens), access_log=str(log))
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        client.headers["Authorization"] = f"Bearer {token}"
        client.post("/geolocations?access_token=hush", json={**FIELDS, "city": "hush"}, headers={"X-Request-Id": "r1"})
        client.get("/geolocations", headers={"Authorization": f"Bearer {other}"})
        client.get("/lookup/198.51.100.77")
        client.get(f"{service.url}//lookup/198.51.100.77", headers={"Authorization": "none"})
        client.get("/a%0ab")
        client.get("/healthz")
        exchange(service.url, b"GET / HTTP/1.1\r\nX: " + b"a" * 20000)
        found = entries(log, 6)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    create, refused, lookup, doubled, unknown, unread = found
    assert (create["id"], create["token"], create["method"], create["path"]) == ("r1", "desk", "POST", "/geolocations")
    assert (create["operation"], create["status"], create["client"]) == ("createGeolocation", 201, "127.0.0.1")
    assert create["bytes"] == len('{"locid":-1}')
    assert create["whole"] is True
    assert create["time"].endswith("Z")
    assert (refused["token"], refused["status"], refused["problem"]) == ("", 401, "unauthenticated")
    assert lookup["path"] == doubled["path"] == "/lookup/{ip}"
    assert doubled["status"] == 401
    assert unknown["status"] == 404
    assert (unread["status"], unread["problem"]) == (431, "head-too-large")
    text = log.read_text()
    for secret in (token, other, "hush", "198.51.100.77", "Bearer"):
        assert secret not in text


def test_the_log_as_text_keeps_control_characters_out_of_terminals(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    options = Options(access_log=str(log), access_log_format="text")
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        client.get("/%1b%5b31m%0aforged", headers={"X-Request-Id": "r1"})
        for _ in range(200):
            if "r1" in log.read_text():
                break
            time.sleep(0.02)
    (line,) = log.read_text().splitlines()
    assert "\x1b" not in line
    assert " 404 " in line
    assert " r1 not-found" in line


#: Percent-encoded: DEL, CSI and NEL of C1, a bidirectional override and mark, a line separator, a tag beyond 16 bits.
HIDDEN = "%7f%c2%9b31m%c2%85%e2%80%ae%e2%80%8f%e2%80%a8%f3%a0%81%81"


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_log_has_characters_that_hide_or_turn_what_follows(tmp_path: Path, form: Literal["json", "text"]) -> None:
    log = tmp_path / "access.log"
    options = Options(access_log=str(log), access_log_format=form)
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        client.get(f"{service.url}/Z%c3%bcrich{HIDDEN}", headers={"X-Request-Id": "r1"})
        for _ in range(200):
            if "r1" in log.read_text():
                break
            time.sleep(0.02)
    line = log.read_text(encoding="utf-8").removesuffix("\n")
    assert line.isprintable()
    if form == "json":
        assert json.loads(line)["path"] == unquote(f"/Zürich{HIDDEN}")
    else:
        assert "\\x9b31m" in line


def test_a_failure_is_logged_without_such_characters(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr(search, "one", fail)
    assert client.get(f"/v1/api/hotel/{HIDDEN}/details").status_code == 500
    (record,) = [one for one in caplog.records if "failed" in one.message]
    assert record.message.isprintable()


def test_a_log_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    with (
        RunningService(tmp_path / "x.db", options=Options(access_log=str(log))) as service,
        service.client() as client,
    ):
        client.get("/")
        assert len(entries(log, 1)) == 1
        log.rename(moved)
        client.get("/nothing")
        for _ in range(200):
            if log.exists() and log.read_text():
                break
            time.sleep(0.02)
        assert [entry["status"] for entry in entries(log, 1)] == [404]
        assert len(moved.read_text().splitlines()) == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="access log"):
        AccessLog(str(tmp_path / "none" / "access.log"))


def test_a_trusted_proxy_that_is_no_address_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"proxy\.example"):
        Options(trusted_proxies=("proxy.example",))


def test_an_answer_that_was_cut_short_is_logged_so(long_list: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with RunningService(long_list, options=Options(access_log=str(log))) as service:
        with connected(service.url, receive_bytes=4096) as connection:
            connection.sendall(b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        (entry,) = entries(log, 1)
    assert entry["whole"] is False
    assert entry["status"] == 200


def test_a_body_that_breaks_off_is_no_failure_of_the_service(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "access.log"
    with RunningService(tmp_path / "x.db", options=Options(access_log=str(log))) as service:
        with caplog.at_level(logging.WARNING), connected(service.url) as connection:
            connection.sendall(b"POST /geolocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            time.sleep(0.2)
        (entry,) = entries(log, 1)
        assert entry["status"] == 400
        assert "failed" not in caplog.text


def test_told_to_end_it_is_not_ready_first_and_serves_meanwhile(tmp_path: Path) -> None:
    with RunningService(tmp_path / "x.db", options=Options(drain_s=600)) as service, service.client() as client:
        wait_until_ready(client)
        service.server.handle_exit(signal.SIGTERM, None)
        refused = client.get("/readyz")
        assert refused.status_code == 503
        assert refused.json()["type"].endswith(":shutting-down")
        assert client.get("/healthz").status_code == 200
        for _ in range(2):  # also on a new connection
            answer = client.post("/geolocations", json=FIELDS)
            assert answer.status_code == 201
            assert answer.headers["connection"] == "close"
        service.server.force_exit = True  # the test does not wait for the rest
        service.server._captured_signals.clear()  # uvicorn would send them again to whoever runs the test


def test_at_its_end_what_is_under_way_is_answered_and_nothing_new_is_taken(tmp_path: Path) -> None:
    body = json.dumps(FIELDS).encode()
    with RunningService(tmp_path / "x.db") as service:
        with connected(service.url) as connection:
            head = f"POST /geolocations HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:10])
            time.sleep(0.3)  # until it was read
            service.server.should_exit = True
            for _ in range(200):
                try:
                    httpx.get(f"{service.url}/healthz", trust_env=False, verify=PLAIN)
                except httpx.TransportError:
                    break
                time.sleep(0.02)
            else:
                pytest.fail("it still listens")
            connection.sendall(body[10:])
            answer = parse(read_all(connection))
        assert (answer.status, answer.body) == (201, b'{"locid":-1}')


def test_a_request_that_slips_in_at_the_end_is_sent_elsewhere(service: RunningService) -> None:
    service.server.health.stopping = True
    answer = exchange(service.url, b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (answer.status, answer.problem, answer.headers["connection"]) == (503, "shutting-down", "close")
    assert int(answer.headers["retry-after"]) > 0
