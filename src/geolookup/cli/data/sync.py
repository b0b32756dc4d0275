"""``sync``: pull the service's list and publish it, or only say what that would change."""

import os
import shlex
from collections.abc import Sequence
from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.data import impact
from geolookup.cli.inputs import Tally
from geolookup.cli.options import (
    counted,
    fields_of,
    fields_option,
    json_option,
    kind_option,
    layer_option,
    load_service_settings,
    load_settings,
    sheet_option,
    state_to_publish,
    url_moved_option,
    url_option,
    wait_option,
)
from geolookup.history.impact import Comparison
from geolookup.history.impact import impact as find_impact
from geolookup.history.preview import preview_pull
from geolookup.index.compare import LayerPair
from geolookup.model.errors import HeldError, SettingsError
from geolookup.settings.table import Settings
from geolookup.sources.bundled import MORE
from geolookup.sources.definition import Definition, given
from geolookup.sources.detect import named
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import words
from geolookup.sync.belonging import settings_of
from geolookup.sync.first import build_bundled_state
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.pull import pull

_TOP = 20


@click.command()
@click.argument("locations", metavar="[FILE|URL]...", nargs=-1)
@kind_option
@layer_option
@sheet_option
@fields_option
@url_option
@url_moved_option
@click.option("--bundled", is_flag=True, help="Publish the bundled registry data (countries only) in an empty state.")
@click.option("--accept", "digest", metavar="DIGEST", help="Publish the held list with this digest; needs no network.")
@click.option("--preview", is_flag=True, help="Publish nothing; show what would change, and for whom.")
@impact.addresses_option
@wait_option
@json_option
def sync(
    locations: tuple[str, ...],
    kind: str | None,
    layer: str | None,
    sheet: str | None,
    fields: tuple[str, ...],
    url: str | None,
    url_moved: bool,
    bundled: bool,
    digest: str | None,
    preview: bool,
    addresses: str | None,
    wait_s: float | None,
    as_json: bool,
) -> int:
    """Pull every source of the settings, and publish what they are together.

    \b
    If nothing is configured, give FILE, a file, a folder or an https address: it becomes the only
    source, and later syncs pull it again. Its content says which kind of file it is, unless --kind
    does. Of several files, IPv4 and IPv6 say, the first one that covers an address answers. Files that
    say who runs addresses (AS numbers, VPNs) are merged fact by fact: the first that has a fact says it.

    \b
    A list that is incomplete, unreadable or suspiciously small is not published, nor is one by which
    too many addresses would lose their answer, its city or its country: the last good generation
    continues to serve. --accept publishes it all the same. Exit status: 0 done (published, or nothing new), 1 failed,
    3 held until you confirm (the list or an edit is held, or what was created here is there twice),
    75 another run is under way.
    With --preview the list (or FILE) is pulled and checked as usual, and held if a sync would hold it;
    it is not published.

    \b
    Examples:
      geolookup sync dbip-city-lite.mmdb
      geolookup sync --preview dbip-city-lite-2026-12.mmdb
      geolookup sync cities-ipv4.csv cities-ipv6.csv
      geolookup sync dbip-city-lite.mmdb GeoLite2-ASN.mmdb
      geolookup sync --url https://geo.example.com
      geolookup sync --preview --addresses vips.txt
    """
    if digest is not None and preview:
        raise click.UsageError("--accept publishes what is held, --preview publishes nothing: give one of them")
    if addresses is not None and not preview:
        raise click.UsageError("--addresses belongs to --preview")
    if not locations and (kind or layer or fields or sheet):
        raise click.UsageError(
            "--kind, --layer, --sheet and --field belong to FILE: those of a source stand in the settings"
        )
    pulls = not locations and not bundled and digest is None
    settings = load_service_settings(url, pulls=True) if pulls else load_settings(url=url)
    sources: tuple[Definition, ...] = ()
    if locations:
        if digest is not None:
            raise click.UsageError("FILE cannot go with --accept")
        if url is None:
            settings = settings_of(settings, StateDirectory(settings.state_home()), files=True)
        if settings.stack:
            raise SettingsError(
                "sources are configured, so FILE is not taken. This adds it to them: "
                f"geolookup source add {shlex.quote(locations[0])}. If they are of another state: "
                f"GEOLOOKUP_CONFIG={os.devnull} geolookup sync {shlex.quote(locations[0])}"
            )
        known_kind = named(kind).name if kind else ""
        sources = given(locations, kind=known_kind, fields=fields_of(fields), layer=layer or "", sheet=sheet or "")
    directory, before = state_to_publish(settings, wait_s=wait_s)
    known = None if before is None else before.published.get("url")
    if bundled:
        if locations or url is not None or digest is not None or preview:
            raise click.UsageError("--bundled goes alone: it publishes what comes with geolookup")
        return _bundled(directory, as_json=as_json)
    if preview:
        return _preview(directory, settings, sources, addresses, url_moved=url_moved, as_json=as_json)
    if digest is not None:
        report = accept(directory, digest, settings)
    else:
        with output.progress("pulled", counted(before)) as progress:
            report = pull(directory, settings, given=sources, url_moved=url_moved, progress=progress)
    for warning in report.warnings:
        output.warn(warning)
    if url is not None and settings.url != known and load_settings().url is None:
        output.note(f"geolookup: {settings.url} is remembered with the state: later commands need no --url")
    if locations and known is not None and directory.service_url() is None:
        output.note(
            f"geolookup: this state was synced from {known}; from now on the file is its only source. "
            f"To have both: geolookup config init --url {shlex.quote(known)}; then geolookup source add "
            f"{shlex.quote(locations[0])}"
        )
    code = exit_codes.HELD if report.twins or report.notices else exit_codes.DONE
    output.emit(as_json, report.as_dict, lambda: words.pulled(report))
    return code


