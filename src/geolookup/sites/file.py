"""A file of sites, which people review: read and written as TOML or CSV."""

import codecs
import os
import re
from collections.abc import Iterable
from typing import BinaryIO, Literal, TypeAlias

from geolookup.files.formats import compression_named
from geolookup.files.opened import content_of
from geolookup.files.streams import reading_errors
from geolookup.model.errors import DataFileError
from geolookup.sites import csv as sites_csv
from geolookup.sites import toml as sites_toml
from geolookup.sites.site import Problems, Site, refuse_repetitions, site_of

Form: TypeAlias = Literal["toml", "csv"]

#: Text of a TOML file of sites that a CSV's header cannot have.
_TOML = re.compile(r"""^\s*(\[\[\s*["']?site|site\s*=)""", re.MULTILINE)


#: The formats in which spreadsheet programs save by themselves.
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")


def form_of(path: str, form: Form | None = None) -> Form:
    """The format of a file: as given, else by the end of its name, that of a compression aside.

    :raises DataFileError: if neither says it
    """
    if form is not None:
        return form
    if os.path.isdir(path):
        raise DataFileError(f"{path}: is a directory: give the name of a file")
    compression = compression_named(path)
    suffix = os.path.splitext(path if compression is None else path[: -len(compression.end)])[1].lower()
    if suffix == ".toml":
        return "toml"
    if suffix in (".csv", ".tsv"):
        return "csv"
    if suffix in _SPREADSHEETS:
        raise DataFileError(
            f"{path}: is a spreadsheet, which is not read: save it as CSV (UTF-8) in the spreadsheet program"
        )
    raise DataFileError(f"{path}: its name ends neither in .toml nor in .csv: say which it is with --format")


def read_sites(
    path: str,
    form: Form | None = None,
    *,
    stream: BinaryIO | None = None,
    delimiter: str | None = None,
    problems: Problems | None = None,
) -> list[Site]:
    """All sites of a file, or of ``stream`` under that name, in its order; decompressed if its first bytes say so.

    TOML has a table ``[[site]]`` for each; CSV a line for each, its blocks in one column, separated by blanks, commas
    or semicolons. Every key of `KEYS` except the coordinates must be there (in CSV, the columns of the coordinates too;
    they may be empty). ``delimiter`` stands between the columns of CSV; if it is None, the header tells. Of a stream
    without a form the content tells it. With ``problems`` bad sites are noted there and left out.

    :raises DataFileError: if it cannot be read, or sites are malformed, or have the name or a block of another: names
        the file, the line and the site of each, up to twenty
    :raises MissingExtraError: if decompressing it needs a package that is not installed
    """
    chosen = None if stream is not None and form is None else form_of(path, form)
    text = _text(path, stream)
    if chosen is None:
        chosen = "toml" if _TOML.search(text) else "csv"
    bad = Problems() if problems is None else problems
    found = sites_toml.read(path, text) if chosen == "toml" else sites_csv.read(path, text, bad, delimiter)
    sites = [site for values, where in found if (site := site_of(values, where, bad)) is not None]
    refuse_repetitions(sites, bad)
    if problems is None:
        bad.refuse()
    elif chosen == "csv":
        problems.notes += sites_csv.notes(path, text, delimiter)
    return sites


def _text(path: str, stream: BinaryIO | None) -> str:
    try:
        if stream is None:
            with open(path, "rb") as file:
                data = _content(path, file)
        else:
            data = _content(path, stream)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataFileError(
            f"{path}, line {line}: is not UTF-8: save it as UTF-8, or convert it, for example with "
            "`iconv -f windows-1252 -t utf-8`"
        ) from error


def _content(path: str, file: BinaryIO) -> bytes:
    with reading_errors(path):
        return content_of(path, file).read()


def write_sites(sites: Iterable[Site], form: Form) -> str:
    """The sites as the text of a file: reading it again gives the same sites."""
    if form == "toml":
        return sites_toml.write(list(sites))
    return sites_csv.write(list(sites))
