"""Edits laid over a list: a number that was deleted, given again, and edited again."""

from dataclasses import replace
from typing import Any

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.base.marks import Mark
from geolookup.state.edits.layer import lay_over
from geolookup.state.edits.outbox.operations import AddBlock, Create, Delete, Edit
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import OutboxRow, State
from tests.state.edits.editing import BERLIN

OLD, NEW, MORE = (IPBlock.parse(f"10.{number}.0.0/16") for number in (1, 2, 3))


BARE = Geolocation(locid=-1, **BERLIN, ipblocks=())


def mark(counter: int) -> Mark:
    return Mark(counter=counter, boot="", boot_s=0.0)


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


def test_a_deletion_does_not_cover_an_older_create_that_was_given_its_number_since() -> None:
    create = edit(2, Create(fields=dict(BERLIN)), place(NEW), state=State.DONE)
    rows = [
        replace(create, locid=-1000, base=None),
        replace(edit(3, AddBlock(block=MORE), place(NEW), state=State.DONE), locid=-1000, base=None),
        edit(4, Delete(), place(OLD), state=State.DONE, number=-1),
    ]
    assert lay_over([place(OLD)], rows, {-1000: -1})[-1].place.ipblocks == (MORE,)
    assert lay_over([], rows, {-1000: -1})[-1].place.ipblocks == (MORE,)


def test_a_deletion_covers_whatever_a_list_has_that_is_older_than_its_request() -> None:
    """Somebody gave it a block after the deletion was asked for; it was sent nevertheless, as it was told."""
    sent, gone = (
        edit(2, Delete(), BARE, state=State.DONE, number=-1, **marks) for marks in ({"attempted": mark(7)}, {})
    )
    for row in (replace(sent, acknowledged=mark(8)), replace(gone, acknowledged=mark(7))):
        assert lay_over([place(NEW)], [row], {}, listed=6) == {}
        assert lay_over([place(NEW)], [row], {}, listed=9)[-1].place.ipblocks == (NEW,)
        assert lay_over([place(NEW)], [row], {})[-1].place.ipblocks == (NEW,)
