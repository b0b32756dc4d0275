"""The patience with slow clients: a deadline for requests that do not come, and one for answers that are not read."""

import array
import asyncio
import contextlib
import fcntl
import termios
from collections.abc import Callable
from math import inf

#: How often progress is checked before a client counts as one that reads nothing.
_LOOKS = 4


class Deadline:
    """Calls ``passed`` once the time is over. To move it later costs an assignment, and no new timer."""

    __slots__ = ("_at", "_loop", "_passed", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._at = inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """It is in ``seconds`` from now, instead of the one that was set before."""
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


class Stall:
    """Ends a connection whose client reads nothing for ``seconds`` of what was written to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, seconds: float) -> None:
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._unsent_before = 0
        self._looks_without_progress = 0

    def watch(self) -> None:
        """Something was written: watch until it is read, if it was not read at once."""
        if self._timer is None and self._transport.get_write_buffer_size():
            self._unsent_before, self._looks_without_progress = self._unsent(), 0
            self._look_later()

    def close(self) -> None:
        """Leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._seconds / _LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._transport.get_write_buffer_size():
            return
        unsent = self._unsent()
        # Several checks: between two of them, as many bytes may have been added as were read.
        self._looks_without_progress = self._looks_without_progress + 1 if unsent == self._unsent_before else 0
        self._unsent_before = unsent
        if self._looks_without_progress >= _LOOKS:
            self._transport.abort()
        else:
            self._look_later()

    def _unsent(self) -> int:
        """Bytes that the client has not read: ours, and those that the system holds for it.

        The system takes some megabytes at once and then nothing for minutes, even if a slow client reads steadily.
        """
        waiting = self._transport.get_write_buffer_size()
        system = array.array("i", [0])
        with contextlib.suppress(OSError, ValueError, AttributeError):
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, system)
        return waiting + system[0]
