"""Contract tests run against the reference service, or against another one that a command starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.implementation import Implementation
from tests.contract.test_hotels import HOTELS
from tests.support.hotels import ndjson
from tests.support.running_service import RunningService
from tests.support.service_fixtures import DEFAULTS, client, db

__all__ = ["client", "db", "service"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of another implementation, leave out what is not about it: our databases, our tokens, our client alone."""
    if config.getoption("--implementation") is None:
        return
    other = []
    for item in items:
        names = getattr(item, "fixturenames", ())
        database = getattr(getattr(item, "callspec", None), "params", {}).get("db", "sqlite")
        if _HERE not in item.path.parents or "service" not in names or database != "sqlite":
            other.append(item)
    config.hook.pytest_deselected(items=other)
    items[:] = [item for item in items if item not in other]


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path, db: str) -> Iterator[RunningService | Implementation]:
    """A running service with two default geolocations."""
    defaults = tmp_path / "defaults.csv"
    defaults.write_text(DEFAULTS)
    command = request.config.getoption("--implementation")
    if command is None:
        with RunningService(db, load=[defaults]) as running:
            yield running
        return
    hotels = ndjson(tmp_path / "first-hotels.ndjson", HOTELS)
    with Implementation(command, {"defaults": str(defaults), "hotels": str(hotels)}) as other:
        yield other
