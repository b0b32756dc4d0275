"""``check``: what a file or a source is, what is in it, and which of its rows are bad; nothing is changed."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import click

from geolookup.base.text import harmless
from geolookup.cli import exit_codes, output
from geolookup.cli.options import (
    fields_of,
    fields_option,
    json_option,
    kind_option,
    layer_option,
    load_service_settings,
    load_settings,
    sheet_option,
    state_directory,
)
from geolookup.files.streams import Limits
from geolookup.http.download import Downloader
from geolookup.http.transport import Transport
from geolookup.model.errors import DataFileError, SettingsError, UpstreamRefusedError
from geolookup.settings.secrets import read_source_secret
from geolookup.settings.table import Settings
from geolookup.sources.contents import Contents, contents_of
from geolookup.sources.definition import TOKEN, Definition, given, stack
from geolookup.sources.detect import open_source
from geolookup.sources.kinds.service import ServiceReading
from geolookup.sources.protocol import KeptKey
from geolookup.sources.providers import UNKNOWN_LICENCE
from geolookup.state.base.clock import wall
from geolookup.sync.pull.pull import configured_url
from geolookup.upstream.geolocations import GeolocationsClient

_NAMED = 20
_SHOWN_FILES = 8
_NOT_FOUND = 404
_SHOWN_FACTS = 14
_MOST_FACTS = 400


@click.command()
@click.argument("file", metavar="FILE|URL", required=False)
@click.option("--source", "name", metavar="NAME", help="Check the source of this name, as the next sync would read it.")
@kind_option
@layer_option
@sheet_option
@fields_option
@json_option
def check(
    file: str | None,
    name: str | None,
    kind: str | None,
    layer: str | None,
    sheet: str | None,
    fields: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what kind of file it is, what is in it, and which of its rows are bad. Nothing is changed.

    \b
    FILE is a file or a folder, plain or compressed, of any kind that `geolookup sync` reads, or an
    https address: what it brings is checked and not kept. --source reads a source of the settings
    again, the service too, with its own secret.
    Exit status: 0 all rows are good, 1 some are bad, or a sync would refuse the file.

    \b
    Examples:
      geolookup check dbip-city-lite.mmdb
      geolookup check addresses.mmdb --field country=geo.cc --field city=geo.town
      geolookup check --source office
    """
    if (file is None) == (name is None):
        raise click.UsageError("give a FILE or --source NAME")
    settings = load_settings() if file is not None else load_service_settings(None)
    if file is not None:
        (definition,) = given([file], kind=kind or "", fields=fields_of(fields), layer=layer or "", sheet=sheet or "")
    elif kind or layer or fields or sheet:
        raise click.UsageError(
            "--kind, --layer, --sheet and --field belong to FILE: those of a source stand in the settings"
        )
    else:
        definition = _named(settings, str(name))
    found = _service(settings) if definition.is_service else _contents(settings, definition, file)
    output.emit(as_json, found.as_dict, lambda: _say(found))
    return exit_codes.of_contents(bad=found.bad, refused=found.refused is not None)


def _named(settings: Settings, name: str) -> Definition:
    """The source of the settings, or of this state, that has this name.

    :raises SettingsError: if there is none
    """
    directory = state_directory(settings)
    current = directory.current_or_none()
    remembered = current.sources if current is not None else ()
    found = {each.name: each for each in stack(settings.stack, remembered)}
    if name not in found:
        raise SettingsError(f"unknown source {name!r:.60}: the sources are {', '.join(found)}")
    return found[name]


def _contents(settings: Settings, definition: Definition, file: str | None) -> Contents:
    """The contents of a file; ``file`` is its name as a person wrote it."""
    limits = Limits(bad_rows=settings.bad_rows, bad_rows_share=settings.bad_rows_share)
    with _as_a_file(definition, settings, file) as (path, shown):
        with (
            open_source(
                path,
                kind=definition.kind or None,
                fields=definition.fields or None,
                layer=definition.layer,
                sheet=definition.sheet,
                limits=limits,
            ) as reading,
            output.progress("rows", "row") as progress,
        ):
            found = contents_of(reading, progress, location=shown)
        if path != shown and shown:
            found = replace(
                found,
                name=shown,
                refused=found.refused and found.refused.replace(path, shown),
                warnings=tuple(warning.replace(path, shown) for warning in found.warnings),
            )
    return found


def _service(settings: Settings) -> Contents:
    url = configured_url(settings)
    limits = Limits(bad_rows=settings.bad_rows, bad_rows_share=settings.bad_rows_share)
    with (
        Transport(settings) as transport,
        GeolocationsClient(transport).list(etag=None) as listing,
        output.progress("geolocations", "row") as progress,
    ):
        return contents_of(ServiceReading(url, listing, limits), progress)


