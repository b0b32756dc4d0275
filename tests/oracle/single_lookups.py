"""The oracle of columns: one `GeoLookup.match` a row."""

from collections.abc import Iterable
from typing import Any

from geolookup.columns.common import FIELDS
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import InvalidAddressError


def single_lookups(geo: GeoLookup, texts: Iterable[str | None]) -> list[dict[str, Any]]:
    """Every field of every row, None where the text is None, malformed or not covered."""
    found = []
    for text in texts:
        try:
            match = None if text is None else geo.match(text)
        except InvalidAddressError:
            match = None
        row = dict.fromkeys(FIELDS) if match is None else match.flat()
        found.append({name: row[name] for name in FIELDS})
    return found
