"""Pulling every source of the stack, each by itself, and publishing what they are together."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from geolookup.errors import (
    GeoLookupError,
    HeldError,
    IndexFileError,
    PullError,
    StateDamagedError,
    StateError,
    WrongUpstreamError,
)
from geolookup.fields import FIRST_OWN_LOCID
from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition, stack
from geolookup.state.clock import now_text
from geolookup.state.current import Current, index_path
from geolookup.state.directory import Candidate, StateDirectory
from geolookup.state.files import open_to_all
from geolookup.state.generations.assemble import Layer, assemble, link_snapshot
from geolookup.state.generations.entries import entries as known_entries
from geolookup.state.generations.parts import BUNDLED, REGISTRY, Part, part_path, parts_of, refusal_of_stack
from geolookup.state.marks import Begun, Start
from geolookup.state.verify import damaged_sources
from geolookup.sync.pull.change import Change, change_of, pulls_that_hide
from geolookup.sync.pull.file import numbers_of_ours, pull_file
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import PullProgress, Result, Run
from geolookup.sync.pull.service import pull_service

#: Told a candidate generation and when its service's list began, in place of its being published.
Preview = Callable[[Candidate, Begun], None]


_NOT_OF_A_SOURCE = ("sources", "generation", "rejected", "twins", "notices")


def pull_all(
    directory: StateDirectory,
    settings: Settings,
    report: PullReport,
    *,
    transport: Transport | None = None,
    given: Definition | None = None,
    url_moved: bool = False,
    unmodified: Start | None = None,
    progress: PullProgress = lambda _done, _total: None,
    preview: Preview | None = None,
) -> None:
    """Pull every source, and publish the stack if any of it changed. The run lock must be held.

    ``report`` is filled as far as it comes, whatever is raised; its ``sources`` say what became of each. ``transport``
    is the service's, if there is one. ``given`` is the file that a person gave a state without settings; it becomes
    the only source. With ``preview`` nothing is published or confirmed: it is shown what would be.

    :raises SettingsError: if no source is configured, or a preset is unknown
    :raises WrongUpstreamError: if edits are pending for another URL
    :raises HeldError: if a source, or a change of the stack, is held for a person; the others were published
    :raises GeoLookupError: if a source failed: its last snapshot goes on, and the others were published
    """
    # Before the first request, so that a damaged edits.db is noticed while nothing has been done.
    directory.check_edits()
    if (warning := open_to_all(directory.home)) is not None:
        report.warnings.append(warning)
    current = directory.current_or_none()
    entries = {str(entry["name"]): dict(entry) for entry in known_entries(directory.home, current)} if current else {}
    definitions = (given,) if given is not None else stack(settings.stack, list(entries.values()))
    if settings.url is not None:
        has_left = current is not None and current.published.get("custom") is not None
        _require_same_upstream(directory, settings.url, url_moved=url_moved or has_left)
    with contextlib.ExitStack() as owned:
        run = Run(
            directory=directory,
            settings=settings,
            current=current,
            entries=entries,
            owned=owned,
            progress=progress,
            preview=preview is not None,
            damaged=_damaged(directory, current, report),
            following=_following(directory, current),
        )
        results = [
            _pull_one(run, definition, transport, report if len(definitions) == 1 else None, unmodified)
            for definition in sorted(definitions, key=lambda each: not each.is_service)
        ]
        by_name = {result.definition.name: result for result in results}
        ordered = [by_name[definition.name] for definition in definitions]
        report.sources = [_summary(result) for result in ordered]
        if len(ordered) > 1:
            _join_reports(report, ordered)
        _publish(run, ordered, report, given=given is not None, preview=preview, url_moved=url_moved)
    if preview is None and settings.url is not None and directory.upstream_url() not in (None, settings.url):
        directory.remember_upstream(settings.url)


def _require_same_upstream(directory: StateDirectory, url: str, *, url_moved: bool) -> None:
    known = directory.upstream_url()
    if known not in (None, url) and not url_moved and (pending := directory.local.pending()):
        raise WrongUpstreamError(
            f"this state belongs to {known}, and {pending} edits are pending for it: push them first, or say with "
            f"--url-moved that the service has moved to {url}"
        )


def _damaged(directory: StateDirectory, current: Current | None, report: PullReport) -> frozenset[str]:
    if current is None:
        return frozenset()
    found = damaged_sources(directory.home, current)
    if found:
        report.warnings.append("what is published is damaged: a whole new generation takes its place")
    return found


def _following(directory: StateDirectory, current: Current | None) -> int:
    """The next locid of ours: also if CURRENT was lost, above all that are served."""
    if current is None:
        return FIRST_OWN_LOCID
    if current.next_locid:
        return current.next_locid
    return max([FIRST_OWN_LOCID - 1, *numbers_of_ours(index_path(directory.home, current.generation))]) + 1


def _pull_one(
    run: Run, definition: Definition, transport: Transport | None, report: PullReport | None, unmodified: Start | None
) -> Result:
    """One source; whatever goes wrong with it is in the result."""
    url = run.settings.url if definition.is_service else None
    own = report or PullReport(url=url)
    own.name = definition.name
    try:
        if definition.is_service:
            assert transport is not None, "the settings have a service, and so its transport"
            assert url is not None
            result = pull_service(run, definition, transport, own, url, unmodified=unmodified)
            if result.candidate is not None:
                run.service_indexes.append(result.candidate.index)
            return result
        return pull_file(run, definition, own, taken=_taken(run))
    except StateDamagedError as error:
        return Result(definition=definition, report=own, error=error)
    except StateError:
        raise  # the state itself cannot be used: no other source fares better
    except GeoLookupError as error:
        return Result(definition=definition, report=own, error=error)


def _taken(run: Run) -> frozenset[int]:
    """Numbers from our range that the service's snapshot uses."""
    found: frozenset[int] = frozenset()
    for entry in run.entries.values():
        before = run.baseline(str(entry["name"])) if entry["kind"] == "service" else None
        if before is not None:
            found |= numbers_of_ours(before.index)
    for path in run.service_indexes:
        found |= numbers_of_ours(path)
    return found


