"""A person, and a service whose dials can be turned."""

import time
from collections.abc import Iterator
from random import Random

import pytest

from tests.dials.dials import Dials
from tests.dials.faces import OverHttp
from tests.dials.person import SETTLE_S, Person
from tests.dials.upstream import Upstream


@pytest.fixture
def service() -> Iterator[OverHttp]:
    with OverHttp(Upstream(Dials(), Random(1), time.monotonic)) as service:
        yield service


@pytest.fixture
def person(service: OverHttp, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", str(SETTLE_S))
    person = Person(service.upstream, capsys)
    person("sync")
    return person
