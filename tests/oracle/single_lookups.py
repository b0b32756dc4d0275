"""The oracle of columns: one `GeoLookup.match` and one `GeoLookup.network` a row."""

from collections.abc import Iterable
from typing import Any

from geolookup.columns.common import FIELDS
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import InvalidAddressError
from geolookup.model.facts import NETWORK_FACTS


def single_lookups(geo: GeoLookup, texts: Iterable[str | None]) -> list[dict[str, Any]]:
    """Every field of every row, None where the text is None, malformed or not covered."""
    return [single_lookup(geo, text) for text in texts]


def single_lookup(geo: GeoLookup, text: str | None) -> dict[str, Any]:
    """Every field of one address."""
    try:
        match = None if text is None else geo.match(text)
        network = None if text is None else geo.network(text)
    except InvalidAddressError:
        match = network = None
    found = {}
    for name in FIELDS:
        said_by = network if name in NETWORK_FACTS else match
        found[name] = None if said_by is None else getattr(said_by, name)
    return found
