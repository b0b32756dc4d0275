"""Refresh against the real service: one lock, one run, and what is still done where a part of it cannot be."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.cli import exit_codes
from geolookup.model.errors import StateBusyError
from geolookup.settings.table import Settings
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.refresh import CODES, RefreshReport, next_action, refresh
from tests.faults.fault_proxy import FaultProxy, after, instead
from tests.faults.raw_server import RawServer, answer
from tests.support.data.lists import listed, many
from tests.support.data.stations import stand
from tests.support.services.running_service import RunningService
from tests.sync.push.machine import Machine

A, B = "10.0.1.0/24", "10.0.2.0/24"


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultProxy]:
    with FaultProxy(service.url) as running:
        yield running


@pytest.fixture
def machine(home: str, service: RunningService, proxy: FaultProxy) -> Machine:
    made = Machine(home, service)
    with made.directory.edits.transaction() as database:
        Outbox(database).keep_setting("upstream_url", proxy.url)
    made.settings = Settings(url=proxy.url, settle_s=0.0, attempts=1, max_wait_s=2.0)
    made.pull()
    proxy.requests.clear()
    return made


def run(machine: Machine, **options: Any) -> RefreshReport:
    return refresh(machine.directory, machine.settings, **options)


def ended(report: RefreshReport) -> tuple[int, str]:
    return exit_codes.of_refresh(report), next_action(report).code


def lists(proxy: FaultProxy) -> list[str]:
    """The complete lists that were asked for, each by whether it was conditional."""
    reads = [request for request in proxy.requests if request.method == "GET"]
    return ["conditional" if "if-none-match" in request.headers else "whole" for request in reads]


def test_what_was_edited_is_sent_pulled_and_served(machine: Machine) -> None:
    machine.create(A)
    report = run(machine)
    assert ended(report) == (0, "none")
    assert report.push is not None
    assert report.pull is not None
    assert (report.push.done, report.pull.outcome, report.changed) == (2, "published", True)
    assert report.pull.difference is not None
    assert report.pull.difference["geolocations"]["added"] == 1
    ((locid, _blocks),) = machine.there().items()
    assert machine.locid("10.0.1.7") == locid
    assert machine.editor.pending() == []
    assert verify(machine.home) == []
    assert set(report.durations_s) >= {"push", "pull", "compile", "compare", "publish", "total"}


def test_a_night_without_anything_new_asks_once_and_changes_nothing(machine: Machine, proxy: FaultProxy) -> None:
    report = run(machine)
    assert (ended(report), report.changed) == ((0, "none"), False)
    assert report.generation == report.generation_before
    assert lists(proxy) == ["conditional"]


def test_a_push_and_a_pull_take_no_third_list(machine: Machine, proxy: FaultProxy) -> None:
    machine.service.create((A.split("/")[0], "10.0.1.255"))  # so that the push's list is no 304 either
    machine.create(B)
    assert ended(run(machine)) == (0, "none")
    assert lists(proxy) == ["conditional", "whole"]  # what was just sent is only in a list that is sent whole


def test_the_list_that_shows_what_is_held_does_for_the_push_and_the_pull(machine: Machine, proxy: FaultProxy) -> None:
    machine.create()
    stand(machine.home, 1, State.REJECTED)
    machine.create(B)
    machine.editor.drop(2)
    assert ended(run(machine)) == (3, "decide-on-edits")
    assert (lists(proxy), proxy.writes) == (["whole"], [])  # a 304 would not say whether a refused block is free now


def test_what_a_lost_create_made_is_found_by_the_pull_of_the_same_night(machine: Machine, proxy: FaultProxy) -> None:
    machine.create()
    proxy.faults = [after(b"")]
    assert ended(run(machine)) == (0, "none")
    assert machine.editor.pending() == []
    assert len(machine.there()) == 1


def test_another_run_under_way_is_busy_and_nothing_is_asked(machine: Machine, proxy: FaultProxy) -> None:
    with machine.directory.locks.run(), pytest.raises(StateBusyError):
        run(machine, started=lambda: pytest.fail("it did not start"))
    assert proxy.requests == []


def test_the_lock_is_held_from_the_first_request_to_the_last(machine: Machine, proxy: FaultProxy) -> None:
    busy = []

    def fault(service: Any) -> Any:
        try:
            with StateDirectory(machine.home).locks.run():
                busy.append(False)
        except StateBusyError:
            busy.append(True)
        return service()

    machine.create(A)
    proxy.read_fault, proxy.faults = fault, [fault, fault]
    assert exit_codes.of_refresh(run(machine)) == 0
    assert busy == [True] * 4


def test_a_refused_edit_waits_for_a_person_and_the_list_is_pulled_all_the_same(machine: Machine) -> None:
    machine.service.create((A.split("/")[0], "10.0.1.255"))
    machine.create(A)  # the block is taken
    report = run(machine)
    assert ended(report) == (3, "decide-on-edits")
    assert report.pull is not None
    assert report.pull.outcome == "published"
    assert machine.locid("10.0.1.7") is not None


def test_a_push_that_may_not_write_pauses_and_the_list_is_pulled_all_the_same(
    machine: Machine, proxy: FaultProxy
) -> None:
    machine.service.create((B.split("/")[0], "10.0.2.255"))
    machine.create(A)
    proxy.faults = [instead(answer(b"{}", status="403 Forbidden"))]
    report = run(machine)
    assert ended(report) == (1, "check-token")
    assert report.skipped is None
    assert report.pull is not None
    assert report.pull.outcome == "published"
    assert machine.locid("10.0.2.7") is not None


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (answer(b"{}", status="401 Unauthorized"), "check-token"),
        (answer(b"", status="503 Service Unavailable", headers=["Retry-After: 3600"]), "wait"),
    ],
    ids=["401", "an hour's wait"],
)
def test_a_service_that_refuses_everything_is_not_asked_again(
    machine: Machine, proxy: FaultProxy, refusal: bytes, code: str
) -> None:
    machine.create(A)
    proxy.read_fault = instead(refusal)
    report = run(machine)
    assert ended(report) == (1, code)
    assert len(proxy.requests) == 1
    assert report.pull is None
    assert "refuses" in (report.skipped or "")
    assert machine.states() == ["queued", "queued"]


def test_a_service_out_of_reach_is_tried_once_and_edits_stay(machine: Machine) -> None:
    machine.create(A)
    machine.settings = Settings(url="http://127.0.0.1:9", attempts=1)
    report = run(machine, url_moved=True)
    assert (ended(report), report.pull) == ((1, "wait"), None)
    assert machine.states() == ["queued", "queued"]


def test_edits_are_not_sent_to_another_service_than_theirs(machine: Machine, proxy: FaultProxy) -> None:
    machine.create(A)
    with RawServer(listed(many(3))) as other:
        machine.settings = Settings(url=other.url, attempts=1)
        report = run(machine)
        assert (ended(report), other.requests) == ((2, "fix-configuration"), [])


def test_a_held_list_says_how_to_accept_it_and_a_failed_push_comes_first(home: str) -> None:
    with RawServer(listed(many(40), count=40), listed(many(3), count=3)) as server:
        settings = Settings(url=server.url, attempts=1)
        refresh(StateDirectory(home), settings)
        report = refresh(StateDirectory(home), settings)
    assert ended(report) == (3, "decide-on-the-list")
    assert report.held is not None
    assert report.held.digest[:16] in next_action(report).words
    assert report.pull is not None
    assert (report.pull.outcome, report.generation, report.changed) == ("held", 1, False)
    assert report.push is not None
    report.push.stopped = "for this test"
    report.failures.append(type(report.failures[0])(stage="push", message="for this test"))
    assert ended(report) == (1, "wait")


def test_a_person_is_asked_for_before_what_is_left_over(home: str) -> None:
    with RawServer(listed(many(3), count=3)) as server:
        report = refresh(StateDirectory(home), Settings(url=server.url, attempts=1))
    assert report.push is not None
    report.push.unknown = 1
    assert ended(report) == (1, "run-again")
    report.push.rejected = 1
    assert ended(report) == (3, "decide-on-edits")


def test_a_damaged_edits_file_fails_the_run_and_lookups_go_on(machine: Machine, proxy: FaultProxy) -> None:
    machine.create(A)
    Path(machine.home, "edits.db").write_bytes(b"no database")
    report = run(machine)
    assert (ended(report), proxy.requests) == ((1, "fix-state"), [])
    assert "edits.db" in report.failures[0].message
    assert machine.locid("192.0.2.1") == 1


def test_without_an_upstream_it_says_where_to_put_one(home: str) -> None:
    report = refresh(StateDirectory(home), Settings())
    assert ended(report) == (2, "fix-configuration")
    assert "`url` of a service" in report.failures[0].message


def test_the_secret_is_read_once(machine: Machine, monkeypatch: pytest.MonkeyPatch, proxy: FaultProxy) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"the-token\n")
    os.close(writer)
    machine.create(A)
    machine.settings = Settings(url=proxy.url, settle_s=0.0, token_file="-")
    with open(reader) as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        assert exit_codes.of_refresh(run(machine)) == 0
    assert {request.headers.get("authorization") for request in proxy.requests} == {"Bearer the-token"}
    assert len(proxy.writes) == 2


def test_what_was_rolled_back_is_not_published_again_and_it_says_how(home: str) -> None:
    lists = [listed(many(40 + extra), count=40 + extra) for extra in (0, 1, 1)]
    with RawServer(*lists) as server:
        directory, settings = StateDirectory(home), Settings(url=server.url, attempts=1)
        refresh(directory, settings)
        refresh(directory, settings)
        directory.keeping.rollback()
        report = refresh(directory, settings)
    assert ended(report) == (0, "accept-what-was-rolled-back")
    assert (report.generation, report.changed) == (1, False)
    assert report.pull is not None
    assert (report.pull.digest or "?")[:16] in next_action(report).words


def test_a_change_that_was_made_here_already_is_no_change_of_answers(machine: Machine) -> None:
    locid = machine.service.create((A.split("/")[0], "10.0.1.255"))
    run(machine)
    machine.editor.update(locid, city="Moved")
    report = run(machine)
    assert report.pull is not None
    assert (report.pull.outcome, report.changed) == ("published", False)


def test_a_late_twin_waits_for_a_person(machine: Machine) -> None:
    machine.create(city="Twin")
    (row,) = machine.editor.pending()
    stand(machine.home, row.id, State.UNKNOWN)  # sent again although the first attempt may yet land
    assert exit_codes.of_refresh(run(machine)) == 0
    machine.service.create(city="Twin")
    report = run(machine)
    assert ended(report) == (3, "decide-on-twins")
    assert report.pull is not None
    assert len(report.pull.twins) == 1


def test_every_code_says_what_to_do() -> None:
    assert all(words and not words.endswith(".") for words in CODES.values())
