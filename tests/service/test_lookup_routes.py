"""The routes of lookups need no database: whatever has layers answers, here index files of the test's own."""

import ipaddress
from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import IndexReader
from geolookup.lookup.snapshot import OpenLayer
from geolookup.model.errors import RequestRefusedError
from geolookup.model.types import FLAT_NAMES, Layer
from geolookup.service.lookup_index import Layers
from geolookup.web.lookups import HANDLERS
from geolookup.web.routing import routed


class Files:
    """Both layers from files: they answer, and ``ready`` says whether there is anything to answer from."""

    def __init__(self, folder: Path) -> None:
        self.base = self._layer(folder, "default", 1, "192.0.2.0/24", "Austin")
        self.custom = self._layer(folder, "custom", -1, "192.0.2.128/25", "Oakland")
        self.ready = True

    @staticmethod
    def _layer(folder: Path, layer: Layer, locid: int, network: str, city: str) -> OpenLayer:
        builder = IndexBuilder(layer)
        slot = builder.add_location(locid, "US", "", city, "", None, None, "", "")
        found = ipaddress.ip_network(network)
        builder.extend_v4(slot, [int(found[0])], [int(found[-1])])
        builder.write(str(folder / layer))
        return OpenLayer(IndexReader.open(str(folder / layer)), {})

    def answer(self, address: str, *, record: bool) -> dict[str, Any]:
        return Layers(self.base, self.custom, 1).answer(address, record=record)

    async def layers(self) -> "Files":
        if not self.ready:
            raise RequestRefusedError("nothing yet", problem="index-not-ready")
        return self

    def layers_at_once(self) -> "Files | None":
        return self if self.ready else None


def test_lookups_are_answered_from_whatever_has_layers(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with TestClient(routed(HANDLERS, {"lookups": files}, title="files")) as client:
        found = client.get("/lookup/192.0.2.5").json()
        assert (found["locid"], found["city"], found["layer"], found["last"]) == (1, "Austin", "default", "192.0.2.127")
        many = client.post("/lookup", json=["192.0.2.200", "198.51.100.1"]).json()
        assert [(each["locid"], each["layer"]) for each in many] == [(-1, "custom"), (None, None)]
        assert set(many[0]) == set(FLAT_NAMES)
        files.ready = False
        answer = client.get("/lookup/192.0.2.5")
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:geolookup:problem:index-not-ready")
