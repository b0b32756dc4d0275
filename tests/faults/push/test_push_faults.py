"""A service that does the work and answers wrongly, late, or not at all: nothing is lost, and nothing made twice."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from geolookup.cli.exit_codes import of_push
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from geolookup.sync.push.report import PushReport
from tests.faults.fault_proxy import Fault, FaultProxy, after, cut, instead, silence
from tests.faults.raw_server import answer
from tests.support.services.running_service import FIELDS, RunningService

HTML = answer(b"<html>It works!</html>")


def problem(status: str, kind: str = "", *headers: str) -> bytes:
    body = json.dumps({"type": f"https://example.com/problems/{kind}"} if kind else {}).encode()
    return answer(body, status=status, headers=headers)


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultProxy]:
    with FaultProxy(service.url) as proxy:
        yield proxy


def settings(proxy: FaultProxy, **changes: Any) -> Settings:
    return Settings(url=proxy.url, **{"settle_s": 0.0, "attempts": 3, **changes})


def office(home: str, proxy: FaultProxy) -> int:
    """A synced state with a new office that has a block; nothing of it pushed."""
    pull(StateDirectory(home), settings(proxy))
    editor = Editor(home)
    locid = editor.create(**FIELDS)
    editor.add_block(locid, "10.20.0.0/16")
    return locid


def states(home: str) -> list[State]:
    return [row.state for row in Editor(home).outbox()]


def pushed(home: str, proxy: FaultProxy, **changes: Any) -> PushReport:
    return push(StateDirectory(home), settings(proxy, **changes))


def offices(service: RunningService) -> list[dict[str, Any]]:
    with service.client() as client:
        return [place for place in client.get("/geolocations").json() if place["locid"] < 0]


def assert_converges_on_one(home: str, proxy: FaultProxy, service: RunningService) -> None:
    report = pushed(home, proxy)
    assert of_push(report) == 0, report
    (place,) = offices(service)
    assert [(block["startip"], block["endip"]) for block in place["ipblocks"]] == [("10.20.0.0", "10.20.255.255")]
    (laid,) = Editor(home).custom()
    assert (laid.place.locid, laid.pending) == (place["locid"], False)


@pytest.mark.parametrize(
    "fault",
    [
        after(problem("500 Internal Server Error")),
        after(problem("502 Bad Gateway")),
        instead(problem("500 Internal Server Error")),
        instead(problem("503 Service Unavailable", "", "Retry-After: 0")),
        after(HTML),
        instead(HTML),
        after(b"nonsense\r\n\r\n"),
        after(answer(b'{"locid": 7}', status="201 Created")),
        after(answer(b'{"locid": 0}', status="201 Created")),
        after(answer(b'{"locid": -1000000000000001}', status="201 Created")),
        after(answer(b"{}", status="201 Created")),
        after(answer(b"", status="202 Accepted")),
        after(answer(b"", status="302 Found", headers=["Location: http://127.0.0.1:1/"])),
        silence,
    ],
    ids=lambda fault: "",
)
@pytest.mark.parametrize("write", [0, 1], ids=["create", "add_block"])
def test_an_answer_that_cannot_be_believed_is_read_back_and_never_sent_blindly_again(
    home: str, proxy: FaultProxy, service: RunningService, fault: Fault, write: int
) -> None:
    office(home, proxy)
    proxy.faults = [lambda service: service()] * write + [fault]
    report = pushed(home, proxy, read_timeout_s=2.0 if fault is silence else 60.0)
    assert of_push(report) == 1
    assert states(home) == ([State.UNKNOWN, State.QUEUED], [State.DONE, State.UNKNOWN])[write]
    assert len(proxy.writes) == write + 1
    assert_converges_on_one(home, proxy, service)


def test_an_answer_cut_at_any_offset_makes_no_second_geolocation(
    tmp_path: Any, proxy: FaultProxy, service: RunningService, full_sweep: bool
) -> None:
    whole: list[bytes] = []

    def listen(service: Any) -> bytes:
        whole.append(service())
        return whole[0]

    office(str(tmp_path / "whole"), proxy)
    proxy.faults = [listen]
    assert of_push(pushed(str(tmp_path / "whole"), proxy)) == 0
    length = len(whole[0])
    for offset in sorted({*range(0, length, 1 if full_sweep else 23), length - 1}):
        for place in offices(service):
            with service.client() as client:
                client.delete(f"/geolocations?locid={place['locid']}")
        home = str(tmp_path / f"cut{offset}")
        office(home, proxy)
        proxy.faults = [cut(offset)]
        pushed(home, proxy)
        assert len(offices(service)) == 1
        if states(home)[0] == State.UNKNOWN:  # without its last bytes, an answer may still say all that it must
            assert_converges_on_one(home, proxy, service)


def test_an_unknown_outcome_is_left_alone_until_it_has_settled(
    home: str, proxy: FaultProxy, service: RunningService
) -> None:
    office(home, proxy)
    proxy.faults = [instead(problem("500 Internal Server Error"))]
    pushed(home, proxy, settle_s=3600.0)
    for _ in range(2):
        report = pushed(home, proxy, settle_s=3600.0)
        assert (of_push(report), report.unknown, len(proxy.writes)) == (1, 1, 1)
        assert "settles" in report.edits[0]["reason"]
    assert_converges_on_one(home, proxy, service)


@pytest.mark.parametrize(
    "refusal", [problem("401 Unauthorized"), problem("403 Forbidden", "insufficient-scope"), problem("403 Forbidden")]
)
def test_want_of_permission_pauses_the_whole_push(
    home: str, proxy: FaultProxy, service: RunningService, refusal: bytes
) -> None:
    office(home, proxy)
    Editor(home).create(**{**FIELDS, "city": "Another"})
    proxy.faults = [instead(refusal)]
    report = pushed(home, proxy)
    assert (of_push(report), len(proxy.writes), report.queued) == (1, 1, 3)
    assert report.stopped
    assert of_push(pushed(home, proxy)) == 0
    assert len(offices(service)) == 2


def test_a_busy_service_is_waited_for_as_it_asks(
    home: str, proxy: FaultProxy, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(clock, "sleep", waits.append)
    office(home, proxy)
    proxy.faults = [instead(problem("429 Too Many Requests", "", "Retry-After: 7"))]
    assert of_push(pushed(home, proxy)) == 0
    assert waits == [7.0]
    assert len(offices(service)) == 1


def test_a_wait_past_the_limit_ends_the_push_with_the_edit_queued(
    home: str, proxy: FaultProxy, service: RunningService
) -> None:
    office(home, proxy)
    proxy.faults = [instead(problem("429 Too Many Requests", "", "Retry-After: 61"))]
    report = pushed(home, proxy)
    assert (of_push(report), report.queued, report.waited_s) == (1, 2, 0.0)
    assert "max_wait_s" in (report.stopped or "")
    assert_converges_on_one(home, proxy, service)


def test_a_service_that_is_always_busy_is_not_asked_for_ever(
    home: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _s: None)
    office(home, proxy)
    proxy.faults = [instead(problem("429 Too Many Requests", "", "Retry-After: 0"))] * 50
    assert of_push(pushed(home, proxy)) == 1
    assert len(proxy.writes) == 3


def test_a_service_that_always_fails_is_not_asked_for_ever(home: str, proxy: FaultProxy) -> None:
    locid = office(home, proxy)
    Editor(home).add_block(locid, "10.21.0.0/16")
    assert of_push(pushed(home, proxy)) == 0
    Editor(home).remove_block(locid, "10.21.0.0/16")
    proxy.faults = [instead(problem("500 Internal Server Error"))] * 50
    before = len(proxy.writes)
    assert of_push(pushed(home, proxy)) == 1
    assert len(proxy.writes) == before + 1


def test_a_service_that_does_not_answer_is_left_after_a_few_requests(home: str, proxy: FaultProxy) -> None:
    pull(StateDirectory(home), settings(proxy))
    editor = Editor(home)
    for number in range(6):
        editor.create(**{**FIELDS, "city": f"City {number}"})
    proxy.faults = [cut(0)] * 6
    report = pushed(home, proxy)
    assert (of_push(report), report.unknown, report.queued) == (1, 3, 3)
    assert "does not answer" in (report.stopped or "")


def test_a_refused_connection_leaves_the_edit_as_if_it_had_never_been_tried(
    home: str, proxy: FaultProxy, service: RunningService
) -> None:
    locid = office(home, proxy)
    assert of_push(pushed(home, proxy)) == 0
    Editor(home).add_block(locid, "10.21.0.0/16")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    report = push(StateDirectory(home), Settings(url=nobody), url_moved=True)
    assert (of_push(report), report.queued) == (1, 1)
    assert Editor(home).pending()[0].attempts == 0
    report = push(StateDirectory(home), Settings(url=service.url), url_moved=True)
    assert (of_push(report), report.done) == (0, 1)


def test_a_locid_of_another_geolocation_is_not_believed(home: str, proxy: FaultProxy, service: RunningService) -> None:
    there = service.create(("10.9.0.0", "10.9.0.255"), city="There before")
    office(home, proxy)
    proxy.faults = [after(answer(b'{"locid": %d}' % there, status="201 Created"))]
    assert of_push(pushed(home, proxy)) == 1
    assert of_push(pushed(home, proxy)) == 0
    with service.client() as client:
        blocks = {place["locid"]: place["ipblocks"] for place in client.get("/geolocations").json()}
    assert [block["startip"] for block in blocks[there]] == ["10.9.0.0"]
    assert sorted(len(found) for locid, found in blocks.items() if locid < 0) == [1, 1]
