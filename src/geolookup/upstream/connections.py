"""Several requests at the same time: threads with a connection each, as long as a push or a pull of lists."""

import queue
import threading
from collections.abc import Sequence
from typing import Generic, Protocol, Self, TypeVar

from geolookup.state.base import clock

#: How long a push that was told to end waits for connections that it has cut.
_END_S = 2.0
#: How long it takes at most until Ctrl-C is met that came to another thread than the one that waits.
_LOOK_S = 0.2


class Client(Protocol):
    """What asks over one connection."""

    def another(self) -> Self:
        """One more to the same service, with connections of its own."""

    def cut(self) -> None:
        """Break off what another thread has under way, for good."""

    def close(self) -> None:
        """Close its connections."""


_C = TypeVar("_C", bound=Client)
_Asking = TypeVar("_Asking", bound=Client, contravariant=True)


class Request(Protocol[_Asking]):
    """One thing to ask: it keeps its answer, and says whether nothing more shall be asked after that."""

    begun: bool
    took_s: float | None

    def ask(self, client: _Asking, /) -> None:
        """Send it, and keep what was answered, or the error of the service."""

    @property
    def ends_batch(self) -> bool: ...


class Batch(Generic[_C]):
    """Requests that are taken in their order, until one ends it, or its time is over; the first is always taken."""

    def __init__(self, requests: Sequence[Request[_C]], longest_s: float) -> None:
        self._requests = iter(requests)
        self._until = clock.steady_s() + longest_s
        self._lock = threading.Lock()
        self._begun = self._over = False
        #: Whether all were taken that were to be sent.
        self.in_time = True

    def drain(self, client: _C) -> None:
        """Send one request after the other over a connection."""
        while (request := self.take()) is not None:
            began_s = clock.steady_s()
            request.ask(client)
            request.took_s = clock.steady_s() - began_s
            if request.ends_batch:
                self.end()

    def end(self) -> None:
        """Let no more requests begin."""
        with self._lock:
            self._over = True

    def take(self) -> Request[_C] | None:
        """The next one to be sent; None if there is none any more."""
        with self._lock:
            if self._over:
                return None
            if self._begun and clock.steady_s() > self._until:
                self.in_time, self._over = False, True
                return None
            self._begun = True
            request = next(self._requests, None)
            if request is not None:
                request.begun = True
            return request


class _Helper(threading.Thread, Generic[_C]):
    """A thread with a connection of its own. A daemon: a process that is to end does not wait for its service."""

    def __init__(self, client: _C) -> None:
        super().__init__(name="geolookup-connection", daemon=True)
        self.client = client
        self.jobs: queue.SimpleQueue[tuple[Batch[_C], threading.Semaphore, list[BaseException]] | None]
        self.jobs = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        """Work on batches until there is None."""
        while (job := self.jobs.get()) is not None:
            batch, ended, errors = job
            try:
                batch.drain(self.client)
            except BaseException as error:
                batch.end()
                errors.append(error)
            finally:
                ended.release()


#: An answer that comes this soon is never slow, however many are asked for at the same time.
_SOON_S = 0.1
#: Connections at the beginning of a push, and the requests that are worth one more, unless each takes long.
_FIRST = 1
_EACH = 4


class Connections(Generic[_C]):
    """The connections of one push: the given client's, and up to ``most`` in all; each has a thread.

    They grow in number as long as the service answers as soon as when it is asked for one thing at a time; if they are
    ``steady``, as many are asked from the beginning to the end.
    """

    def __init__(self, client: _C, most: int, *, steady: bool = False) -> None:
        self._client = client
        self._most = most
        self._steady = steady
        self._at_most = most if steady else min(_FIRST, most)
        #: How long an answer takes if nothing else is asked for meanwhile.
        self._alone_s: float | None = None
        self._helpers: list[_Helper[_C]] = []

    @property
    def width(self) -> int:
        """How many may be asked at the same time now."""
        return self._at_most

    def ask_all(self, requests: Sequence[Request[_C]], longest_s: float) -> bool:
        """Ask for these in their order, until one ends it or the time is over: false if the time was over.

        If this is interrupted, what is under way is cut, and left without an answer.
        """
        each = _EACH if not self._steady and (self._alone_s is None or self._alone_s <= _SOON_S) else 1
        at_most = left = max(1, min(self._at_most, len(requests) // each))
        batch, ended, errors = Batch(requests, longest_s), threading.Semaphore(0), list[BaseException]()
        helpers = self._helpers_to(at_most)
        try:
            for helper in helpers:
                helper.jobs.put((batch, ended, errors))
            while left:
                left -= ended.acquire(timeout=_LOOK_S)
        except BaseException:
            batch.end()
            for helper in helpers:
                helper.client.cut()
            while left and ended.acquire(timeout=_END_S):
                left -= 1
            raise
        if errors:
            raise errors[0]
        if not self._steady:
            self._adapt([request for request in requests if request.begun], at_most)
        return batch.in_time

    def _adapt(self, asked: Sequence[Request[_C]], at_most: int) -> None:
        if any(request.ends_batch for request in asked):
            self._at_most = 1
            return
        took_s = [request.took_s for request in asked if request.took_s is not None]
        usual_s = sum(took_s) / len(took_s) if took_s else 0.0
        if self._at_most == 1 or self._alone_s is None:
            self._alone_s = usual_s
        if usual_s > max(_SOON_S, 2 * self._alone_s):
            self._at_most = max(1, self._at_most // 2)
        elif len(asked) >= at_most:
            self._at_most = min(self._most, 2 * self._at_most)

    def _helpers_to(self, count: int) -> list[_Helper[_C]]:
        while len(self._helpers) < count:
            # The first has the connection over which lists are read: nothing is asked over that meanwhile.
            self._helpers.append(_Helper(self._client.another() if self._helpers else self._client))
        return self._helpers[:count]

    def close(self) -> None:
        """End the threads, and close their connections but the given one."""
        for helper in self._helpers:
            helper.jobs.put(None)
        for helper in self._helpers[1:]:
            helper.client.close()
        self._helpers.clear()
