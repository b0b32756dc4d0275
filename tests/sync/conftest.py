"""These tests run against a real service, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.kept_service import Keeper, kept_on_sqlite
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS, client, sqlite_db

__all__ = ["client", "kept_on_sqlite", "service", "sqlite_db"]


@pytest.fixture
def service(kept_on_sqlite: Keeper, tmp_path: Path) -> Iterator[RunningService]:
    """A running service with two default geolocations, and their file: other tests have used it, and will."""
    (tmp_path / "defaults.csv").write_text(DEFAULTS)
    with kept_on_sqlite.service() as running:
        yield running
