"""``geolookup generations …``: what was published here, compared, gone back to, pinned and pruned."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.data import impact
from geolookup.cli.options import format_option, json_option, load_settings, state_directory
from geolookup.history import diff as diff_module
from geolookup.lookup.freshness import Freshness
from geolookup.model import Geolocation, IPBlock
from geolookup.settings.durations import in_words
from geolookup.settings.table import Settings
from geolookup.state.clock import age_s
from geolookup.state.current import Current
from geolookup.state.directory import StateDirectory
from geolookup.state.generations.cache_compare import RowDifferences
from geolookup.state.generations.kept import PREVIOUS, SERVED, Generations, Kept
from geolookup.text import fields_text

_TOP = 20


def _configured() -> tuple[Settings, StateDirectory]:
    settings = load_settings()
    return settings, state_directory(settings)


@click.group()
def generations() -> None:
    """What was published here: list it, compare, go back, keep, remove.

    \b
    A GENERATION is a number, `served`, `previous`, or a moment, and then the one that was served at
    it: 2026-02-01 (the end of that day in UTC) or 2026-02-01T06:00:00Z.
    Example: geolookup generations list
    """


@generations.command("list")
@format_option
def list_kept(form: str) -> None:
    """List the generations that are kept, oldest first, and what is held.

    \b
    Example: geolookup generations list --format ndjson
    """
    _, directory = _configured()
    kept = Generations(directory).kept()
    if form == "json":
        output.json_result([each.as_dict() for each in kept])
    for each in kept:
        if form == "ndjson":
            sys.stdout.write(f"{output.json_line(each.as_dict())}\n")
        elif form == "text":
            output.row(*_cells(each))


def _cells(each: Kept) -> Sequence[str]:
    marks = [name for name in ("served", "pinned", "refused", "held") if getattr(each, name)]
    when = f"served from {each.published_at}" if each.published_at else f"pulled {each.pulled_at or '?'}"
    if each.problem:
        return (str(each.number), when, f"DAMAGED: {each.problem}", ", ".join(marks))
    rows = each.rows
    return (
        "-" if each.number is None else str(each.number),
        when,
        f"{rows.get('geolocations', '?')} geolocations ({rows.get('custom_geolocations', '?')} custom)",
        f"{rows.get('blocks', '?')} blocks",
        _size(each.bytes),
        f"{(each.digest or '')[:16]} from {each.source}",
        ", ".join(marks),
    )


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


@generations.command()
@click.argument("old", metavar="[A]", default=PREVIOUS)
@click.argument("new", metavar="[B]", default=SERVED)
@impact.addresses_option
@click.option("--blocks", is_flag=True, help="List each block that came or went, too.")
@click.option(
    "--top", type=click.IntRange(min=0), default=_TOP, show_default=True, help="At most so many rows of a kind; 0: all."
)
@json_option
def diff(old: str, new: str, addresses: str | None, blocks: bool, top: int, as_json: bool) -> int:
    """Say what changed from generation A to B, and for whom (default: from `previous` to `served`).

    \b
    Geolocations and blocks are those of the service's lists. Answers are what lookups gave, the
    local edits of each time included; they differ where any field of the geolocation does.
    Exit status: 0 (also where nothing differs), 2 no such generation is kept, 5 some of the
    addresses are malformed.

    \b
    Examples:
      geolookup generations diff
      geolookup generations diff 2026-02-01 served --addresses vips.txt --json
    """
    _, directory = _configured()
    limit = top or None
    exits = output.Exits()
    with diff_module.opened(directory, old, new) as sides:
        rows = sides.rows(top=limit, blocks=blocks)
        found = sides.impact()
        changed = None if addresses is None else impact.changed_of_file(sides.comparison(), addresses, exits)
        numbers = sides.old.current.generation, sides.new.current.generation
    if as_json:
        answer = {"from": numbers[0], "to": numbers[1], **_rows_object(rows, blocks=blocks), "answers": found.as_dict()}
        if changed is not None:
            answer["addresses"] = impact.changed_objects(*changed)
        output.json_result(answer)
        return exits.code
    output.done(f"from generation {numbers[0]} to {numbers[1]}")
    _say_rows(rows, limit, blocks=blocks)
    impact.say_impact(found, limit)
    if changed is not None:
        impact.say_changed(*changed)
    return exits.code


def _say_rows(rows: RowDifferences, top: int | None, *, blocks: bool) -> None:
    for what in ("geolocations", "blocks"):
        counts = rows.counts[what]
        output.done(f"{what}: {counts['added']} added, {counts['removed']} removed, {counts['changed']} changed")
        if what == "blocks":
            break
        for mark, places, count in (("+", rows.added, counts["added"]), ("-", rows.removed, counts["removed"])):
            for place in places:
                output.row(f"  {mark} {place.locid}", _described(place))
            impact.say_rest(count, top)
        for each in rows.changed:
            parts = [f"{name} {before!r} -> {after!r}" for name, (before, after) in each.fields().items()]
            if each.blocks_added or each.blocks_removed:
                parts.append(f"blocks +{each.blocks_added} -{each.blocks_removed}")
            output.row(f"  ~ {each.after.locid}", ", ".join(parts))
        impact.say_rest(counts["changed"], top)
    for mark, ranges in (("+", rows.blocks_added), ("-", rows.blocks_removed)):
        for locid, block in ranges if blocks else ():
            output.row(f"  {mark} {block}", f"of {locid}")


def _described(place: Geolocation) -> str:
    return fields_text(place.fields()) or "-"


def _rows_object(rows: RowDifferences, *, blocks: bool) -> dict[str, Any]:
    def place(found: Geolocation) -> dict[str, Any]:
        return {"locid": found.locid, **found.fields()}

    def block(locid: int, found: IPBlock) -> dict[str, Any]:
        return {"locid": locid, "startip": found.startip, "endip": found.endip}

    lists: dict[str, Any] = {
        "added": list(map(place, rows.added)),
        "removed": list(map(place, rows.removed)),
        "changed": [
            {
                "locid": each.after.locid,
                "fields": {name: {"before": came, "after": went} for name, (came, went) in each.fields().items()},
                "blocks": {"added": each.blocks_added, "removed": each.blocks_removed},
            }
            for each in rows.changed
        ],
    }
    answer: dict[str, Any] = {"counts": rows.counts, "geolocations": lists}
    if blocks:
        answer["blocks"] = {
            "added": [block(*each) for each in rows.blocks_added],
            "removed": [block(*each) for each in rows.blocks_removed],
        }
    return answer


@generations.command()
@click.argument("generation", required=False)
@click.option("--reason", default="", help="Why, for the history.")
@json_option
def rollback(generation: str | None, reason: str, as_json: bool) -> None:
    """Serve an older generation again: the one served before, or GENERATION.

    \b
    A publish like any other: running processes follow within a second, local edits stay laid over
    it, and it is in the history. What was served until now is not published by itself again, as
    long as the service has just that; anything else it has is.
    Exit status: 0 done, 1 the generation is damaged, 2 there is none, 75 a run is under way.

    \b
    Example: geolookup generations rollback --reason "half of DE was gone"
    """
    settings, directory = _configured()
    before = directory.require_current().generation
    number = None if generation is None else Generations(directory).resolve(generation)
    published = directory.rollback(number, reason=reason)
    if as_json:
        output.json_result({"from": before, **_published_object(published)})
    else:
        output.done(
            f"generation {published.generation} is served again, in place of {before}, which is not published again "
            f"by itself; to go back to it: geolookup generations rollback {before}"
        )
    freshness = Freshness(max_age_s=settings.max_age_s, rule=settings.stale)
    if freshness.is_stale(published):
        output.note(
            f"geolookup: warning: it is {in_words(age_s(published.dated))} old, past max_age, and stale is "
            f'"{settings.stale}"'
        )


def _published_object(published: Current) -> dict[str, Any]:
    return {
        "generation": published.generation,
        "sequence": published.sequence,
        "digest": published.digest,
        "published_at": published.published_at,
        "refused": list(published.refused),
        "pinned": list(published.pins),
    }


@generations.command()
@click.argument("generation")
@json_option
def pin(generation: str, as_json: bool) -> None:
    """Keep GENERATION, whatever retention says, until `unpin`.

    \b
    Example: geolookup generations pin served
    """
    _, directory = _configured()
    number = Generations(directory).resolve(generation)
    published = directory.pin(number)
    if as_json:
        output.json_result(_published_object(published))
    else:
        output.done(f"generation {number} is kept until `geolookup generations unpin {number}`")


@generations.command()
@click.argument("generation")
@json_option
def unpin(generation: str, as_json: bool) -> None:
    """Leave a pinned GENERATION to retention again.

    \b
    Example: geolookup generations unpin 42
    """
    _, directory = _configured()
    number = Generations(directory).resolve(generation)
    published = directory.unpin(number)
    if as_json:
        output.json_result(_published_object(published))
    else:
        output.done(f"generation {number} is pinned no longer")


@generations.command()
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Keep N besides pinned ones, instead of keep_generations."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
def prune(keep: int | None, dry_run: bool, as_json: bool) -> int:
    """Remove the generations past retention now, and not with the next publish.

    \b
    Kept are those that were served last (keep_generations of them, the served one included) and
    pinned ones.
    Example: geolookup generations prune --keep 2 --dry-run
    """
    _, directory = _configured()
    removed = directory.prune(keep=keep, dry_run=dry_run)
    total = sum(removed.values())
    if as_json:
        listed = [{"generation": number, "bytes": size} for number, size in sorted(removed.items())]
        output.json_result({"removed": listed, "bytes": total, "dry_run": dry_run})
        return exit_codes.DONE
    for number, size in sorted(removed.items()):
        output.row(f"generation {number}", _size(size))
    verb = "would be removed" if dry_run else "removed"
    count = len(removed)
    output.done(
        f"{count} generation{'' if count == 1 else 's'} {verb}: {total} bytes"
        if removed
        else "nothing is past retention"
    )
    return exit_codes.DONE
