"""A person who runs commands against a service over HTTP that is not ideal."""

import json
from typing import Any

import pytest

from geolookup.cli.app import run
from geolookup.state.base import clock
from tests.dials.upstream import Upstream

SETTLE_S = 0.3
ELSEWHERE = {
    "country": "AU",
    "region": "",
    "city": "Sydney",
    "postalcode": "",
    "latitude": -33.8,
    "longitude": 151.2,
    "dmacode": "",
    "areacode": "",
}
BERLIN = {"country": "DE", "city": "Berlin", "latitude": 52.520008, "longitude": 13.404954}


class Person:
    """Runs commands against one service; ``said`` is all that the last one printed."""

    def __init__(self, upstream: Upstream, capsys: pytest.CaptureFixture[str]) -> None:
        self.upstream = upstream
        self.said = ""
        self._capsys = capsys

    def __call__(self, *words: object, exits: int | None = 0) -> str:
        """Run a command that exits so, or in any way if None is given: what it wrote to standard output."""
        self._capsys.readouterr()
        code = run([str(word) for word in words])
        out, error = self._capsys.readouterr()
        self.said = out + error
        assert exits in (code, None), (code, self.said)
        return out

    def creates(self, *blocks: str, **fields: Any) -> int:
        """Create a geolocation with blocks: its number here."""
        options = [f"--{name}={value}" for name, value in {**BERLIN, **fields}.items()]
        locid = int(json.loads(self("custom", "create", *options, "--json"))["locid"])
        for block in blocks:
            self("custom", "add-block", locid, block)
        return locid

    def pushes_for_all_to_see(self, *, exits: int | None = 0) -> None:
        """Push, and sync once the service has settled: a list shows what was pushed, and says so for sure."""
        self("push")
        settle()
        self("sync", exits=exits)

    def has(self, *blocks: str, **fields: Any) -> int:
        """Create a geolocation that the service has and a list has shown; its number here, as `creates` gives it."""
        locid = self.creates(*blocks, **fields)
        self.pushes_for_all_to_see()
        return locid

    def looks_up(self, *addresses: str) -> list[int]:
        """The locid of each address."""
        out = self("lookup", *addresses, "--format", "ndjson")
        return [json.loads(line)["locid"] for line in out.splitlines()]

    @property
    def there(self) -> dict[int, tuple[str, list[str]]]:
        """What the service has: city and blocks, by number."""
        places = self.upstream.places
        return {
            locid: (place.as_fields()["city"], sorted(first for first, _ in place.blocks))
            for locid, place in places.items()
        }


def settle() -> None:
    clock.sleep(SETTLE_S + 0.05)
