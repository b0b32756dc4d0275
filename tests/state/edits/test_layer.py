"""Edits laid over a list: a number that was deleted, given again, and edited again."""

from typing import Any

from geolookup.model import Geolocation, IPBlock
from geolookup.state.edits.layer import lay_over
from geolookup.state.edits.outbox.operations import AddBlock, Delete, Edit
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import OutboxRow, State
from tests.state.edits.editing import BERLIN

OLD, NEW, MORE = (IPBlock.parse(f"10.{number}.0.0/16") for number in (1, 2, 3))


def place(block: IPBlock) -> Geolocation:
    return Geolocation(locid=-1, **BERLIN, ipblocks=(block,))


def edit(order: int, what: Edit, before: Geolocation, **changes: Any) -> OutboxRow:
    members: dict[str, Any] = {"key": str(order), "state": State.QUEUED, "attempts": 0, "created_at": "", **changes}
    return OutboxRow(id=order, locid=-1, edit=what, base=described(before), **members)


def test_a_deletion_covers_what_came_before_it_and_nothing_that_came_after() -> None:
    rows = [
        edit(1, AddBlock(block=MORE), place(OLD), state=State.DONE),
        edit(2, Delete(), place(OLD), state=State.DONE, number=-1),
        edit(3, AddBlock(block=MORE), place(NEW)),  # of what the service has given the number to since
    ]
    assert lay_over([place(NEW)], rows[:2], {})[-1].place.ipblocks == (NEW,)
    laid = lay_over([place(NEW)], rows, {-1: -1})[-1]
    assert (laid.place.ipblocks, laid.pending) == ((NEW, MORE), True)
    assert lay_over([place(OLD)], rows[:2], {}) == {}
