"""What shall happen if something takes too long: one thread for all deadlines of the process, and none without any."""

import os
import threading
import time
from collections.abc import Callable

#: Seconds for which the thread stays though nothing is due: the next request comes soon, or no more do.
_IDLE_S = 5.0


class Deadlines:
    """Calls what is due in a thread of its own, unless it is cancelled before.

    A timer for each request would be a thread for each, which takes longer to start than to send a small request.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[object, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        #: When the thread looks again by itself.
        self._looks_at = 0.0

    def add(self, after_s: float, action: Callable[[], None]) -> object:
        """Call this after so many seconds; what is returned is for `cancel`."""
        at, one = time.monotonic() + after_s, object()
        with self._changed:
            self._due[one] = at, action
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="geolookup-deadlines", daemon=True)
                self._thread.start()
            elif at < self._looks_at:
                self._changed.notify()
        return one

    def cancel(self, one: object) -> None:
        """Do not call it; if it was called already, nothing happens."""
        with self._changed:
            self._due.pop(one, None)

    def _run(self) -> None:
        while True:
            for action in self._next():
                action()
            with self._changed:
                if not self._due and not self._waits(_IDLE_S) and not self._due:
                    self._thread = None
                    return

    def _next(self) -> list[Callable[[], None]]:
        """What is due: waits until something is, or nothing will be."""
        with self._changed:
            while self._due:
                now = time.monotonic()
                due = [one for one, (at, _) in self._due.items() if at <= now]
                if due:
                    return [self._due.pop(one)[1] for one in due]
                self._waits(min(at for at, _ in self._due.values()) - now)
        return []

    def _waits(self, seconds: float) -> bool:
        seconds = min(seconds, threading.TIMEOUT_MAX)
        self._looks_at = time.monotonic() + seconds
        return self._changed.wait(seconds)


DEADLINES = Deadlines()
if hasattr(os, "register_at_fork"):
    # Neither the thread nor what it was to do lives on in a child.
    os.register_at_fork(after_in_child=lambda: Deadlines.__init__(DEADLINES))