def _bundled(directory: StateDirectory, *, as_json: bool) -> int:
    if not build_bundled_state(directory.home, quiet=True):
        raise SettingsError(f"{directory.home}: something is published here already, so --bundled would change nothing")
    current = directory.require_current()
    done = {"generation": current.generation, "digest": current.digest}
    directory.edits.record("pull", "published", after={"url": None, **done})
    if as_json:
        output.json_result({"outcome": "published", **done})
    else:
        output.done(f"published generation {current.generation}: {words.contents(current.published['rows'])}")
        output.note(MORE)
    return exit_codes.DONE


def _preview(
    directory: StateDirectory,
    settings: Settings,
    sources: Sequence[Definition],
    addresses: str | None,
    *,
    url_moved: bool,
    as_json: bool,
) -> int:
    tally = Tally()
    seen: dict[str, Any] = {}

    def look(before: LayerPair, after: LayerPair) -> None:
        seen["answers"] = found = find_impact(before, after)
        if not as_json:
            impact.say_impact(found, _TOP)
        if addresses is not None:
            changed = impact.changed_of_file(Comparison(before, after), addresses, tally)
            seen["addresses"] = impact.changed_objects(*changed)
            if not as_json:
                impact.say_changed(*changed)

    try:
        with output.progress("geolocations", "row") as progress:
            report = preview_pull(directory, settings, look, given=sources, url_moved=url_moved, progress=progress)
    except HeldError as error:
        if as_json:
            output.json_result({"outcome": "held", "reason": str(error), **_as_json(seen)})
        raise
    for warning in report.warnings:
        output.warn(warning)
    if as_json:
        output.json_result({**report.as_dict(), **_as_json(seen)})
    elif report.outcome == "unchanged":
        output.done(f"nothing new: generation {report.generation} is what the service has")
    elif report.rows is not None:
        would = "would not" if report.outcome == "rolled-back" else "would"
        output.done(f"a sync {would} publish {_said(report.rows, report.difference)}")
    return tally.code or (exit_codes.HELD if report.twins or report.notices else exit_codes.DONE)


def _as_json(seen: dict[str, Any]) -> dict[str, Any]:
    return {**seen, "answers": seen["answers"].as_dict()} if "answers" in seen else seen


def _said(rows: dict[str, int], difference: dict[str, Any] | None) -> str:
    changes = words.changes(difference)
    return f"{words.contents(rows)}{'; ' if changes else ''}{', '.join(changes)}"