def _summary(result: Result) -> dict[str, Any]:
    """What became of one source, for people and ``--json``."""
    if result.error is not None:
        result.report.outcome = "failed"
    elif result.reasons:
        result.report.outcome = "held"
    return {
        **{name: value for name, value in result.report.as_dict().items() if name not in _NOT_OF_A_SOURCE},
        "problem": str(result.error) if result.error is not None else "; ".join(result.reasons) or None,
    }


def _join_reports(report: PullReport, results: Sequence[Result]) -> None:
    """What a report of several sources says of all of them together."""
    for result in results:
        own = result.report
        report.warnings += [text for text in own.warnings if text not in report.warnings]
        report.twins += own.twins
        report.notices += own.notices
        report.bytes_read += own.bytes_read
        report.rejected_geolocations += own.rejected_geolocations
        report.rejected_blocks += own.rejected_blocks
        for step, seconds in own.durations_s.items():
            report.durations_s[step] = round(report.durations_s.get(step, 0.0) + seconds, 3)


def _publish(
    run: Run,
    results: Sequence[Result],
    report: PullReport,
    *,
    given: bool,
    preview: Preview | None,
    url_moved: bool = False,
) -> None:
    """Publish what changed, hold what must be held, note the rest, and then say what went wrong."""
    directory, current = run.directory, run.current
    layers = {
        result.definition.name: layer for result in results if (layer := _layer(run, result, preview)) is not None
    }
    wanted = [result.definition.name for result in results if result.definition.name in layers]
    served = served_names(current)
    change = Change(names=wanted)
    if current is not None and served and not given:
        old = {part.name: part for part in parts_of(current.published)}
        for part in old.values():  # one that is configured no more goes on in the old stack
            layers.setdefault(part.name, Layer(part=part, path=part_directory(run, part)))
        _hold_what_hides(run, results, layers, served)
        change = change_of(directory.home, run.settings, current, layers, wanted, served)
    names = change.names
    new = {result.definition.name: result for result in results if result.published is not None}
    entries = _entries(run, results, change)
    changed = _is_changed(run, names, layers, served)
    if preview is not None:
        if changed or any(result.candidate is not None for result in results):
            record = _show(run, [layers[name] for name in names], preview)
            if len(results) > 1:
                report.rows, report.digest = record["rows"], record["digest"]
            if report.outcome != "rolled-back":
                report.outcome = "previewed"
        elif current is not None:
            report.generation, report.digest = current.generation, current.digest
    elif names and changed:
        begun = time.monotonic()
        stacked = [adopted(run, layers[name]) for name in names]
        spare = [layers[name] for name in new if name not in names]
        document = report.as_dict() if len(results) == 1 else {**report.as_dict(), "outcome": "published"}
        published = directory.publish_stack(
            stacked,
            spare=spare,
            entries=entries,
            refused=_refused(run, change),
            report=document,
            next_locid=run.following,
            url_moved=url_moved,
        )
        report.generation, report.outcome = published.generation, "published"
        if len(results) > 1:
            report.rows, report.digest = published.published["rows"], published.digest
        for name in new:
            directory.holding.drop(name)
        _say_carried(run, published, report, url_moved=url_moved)
        report.durations_s["publish"] = round(time.monotonic() - begun, 3)
    elif current is not None and current.recovered is None:
        spare = [layers[name] for name in new]
        if spare or entries != list(current.sources):
            current = directory.note_sources(entries, spare=spare, next_locid=run.following)
        report.generation = current.generation
        if report.digest is None or len(results) > 1:
            report.digest = current.digest
    for result in results:
        if result.rolled_back:
            _say_rolled_back(report, result, current)
        if result.candidate is not None and result.published is None and not (run.preview and result.rolled_back):
            directory.holding.hold(result.candidate, result.definition.name)
    if preview is None:
        if change.held is not None:
            directory.holding.hold_stack(wanted, change.held.digest, list(change.held.reasons))
        else:
            directory.holding.drop_stack()
        _expire(directory, report)
    _raise(results, change, report)


