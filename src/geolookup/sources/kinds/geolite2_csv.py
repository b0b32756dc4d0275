"""``geolite2-csv``: GeoLite2 or GeoIP2, City or Country, as CSV: the zip as downloaded, or its folder.

Blocks name a place by ``geoname_id``; country, region and city are the place's, postal code and coordinates the
block's. A block without ``geoname_id`` says no place: where a network is registered is not where it is.
"""

from collections.abc import Iterator
from typing import NamedTuple

from geolookup.errors import DataFileError
from geolookup.sources import blocks
from geolookup.sources.files.opened import Member, Opened
from geolookup.sources.files.table import Table
from geolookup.sources.kinds.ranges_csv import first_line
from geolookup.sources.places import BadFieldError, PlaceFields, latitude, longitude, text
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import PlaceNumbers

_BLOCKS = frozenset(("network", "geoname_id", "registered_country_geoname_id"))
_PLACES = frozenset(("geoname_id", "locale_code", "country_iso_code"))
_ENGLISH = "en"
# Columns of City that Country has not.
_OF_PLACE = ("country_iso_code", "subdivision_1_iso_code", "city_name", "metro_code")
_OF_BLOCK = ("geoname_id", "postal_code", "latitude", "longitude")


class _Place(NamedTuple):
    country: str
    region: str
    city: str
    dmacode: str


def _has(member: Member, columns: frozenset[str]) -> bool:
    return columns <= set(first_line(member))


def fits(opened: Opened) -> bool:
    """Whether any of the files has the blocks."""
    return any(_has(member, _BLOCKS) for member in opened.members)


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all files that have any, by the English names of their places.

    :raises DataFileError: if the blocks or the places are missing, or a file is damaged
    """
    with_blocks = [member for member in opened.members if _has(member, _BLOCKS)]
    if not with_blocks:
        raise DataFileError(f"{opened.name}: holds no file of blocks (GeoLite2-…-Blocks-IPv4.csv)")
    places = _read_places(opened, request)
    for member in with_blocks:
        gathered.begin_file(member.inside)
        yield from _read_blocks(member, places, request, gathered)


def _read_places(opened: Opened, request: Request) -> dict[str, _Place]:
    """The English places by geoname_id."""
    places: dict[str, _Place] = {}
    for member in opened.members:
        if not _has(member, _PLACES):
            continue
        # Rows of places are counted apart: a bad one is seen again as each block that wants it.
        apart = Gathered()
        table = Table(member, request.limits, apart)
        header = table.header()
        id_at, locale_at = header.index("geoname_id"), header.index("locale_code")
        wanted = [header.index(name) if name in header else None for name in _OF_PLACE]
        for chunk in table.chunks(len(header), exact=True):
            for row in chunk.rows:
                if row[locale_at] == _ENGLISH:
                    places[row[id_at]] = _Place(*("" if at is None else row[at] for at in wanted))
    if not places:
        raise DataFileError(f"{opened.name}: holds no file of places in English (GeoLite2-…-Locations-en.csv)")
    return places


def _read_blocks(
    member: Member, places: dict[str, _Place], request: Request, gathered: Gathered
) -> Iterator[blocks.Batch]:
    table = Table(member, request.limits, gathered)
    header = table.header()
    network_at = header.index("network")
    wanted = [header.index(name) if name in header else None for name in _OF_BLOCK]

    def make(key: tuple[str, ...]) -> PlaceFields | None:
        geoname_id, postalcode, north, east = key
        if not geoname_id:
            return PlaceFields(postalcode=text(postalcode, "postal_code")) if postalcode else None
        place = places.get(geoname_id)
        if place is None:
            raise BadFieldError(f"its geoname_id {geoname_id!r:.40} is not among the places")
        return PlaceFields(
            text(place.country, "country"),
            text(place.region, "region"),
            text(place.city, "city"),
            text(postalcode, "postal_code"),
            latitude(north),
            longitude(east),
            text(place.dmacode, "metro_code"),
        )

    numbers = PlaceNumbers(gathered, make)
    for chunk in table.chunks(len(header), exact=True):
        keys = [tuple(["" if at is None else row[at] for at in wanted]) for row in chunk.rows]
        chunk, found = numbers.of(chunk, keys)
        yield blocks.from_networks(chunk.column(network_at), found, chunk.bad)


KIND = Kind(
    name="geolite2-csv",
    summary="GeoLite2 or GeoIP2 as CSV: the zip or its folder, with Blocks and Locations",
    fits=fits,
    read=read,
)
