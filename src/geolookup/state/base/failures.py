"""Failures of the last runs, for the status: kept beside the state until a run that does the same succeeds."""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping

from geolookup.base.text import harmless
from geolookup.model.errors import GeoLookupError, HeldError, StateError
from geolookup.model.reports import RunFailure, Stage
from geolookup.state.base import files
from geolookup.state.base.clock import now_text

_log = logging.getLogger("geolookup")
#: Beside the state, in the state directory.
FAILURES = "failures.json"
_MEMBERS = ("stage", "run", "message", "since", "at")
_LONGEST = 2000


def failures(home: str) -> tuple[RunFailure, ...]:
    """The failures of the last runs in a state directory, by stage; none if they cannot be read."""
    try:
        with open(os.path.join(home, FAILURES), encoding="ascii") as file:
            found = json.load(file)
        kept = [RunFailure(**{name: str(each[name]) for name in _MEMBERS}) for each in found]  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(kept)


@contextlib.contextmanager
def noted(home: str, run: str, stage: Stage) -> Iterator[Callable[[str], None]]:
    """Note how a stage ends: an error other than that something is held is a failure, anything else a success.

    It yields what is called with the message if the stage failed without an error. The run lock must be held.
    """
    told: list[str] = []
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
    """Note the outcome of each stage of a run: its failure, or None. The run lock must be held.

    A run that got to its push or its pull has begun, so an earlier failure to begin is over. If this cannot be written,
    the run has not failed for that.
    """
    before = failures(home)
    kept = {each.stage: each for each in before}
    if "start" not in ended:
        kept.pop("start", None)
    now = now_text()
    for stage, message in ended.items():
        earlier = kept.pop(stage, None)
        if message is not None:
            since = earlier.since if earlier is not None else now
            kept[stage] = RunFailure(stage=stage, run=run, message=harmless(message, _LONGEST), since=since, at=now)
    if tuple(kept.values()) == before:
        return
    path = os.path.join(home, FAILURES)
    if not kept:
        files.remove_file(path)
        return
    document = [{name: getattr(each, name) for name in _MEMBERS} for each in kept.values()]
    try:
        files.replace_durably(path, (json.dumps(document, indent=1) + "\n").encode("ascii"))
    except StateError as error:
        _log.debug("the failure is not noted for the status: %s", error)
