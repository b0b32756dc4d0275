"""Fixtures that tests of the service share, in whichever folder they are."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.services.running_service import RunningService

#: One city with two blocks, one country without coordinates and with an IPv6 block.
DEFAULTS = """\
locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip
1,US,TX,Austin,78701,30.25,-97.75,635,512,192.0.2.0,192.0.2.127
1,US,TX,Austin,78701,30.25,-97.75,635,512,198.51.100.0,198.51.100.255
2,DE,,,,,,,,2001:db8::,2001:db8::ffff
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database for a service: a file that is not there yet, then one that a real PostgreSQL has just created."""
    if request.param == "sqlite":
        yield str(tmp_path / "service.db")
        return
    with request.getfixturevalue("postgres_server").database() as url:
        yield url


@pytest.fixture(name="db")
def sqlite_db(tmp_path: Path) -> str:
    """For tests of clients, to which the service's database makes no difference: the file alone."""
    return str(tmp_path / "service.db")


@pytest.fixture
def service(tmp_path: Path, db: str) -> Iterator[RunningService]:
    """A running service with two default geolocations."""
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(db, load=[csv]) as running:
        yield running


@pytest.fixture
def client(service: RunningService) -> Iterator[httpx.Client]:
    """An HTTP client of the running service."""
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service with the same two geolocations, on SQLite, to which no test writes: one for a module."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "defaults.csv").write_text(DEFAULTS)
    with RunningService(folder / "service.db", load=[folder / "defaults.csv"]) as running, running.client() as client:
        yield client
