"""The pull of a reader: what the builder of its fleet has published, in place of sources."""

from typing import TYPE_CHECKING

from geolookup.model.errors import MissingExtraError, SettingsError
from geolookup.model.reports import Progress
from geolookup.settings.table import Settings
from geolookup.state.publishing.run import Run
from geolookup.sync.pull.context import PullReport

if TYPE_CHECKING:
    from geolookup.fleet.reader import Received


def receive(
    run: Run, settings: Settings, report: PullReport, *, given: bool, preview: bool, progress: Progress
) -> None:
    """Take what is new; ``report`` is filled as by a pull.

    :raises SettingsError: if a file was ``given``, a ``preview`` asked for, or the settings name other sources
    :raises UpstreamError: if the fleet cannot be reached, or must not be believed: what is served goes on
    """
    try:
        from geolookup.fleet import reader  # late: it needs the packages of an extra
    except ImportError as error:
        raise MissingExtraError(
            f"a reader of a fleet needs python-tuf: pip install 'geolookup[fleet]' ({error})"
        ) from error

    if given or preview:
        raise SettingsError(
            f"{run.home}: is a reader of a fleet: it takes no FILE, and previews nothing. Use another state "
            "(GEOLOOKUP_HOME)"
        )
    reader.require_no_sources(settings)
    into(report, reader.sync(run, settings, progress=progress))


def into(report: PullReport, found: "Received") -> None:
    """Fill the report of a pull with the outcome of a reader's sync."""
    report.outcome = "published" if found.outcome == "published" else "unchanged"
    if found.outcome == "rolled-back":
        report.outcome = "rolled-back"
    report.name = "fleet"
    report.generation, report.digest = found.generation, found.digest
    report.rows = found.rows or None
    report.bytes_read = found.bytes_read
    report.durations_s |= found.durations_s
    report.sources = [{**found.as_dict(), "name": "fleet", "problem": None}]
