"""``rir``: the delegation statistics of one registry or of all: version 2, ordinary or extended."""

import re
from collections.abc import Iterator

from geolookup.base.text import count
from geolookup.files.lines import Lines, has_surrogates
from geolookup.files.opened import Member, Opened
from geolookup.files.tables import CHUNK_ROWS, NOT_UTF8
from geolookup.model import addresses
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.countries import not_a_code
from geolookup.model.errors import DataFileError, InvalidAddressError
from geolookup.sources import blocks
from geolookup.sources.places import BadFieldError, PlaceFields
from geolookup.sources.protocol import Gathered, Kind, Request

_REGISTRIES = frozenset(("afrinic", "apnic", "arin", "lacnic", "ripencc", "iana", "nro"))
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})", re.ASCII)
_GIVEN_OUT = frozenset(("allocated", "assigned"))
_NO_COUNTRY = frozenset(("", "ZZ"))


def fits(member: Member) -> bool:
    """True if the first line that is not a comment is a version line, or a record of a registry."""
    for line in member.head.decode("utf-8-sig", "replace").split("\n"):
        values = line.strip().split("|")
        if line.strip() and not line.startswith("#"):
            return len(values) >= 6 and (values[0].lower() in _REGISTRIES or _is_version(values))
    return False


def _is_version(values: list[str]) -> bool:
    return len(values) >= 2 and bool(_VERSION.fullmatch(values[0])) and values[1].lower() in _REGISTRIES


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The delegations of all such files, in the order of their names."""
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        yield from _read_file(member, request, gathered)


def _read_file(member: Member, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """:raises DataFileError: if the file is cut short, or of another version"""
    declared = records = 0
    found: list[tuple[int, int, int, int]] = []
    for line_number, line in enumerate(Lines(member, request.limits), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        values = line.split("|")
        if _is_version(values):
            if values[0].partition(".")[0] != "2":
                raise DataFileError(f"{member.name}: is of version {values[0]}: this release reads version 2")
            _take_date(values, gathered)
            declared += int(values[3]) if len(values) > 3 and re.fullmatch("[0-9]{1,9}", values[3]) else 0
            continue
        if values[-1] == "summary":
            continue
        records += 1
        if len(values) > 2 and values[2] == "asn":
            continue
        gathered.rows += 1
        try:
            block = _block(line, values, gathered)
        except (BadFieldError, InvalidAddressError) as error:
            gathered.leave_out(gathered.rows, line_number, str(error))
            continue
        if block is None:
            gathered.rows_without_location += 1
            continue
        found.append(block)
        if len(found) == CHUNK_ROWS:
            yield blocks.from_ranges(found)
            found = []
    if found:
        yield blocks.from_ranges(found)
    if records < declared:
        missing = f"{member.name}: has {records} records, and its first line declares {declared}"
        if declared - records > request.limits.bad_rows_allowed(declared):
            raise DataFileError(f"{missing}: it was cut short")
        gathered.warnings.append(missing)


def _take_date(values: list[str], gathered: Gathered) -> None:
    """The end of the time that a version line says its file covers, else its serial number, if that is a date."""
    for text in (*values[5:6], *values[2:3]):
        if (dated := _DATE.fullmatch(text)) and gathered.says_date("-".join(dated.groups())):
            return


def _block(line: str, values: list[str], gathered: Gathered) -> tuple[int, int, int, int] | None:
    """Family, first, last and place of a record; None if it is not delegated, or has no country."""
    if has_surrogates(line):
        raise BadFieldError(NOT_UTF8)
    if len(values) < 7:
        raise BadFieldError(f"has {count(len(values), 'value')}, and 7 are needed")
    _, country, kind, start, value, _, status = (text.strip() for text in values[:7])
    if kind not in ("ipv4", "ipv6"):
        raise BadFieldError(f"its type {kind!r:.40} is not ipv4, ipv6 or asn")
    family, first = addresses.parse(start)
    if family != (4 if kind == "ipv4" else 6):
        raise BadFieldError(f"{start} is not an address of {kind}")
    if not (value.isascii() and value.isdecimal() and len(value) <= 10):
        raise BadFieldError(f"its value {value!r:.40} is not a number")
    number = int(value)
    if family == 4:
        last = first + number - 1
        if not number or last > IPV4_MAX:
            raise BadFieldError(f"{number} addresses from {start} on are not a range of IPv4")
    else:
        if number > 128 or first & ((1 << (128 - number)) - 1):
            raise BadFieldError(f"{start}/{number} is not a network")
        last = first | ((1 << (128 - number)) - 1)
    country = country.upper()
    if status.lower() not in _GIVEN_OUT or country in _NO_COUNTRY:
        return None
    if not (len(country) == 2 and country.isascii() and country.isalpha()):
        raise BadFieldError(not_a_code(country))
    return family, first, last, gathered.places.add(PlaceFields(country=country))


KIND = Kind(name="rir", summary="the registries' delegation statistics (delegated-…-latest)", fits=fits, read=read)
