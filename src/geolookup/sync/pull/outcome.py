"""What the pulls of several sources came to together: in the report, and as the error that ends the run."""

from collections.abc import Mapping, Sequence
from typing import Any

from geolookup.errors import HeldError, PullError
from geolookup.settings.times import shown
from geolookup.state.base.current import Current
from geolookup.sync.pull.change import Change
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Result

_NOT_OF_A_SOURCE = ("sources", "generation", "rejected", "twins", "notices")


def summary(result: Result) -> dict[str, Any]:
    """What became of one source, for people and ``--json``."""
    if result.error is not None:
        result.report.outcome = "failed"
    elif result.reasons:
        result.report.outcome = "held"
    return {
        **{name: value for name, value in result.report.as_dict().items() if name not in _NOT_OF_A_SOURCE},
        "problem": str(result.error) if result.error is not None else "; ".join(result.reasons) or None,
    }


def join_reports(report: PullReport, results: Sequence[Result]) -> None:
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


def say_rolled_back(report: PullReport, result: Result, current: Current | None) -> None:
    who = "the service" if result.definition.is_service else f"source {result.definition.name}"
    report.warnings.append(
        f"{who} still has the content that was rolled back here, so it was not published; "
        f"to publish it after all: geolookup sync --accept {result.digest[:16]}"
    )
    if current is not None and report.generation is None:
        report.generation = current.generation


def raise_failures(
    results: Sequence[Result], change: Change, report: PullReport, entries: Mapping[str, Mapping[str, Any]]
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
    if held:
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
    """How a person looks at what is held: by its source's name, if more is."""
    return f"geolookup generations diff served held{'' if alone else f':{result.definition.name}'}"


def _with_date(result: Result, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of a source that failed, with the date of the data that it answers with, and since when it fails."""
    name = result.definition.name
    entry = entries.get(name, {})
    if not entry.get("digest"):
        return f"{name} (never pulled)"
    since = f", fails since {shown(str(entry['since']))}" if entry.get("problem") and entry.get("since") else ""
    return f"{name} (answers as of {shown(str(entry.get('checked_at', '?')))}{since})"
