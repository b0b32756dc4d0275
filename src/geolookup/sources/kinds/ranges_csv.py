"""``ranges-csv``: a CSV file with a header that names the range and any of our fields: a spreadsheet of one's own.

And ``registry``, the bundled file of that form: the registries' delegations, a country for every allocated address.
"""

import contextlib
import csv
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from geolookup.base.text import harmless
from geolookup.files.converted import Counted, as_meant, guessed
from geolookup.files.converted import Kind as CountedKind
from geolookup.files.headers import SEPARATOR_LINE, WORDS, Header, fields_of, find_header, said_of
from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.index.flatten import U32
from geolookup.model.addresses import of_mask_after, parse_range, range_ends, split_blocks
from geolookup.model.errors import DataFileError, InvalidAddressError, InvalidRangeError, SettingsError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.model.fields import DEGREES
from geolookup.model.types import FIELD_NAMES
from geolookup.settings.source import RANGE_NAMES
from geolookup.sources import blocks
from geolookup.sources.bundled import bundled_date
from geolookup.sources.distinct import Distinct
from geolookup.sources.facts import key_of
from geolookup.sources.places import BadFieldError, PlaceFields, place_of
from geolookup.sources.protocol import Gathered, KeptKey, Kind, Request
from geolookup.sources.rows import BothNumbers, Columns, FactColumns, Key, PlaceNumbers, keys_of
from geolookup.sources.shape import FLAT, path_of

#: Pairs of columns that hold the ends of a range, and columns that hold a network.
_ENDS = (("first", "last"), ("startip", "endip"), ("start_ip", "end_ip"))
_NETWORKS = ("network", "cidr")
#: Separators of spreadsheets; where the comma is the decimal sign, they write a semicolon.
_SEPARATORS = (",", ";", "\t")

_SHOWN_COLUMNS = 8
#: The words of people for a place, and for its range.
_PLACE_WORDS = {name: words for name, words in WORDS.items() if name in (*FIELD_NAMES, "coordinates")}
_WORDS = {**_PLACE_WORDS, **{name: WORDS[name] for name in ("first", "last", "blocks")}}
#: Names of columns that are one more form of the range, if others were taken for it.
_RANGE_COLUMNS = frozenset(
    (*_NETWORKS, *(column for pair in _ENDS for column in pair), "startipnum", "endipnum", "ip_from", "ip_to")
)
_AGAIN = "another form of the range"


class _Layout(NamedTuple):
    """The separator of the columns, and the number of lines above the header.

    ``header`` is that of a table that people keep, whose columns are known by what they are like; None of any other.
    """

    separator: str
    skip: int
    header: Header | None = None


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


def is_alike(member: Member) -> bool:
    """True if a row among the first names a network and something of its place, in the words of people."""
    return _like(member, {}) is not None


def _like(member: Member, fields: Mapping[str, str]) -> _Layout | None:
    given = _given(fields)
    header = find_header(member.head, lambda row: _likeness(fields_of(row, given, _WORDS)))
    return None if header is None else _Layout(header.separator, header.skip, header)


def _given(fields: Mapping[str, str]) -> dict[str, str]:
    """What a person says of the columns, by the names that headers have."""
    return {("blocks" if name == "network" else name): column for name, column in fields.items()}


