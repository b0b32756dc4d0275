"""Reading the service back: which list is new enough, and what a list can show."""

from typing import Any

import pytest

from geolookup.settings.table import Settings
from geolookup.state.base import clock as clock_module
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.view import ServiceView, filtered
from tests.oracle.outbox_model import Clock, FakeService, Faults
from tests.support.services.running_service import FIELDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clock_module, "wall", clock.wall)
    monkeypatch.setattr(clock_module, "boot_s", clock.steady_s)
    return clock


def view_of(home: str, clock: Clock) -> tuple[ServiceView, Any]:
    service: Any = FakeService(clock, Faults(), honours_keys=False, settle_s=30.0)
    directory = StateDirectory(home)
    with directory.locks.run():
        directory.edits.record("begin", "done")
    return ServiceView(directory, Settings(url="http://127.0.0.1:9", settle_s=30.0), service), service


def test_a_geolocation_is_found_by_any_guess(home: str, clock: Clock) -> None:
    _, service = view_of(home, clock)
    locid = service.foreign_create(FIELDS)
    for guesses in ([FIELDS], [{"city": "elsewhere"}, FIELDS], [FIELDS, FIELDS]):
        found = [each for each in filtered(service, locid, guesses) if each is not None]
        assert [place.city for place in found] == [FIELDS["city"]]
    assert list(filtered(service, locid, [{"city": "elsewhere"}])) == [None]
    service.foreign_delete(locid)
    assert list(filtered(service, locid, [FIELDS])) == [None]