def _say_carried(run: Run, published: Current, report: PullReport, *, url_moved: bool) -> None:
    """That a service came after another had left, and what waits to be pushed to it."""
    origin = None if run.current is None else run.current.published.get("custom")
    url = published.published.get("url")
    pending = 0 if origin is None or url in (None, origin) or url_moved else run.directory.local.pending()
    if pending:
        report.warnings.append(
            f"{url} comes after {origin}, which has left: {pending} edits wait, which give it the custom geolocations "
            "that it never had: `geolookup push` sends them"
        )


def _expire(directory: StateDirectory, report: PullReport) -> None:
    """Destroy what a licence wants gone, and say so if somebody had pinned it."""
    current = directory.current_or_none()
    if current is None:
        return
    for number, name in directory.expire().items():
        if number in current.pins:
            report.warnings.append(
                f"generation {number} was pinned and is gone: the licence of {name} wants superseded versions destroyed"
            )


def _hold_what_hides(run: Run, results: Sequence[Result], layers: dict[str, Layer], served: list[str]) -> None:
    """Hold each new snapshot whose masks would hide too much of what is served."""
    assert run.current is not None
    for result in results:
        name = result.definition.name
        if result.published is None or name not in served or not (result.report.rows or {}).get("masks"):
            continue
        reasons = pulls_that_hide(run.directory, run.current, [layers[each] for each in served])
        if reasons and not run.preview:
            result.reasons = tuple(reasons)
            before = run.baseline(name)
            assert before is not None, "it is served"
            layers[name] = Layer(part=before.part, path=before.path)


def _say_rolled_back(report: PullReport, result: Result, current: Current | None) -> None:
    who = "the service" if result.definition.is_service else f"source {result.definition.name}"
    report.warnings.append(
        f"{who} still has the content that was rolled back here, so it was not published; "
        f"to publish it after all: geolookup sync --accept {result.digest[:16]}"
    )
    if current is not None and report.generation is None:
        report.generation = current.generation


def _layer(run: Run, result: Result, preview: Preview | None) -> Layer | None:
    """What a source answers with now: its new snapshot, else the one that it had; None if it has none."""
    candidate = result.published if preview is None else result.candidate
    if candidate is not None:
        record = candidate.document()["published"]
        return Layer(part=Part(result.definition.name, record["kind"], 0, record["digest"]), path=candidate.path)
    before = run.baseline(result.definition.name)
    if before is None or (before.record["source"] == BUNDLED and result.definition.kind != REGISTRY):
        return None
    return Layer(part=before.part, path=before.path)


