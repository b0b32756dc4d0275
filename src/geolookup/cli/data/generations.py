"""``geolookup generations …``: list, compare, restore, pin and prune what was published here."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from geolookup.base.text import size
from geolookup.cli import exit_codes, output
from geolookup.cli.data import generation_text, impact
from geolookup.cli.edits.options import may_ask
from geolookup.cli.groups import LazyGroup
from geolookup.cli.inputs import Tally
from geolookup.cli.options import (
    MomentsCommand,
    chosen_fields,
    format_option,
    json_option,
    load_settings,
    state_directory,
)
from geolookup.history import diff as diff_module
from geolookup.history.held import find_held, is_held
from geolookup.lookup.follow import Freshness
from geolookup.model.errors import HeldError
from geolookup.settings.table import Settings
from geolookup.settings.times import in_words, shown
from geolookup.sites.site import listed
from geolookup.state.base.clock import age_s
from geolookup.state.base.current import Current
from geolookup.state.base.parts import is_received
from geolookup.state.publishing.catalogue import PREVIOUS, SERVED, Generations, KeptGeneration
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import words

_TOP = 20


def _configured() -> tuple[Settings, StateDirectory]:
    settings = load_settings()
    return settings, state_directory(settings)


@click.group(cls=LazyGroup)
def generations() -> None:
    """Work with the generations that were published here: list, compare, go back, keep, remove.

    \b
    A GENERATION is a number, `served`, `previous`, or a moment. A moment means the generation that
    was served then: `yesterday`, `2d` (that long ago), 06:00, 2026-02-01 (the end of that day),
    "2026-02-01 06:00". A time without a zone is local, and what is printed names the zone.
    `show` and `diff` also take `held`: what a sync holds for a person.
    Example: geolookup generations list
    """


@generations.command("list")
@chosen_fields(KeptGeneration.__slots__)
@format_option
def list_kept(form: str, only: tuple[str, ...] | None) -> None:
    """List the generations that are kept, oldest first, and what is held.

    \b
    Example: geolookup generations list --format ndjson
    """
    _, directory = _configured()
    kept = Generations(directory).kept()
    if form == "ndjson":
        for each in kept:
            found = each.as_dict()
            sys.stdout.write(f"{output.json_line({name: found[name] for name in only or found})}\n")
    elif form == "json" or only is not None:
        output.chosen_results(
            (each.as_dict() for each in kept), only or KeptGeneration.__slots__, as_json=form == "json"
        )
    else:
        with output.table("number", "when", "geolocations", "blocks", "size", "digest", "marks") as row:
            for each in kept:
                row(*_cells(each))


def _cells(each: KeptGeneration) -> Sequence[str]:
    marks = [name for name in ("served", "pinned", "packed", "refused", "held") if getattr(each, name)]
    when = f"pulled {shown(each.pulled_at or '?')}"
    if each.published_at:
        when = f"served from {shown(each.published_at)}"
    if each.problem:
        return (str(each.number), when, f"DAMAGED: {each.problem}", ", ".join(marks))
    if each.number is None and not each.rows:
        digest = (each.digest or "")[:16]
        return ("-", "a change of the stack", ", ".join(each.stack), "", "", digest, ", ".join(marks))
    rows = each.rows
    return (
        "-" if each.number is None else str(each.number),
        when,
        words.geolocations(rows),
        words.count(rows.get("blocks", 0), "block"),
        size(each.bytes),
        f"{(each.digest or '')[:16]} from {each.source if len(each.stack) < 2 else ', '.join(each.stack)}",
        ", ".join(marks),
    )


def _named(side: int | str) -> str:
    return f"generation {side}" if isinstance(side, int) else f"what is {side}"


@generations.command(cls=MomentsCommand)
@click.argument("generation", default=SERVED)
@json_option
def show(generation: str, as_json: bool) -> None:
    """Show what GENERATION is made of, or what is `held` and why (default: the served one).

    \b
    If several things are held, `held:NAME` means what is held of the source NAME, and `held:stack` a
    change of the stack.
    Exit status: 0, 2 the generation is not kept, or nothing is held.

    \b
    Example: geolookup generations show held
    """
    _, directory = _configured()
    if is_held(generation):
        held = find_held(directory, generation)
        output.emit(
            as_json,
            lambda: generation_text.held_object(held),
            lambda: generation_text.held_lines(held, directory.current_or_none()),
        )
        return
    found = Generations(directory)
    number = found.resolve(generation)
    kept = next(each for each in found.kept() if each.number == number)
    output.emit(
        as_json,
        lambda: {**kept.as_dict(), "report": directory.report(number)["report"]},
        lambda: generation_text.kept_lines(kept, {} if kept.problem else directory.report(number)),
    )


@generations.command(cls=MomentsCommand)
@click.argument("old", metavar="[A]", default=PREVIOUS)
@click.argument("new", metavar="[B]", default=SERVED)
@impact.addresses_option
@click.option("--blocks", is_flag=True, help="Also list each block that was added or removed.")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=_TOP,
    show_default=True,
    help="Show at most this many rows of each kind; 0 shows all.",
)
@json_option
def diff(old: str, new: str, addresses: str | None, blocks: bool, top: int, as_json: bool) -> int:
    """Show what changed from generation A to B, and for whom (default: from `previous` to `served`).

    \b
    Geolocations and blocks are compared source by source, as they were pulled; a source that is in
    one of the two stacks only is counted. Answers are what lookups gave, with the local edits of
    that time; two answers differ if any field of the geolocation differs.
    Exit status: 0 (also if nothing differs), 2 the generation is not kept, 5 some of the
    addresses are malformed.

    \b
    Examples:
      geolookup generations diff
      geolookup generations diff served held
      geolookup generations diff yesterday served --addresses vips.txt --json
    """
    _, directory = _configured()
    limit = top or None
    tally = Tally()
    with diff_module.opened(directory, old, new) as sides:
        sources = sides.sources(top=limit, blocks=blocks)
        found = sides.impact()
        changed = None if addresses is None else impact.changed_of_file(sides.comparison(), addresses, tally)
        numbers = sides.names
    if as_json:
        rows = generation_text.sources_object(sides, sources, blocks=blocks)
        answer = {"from": numbers[0], "to": numbers[1], **rows, "answers": found.as_dict()}
        if changed is not None:
            answer["addresses"] = impact.changed_objects(*changed)
        output.json_result(answer)
        return tally.code
    both = all(isinstance(side, int) for side in numbers)
    output.done(f"from {_named(numbers[0])} to {numbers[1] if both else _named(numbers[1])}")
    generation_text.say_sources(sides, sources, limit, blocks=blocks)
    impact.say_impact(found, limit)
    if changed is not None:
        impact.say_changed(*changed)
    return tally.code


@generations.command(cls=MomentsCommand)
@click.argument("generation", required=False)
@click.option("--reason", default="", help="Why, for the history.")
@click.option("--yes", is_flag=True, help="Do not ask, however many answers would be lost.")
@json_option
def rollback(generation: str | None, reason: str, yes: bool, as_json: bool) -> int:
    """Serve an older generation again: the one served before, or GENERATION.

    \b
    On a terminal it shows whose answers change, and asks. Elsewhere it needs --yes if too many
    addresses would lose their answer, its city or its country.
    Running processes follow within a second, and the history records it. Sites that were made or
    edited here stay as they are now: those which the older generation has otherwise are named.
    It lasts: a sync publishes neither the replaced list nor another one that brings back most of
    what this takes away. That one is held until you accept it.
    Exit status: 0 done, 1 the generation is damaged, 2 it is not kept, 3 too much would be lost, so
    --yes is needed, 75 another run is under way.

    \b
    Example: geolookup generations rollback --reason "half of DE was gone"
    """
    settings, directory = _configured()
    before = directory.require_current().generation
    named = None if generation is None else Generations(directory).resolve(generation)
    with directory.locks.run():
        number = directory.keeping.target(named)
    if not yes and not _is_meant(directory, settings, number, ask=may_ask(as_json=as_json)):
        output.done("nothing was changed")
        return exit_codes.DONE
    stay = _sites_that_stay(directory, number)  # before: once it is done, no error may say that it is not
    published = directory.keeping.rollback(number, reason=reason, instead_of=before)
    again = f"geolookup generations rollback {before}"
    output.emit(
        as_json,
        lambda: {"from": before, **_published_object(published), "sites_that_stay": stay},
        words.served_again(published.generation, before, again, lasts=not is_received(published.published)),
    )
    if stay and not as_json:
        output.done(
            f"as now, and not as generation {published.generation} has them, since they were made or edited here: "
            f"{listed(stay)}"
        )
    freshness = Freshness(max_age_s=settings.max_age_s, rule=settings.stale)
    if freshness.is_stale(published):
        output.warn(f'it is {in_words(age_s(published.confirmed))} old, past max_age, and stale is "{settings.stale}"')
    return exit_codes.DONE


def _sites_that_stay(directory: StateDirectory, generation: int) -> list[str]:
    """The sites of a generation's list, in words, of which lookups will answer something else."""
    record = directory.report(generation)["published"]
    if is_received(record):
        return []
    now = {locid: laid.place for locid, laid in directory.custom_layer(generation, record).items()}
    then = directory.cache(generation).custom()
    return [
        f"{place.place_text()} ({place.locid}{'' if place.locid in now else ', gone'})"
        for place in then
        if now.get(place.locid) != place
    ]


