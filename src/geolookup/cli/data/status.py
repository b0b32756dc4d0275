"""``status``: what is served, its age, and what stands in the way of newer data; ``verify``: every byte of it."""

import sys
from collections.abc import Mapping
from dataclasses import replace

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.options import json_option, load_settings
from geolookup.model.reports import RunFailure, SourceStatus, Status
from geolookup.settings.load import Origin, load_with_origins
from geolookup.settings.table import Settings
from geolookup.settings.times import in_words, of_day, shown
from geolookup.sources.bundled import BUNDLED, MORE
from geolookup.sources.definition import Definition, define
from geolookup.sources.providers import UNKNOWN_LICENCE
from geolookup.state.base.clock import age_s
from geolookup.state.base.parts import REGISTRY, SERVICE
from geolookup.state.publishing import checks
from geolookup.sync import opening, words


def _source_line(source: SourceStatus, *, bundled: bool) -> str:
    parts = [source.kind] if source.kind else []
    if source.location:
        parts.append(source.location)
    if not source.digest:
        return "; ".join(
            [*parts, "never pulled", f"PROBLEM since {shown(source.problem_since or '')}: {source.problem}"]
        )
    parts.append(f"data {of_day(source.dated)}")
    if not bundled:
        parts.append(f"checked {in_words(source.age_s)} ago{' (STALE)' if source.stale else ''}")
    if source.layer != "network":
        parts.append(f"{words.count(source.geolocations, 'geolocation')}, {words.count(source.blocks, 'block')}")
        parts.append(f"answers {words.v4_and_v6(source.addresses_v4, source.addresses_v6)}")
    if source.layer != "place":
        known = words.v4_and_v6(source.network_addresses_v4, source.network_addresses_v6)
        parts.append(f"{words.count(source.network_blocks, 'block')} of networks")
        parts.append(f"knows the network of {known}")
    if source.kind != SERVICE:
        licence = source.licence or f"licence {UNKNOWN_LICENCE}"
        parts.append(licence + ("" if source.redistribute else " (export refuses to hand it on)"))
    if source.attribution:
        parts.append(source.attribution)
    if not source.serves:
        parts.append("does not answer yet")
    if source.overdue:
        parts.append("OVERDUE: its licence requires that this version is removed: run `geolookup sync`")
    if source.problem:
        parts.append(f"PROBLEM since {shown(source.problem_since or '')}: {source.problem}")
    return "; ".join(parts)


def _dated(dated: str | None) -> str:
    """The date of the oldest data that answer, and how long ago it was."""
    return (
        f"{dated[:10]} ({in_words(age_s(dated))} ago)" if dated else "unknown: no source says of which day its data are"
    )


def _never_line(source: Definition) -> str:
    """The text about a source that is in the settings, and not in the state."""
    parts = [source.kind, source.location, "never pulled: `geolookup sync` pulls it, or says why it cannot"]
    return "; ".join(filter(None, parts))


def _service(settings: Settings, origins: Mapping[str, Origin], found: Status) -> dict[str, str | None] | None:
    """The address that the next push goes to, where it comes from, and where what is served came from."""
    if settings.url is not None:
        origin = origins["url"]
        return {"url": settings.url, "from": origin.kind, "where": origin.where, "synced_from": found.url}
    if found.url is None:
        return None
    return {"url": found.url, "from": "remembered", "where": None, "synced_from": found.url}


def _service_line(service: Mapping[str, str | None]) -> str:
    if service["from"] == "remembered":
        return f"{service['url']} (remembered from the last sync: no setting names one)"
    where = f"`url` in {service['where']}" if service["from"] == "file" else service["where"]
    other = service["synced_from"] not in (None, service["url"])
    return f"{service['url']} ({where})" + (f"; what is served is from {service['synced_from']}" if other else "")