@contextlib.contextmanager
def _as_a_file(definition: Definition, settings: Settings, file: str | None) -> Iterator[tuple[str, str]]:
    """The path of a file, and its name for people. What is fetched is a temporary file as long as the context lasts.

    :raises UpstreamError: if it cannot be fetched
    :raises SettingsError: if its secret cannot be used
    :raises DataFileError: from the context, too: with the address in place of the temporary file's name
    """
    secret = None if definition.settings is None else read_source_secret(definition.settings)
    addresses = definition.addresses(wall().date(), secret)
    if not definition.is_remote:
        path = addresses[0] if file is None else file
        yield path, path
        return
    with tempfile.TemporaryDirectory(prefix="geolookup-") as folder:
        path = os.path.join(folder, "file")
        with contextlib.ExitStack() as opened, output.progress("bytes", "byte") as progress:

            def begin() -> Callable[[bytes], object]:
                opened.close()  # of an attempt that broke off
                return opened.enter_context(open(path, "wb")).write

            auth = "" if TOKEN in definition.location else definition.auth
            with Downloader(settings, secret=secret, auth=auth, auth_header=definition.auth_header) as downloader:
                for position, address in enumerate(addresses):
                    shown = downloader.shown(address)
                    try:
                        downloader.fetch(address, begin, progress=progress)
                    except UpstreamRefusedError as error:
                        if error.status != _NOT_FOUND or position + 1 == len(addresses):
                            raise
                        continue
                    break
        try:
            yield path, shown
        except DataFileError as error:
            raise DataFileError(*(each.replace(path, shown) for each in error.args)) from error


def _say(found: Contents) -> None:
    lines = [
        ("file", found.name),
        ("kind", found.kind),
        *([("files", _names(found.files))] if found.files else []),
        *([("not read", _names(found.not_read))] if found.files and found.not_read else []),
        ("rows", f"{found.rows:,}"),
        ("blocks", _blocks(found)),
        ("places", f"{found.places:,}"),
        ("countries", _countries(found.countries)),
        *([("networks", _networks(found))] if found.network_blocks else []),
    ]
    if found.columns_not_read:
        lines.append(
            ("no field", f"the columns {_names(found.columns_not_read)}; --field FIELD=COLUMN makes one a field")
        )
    if found.rows_without_location:
        lines.append(("no location", f"{found.rows_without_location:,} rows: they are no answer of a lookup"))
    if found.custom_left_out:
        lines.append(("left out", f"{found.custom_left_out:,} custom geolocations"))
    if found.dated:
        lines.append(("dated", f"{found.dated}{_age(found.dated)}"))
    more = (
        ("type", found.about.get("database_type")),
        ("description", found.about.get("description")),
        ("licence", found.licence or UNKNOWN_LICENCE),
        ("attribution", found.attribution),
        ("passing on", "" if found.redistribute else "the licence does not let others have the data"),
        ("old versions", "" if found.keep_days is None else f"to be destroyed after {found.keep_days} days"),
    )
    lines += [(name, value) for name, value in more if value]
    output.lines(f"{name + ':':<14}{value}" for name, value in lines)
    if found.keys:
        output.lines(["", *_table(found.keys)])
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


def _table(keys: Sequence[KeptKey]) -> Iterator[str]:
    """The keys of records and the columns, where each is kept, and in how many records it is."""
    rows = [("key", "kept as", "records")]
    rows += [
        (harmless(each.key, 60), harmless(each.kept_as or f"not kept: {each.reason}", 80), f"{each.records:,}")
        for each in keys
    ]
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    for key, kept, count in rows:
        yield f"{key:<{first}}  {kept:<{second}}  {count:>{third}}"


def _blocks(found: Contents) -> str:
    masks = f", {found.masks:,} of them known to have no location" if found.masks else ""
    return f"{found.blocks_v4:,} IPv4, {found.blocks_v6:,} IPv6{masks}"


def _networks(found: Contents) -> str:
    facts = ", ".join(found.facts[:_SHOWN_FACTS]) + (", …" if len(found.facts) > _SHOWN_FACTS else "")
    return harmless(f"{found.network_blocks:,} blocks of {found.networks:,} different networks: {facts}", _MOST_FACTS)


def _names(names: tuple[str, ...]) -> str:
    return harmless(", ".join(names[:_SHOWN_FILES])) + (
        f" and {len(names) - _SHOWN_FILES} more" if names[_SHOWN_FILES:] else ""
    )


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
