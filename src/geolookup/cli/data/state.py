"""``status``, ``verify``, ``list`` and ``explain``: the state directory, looked into."""

from dataclasses import replace
from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.lookup import open as opening
from geolookup.model import FIELD_NAMES, Explanation
from geolookup.settings import table as settings_module
from geolookup.settings.durations import in_words
from geolookup.settings.table import Settings
from geolookup.state.directory import StateDirectory
from geolookup.state.verify import verify as verify_state

json_option = click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
url_option = click.option("--url", metavar="URL", help="The upstream's base address, instead of the configured one.")


url_moved_option = click.option(
    "--url-moved", is_flag=True, help="The service that this state belongs to has moved to --url."
)


def load_settings(**options: Any) -> Settings:
    """The settings with a command's options over them."""
    return settings_module.load(options)


def state_directory(settings: Settings) -> StateDirectory:
    """The state directory that the settings name."""
    return StateDirectory(settings.state_home(), keep_generations=settings.keep_generations)


@click.command()
@click.option("--check", is_flag=True, help="For monitoring: exit with 1 where data are stale or there is a problem.")
@click.option("--fingerprint", is_flag=True, help="Add a fingerprint of all answers (seconds for millions of blocks).")
@json_option
def status(as_json: bool, check: bool, fingerprint: bool) -> int:
    """Say what is served, how old it is, and what stands in the way of anything newer.

    \b
    Two machines have the same fingerprint exactly when they answer alike for every address.
    Exit status: 0; with --check 1 where the data are older than max_age or there is a problem, and
    3 where a list is held for a person.

    \b
    Example: geolookup status --json
    """
    rule = load_settings().stale
    with opening.open(stale="serve") as geo:  # so that a fingerprint can be had of stale data too
        found = replace(geo.status(), stale_rule=rule)
        answers = geo.fingerprint() if fingerprint else None
    code = exit_codes.DONE
    if check:
        code = exit_codes.FAILED if found.stale or found.problem else exit_codes.HELD if found.held else code
    if as_json:
        output.json_result({**found.as_dict(), **({"answers": answers} if fingerprint else {})})
        return code
    since = "dated" if found.dated != found.checked_at else "confirmed"
    lines = [
        ("state", found.home + (" (temporary)" if found.temporary else "")),
        ("generation", f"{found.generation} (sequence {found.sequence}, overlay {found.overlay})"),
        ("source", found.source),
        ("published", found.published_at),
        (since, f"{found.dated} ({in_words(found.age_s)} ago)"),
    ]
    if found.max_age_s is not None:
        verdict = {"serve": "served", "warn": "served with a warning", "refuse": "refused"}[rule]
        lines.append(
            ("max age", f"{in_words(found.max_age_s)}: {f'STALE, lookups are {verdict}' if found.stale else 'fresh'}")
        )
    lines += [
        ("geolocations", f"{found.geolocations} ({found.custom_geolocations} custom)"),
        ("blocks", str(found.blocks)),
        ("segments", f"{found.segments} default, {found.overlay_segments} custom"),
        ("digest", found.digest),
        ("pending", "unknown" if found.pending_edits is None else f"{found.pending_edits} edits"),
    ]
    if answers is not None:
        lines.append(("answers", answers))
    if found.pinned:
        lines.append(("pinned", ", ".join(f"generation {number}" for number in found.pinned)))
    if found.held:
        lines.append(("held", f"{found.held}: geolookup sync --accept {found.held[:16]} publishes it"))
    if found.problem:
        lines.append(("PROBLEM", f"{found.problem} (for {in_words(found.problem_since_s or 0)})"))
    output.done("\n".join(f"{name + ':':<14}{value}" for name, value in lines))
    return code


@click.command()
@json_option
def verify(as_json: bool) -> int:
    """Check every byte and every invariant of what is published.

    \b
    Exit status: 0 whole, 1 damaged (each problem is named).
    Example: geolookup verify
    """
    settings = load_settings()
    home = settings.state_home()
    problems = verify_state(home)
    if as_json:
        output.json_result({"home": home, "ok": not problems, "problems": problems})
    elif not problems:
        output.done(f"{home}: whole")
    for problem in problems:
        output.fail(problem)
    if problems:
        output.note("geolookup: `geolookup sync` replaces what is damaged")
    return exit_codes.FAILED if problems else exit_codes.DONE


@click.command("list")
@click.option("--country", help="Only this country code.")
@click.option("--region", help="Only this region code.")
@click.option("--city", help="Only this city.")
@click.option("--postalcode", help="Only this postal code.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="At most N geolocations.")
@click.option("--custom", "layer", flag_value="custom", help="Only custom geolocations.")
@click.option("--default", "layer", flag_value="default", help="Only default geolocations.")
@json_option
def list_geolocations(as_json: bool, **filters: Any) -> None:
    """List geolocations of the local cache, by locid. Filters combine, and ignore case.

    \b
    Example: geolookup list --country de --city berlin --top 10
    """
    with opening.open() as geo:
        status = geo.status()
    rows = StateDirectory(status.home).cache(status.generation).find(**filters)
    if as_json:
        encoded = [{"locid": place.locid, **place.fields(), "blocks": blocks} for place, blocks in rows]
        output.json_result(encoded)
        return
    for place, blocks in rows:
        fields = place.fields()
        shown = ", ".join(f"{name} {fields[name]}" for name in FIELD_NAMES if fields[name] not in (None, ""))
        output.row(str(place.locid), shown, f"{blocks} block{'' if blocks == 1 else 's'}")


@click.command()
@click.argument("address")
@json_option
def explain(address: str, as_json: bool) -> int:
    """Say why ADDRESS resolves as it does: every block that covers it, and which wins by which rule.

    \b
    Example: geolookup explain 8.8.8.8
    """
    with opening.open() as geo:
        found = geo.explain(address)
    if as_json:
        output.json_result(explanation_object(found))
    else:
        output.done(_explanation_text(found))
    return exit_codes.NOT_COVERED if found.match is None else exit_codes.DONE


def explanation_object(found: Explanation) -> dict[str, Any]:
    """What ``explain --json`` writes."""
    return {
        "ip": found.address,
        "match": None if found.match is None else found.match.flat(),
        "covering": [
            {
                "locid": item.geolocation.locid,
                **item.geolocation.fields(),
                "first": item.block.startip,
                "last": item.block.endip,
                "layer": item.layer,
                "wins": item.wins,
                "reason": item.reason,
                "pending": item.pending,
            }
            for item in found.covering
        ],
        "edits": list(found.edits),
        "generation": found.generation,
        "source": found.source,
        "age_s": round(found.age_s, 3),
    }


def _explanation_text(found: Explanation) -> str:
    lines = []
    if found.match is None:
        lines.append(f"{found.address}: no block of either layer covers it")
    else:
        match = found.match
        lines.append(
            f"{found.address}: {match.layer} geolocation {match.geolocation.locid}, {match.first}-{match.last}"
        )
    for item in found.covering:
        place = item.geolocation
        named = ", ".join(part for part in (place.city, place.region, place.postalcode, place.country) if part) or "-"
        verdict = "wins" if item.wins else "loses"
        lines.append(f"  {verdict:<5} {item.block}  {item.layer} {place.locid} ({named}): {item.reason}")
    lines += [f"  pending: {edit}" for edit in found.edits]
    lines.append(f"generation {found.generation} from {found.source}, confirmed {in_words(found.age_s)} ago")
    return "\n".join(lines)
