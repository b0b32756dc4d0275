"""The reference service, running under uvicorn on a free loopback port, for the length of a test."""

import os
from collections.abc import Iterable
from typing import Any

import httpx

from geolookup.service.geolocations.loader import load_files
from geolookup.service.hotels.records import load_hotels
from geolookup.service.serve import application
from geolookup.service.store.store import Store
from geolookup.web.options import Options
from tests.support.services.server_thread import ServerThread, client_of

#: A geolocation that is valid in every field.
FIELDS: dict[str, Any] = {
    "country": "US",
    "region": "CA",
    "city": "Oakland",
    "postalcode": "94601",
    "latitude": 37.8,
    "longitude": -122.25,
    "dmacode": "807",
    "areacode": "510",
}


class Asked:
    """A service by its address: what tests ask of any implementation."""

    url: str

    def client(self) -> httpx.Client:
        """An HTTP client whose paths are relative to the service."""
        return client_of(self.url)

    def create(self, *blocks: tuple[str, str], **fields: Any) -> int:
        """Create a custom geolocation with blocks over HTTP: its locid."""
        with self.client() as client:
            locid = client.post("/geolocations", json={**FIELDS, **fields}).raise_for_status().json()["locid"]
            for startip, endip in blocks:
                body = {"startip": startip, "endip": endip}
                client.post(f"/geolocations/ipblocks?locid={locid}", json=body).raise_for_status()
        return int(locid)


class RunningService(Asked, ServerThread):
    """A service in a thread. ``url`` is its base address, ``store`` its database, to look into or change directly.

    ``load`` are CSV files; ``options`` and ``ignore_idempotency_keys`` are as `geolookup.service.serve.serve` takes
    them; a ``worker`` shares the database of another that runs. Usable as a context manager; `stop` ends it, and is
    harmless when repeated.
    """

    def __init__(
        self,
        db: str | os.PathLike[str],
        *,
        load: Iterable[str | os.PathLike[str]] = (),
        ignore_idempotency_keys: bool = False,
        options: Options | None = None,
        worker: bool = False,
        port: int = 0,
    ) -> None:
        self.store = Store.open(db, worker=worker)
        load_files(self.store, load)
        self.start(application(self.store, ignore_keys=ignore_idempotency_keys), options, port=port)

    def load_hotels(self, path: str | os.PathLike[str]) -> None:
        """Load hotels, one a line."""
        load_hotels(self.store, [path])

    def stop(self) -> None:
        """End the service and close its database."""
        super().stop()
        self.store.close()
