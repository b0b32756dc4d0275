"""``ranges-csv``: a CSV file with a header that names the range and any of our fields: a spreadsheet of one's own.

And ``registry``, the bundled file of that form: the registries' delegations, a country for every allocated address.
"""

import contextlib
import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from geolookup.base.text import harmless
from geolookup.files.headers import SEPARATOR_LINE
from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.model.fields import DEGREES
from geolookup.model.types import FIELD_NAMES
from geolookup.settings.source import RANGE_NAMES
from geolookup.sources import blocks
from geolookup.sources.bundled import bundled_date
from geolookup.sources.distinct import Distinct
from geolookup.sources.facts import key_of
from geolookup.sources.places import PlaceFields, place_of
from geolookup.sources.protocol import Gathered, KeptKey, Kind, Request
from geolookup.sources.rows import BothNumbers, Columns, FactColumns, Key, PlaceNumbers, keys_of
from geolookup.sources.shape import FLAT, path_of

#: Pairs of columns that hold the ends of a range, and columns that hold a network.
_ENDS = (("first", "last"), ("startip", "endip"), ("start_ip", "end_ip"))
_NETWORKS = ("network", "cidr")
#: Separators of spreadsheets; where the comma is the decimal sign, they write a semicolon.
_SEPARATORS = (",", ";", "\t")

_SHOWN_COLUMNS = 8
#: Names of columns that are one more form of the range, if others were taken for it.
_RANGE_COLUMNS = frozenset(
    (*_NETWORKS, *(column for pair in _ENDS for column in pair), "startipnum", "endipnum", "ip_from", "ip_to")
)
_AGAIN = "another form of the range"


class _Layout(NamedTuple):
    """The separator of the columns, and the number of lines above the header."""

    separator: str
    skip: int


def first_line(member: Member, separator: str = ",", *, skip: int = 0) -> list[str]:
    """The columns of a file's first line, lower-cased; empty if that is not CSV."""
    lines = member.head.decode("utf-8-sig", "replace").split("\n", skip + 1)
    line = lines[skip].rstrip("\r") if skip < len(lines) else ""
    try:
        return [column.strip().lower() for column in next(csv.reader([line], strict=True, delimiter=separator), [])]
    except csv.Error:
        return []


