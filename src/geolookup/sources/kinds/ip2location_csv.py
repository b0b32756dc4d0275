"""``ip2location-csv``: DB1 to DB11 of IP2Location and IP2Location LITE.

The files have no header. The ends of ranges are quoted decimal numbers, and ``-`` stands for an unknown value.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.errors import DataFileError
from geolookup.sources import blocks
from geolookup.sources.kinds.dbip_csv import sample_rows
from geolookup.sources.places import PlaceFields, place_of
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import Key, PlaceNumbers, keys_of

_NOTHING = "-"
_NUMBER = re.compile(r"[0-9]{1,39}", re.ASCII)
_DEGREES = re.compile(r"-|-?[0-9]{1,3}(\.[0-9]+)?", re.ASCII)
_TIME_ZONE = re.compile(r"-|[+-][0-9]{2}:[0-9]{2}", re.ASCII)

_COUNTRY = {"country": 2}
_CITY = {**_COUNTRY, "region": 4, "city": 5}
_PLACE = {**_CITY, "latitude": 6, "longitude": 7}
_POSTAL = {**_PLACE, "postalcode": 8}


def _layout(rows: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """The positions of the fields. Several databases have as many columns as another, so values tell them apart.

    4 DB1; 5 DB2 (isp); 6 DB3; 7 DB4 (isp); 8 DB5 (coordinates) or DB7 (isp, domain); 9 DB6 (coordinates, isp) or DB9
    (coordinates, postal code); 10 DB8 (coordinates, isp, domain) or DB11 (coordinates, postal code, time zone); 11 DB10
    (coordinates, postal code, isp, domain).
    """
    rows = [row for row in rows if len(row) >= 4 and _NUMBER.fullmatch(row[0]) and _NUMBER.fullmatch(row[1])]
    if not rows:
        return None
    width = len(rows[0])
    rows = [row for row in rows if len(row) == width]

    def all_match(pattern: "re.Pattern[str]", *columns: int) -> bool:
        return all(pattern.fullmatch(row[column]) for row in rows for column in columns)

    if width in (4, 5):
        return _COUNTRY
    if width in (6, 7):
        return _CITY
    if width == 8:
        return _PLACE if all_match(_DEGREES, 6, 7) else _CITY
    if width not in (9, 10, 11) or not all_match(_DEGREES, 6, 7):
        return None
    if width == 9:
        # A postal code is short and has no small letters; the name of a provider is not.
        postal = all(len(row[8]) <= 12 and row[8] == row[8].upper() for row in rows)
        return _POSTAL if postal else _PLACE
    if width == 10:
        return _POSTAL if all_match(_TIME_ZONE, 9) else _PLACE
    return _POSTAL


def _looks_right(rows: Sequence[Sequence[str]]) -> bool:
    good = [
        row
        for row in rows
        if 4 <= len(row) <= 11
        and _NUMBER.fullmatch(row[0])
        and _NUMBER.fullmatch(row[1])
        and (row[2] == _NOTHING or (len(row[2]) == 2 and row[2].isalpha()))
    ]
    return len(good) * 2 > len(rows)


def fits(member: Member) -> bool:
    """True if most rows begin with two decimal numbers and a country's code."""
    rows = sample_rows(member)
    return _looks_right(rows) and _layout(rows) is not None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names.

    :raises DataFileError: if the rows have no layout that is known
    """
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        rows = sample_rows(member)
        layout = _layout(rows)
        if layout is None:
            raise DataFileError(f"{member.name}: its rows are not those of IP2Location's DB1 to DB11")
        # The IPv6 file numbers IPv4 as ::ffff:0:0/96, so its first rows are beyond 32 bits.
        ends = [row[1] for row in rows if len(row) > 1 and _NUMBER.fullmatch(row[1])]
        six = any(int(end) > IPV4_MAX for end in ends)
        positions = tuple(layout.values())
        numbers = PlaceNumbers(gathered, _maker(layout))
        for chunk in Table(member, request.limits, gathered).chunks(len(rows[0]), exact=True):
            chunk, places = numbers.of(chunk, keys_of(chunk, positions))
            yield blocks.from_numbers(chunk.column(0), chunk.column(1), places, chunk.bad, six=six)


def _maker(layout: Iterable[str]) -> Callable[[Key], PlaceFields]:
    def make(key: Key) -> PlaceFields:
        return place_of({name: value for name, value in zip(layout, key, strict=True) if value != _NOTHING})

    return make


KIND = Kind(
    name="ip2location-csv",
    summary="IP2Location or IP2Location LITE, DB1 to DB11, as CSV (IPv4 or IPv6)",
    fits=fits,
    read=read,
)
