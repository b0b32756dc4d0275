"""The reference service, running under uvicorn on a free loopback port, for the length of a test."""

import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import httpx

from geolookup.service.geolocations.loader import load_files
from geolookup.service.hotels.loader import load_hotels
from geolookup.service.process.listener import bind
from geolookup.service.process.options import Options
from geolookup.service.process.server import Server
from geolookup.service.serve import application
from geolookup.service.store.store import Store
from tests.support.plain_http import PLAIN

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

_PATIENCE_S = 30


class Asked:
    """A service by its address: what tests ask of any implementation."""

    url: str

    def client(self) -> httpx.Client:
        """An HTTP client whose paths are relative to the service."""
        return httpx.Client(base_url=self.url, trust_env=False, timeout=_PATIENCE_S, verify=PLAIN)

    def create(self, *blocks: tuple[str, str], **fields: Any) -> int:
        """Create a custom geolocation with blocks over HTTP: its locid."""
        with self.client() as client:
            locid = client.post("/geolocations", json={**FIELDS, **fields}).raise_for_status().json()["locid"]
            for startip, endip in blocks:
                body = {"startip": startip, "endip": endip}
                client.post(f"/geolocations/ipblocks?locid={locid}", json=body).raise_for_status()
        return int(locid)


class RunningService(Asked):
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
        self._socket = bind("127.0.0.1", port)
        self.server = Server(
            application(self.store, ignore_keys=ignore_idempotency_keys), self._socket, options or Options()
        )
        self.url = self.server.url
        ready = threading.Event()
        self.server.when_ready = lambda _url: ready.set()
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        assert ready.wait(_PATIENCE_S), "the service did not start"

    def load_hotels(self, path: str | os.PathLike[str]) -> None:
        """Load hotels, one a line."""
        load_hotels(self.store, [path])

    def stop(self) -> None:
        """End the service and close its database."""
        self.server.should_exit = True
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive(), "the service did not stop"
        self.store.close()

    def __enter__(self) -> "RunningService":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
