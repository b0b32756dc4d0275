"""Fixtures that tests of the service share, in whichever folder they are."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.running_service import RunningService

#: One city with two blocks, one country without coordinates and with an IPv6 block.
DEFAULTS = """\
locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip
1,US,TX,Austin,78701,30.25,-97.75,635,512,192.0.2.0,192.0.2.127
1,US,TX,Austin,78701,30.25,-97.75,635,512,198.51.100.0,198.51.100.255
2,DE,,,,,,,,2001:db8::,2001:db8::ffff
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A running service with two default geolocations."""
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(tmp_path / "service.db", load=[csv]) as running:
        yield running


@pytest.fixture
def client(service: RunningService) -> Iterator[httpx.Client]:
    """An HTTP client of the running service."""
    with service.client() as client:
        yield client
