"""``geolite2-csv``: GeoLite2 or GeoIP2, City or Country, as CSV: the zip as downloaded, or its folder.

Blocks name a place by ``geoname_id``; country, region and city are the place's, postal code and coordinates the
block's. A block without ``geoname_id`` has no place: the place of registration says nothing about the addresses.
"""

from collections.abc import Iterator

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.errors import DataFileError
from geolookup.sources import blocks
from geolookup.sources.kinds.ranges_csv import first_line
from geolookup.sources.places import BadFieldError, PlaceFields, place_of
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import Key, PlaceNumbers, keys_of

_BLOCKS = frozenset(("network", "geoname_id", "registered_country_geoname_id"))
_PLACES = frozenset(("geoname_id", "locale_code", "country_iso_code"))
_ENGLISH = "en"
#: Our fields and the columns of the places and of the blocks that hold them.
_OF_PLACE = {
    "country": "country_iso_code",
    "region": "subdivision_1_iso_code",
    "city": "city_name",
    "dmacode": "metro_code",
}
_OF_BLOCK = {"postalcode": "postal_code", "latitude": "latitude", "longitude": "longitude"}


def _has(member: Member, columns: frozenset[str]) -> bool:
    return columns <= set(first_line(member))


def fits(member: Member) -> bool:
    """True if it has the blocks."""
    return _has(member, _BLOCKS)


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all files that have any, by the English names of their places.

    :raises DataFileError: if the blocks or the places are missing, or a file is damaged
    """
    with_blocks = [member for member in opened.members if fits(member)]
    if not with_blocks:
        raise DataFileError(f"{opened.name}: holds no file of blocks (GeoLite2-…-Blocks-IPv4.csv)")
    places = _read_places(opened, request, gathered)
    for member in with_blocks:
        gathered.begin_file(member.inside)
        yield from _read_blocks(member, places, request, gathered)


def _read_places(opened: Opened, request: Request, gathered: Gathered) -> dict[str, dict[str, str]]:
    """The English places by geoname_id."""
    places: dict[str, dict[str, str]] = {}
    for member in opened.members:
        if not _has(member, _PLACES):
            continue
        gathered.files.append(member.inside)
        # Rows of places are counted apart: a bad one is seen again as each block that wants it.
        apart = Gathered()
        table = Table(member, request.limits, apart)
        header = table.header()
        id_at, locale_at = header.index("geoname_id"), header.index("locale_code")
        wanted = {name: header.index(column) for name, column in _OF_PLACE.items() if column in header}
        for chunk in table.chunks(len(header), exact=True):
            for row in chunk.rows:
                if row[locale_at] == _ENGLISH:
                    places[row[id_at]] = {name: row[at] for name, at in wanted.items()}
    if not places:
        raise DataFileError(f"{opened.name}: holds no file of places in English (GeoLite2-…-Locations-en.csv)")
    return places


def _read_blocks(
    member: Member, places: dict[str, dict[str, str]], request: Request, gathered: Gathered
) -> Iterator[blocks.Batch]:
    table = Table(member, request.limits, gathered)
    header = table.header()
    network_at = header.index("network")
    # Columns of City that Country has not are left out.
    of_block = {name: header.index(column) for name, column in _OF_BLOCK.items() if column in header}
    positions = (header.index("geoname_id"), *of_block.values())

    def make(key: Key) -> PlaceFields | None:
        geoname_id, *values = key
        found = dict(zip(of_block, values, strict=True))
        if not geoname_id:
            return place_of({"postalcode": postalcode}) if (postalcode := found.get("postalcode")) else None
        if geoname_id not in places:
            raise BadFieldError(f"its geoname_id {geoname_id!r:.40} is not among the places")
        return place_of(places[geoname_id] | found)

    numbers = PlaceNumbers(gathered, make)
    for chunk in table.chunks(len(header), exact=True):
        chunk, found = numbers.of(chunk, keys_of(chunk, positions))
        yield blocks.from_networks(chunk.column(network_at), found, chunk.bad)


KIND = Kind(
    name="geolite2-csv",
    summary="GeoLite2 or GeoIP2 as CSV: the zip or its folder, with Blocks and Locations",
    fits=fits,
    read=read,
)
