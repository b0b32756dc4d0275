"""``source``: which sources default geolocations come from, and in which order."""

import contextlib
import os
import shlex
from collections.abc import Mapping
from typing import Any

import click

from geolookup.cli import exit_codes, interrupt, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import (
    chosen_fields,
    fields_of,
    fields_option,
    json_option,
    kind_option,
    layer_option,
    load_settings,
    sheet_option,
    state_directory,
)
from geolookup.model.errors import SettingsError
from geolookup.settings import edit
from geolookup.settings.paths import settings_path
from geolookup.settings.secrets import without_secret
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.settings.times import in_words
from geolookup.sources.adding import REGISTRY, new_values, refuse_what_cannot_be_pulled
from geolookup.sources.bundled import MORE
from geolookup.sources.definition import TOKEN, Definition, define, refuse_location
from geolookup.sources.providers import PRESETS, UNKNOWN_LICENCE, Terms, preset
from geolookup.sync.belonging import noted

_PRESETS = "\n".join(f"  {preset.name:<22}{preset.licence}" for preset in PRESETS)
_NAMES = (
    *(
        "name",
        "kind",
        "layer",
        "sheet",
        "location",
        "preset",
        "fields",
        "max_age_s",
        "max_data_age_s",
        "token_file",
        "auth",
        "auth_header",
    ),
    *("dated", "licence", "licence_url", "attribution", "keep_days", "redistribute", "documentation"),
)


@click.group(cls=LazyGroup)
def source() -> None:
    """Say where default geolocations come from: files, web addresses and providers, in their order.

    Your own blocks answer first. For other addresses, the first source that has a block for the
    address answers.

    \b
    Example: geolookup source add dbip-city-lite
    """


@source.command(epilog=f"\b\nPresets:\n{_PRESETS}\n  {REGISTRY:<22}the bundled data: a country for every address")
@click.argument("location", metavar="LOCATION|PRESET")
@click.option("--name", metavar="NAME", help="The source's name. Without it, the preset's, or the file's.")
@click.option("--first", is_flag=True, help="Above all others.")
@click.option("--before", metavar="NAME", help="Above the source of this name.")
@click.option("--last", is_flag=True, help="Below all others, which is the default.")
@kind_option
@layer_option
@sheet_option
@fields_option
@click.option("--token-file", metavar="FILE", help="A file (mode 0600) with this source's own secret.")
@click.option(
    "--auth", type=click.Choice(["bearer", "basic"]), help="How the secret travels, if {token} is not in LOCATION."
)
@click.option("--max-age", metavar="AGE", help="The age past which its data are stale, for example 40d.")
@json_option
def add(
    location: str,
    name: str | None,
    first: bool,
    before: str | None,
    last: bool,
    kind: str | None,
    layer: str | None,
    sheet: str | None,
    fields: tuple[str, ...],
    as_json: bool,
    **given: str | None,
) -> None:
    """Add a source to the settings: a file, a folder, an https address, or a provider's preset.

    \b
    A file is opened, and refused if its kind is unknown. Write a folder that has a preset's name as
    ./NAME. In an address, {YYYY}, {MM} and {DD} stand for the day in UTC, and {token}
    for the content of --token-file.

    \b
    Examples:
      geolookup source add dbip-city-lite
      geolookup source add office.csv --first
      geolookup source add geolite2-city --token-file ~/.config/geolookup/maxmind
    """
    interrupt.changing(settings_path())
    refuse_location(location)
    values = new_values(location, name, kind, fields_of(fields))
    values |= {name: value for name, value in (("layer", layer), ("sheet", sheet)) if value}
    values |= {key: value for key, value in given.items() if value}
    if token_file := values.get("token_file"):
        values["token_file"] = os.path.abspath(os.path.expanduser(token_file))
    source = edit.read_new_source(values)
    found = define(source)
    refuse_what_cannot_be_pulled(location, source, found)
    with _noted():
        path = edit.add_source(values, _position(first, before, last) or "last")
    licence = [f"licence: {found.licence}"] if found.licence else []
    what = {"added": found.name, "licence": found.licence}
    _done([f"added {found.name} to {path}: `geolookup sync` pulls it", *licence], what, path, as_json)
    settings = load_settings()
    if len(settings.stack) == 1:
        if (service := state_directory(settings).service_url()) is not None:
            output.note(
                f"{service}, the service that this state was synced from, is not in the settings, and leaves with the "
                f"next sync; to keep it: geolookup config init --url {shlex.quote(service)}"
            )
        for entry in _pulled(settings).values():
            if entry.get("given") and entry.get("location") != found.location:
                output.note(
                    f"{entry['location']}, which was synced by hand, is not in the settings, and leaves with the next "
                    f"sync; to keep it: geolookup source add {shlex.quote(str(entry['location']))}"
                )


def _position(first: bool, before: str | None, last: bool) -> edit.Position | None:
    if first + last + (before is not None) > 1:
        raise click.UsageError("give one of --first, --before and --last")
    if before is not None:
        return edit.Before(before)
    return "first" if first else "last" if last else None


