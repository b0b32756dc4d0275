"""Sites as CSV (RFC 4180): one line each, its blocks in one column, separated by blanks; lossless."""

import csv
import io
from functools import partial
from typing import Any

from geolookup.errors import DataFileError
from geolookup.fields import DEGREES, FIELD_NAMES, LATER_NAMES
from geolookup.sites.site import KEYS, Site, Where, block_text
from geolookup.sources.csv_rows import CsvRows

#: A site of thousands of blocks is one long value.
_MAX_VALUE = 1 << 26


def read(path: str) -> list[tuple[dict[str, Any], Where]]:
    """The sites' values as text (without empty coordinates; blocks as a list), each with its position.

    :raises DataFileError: if the file cannot be read or is not CSV, or if a column is missing or unknown
    """
    found = []
    limit = csv.field_size_limit(_MAX_VALUE)  # the limit applies to the whole process, so it is reset afterwards
    try:
        with CsvRows(path) as rows:
            rows.columns(*(key for key in KEYS if key not in LATER_NAMES))
            for column in rows.header:
                if column not in KEYS:
                    raise DataFileError(
                        f"{path}, line 1: unknown column {column!r}: a file of sites has {', '.join(KEYS)}"
                    )
            for row in rows:
                values: dict[str, Any] = dict(zip(rows.header, row, strict=True))
                for name in DEGREES:
                    if values.get(name) == "":
                        del values[name]
                values["blocks"] = values["blocks"].split()
                found.append((values, Where(path=path, find=partial(_same, rows.line))))
    finally:
        csv.field_size_limit(limit)
    return found


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