def _range_columns(header: list[str], fields: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns that hold the range: those that ``fields`` names, or else the first that are known."""
    columns = {name: fields[name].strip().lower() for name in RANGE_NAMES if name in fields}
    if "network" in columns:
        known: Sequence[tuple[str, ...]] = [(columns["network"],)]
    elif columns:
        known = [(columns.get("first", "first"), columns.get("last", "last"))]
    else:
        known = [*_ENDS, *((column,) for column in _NETWORKS)]
    return next((found for found in known if all(column in header for column in found)), None)


def fits(member: Member) -> bool:
    """True if the first line names a range."""
    return _layout(member, {}) is not None


def _layout(member: Member, fields: Mapping[str, str]) -> _Layout | None:
    """The layout of a file whose header names a range, or None."""
    above = member.head.decode("utf-8-sig", "replace").partition("\n")[0]
    skip = 1 if SEPARATOR_LINE.fullmatch(above) else 0
    for separator in _SEPARATORS:
        if _range_columns(first_line(member, separator, skip=skip), fields) is not None:
            return _Layout(separator, skip)
    return None


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names."""
    for member in opened.fitting(lambda member: _layout(member, request.fields) is not None):
        gathered.begin_file(member.inside)
        yield from _read_file(member, request, gathered, empty_covers=True, alone=len(opened.members) == 1)


def _read_file(
    member: Member, request: Request, gathered: Gathered, *, empty_covers: bool, alone: bool = True
) -> Iterator[blocks.Batch]:
    """The blocks of one file.

    :raises DataFileError: if a column is missing, or the file is damaged
    :raises SettingsError: if ``fields`` names something that is not one of our fields
    """
    separator, skip = _layout(member, request.fields) or _Layout(",", 0)
    table = Table(member, request.limits, gathered, separator=separator, skip=skip)
    header = table.header()
    ends = _range_columns(header, request.fields)
    if ends is None:
        named = [f"{name}={request.fields[name]}" for name in RANGE_NAMES if name in request.fields]
        raise DataFileError(
            f"{member.name}, line 1: no column {' '.join(map(harmless, named))}: there are {_named(header)}"
            if named
            else f"{member.name}, line 1: no column names a range: there should be `first` and `last`, `startip` and "
            "`endip`, `start_ip` and `end_ip`, or `network` or `cidr`. Or say which does: --field network=COLUMN"
        )
    columns = _field_columns(member.name, header, request)
    masks = [column for column in header if "mask" in column] if len(ends) == 1 else []
    facts = _fact_columns(member.name, header, request, (*ends, *masks, *columns.values()))
    unread = [column for column in header if column and column not in (*ends, *masks, *columns.values())]
    unread = [column for column in unread if column not in facts]
    again = [column for column in unread if column in _RANGE_COLUMNS]
    if facts and not columns:  # a table of networks: all else that it has is of them
        facts |= {column: column for column in unread if column not in again}
        unread = again
    if unread and not facts and all(field in DEGREES and field not in header for field in columns):
        # Places without a field would hide what other sources say of these addresses. So would a bare `lat`.
        raise DataFileError(
            f"{member.name}, line 1: no column is one of the fields {', '.join(FIELD_NAMES)}: there are "
            f"{_named(unread)}. Rename them, or say which holds a field: --field country={harmless(unread[0], 40)}"
        )
    gathered.fields = columns
    unknown = (column for column in unread if column in again or path_of(column, "")[0] == "extra")
    gathered.columns_not_read += [column for column in unknown if column not in gathered.columns_not_read]
    kept = [*dict.fromkeys(columns.values()), *(column for column in unread if column not in again)]
    if alone and {*kept} == {*columns.values()} and not facts:
        gathered.records = None  # the places say all that the rows do
    field_at = {name: kept.index(column) for name, column in columns.items()}
    table_columns = Columns(kept, columns)
    range_at = [header.index(column) for column in ends]

    def make(key: Key) -> PlaceFields:
        return place_of({name: key[at].strip() for name, at in field_at.items()})

    of_facts = FactColumns(facts)
    both = BothNumbers(
        gathered, make if columns else None, len(kept), of_facts, says=table_columns.says, empty_covers=empty_covers
    )
    of_places = PlaceNumbers(gathered, make, says=table_columns.says, empty_covers=empty_covers)
    numbers = both if facts else of_places
    positions = [header.index(column) for column in (*kept, *facts)]
    with contextlib.closing(Distinct("with other facts" if facts else "with another place")) as distinct:
        for chunk in table.chunks(len(header), exact=True):
            chunk, places = numbers.of(chunk, keys_of(chunk, positions))
            rows = np.arange(len(places), dtype=np.uint32)
            if len(range_at) == 1:
                networks = _stripped(chunk.column(range_at[0]))
                for column in masks:  # 255.255.255.0 is a bad row, which says what to write
                    networks = list(map(_with_mask, networks, _stripped(chunk.column(header.index(column)))))
                batch = blocks.from_networks(networks, rows, chunk.bad)
            else:
                firsts, lasts = (_stripped(chunk.column(at)) for at in range_at)
                batch = blocks.from_text(firsts, lasts, rows, chunk.bad)
            distinct.add(batch, places, chunk)
        gathered.keep((*table_columns.kept(), *of_facts.kept()))
        gathered.keep(KeptKey(key=each, kept_as="", records=gathered.rows, reason=_AGAIN) for each in again)
        for batch in distinct.batches(gathered, numbers.meanings):
            yield from both.batches(batch) if facts else (batch,)


def _with_mask(network: str, mask: str) -> str:
    return f"{network}/{mask.removeprefix('/')}" if mask and "/" not in network else network


def _named(columns: list[str]) -> str:
    shown = ", ".join(harmless(column, 40) for column in columns[:_SHOWN_COLUMNS])
    return shown + (", …" if len(columns) > _SHOWN_COLUMNS else "")


def _stripped(texts: list[str]) -> list[str]:
    return list(map(str.strip, texts))


def _fact_columns(name: str, header: list[str], request: Request, taken: Collection[str]) -> dict[str, str]:
    """The columns that hold facts of networks, each with the fact's name: those that ``fields`` names, and known ones.

    A name that a column has as a field of a place is that.
    """
    asked = {
        column.strip().lower(): fact
        for fact, column in request.fields.items()
        if fact not in (*FIELD_NAMES, *RANGE_NAMES)
    }
    missing = [column for column in asked if column not in header]
    if missing:
        raise DataFileError(f"{name}, line 1: these columns are missing: {', '.join(missing)}")
    known = {column: column for column in header if key_of(column) is not None and column not in taken}
    if {"asn", "as"} <= set(header) - set(taken):  # IP2Location: the number, and the name
        known["as"] = "as_organization"
    return {**known, **asked}


def _field_columns(name: str, header: list[str], request: Request) -> dict[str, str]:
    for field in request.fields:
        if field not in (*FIELD_NAMES, *RANGE_NAMES) and key_of(field) is None:
            known = ", ".join((*FIELD_NAMES, *RANGE_NAMES, *NETWORK_FACTS))
            raise SettingsError(f"fields: unknown field {field!r}: the fields are {known}")
    # A field's own name, else one that providers give it: `zip` is the postal code, `lat` the latitude.
    found = {field: [name for name in (field, *FLAT[field]) if name in header] for field in FIELD_NAMES}
    columns = {field: names[0] for field, names in found.items() if names}
    if "country_code" in header:  # IPinfo's CSV has the country's name in `country`
        columns["country"] = "country_code"
    columns.update({field: column.strip().lower() for field, column in request.fields.items() if field in FIELD_NAMES})
    missing = [column for column in columns.values() if column not in header]
    if missing:
        raise DataFileError(f"{name}, line 1: these columns are missing: {', '.join(missing)}")
    return columns


KIND = Kind(
    name="ranges-csv",
    summary="a CSV file whose header names a range (first,last or network …) and our fields, or facts of networks",
    fits=fits,
    read=read,
    maps_fields=True,
    records=True,
)


#: The credit of the bundled data.
_ATTRIBUTION = "registry delegation data as aggregated by ipverse (CC0 1.0)"


def _never_by_content(_member: Member) -> bool:
    """False: the bundled data are asked for by name, and a file like theirs is a ``ranges-csv``."""
    return False


def _read_registry(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The delegated ranges."""
    gathered.about["attribution"] = _ATTRIBUTION
    gathered.says_date(bundled_date())
    for member in opened.members:
        yield from _read_file(member, request, gathered, empty_covers=False)


REGISTRY = Kind(
    name="registry",
    summary="the bundled delegation data: a country for every allocated address",
    fits=_never_by_content,
    read=_read_registry,
)
