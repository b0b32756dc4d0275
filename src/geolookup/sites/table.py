"""Sites as a table: CSV or a sheet of a workbook, as people keep it; and written as CSV (RFC 4180), lossless."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from geolookup.base.text import harmless
from geolookup.files.converted import Counted, as_meant, guessed
from geolookup.files.headers import SEPARATORS, WORDS, Header, alike, field_of, fields_of, find_header, said_of
from geolookup.files.opened import Member
from geolookup.files.streams import Limits
from geolookup.files.tables import Table
from geolookup.model.addresses import split_blocks
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.sites.site import KEYS, MADE_FROM, TIME_ZONE, VRF, Problems, Site, Where, block_text

#: What a column may hold, by the names that ``--field`` takes.
COLUMNS: Final = (*KEYS, VRF, TIME_ZONE, MADE_FROM, "coordinates", "first", "last")
#: What people call the columns; a field that has no words there is known by its own name.
_WORDS: Final = {**{name: (alike(name),) for name in COLUMNS}, **WORDS}
#: A site of thousands of blocks is one long value.
_LIMITS: Final = Limits(line_bytes=1 << 26, expanded_bytes=1 << 30)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:.]+)?|[0-9]{2}:[0-9]{2}:[0-9]{2}")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_NUMBER: Final = re.compile(r"[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?")
_ERROR: Final = re.compile(r"#(N/A|NV|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!|BEZUG!|WERT!|ERROR)|(Err|Fehler):[0-9]+")
#: Digits of postal codes, where many begin with a zero that a spreadsheet takes for no digit.
_DIGITS: Final = {
    **dict.fromkeys(("DE", "FR", "IT", "ES", "US", "EE", "FI", "MX", "TR", "MY", "LT", "HR"), 5),
    **dict.fromkeys(("NO", "DK", "AU", "NL"), 4),
    **dict.fromkeys(("CN", "RO", "SG"), 6),
}
_SHOWN_COLUMNS: Final = 12
#: What to do about a table without names of its columns, for commands.
SAY_COLUMNS: Final = "Say which columns hold what: --field name=COLUMN --field blocks=COLUMN"

_ZEROS: Final = ("postal code that may have lost a zero", "postal codes that may have lost a zero")


@dataclass(slots=True)
class Read:
    """What became of a table: ``said`` is how it was read, for a person to look at before anything is done.

    ``converted`` was read otherwise than it stands, ``lost`` what may have been before the file was read.

    ``made_at`` is the moment of the export that it was, "" if it does not say it.
    """

    said: list[str] = field(default_factory=list)
    made_at: str = ""
    read_as: dict[str, list[str]] = field(default_factory=dict)
    converted: Counted = field(default_factory=Counted)
    lost: Counted = field(default_factory=Counted)


def header_of(member: Member, given: Mapping[str, str], separator: str | None = None) -> Header | None:
    """The header of a table of sites: it names them, and something of them; None if there is none.

    Of the columns that ``given`` names any may be the one.
    """
    between = SEPARATORS if separator is None else (separator,)
    found = find_header(member.head, lambda row: len(fields_of(row, given, _WORDS)), between)
    return (
        None
        if found is None or not {"name", "blocks", "first"} & set(fields_of(found.columns, given, _WORDS))
        else found
    )


def is_of_sites(member: Member, given: Mapping[str, str], separator: str | None = None) -> bool:
    """True if a table has a header that names sites and their blocks."""
    header = header_of(member, given, separator)
    at = set() if header is None else {*fields_of(header.columns, given, _WORDS)}
    return "name" in at and bool({"blocks", "first"} & at)


def read(
    member: Member, bad: Problems, given: Mapping[str, str], separator: str | None = None
) -> tuple[list[tuple[dict[str, Any], Where]], Read]:
    """The values of each site as text (without empty coordinates; blocks as a list), with its position.

    A site may have several rows, each with blocks of it. Other columns are passed over.

    :raises DataFileError: if no row names the columns of sites, or a column of ``given`` is missing
    :raises SettingsError: if ``given`` names something that a site does not have
    """
    for name in given:
        if name not in COLUMNS:
            raise SettingsError(f"unknown field {name!r:.60}: a table of sites has {', '.join(COLUMNS)}")
    path = member.name
    header = header_of(member, given, separator)
    if header is None:
        first = member.head.decode("utf-8-sig", "replace").strip().partition("\n")[0]
        raise DataFileError(
            f"{path}: is empty: its first line should name the columns"
            if not first
            else f'{path}: no line names the columns of sites. The first is "{harmless(first.strip(), 120)}". '
            f"{SAY_COLUMNS}"
        )
    at = fields_of(header.columns, given, _WORDS)
    line = f"{member.word} {header.skip + 1}"
    missing = [f"{name}={column}" for name, column in given.items() if name not in at]
    if missing:
        raise DataFileError(f"{path}, {line}: no column {' '.join(map(harmless, missing))}: {_there(header)}")
    if "blocks" in at or not {"first", "last"} <= at.keys():
        at = {name: places for name, places in at.items() if name not in ("first", "last")}
    if set(DEGREES) <= at.keys():
        at.pop("coordinates", None)
    at = {name: places for name, places in at.items() if name in COLUMNS}
    if "name" not in at or not {"blocks", "first"} & at.keys():
        lacks = "name" if "name" not in at else "blocks"
        raise DataFileError(
            f"{path}, {line}: no column holds the {lacks} of sites: {_there(header)}. Say which does: "
            f"--field {lacks}=COLUMN"
        )
    told = _said(member, header, at)
    rows = _Rows(member, header, at, bad, told)
    return list(rows.sites()), told


def _there(header: Header) -> str:
    names = [repr(harmless(column, 40)) for column in header.columns if column]
    return f"there are {', '.join(names[:_SHOWN_COLUMNS])}{', …' if len(names) > _SHOWN_COLUMNS else ''}"


def _said(member: Member, header: Header, at: Mapping[str, Sequence[int]]) -> Read:
    used = {place for places in at.values() for place in places}
    others = [column for place, column in enumerate(header.columns) if place not in used and column]
    read_as = {name: [header.columns[place] for place in places] for name, places in at.items()}
    said = Read(read_as=read_as)
    if (made := _MOMENT.search(" ".join(read_as.get(MADE_FROM, [])))) is not None:
        said.made_at = made[0]
    shown = {name: columns for name, columns in read_as.items() if name != MADE_FROM}
    said.said += said_of(member.name, member.word, header, shown)
    if others:
        said.said.append(f"{member.name}: these columns are not read: {', '.join(map(repr, others))}")
    return said


class _Rows:
    """The rows of a table, put together to sites."""

    rows = 0

    def __init__(self, member: Member, header: Header, at: Mapping[str, list[int]], bad: Problems, told: Read) -> None:
        self._member = member
        self._header = header
        self._at = at
        self._bad = bad
        self._told = told
        self._columns = {name: header.columns[places[0]] for name, places in at.items()}
        # An export of ours says what the service has, to the last blank.
        names = [field_of(column, {MADE_FROM: (alike(MADE_FROM),)}) or column.lower() for column in header.columns]
        self._ours = tuple(names[: len(KEYS)]) == KEYS and {*names[len(KEYS) :]} <= {VRF, TIME_ZONE, (MADE_FROM, 0)}

    def leave_out(self, number: int, line: int | None, reason: str, *, count: int = 1) -> None:
        """See `files.tables.Report`."""
        del number
        self._bad.add(self._where(line or 0).problem("is not a row of the table", reason))
        self._bad.add_unnamed(count - 1)

    def sites(self) -> Iterator[tuple[dict[str, Any], Where]]:
        """The sites in the order of their first rows."""
        table = Table(
            self._member, _LIMITS, self, cp1252=True, skip=self._header.skip, separator=self._header.separator
        )
        limit = csv.field_size_limit(_LIMITS.line_bytes)  # it applies to the whole process, so it is reset afterwards
        try:
            width = len(table.header(repeated=True))
            self._require_once()
            found: dict[tuple[str, str], tuple[dict[str, Any], Where, dict[str, int]]] = {}
            last = ("", "")
            for chunk in table.chunks(width, exact=True):
                for row, line in zip(chunk.rows, chunk.lines, strict=True):
                    last = self._take(row, line, found, last)
        finally:
            csv.field_size_limit(limit)
        if table.guessed:
            self._told.said.append(guessed(self._member.name, self._member.word, table.guessed))
        for values, where, _ in found.values():
            yield values, where

    def _require_once(self) -> None:
        columns = [column.lower() for column in self._header.columns]
        for name, places in self._at.items():
            again = [place for place, column in enumerate(columns) if column == columns[places[0]]]
            if name != "blocks" and len(again) > 1:
                at = f"{self._member.word} {self._header.skip + 1}"
                raise DataFileError(f"{self._member.name}, {at}: a column is named twice: {columns[again[0]]!r:.60}")

    def _where(self, line: int, lines: Mapping[str, int] | None = None) -> Where:
        def find(_key: str, text: str) -> int:
            return line if lines is None else lines.get(text, line)

        return Where(path=self._member.name, find=find, columns=self._columns, word=self._member.word)

    def _take(
        self,
        row: list[str],
        line: int,
        found: dict[tuple[str, str], tuple[dict[str, Any], Where, dict[str, int]]],
        last: tuple[str, str],
    ) -> tuple[str, str]:
        """Read a row; the result is the VRF and name of its site."""
        lines: dict[str, int] = {}
        where = self._where(line, lines)
        if not self._has_values(row, where):
            return last
        values = self._values(row, where)
        blocks = self._blocks(row, where)
        if not blocks and not any(values.values()):
            return last  # what stands below a table, or beside it
        if not values["name"] and last[1] and not any(values.values()):
            # The next row of a site, of which only the blocks stand there.
            values |= {"name": last[1], **({VRF: last[0]} if VRF in values else {})}
        name: str = values["name"]
        site = values.get(VRF, ""), name
        before = found.get(site) if name else None
        if before is None:
            key = site if name else ("", f"\0{line}")
            found[key] = {**values, "blocks": blocks}, where, lines
            lines.update(dict.fromkeys(blocks, line))
            return site
        self._join(before, values, blocks, where, line)
        return site

    def _join(self, before: Any, values: dict[str, Any], blocks: list[str], where: Where, line: int) -> None:
        """Add the blocks of a further row of a site, which must say the same of it."""
        first, at, lines = before
        named = replace(where, name=values["name"])
        for key, value in values.items():
            if value not in ("", first.get(key, "")):
                other = f"{first.get(key, '')!r:.60} in {at.word} {at.line()}"
                told = f"{key} is {value!r:.60} here, and {other}: a site has one place"
                self._bad.add(named.problem("another row of the site says otherwise", told, key, str(value)))
                return
        if self._ours or not blocks:
            self._bad.add(named.problem("a name is there twice", f"another site has this name{at.at()}", "name"))
            return
        lines.update({block: line for block in blocks if block not in lines})
        first["blocks"] += blocks

    def _has_values(self, row: list[str], where: Where) -> bool:
        """False, and a bad row, if something stands in the place of a value that a spreadsheet has not worked out."""
        for name, places in self._at.items():
            for place in places:
                value = row[place].strip()
                formula = self._member.is_sheet and value.startswith("=")
                if formula or (_ERROR.fullmatch(value) and not self._ours):
                    kind = "a formula without a value" if formula else "an error of the spreadsheet"
                    write = "open the file in the spreadsheet program and save it, or write the value"
                    told = f"column {self._header.columns[place]!r:.40} has {kind}, {value!r:.60}: {write}"
                    self._bad.add(where.problem(kind, told, name, value, write))
                    return False
        return True

    def _values(self, row: list[str], where: Where) -> dict[str, Any]:
        """The values of the fields that have columns; coordinates that mean numbers are such."""
        keys = ("name", VRF, TIME_ZONE, MADE_FROM)
        of = {name: row[places[0]] for name, places in self._at.items() if name in (*keys, *FIELD_NAMES)}
        if not self._ours:
            of = {name: value.strip() for name, value in of.items()}
        # A name has no blanks around it, and cells often do.
        values: dict[str, Any] = {**of, **{key: of[key].strip() for key in keys if key in of}}
        if "coordinates" in self._at:
            values["coordinates"] = row[self._at["coordinates"][0]]
        line = f"{where.word} {where.line()}"
        for kind, became in as_meant(values):
            self._told.converted.add(kind, f"{line}: {became}")
        for name in DEGREES:
            if values.get(name, "").strip() == "":
                values.pop(name, None)
        self._warn_of_zeros(values, line)
        return values

    def _warn_of_zeros(self, values: Mapping[str, Any], line: str) -> None:
        postal, country = values.get("postalcode", ""), str(values.get("country", "")).upper()
        if postal.isdigit() and len(postal) == _DIGITS.get(country, 0) - 1:
            whole = f"0{postal}"
            self._told.lost.add(_ZEROS, f"{line}: {postal!r} of {country}, not {whole!r}?")

    def _blocks(self, row: list[str], where: Where) -> list[str]:
        if "first" in self._at:
            ends = [row[self._at[name][0]].strip() for name in ("first", "last")]
            texts = ["-".join(dict.fromkeys(filter(None, ends)))]
        else:
            texts = [row[place] for place in self._at["blocks"]]
        found: list[str] = []
        for text in texts:
            if not self._ours and (_DATE.fullmatch(text.strip()) or _NUMBER.fullmatch(text.strip())):
                kind = "a date" if _DATE.fullmatch(text.strip()) else "a number"
                write = "format the column as text, and write the network again"
                told = f"{text.strip()!r:.40} is {kind}, not a network: {write}"
                self._bad.add(where.problem(f"{kind} in place of a network", told, "blocks", text.strip(), write))
                continue
            found += split_blocks(text)
        masks = [value.strip() for name, value in zip(self._header.columns, row, strict=True) if _is_mask(name)]
        if any(masks) and len(found) == 1 and "/" not in found[0]:
            found += filter(None, masks)  # which is refused, with the network to write
        return found


def _is_mask(column: str) -> bool:
    return "mask" in column.lower()


def write(sites: list[Site]) -> str:
    """The text of a file."""
    out = io.StringIO()
    # Python before 3.13 leaves a lone carriage return without quotation marks, and then refuses to read it.
    returns = any("\r" in str(value) for site in sites for value in site.fields.values())
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL)
    made_at = max((site.made_at for site in sites), default="")
    ends = {
        key: heading
        for key, heading in ((VRF, VRF), (TIME_ZONE, TIME_ZONE), (MADE_FROM, f"{MADE_FROM} ({made_at})"))
        if any(getattr(site, key) for site in sites)
    }
    writer.writerow((*KEYS, *ends.values()))
    for site in sites:
        values = ["" if site.fields[name] is None else site.fields[name] for name in FIELD_NAMES]
        more = [getattr(site, key) or "" for key in ends]
        writer.writerow([site.name, *values, " ".join(map(block_text, site.blocks)), *more])
    return out.getvalue()
