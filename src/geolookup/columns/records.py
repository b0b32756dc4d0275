"""What the SQL engines' functions answer with, one address at a time or a column of them."""

from typing import Any, Final

import msgspec

from geolookup.errors import InvalidAddressError
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import IPV4_MAX, to_text
from geolookup.model.types import FIELD_NAMES, Geolocation, Match

#: The fields that have a function ``geo_FIELD``; ``geo_json`` has all of an address's object.
FUNCTION_FIELDS: Final = ("locid", *FIELD_NAMES, "source")


def place_of(geo: GeoLookup, value: Any) -> Geolocation | None:
    """The geolocation of a value of SQL; None for NULL, an uncovered address, and all other values."""
    text = _text(value)
    try:
        return None if text is None else geo.lookup(text)
    except InvalidAddressError:
        return None


def field_of(geo: GeoLookup, name: str, value: Any) -> Any:
    """One of `FUNCTION_FIELDS` for a value of SQL; None as for `place_of`."""
    if name != "source":
        place = place_of(geo, value)
        return None if place is None else getattr(place, name)
    match = _match_of(geo, value)
    return None if match is None else match.source


def json_of(geo: GeoLookup, value: Any) -> str | None:
    """The object that the command's NDJSON has for an address, as text; None as for `place_of`."""
    match = _match_of(geo, value)
    return None if match is None else msgspec.json.encode(match.flat()).decode("utf-8")


def _match_of(geo: GeoLookup, value: Any) -> Match | None:
    text = _text(value)
    try:
        return None if text is None else geo.match(text)
    except InvalidAddressError:
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, int) and 0 <= value <= IPV4_MAX:
        return to_text(4, value)
    return value if isinstance(value, str) else None
