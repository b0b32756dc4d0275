"""The service that tests share is as new for each of them: otherwise one test would decide what another finds."""

from pathlib import Path

import pytest

from geolookup.service.geolocations.loader import load_files
from tests.support.data.hotels import hotel, ndjson
from tests.support.services.kept_service import Keeper
from tests.support.services.running_service import FIELDS

OTHER = """\
locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip
1,FR,,,,,,,,9.0.0.0,9.0.0.1
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_next_test_finds_nothing_of_what_one_wrote(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    keeper: Keeper = request.getfixturevalue(f"kept_on_{kind}")
    other = tmp_path / "other.csv"
    other.write_text(OTHER)
    with keeper.service() as running, running.client() as client:
        new = client.get("/geolocations").json()
        key = {"Idempotency-Key": "a"}
        assert client.post("/geolocations", json=FIELDS, headers=key).json() == {"locid": -1}
        running.create(("10.0.0.0", "10.0.0.1"))
        load_files(running.store, [other])
        running.load_hotels(ndjson(tmp_path / "hotels.ndjson", [hotel("A1", "Austin", "wifi")]))
        assert len(client.get("/v1/api/hotel/list?city=Austin").json()) == 1
    with keeper.service() as again, again.client() as client:
        assert again is running
        assert client.get("/geolocations").json() == new
        assert client.get("/v1/api/hotel/list?city=Austin").json() == []
        # Neither the number nor the key is taken.
        assert client.post("/geolocations", json={**FIELDS, "city": "Austin"}, headers=key).json() == {"locid": -1}
