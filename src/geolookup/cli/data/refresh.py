"""``geolookup refresh``: push, pull and publish in one unattended run; its report, its log, and its metrics.

Metrics are in the text format that Prometheus' textfile collector reads
(https://prometheus.io/docs/instrumenting/exposition_formats/): a few lines here, so that a nightly run needs no package
for it; the tests read them back with prometheus_client.
"""

import contextlib
import glob
import logging
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import click

from geolookup.cli import exit_codes, interrupt, logs, output, units
from geolookup.cli.options import (
    counted,
    json_option,
    load_service_settings,
    on_conflict_option,
    state_directory,
    url_moved_option,
    url_option,
    wait_option,
)
from geolookup.http.ping import Monitor
from geolookup.model.errors import GeoLookupError, StateBusyError, StateUnreadableError
from geolookup.settings.secrets import read_ping_url
from geolookup.settings.table import Settings
from geolookup.state.base import files
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current
from geolookup.state.publishing import checks
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import words
from geolookup.sync.opening import open_editor
from geolookup.sync.refresh import Failure, NextAction, RefreshReport, next_action
from geolookup.sync.refresh import refresh as run_refresh
from geolookup.sync.sites import SitesRun

_log = logging.getLogger("geolookup.refresh")

#: A metric's name, what it tells, and its values by the one label that they have ({"": value} for none).
_Gauge: TypeAlias = tuple[str, str, Mapping[str, float]]

_LAST_SUCCESS = "geolookup_refresh_last_success_timestamp_seconds"


