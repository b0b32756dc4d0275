"""Marks order what happened, and tell how long ago it was, whatever the wall clock does."""

import json
import sys

import pytest

from geolookup.state.base import clock
from geolookup.state.base.marks import Mark, is_conclusive


def mark(counter: int, boot_s: float, boot: str = "this") -> Mark:
    return Mark(counter=counter, boot=boot, boot_s=boot_s)


@pytest.mark.parametrize(
    ("written", "listed", "conclusive"),
    [
        (mark(1, 100.0), mark(2, 130.0), True),
        (mark(1, 100.0), mark(2, 129.9), False),
        (mark(2, 100.0), mark(1, 200.0), False),  # begun before it, whatever the clock says
        (mark(1, 9e6), mark(2, 30.0, "next"), True),
        (mark(1, 9e6), mark(2, 29.0, "next"), False),  # nobody knows when the other boot ended
        (mark(1, 10.0, ""), mark(2, 35.0, ""), False),
        (mark(1, 100.0, ""), mark(2, 40.0, ""), True),  # the clock began anew, so the machine did
    ],
)
def test_a_list_is_conclusive_if_it_began_late_enough_after_the_write(
    written: Mark, listed: Mark, conclusive: bool
) -> None:
    assert is_conclusive(listed, written, 30.0) is conclusive


def test_a_mark_is_read_as_it_was_written() -> None:
    now = Mark.now(7)
    assert Mark.of(json.loads(json.dumps(now.as_json()))) == now


@pytest.mark.parametrize("found", ["", 7, [], [1, 2, 3], [-1, "", 0], [True, "", 0], [1, "", "0"]])
def test_what_is_no_mark_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="a mark is not what was written"):
        Mark.of(found)


def test_the_clock_of_the_boot_does_not_go_back_and_the_boot_has_a_name() -> None:
    assert 0 < clock.boot_s() <= clock.boot_s()
    if sys.platform == "linux":
        assert clock.boot_id()
    assert clock.boot_id() == clock.boot_id()
