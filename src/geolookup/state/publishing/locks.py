"""The two locks of a state directory. They are taken in one order: run, then publish."""

import contextlib
import os
from collections.abc import Iterator
from io import FileIO

from geolookup.base import disk
from geolookup.model.errors import NoStateError, StateDamagedError
from geolookup.state.base import files
from geolookup.state.base.current import Current, read_current
from geolookup.state.base.failures import PUBLISH_LOCK, RUN_LOCK
from geolookup.state.base.parts import SNAPSHOTS
from geolookup.state.generations import retention

PUBLISH_WAIT_S = 10.0


class Locks:
    """The locks of the state directory ``home``; taking one creates what is missing there.

    ``run_wait_s`` is how long the run lock is waited for if another run holds it.
    """

    def __init__(self, home: str, *, run_wait_s: float = 0.0) -> None:
        self._home = home
        self._run_wait_s = run_wait_s

    @contextlib.contextmanager
    def run(self, *, wait_s: float | None = None) -> Iterator[Current | None]:
        """Held by sync, push and refresh for their whole run. Removes what an interrupted run left behind.

        Yields what CURRENT says then, None if it cannot be read.

        :raises StateBusyError: if another run holds it
        :raises StateTooNewError: if a newer release wrote CURRENT: nothing was touched
        """
        busy = f"{self._home}: another sync, push or refresh is running: try again later"
        with self._held(RUN_LOCK, wait_s=self._run_wait_s if wait_s is None else wait_s, busy=busy):
            with self.publish():
                current = self._current()
                retention.remove_uncommitted(self._home, current)
            retention.remove_run_leftovers(self._home)
            yield current

    def publish(self, *, wait_s: float = PUBLISH_WAIT_S) -> FileIO:
        """Held for the milliseconds of a publish, the length of a ``with``; waited for.

        :raises StateBusyError: if it is not free within ten seconds, or ``wait_s``
        :raises StateTooNewError: if a newer release wrote CURRENT: nothing was touched
        """
        busy = f"{self._home}: another process has been publishing for {wait_s:.0f} s: try again later"
        return self._held(PUBLISH_LOCK, wait_s=wait_s, busy=busy)

    def are_taken(self) -> bool:
        """True while a run, or a publish, is under way."""
        return any(disk.is_locked(os.path.join(self._home, name)) for name in (RUN_LOCK, PUBLISH_LOCK))

    def _held(self, name: str, *, wait_s: float, busy: str) -> FileIO:
        path = os.path.join(self._home, name)
        inside = [os.path.join(self._home, directory) for directory in ("generations", SNAPSHOTS, "custom")]
        missing = [directory for directory in (self._home, *inside) if not os.path.isdir(directory)]
        if missing or not os.path.exists(path):
            self._current()  # a newer release's state is not touched; else CURRENT is read first under the lock
        for directory in missing:
            files.make_directory(directory)
        return files.lock(path, wait_s=wait_s, busy=busy)

    def _current(self) -> Current | None:
        with contextlib.suppress(NoStateError, StateDamagedError):
            return read_current(self._home)
        return None