def _too_old(found: Status, limit_s: float | None, *, given: bool, has_sources: bool) -> list[str]:
    """Messages about data too old for a check. A source's own limit goes before; ``given`` is the only other one."""
    limits = [limit for limit in (limit_s, None if given else found.max_age_s) if limit is not None]
    old = []
    is_bundled = found.source == BUNDLED and not has_sources
    answering = [source for source in found.sources if source.serves and source.digest]
    for source in answering:
        own = source.max_age_s if source.max_age_s != found.max_age_s else None
        limit = own if own is not None else min(limits, default=None)
        if limit is not None and source.age_s > limit:
            what = f"the data of {source.name}" if len(answering) > 1 else "the data"
            advice = f"no sync renews the bundled data: {MORE}" if is_bundled else "run `geolookup sync`"
            old.append(
                f"{what} are {in_words(source.age_s)} old, and should not be older than {in_words(limit)}: {advice}"
            )
    return old


def _problems(found: Status, never: list[str]) -> list[str]:
    """The problems besides the age: failed runs, unusable sources. A held list is not one: it waits for a person."""
    told = [f"the last {each.run} failed: {each.message}" for each in found.failures]
    told += [
        f"source {source.name} could not be used since {shown(source.problem_since or '')}: {source.problem}"
        for source in found.sources
        if source.problem and not source.held and not any(source.problem in each.message for each in found.failures)
    ]
    told += [found.problem] if found.problem else []
    if any(each.stage == "pull" for each in found.failures):
        return told  # which says it of each source
    return told + [f"source {name} never was pulled: run `geolookup sync`" for name in never]


def _well(not_tried: list[str], *, held: bool) -> str:
    """The line of a check that found nothing wrong."""
    held_back = "held: not published; confirm with `geolookup sync --accept`"
    verdict = held_back if held else "" if not_tried else "all is well"
    return "; ".join(filter(None, [verdict, f"not tried: {', '.join(not_tried)}" if not_tried else ""]))


def _failure_line(failure: RunFailure) -> str:
    since = "" if failure.since == failure.at else f" (since {shown(failure.since)})"
    return f"at {shown(failure.at)}{since}: {failure.message}"


