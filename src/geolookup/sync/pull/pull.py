"""Pull: every source's newest snapshot, published together; and what a person accepts of what was held."""

import contextlib

from geolookup.errors import GeoLookupError, HeldError, SettingsError, StateError, WrongUpstreamError
from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition
from geolookup.state.base.marks import Start
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.run import Run, running
from geolookup.sync import failures
from geolookup.sync.pull.publish import Preview
from geolookup.sync.pull.record import record_done, record_failed
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import PullProgress as PullProgress
from geolookup.sync.pull.sources import pull_all
from geolookup.sync.untold import told_at_the_end


def pull(
    directory: StateDirectory,
    settings: Settings,
    *,
    given: Definition | None = None,
    url_moved: bool = False,
    progress: PullProgress = lambda _done, _total: None,
) -> PullReport:
    """Pull every source that is configured, and publish what they are together, unless it is what is served.

    Takes the run lock. Whatever fails, what was published goes on serving. ``given`` is a file for a state for which
    nothing is configured: it becomes the only source. ``url_moved`` says that the service that this state belongs to
    has moved to the configured URL.

    :raises WrongUpstreamError: if edits are pending for another URL
    :raises HeldError: if the guard holds a snapshot, or a change of the stack, for a person; it is kept, complete
    :raises PullError: if a source must not be published
    :raises UpstreamError: if a source could not be fetched whole
    :raises StateBusyError: if another run is under way
    """
    report = PullReport(url=settings.url)
    with running(directory) as run, failures.noted(directory.home, "sync", "pull"), contextlib.ExitStack() as opened:
        report.tell(opened.enter_context(told_at_the_end(run)))
        transport = None if settings.url is None else opened.enter_context(Transport(settings))
        pull_locked(run, settings, transport, report, given=given, url_moved=url_moved, progress=progress)
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
    given: Definition | None = None,
    url_moved: bool = False,
    unmodified: Start | None = None,
    progress: PullProgress = lambda _done, _total: None,
    preview: Preview | None = None,
) -> None:
    """`pull` by a run under way; ``report`` is filled as far as it comes, whatever is raised.

    ``transport`` is the service's, None without one. The rest is as in `pull_all`. The pull is in the history,
    whatever comes of it.
    """
    try:
        pull_all(
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
            record_failed(run.directory, error, settings.url)
        raise
    after = {"url": settings.url, "generation": report.generation, "digest": report.digest}
    record_done(run.directory, report, "pull", report.outcome, after)
