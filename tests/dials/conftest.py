"""A person, and a service whose dials can be turned."""

import time
from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from geolookup.state.base import clock
from tests.dials.dials import Dials
from tests.dials.faces import OverHttp
from tests.dials.person import SETTLE_S, Person
from tests.dials.upstream import Upstream

#: Seconds that pass while a clock is read.
READ_S = 0.0001


@pytest.fixture
def service() -> Iterator[OverHttp]:
    with OverHttp(Upstream(Dials(), Random(1), time.monotonic)) as service:
        yield service


@pytest.fixture
def leaping_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's clocks leap for those who sleep by them, and else go a little each time that they are read.

    So nothing settles because the machine is slow, and two moments are never one.
    """
    begin, begin_s, boot_s = clock.wall(), clock.steady_s(), clock.boot_s()
    passed_s = 0.0

    def leap(seconds: float) -> float:
        nonlocal passed_s
        passed_s += seconds
        return passed_s

    monkeypatch.setattr(clock, "wall", lambda: begin + timedelta(seconds=leap(READ_S)))
    monkeypatch.setattr(clock, "steady_s", lambda: begin_s + leap(READ_S))
    monkeypatch.setattr(clock, "boot_s", lambda: boot_s + leap(READ_S))
    monkeypatch.setattr(clock, "sleep", leap)


@pytest.fixture
def person(
    service: OverHttp,
    home: str,
    leaping_clocks: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Person:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", str(SETTLE_S))
    person = Person(service.upstream, capsys)
    person("sync")
    return person
