"""``check``: what a file is, what is in it, and which of its rows are bad; nothing is changed."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.options import fields_of, fields_option, json_option, kind_option, load_settings
from geolookup.errors import DataFileError
from geolookup.http.download import Downloader
from geolookup.settings.table import Settings
from geolookup.sources.contents import Contents, contents_of
from geolookup.sources.definition import given
from geolookup.sources.detect import open_source
from geolookup.sources.files.limits import Limits
from geolookup.state.clock import wall

_NAMED = 20


@click.command()
@click.argument("file", metavar="FILE|URL")
@kind_option
@fields_option
@json_option
def check(file: str, kind: str | None, fields: tuple[str, ...], as_json: bool) -> int:
    """Say what kind of file it is, what is in it, and which of its rows are bad. Nothing is changed.

    \b
    FILE is a file or a folder, plain or compressed, of any kind that `geolookup sync` reads, or an
    https address: what it brings is checked and not kept.
    Exit status: 0 all rows are good, 1 some are bad, or a sync would refuse the file.

    \b
    Examples:
      geolookup check dbip-city-lite.mmdb
      geolookup check addresses.mmdb --field country=geo.cc --field city=geo.town
    """
    settings = load_settings()
    limits = Limits(bad_rows=settings.bad_rows, bad_rows_share=settings.bad_rows_share)
    with (
        _as_a_file(file, settings) as path,
        open_source(path, kind=kind, fields=fields_of(fields), limits=limits) as reading,
        output.progress("rows") as progress,
    ):
        found = contents_of(reading, progress, location=file)
    if path != file:
        found = replace(found, name=file, refused=found.refused and found.refused.replace(path, file))
    if as_json:
        output.json_result(found.as_dict())
    else:
        _say(found)
    return exit_codes.of_contents(bad=found.bad, refused=found.refused is not None)


@contextlib.contextmanager
def _as_a_file(location: str, settings: Settings) -> Iterator[str]:
    """The path of a file. An address is fetched into a temporary file, which lasts as long as the context.

    :raises UpstreamError: if it cannot be fetched
    :raises DataFileError: from the context, too: with the address in place of the temporary file's name
    """
    definition = given(location)
    if not definition.is_remote:
        yield location
        return
    (address,) = definition.addresses(wall().date(), None)[:1]
    with tempfile.TemporaryDirectory(prefix="geolookup-") as folder:
        path = os.path.join(folder, "file")
        with contextlib.ExitStack() as opened, output.progress("bytes") as progress:

            def begin() -> Callable[[bytes], object]:
                opened.close()  # of an attempt that broke off
                return opened.enter_context(open(path, "wb")).write

            with Downloader(settings, secret=None) as downloader:
                downloader.fetch(address, begin, progress=progress)
        try:
            yield path
        except DataFileError as error:
            raise DataFileError(str(error).replace(path, address)) from error


def _say(found: Contents) -> None:
    lines = [
        ("file", found.name),
        ("kind", found.kind),
        ("rows", f"{found.rows:,}"),
        ("blocks", _blocks(found)),
        ("places", f"{found.places:,}"),
        ("countries", _countries(found.countries)),
    ]
    if found.rows_without_location:
        lines.append(("no location", f"{found.rows_without_location:,} rows: they cover nothing"))
    if found.custom_left_out:
        lines.append(("left out", f"{found.custom_left_out:,} custom geolocations"))
    if found.dated:
        lines.append(("dated", f"{found.dated}{_age(found.dated)}"))
    more = (
        ("type", found.about.get("database_type")),
        ("description", found.about.get("description")),
        ("licence", found.licence),
        ("attribution", found.attribution),
        ("passing on", "" if found.redistribute else "the licence does not let others have the data"),
        ("old versions", "" if found.keep_days is None else f"to be destroyed after {found.keep_days} days"),
    )
    lines += [(name, value) for name, value in more if value]
    output.done("\n".join(f"{name + ':':<14}{value}" for name, value in lines))
    for warning in found.warnings:
        output.warn(warning)
    for row in found.bad_rows[:_NAMED]:
        output.fail(str(row))
    if found.bad > len(found.bad_rows[:_NAMED]):
        output.fail(f"and {found.bad - len(found.bad_rows[:_NAMED]):,} more bad rows")
    if found.refused is not None:
        output.fail(found.refused)
    elif found.bad:
        output.fail(f"{found.bad:,} of {found.rows:,} rows are bad: a sync would leave them out")


def _blocks(found: Contents) -> str:
    masks = f", {found.masks:,} of them known to have no location" if found.masks else ""
    return f"{found.blocks_v4:,} IPv4, {found.blocks_v6:,} IPv6{masks}"


def _countries(codes: tuple[str, ...]) -> str:
    if not codes:
        return "none"
    return ", ".join(codes) if len(codes) <= 10 else f"{len(codes)}: {', '.join(codes[:10])}, …"


def _age(dated: str) -> str:
    try:
        moment = datetime.fromisoformat(dated)
    except ValueError:
        return ""
    days = (datetime.now(UTC) - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).days
    return f" ({days} days ago)" if days > 0 else ""
