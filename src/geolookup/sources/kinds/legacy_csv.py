"""``legacy-csv``: GeoLiteCity's Blocks and Location, in Latin-1, with a copyright line above the header.

Its places have numbers of their own, ``locId``: they are the locids.
"""

from collections.abc import Iterator

import numpy as np

from geolookup.base.reasons import reason
from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Chunk, Table
from geolookup.model.errors import DataFileError
from geolookup.sources import blocks
from geolookup.sources.places import BadFieldError, place_of
from geolookup.sources.protocol import Gathered, Kind, Request

_BLOCKS = ("startipnum", "endipnum", "locid")
_PLACES = ("locid", "country", "region", "city", "postalcode", "latitude", "longitude", "metrocode", "areacode")
#: Our fields, in the order of the columns after the number.
_FIELDS = ("country", "region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode")
_LINES_ABOVE = 3


def _header_line(member: Member, columns: tuple[str, ...]) -> int | None:
    """In which of the first lines (from 0) the header with these columns stands, or None."""
    lines = member.head.decode("utf-8-sig", "replace").split("\n")[:_LINES_ABOVE]
    for at, line in enumerate(lines):
        if [column.strip().strip('"').lower() for column in line.split(",")] == list(columns):
            return at
    return None


def fits(member: Member) -> bool:
    """True if it has the blocks."""
    return _header_line(member, _BLOCKS) is not None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """All places, then the blocks.

    :raises DataFileError: if the blocks or the places are missing, or a file is damaged
    """
    found = {
        columns: [(member, at) for member in opened.members if (at := _header_line(member, columns)) is not None]
        for columns in (_BLOCKS, _PLACES)
    }
    for columns, what in ((_BLOCKS, "blocks (GeoLiteCity-Blocks.csv)"), (_PLACES, "places (GeoLiteCity-Location.csv)")):
        if not found[columns]:
            raise DataFileError(f"{opened.name}: holds no file of {what}")
    nowhere: set[str] = set()
    for member, skip in found[_PLACES]:
        gathered.begin_file(member.inside)
        _read_places(member, skip, request, gathered, nowhere)
    for member, skip in found[_BLOCKS]:
        gathered.begin_file(member.inside)
        table = Table(member, request.limits, gathered, cp1252=True, skip=skip)
        table.header()
        for chunk in table.chunks(len(_BLOCKS), exact=True):
            yield _blocks(chunk, nowhere, gathered)


def _read_places(member: Member, skip: int, request: Request, gathered: Gathered, nowhere: set[str]) -> None:
    table = Table(member, request.limits, gathered, cp1252=True, skip=skip)
    table.header()
    for chunk in table.chunks(len(_PLACES), exact=True):
        for at, (number, *values) in enumerate(chunk.rows):
            try:
                place = place_of(dict(zip(_FIELDS, values, strict=True)))
                locid = _locid(number)
                if place.covers():
                    gathered.places.add_numbered(locid, place)
                else:
                    gathered.rows_without_location += 1
                    nowhere.add(number)
            except (BadFieldError, ValueError) as error:
                chunk.bad(at, reason(error))


def _locid(number: str) -> int:
    if not (number.isascii() and number.isdecimal() and len(number) <= 18 and int(number)):
        raise BadFieldError(f"its locId {number!r:.40} is not a number greater than zero")
    return int(number)


def _blocks(chunk: Chunk, nowhere: set[str], gathered: Gathered) -> blocks.Batch:
    good: list[int] = []
    found: list[int] = []
    known: dict[str, int | None] = {}
    for at, row in enumerate(chunk.rows):
        number = row[2]
        if number not in known:
            known[number] = gathered.places.find(int(number)) if number.isascii() and number.isdecimal() else None
        place = known[number]
        if place is not None:
            good.append(at)
            found.append(place)
        elif number in nowhere:
            gathered.rows_without_location += 1
        else:
            chunk.bad(at, f"its locId {number!r:.40} is not among the places")
    firsts, lasts = ([chunk.rows[at][column] for at in good] for column in (0, 1))
    places = np.asarray(found, np.uint32)
    return blocks.from_numbers(firsts, lasts, places, lambda at, reason: chunk.bad(good[at], reason), six=False)


KIND = Kind(
    name="legacy-csv",
    summary="GeoLiteCity's Blocks and Location as CSV: the zip or its folder",
    fits=fits,
    read=read,
    own_locids=True,
)
