"""The threads that send over several connections: what fails in one, and what ends them."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from geolookup.sync.push import connections as connections_module
from geolookup.sync.push.connections import Batch, Connections


class Client:
    """What a thread sends over; `cut` ends what it is at."""

    def __init__(self) -> None:
        self.is_cut, self.is_closed = threading.Event(), False
        self.others: list[Client] = []

    def another(self) -> "Client":
        self.others.append(Client())
        return self.others[-1]

    def cut(self) -> None:
        self.is_cut.set()

    def close(self) -> None:
        self.is_closed = True


class Asked:
    """A request that is answered as it is told."""

    def __init__(self, answer: Callable[[Client], None] = lambda _client: None, *, ends: bool = False) -> None:
        self.begun, self.ended, self.ends_batch, self._answer = False, False, ends, answer

    def ask(self, client: Any) -> None:
        self._answer(client)
        self.ended = True


def test_what_fails_in_a_thread_fails_where_it_was_asked_for() -> None:
    client = Client()

    def fail(by: Client) -> None:
        if by is not client:
            raise ZeroDivisionError
        by.is_cut.wait(0.1)

    several = Connections(client, 4)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        several.ask(Batch([Asked(fail) for _ in range(20)], 9.0), 3)
    several.close()
    assert [other.is_closed for other in client.others] == [True, True]


def test_an_interruption_cuts_the_others_and_does_not_wait_for_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_module, "_END_S", 0.05)
    client, hanging = Client(), threading.Event()

    def ask(by: Client) -> None:
        if by is client:
            while len(client.others) < 2 or not begun[1].begun or not begun[2].begun:
                time.sleep(0.001)
            raise KeyboardInterrupt
        (hanging if by is client.others[0] else by.is_cut).wait(10)

    begun = [Asked(ask) for _ in range(9)]
    several = Connections(client, 3)  # type: ignore[arg-type]
    try:
        with pytest.raises(KeyboardInterrupt):
            several.ask(Batch(begun, 9.0), 3)
        assert [other.is_cut.is_set() for other in client.others] == [True, True]
        assert sum(each.begun for each in begun) == 3
    finally:
        hanging.set()
        several.close()


def test_the_first_is_taken_however_late_it_is_and_nothing_after_the_end() -> None:
    late = Batch([first := Asked(), Asked()], -1.0)
    assert (late.take(), late.take(), late.in_time) == (first, None, False)
    over = Batch([Asked(), Asked()], 9.0)
    over.end()
    assert (over.take(), over.in_time) == (None, True)
