"""CSV of address ranges by country (``startip,endip,country``), as the bundled registry data is."""

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

from geolookup.errors import DataFileError, InvalidAddressError, InvalidRangeError
from geolookup.model import addresses
from geolookup.sources.bundled import BUNDLED as BUNDLED
from geolookup.sources.csv_rows import CsvRows, OnBadRow, at_once

COLUMNS = ("startip", "endip", "country")


class CountryRange(NamedTuple):
    """An inclusive range and its country's code, from one line of a file.

    ``startip`` and ``endip`` are in the form that `addresses.to_text` writes; ``first`` and ``last`` are the
    same as integers.
    """

    startip: str
    endip: str
    country: str
    family: Literal[4, 6]
    first: int
    last: int
    line: int


def bundled_ranges_path() -> str:
    """The file of the bundled registry data."""
    import geolookup_data

    return os.path.join(os.path.dirname(geolookup_data.__file__), "rir-country-ranges.csv.gz")


def bundled_date() -> str:
    """The moment of the bundled registry data, as `state.base.clock.now_text` writes moments."""
    import geolookup_data

    return str(geolookup_data.DATED)


def read_country_ranges(path: str | os.PathLike[str]) -> Iterator[CountryRange]:
    """The file's rows in its order, read as they are asked for. Other columns are ignored.

    :raises DataFileError: if the file cannot be read, lacks a column, or at a row with a malformed range or without
        a country: names the file and the line
    """
    with CsvRows(path) as rows:
        yield from ranges(rows)


def ranges(rows: CsvRows, on_bad: OnBadRow = at_once) -> Iterator[CountryRange]:
    """The same from a file that is already open; ``on_bad`` is told of bad rows, which are left out.

    :raises DataFileError: as `read_country_ranges` does
    """
    start, end, code = rows.columns(*COLUMNS)
    for row in rows.good(on_bad):
        try:
            startip, endip, family, first, last = read_range(rows, row[start], row[end])
            country = row[code]
            if not country:
                raise rows.error("names no country")
        except DataFileError as error:
            on_bad(error)
            continue
        yield CountryRange(startip, endip, country, family, first, last, rows.line)


def read_range(rows: CsvRows, startip: str, endip: str) -> tuple[str, str, Literal[4, 6], int, int]:
    """The two ends of a row's range as text, and its family and ends as integers.

    :raises DataFileError: if it is not a range
    """
    try:
        family, first, last = addresses.parse_range(startip, endip)
    except (InvalidAddressError, InvalidRangeError) as error:
        raise rows.error(str(error)) from error
    # A dotted quad that was accepted is canonical already: this saves writing millions of them again.
    if family == 6 or ":" in startip or ":" in endip:
        startip, endip = addresses.to_text(family, first), addresses.to_text(family, last)
    return startip, endip, family, first, last
