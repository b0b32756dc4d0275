"""Runs: pushes and syncs that go on when their page is closed. Each kind has one run at a time."""

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from geolookup.model.errors import GeoLookupError, StateBusyError
from geolookup.state.base.clock import now_text

_log = logging.getLogger("geolookup.console")

#: Does the work; returns its report.
Work: TypeAlias = "Callable[[Run], Any]"

#: The counted unit of each kind of run, and the consequence of cutting it off.
_COUNTED = {"push": "edit", "sync": "row"}
_CUT_OFF = {
    "push": "what was sent is known, and nothing is sent twice; `geolookup push` goes on from there",
    "sync": "what is published goes on serving; `geolookup sync` begins anew",
}


@dataclass(slots=True, kw_only=True)
class Run:
    """One run. ``done`` of ``total`` (None if unknown) are finished; then ``report`` or ``error`` is its result.

    ``began_at`` and ``ended_at`` are texts of `clock.now_text`; ``ended_at`` is None while it is under way.
    """

    kind: str
    began_at: str = field(default_factory=now_text)
    done: int = 0
    total: int | None = None
    ended_at: str | None = None
    report: Any = None
    error: str | None = None
    #: Of an error that is one of geolookup's: that itself, for what it knows besides its text.
    reason: GeoLookupError | None = None

    def progress(self, done: int, total: int | None) -> None:
        """Take the progress that a push or a sync reports."""
        self.done, self.total = done, total

    def reached(self) -> str:
        """Its progress in words."""
        of = "" if self.total is None else f" of {self.total:,}"
        one = _COUNTED.get(self.kind, "step")
        return f"{self.done:,}{of} {one if (self.total or self.done) == 1 else f'{one}s'}"


class Runs:
    """The runs of one console. Threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, Run] = {}
        self._threads: list[threading.Thread] = []

    def start(self, kind: str, work: Work) -> Run:
        """Start a run.

        :raises StateBusyError: if one of this kind is under way
        """
        with self._lock:
            latest = self._latest.get(kind)
            if latest is not None and latest.ended_at is None:
                raise StateBusyError(f"a {kind} is under way since {latest.began_at}")
            run = self._latest[kind] = Run(kind=kind)
            thread = threading.Thread(
                target=copy_context().run, args=(_work, run, work), name=f"geolookup-{kind}", daemon=True
            )
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()
        return run

    def latest(self, kind: str) -> Run | None:
        """The run of this kind that is under way, or else the last one, as it is now; None if there was none.

        It may end while a page is made of it: a copy does not.
        """
        run = self._latest.get(kind)
        return None if run is None else replace(run)

    def under_way(self) -> list[Run]:
        """The runs that have not ended."""
        return [run for run in self._latest.values() if run.ended_at is None]

    def wait(self) -> None:
        """Wait until all have ended."""
        for thread in self._threads:
            thread.join()

    def left(self) -> str:
        """The consequences for the runs if the process ends now."""
        found = [f"the {run.kind} was cut off after {run.reached()}: {_CUT_OFF[run.kind]}" for run in self.under_way()]
        return "; ".join(found) or "nothing was under way"


def _work(run: Run, work: Work) -> None:
    try:
        run.report = work(run)
    except GeoLookupError as error:
        run.error, run.reason = error.told, error
    except Exception:
        _log.exception("the %s failed", run.kind)
        run.error = "This is an error in geolookup: the console's standard error says more."
    finally:
        run.ended_at = now_text()
