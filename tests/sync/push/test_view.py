"""Reading the service back: which list is new enough, and what a list can show."""

from typing import Any

import pytest

from geolookup.settings.table import Settings
from geolookup.state.base import clock as clock_module
from geolookup.state.base.marks import Mark
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.view import ServiceView
from tests.oracle.outbox_model import Clock, FakeService, Faults
from tests.support.services.running_service import FIELDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clock_module, "wall", clock.wall)
    monkeypatch.setattr(clock_module, "boot_s", clock.steady_s)
    return clock


def ended_now() -> Mark:
    return Mark.now(0)


def view_of(home: str, clock: Clock) -> tuple[ServiceView, Any]:
    service: Any = FakeService(clock, Faults(), honours_keys=False, settle_s=30.0)
    directory = StateDirectory(home)
    with directory.locks.run():
        directory.edits.record("begin", "done")
    return ServiceView(directory, Settings(url="http://127.0.0.1:9", settle_s=30.0), service), service


def test_a_list_begun_before_an_attempt_had_settled_says_nothing_about_it(home: str, clock: Clock) -> None:
    view, service = view_of(home, clock)
    ended = ended_now()
    clock.sleep(20)
    assert view.complete() == {}
    clock.sleep(5)
    landed = service.foreign_create(FIELDS)  # a delayed request, within the time that it may take
    clock.sleep(10)
    assert view.complete() == {}  # good enough for a baseline
    assert set(view.complete(settled=ended)) == {landed}


def test_one_list_begun_after_settling_serves_a_whole_round(home: str, clock: Clock) -> None:
    view, service = view_of(home, clock)
    ended = ended_now()
    clock.sleep(31)
    assert view.complete(settled=ended) is view.complete(settled=ended)
    service.foreign_create(FIELDS)
    assert view.complete() == {}


def test_a_geolocation_is_found_by_any_guess_or_else_by_the_complete_list(home: str, clock: Clock) -> None:
    view, service = view_of(home, clock)
    locid = service.foreign_create(FIELDS)
    for guesses in ([FIELDS], [{"city": "elsewhere"}, FIELDS], [{"city": "elsewhere"}], []):
        found = view.find(locid, guesses)
        assert found is not None
        assert found.city == FIELDS["city"]
    service.foreign_delete(locid)
    assert view.find(locid, [FIELDS]) is None


def test_what_was_assigned_after_the_kept_list_is_looked_for_in_a_new_one(home: str, clock: Clock) -> None:
    view, service = view_of(home, clock)
    view.complete()
    locid = service.foreign_create({**FIELDS, "country": "", "region": "", "city": "", "postalcode": ""})
    view.assigned(locid)
    assert view.find(locid, []) is not None
