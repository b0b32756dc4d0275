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


@pytest.fixture
def service() -> Iterator[OverHttp]:
    with OverHttp(Upstream(Dials(), Random(1), time.monotonic)) as service:
        yield service


@pytest.fixture
def leaping_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's clocks go as clocks do, and whoever sleeps by them has them leap instead."""
    leapt_s = 0.0
    wall, steady_s, boot_s = clock.wall, clock.steady_s, clock.boot_s

    def leap(seconds: float) -> None:
        nonlocal leapt_s
        leapt_s += seconds

    monkeypatch.setattr(clock, "wall", lambda: wall() + timedelta(seconds=leapt_s))
    monkeypatch.setattr(clock, "steady_s", lambda: steady_s() + leapt_s)
    monkeypatch.setattr(clock, "boot_s", lambda: boot_s() + leapt_s)
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
