"""The coordinates that the default data have of a city, for a custom geolocation that is given none."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from geolookup.base.text import without_accents
from geolookup.model.types import Geolocation
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.generations.cache import Cache


class City(NamedTuple):
    """A place of the default data that stands for its city, and the source that has it.

    ``elsewhere`` are other regions of the country that have a city of this name, for one that was asked for without its
    region.
    """

    place: Geolocation
    source: str
    elsewhere: tuple[str, ...]

    @property
    def coordinates(self) -> dict[str, float | None]:
        """Latitude and longitude, in degrees."""
        return {"latitude": self.place.latitude, "longitude": self.place.longitude}


def cities_like(home: str, record: dict[str, Any], begin: str, most: int) -> list[City]:
    """The cities of a generation (``record``) whose names begin so, each once, those with most blocks first.

    Those of a source stand before those of the sources below it. Case has no meaning, except of other letters than a-z
    within the name; nor have accents and hyphens that the source does not write.
    """
    found: dict[tuple[str, str, str], City] = {}
    for part in parts_of(record):
        if begin and part.has_places and len(found) < most:
            cache = Cache(os.path.join(snapshot_path(home, part.snapshot), "cache.db"))
            for place in cache.cities_like(_spellings(begin), most):
                found.setdefault((place.country, place.region, place.city), City(place, part.name, ()))
    return list(found.values())[:most]


def _spellings(name: str) -> tuple[str, ...]:
    """A name as it is typed, and as a source may write it: Saint-Etienne for Saint Étienne."""
    plain = without_accents(name)
    return (*dict.fromkeys((name, plain, plain.replace(" ", "-"), plain.replace("-", " "))),)


def find_city(home: str, record: dict[str, Any], country: str, region: str, city: str) -> City | None:
    """The place of a city by the first source of a generation (``record``) that knows it, None if none does.

    Of its regions the one with most addresses, and of the places in that the one with most. A place without a region
    may be in any; case has no meaning, nor have hyphens that the source does not write; accents have none if no city is
    called exactly so.
    """
    if not country or not city:
        return None
    for part in parts_of(record):
        if not part.has_places:
            continue
        cache = Cache(os.path.join(snapshot_path(home, part.snapshot), "cache.db"))
        ways = [(each, fold) for fold in (str.casefold, plain) for each in _spellings(city)]
        asked = (cache.city(country.upper(), each, fold) for each, fold in ways)
        found = next((each for each in asked if each), [])
        by_region: dict[str, list[tuple[int, int, int, Geolocation]]] = {}
        for place, addresses, blocks in found:
            if not region or place.region.casefold() in ("", region.casefold()):
                by_region.setdefault(place.region, []).append((addresses, blocks, -place.locid, place))
        if by_region:
            # Of equal ones the first number, so that the same data always give the same answer.
            largest = max(by_region, key=lambda name: (sum(each[0] for each in by_region[name]), max(by_region[name])))
            elsewhere = sorted(name for name in by_region if name and name != largest) if not region else []
            return City(max(by_region[largest])[3], part.name, tuple(elsewhere))
    return None


def own_city(places: Iterable[Geolocation], country: str, region: str, city: str) -> City | None:
    """The same by custom geolocations: of those in the city the first that has coordinates."""
    for place in places if country and city else ():
        names = [(place.country, country), (place.city, city), *([(place.region, region)] if region else [])]
        if (
            all(plain(has) == plain(asked) for has, asked in names)
            and place.latitude is not None
            and place.longitude is not None
        ):
            return City(place, "your own sites", ())
    return None


def plain(name: str) -> str:
    """A name without case and accents."""
    return without_accents(name).casefold()
