"""Failures of the last runs, for the status: kept beside the state until a run that does the same succeeds.

A run leaves its begin in the file of the run lock, in place: that takes no room, so a full disk cannot prevent it. A
begin without an end is the failure of a run that was killed, or that could not record its end.
"""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping

from geolookup.base import disk
from geolookup.base.text import first_line, harmless
from geolookup.model.errors import GeoLookupError, HeldError, StateError
from geolookup.model.reports import RunFailure, Stage
from geolookup.state.base import files
from geolookup.state.base.clock import now_text

_log = logging.getLogger("geolookup")
#: Beside the state, in the state directory.
FAILURES = "failures.json"
#: The file of the run lock, which also says which run began, and that it ended.
RUN_LOCK = "run.lock"
#: The other lock: nothing is ever written to it.
PUBLISH_LOCK = "publish.lock"
_MEMBERS = ("stage", "run", "message", "since", "at")
_LONGEST = 2000
_RECORD_BYTES = 512
_UNENDED = "it began and did not end: it was interrupted or killed, or a full disk kept it from recording its end"


def failures(home: str) -> tuple[RunFailure, ...]:
    """The failures of the last runs in a state directory, by stage; none if they cannot be read."""
    unended = _unended(home)
    return (*_noted_before(home), *(() if unended is None else (unended,)))


def are_readable(home: str) -> bool:
    """True if this user may read how the last runs ended."""
    paths = [os.path.join(home, name) for name in (FAILURES, RUN_LOCK)]
    return all(os.access(path, os.R_OK) for path in paths if os.path.lexists(path))


def running(home: str) -> str | None:
    """The run that holds the lock now, with its process and since when, in words; None if none that says so does."""
    found = _record(home)
    if found is None or found["ended_at"] is not None or not disk.is_locked(os.path.join(home, RUN_LOCK)):
        return None
    return f"{found['run']}, process {found['pid']}, since {found['began_at']}"


def _unended(home: str) -> RunFailure | None:
    """The failure of the last run if it recorded no end and holds the lock no longer."""
    found = _record(home)
    if found is None or found["ended_at"] is not None or disk.is_locked(os.path.join(home, RUN_LOCK)):
        return None
    if found != _record(home):  # it ended between the two looks
        return None
    began = str(found["began_at"])
    return RunFailure(stage="start", run=str(found["run"]), message=_UNENDED, since=began, at=began)


def _record(home: str) -> dict[str, str | int | None] | None:
    try:
        with open(os.path.join(home, RUN_LOCK), "rb") as file:
            found = json.loads(file.read(_RECORD_BYTES))
        return {name: found[name] for name in ("run", "pid", "began_at", "ended_at")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def begin(home: str, run: str) -> None:
    """Note that a run begins. The run lock must be held."""
    _write_record(home, {"run": run, "pid": os.getpid(), "began_at": now_text(), "ended_at": None})


def _end(home: str) -> None:
    found = _record(home)
    if found is not None and found["ended_at"] is None:
        _write_record(home, {**found, "ended_at": now_text()})


def _write_record(home: str, record: Mapping[str, str | int | None]) -> None:
    path = os.path.join(home, RUN_LOCK)
    try:
        with files.file_errors(path):
            disk.overwrite(path, json.dumps(record).ljust(_RECORD_BYTES - 1).encode("ascii") + b"\n")
    except StateError as error:  # a run has not failed for that
        _log.debug("the run is not recorded for the status: %s", error)


def _noted_before(home: str) -> tuple[RunFailure, ...]:
    try:
        with open(os.path.join(home, FAILURES), encoding="ascii") as file:
            found = json.load(file)
        kept = [RunFailure(**{name: str(each[name]) for name in _MEMBERS}) for each in found]  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(kept)


@contextlib.contextmanager
def noted(home: str, run: str, stage: Stage) -> Iterator[Callable[[str], None]]:
    """Note that a run of one stage begins, and how it ends: an error is a failure, unless something is held.

    A run that is interrupted, or fails in a way that is not foreseen, leaves no end.

    It yields what is called with the message if the stage failed without an error. The run lock must be held.
    """
    told: list[str] = []
    begin(home, run)
    try:
        yield told.append
    except HeldError:  # it went as it should: now a person decides, and the status says so by itself
        note(home, run, {stage: None})
        raise
    except GeoLookupError as error:
        note(home, run, {stage: str(error)})
        raise
    note(home, run, {stage: told[0] if told else None})


def note(home: str, run: str, ended: Mapping[Stage, str | None]) -> None:
    """Note the outcome of each stage of a run: its failure, or None; then that it ended. The run lock must be held.

    A run that got to its push or its pull has begun, so an earlier failure to begin is over. If this cannot be written,
    the run has not failed for that, and has no end.
    """
    before = _noted_before(home)
    kept = {each.stage: each for each in before}
    if "start" not in ended:
        kept.pop("start", None)
    now = now_text()
    for stage, message in ended.items():
        earlier = kept.pop(stage, None)
        if message is not None:
            since = earlier.since if earlier is not None else now
            kept[stage] = RunFailure(
                stage=stage, run=run, message=harmless(first_line(message), _LONGEST), since=since, at=now
            )
    path = os.path.join(home, FAILURES)
    try:
        if not kept:
            files.remove_file(path)
        elif tuple(kept.values()) != before:
            document = [{name: getattr(each, name) for name in _MEMBERS} for each in kept.values()]
            files.replace_durably(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    except StateError as error:
        _log.debug("the failure is not noted for the status: %s", error)
    else:
        _end(home)
