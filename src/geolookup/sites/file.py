"""A file of sites, which people keep: TOML, CSV or a workbook, read; and written as TOML or CSV."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Literal, TypeAlias

from geolookup.base.text import count, harmless
from geolookup.files.formats import compression_named
from geolookup.files.opened import Member, Opened
from geolookup.files.streams import BoundedStream, Limits, reading_errors
from geolookup.model.errors import DataFileError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.sites import table
from geolookup.sites import toml as sites_toml
from geolookup.sites.site import TIME_ZONE, Problems, Site, Where, refuse_repetitions, site_of

Form: TypeAlias = Literal["toml", "csv"]

#: Text of a TOML file of sites that a table's header cannot have.
_TOML = re.compile(rb"""^\s*(\[\[\s*["']?site|site\s*=)""", re.MULTILINE)
#: The ends of the names of tables.
_TABLES = (".csv", ".tsv", ".xlsx", ".ods", ".xlsm", ".xls")
_LIMITS = Limits(expanded_bytes=1 << 30)


def form_of(path: str, form: Form | None = None) -> Form:
    """The format to write: as given, else by the end of the file's name, that of a compression aside.

    :raises DataFileError: if neither says it
    """
    if form is not None:
        return form
    if os.path.isdir(path):
        raise DataFileError(f"{path}: is a directory: give the name of a file")
    if _plain(path).endswith(".toml"):
        return "toml"
    if _plain(path).endswith((".csv", ".tsv")):
        return "csv"
    raise DataFileError(f"{path}: its name ends neither in .toml nor in .csv: say which it is with --format")


def _plain(path: str) -> str:
    compression = compression_named(path)
    return (path if compression is None else path[: -len(compression.end)]).lower()


def read_sites(
    path: str,
    form: Form | None = None,
    *,
    stream: BinaryIO | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    fields: Mapping[str, str] | None = None,
    problems: Problems | None = None,
    vrf_global: str = "",
) -> list[Site]:
    """All sites of a file, or of ``stream`` under that name, in its order; decompressed if its first bytes say so.

    TOML has a table ``[[site]]`` for each; a table (CSV, or a sheet of a workbook) a line for each, or several with
    blocks of it. Its columns are found by what people call them; ``fields`` names others, by ours. Those of the fields
    may be missing. ``delimiter`` stands between the columns of CSV; if it is None, the header tells. Of a workbook with
    several sheets ``sheet`` is the one. If neither ``form`` nor the name tells the format, the content does. With
    ``problems`` bad sites are noted there and left out. Sites of the VRF ``vrf_global`` are of the global table.

    :raises DataFileError: if it cannot be read, or sites are malformed, or have the name or a block of another: names
        the file, the line and the site of each, up to twenty
    :raises SettingsError: if ``fields`` names something that a site does not have
    :raises MissingExtraError: if decompressing it needs a package that is not installed
    """
    if stream is not None:
        with _kept(path, stream) as kept:
            return _read(kept, path, form, delimiter, sheet, fields or {}, problems, vrf_global)
    chosen = form or ("toml" if _plain(path).endswith(".toml") else "csv" if _plain(path).endswith(_TABLES) else None)
    if not os.path.exists(path):
        raise DataFileError(f"{path}: cannot be read: no such file")
    if os.path.isdir(path):
        raise DataFileError(f"{path}: is a directory: give the name of a file")
    return _read(path, path, chosen, delimiter, sheet, fields or {}, problems, vrf_global)


def sheets_of(name: str, stream: BinaryIO) -> list[str]:
    """The sheets of a workbook that have rows, if there are several; of anything else none.

    :raises DataFileError: if it cannot be read
    """
    with _kept(name, stream) as kept, contextlib.closing(Opened(kept, _LIMITS, name=name)) as opened:
        return [member.inside for member in opened.members if member.is_sheet and member.inside]


@contextlib.contextmanager
def _kept(name: str, stream: BinaryIO) -> Iterator[str]:
    """The path of a file with the rest of a stream, which can be read once: an archive is read from its end."""
    with reading_errors(name), tempfile.NamedTemporaryFile(prefix="geolookup-") as file:
        shutil.copyfileobj(BoundedStream(name, stream, _LIMITS, None), file)
        file.flush()
        yield file.name


def _read(
    file: str,
    path: str,
    form: Form | None,
    delimiter: str | None,
    sheet: str | None,
    fields: Mapping[str, str],
    problems: Problems | None,
    vrf_global: str,
) -> list[Site]:
    with contextlib.closing(Opened(file, _LIMITS, sheet=sheet, name=path)) as opened:
        member = _one(path, list(opened.members), fields, delimiter)
        return _of(member, path, form, delimiter, fields, problems, vrf_global)


def _of(
    member: Member,
    path: str,
    form: Form | None,
    delimiter: str | None,
    fields: Mapping[str, str],
    problems: Problems | None,
    vrf_global: str,
) -> list[Site]:
    bad = Problems() if problems is None else problems
    found: list[tuple[dict[str, Any], Where]]
    unsaid: frozenset[str] = frozenset()
    told = table.Read()
    if (form or ("toml" if _TOML.search(member.head) else "csv")) == "toml":
        made_at, found = sites_toml.read(path, _text(member))
    else:
        found, told = table.read(member, bad, fields, delimiter)
        made_at = told.made_at
        has = {*told.read_as, *(DEGREES if "coordinates" in told.read_as else ())}
        unsaid = frozenset(name for name in FIELD_NAMES if name not in has)
    if any(TIME_ZONE in values for values, _ in found):  # then it says of each whether it has one
        found = [({TIME_ZONE: "", **values}, where) for values, where in found]
    sites = [site for values, where in found if (site := site_of(values, where, bad, unsaid)) is not None]
    sites = [
        replace(site, vrf="" if site.vrf == vrf_global else site.vrf, made_at=made_at if site.made_from else "")
        for site in sites
    ]
    refuse_repetitions(sites, bad)
    bad.said += told.said
    bad.said += told.converted.lines(member.name)
    bad.notes += told.lost.lines(member.name)
    if problems is None:
        bad.refuse()
    return sites


def _one(path: str, members: list[Member], fields: Mapping[str, str], delimiter: str | None) -> Member:
    """The file that holds the sites: the only one, or the only sheet or file with a header."""
    if len(members) == 1:
        return members[0]
    fitting = [member for member in members if table.is_of_sites(member, fields, delimiter)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(repr(harmless(member.inside, 40)) for member in fitting or members)
    say = "Say which is meant: --sheet NAME" if any(member.is_sheet for member in members) else "Name one file"
    what = f"{count(len(fitting), 'sheet')} hold sites" if fitting else "no sheet names the columns of sites"
    raise DataFileError(f"{path}: {what}: {names}. {say}")


def _text(member: Member) -> str:
    with member.open() as stream:
        data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataFileError(
            f"{member.name}, line {line}: is not UTF-8: save it as UTF-8, or convert it, for example with "
            "`iconv -f windows-1252 -t utf-8`"
        ) from error


def write_sites(sites: Iterable[Site], form: Form) -> str:
    """The sites as the text of a file: reading it again gives the same sites."""
    if form == "toml":
        return sites_toml.write(list(sites))
    return table.write(list(sites))
