"""``dbip-csv``: DB-IP's country or city lite without a header, also as the project ip-location-db publishes it.

Of the latter the ends of ranges may be decimal numbers (``*-num.csv``).
"""

import csv
import re
from collections.abc import Callable, Iterator
from functools import partial

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.addresses import IPV4_MAX, is_address
from geolookup.model.errors import DataFileError
from geolookup.model.fields import FIELD_NAMES
from geolookup.sources import blocks
from geolookup.sources.places import PlaceFields, place_of
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import Columns, Key, PlaceNumbers, keys_of

#: By the number of columns, the position of each field:
#: first,last,country;  first,last,continent,country,region,city,latitude,longitude (DB-IP)
#: first,last,country,region,district,city,postalcode,latitude,longitude,timezone (ip-location-db)
_LAYOUTS = {
    3: ("country",),
    8: ("continent", "country", "region", "city", "latitude", "longitude"),
    10: ("country", "region", "district", "city", "postalcode", "latitude", "longitude", "timezone"),
}
_POINT = re.compile(r"|-?[0-9]{1,3}\.[0-9]+", re.ASCII)
#: Private and reserved addresses, which belong to no country.
_NO_COUNTRY = "ZZ"


def sample_rows(member: Member, most: int = 50) -> list[list[str]]:
    """The first whole rows of a file that are CSV, for telling its kind."""
    lines = member.head.decode("utf-8-sig", "replace").split("\n")
    if len(lines) > 1:
        lines.pop()  # it may be cut
    rows = []
    for line in lines[:most]:
        try:
            rows += [row for row in csv.reader([line.rstrip("\r")], strict=True) if row]
        except csv.Error:
            continue
    return rows


def _widths(rows: list[list[str]]) -> list[int]:
    """The numbers of columns of those rows that may be of this kind."""
    return [len(row) for row in rows if len(row) in _LAYOUTS and is_address(row[0]) and is_address(row[1])]


def numbered_columns(rows: list[list[str]]) -> int | None:
    """The number of columns if most rows are those of ip-location-db's ``*-num.csv``; None if they are not.

    Files of IP2Location begin in the same way, and have other columns behind.
    """
    found = [
        len(row)
        for row in rows
        if len(row) in (3, 10)
        and row[0].isdecimal()
        and row[1].isdecimal()
        and (not row[2] or (len(row[2]) == 2 and row[2].isalpha()))
        and all(_POINT.fullmatch(row[at]) for at in (7, 8) if len(row) == 10)
    ]
    return found[0] if len(found) * 2 > len(rows) and len(set(found)) == 1 else None


def fits(member: Member) -> bool:
    """True if most rows begin with two addresses, or numbers, and have as many columns as one of the layouts."""
    rows = sample_rows(member)
    if numbered_columns(rows) is not None:
        return True
    found = _widths(rows)
    return len(found) * 2 > len(rows) and len(set(found)) == 1


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names.

    :raises DataFileError: if the rows have no layout that is known
    """
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        rows = sample_rows(member)
        if (width := numbered_columns(rows)) is not None:
            six = any(int(row[1]) > IPV4_MAX for row in rows if len(row) == width and row[1].isdecimal())
            yield from _read_file(member, width, request, gathered, partial(blocks.from_numbers, six=six))
            continue
        found = _widths(rows)
        if not found:
            raise DataFileError(
                f"{member.name}: its rows are not `first,last,…` with 3 (country), 8 or 10 (city) columns"
            )
        yield from _read_file(member, max(found, key=found.count), request, gathered, blocks.from_text)


def _read_file(
    member: Member, width: int, request: Request, gathered: Gathered, blocks_of: Callable[..., blocks.Batch]
) -> Iterator[blocks.Batch]:
    layout = _LAYOUTS[width]
    country_at = layout.index("country")
    columns = Columns(layout, {name: name for name in layout if name in FIELD_NAMES})

    def make(key: Key) -> PlaceFields:
        found = dict(zip(layout, key, strict=True))
        if found["country"] == _NO_COUNTRY:
            found["country"] = ""
        return place_of(found)

    def says(key: Key, place: PlaceFields | None) -> dict[str, bytes]:
        return {} if key[country_at] == _NO_COUNTRY else columns.says(key, place)

    positions = tuple(range(2, width))
    numbers = PlaceNumbers(gathered, make, says=says)
    for chunk in Table(member, request.limits, gathered).chunks(width, exact=True):
        chunk, places = numbers.of(chunk, keys_of(chunk, positions))
        yield blocks_of(chunk.column(0), chunk.column(1), places, chunk.bad)
    gathered.keep(columns.kept())


KIND = Kind(
    name="dbip-csv",
    summary="DB-IP country or city lite as CSV without a header",
    fits=fits,
    read=read,
    records=True,
)