@source.command("list")
@chosen_fields(_NAMES)
@json_option
def list_sources(only: tuple[str, ...] | None, as_json: bool) -> int:
    """List the sources, the one of highest precedence first, and the lines that their licences want shown.

    \b
    Example: geolookup source list
    """
    settings = load_settings()
    pulled = _pulled(settings)
    if as_json or only is not None:
        objects = [_as_dict(source, settings.url, pulled) for source in settings.stack]
        output.emit(
            as_json,
            {"sources": [{name: each[name] for name in only or _NAMES} for each in objects]},
            lambda: output.chosen_results(objects, only or _NAMES, as_json=False),
        )
        return exit_codes.DONE
    found = [define(source) for source in settings.stack]
    terms = [_terms(each, pulled) for each in found]
    with output.table("source", "kind", "location", "data of", "licence", "layer") as row:
        for each, asked in zip(found, terms, strict=True):
            where = settings.url if each.is_service else without_secret(each.location)
            row(
                each.name,
                each.kind or "kind by content",
                where or "",
                _day(pulled.get(each.name)),
                _licence(each, asked),
                _layer(each, pulled.get(each.name)),
            )
    if not found:
        terms = [entry for entry in pulled.values() if entry.get("given")]
        output.note(
            "no source is configured: what was synced by hand answers, else the bundled registry data (countries "
            f"only); {MORE}"
        )
    for line in dict.fromkeys(line for each in terms if (line := each.get("attribution"))):
        output.done(line)
    return exit_codes.DONE


@source.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> int:
    """Show a source: what its settings say, what its preset fills in, and what its file says of its licence.

    \b
    Example: geolookup source show dbip-city-lite
    """
    settings = load_settings()
    for configured in settings.stack:
        if configured.name == name:
            found = _as_dict(configured, settings.url, _pulled(settings))
            break
    else:
        known = ", ".join(source.name for source in settings.stack)
        raise SettingsError(
            f"unknown source {name!r:.60}: {f'the sources are {known}' if known else 'no source is configured'}"
        )
    if as_json:
        output.json_result(found)
        return exit_codes.DONE
    for key in ("max_age", "max_data_age"):
        found[key] = None if (age_s := found.pop(f"{key}_s")) is None else in_words(age_s)
    for key, value in found.items():
        if value not in ("", None, {}):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            output.done(f"{key.replace('_', ' ') + ':':<15}{text}")
    return exit_codes.DONE


def _pulled(settings: Settings) -> dict[str, dict[str, Any]]:
    """The state's entries of its sources, by name."""
    directory = state_directory(settings)
    current = directory.current_or_none()
    return {} if current is None else {str(entry["name"]): entry for entry in current.sources}


def _terms(found: Definition, pulled: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The terms of its licence: by the settings and the preset, else as the last sync recognised its file."""
    entry = pulled.get(found.name, {})
    same = entry.get("location", "") == found.location
    return found.terms(Terms.of_dict(entry.get("recognised")) if same else None)


def _licence(found: Definition, terms: Mapping[str, Any]) -> str:
    return str(terms["licence"] or ("" if found.is_service else UNKNOWN_LICENCE))


def _layer(found: Definition, entry: Mapping[str, Any] | None) -> str:
    """The layer that a source feeds: as its last snapshot does, else as the settings ask for; "" if neither says."""
    if entry is not None and entry.get("digest"):
        return str(entry.get("layer", "place"))
    return found.layer


def _day(entry: Mapping[str, Any] | None) -> str:
    """The day that a source's data are of, as far as the state knows."""
    if entry is None or not entry.get("digest"):
        return "never pulled"
    return str(entry.get("dated") or "unknown")[:10]


def _as_dict(source: SourceSettings, url: str | None, pulled: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    found = define(source)
    terms = _terms(found, pulled)
    about = preset(source.preset) if source.preset else None
    return {
        "name": found.name,
        "kind": found.kind,
        "layer": _layer(found, pulled.get(found.name)),
        "sheet": found.sheet,
        "location": (url or "") if found.is_service else without_secret(found.location),
        "preset": source.preset,
        "fields": dict(found.fields),
        "max_age_s": found.max_age_s,
        "max_data_age_s": found.max_data_age_s,
        "token_file": source.token_file,
        "auth": found.auth if source.token_file and TOKEN not in found.location else "",
        "auth_header": found.auth_header,
        "dated": pulled.get(found.name, {}).get("dated"),
        "last_modified": pulled.get(found.name, {}).get("last_modified"),
        "licence": terms["licence"],
        "licence_url": about.licence_url if about else "",
        "attribution": terms["attribution"],
        "keep_days": terms["keep_days"],
        "redistribute": terms["redistribute"],
        "documentation": about.documentation if about else "",
    }


@source.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a source from the settings; the next sync publishes without it.

    \b
    Example: geolookup source remove dbip-city-lite
    """
    interrupt.changing(settings_path())
    with _noted():
        path = edit.remove_source(name)
    settings = load_settings()
    follows = "the next `geolookup sync` goes without it"
    if not settings.stack and not any(entry.get("given") for entry in _pulled(settings).values()):
        follows = (
            "it was the last one, so there is nothing to sync until you add another; what was published stays served"
        )
    _done(f"removed {name} from {path}: {follows}", {"removed": name}, path, as_json)


@source.command()
@click.argument("name")
@click.option("--first", is_flag=True, help="Above all others.")
@click.option("--before", metavar="NAME", help="Above the source of this name.")
@click.option("--last", is_flag=True, help="Below all others.")
@json_option
def move(name: str, first: bool, before: str | None, last: bool, as_json: bool) -> None:
    """Move a source: up, so that it answers before others, or down.

    \b
    Example: geolookup source move office --first
    """
    position = _position(first, before, last)
    if position is None:
        raise click.UsageError("give one of --first, --before and --last")
    interrupt.changing(settings_path())
    with _noted():
        path = edit.move_source(name, position)
    _done(f"moved {name} in {path}: the next `geolookup sync` follows", {"moved": name}, path, as_json)


def _noted() -> contextlib.AbstractContextManager[None]:
    return noted(lambda: state_directory(load_settings()), load_settings)


def _done(text: str | list[str], what: dict[str, Any], path: str, as_json: bool) -> None:
    """Say what was changed in the settings, and in which order the sources are now."""
    output.emit(
        as_json, lambda: {**what, "settings": path, "sources": [each.name for each in load_settings().stack]}, text
    )