def _is_meant(directory: StateDirectory, settings: Settings, number: int, *, ask: bool) -> bool:
    """Show whose answers change if a generation is served again, and ask if a person is there.

    :raises HeldError: if too many answers would be lost, and there is nobody to ask
    """
    with diff_module.opened(directory, SERVED, number, sites="now") as sides:
        losses = sides.losses(settings)
        if ask:
            impact.say_impact(sides.impact(), _TOP)
        digest = sides.new.current.digest
    if ask:
        for reason in losses:
            output.warn(reason)
        return click.confirm(f"Serve generation {number} again?")
    if losses:
        raise HeldError(
            f"generation {number} is not served again: {'; '.join(losses)}. Look at it: geolookup generations diff "
            f"served {number}. If that is meant: geolookup generations rollback {number} --yes",
            digest=digest,
            reasons=losses,
        )
    return True


def _published_object(published: Current) -> dict[str, Any]:
    return {
        "generation": published.generation,
        "sequence": published.sequence,
        "digest": published.digest,
        "published_at": published.published_at,
        "refused": list(published.refused),
        "pinned": list(published.pins),
    }


@generations.command(cls=MomentsCommand)
@click.argument("generation")
@json_option
def pin(generation: str, as_json: bool) -> None:
    """Keep GENERATION until `unpin`, however old it gets.

    \b
    Example: geolookup generations pin served
    """
    _, directory = _configured()
    number = Generations(directory).resolve(generation)
    published = directory.keeping.pin(number)
    output.emit(
        as_json, lambda: _published_object(published), words.pinned(number, f"`geolookup generations unpin {number}`")
    )


