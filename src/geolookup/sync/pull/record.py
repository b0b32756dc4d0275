"""What of a pull goes into the history."""

import logging
from typing import Any

from geolookup.errors import GeoLookupError, StateError
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.report import PullReport

_log = logging.getLogger("geolookup")


def record_done(directory: StateDirectory, report: PullReport, what: str, outcome: str, after: dict[str, Any]) -> None:
    """Add to the history what cannot be undone any more: if that fails, the run has not."""
    try:
        directory.edits.record(what, outcome, after=after)
    except StateError as error:
        report.warnings.append(f"this is missing from the history, and all else is done: {error}")


def record_failed(directory: StateDirectory, error: GeoLookupError, url: str | None) -> None:
    """Add a failed pull to the history: if that fails too, the pull's own error is still the one to tell."""
    try:
        directory.edits.record("pull", f"{type(error).__name__}: {error}", after={"url": url})
    except StateError as missing:
        _log.warning("the failed pull is missing from the history: %s", missing)
