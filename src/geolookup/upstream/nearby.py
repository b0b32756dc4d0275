"""The hotels where a guest's address is: of its city, else of its region, else of its country."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from geolookup.model.types import Geolocation
from geolookup.upstream.hotels import Hotel, HotelsClient

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
