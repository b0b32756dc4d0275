"""``geofeed``: a self-published feed (RFC 8805): ``prefix,country,region,city,postal code``.

A prefix whose fields are all empty, or whose country is ``ZZ``, is known to have no location: it masks what lower
sources say. Feeds are small, so all of one is read before the first batch: a prefix that is there twice is left out.
"""

import csv
import re
from collections.abc import Iterator
from typing import NamedTuple

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.files.lines import Lines, has_surrogates
from geolookup.files.opened import Member, Opened
from geolookup.files.tables import CHUNK_ROWS, NOT_UTF8
from geolookup.model import addresses
from geolookup.model.continents import countries
from geolookup.model.countries import country_in_words, not_a_code
from geolookup.model.errors import InvalidAddressError, InvalidRangeError
from geolookup.sources import blocks
from geolookup.sources.places import BadFieldError, PlaceFields, text
from geolookup.sources.protocol import Gathered, Kind, Request

_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_REGION = re.compile(r"([A-Z]{2})-([A-Z0-9]{1,3})", re.ASCII)  # ISO 3166-2
_NOWHERE = "ZZ"
#: A comment that is a date or moment alone, or one with the name that feeds give it. `Gathered.says_date` tests it.
_DATED = re.compile(
    r"\s*#+\s*(?:(?:last[- _])?(?:updated|generated|modified)\s*:?\s*)?(\d{4}-\S*(?: \d\S*)?)\s*",
    re.ASCII | re.IGNORECASE,
)


def fits(member: Member) -> bool:
    """True if most lines of the beginning are a prefix, a comma, and two letters or nothing."""
    lines = member.head.decode("utf-8-sig", "replace").split("\n")
    if len(lines) > 1:
        lines.pop()  # it may be cut
    entries = [entry for line in lines[:200] if (entry := _fields(line)) is not None]
    good = [entry for entry in entries if len(entry) > 1 and len(entry[1]) in (0, 2) and _is_prefix(entry[0])]
    return len(good) * 2 > len(entries)


def _is_prefix(prefix: str) -> bool:
    try:
        addresses.parse_range(prefix)
    except (InvalidAddressError, InvalidRangeError):
        return False
    return True


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names."""
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        yield from _read_file(member, request, gathered)


class _Entry(NamedTuple):
    number: int
    line: int
    place: int


def _read_file(member: Member, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    entries: dict[tuple[int, int, int], _Entry] = {}
    twice: set[tuple[int, int, int]] = set()
    unlisted: dict[str, list[int]] = {}
    for line_number, line in enumerate(Lines(member, request.limits), 1):
        try:
            fields = _fields(line, strict=True)
            if fields is None:
                if not entries and (dated := _DATED.fullmatch(line)):
                    gathered.says_date(dated[1])
                continue
            gathered.rows += 1
            if has_surrogates(line):
                raise BadFieldError(NOT_UTF8)
            block: tuple[int, int, int] = addresses.parse_range(fields[0])
            if block in entries:
                # Neither of them is to be believed; the earlier one is left out below, once.
                twice.add(block)
                raise BadFieldError(f"{fields[0]} is here for a second time: first in line {entries[block].line}")
            place = _place(fields)
            if place is not None and place.country and place.country not in countries():
                unlisted.setdefault(place.country, []).append(line_number)
        except csv.Error as error:
            gathered.rows += 1
            gathered.leave_out(gathered.rows, line_number, f"is not CSV: {reason(error)}")
            continue
        except (BadFieldError, InvalidAddressError, InvalidRangeError) as error:
            gathered.leave_out(gathered.rows, line_number, str(error))
            continue
        number = blocks.MASKED if place is None else gathered.places.add(place)
        entries[block] = _Entry(gathered.rows, line_number, number)
    for block in sorted(twice, key=lambda block: entries[block].number):
        entry = entries.pop(block)
        start = addresses.to_text(block[0], block[1])
        gathered.leave_out(entry.number, entry.line, f"its prefix, from {start} on, is in the file more than once")
    gathered.warnings += [_unlisted(member.name, code, lines) for code, lines in unlisted.items()]
    found = [(*block, entry.place) for block, entry in entries.items()]
    for begin in range(0, len(found), CHUNK_ROWS):
        yield blocks.from_ranges(found[begin : begin + CHUNK_ROWS])


def _unlisted(name: str, code: str, lines: list[int]) -> str:
    """What to say of a country code that ISO 3166-1 does not list; it is kept, since it is what the feed says."""
    listed = country_in_words(code)
    meant = f", which has {listed}" if listed else ""
    prefixes = count(len(lines), "prefix", "prefixes")
    return f"{name}, line {lines[0]}: the country {code} is not in ISO 3166-1{meant}: {prefixes}"


def _fields(line: str, *, strict: bool = False) -> list[str] | None:
    """The fields of a line without its comment; None if nothing else stands there."""
    content = line.partition("#")[0].strip()
    if not content.strip(", "):  # commas alone are a row that a spreadsheet wrote below the table
        return None
    try:
        return [field.strip() for field in next(csv.reader([content], strict=True))]
    except csv.Error:
        if strict:
            raise
        return [content]


def _place(fields: list[str]) -> PlaceFields | None:
    """The place of an entry; None if it is known to have none. Further fields are ignored, as the RFC wants."""
    country, region, city, postalcode = (*(field for field in fields[1:5]), "", "", "", "")[:4]
    country, region = country.upper(), region.upper()
    if country == _NOWHERE or not (country or region or city or postalcode):
        return None
    if country and not _COUNTRY.fullmatch(country):
        raise BadFieldError(not_a_code(fields[1]))
    if region:
        parts = _REGION.fullmatch(region)
        if parts is None:
            raise BadFieldError(f"its region {region!r:.40} is not like US-CA")
        if country and parts[1] != country:
            raise BadFieldError(f"its region {region} is not in its country {country}")
        country, region = parts[1], parts[2]
    return PlaceFields(country, region, text(city, "city"), text(postalcode, "postalcode"))


KIND = Kind(name="geofeed", summary="a self-published geofeed (RFC 8805)", fits=fits, read=read)