@generations.command(cls=MomentsCommand)
@click.argument("generation")
@json_option
def unpin(generation: str, as_json: bool) -> None:
    """Let a pinned GENERATION be removed again when it is old.

    \b
    Example: geolookup generations unpin 42
    """
    _, directory = _configured()
    number = Generations(directory).resolve(generation)
    published = directory.keeping.unpin(number)
    output.emit(as_json, lambda: _published_object(published), words.unpinned(number))


@generations.command()
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep N generations and the pinned ones, instead of keep_generations.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
def prune(keep: int | None, dry_run: bool, as_json: bool) -> int:
    """Remove old generations now instead of with the next publish.

    \b
    It keeps the generations that were served last (as many as keep_generations says, the served one
    included), and pinned ones.
    Example: geolookup generations prune --keep 2 --dry-run
    """
    _, directory = _configured()
    removed = directory.keeping.prune(keep=keep, dry_run=dry_run)
    total = sum(removed.values())
    if as_json:
        listed = [{"generation": number, "bytes": octets} for number, octets in sorted(removed.items())]
        output.json_result({"removed": listed, "bytes": total, "dry_run": dry_run})
        return exit_codes.DONE
    for number, octets in sorted(removed.items()):
        output.row(f"generation {number}", size(octets))
    verb = "would be removed" if dry_run else "removed"
    count = words.count(len(removed), "generation")
    output.done(f"{count} {verb}: {words.count(total, 'byte')}" if removed else "nothing is past retention")
    return exit_codes.DONE
