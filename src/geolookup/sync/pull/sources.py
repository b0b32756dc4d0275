"""Pulling every source of the stack, each by itself, and publishing what they are together."""

import contextlib

from geolookup.base.text import count
from geolookup.errors import GeoLookupError, StateDamagedError, StateError, WrongUpstreamError
from geolookup.http.transport import Transport
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition, stack
from geolookup.state.base.current import Current, index_path
from geolookup.state.base.files import open_to_all
from geolookup.state.base.marks import Start
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import damaged_sources
from geolookup.state.run import Run
from geolookup.sync.pull.outcome import join_reports, summary
from geolookup.sync.pull.publish import Preview, publish
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Pull, PullProgress, Result
from geolookup.sync.pull.source.file import numbers_of_ours, pull_file
from geolookup.sync.pull.source.service import pull_service


def pull_all(
    run: Run,
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
    """Pull every source, and publish the stack if any of it changed.

    ``report`` is filled as far as it comes, whatever is raised; its ``sources`` say what became of each. ``transport``
    is the service's, if there is one. ``given`` is the file that a person gave a state without settings; it becomes
    the only source. With ``preview`` nothing is published or confirmed: it is shown what would be.

    :raises SettingsError: if no source is configured, or a preset is unknown
    :raises WrongUpstreamError: if edits are pending for another URL
    :raises HeldError: if a source, or a change of the stack, is held for a person; the others were published
    :raises GeoLookupError: if a source failed: its last snapshot goes on, and the others were published
    """
    # Before the first request, so that a damaged edits.db is noticed while nothing has been done.
    run.check_edits()
    directory, current = run.directory, run.current
    if (warning := open_to_all(directory.home)) is not None:
        report.warnings.append(warning)
    entries = {str(entry["name"]): dict(entry) for entry in current.sources} if current else {}
    definitions = (given,) if given is not None else stack(settings.stack, list(entries.values()))
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
        report.sources = [summary(result) for result in ordered]
        if len(ordered) > 1:
            join_reports(report, ordered)
        publish(pull, ordered, report, given=given is not None, preview=preview, url_moved=url_moved)
    if preview is None and settings.url is not None and run.upstream_url() not in (None, settings.url):
        directory.remember_upstream(settings.url)


def _require_same_upstream(run: Run, url: str, *, url_moved: bool) -> None:
    known = run.upstream_url()
    if known not in (None, url) and not url_moved and (pending := run.directory.local.pending()):
        raise WrongUpstreamError(
            f"this state belongs to {known}, and {count(pending, 'edit')} pending for it: push first, or say with "
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
    pull: Pull,
    definition: Definition,
    transport: Transport | None,
    report: PullReport | None,
    unmodified: Start | None,
) -> Result:
    """One source; whatever goes wrong with it is in the result."""
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
