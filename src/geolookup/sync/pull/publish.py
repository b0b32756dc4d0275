"""Publish what the pulls of all sources came to, or show what would be; hold the rest, and say what went wrong."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from geolookup.base.text import count, first_line
from geolookup.model.errors import HeldError, IndexFileError, PullError, StateDamagedError, StateError
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.settings.times import of_day, shown
from geolookup.sources.bundled import MORE
from geolookup.sources.providers import Terms
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Begun
from geolookup.state.base.parts import parts_of, refusal_of_stack
from geolookup.state.generations.assemble import StackedSource, about_of, assemble
from geolookup.state.generations.rolled_back import in_effect
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run
from geolookup.sync.pull.context import Pull, PullReport, Result
from geolookup.sync.pull.rolled_back import gone
from geolookup.sync.pull.stack import (
    StackChange,
    is_changed,
    served_names,
)

#: Called with a candidate generation and when its service's list began, in place of its being published.
Preview = Callable[[Candidate, Begun], None]


def publish(
    pull: Pull,
    results: Sequence[Result],
    change: StackChange,
    report: PullReport,
    *,
    preview: Preview | None,
    url_moved: bool = False,
) -> None:
    """Publish what changed, hold what must be held, note the rest, and then say what went wrong."""
    directory, current = pull.directory, pull.current
    rolled_back = in_effect(directory.home, current) if current is not None else []
    layers, wanted = change.layers, change.wanted
    if change.given and any(result.error is not None for result in results):
        _raise_failures(results, change, report, pull.entries)  # of files that are given together none is left out
    names = wanted if preview is not None and change.refused is None else change.names
    new = {result.definition.name: result for result in results if result.published is not None}
    entries = _entries(pull, results, change)
    changed = is_changed(pull, names, layers, served_names(current))
    if names and changed:
        _say_unplaced(current, [layers[name] for name in names], report)
    if preview is not None:
        if changed or any(result.candidate is not None for result in results):
            record = _show(pull, [layers[name] for name in names], preview)
            if len(results) > 1:
                report.rows, report.digest = record["rows"], record["digest"]
            if report.outcome != "rolled-back":
                report.outcome = "previewed"
        elif current is not None:
            report.generation, report.digest = current.generation, current.digest
    elif names and changed:
        begun = time.monotonic()
        stacked = [layers[name] for name in names]
        spare = [layers[name] for name in new if name not in names]
        document = report.as_dict() if len(results) == 1 else {**report.as_dict(), "outcome": "published"}
        published = pull.run.publish_stack(
            stacked,
            spare=spare,
            entries=entries,
            refused=_refused(pull, change),
            report=document,
            next_locid=pull.following,
            url_moved=url_moved,
        )
        report.generation, report.outcome = published.generation, "published"
        report.custom_places = published.overlay_file["locations"]
        if len(results) > 1:
            report.rows, report.digest = published.published["rows"], published.digest
        for name in new:
            directory.holding.drop(name)
        _say_carried(pull, published, report, url_moved=url_moved)
        report.durations_s["publish"] = round(time.monotonic() - begun, 3)
    elif current is not None and current.recovered is None:
        spare = [layers[name] for name in new]
        if spare or entries != list(current.sources) or pull.following > max(current.next_locid, FIRST_OWN_LOCID):
            current = pull.run.note_sources(entries, spare=spare, next_locid=pull.following)
        report.generation = current.generation
        if report.digest is None or len(results) > 1:
            report.digest = current.digest
    for result in results:
        if result.rolled_back:
            _say_rolled_back(report, result, current)
        if result.candidate is not None and result.published is None and not (pull.preview and result.rolled_back):
            directory.holding.hold(result.candidate, result.definition.name)
    if preview is None:
        _drop_withdrawn(pull, results)
    if change.held is not None and (preview is None or change.given):
        reasons = list(change.held.reasons)
        directory.holding.hold_stack(wanted, change.held.digest, reasons, given=change.given, ends=change.ends)
    elif preview is None:
        directory.holding.drop_stack(given=change.given or bool(pull.settings.stack))
    if preview is None:
        _expire(pull.run, report)
        report.warnings += gone(directory, rolled_back)
        _pack(pull.run, report)
    _raise_failures(results, change, report, pull.entries)


def _drop_withdrawn(pull: Pull, results: Sequence[Result]) -> None:
    """Forget what is held of sources that have what is served again: nobody would want that any more.

    What a person gave from another place is not theirs, and waits on.
    """
    same = {each.definition.name for each in results if each.candidate is None and each.error is None}
    for name, held in pull.directory.holding.candidates().items():
        record, entry = held.document()["published"], pull.entries.get(name, {})
        if name in same and (record.get("location") or "") == (entry.get("location") or ""):
            pull.directory.holding.drop(name)


def _entries(pull: Pull, results: Sequence[Result], change: StackChange) -> list[dict[str, Any]]:
    """The entries of CURRENT from now on: of those that are configured, and of those that still answer."""
    found = []
    for result in results:
        name = result.definition.name
        entry = dict(pull.entries.get(name, {}))
        if result.published is not None:
            entry.pop("pulled_at", None)
        if result.candidate is None or result.published is not None:
            entry |= result.entry
        # While a file that a person gave is held, the source is still the file before: a bare sync reads that.
        is_file_before = bool(result.reasons) and result.definition.given and bool(entry.get("snapshot"))
        if not is_file_before:
            entry |= result.definition.terms(Terms.of_dict(entry.get("recognised")))
        problem = first_line(str(result.error)) if result.error is not None else None
        if result.reasons:
            problem = f"held: {'; '.join(result.reasons)}"
        if problem is None:
            entry.pop("problem", None)
            entry.pop("since", None)
        else:
            since = entry.get("since") if entry.get("problem") else None
            entry |= {"problem": problem, "since": since or now_text()}
        if "snapshot" not in entry and result.published is None:
            if result.error is None or result.definition.given:
                continue
            entry = {"kind": result.definition.kind, "snapshot": 0, "digest": "", "checked_at": "", **entry}
        found.append({**entry, "name": name})
    known = {result.definition.name for result in results}
    return found + [dict(entry) for name, entry in pull.entries.items() if name in change.names and name not in known]


def _refused(pull: Pull, change: StackChange) -> tuple[str, ...] | None:
    """The refusals from now on: a stack that the settings do not ask for any more is forgotten."""
    if pull.current is None:
        return None
    kept = refusal_of_stack(change.refused) if change.refused is not None else None
    return tuple(text for text in pull.current.refused if not text.startswith("stack ") or text == kept)


def _show(pull: Pull, layers: Sequence[StackedSource], preview: Preview) -> dict[str, Any]:
    """Show what would be published, made where nobody looks; returns its record."""
    candidate = pull.candidate()
    custom = pull.run.custom_cache()
    try:
        about = about_of(pull.current, layers)
        record = assemble(candidate, layers, custom=custom, about=about, report={})
    except IndexFileError as error:
        raise StateDamagedError(f"building what would be published failed: {error}") from error
    preview(candidate, Begun.of(record))
    return record


def _say_carried(pull: Pull, published: Current, report: PullReport, *, url_moved: bool) -> None:
    """Warn that a service came after another had left, and that edits wait to be pushed to it."""
    origin = None if pull.current is None else pull.current.published.get("custom")
    url = published.published.get("url")
    pending = 0 if origin is None or url in (None, origin) or url_moved else pull.directory.local.pending()
    if pending:
        report.warnings.append(
            f"{url} comes after {origin}, which has left: {count(pending, 'edit')} waiting to give it the custom "
            "geolocations that it never had: `geolookup push` sends them"
        )


def _say_unplaced(current: Current | None, layers: Sequence[StackedSource], report: PullReport) -> None:
    """Warn that sources of networks alone take the place of what said where addresses are: the bundled data, mostly."""
    had = current is not None and any(part.has_places for part in parts_of(current.published))
    if had and not any(layer.part.has_places for layer in layers):
        report.warnings.append(f"no source says where addresses are, so answers have no country any more; {MORE}")


def _say_rolled_back(report: PullReport, result: Result, current: Current | None) -> None:
    who = "the service" if result.definition.is_service else f"source {result.definition.name}"
    report.warnings.append(
        f"{who} still has the content that was rolled back here, so it was not published; "
        f"to publish it after all: geolookup sync --accept {result.digest[:16]}"
    )
    if current is not None and report.generation is None:
        report.generation = current.generation


def _expire(run: Run, report: PullReport) -> None:
    """Destroy what a licence wants gone, and say so if somebody had pinned it."""
    pins = () if run.current is None else run.current.pins
    for number, name in run.expire().items():
        if number in pins:
            report.warnings.append(
                f"generation {number} was pinned and is gone: the licence of {name} wants superseded versions destroyed"
            )


def _pack(run: Run, report: PullReport) -> None:
    """Keep what was superseded by what differs. It is published by now: what does not succeed is a warning."""
    begun = time.monotonic()
    try:
        run.pack()
    except StateError as error:
        report.warnings.append(f"earlier generations are kept whole, which takes more room: {error}")
    report.durations_s["pack"] = round(time.monotonic() - begun, 3)


def record_done(directory: StateDirectory, report: PullReport, what: str, outcome: str, after: dict[str, Any]) -> None:
    """Add to the history what cannot be undone any more: if that fails, the run has not."""
    try:
        directory.edits.record(what, outcome, after=after)
    except StateError as error:
        report.warnings.append(f"this is missing from the history, and all else is done: {error}")


def _raise_failures(
    results: Sequence[Result], change: StackChange, report: PullReport, entries: Mapping[str, Mapping[str, Any]]
) -> None:
    """Say what went wrong: a failure goes before what is held. ``entries`` are what was known of each source before."""
    failed = [result for result in results if result.error is not None]
    held = [result for result in results if result.reasons]
    if len(results) == 1 and failed:
        assert failed[0].error is not None
        raise failed[0].error
    if failed:
        told = "; ".join(f"{_with_date(result, entries)}: {result.error}" for result in failed)
        rest = "what the others have is published" if report.outcome == "published" else "the others have nothing new"
        if len(failed) == len(results):
            rest = "what was published goes on serving"
        raise PullError(
            f"{len(failed)} of {len(results)} sources failed, and answer as before if they ever were pulled; {rest}: "
            f"{told}"
        ) from failed[0].error
    if held and not (change.given and change.held is not None):
        result = held[0]
        name = "" if len(results) == 1 else f"source {result.definition.name}: "
        raise HeldError(
            f"{name}the pulled list is held, and what was published goes on serving: {'; '.join(result.reasons)}. "
            f"Look at it: {_look(result, alone=len(held) == 1 and change.held is None)}. If it is right: "
            f"geolookup sync --accept {result.digest[:16]}",
            digest=result.digest,
            reasons=result.reasons,
        )
    if change.held is not None:
        raise change.held


def _look(result: Result, *, alone: bool) -> str:
    """The command that shows what is held: with its source's name, if more is."""
    return f"geolookup generations diff served held{'' if alone else f':{result.definition.name}'}"


def _with_date(result: Result, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of a source that failed, with the date of the data that it answers with, and since when it fails."""
    name = result.definition.name
    entry = entries.get(name, {})
    if not entry.get("digest"):
        return f"{name} (never pulled)"
    since = f", fails since {shown(str(entry['since']))}" if entry.get("problem") and entry.get("since") else ""
    checked = shown(str(entry.get("checked_at", "?")))
    return f"{name} (its data are {of_day(entry.get('dated'))}, checked {checked}{since})"
