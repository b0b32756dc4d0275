"""Several connections without threads: what is under way together is answered in an order that a seed chooses."""

from random import Random
from typing import Any

import pytest

from geolookup.sync.push import group
from geolookup.sync.push.connections import Batch, Request


def interleave(patch: pytest.MonkeyPatch, random: Random, connections: int) -> None:
    """Have pushes use at most this many connections, from their first edits on, in one thread, as `Interleaved`."""
    patch.setattr(group, "Connections", lambda client, _most: Interleaved(client, connections, random))
    patch.setattr(group, "_FIRST_CONNECTIONS", connections)
    patch.setattr(group, "_EDITS_EACH", 1)


class Interleaved:
    """Stands in for `Connections`: of what has been taken, any may reach the service next."""

    def __init__(self, client: Any, most: int, random: Random) -> None:
        self._client, self.most, self._random = client, most, random

    def ask(self, batch: Batch, at_most: int) -> None:
        """Send a batch; an exception leaves what was taken as a process that died would."""
        under_way: list[Request] = []
        while True:
            while len(under_way) < at_most and (request := batch.take()) is not None:
                under_way.append(request)
            if not under_way:
                return
            request = under_way.pop(self._random.randrange(len(under_way)))
            request.ask(self._client)
            if request.ends_batch:
                batch.end()

    def close(self) -> None:
        """Nothing to let go of."""
