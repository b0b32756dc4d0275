"""SIGTERM and SIGINT: they end the server, or the preparations before it runs."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class StopRequested(BaseException):
    """A signal asked to stop before there was a server; a BaseException, so that it is not handled as a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Stop:
    """What a signal does: it ends the server, or raises `StopRequested` before there is one.

    uvicorn has handlers of its own while it runs, and raises the signal again when it ends: these handlers catch it,
    so that the process can clean up.
    """

    def __init__(self) -> None:
        self.call: Callable[[int, FrameType | None], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.call is None:
            raise StopRequested(number)
        self.call(number, frame)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Handle both signals in the ``with``; only in the main thread, since no other gets signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