def _likeness(at: Mapping[str, Sequence[int]]) -> int:
    has_range = "blocks" in at or {"first", "last"} <= at.keys()
    return len(at) if has_range and at.keys() & _PLACE_WORDS.keys() else 0


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all such files, in the order of their names."""
    for member in opened.fitting(lambda member: bool(_layout(member, request.fields) or _like(member, request.fields))):
        gathered.begin_file(member.inside, member.word)
        yield from _read_file(member, request, gathered, empty_covers=True, alone=len(opened.members) == 1)


def _read_file(
    member: Member, request: Request, gathered: Gathered, *, empty_covers: bool, alone: bool = True
) -> Iterator[blocks.Batch]:
    """The blocks of one file.

    :raises DataFileError: if a column is missing, or the file is damaged
    :raises SettingsError: if ``fields`` names something that is not one of our fields
    """
    layout = _layout(member, request.fields) or _like(member, request.fields) or _Layout(",", 0)
    table = Table(member, request.limits, gathered, cp1252=True, separator=layout.separator, skip=layout.skip)
    header = table.header(repeated=layout.header is not None)
    like = fields_of(header, _given(request.fields), _WORDS)
    networks_at = like.get("blocks", [])[1:] if layout.header is not None else []
    if layout.header is not None:
        request = replace(request, fields={**_named_by(header, like), **request.fields})
    ends = _range_columns(header, request.fields)
    at = f"{member.name}, {member.word} {layout.skip + 1}"
    if ends is None:
        named = [f"{name}={request.fields[name]}" for name in RANGE_NAMES if name in request.fields]
        raise DataFileError(
            f"{at}: no column {' '.join(map(harmless, named))}: there are {_named(header)}"
            if named
            else f"{at}: no column names a range: there should be `first` and `last`, `startip` and `endip`, "
            "`start_ip` and `end_ip`, or `network` or `cidr`. Or say which does: --field network=COLUMN"
        )
    columns = _field_columns(member.name, header, request)
    pair = header[like["coordinates"][0]] if "coordinates" in like and not {*DEGREES} & columns.keys() else None
    masks = [column for column in header if "mask" in column] if len(ends) == 1 else []
    facts = _fact_columns(member.name, header, request, (*ends, *masks, *columns.values()))
    several = {header[at] for at in networks_at}
    taken = {*ends, *masks, *several, *columns.values(), *facts}
    unread = [column for column in dict.fromkeys(header) if column and column not in taken]
    alike: dict[str, str] = {}
    if not facts:  # a column that is no fact, and in the words of people a field
        alike = _like_fields(header, like, columns, unread)
        columns |= alike
        unread = [column for column in unread if column not in columns.values()]
    again = [column for column in unread if column in _RANGE_COLUMNS]
    if facts and not columns:  # a table of networks: all else that it has is of them
        facts |= {column: column for column in unread if column not in again}
        unread = again
    if unread and not facts and pair is None and all(field in DEGREES and field not in header for field in columns):
        # Places without a field would hide what other sources say of these addresses. So would a bare `lat`.
        raise DataFileError(
            f"{at}: no column is one of the fields {', '.join(FIELD_NAMES)}: there are "
            f"{_named(unread)}. Rename them, or say which holds a field: --field country={harmless(unread[0], 40)}"
        )
    read_as = {"first": [ends[0]], "last": [ends[1]]} if ends[1:] else {"network": [ends[0], *several]}
    read_as |= {name: [column] for name, column in columns.items()} | ({} if pair is None else {"coordinates": [pair]})
    if layout.header is not None or alike or pair is not None:
        shown = layout.header or Header(header, layout.separator, 0, [])
        stands = dict(zip(map(str.lower, reversed(shown.columns)), reversed(shown.columns), strict=True))
        as_it_stands = {name: [stands.get(each, each) for each in those] for name, those in read_as.items()}
        gathered.warnings += said_of(member.name, member.word, shown, as_it_stands)
    gathered.fields = columns
    unknown = (column for column in unread if column in again or path_of(column, "")[0] == "extra")
    gathered.columns_not_read += [column for column in unknown if column not in gathered.columns_not_read]
    kept = [*dict.fromkeys(columns.values()), *(column for column in unread if column not in again)]
    if alone and {*kept} == {*columns.values()} and not facts:
        gathered.records = None  # the places say all that the rows do
    field_at = {name: kept.index(column) for name, column in columns.items()}
    if pair is not None:
        field_at["coordinates"] = kept.index(pair)
    table_columns = Columns(kept, columns)
    range_at = [header.index(column) for column in ends]
    converted = _Converted(field_at)

    def make(key: Key) -> PlaceFields:
        if pair is None:
            with contextlib.suppress(BadFieldError):  # most tables are written as programs do
                return place_of({name: key[at].strip() for name, at in field_at.items()})
        return place_of(converted.values(key))

    def says(key: Key, place: PlaceFields | None) -> Mapping[str, bytes]:
        return table_columns.says(converted.key(key), place)

    of_facts = FactColumns(facts)
    both = BothNumbers(gathered, make if columns else None, len(kept), of_facts, says=says, empty_covers=empty_covers)
    of_places = PlaceNumbers(gathered, make, says=says, empty_covers=empty_covers)
    numbers = both if facts else of_places
    positions = [header.index(column) for column in (*kept, *facts)]
    with contextlib.closing(Distinct("with other facts" if facts else "with another place")) as distinct:
        last: Key | None = None
        for chunk in table.chunks(len(header), exact=True):
            if layout.header is not None:
                chunk = chunk.only([at for at, row in enumerate(chunk.rows) if any(map(str.strip, row))])
            keys = own = keys_of(chunk, positions)
            if layout.header is not None:
                keys, last = _carried(own, last)
            lines = chunk.lines
            chunk, places = numbers.of(chunk, keys)
            converted.count(member.word, own, lines)
            rows = np.arange(len(places), dtype=np.uint32)
            if len(range_at) == 1:
                networks = _stripped(chunk.column(range_at[0]))
                for place in networks_at:
                    networks = list(map(_beside, networks, _stripped(chunk.column(place))))
                for column in masks:  # 255.255.255.0 is a bad row, which says what to write
                    networks = list(map(_with_mask, networks, _stripped(chunk.column(header.index(column)))))
                batch = _from_networks(networks, rows, chunk.bad)
            else:
                firsts, lasts = (_stripped(chunk.column(at)) for at in range_at)
                batch = blocks.from_text(firsts, lasts, rows, chunk.bad)
            distinct.add(batch, places, chunk)
        if table.guessed:
            gathered.warnings.append(guessed(member.name, member.word, table.guessed))
        gathered.warnings += converted.counted.lines(member.name)
        gathered.keep((*table_columns.kept(), *of_facts.kept()))
        gathered.keep(KeptKey(key=each, kept_as="", records=gathered.rows, reason=_AGAIN) for each in again)
        for batch in distinct.batches(gathered, numbers.meanings):
            yield from both.batches(batch) if facts else (batch,)


class _Converted:
    """What rows write otherwise than programs do, by the rows' values: read as it is meant, and counted."""

    def __init__(self, field_at: Mapping[str, int]) -> None:
        """``field_at`` are the positions of fields in keys."""
        self._field_at = field_at
        self._known: dict[Key, tuple[Key, list[tuple[CountedKind, str]]]] = {}
        self.counted = Counted()

    def values(self, key: Key) -> dict[str, str]:
        """The texts of the fields of a key, as they are meant."""
        values = {name: key[at].strip() for name, at in self._field_at.items()}
        told = as_meant(values)
        if told:
            places = {at: values[name] for name, at in self._field_at.items() if name in values}
            self._known[key] = tuple(places.get(at, text) for at, text in enumerate(key)), told
        return values

    def key(self, key: Key) -> Key:
        """A key with what it means in place of what it writes."""
        return self._known[key][0] if key in self._known else key

    def count(self, word: str, keys: Sequence[Key], lines: Sequence[int]) -> None:
        """Count what rows wrote otherwise, which have these values."""
        if not self._known:
            return
        for key, line in zip(keys, lines, strict=True):
            for kind, became in self._known.get(key, ((), []))[1]:
                self.counted.add(kind, f"{word} {line}: {became}")


