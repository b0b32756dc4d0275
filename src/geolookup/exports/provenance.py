"""What answers came from: enough to say later which they were, and to get the same ones again with ``as_of``."""

import json
from collections.abc import Collection
from typing import Any, Final

from geolookup.exports.licences import terms
from geolookup.lookup.snapshot import Snapshot

#: Before the names of members in the metadata of a file or a schema.
_PREFIX: Final = "geolookup."
_TOLD: Final = ("dated", "licence", "attribution")


def provenance(home: str, snapshot: Snapshot) -> dict[str, Any]:
    """The fingerprint of all answers of a snapshot, its generation, when that was published, and its sources.

    Each source has its ``name``, the date or moment that its data are of (``dated``), its ``licence`` and the line that
    this wants shown (``attribution``): None where nothing says it.

    :raises IndexDamagedError: if a file cannot be followed
    """
    current = snapshot.current
    known = terms(home, current)
    names = [name for name in known if name in current.serves]
    return {
        "fingerprint": snapshot.fingerprint(home),
        "generation": current.generation,
        "published": current.published_at,
        "sources": [{"name": name, **{member: known[name].get(member) or None for member in _TOLD}} for name in names],
    }


def of_sources(found: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The same with these sources alone."""
    return {**found, "sources": [each for each in found["sources"] if each["name"] in names]}


def metadata(found: dict[str, Any]) -> dict[str, str]:
    """The same as texts by name, for the metadata of Parquet files and Arrow schemas; the sources are JSON."""
    return {
        f"{_PREFIX}{name}": json.dumps(value, ensure_ascii=False) if name == "sources" else str(value)
        for name, value in found.items()
    }