def _own_exit_code(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    taken = (exit_codes.FAILED, exit_codes.USAGE, exit_codes.HELD, exit_codes.BUSY)
    if value in taken:
        raise click.BadParameter(f"{value} has a meaning already: choose none of {', '.join(map(str, taken))}")
    return value


@click.command()
@url_option
@url_moved_option
@on_conflict_option
@wait_option
@click.option(
    "--changed-exit-code",
    type=click.IntRange(0, 255),
    metavar="N",
    callback=_own_exit_code,
    help="Exit with N instead of 0 if the published answers changed.",
)
@click.option("--textfile", metavar="FILE", help="Write metrics for Prometheus' textfile collector to FILE.")
@click.option("--no-textfile", is_flag=True, help="Write no metrics, even if the settings ask for them.")
@click.option("--no-ping", is_flag=True, help="Ping no monitor, even if the settings name one: for a run by hand.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="How to log to standard error.")
@click.option(
    "--print-systemd",
    is_flag=False,
    flag_value="both",
    type=click.Choice(["both", "service", "timer", "failure"]),
    help="Print a hardened service and a nightly timer for systemd (or `failure`, the unit that they start if they "
    "fail), and do nothing else.",
)
@click.option("--print-cron", is_flag=True, help="Print a nightly line for crontab, and do nothing else.")
@json_option
def refresh(
    on_conflict: Any,
    url_moved: bool,
    changed_exit_code: int | None,
    print_systemd: str | None,
    print_cron: bool,
    no_textfile: bool,
    no_ping: bool,
    as_json: bool,
    wait_s: float | None,
    **chosen: str | None,
) -> int:
    """Send pending edits, then pull the service's list and publish it, in one nightly run.

    \b
    If the settings name a server of sites (`[sites] kind`), it is read first, and its changes are
    planned or applied as `[sites] apply` says.

    \b
    It may be started twice or killed: the published data serve until new data are complete.
    Exit status: 0 done, 1 failed or something is left over (the next run continues), 2 settings,
    3 something is held until you confirm it, 75 another run is under way. The report says what to do next.

    \b
    Example: geolookup refresh --url https://geo.example.com
    """
    if no_textfile and chosen["textfile"] is not None:
        raise click.UsageError("--textfile and --no-textfile exclude each other")
    if no_textfile:
        chosen["textfile"] = ""
    settings = load_service_settings(
        chosen.pop("url"), pulls=True, pushes=True, says=print_systemd is not None or print_cron, **chosen
    )
    if print_systemd == "failure":
        click.echo(units.failure_unit(), nl=False)
        return exit_codes.DONE
    if print_systemd or print_cron:
        arguments = [] if on_conflict == "hold" else ["--on-conflict", on_conflict]
        _print_schedule(units.job(settings, arguments, changed_exit_code=changed_exit_code), print_systemd)
        return exit_codes.DONE
    logs.log_as(settings.log_format)
    ping_url = None if no_ping else read_ping_url(settings)
    monitor = None if ping_url is None else Monitor(ping_url, settings)
    directory = state_directory(settings, wait_s=wait_s)
    began: list[str] = []  # what went wrong before there was a report to hold it

    watched = False

    def started() -> None:
        nonlocal watched
        _log.info("refresh%s begins", "" if settings.url is None else f" of {settings.url}")
        watched = monitor is not None
        if monitor is not None and (problem := monitor.start()) is not None:
            began.append(problem)

    try:
        with output.progress("refresh") as progress:

            def told(stage: str, done: int, total: int | None) -> None:
                progress(done, total)
                if stage == "pull":  # how far a push came is said by edits
                    reached.done, reached.total = done, total

            reached = interrupt.Progress(counted(directory.named_current()))
            report = run_refresh(
                directory,
                settings,
                on_conflict=on_conflict,
                url_moved=url_moved,
                started=started,
                progress=told,
                sites=partial(_run_sites, directory, settings) if settings.sites.kind else None,
            )
    except StateBusyError as error:
        # The other run tells the monitor, and writes the metrics.
        failure = Failure(stage="start", message=str(error), error=error)
        report = RefreshReport(url=settings.url, began_at=now_text(), ended_at=now_text(), failures=[failure])
        return _tell(report, exit_codes.BUSY, as_json=as_json)
    except KeyboardInterrupt as error:
        if monitor is not None and watched:
            monitor.end(interrupt.status(error), interrupt.sentence(error))
        raise
    except Exception:
        if monitor is not None:
            monitor.end(exit_codes.FAILED, "refresh failed in a way that it was not prepared for: see its log")
        raise
    report.warnings[:0] = began
    status = exit_codes.of_refresh(report)
    if status == exit_codes.DONE and report.changed and changed_exit_code is not None:
        status = changed_exit_code
    _tell_others(report, status, directory, settings, monitor)
    return _tell(report, status, as_json=as_json)


def _run_sites(directory: StateDirectory, settings: Settings) -> SitesRun:
    from geolookup.sites.servers.applying import run_server  # late: most refreshes ask no server of sites

    with open_editor(directory.home, settings=settings) as editor:
        return run_server(editor, settings)


def _succeeded(report: RefreshReport) -> bool:
    return exit_codes.of_refresh(report) == exit_codes.DONE


def _tell_others(
    report: RefreshReport, status: int, directory: StateDirectory, settings: Settings, monitor: Monitor | None
) -> None:
    """The metrics and the monitor; neither ever fails a run, but each may add a warning to its report."""
    succeeded = _succeeded(report)
    if settings.textfile:
        try:
            try:
                current = directory.current()
            except GeoLookupError:
                current = None  # the run met the same, and has it in its report
            needs = [
                (name, what, {f'{of}="{label}"' if of else "": value for label, value in values.items()})
                for name, (what, of, values) in checks.gauges(directory, current).items()
            ]
            _write_metrics(settings.textfile, report, current, status, needs, succeeded=succeeded)
        except GeoLookupError as error:
            report.warnings.append(f"the metrics were not written: {error}")
    if monitor is not None:
        summary = "\n".join([_summary(report), *(failure.message for failure in report.failures), *report.warnings])
        if (problem := monitor.end(0 if succeeded else status, summary)) is not None:
            report.warnings.append(problem)


def _tell(report: RefreshReport, status: int, *, as_json: bool) -> int:
    action = next_action(report)
    _log_all(report, status, action)
    advice = {"code": action.code, "words": action.words}
    summary = {"summary": _summary(report), "exit_status": status, "next_action": advice}
    output.emit(as_json, lambda: {**summary, **report.as_dict()}, _summary(report))
    return status


def _log_all(report: RefreshReport, status: int, action: NextAction) -> None:
    if report.push is not None:
        for edit in report.push.edits:
            level = logging.INFO if edit["state"] == "done" else logging.WARNING
            what = edit["what"] if edit["state"] == "done" else f"edit {edit['edit']}: {edit['what']}"
            _log.log(level, "%s: %s: %s", edit["state"], what, edit["reason"], extra={"fields": {"edit": edit}})
    for note in () if report.sites is None else report.sites.notes:
        _log.info("sites: %s", note)
    for warning in report.warnings:
        _log.warning("%s", warning)
    for failure in report.failures:
        _log.error("%s: %s", failure.stage, failure.message, extra={"fields": {"failure": failure.as_dict()}})
    if report.skipped is not None:
        _log.warning("pull: %s", report.skipped)
    if action.code != "none":
        _log.log(logging.INFO if _succeeded(report) else logging.WARNING, "next: %s", action.words)
    fields = {
        "exit_status": status,
        "next_action": action.code,
        "generation": report.generation,
        "changed": report.changed,
        "durations_s": report.durations_s,
    }
    _log.info("%s", _summary(report), extra={"fields": fields})


def _summary(report: RefreshReport) -> str:
    """One line: how it ended, what was sent, what is served."""
    if _is_busy(report):
        return "busy: another run is under way"
    parts = []
    push, pull, sites = report.push, report.pull, report.sites
    if sites is not None and sites.changes:
        parts.append(f"{words.count(sites.changes, 'change')} of sites {'made' if not sites.waits else 'wait for you'}")
    if push is not None:
        parts += [f"{words.count(push.done, 'edit')} sent"] if push.done else []
        parts += [f"{words.count(count, 'edit')} {state}" for state, count in words.left_over(push).items() if count]
    serves = "nothing is served yet" if report.generation is None else f"generation {report.generation} goes on serving"
    if any(isinstance(failure.error, StateUnreadableError) for failure in report.failures):
        serves = "what is served cannot be read"
    if pull is not None and pull.outcome == "published" and pull.rows is not None:
        changes = words.row_changes(pull.difference)
        changed = f" ({', '.join(changes)})" if changes else ""
        parts.append(
            f"published generation {report.generation}: {words.published(pull.rows, pull.custom_places)}{changed}"
        )
    elif pull is not None and pull.outcome in ("unchanged", "rolled-back"):
        parts.append(f"{words.not_published(pull.outcome)}: {serves}")
    elif pull is not None and pull.outcome == "held":
        parts.append(f"the list is held: {serves}")
    else:
        parts.append(serves)
    return f"{_ended(report)}: {'; '.join(parts)}"


def _is_busy(report: RefreshReport) -> bool:
    return any(isinstance(failure.error, StateBusyError) for failure in report.failures)


def _ended(report: RefreshReport) -> str:
    status = exit_codes.of_refresh(report)
    if status == exit_codes.HELD:
        return "held"
    if status == exit_codes.DONE:
        return "refreshed"
    return "failed" if report.failures else "left over"


def _print_schedule(planned: units.Job, systemd: str | None) -> None:
    if systemd is None:
        notes, parts = planned.notes, [units.crontab_line(planned)]
    else:
        notes = units.systemd_notes(planned)
        found = {"service": units.service_unit(planned), "timer": units.timer_unit()}
        parts = [text for name, text in found.items() if systemd in ("both", name)]
    for note in notes:
        output.note(f"geolookup: {note}")
    click.echo("\n".join(parts), nl=False)


# Metrics


def _write_metrics(
    path: str,
    report: RefreshReport,
    current: Current | None,
    status: int,
    needs: Iterable[_Gauge],
    *,
    succeeded: bool,
) -> None:
    """Replace the file, so that a reader sees the old metrics or the new ones. Its mode is 0644.

    ``needs`` is what the next run needs. If this run failed, the moment of the last success is carried over from the
    old file, 0 if there was none.

    :raises StateUnwritableError: if the file cannot be replaced
    """
    path = os.path.abspath(os.path.expanduser(path))
    with files.file_errors(path):
        for left_by_a_kill in glob.glob(f"{glob.escape(path)}.tmp-*"):
            files.remove_file(left_by_a_kill)
        last_success = _moment(report.ended_at) if succeeded else _last_success(path)
        found = [*_gauges(report, current, status, last_success), *needs]
        text = _exposition(found)
        files.replace_durably(path, text.encode("utf-8"), mode=0o644)


def _gauges(report: RefreshReport, current: Current | None, status: int, last_success: float | None) -> list[_Gauge]:
    """The metrics of a run, without unknown ones. Moments are seconds since 1970, durations seconds."""
    found: list[_Gauge] = [
        (
            "geolookup_refresh_last_run_timestamp_seconds",
            "When the last refresh ended.",
            _one(_moment(report.ended_at)),
        ),
        (_LAST_SUCCESS, "When a refresh last exited with 0; 0 if none has.", _one(last_success)),
        ("geolookup_refresh_exit_status", "The exit status of the last refresh.", _one(status)),
        ("geolookup_refresh_changed", "1 if the last refresh changed published answers.", _one(report.changed)),
        ("geolookup_refresh_warnings", "Warnings of the last refresh.", _one(len(report.warnings))),
        (
            "geolookup_refresh_duration_seconds",
            "How long the last refresh took, by stage; compile, compare and publish follow the pull.",
            {f'stage="{stage}"': seconds for stage, seconds in report.durations_s.items()},
        ),
    ]
    if report.push is not None:
        push = report.push
        edits = {f'state="{state}"': count for state, count in words.left_over(push).items()}
        found.append(("geolookup_edits_waiting", "Edits that have not reached the service, by state.", edits))
        found.append(("geolookup_refresh_pushed", "Edits that the last refresh brought to their end.", _one(push.done)))
    if report.pull is not None:
        held = report.pull.outcome == "held"
        found.append(("geolookup_list_held", "1 if the last list is held for a person.", _one(held)))
    if current is not None:
        rows = current.published["rows"]
        found += [
            ("geolookup_generation", "The generation that is served.", _one(current.generation)),
            (
                "geolookup_published_timestamp_seconds",
                "When what is served was published.",
                _one(_moment(current.published_at)),
            ),
            (
                "geolookup_confirmed_timestamp_seconds",
                "When the service last had what is served: the age of the data counts from here.",
                _one(_moment(current.checked_at)),
            ),
            (
                "geolookup_geolocations",
                "Geolocations served, by layer, as they were pulled.",
                _by_layer(rows, "geolocations"),
            ),
            (
                "geolookup_source_checked_timestamp_seconds",
                "When each source was last found to have what is served.",
                {
                    f'source="{entry["name"]}"': moment
                    for entry in current.sources
                    if (moment := _moment(str(entry["checked_at"]))) is not None
                },
            ),
            (
                "geolookup_source_problem",
                "1 if the last sync could not use the source, or holds what it brought.",
                {f'source="{entry["name"]}"': float(bool(entry.get("problem"))) for entry in current.sources},
            ),
            ("geolookup_blocks", "Blocks served, by layer, as they were pulled.", _by_layer(rows, "blocks")),
        ]
    return [(name, what, values) for name, what, values in found if values]


def _exposition(metrics: list[_Gauge]) -> str:
    """The metrics as text. Help and labels here hold nothing that would have to be escaped."""
    lines = []
    for name, what, values in metrics:
        lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{label}}} {value}" if label else f"{name} {value}" for label, value in values.items()]
    return "\n".join([*lines, ""])


def _one(value: float | None) -> dict[str, float]:
    return {} if value is None else {"": float(value)}


def _by_layer(rows: Mapping[str, int], what: str) -> dict[str, float]:
    custom = rows[f"custom_{what}"]
    return {'layer="default"': rows[what] - custom, 'layer="custom"': custom}


def _moment(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text).timestamp()
    return None


def _last_success(path: str) -> float:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found = re.search(rf"^{_LAST_SUCCESS} (\S+)$", file.read(1 << 20), re.MULTILINE)
        return 0.0 if found is None else float(found[1])
    return 0.0
