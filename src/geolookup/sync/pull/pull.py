"""Pull every source of the stack, each by itself, and publish what they are together.

Each source is read into a candidate (`service`, `file`, `staging`) and judged against its snapshot before (`guard`);
what they came to is published, held or noted (`publish`), as the stack that they make (`stack`).
"""

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from geolookup.base.text import count
from geolookup.http.transport import Transport
from geolookup.model.errors import (
    GeoLookupError,
    HeldError,
    SettingsError,
    StateDamagedError,
    StateError,
    WrongUpstreamError,
)
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition, stack
from geolookup.state.base import failures
from geolookup.state.base.current import Current, index_path
from geolookup.state.base.files import open_to_all
from geolookup.state.base.marks import Start
from geolookup.state.base.parts import is_received
from geolookup.state.edits.outbox.kept import UNPROVED
from geolookup.state.edits.outbox.row import PENDING_STATES
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.state.publishing.verify import damaged_sources
from geolookup.sync.pull.context import Pull, PullReport, Result
from geolookup.sync.pull.file import numbers_of_ours, pull_file
from geolookup.sync.pull.fleet import receive
from geolookup.sync.pull.publish import Preview, publish, record_done
from geolookup.sync.pull.service import pull_service
from geolookup.sync.pull.stack import decide

_NOT_OF_A_SOURCE = ("sources", "generation", "rejected", "twins", "notices")


def pull(
    directory: StateDirectory,
    settings: Settings,
    *,
    given: Sequence[Definition] = (),
    url_moved: bool = False,
    progress: Progress = unwatched,
) -> PullReport:
    """Pull every source that is configured, and publish what they are together, unless it is what is served.

    Takes the run lock. If anything fails, what was published goes on serving. ``given`` are files for a state for which
    nothing is configured: they become its only sources, the first above the others. ``url_moved`` says that the service
    that this state belongs to has moved to the configured URL.

    :raises WrongUpstreamError: if edits are pending for another URL
    :raises HeldError: if the guard holds a snapshot, or a change of the stack, for a person; it is kept, complete
    :raises PullError: if a source must not be published
    :raises UpstreamError: if a source could not be fetched whole
    :raises StateBusyError: if another run is under way
    """
    report = PullReport(url=settings.url)
    with running(directory) as run, failures.noted(directory.home, "sync", "pull"), contextlib.ExitStack() as opened:
        report.tell(opened.enter_context(run.notices_of_before()))
        transport = None if settings.url is None else opened.enter_context(Transport(settings))
        pull_locked(run, settings, transport, report, given=given, url_moved=url_moved, progress=progress)
        if transport is not None:
            report.tell(directory.local.held(but={notice["locid"] for notice in report.notices}))
    return report


def configured_url(settings: Settings) -> str:
    """The upstream's URL.

    :raises SettingsError: if none is configured
    """
    if settings.url is None:
        raise SettingsError(
            "no upstream is configured: give --url, set GEOLOOKUP_URL, or write `url` in geolookup.toml"
        )
    return settings.url


def pull_locked(
    run: Run,
    settings: Settings,
    transport: Transport | None,
    report: PullReport,
    *,
    given: Sequence[Definition] = (),
    url_moved: bool = False,
    unmodified: Start | None = None,
    progress: Progress = unwatched,
    preview: Preview | None = None,
) -> None:
    """`pull` by a run under way; ``report`` is filled as far as it comes, even if an error is raised.

    ``transport`` is the service's, None without one. The pull goes into
    the history, failed or not.
    """
    if run.current is not None and is_received(run.current.published):
        receive(run, settings, report, given=bool(given), preview=preview is not None, progress=progress)
        return
    try:
        _pull_all(
            run,
            settings,
            report,
            transport=transport,
            given=given,
            url_moved=url_moved,
            unmodified=unmodified,
            progress=progress,
            preview=preview,
        )
        if preview is not None:
            return
    except GeoLookupError as error:
        asked = isinstance(error, WrongUpstreamError | SettingsError)
        if not isinstance(error, StateError) and not asked and (preview is None or isinstance(error, HeldError)):
            _record_failed(run.directory, error, settings.url)
        raise
    after = {"url": settings.url, "generation": report.generation, "digest": report.digest}
    record_done(run.directory, report, "pull", report.outcome, after)


