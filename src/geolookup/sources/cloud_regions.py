"""Where the regions of clouds are: a table that comes with geolookup, and else what a region's own name says.

The table, ``cloud-regions.csv``, names for each entry the provider's page that documents it. A region of which only the
country or the state is documented has no city.
"""

import csv
import functools
import importlib.resources
import re

from geolookup.model.countries import country_in_words
from geolookup.sources.places import PlaceFields

#: Names that providers give to what is in no one place.
_EVERYWHERE = frozenset(("", "global"))
#: What a region's name begins with if that is two letters and no country's code: a part of the world.
_AREAS = frozenset(("af", "ap", "eu", "me", "sa"))
_CODES = {"uk": "GB"}
#: Countries as Azure's regions call them, beside their English names.
_SHORT = {"us": "US", "uk": "GB", "uae": "AE", "korea": "KR", "chile": "CL", "usgov": "US", "usdod": "US"}
#: A zone of AWS outside of its region: the region, perhaps the carrier, and the airport near the zone.
_ZONE = re.compile(r"[a-z]+(?:-gov)?-[a-z]+-[0-9]+(?:-wl[0-9])?-([a-z]{3})(?:-wlz)?-[0-9]+", re.ASCII)
_LETTERS = 2


def is_somewhere(region: str) -> bool:
    """True if a region is named, and is not the provider's word for everywhere."""
    return region.lower() not in _EVERYWHERE


def place_of_region(cloud: str, region: str) -> tuple[PlaceFields | None, bool]:
    """The place of a region, None if nothing says it; and whether the table has it.

    A zone that is not in the table has no place: it may be in another country than its region.
    """
    name = region.lower()
    zone = _ZONE.fullmatch(name) if cloud == "aws" else None
    found = _table().get((cloud, f"*-{zone[1]}-*" if zone else name))
    if found is not None or zone is not None:
        return found, found is not None
    country = _country_of(cloud, name)
    return (PlaceFields(country) if country else None), False


def _country_of(cloud: str, name: str) -> str:
    """The country that a region's name says, or ""."""
    if cloud == "azure":
        return _longest_within(name)
    first = name.partition("-")[0]
    if len(first) == _LETTERS:
        return "" if first in _AREAS else _CODES.get(first, first.upper())
    return country_in_words(first)


def _longest_within(name: str) -> str:
    """The country of the longest word in a name that is a country's: ``australia`` before the ``us`` in it."""
    parts = {name[begin:end] for begin in range(len(name)) for end in range(begin + 2, len(name) + 1)}
    for part in sorted(parts, key=len, reverse=True):
        country = _SHORT.get(part) or country_in_words(part)
        if country:
            return country
    return ""


@functools.cache
def _table() -> dict[tuple[str, str], PlaceFields]:
    text = importlib.resources.files("geolookup_data").joinpath("cloud-regions.csv").read_text("utf-8")
    return {
        (row["cloud"], row["region"]): PlaceFields(row["country"], row["subdivision"], row["city"])
        for row in csv.DictReader(text.splitlines())
    }
