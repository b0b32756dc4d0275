"""One thread calls what is due in the order in which it is, and ends if nothing will be."""

import os
import threading
from collections.abc import Iterator

import pytest

from geolookup.http import body as module
from geolookup.http.body import DEADLINES, Deadlines


def threads() -> int:
    return sum(thread.name == "geolookup-deadlines" for thread in threading.enumerate())


@pytest.fixture
def deadlines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deadlines]:
    monkeypatch.setattr(module, "_IDLE_S", 0.05)
    deadlines = Deadlines()
    yield deadlines
    assert ended(deadlines)


def ended(deadlines: Deadlines) -> bool:
    thread = deadlines._thread
    if thread is not None:
        thread.join(20)
    return deadlines._thread is None


def test_what_is_due_is_called_once_and_the_earlier_before_the_later(deadlines: Deadlines) -> None:
    called, all_called = [], threading.Event()
    before = threads()
    # The later one first: the thread must be woken for the earlier.
    deadlines.add(0.2, lambda: (called.append("late"), all_called.set()))
    deadlines.add(0.05, lambda: called.append("early"))
    deadlines.add(0.0, lambda: called.append("at once"))
    assert threads() == before + 1
    assert all_called.wait(20)
    assert called == ["at once", "early", "late"]


def test_what_is_cancelled_is_not_called(deadlines: Deadlines) -> None:
    called, last = [], threading.Event()
    one = deadlines.add(0.05, lambda: called.append("cancelled"))
    deadlines.add(0.1, last.set)
    deadlines.cancel(one)
    deadlines.cancel(one)
    assert last.wait(20)
    assert called == []


def test_its_thread_ends_when_nothing_is_due_and_another_begins_when_something_is(deadlines: Deadlines) -> None:
    # It may have begun to wait for this before it is cancelled, which does not wake it.
    deadlines.cancel(deadlines.add(0.2, lambda: pytest.fail("cancelled")))
    first = deadlines._thread
    assert first is not None
    first.join(20)
    assert not first.is_alive()
    called = threading.Event()
    deadlines.add(0.0, called.set)
    assert called.wait(20)


def test_a_time_that_no_thread_can_wait_for_is_no_error(deadlines: Deadlines) -> None:
    called = threading.Event()
    one = deadlines.add(1e300, lambda: pytest.fail("never"))
    deadlines.add(0.05, called.set)
    assert called.wait(20)
    deadlines.cancel(one)
    deadlines.add(0.0, lambda: None)  # it looks again


def test_a_child_begins_without_deadlines_and_can_have_its_own() -> None:
    one = DEADLINES.add(3600.0, lambda: None)
    child = os.fork()
    if child == 0:
        called = threading.Event()
        DEADLINES.add(0.0, called.set)
        os._exit(0 if called.wait(20) and len(DEADLINES._due) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    DEADLINES.cancel(one)
