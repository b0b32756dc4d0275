"""The metrics of a refresh, in the text format that Prometheus' textfile collector reads.

The format (https://prometheus.io/docs/instrumenting/exposition_formats/) is a few lines here, so that a nightly run
needs no package for it; the tests read them back with prometheus_client.
"""

import contextlib
import glob
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from geolookup import words
from geolookup.state.base import files
from geolookup.state.base.current import Current
from geolookup.sync.refresh import RefreshReport

#: A metric's name, what it tells, and its values by the one label that they have ({"": value} for none).
Gauge: TypeAlias = tuple[str, str, Mapping[str, float]]

_LAST_SUCCESS = "geolookup_refresh_last_success_timestamp_seconds"


def write(path: str, report: RefreshReport, current: Current | None, exit_status: int, *, succeeded: bool) -> None:
    """Replace the file, so that whoever reads sees the old metrics or the new ones. Its mode is 0644.

    If this run failed, the moment of the last success is carried over from the old file.

    :raises StateUnwritableError: if the file cannot be replaced
    """
    path = os.path.abspath(os.path.expanduser(path))
    with files.file_errors(path):
        for left_by_a_kill in glob.glob(f"{glob.escape(path)}.tmp-*"):
            files.remove_file(left_by_a_kill)
        last_success = _moment(report.ended_at) if succeeded else _last_success(path)
        text = exposition(gauges(report, current, exit_status, last_success))
        files.replace_durably(path, text.encode("utf-8"), mode=0o644)


def gauges(report: RefreshReport, current: Current | None, exit_status: int, last_success: float | None) -> list[Gauge]:
    """The metrics of a run, without unknown ones. Moments are seconds since 1970, durations seconds."""
    found: list[Gauge] = [
        (
            "geolookup_refresh_last_run_timestamp_seconds",
            "When the last refresh ended.",
            _one(_moment(report.ended_at)),
        ),
        (_LAST_SUCCESS, "When a refresh last exited with 0.", _one(last_success)),
        ("geolookup_refresh_exit_status", "The exit status of the last refresh.", _one(exit_status)),
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


def exposition(metrics: list[Gauge]) -> str:
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


def _last_success(path: str) -> float | None:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        found = re.search(rf"^{_LAST_SUCCESS} (\S+)$", file.read(1 << 20), re.MULTILINE)
        return None if found is None else float(found[1])
    return None
