"""Sites as CSV (RFC 4180): one line each, its blocks in one column, separated by blanks; lossless."""

import csv
import difflib
import io
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.files.tables import BadRows
from geolookup.model.addresses import split_blocks
from geolookup.model.errors import DataFileError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.sites.site import KEYS, Site, Where, block_text

#: A site of thousands of blocks is one long value.
_MAX_VALUE: Final = 1 << 26
#: The characters that may stand between columns: spreadsheets write semicolons where a comma is the decimal sign.
_DELIMITERS: Final = ",;\t|"
#: Titles above the header are looked for in this many lines.
_MOST_TITLES: Final = 20


def read(path: str, text: str, bad: BadRows, delimiter: str | None = None) -> list[tuple[dict[str, Any], Where]]:
    """The sites' values as text (without empty coordinates; blocks as a list), each with its position.

    Other columns are passed over; see `notes`. ``bad`` is told of rows with more or fewer values than the header.

    :raises DataFileError: if it is not CSV, or if a column is missing
    """
    limit = csv.field_size_limit(_MAX_VALUE)  # the limit applies to the whole process, so it is reset afterwards
    try:
        return list(_read(path, text, bad, delimiter))
    finally:
        csv.field_size_limit(limit)


def notes(path: str, text: str, delimiter: str | None = None) -> list[str]:
    """Remarks on the columns: those that are passed over."""
    header = _header(text, delimiter or _delimiter(text))
    others = [column for column in header if column not in KEYS]
    return [f"{path}: these columns are not read: {', '.join(map(repr, others))}"] if others else []


def _read(path: str, text: str, bad: BadRows, delimiter: str | None) -> Iterator[tuple[dict[str, Any], Where]]:
    between = delimiter or _delimiter(text)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    header: list[str] | None = None
    try:
        for row in rows:
            if not any(value.strip() for value in row):
                continue  # a spreadsheet writes rows that look empty with all of their delimiters
            if header is None:
                header = [column.strip().lower() for column in row]
                _check(path, header, rows.line_num, text)
                continue
            where = Where(path=path, find=partial(_same, rows.line_num))
            if len(row) != len(header):
                bad.add(where.error(f"has {count(len(row), 'value')}, and the header names {len(header)} columns"))
                continue
            values: dict[str, Any] = {name: value for name, value in zip(header, row, strict=True) if name in KEYS}
            values["name"] = values["name"].strip()  # a name has no blanks around it, and cells often do
            for name in DEGREES:
                if values.get(name) == "":
                    del values[name]
            values["blocks"] = split_blocks(values["blocks"])
            masks = [value.strip() for name, value in zip(header, row, strict=True) if "mask" in name]
            if masks and len(values["blocks"]) == 1 and "/" not in values["blocks"][0]:
                values["blocks"] += masks  # which is refused, with the network to write
            yield values, where
    except csv.Error as error:
        raise DataFileError(f"{path}, line {rows.line_num}: is not CSV: {reason(error)}") from error
    if header is None:
        raise DataFileError(f"{path}: is empty: its first line should name the columns")


def _check(path: str, header: list[str], line: int, text: str) -> None:
    missing = [name for name in KEYS if name not in header]
    below = _header_below(text, line) if len(missing) > len(KEYS) // 2 else None
    if below is not None:
        raise DataFileError(
            f"{path}, line {line}: the columns are named in line {below}: delete what stands above it, "
            "which is for people"
        )
    if len({*header}) != len([name for name in header if name]) + ("" in header):
        raise DataFileError(f"{path}, line {line}: a column is named twice")
    if missing:
        others = [name for name in header if name not in KEYS]
        named = ", ".join(_asked(name, others) for name in missing)
        raise DataFileError(
            f"{path}, line {line}: these columns are missing: {named}. Add or rename them; values may be empty"
        )


def _asked(name: str, others: list[str]) -> str:
    """A missing column, with one of the others that may be meant to be it."""
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.8)
    return f"{name} (is that {near[0]!r}?)" if near else name


def _header_below(text: str, above: int) -> int | None:
    """The line, among the next few, that names most of the columns: people put titles above a table."""
    for number, line in enumerate(text.splitlines()[:_MOST_TITLES], start=1):
        if number > above and max(_known_columns(line, each) for each in _DELIMITERS) > len(KEYS) // 2:
            return number
    return None


def _known_columns(line: str, delimiter: str) -> int:
    return len(set(KEYS) & set(_columns(line, delimiter)))


def _delimiter(text: str) -> str:
    """The delimiter with which the header has the most of our columns."""
    return max(_DELIMITERS, key=lambda each: len(set(KEYS) & set(_header(text, each))))


def _header(text: str, delimiter: str) -> list[str]:
    return _columns(next((line for line in text.splitlines() if line.strip(_DELIMITERS + ' "')), ""), delimiter)


def _columns(line: str, delimiter: str) -> list[str]:
    try:
        return [column.strip().lower() for column in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def _same(line: int, _key: str, _text: str) -> int:
    return line


def write(sites: list[Site]) -> str:
    """The text of a file."""
    out = io.StringIO()
    # Python before 3.13 leaves a lone carriage return without quotation marks, and then refuses to read it.
    returns = any("\r" in str(value) for site in sites for value in site.fields.values())
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL)
    writer.writerow(KEYS)
    for site in sites:
        values = ["" if site.fields[name] is None else site.fields[name] for name in FIELD_NAMES]
        writer.writerow([site.name, *values, " ".join(map(block_text, site.blocks))])
    return out.getvalue()
