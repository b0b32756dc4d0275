"""CSV files to load, and what a store has then."""

import json
from pathlib import Path
from typing import Any

from geolookup.service.geolocations import search
from geolookup.service.geolocations.search import Filter
from geolookup.service.store.store import Store

HEADER = "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip\n"


def write(path: Path, text: str) -> Path:
    """A file with this text."""
    path.write_text(text, encoding="utf-8")
    return path


def places(store: Store) -> list[dict[str, Any]]:
    """What the service lists."""
    snapshot = store.snapshot()
    try:
        return list(json.loads(b"".join(search.encode(snapshot, Filter()))))
    finally:
        snapshot.close()
