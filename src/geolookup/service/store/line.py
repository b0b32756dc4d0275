"""Who may write next: one at a time, in the order in which they came; the next may finish what the one before began."""

import threading
from collections import deque


class _Waiting:
    def __init__(self, *, shares: bool) -> None:
        self.shares = shares
        self.turn = threading.Lock()
        self.turn.acquire()


class Line:
    """A lock whose holder can see to it that the next one goes on with its work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_taken = False

    def take(self, wait_s: float, *, shares: bool) -> None:
        """Wait for one's turn. ``shares`` says whether the one before may `hand_over` what it has not finished.

        :raises TimeoutError: if it did not come in ``wait_s`` seconds
        """
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            one = _Waiting(shares=shares)
            self._waiting.append(one)
        if one.turn.acquire(timeout=wait_s):
            return
        with self._lock:
            if one in self._waiting:
                self._waiting.remove(one)
                raise TimeoutError("other requests have been writing for too long")
        # It was this one's turn at the very moment: whoever let it in may count on it.

    def hand_over(self) -> bool:
        """Let the next one in, if there is one that shares: it finishes what this one began. False if there is none."""
        with self._lock:
            if not self._waiting or not self._waiting[0].shares:
                return False
            self._waiting.popleft().turn.release()
            return True

    def leave(self) -> None:
        """Let the next one in, with nothing to finish."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().turn.release()
            else:
                self._is_taken = False
