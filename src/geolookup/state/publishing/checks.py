"""Try what the next sync needs of a state, for `status --check`, `doctor`, the metrics and the console."""

import errno
import os
import secrets
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypeAlias

from geolookup.base import disk
from geolookup.model.errors import StateBusyError, StateError, StateUnwritableError
from geolookup.model.reports import StateCheck
from geolookup.state.base import failures, files
from geolookup.state.base.clock import wall
from geolookup.state.base.current import Current
from geolookup.state.base.files import CHECK
from geolookup.state.base.parts import FLEET, is_received
from geolookup.state.publishing.directory import StateDirectory

#: One block of most file systems: an empty file may find room on a disk that is full.
_TRIED_BYTES = 4096


def checks(directory: StateDirectory, current: Current | None) -> tuple[StateCheck, ...]:
    """Try each need of the next sync: see `StateCheck`. Nothing is left behind, and no lock is waited for.

    ``current`` is what is served, None if nothing whole is.
    """
    return (
        _write(directory.home),
        room(directory, current),
        _edits(directory, current),
        _lock(directory.home),
        _runs(directory.home),
        *_signature(current),
    )


def _signature(current: Current | None) -> Iterator[StateCheck]:
    """Of a reader: that what its fleet's builder signed has not ended."""
    if current is None or not is_received(current.published):
        return
    ends = next((str(entry.get("ends_at", "")) for entry in current.sources if entry["name"] == FLEET), "")
    try:
        left = (datetime.fromisoformat(ends) - wall()).total_seconds()
    except ValueError:
        left = 0.0
    if left <= 0:
        yield StateCheck(
            name="signature",
            verdict="wrong",
            what=f"freeze: what the fleet's builder signed has ended ({ends or 'when is not known'})",
            advice="look at the builder (`geolookup fleet publish` signs anew), and at what is between",
        )
    else:
        yield StateCheck(name="signature", verdict="ok", what=f"signed until {ends}")


def not_tried(found: tuple[StateCheck, ...]) -> list[str]:
    """The names of the checks that were not tried."""
    return [each.name for each in found if each.verdict == "not tried"]


def wrong(found: tuple[StateCheck, ...]) -> Iterator[str]:
    """A sentence about each check that found something wrong."""
    return (f"{each.what}: {each.advice}" if each.advice else each.what for each in found if each.verdict == "wrong")


def _write(home: str) -> StateCheck:
    """Write, sync, rename, remove: what a publish does to a file."""
    path = os.path.join(home, f"{CHECK}{os.getpid()}-{secrets.token_hex(4)}")
    renamed = f"{path}-renamed"
    try:
        with files.file_errors(home):
            try:
                disk.write_new(path, bytes(_TRIED_BYTES))
                disk.rename(path, renamed)
            finally:
                for each in (path, renamed):
                    files.remove_file(each)
            disk.sync_directory(home)
    except StateUnwritableError as error:
        cause = error.__cause__
        forbidden = isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM)
        if forbidden and not _is_owner(home):
            return StateCheck(name="write", verdict="not tried", what=f"{home}: this user may only read")
        return StateCheck(name="write", verdict="wrong", what=f"nothing can be written: {error}")
    return StateCheck(name="write", verdict="ok", what=f"{home} takes a durable write")


def _is_owner(home: str) -> bool:
    return os.stat(home).st_uid == os.geteuid()


def room(directory: StateDirectory, current: Current | None) -> StateCheck:
    """Room for one more generation."""
    place = files.nearest_directory(directory.home)
    free, needed = free_and_needed(place, directory, current)
    what = f"{free >> 20} MiB free in {place}; the next sync needs about {needed >> 20} MiB"
    if free < needed:
        advice = "make room there, or keep fewer generations (`keep_generations`)"
        return StateCheck(name="disk", verdict="wrong", what=what, advice=advice)
    if free < 3 * needed:
        return StateCheck(name="disk", verdict="warning", what=what, advice="make room there")
    return StateCheck(name="disk", verdict="ok", what=what)


def free_and_needed(place: str, directory: StateDirectory, current: Current | None) -> tuple[int, int]:
    """The bytes that are free on the file system of ``place``, and that the next sync asks for."""
    return files.free_bytes(place), directory.space_needed(current)


#: The name of a metric's label, "" if it has none.
Gauge: TypeAlias = tuple[str, str, dict[str, float]]


def gauges(directory: StateDirectory, current: Current | None) -> dict[str, Gauge]:
    """The checks, and the dates of the served data, for Prometheus: by the metric's name its help, label and values.

    What was not tried, and data without a date, have no value.
    """
    found = checks(directory, current)
    well: dict[str, float] = {
        each.name: float(each.verdict != "wrong") for each in found if each.verdict != "not tried"
    }
    free, needed = free_and_needed(directory.home, directory, current)
    return {
        "geolookup_state_check": ("1 if what the next sync needs was tried and is there, 0 if not.", "check", well),
        "geolookup_disk_free_bytes": ("Free on the disk of the state.", "", {"": float(free)}),
        "geolookup_disk_needed_bytes": ("The room that the next sync needs on that disk.", "", {"": float(needed)}),
        "geolookup_data_timestamp_seconds": (
            "The date that each source's file says its data are of.",
            "source",
            {} if current is None else _dates(current),
        ),
    }


def _dates(current: Current) -> dict[str, float]:
    """The moment, in seconds of Unix time, that the data of each served source are of, by its name."""
    served = current.serves
    dates = {str(entry["name"]): str(entry["dated"]) for entry in current.sources if entry.get("dated")}
    moments = {name: datetime.fromisoformat(dated) for name, dated in dates.items() if name in served}
    return {name: (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() for name, at in moments.items()}


def _edits(directory: StateDirectory, current: Current | None) -> StateCheck:
    """Every row of edits.db, and that it has not gone back."""
    if directory.edits.is_of_others():
        return StateCheck(name="edits", verdict="not tried", what=f"{directory.edits.path}: for its owner only")
    try:
        directory.check_edits(current, sealed=True)
    except StateBusyError as error:
        return StateCheck(name="edits", verdict="not tried", what=str(error))
    except StateError as error:
        return StateCheck(name="edits", verdict="wrong", what=str(error))
    return StateCheck(name="edits", verdict="ok", what="sound")


def _lock(home: str) -> StateCheck:
    """The run lock: the system frees it when the last process that holds it ends."""
    path = os.path.join(home, failures.RUN_LOCK)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return StateCheck(name="lock", verdict="not tried", what=f"{path}: for its owner only")
    if disk.is_locked(path):
        who = failures.running(home)
        advice = f"wait for it; if it never ends, `fuser -v {shlex.quote(path)}` names the process"
        what = "a sync, push or refresh is running now" + (f" ({who})" if who else "")
        return StateCheck(name="lock", verdict="warning", what=what, advice=advice)
    return StateCheck(name="lock", verdict="ok", what="free")


def _runs(home: str) -> StateCheck:
    """The ends of the last runs are known; `Status.failures` has those that failed."""
    if not failures.are_readable(home):
        return StateCheck(name="runs", verdict="not tried", what=f"{home}: how the last runs ended is for its owner")
    return StateCheck(name="runs", verdict="ok", what="their ends are known")
