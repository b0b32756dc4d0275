"""``asn-table``: the AS of each range, without a header: as CSV by ip-location-db, DB-IP and IP2Location, as TSV by
iptoasn; the ends may be decimal numbers.

And ``pyasn``: the text dump of that library, a prefix and its AS number a line.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.addresses import IPV4_MAX, is_address
from geolookup.model.errors import DataFileError
from geolookup.sources import blocks, facts
from geolookup.sources.kinds.dbip_csv import sample_rows
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.rows import FactColumns, FactNumbers, Key, keys_of

_AS_NUMBER = re.compile(r"(?:AS)?[0-9]{1,10}", re.ASCII)
#: A coordinate, which is no organization.
_POINT = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_COUNTRY = re.compile(r"[A-Z]{2}|None|-?", re.ASCII)
_NETWORK = re.compile(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}", re.ASCII)

#: iptoasn's country of what nobody announces.
_NO_COUNTRY = "None"
#: By the number of columns, those behind the range.
_COMMAS = {
    4: (facts.ASN, facts.AS_ORGANIZATION),
    5: ("", facts.ASN, facts.AS_ORGANIZATION),  # IP2Location has the network once more
}
_TABS = {5: (facts.ASN, "as_country_code", facts.AS_ORGANIZATION)}
_MOST_ROWS = 50


class _Layout(NamedTuple):
    """The separator, the columns behind the range, and whether its ends are numbers, and of IPv6."""

    separator: str
    columns: tuple[str, ...]
    numbers: bool
    six: bool


def _tabbed(member: Member) -> list[list[str]]:
    lines = member.head.decode("utf-8-sig", "replace").split("\n")
    if len(lines) > 1:
        lines.pop()  # it may be cut
    return [line.rstrip("\r").split("\t") for line in lines[:_MOST_ROWS] if line]


def _layout(member: Member) -> _Layout | None:
    """The layout that most rows have, or None."""
    for separator, rows, known in (("\t", _tabbed(member), _TABS), (",", sample_rows(member), _COMMAS)):
        for columns in known.values():
            for numbers in (False, True):
                good = [row for row in rows if _fits_row(row, columns, numbers=numbers)]
                if len(good) * 2 > len(rows):
                    six = numbers and any(int(row[1]) > IPV4_MAX for row in good)
                    return _Layout(separator, columns, numbers, six)
    return None


def _fits_row(row: list[str], columns: tuple[str, ...], *, numbers: bool) -> bool:
    if len(row) != 2 + len(columns):
        return False
    ends = all(end.isdecimal() for end in row[:2]) if numbers else all(map(is_address, row[:2]))
    return ends and all(_fits_value(column, value) for column, value in zip(columns, row[2:], strict=True))


def _fits_value(column: str, value: str) -> bool:
    if column == facts.ASN:
        return value in ("", "-") or _AS_NUMBER.fullmatch(value) is not None
    if column == "as_country_code":
        return _COUNTRY.fullmatch(value) is not None
    if column == facts.AS_ORGANIZATION:
        return not _POINT.fullmatch(value)
    return _NETWORK.fullmatch(value) is not None


def fits(member: Member) -> bool:
    """True if most rows are a range, an AS number, and what else one of the layouts has."""
    return _layout(member) is not None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names.

    :raises DataFileError: if the rows have no layout that is known
    """
    for member in opened.fitting(fits):
        gathered.begin_file(member.inside)
        layout = _layout(member)
        if layout is None:
            raise DataFileError(
                f"{member.name}: its rows are not `first,last,AS number,organization` (with a network after `last`, or "
                "separated by tabs, with a country before the organization)"
            )
        yield from _read_file(member, layout, request, gathered)


def _read_file(member: Member, layout: _Layout, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    separator, columns, numbers, six = layout
    table = Table(member, request.limits, gathered, separator=separator, quotes=separator == ",")
    named = [(name, 2 + at) for at, name in enumerate(columns) if name]
    said = FactColumns({f"column {at + 1}": name for name, at in named}, nothing={_NO_COUNTRY})

    def of(key: Key) -> dict[str, bytes]:
        found = facts.of_texts(
            (name, value) for (name, _), value in zip(named, key, strict=True) if value != _NO_COUNTRY
        )
        # What is known of nobody's addresses says nothing of them.
        return said.of(key) if facts.ASN in found or found.keys() - {"as_country_code"} else {}

    own = FactNumbers(gathered, of)
    blocks_of = partial(blocks.from_numbers, six=six) if numbers else blocks.from_text
    for chunk in table.chunks(2 + len(columns), exact=True):
        chunk, found = own.of(chunk, keys_of(chunk, [at for _, at in named]))
        yield blocks.NetworkBatch(*blocks_of(chunk.column(0), chunk.column(1), found, chunk.bad))
    gathered.keep(said.kept())


KIND = Kind(
    name="asn-table",
    summary="the AS of each range without a header: ip-location-db, DB-IP, IP2Location (CSV), iptoasn (TSV)",
    fits=fits,
    read=read,
)

_COMMENT = ";"
#: The routing table that a dump was made of: its name has the day and minute.
_MADE_OF = re.compile(r";\s*Original file\s*:.*?(?:rib|bview)\.([0-9]{4})([0-9]{2})([0-9]{2})\.", re.ASCII)
_DUMPED = re.compile(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}\t[0-9]{1,10}", re.ASCII)


def _comments(member: Member) -> tuple[list[str], list[str]]:
    """The comments above the rows, and the rows of the beginning."""
    lines = member.head.decode("utf-8-sig", "replace").split("\n")
    if len(lines) > 1:
        lines.pop()  # it may be cut
    count = next((at for at, line in enumerate(lines) if not line.startswith(_COMMENT)), len(lines))
    return lines[:count], [line.rstrip("\r") for line in lines[count : count + _MOST_ROWS] if line.strip()]


def fits_pyasn(member: Member) -> bool:
    """True if most rows are a prefix, a tab and a number."""
    _, rows = _comments(member)
    return sum(_DUMPED.fullmatch(row) is not None for row in rows) * 2 > len(rows)


def read_pyasn(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The prefixes of all such files, in the order of their names: of several that hold an address the longest."""
    for member in opened.fitting(fits_pyasn):
        gathered.begin_file(member.inside)
        comments, _ = _comments(member)
        for found in filter(None, map(_MADE_OF.match, comments)):
            gathered.says_date("-".join(found.groups()))
        table = Table(member, request.limits, gathered, separator="\t", skip=len(comments), quotes=False)
        said = FactColumns({"column 2": facts.ASN})
        own = FactNumbers(gathered, said.of)
        for chunk in table.chunks(2, exact=True):
            chunk, numbers = own.of(chunk, keys_of(chunk, [1]))
            yield blocks.NetworkBatch(*blocks.from_networks(chunk.column(0), numbers, chunk.bad))
        gathered.keep(said.kept())


PYASN = Kind(
    name="pyasn", summary="pyasn's text dump: a prefix and its AS number a line", fits=fits_pyasn, read=read_pyasn
)