@click.command()
@click.option("--check", is_flag=True, help="For monitoring: exit with 1 if data are stale or there is a problem.")
@click.option(
    "--max-age",
    metavar="AGE",
    help="With --check: the age past which data are too old (36h, 8d; none: no limit), instead of the settings'.",
)
@click.option(
    "--fingerprint",
    is_flag=True,
    help="Add a fingerprint of all answers (seconds for millions of blocks, once).",
)
@json_option
def status(as_json: bool, check: bool, max_age: str | None, fingerprint: bool) -> int:
    """Show what is served, how old it is, and any problem with newer data.

    \b
    Two machines have the same fingerprint if and only if they give the same answer for every address.
    With --check it also says what is wrong. Exit status: 0; with --check 1 if the data are too old or
    there is a problem, else 3 if a list is held for a person. Problems are: the last sync, push
    or refresh failed or did not end, and none has succeeded since; a source that the last sync could
    not use, or that never was pulled; and what the next sync needs and lacks: a durable write into
    the state, room for one more generation, a sound edits.db. Each is tried; a user who may only read
    is told what was not. Too old is: older than check_max_age (8d; --max-age changes it for once),
    or of a date in its file longer ago than max_data_age (presets: DB-IP 45d, GeoLite2 14d).

    \b
    Example: geolookup status --json
    """
    if max_age is not None and not check:
        raise click.UsageError("--max-age belongs to --check")
    settings, origins = load_with_origins({"check_max_age": max_age})
    rule = settings.stale
    with opening.open_or_build(stale="serve", vrf="") as geo:  # so that a fingerprint can be had of stale data too
        found = replace(geo.status(), stale_rule=rule)
        answers = geo.fingerprint() if fingerprint else None
        tried = geo.checks() if check else ()
    known = {source.name for source in found.sources if not (source.kind == REGISTRY and found.source == BUNDLED)}
    # Those that the state knows nothing of: they were added since, or no sync has published anything yet.
    never = [source for source in map(define, settings.stack) if source.name not in known]
    service = _service(settings, origins, found)
    code = exit_codes.DONE
    wrong: list[str] = []
    if check:
        old = _too_old(found, settings.check_max_age_s, given=max_age is not None, has_sources=bool(settings.stack))
        old += words.too_old_data(found, settings.max_data_age_s)
        wrong = [*old, *_problems(found, [source.name for source in never]), *checks.wrong(tried)]
        code = exit_codes.of_status(
            stale=bool(old), problem=len(wrong) > len(old), held=bool(found.held or found.sites_wait)
        )
    if as_json:
        names = [source.name for source in found.sources if not source.digest] + [source.name for source in never]
        told = {"wrong": wrong, "checks": [each.as_dict() for each in tried]} if check else {}
        extra = {**told, **({"answers": answers} if fingerprint else {})}
        output.json_result({**found.as_dict(), "service": service, "never_pulled": names, **extra})
        return code
    # Two counters for scripts that read the text: a person has no use for them.
    counters = "" if sys.stdout.isatty() else f" (sequence {found.sequence}, overlay {found.overlay})"
    pending = "unknown" if found.pending_edits is None else words.count(found.pending_edits, "edit")
    if found.waiting_edits:
        pending += f", {found.waiting_edits} of them held or rejected: see `geolookup outbox list`"
    lines = [
        ("state", found.home + (" (temporary)" if found.temporary else "")),
        ("generation", str(found.generation) + counters),
        ("source", found.source + (": countries only" if found.source == BUNDLED else "")),
        *([] if service is None else [("service", _service_line(service))]),
        ("published", shown(found.published_at)),
        ("dated", _dated(found.dated)),
        *([] if found.source == BUNDLED else [("checked", f"{shown(found.checked_at)} ({in_words(found.age_s)} ago)")]),
    ]
    if found.max_age_s is not None:
        verdict = {"serve": "served", "warn": "served with a warning", "refuse": "refused"}[rule]
        lines.append(
            ("max age", f"{in_words(found.max_age_s)}: {f'STALE, lookups are {verdict}' if found.stale else 'fresh'}")
        )
    lines += [
        ("geolocations", f"{found.geolocations} ({found.custom_geolocations} custom)"),
        ("blocks", str(found.blocks)),
        *([("networks", words.count(found.network_blocks, "block"))] if found.network_blocks else []),
        ("segments", f"{found.segments} default, {found.overlay_segments} custom"),
        ("digest", found.digest),
        ("pending", pending),
    ]
    if answers is not None:
        lines.append(("answers", answers))
    lines += [
        ("source " + source.name, _source_line(source, bundled=found.source == BUNDLED)) for source in found.sources
    ]
    lines += [("source " + source.name, _never_line(source)) for source in never]
    lines += [
        ("rolled back", f"generation {number}: an update that brings most of it back is held")
        for number in found.rolled_back
    ]
    if found.pinned:
        lines.append(("pinned", ", ".join(f"generation {number}" for number in found.pinned)))
    if found.held:
        look = "`geolookup generations show held` says why"
        lines.append(("held", f"{found.held}: geolookup sync --accept {found.held[:16]} publishes it; {look}"))
    if found.sites_wait:
        lines.append(("sites wait", found.sites_wait))
    lines += [(f"{each.run} FAILED", _failure_line(each)) for each in found.failures]
    if found.problem:
        lines.append(("PROBLEM", f"{found.problem} (for {in_words(found.problem_since_s or 0)})"))
    if found.source == BUNDLED and not settings.stack:
        lines.append(("more", MORE))
    if check:
        lines += [("WRONG", each) for each in wrong] or [("check", _well(checks.not_tried(tried), held=bool(code)))]
    output.lines(f"{name + ':':<14}{' ' if len(name) > 12 else ''}{value}" for name, value in lines)
    return code


@click.command()
@json_option
def verify(as_json: bool) -> int:
    """Check every byte and every invariant of what is published.

    \b
    Exit status: 0 undamaged, 1 damaged (each problem is named).
    Example: geolookup verify
    """
    from geolookup.state.publishing.verify import verify as verify_state  # late: `status` reads no files through

    home = load_settings().state_home()
    with output.progress("verifying", "%") as progress:
        problems = verify_state(home, progress=progress)
    value = {"home": home, "ok": not problems, "problems": problems}
    output.emit(as_json, value, lambda: None if problems else f"{home}: whole")
    for problem in problems:
        output.fail(problem)
    # What is wrong with edits.db no sync replaces: its message names the command that helps.
    if any("geolookup outbox restore" not in problem for problem in problems):
        output.note("geolookup: `geolookup sync` replaces what is damaged")
    return exit_codes.FAILED if problems else exit_codes.DONE
