"""What a hotel's record must have, and the keys by which it is found; everything else in it is kept as it is."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geolookup.base.reasons import reason
from geolookup.errors import RequestRefusedError
from geolookup.service.hotels.documents import Document
from geolookup.service.store.hotel_schema import ADDRESS, ADDRESS_KEYS
from geolookup.service.store.schema import fold
from geolookup.web import wire

#: The sections that are sent only on request.
SECTIONS = ("Attributes", "ChannelProperties", "ContactInfo", "Currency", "DiningOptions", "Features")
#: Characters of a hotel's identifier, and of an amenity. Both fit together into one index entry of any database.
MAX_NAME = 100
MAX_AMENITIES = 1000

_LISTS = ("Attributes", "DiningOptions", "Features")
# An identifier is a segment of a path, and appears in lists separated by commas.
_NOT_IN_IDENTIFIERS = re.compile(r"[,/\\]")


@dataclass(frozen=True, slots=True)
class HotelRecord:
    """A valid record: ``text`` as it is kept, and the folded keys; ``places`` is by column."""

    hotel_id: str
    hotel_key: str
    places: dict[str, str]
    destination_key: str
    amenities: frozenset[str]
    text: str


def check(document: Document) -> HotelRecord:
    """Check a hotel's record.

    :raises RequestRefusedError: ``invalid-body`` with an error for each member that is missing or wrong
    """
    errors: list[tuple[str, str]] = []

    def take(holder: dict[str, Any], name: str, read: Callable[[object], Any], prefix: str = "") -> Any:
        try:
            if name not in holder:
                raise ValueError("is required")
            return read(holder[name])
        except ValueError as error:
            errors.append((f"{prefix}/{name}", reason(error)))

    value = document.value
    if not isinstance(value, dict):
        raise RequestRefusedError("a hotel must be an object", problem="invalid-body")
    hotel_id = take(value, "hotelId", identifier)
    take(value, "name", wire.text)
    address = take(value, "address", _address) or {}
    texts = {name: take(address, name, wire.text, "/address") for name in ADDRESS} if address else {}
    destination = take(value, "destinationId", wire.text)
    amenities = take(value, "amenities", _amenities)
    take(value, "latitude", lambda degrees: wire.coordinate(degrees, 90.0))
    take(value, "longitude", lambda degrees: wire.coordinate(degrees, 180.0))
    errors += [(f"/{name}", "must be an array") for name in _LISTS if not isinstance(value.get(name, []), list)]
    if errors:
        raise RequestRefusedError("the hotel is not valid", problem="invalid-body", errors=tuple(errors))
    return HotelRecord(
        hotel_id=hotel_id,
        hotel_key=fold(hotel_id),
        places={column: fold(texts[name]) for name, column in ADDRESS_KEYS.items()},
        destination_key=fold(destination),
        amenities=frozenset(map(fold, amenities)),
        text=document.text,
    )


def identifier(value: object) -> str:
    """A hotel's identifier.

    :raises ValueError: if it is not one
    """
    text = _name(value)
    if _NOT_IN_IDENTIFIERS.search(text) or text in (".", ".."):
        raise ValueError("must not hold a comma, slash or backslash, and must not be . or ..")
    return text


def _name(value: object) -> str:
    text = wire.text(value)
    if not 0 < len(text) <= MAX_NAME or text != text.strip() or not text.isprintable():
        raise ValueError(f"must be 1 to {MAX_NAME} printable characters without blanks around them")
    return text


def _address(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be an object of {', '.join(ADDRESS)}")
    return value


def _amenities(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_AMENITIES:
        raise ValueError(f"must be an array of at most {MAX_AMENITIES} texts")
    amenities = [_name(item) for item in value]
    if any("," in amenity for amenity in amenities):
        raise ValueError("must not hold a comma, which separates them in a search")
    return amenities