def _carried(keys: Sequence[Key], last: Key | None) -> tuple[list[Key], Key | None]:
    """The keys, where a row that says nothing of its place stands below the one that does; and the last of them."""
    found = []
    for key in keys:
        last = key if last is None or any(map(str.strip, key)) else last
        found.append(last)
    return found, last


def _like_fields(
    header: list[str], like: Mapping[str, Sequence[int]], columns: Mapping[str, str], unread: Collection[str]
) -> dict[str, str]:
    """The columns of fields that have none by name, as far as nothing else is known of them."""
    found = {name: header[places[0]] for name, places in like.items() if name in FIELD_NAMES and name not in columns}
    return {name: column for name, column in found.items() if column in unread and path_of(column, "")[0] == "extra"}


def _named_by(header: list[str], like: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """The columns that a header names in the words of people, as `fields` of the settings has them."""
    found = {
        name: header[places[0]] for name, places in like.items() if name in (*FIELD_NAMES, "blocks", "first", "last")
    }
    if "blocks" in found:
        network = found.pop("blocks")
        found = {
            **{name: column for name, column in found.items() if name not in ("first", "last")},
            "network": network,
        }
    return found


#: A sign that a text holds more than one network, or a range.
_SEVERAL = (" ", ",", ";", "-", "\t", "\n", "\u2013")


def _from_networks(texts: list[str], rows: U32, on_bad: Callable[[int, str], None]) -> blocks.Batch:
    """The blocks of rows; a text may hold several, and ranges."""
    whole = "|".join(texts)
    if not any(sign in whole for sign in _SEVERAL):
        return blocks.from_networks(texts, rows, on_bad)
    found: list[tuple[int, int, int, int]] = []
    for row, text in enumerate(texts):
        try:
            parts = split_blocks(text) or [text]
            for before, part in itertools.pairwise(parts):
                if (network := of_mask_after(before, part)) is not None:
                    raise InvalidRangeError(f"{part} is a netmask, not a block: write {network}")
            found += [(*parse_range(*range_ends(part)), row) for part in parts]
        except (InvalidAddressError, InvalidRangeError) as error:
            on_bad(row, str(error))
    return blocks.from_ranges(found)


def _beside(networks: str, more: str) -> str:
    return f"{networks}, {more}" if networks and more else networks or more


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