def part_directory(run: Run, part: Part) -> str:
    """Where the snapshot of a part of what is served stands."""
    before = run.baseline(part.name)
    assert run.current is not None
    if before is not None and before.part.snapshot == part.snapshot:
        return before.path
    return part_path(run.directory.home, run.current.generation, part)


def served_names(current: Current | None) -> list[str]:
    """The names of the served stack; nothing while only the embedded default answers, which is never a baseline."""
    if current is None:
        return []
    parts = parts_of(current.published)
    if len(parts) == 1 and parts[0].kind == REGISTRY and current.published["source"] == BUNDLED:
        return []
    return [part.name for part in parts]


def _is_changed(run: Run, names: list[str], layers: dict[str, Layer], served: list[str]) -> bool:
    current = run.current
    if current is None or current.recovered is not None or run.damaged or names != served:
        return True
    old = {part.name: part for part in parts_of(current.published)}
    return any(layers[name].part != old[name] for name in names)


def adopted(run: Run, layer: Layer) -> Layer:
    """A layer that can be named by number: the own files of an earlier release's generation get a second name."""
    if layer.part.snapshot or run.current is None or not _is_generation(run, layer.path):
        return layer
    candidate = run.candidate()
    link_snapshot(layer.path, candidate.path)
    record = {**run.current.published, "name": layer.part.name, "kind": layer.part.kind}
    known = record.pop("files")
    candidate.seal(record, {}, known=known)
    return Layer(part=layer.part, path=candidate.path)


def _is_generation(run: Run, path: str) -> bool:
    assert run.current is not None
    return path == os.path.dirname(index_path(run.directory.home, run.current.generation))


def _show(run: Run, layers: Sequence[Layer], preview: Preview) -> dict[str, Any]:
    """Show what would be published, made where nobody looks; returns its record."""
    candidate = run.candidate()
    custom = run.directory.custom_of(run.current)
    try:
        about = run.directory.about(run.current, layers)
        record = assemble(candidate, layers, custom=custom, about=about, report={})
    except IndexFileError as error:
        raise StateDamagedError(f"what would be published cannot be made: {error}") from error
    preview(candidate, Begun.of(record))
    return record


def _entries(run: Run, results: Sequence[Result], change: Change) -> list[dict[str, Any]]:
    """What CURRENT knows of each source from now on: of those that are configured, and of those that still answer."""
    found = []
    for result in results:
        name = result.definition.name
        entry = {**run.entries.get(name, {}), **_terms(result.definition)}
        if result.published is not None:
            entry.pop("pulled_at", None)
        if result.candidate is None or result.published is not None:
            entry |= result.entry
        problem = str(result.error).partition("\n")[0] if result.error is not None else None
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
    return found + [dict(entry) for name, entry in run.entries.items() if name in change.names and name not in known]


def _terms(definition: Definition) -> dict[str, Any]:
    return {name: value for name, value in definition.terms().items() if name != "attribution" or value}


def _refused(run: Run, change: Change) -> tuple[str, ...] | None:
    """What was rolled back: a stack that the settings do not ask for any more is forgotten."""
    if run.current is None:
        return None
    kept = refusal_of_stack(change.refused) if change.refused is not None else None
    return tuple(text for text in run.current.refused if not text.startswith("stack ") or text == kept)


def _raise(results: Sequence[Result], change: Change, report: PullReport) -> None:
    """Say what went wrong: a failure goes before what is held."""
    failed = [result for result in results if result.error is not None]
    held = [result for result in results if result.reasons]
    if len(results) == 1 and failed:
        assert failed[0].error is not None
        raise failed[0].error
    if failed:
        told = "; ".join(f"{result.definition.name}: {result.error}" for result in failed)
        rest = "what the others have is published" if report.outcome == "published" else "the others have nothing new"
        if len(failed) == len(results):
            rest = "what was published goes on serving"
        raise PullError(
            f"{len(failed)} of {len(results)} sources failed, and answer as before if they ever were pulled; {rest}: "
            f"{told}"
        ) from failed[0].error
    if held:
        result = held[0]
        name = "" if len(results) == 1 else f"source {result.definition.name}: "
        raise HeldError(
            f"{name}the pulled list is held, and what was published goes on serving: {'; '.join(result.reasons)}. "
            f"If that is right: geolookup sync --accept {result.digest[:16]}",
            digest=result.digest,
            reasons=result.reasons,
        )
    if change.held is not None:
        raise change.held
