"""Contract tests run against the reference service, or against another one that a command starts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.implementation import Implementation
from tests.contract.test_hotels import HOTELS
from tests.support.data.hotels import ndjson
from tests.support.services.kept_service import Keeper, kept_on_postgresql, kept_on_sqlite
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS, client, sqlite_db

__all__ = ["client", "kept_on_postgresql", "kept_on_sqlite", "service", "sqlite_db"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of another implementation, leave out what is not about it: our databases, our tokens, our client alone."""
    if config.getoption("--implementation") is None:
        return
    other = []
    for item in items:
        names = getattr(item, "fixturenames", ())
        database = getattr(getattr(item, "callspec", None), "params", {}).get("service", "sqlite")
        if _HERE not in item.path.parents or "service" not in names or database != "sqlite":
            other.append(item)
    config.hook.pytest_deselected(items=other)
    items[:] = [item for item in items if item not in other]


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService | Implementation]:
    """A running service with two default geolocations."""
    command = request.config.getoption("--implementation")
    if command is None:
        keeper: Keeper = request.getfixturevalue(f"kept_on_{request.param}")
        with keeper.service() as running:
            yield running
        return
    defaults = tmp_path / "defaults.csv"
    defaults.write_text(DEFAULTS)
    hotels = ndjson(tmp_path / "first-hotels.ndjson", HOTELS)
    with Implementation(command, {"defaults": str(defaults), "hotels": str(hotels)}) as other:
        yield other
