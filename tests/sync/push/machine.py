"""A machine that pushes to the service of a test."""

from typing import Any

import httpx

from geolookup.lookup.engine import GeoLookup
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from geolookup.sync.push.report import PushReport
from tests.support.services.running_service import FIELDS, RunningService

A, B, C, D = "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.4.0/24"


class Machine:
    """One machine with a state of its own, and the service that it belongs to."""

    def __init__(self, home: str, service: RunningService) -> None:
        self.home, self.service = home, service
        self.settings = Settings(url=service.url, settle_s=0.0)
        self.pull()

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(self.home)

    @property
    def editor(self) -> Editor:
        return Editor(self.home)

    def pull(self, **changes: Any) -> Any:
        return pull(self.directory, self.settings, **changes)

    def push(self, **options: Any) -> PushReport:
        return push(self.directory, self.settings, **options)

    def create(self, *blocks: str, **fields: Any) -> int:
        locid = self.editor.create(**{**FIELDS, **fields})
        for block in blocks:
            self.editor.add_block(locid, block)
        return locid

    def there(self) -> dict[int, list[str]]:
        """The service's custom geolocations: the beginnings of their blocks."""
        with self.service.client() as client:
            places = client.get("/geolocations").json()
        return {p["locid"]: sorted(b["startip"] for b in p["ipblocks"]) for p in places if p["locid"] < 0}

    def states(self) -> list[str]:
        return [str(row.state) for row in self.editor.outbox()]

    def locid(self, address: str) -> int | None:
        with GeoLookup(self.home) as geo:
            found = geo.lookup(address)
        return None if found is None else found.locid


def add(foreign: httpx.Client, locid: int, first: str, last: str) -> None:
    foreign.post(f"/geolocations/ipblocks?locid={locid}", json={"startip": first, "endip": last}).raise_for_status()
