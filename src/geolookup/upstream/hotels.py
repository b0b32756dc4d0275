"""The service's operations 8 and 9: hotel details and the hotel list; and the hotels near a place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, unquote

from geolookup.base.text import harmless
from geolookup.http.transport import Transport
from geolookup.model.errors import SettingsError
from geolookup.model.types import Geolocation
from geolookup.upstream.decode import whole
from geolookup.upstream.records import record_of, records_of

#: The optional sections of a record, which the service sends only on request.
SECTIONS = ("Attributes", "ChannelProperties", "ContactInfo", "Currency", "DiningOptions", "Features")

_PLACEHOLDER = "{hotelId}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotel:
    """A hotel as the service sent it.

    If a value is missing or unreadable, a text is empty and a coordinate (degrees) None. ``sections`` has
    those of `SECTIONS` that came, by name, as plain JSON values. ``content`` is the whole record as JSON in UTF-8,
    with members that are not known here, and with every number as the service wrote it.
    """

    hotel_id: str
    name: str
    line1: str
    city: str
    state: str
    postal_code: str
    country: str
    destination_id: str
    amenities: tuple[str, ...]
    latitude: float | None
    longitude: float | None
    sections: Mapping[str, Any]
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HotelList:
    """An answer to `HotelsClient.list`: the hotels in the service's order, and the requested ids that it lacks."""

    hotels: tuple[Hotel, ...]
    missing: tuple[str, ...]


class HotelsClient:
    """Hotel content on the service. Errors are those of `Transport.request`, for answers of up to 16 MiB."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._settings = transport.settings

    def details(self, hotel_id: str, *, include: Iterable[str] = ()) -> Hotel:
        """Operation 8: one hotel, with the sections of ``include``.

        :raises UpstreamRefusedError: if the service does not know the hotel (its ``status`` is 404) or the section
        :raises UpstreamAnswerError: if the answer is not a record
        """
        template = self._settings.path_hotel_details
        if _PLACEHOLDER not in template:
            raise SettingsError(f"path_hotel_details: has no {_PLACEHOLDER} in it")
        # A dot is encoded too: a segment of only dots would lead to another path.
        segment = quote(_sendable(hotel_id), safe="").replace(".", "%2E")
        path = template.replace(_PLACEHOLDER, segment)
        answer = self._transport.request("GET", path, params=_query(include), idempotent=True)
        return _hotel(*record_of(f"GET {path}", answer))

    def list(
        self,
        *,
        city: str | None = None,
        state: str | None = None,
        postal_code: str | None = None,
        country: str | None = None,
        destination_id: str | None = None,
        ids: Iterable[str] = (),
        amenities: Iterable[str] = (),
        include: Iterable[str] = (),
    ) -> HotelList:
        """Operation 9: the hotels of an address, a destination or identifiers, if they have all the amenities.

        ``missing`` is what the service says. If it says nothing and no amenity was requested, it is the identifiers
        without an answer.

        :raises UpstreamRefusedError: if the service refuses the search: by nothing, or by two of the three together
        :raises UpstreamAnswerError: if the answer is not a list of records
        """
        ids, amenities = tuple(ids), tuple(amenities)
        params = {
            "city": city,
            "state": state,
            "postalCode": postal_code,
            "country": country,
            "destinationId": destination_id,
            "id": ",".join(ids),
            "amenity": ",".join(amenities),
        }
        asked = {name: _sendable(text) for name, text in params.items() if text}
        path = self._settings.path_hotel_list
        answer = self._transport.request("GET", path, params={**asked, **_query(include)}, idempotent=True)
        hotels = tuple(_hotel(*found) for found in records_of(f"GET {path}", answer, "hotelId"))
        named = answer.headers.get("x-missing-ids")
        if named is not None:
            missing = [unquote(item) for part in named.split(",") if (item := part.strip())]
        else:
            there = {hotel.hotel_id.casefold() for hotel in hotels}
            missing = [item for item in ids if item.casefold() not in there and not amenities]
        return HotelList(hotels=hotels, missing=tuple(missing))


def _query(include: Iterable[str]) -> dict[str, str]:
    sections = _sendable(",".join(include))
    return {"@include": sections} if sections else {}


def _sendable(text: str) -> str:
    """:raises SettingsError: if it cannot be written as UTF-8, for example an argument with other bytes"""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SettingsError(f"{harmless(text)!r} cannot be sent: it is not UTF-8") from error
    return text


def _hotel(content: bytes, value: dict[str, Any]) -> Hotel:
    address = value.get("address")
    place = address if isinstance(address, dict) else {}
    amenities = value.get("amenities")
    return Hotel(
        hotel_id=_text(value.get("hotelId")),
        name=_text(value.get("name")),
        line1=_text(place.get("line1")),
        city=_text(place.get("city")),
        state=_text(place.get("state")),
        postal_code=_text(place.get("postalCode")),
        country=_text(place.get("country")),
        destination_id=_text(value.get("destinationId")),
        amenities=tuple(filter(None, map(_text, amenities))) if isinstance(amenities, list) else (),
        latitude=_degrees(value.get("latitude"), 90),
        longitude=_degrees(value.get("longitude"), 180),
        sections={name: value[name] for name in SECTIONS if name in value},
        content=content,
    )


def _text(value: object) -> str:
    number = whole(value)
    return value if isinstance(value, str) else "" if number is None else str(number)


def _degrees(value: object, most: int) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        degrees = float(value)
    except (ValueError, OverflowError):
        return None
    return degrees if -most <= degrees <= most else None


Level: TypeAlias = Literal["city", "region", "country"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """Hotels, and the place that they are in: ``level``, and ``place`` in words (``Austin, TX, US``).

    ``level`` is None if there is no hotel even in the country; ``place`` then has the whole geolocation in words,
    empty if it names neither city nor region nor country.
    """

    level: Level | None
    place: str
    hotels: tuple[Hotel, ...]


def hotels_near(
    client: HotelsClient, place: Geolocation, *, amenities: Iterable[str] = (), include: Iterable[str] = ()
) -> Nearby:
    """Ask for the hotels of the smallest part of ``place`` that has any with all the ``amenities``.

    A city is asked for together with its region, since one country has several of one name. Errors are those of
    `HotelsClient.list`.
    """
    amenities, include = tuple(amenities), tuple(include)
    parts: list[tuple[Level, str]] = [("city", place.city), ("region", place.region), ("country", place.country)]
    for start, (level, text) in enumerate(parts):
        if not text:
            continue
        found = client.list(
            city=place.city if level == "city" else None,
            state=place.region if level != "country" else None,
            country=place.country,
            amenities=amenities,
            include=include,
        )
        if found.hotels:
            return Nearby(level=level, place=_words(parts[start:]), hotels=found.hotels)
    return Nearby(level=None, place=_words(parts), hotels=())


def _words(parts: list[tuple[Level, str]]) -> str:
    return ", ".join(text for _, text in parts if text)