def _pull_all(
    run: Run,
    settings: Settings,
    report: PullReport,
    *,
    transport: Transport | None = None,
    given: Sequence[Definition] = (),
    url_moved: bool = False,
    unmodified: Start | None = None,
    progress: Progress = unwatched,
    preview: Preview | None = None,
) -> None:
    """Pull every source, and publish the stack if any of it changed.

    ``report`` is filled as far as it comes, also if an error is raised; its ``sources`` tell each outcome.
    ``transport`` is the service's, if there is one. ``given`` are the files that a person gave a state without
    settings; they become the only sources. With ``preview`` nothing is published or confirmed: it is shown what would
    be.

    :raises SettingsError: if no source is configured, or a preset is unknown
    :raises WrongUpstreamError: if edits are pending for another URL
    :raises HeldError: if a source, or a change of the stack, is held for a person; the others were published
    :raises GeoLookupError: if a source failed: its last snapshot goes on, and the others were published
    """
    # Before the first request, so that a damaged edits.db is noticed while nothing has been done.
    run.check_edits()
    directory, current = run.directory, run.current
    known = run.upstream_url()
    if (warning := open_to_all(directory.home)) is not None:
        report.warnings.append(warning)
    entries = {str(entry["name"]): dict(entry) for entry in current.sources} if current else {}
    definitions = tuple(given) or stack(settings.stack, list(entries.values()))
    if settings.url is not None:
        has_left = current is not None and current.published.get("custom") is not None
        _require_same_upstream(run, settings.url, url_moved=url_moved or has_left)
    with contextlib.ExitStack() as owned:
        pull = Pull(
            run=run,
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
            _pull_one(pull, definition, transport, report if len(definitions) == 1 else None, unmodified)
            for definition in sorted(definitions, key=lambda each: not each.is_service)
        ]
        by_name = {result.definition.name: result for result in results}
        ordered = [by_name[definition.name] for definition in definitions]
        change = decide(pull, ordered, given=bool(given))
        report.sources = [_summary(result) for result in ordered]
        if len(ordered) > 1:
            _join_reports(report, ordered)
        publish(pull, ordered, change, report, preview=preview, url_moved=url_moved)
    if preview is None and settings.url is not None and known not in (None, settings.url):
        report.warnings.append(f"from now on this state belongs to {settings.url}: before, it was {known}'s")
        if run.upstream_url() != settings.url:
            directory.remember_upstream(settings.url)


def _require_same_upstream(run: Run, url: str, *, url_moved: bool) -> None:
    known = run.upstream_url()
    if known in (None, url) or url_moved:
        return
    pending, unproved = run.directory.local.ask(
        lambda ledger: (ledger.outbox.count(*PENDING_STATES), ledger.has(UNPROVED))
    )
    if pending or unproved:
        waits = f"{count(pending, 'edit')} pending for it: push first"
        said_yes = "no list has shown yet what it said yes to: sync with it first"
        raise WrongUpstreamError(
            f"this state belongs to {known}, and {waits if pending else said_yes}, or say with --url-moved that the "
            f"service has moved to {url}"
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
    pull: Pull,
    definition: Definition,
    transport: Transport | None,
    report: PullReport | None,
    unmodified: Start | None,
) -> Result:
    """Pull one source; what goes wrong with it is in the result."""
    url = pull.settings.url if definition.is_service else None
    own = report or PullReport(url=url)
    own.name = definition.name
    try:
        if definition.is_service:
            assert transport is not None, "the settings have a service, and so its transport"
            assert url is not None
            result = pull_service(pull, definition, transport, own, url, unmodified=unmodified)
            if result.candidate is not None:
                pull.service_indexes.append(result.candidate.index)
            return result
        return pull_file(pull, definition, own, taken=_taken(pull))
    except StateDamagedError as error:
        return Result(definition=definition, report=own, error=error)
    except StateError:
        raise  # the state itself cannot be used: no other source fares better
    except GeoLookupError as error:
        return Result(definition=definition, report=own, error=error)


def _taken(pull: Pull) -> frozenset[int]:
    """Numbers from our range that the service's snapshot uses."""
    found: frozenset[int] = frozenset()
    for entry in pull.entries.values():
        before = pull.baseline(str(entry["name"])) if entry["kind"] == "service" else None
        if before is not None:
            found |= numbers_of_ours(before.index)
    for path in pull.service_indexes:
        found |= numbers_of_ours(path)
    return found


def _summary(result: Result) -> dict[str, Any]:
    """The outcome of one source, for people and ``--json``."""
    if result.error is not None:
        result.report.outcome = "failed"
    elif result.reasons:
        result.report.outcome = "held"
    return {
        **{name: value for name, value in result.report.as_dict().items() if name not in _NOT_OF_A_SOURCE},
        "problem": str(result.error) if result.error is not None else "; ".join(result.reasons) or None,
    }


def _join_reports(report: PullReport, results: Sequence[Result]) -> None:
    """Add up in one report what the reports of several sources say."""
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


def _record_failed(directory: StateDirectory, error: GeoLookupError, url: str | None) -> None:
    """Add a failed pull to the history: if that fails too, the pull's own error is still the one to tell."""
    try:
        directory.edits.record("pull", f"{type(error).__name__}: {error}", after={"url": url})
    except StateError as missing:
        _log.warning("the failed pull is missing from the history: %s", missing)


_log = logging.getLogger("geolookup")
