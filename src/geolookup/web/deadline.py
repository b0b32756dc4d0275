"""A deadline that is moved with every request and passes seldom."""

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """Calls ``passed`` once the time is over. To move it later costs an assignment, and no new timer."""

    __slots__ = ("_at", "_loop", "_passed", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._at = inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """It is in ``seconds`` from now, whatever was set before."""
        self._at = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._at:
            self.close()
            self._timer = self._loop.call_at(self._at, self._look)

    def clear(self) -> None:
        """There is none until the next one is set."""
        self._at = inf

    def close(self) -> None:
        """Leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._at == inf:
            return
        if self._at > self._loop.time():
            self._timer = self._loop.call_at(self._at, self._look)
            return
        self._at = inf
        self._passed()
