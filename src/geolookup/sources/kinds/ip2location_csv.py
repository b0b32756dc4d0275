"""``ip2location-csv``: DB1 to DB11 of IP2Location and IP2Location LITE, with a header or without.

The ends of ranges are quoted decimal numbers; in the CIDR form one network stands in their place. ``-`` stands for an
unknown value.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.errors import DataFileError
from geolookup.model.fields import FIELD_NAMES
from geolookup.sources import blocks
from geolookup.sources.kinds.dbip_csv import numbered_columns, sample_rows
from geolookup.sources.places import PlaceFields, place_of
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import BothNumbers, Columns, FactColumns, Key, keys_of

_NOTHING = "-"
_NUMBER = re.compile(r"[0-9]{1,39}", re.ASCII)
_DEGREES = re.compile(r"-|-?[0-9]{1,3}(\.[0-9]+)?", re.ASCII)
_TIME_ZONE = re.compile(r"-|[+-][0-9]{2}:[0-9]{2}", re.ASCII)
_CIDR = re.compile(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}", re.ASCII)
#: The names that begin a header.
_HEADERS = (["ip_from", "ip_to"], ["network"], ["cidr"])

#: The columns behind the range.
_COUNTRY = ("country", "country_name")
_CITY = (*_COUNTRY, "region", "city")
_PLACE = (*_CITY, "latitude", "longitude")
_POSTAL = (*_PLACE, "postalcode")
_PROVIDER = ("isp", "domain")


def _range_width(row: Sequence[str]) -> int:
    """The number of columns of a row's range: two numbers, or one network; 0 if it begins with neither."""
    if _CIDR.fullmatch(row[0]):
        return 1
    return 2 if len(row) > 1 and _NUMBER.fullmatch(row[0]) and _NUMBER.fullmatch(row[1]) else 0


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    names = [name.strip().lower() for name in rows[0]] if rows else []
    return any(names[: len(known) + 2] == [*known, "country_code", "country_name"] for known in _HEADERS)


def _places_of(rows: Sequence[Sequence[str]]) -> tuple[int, list[list[str]]]:
    """The number of columns of the range, and what the rows that have such a range have behind it."""
    has_header = _has_header(rows)
    rows = rows[1:] if has_header else rows
    width = next((ends for row in rows if (ends := _range_width(row))), 0)
    found = [list(row[width:]) for row in rows if width and _range_width(row) == width and len(row) >= width + 2]
    # A geofeed has a region's code in the place of the country's name.
    is_geofeed = width == 1 and not has_header and all(len(row[1]) <= len("DE-BE1") for row in found)
    return width, [] if is_geofeed else found


def _layout(rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The columns behind the range. Several databases have as many columns as another, so values tell them apart.

    Behind the range: 2 DB1; 3 DB2 (isp); 4 DB3; 5 DB4 (isp); 6 DB5 (coordinates) or DB7 (isp, domain); 7 DB6
    (coordinates, isp) or DB9 (coordinates, postal code); 8 DB8 (coordinates, isp, domain) or DB11 (coordinates, postal
    code, time zone); 9 DB10 (coordinates, postal code, isp, domain).
    """
    if not rows:
        return None
    width = len(rows[0])
    rows = [row for row in rows if len(row) == width]

    def all_match(pattern: "re.Pattern[str]", *columns: int) -> bool:
        return all(pattern.fullmatch(row[column]) for row in rows for column in columns)

    if width in (2, 3):
        return (*_COUNTRY, *_PROVIDER)[:width]
    if width in (4, 5):
        return (*_CITY, *_PROVIDER)[:width]
    if width == 6:
        return _PLACE if all_match(_DEGREES, 4, 5) else (*_CITY, *_PROVIDER)
    if width not in (7, 8, 9) or not all_match(_DEGREES, 4, 5):
        return None
    if width == 7:
        # A postal code is short and has no small letters; the name of a provider is not.
        postal = all(len(row[6]) <= 12 and row[6] == row[6].upper() for row in rows)
        return _POSTAL if postal else (*_PLACE, "isp")
    if width == 8:
        return (*_POSTAL, "time_zone") if all_match(_TIME_ZONE, 7) else (*_PLACE, *_PROVIDER)
    return (*_POSTAL, *_PROVIDER)


def fits(member: Member) -> bool:
    """True if most rows begin with a range, a country's code and its name."""
    rows = sample_rows(member)
    if not rows or not (_has_header(rows) or _range_width(rows[0])):
        return False  # the header of another table
    _, places = _places_of(rows)
    good = [row for row in places if len(row) <= 9 and (row[0] == _NOTHING or (len(row[0]) == 2 and row[0].isalpha()))]
    if len(good) * 2 <= len(rows) - _has_header(rows) or numbered_columns(rows) is not None:
        return False
    return _layout(good) is not None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names.

    :raises DataFileError: if the rows have no layout that is known
    """
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        rows = sample_rows(member)
        width, known = _places_of(rows)
        layout = _layout(known)
        if layout is None:
            raise DataFileError(f"{member.name}: its rows are not those of IP2Location's DB1 to DB11")
        # The IPv6 file numbers IPv4 as ::ffff:0:0/96, so its first rows are beyond 32 bits.
        six = any(int(row[1]) > IPV4_MAX for row in rows if width == 2 and _range_width(row) == 2)
        of_network = [name for name in layout if name in _PROVIDER]
        layout = tuple(name for name in layout if name not in _PROVIDER)
        facts = FactColumns({name: name for name in of_network}, nothing=(_NOTHING,))
        columns = Columns(layout, {name: name for name in layout if name in FIELD_NAMES}, nothing=_NOTHING)
        positions = tuple(range(width, width + len(layout) + len(of_network)))
        numbers = BothNumbers(gathered, _maker(layout), len(layout), facts, says=columns.says)
        table = Table(member, request.limits, gathered)
        if _has_header(rows):
            table.header()
        for chunk in table.chunks(width + len(known[0]), exact=True):
            chunk, places = numbers.of(chunk, keys_of(chunk, positions))
            if width == 1:
                batch = blocks.from_networks(chunk.column(0), places, chunk.bad)
            else:
                batch = blocks.from_numbers(chunk.column(0), chunk.column(1), places, chunk.bad, six=six)
            yield from numbers.batches(batch)
        gathered.keep((*columns.kept(), *facts.kept()))


def _maker(layout: Iterable[str]) -> Callable[[Key], PlaceFields]:
    def make(key: Key) -> PlaceFields:
        return place_of({name: value for name, value in zip(layout, key, strict=True) if value != _NOTHING})

    return make


KIND = Kind(
    name="ip2location-csv",
    summary="IP2Location or IP2Location LITE, DB1 to DB11, as CSV (IPv4, IPv6 or networks)",
    fits=fits,
    read=read,
    records=True,
)
