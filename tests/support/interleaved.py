"""Several connections without threads: what is under way together is answered in an order that a seed chooses."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from geolookup.sync.push import push
from geolookup.upstream.connections import Batch, Request


def interleave(patch: pytest.MonkeyPatch, random: Random, connections: int) -> None:
    """Have pushes use at most this many connections, from their first edits on, in one thread, as `Interleaved`."""
    patch.setattr(push, "Connections", lambda client, _most: Interleaved(client, connections, random))


class Interleaved:
    """Stands in for `Connections`: of what has been taken, any may reach the service next."""

    def __init__(self, client: Any, most: int, random: Random) -> None:
        self._client, self.most, self._random = client, most, random
        self._begun: tuple[Sequence[Request], float] = (), 0.0

    @property
    def width(self) -> int:
        """How many are under way together."""
        return self.most

    def begin(self, requests: Sequence[Request], longest_s: float) -> None:
        """Remember a batch: nothing of it reaches the service before the push waits for it."""
        self._begun = requests, longest_s

    def finish(self) -> bool:
        """Send what was begun."""
        return self.ask_all(*self._begun)

    def cut(self) -> None:
        """Nothing is under way any more."""

    def ask_all(self, requests: Sequence[Request], longest_s: float) -> bool:
        """Send a batch; an exception leaves what was taken as a process that died would."""
        batch = Batch(requests, longest_s)
        under_way: list[Request] = []
        while True:
            while len(under_way) < self.most and (request := batch.take()) is not None:
                under_way.append(request)
            if not under_way:
                return batch.in_time
            request = under_way.pop(self._random.randrange(len(under_way)))
            request.ask(self._client)
            if request.ends_batch:
                batch.end()

    def close(self) -> None:
        """Nothing to let go of."""
