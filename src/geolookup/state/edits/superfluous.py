"""Which edits that were never sent need not be sent at all, given what their geolocations shall be.

Sending them would be no mistake, but a delete and a create in place of nothing gives a place another number, and what
was added only to be removed is seen by everybody in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geolookup.state.edits.outbox.operations import Create, Delete, Update
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.place import Blocks, Content

_ANY = Content(())


@dataclass(frozen=True, slots=True)
class _Group:
    """Edits of one geolocation that are taken back together or not at all."""

    locid: int
    rows: tuple[OutboxRow, ...]

    @property
    def freed(self) -> dict[Any, int]:
        """The blocks that they take from the geolocation, each with the first edit that does."""
        found: dict[Any, int] = {}
        for row in self.rows:
            for block in _freed(row):
                found.setdefault(block, row.id)
        return found


def superfluous(rows: Sequence[OutboxRow], wanted: Mapping[int, Content | None]) -> list[OutboxRow]:
    """The edits among ``rows`` (all that are pending, oldest first) that can be taken back, oldest first.

    ``wanted`` says by the number on this machine what a geolocation shall be, None if it shall go. The others are left
    alone. All other edits stay as they are, in their order, and can still be made at the service.
    """
    groups = [group for locid, content in wanted.items() for group in _groups(locid, rows, content)]
    # What no service has heard of is forgotten as it is deleted, with all of its edits.
    unheard = {row.locid for row in rows if isinstance(row.edit, Create) and row.never_sent}
    rows = [row for row in rows if row.locid not in unheard or wanted.get(row.locid, _ANY) is not None]
    while True:
        gone = {row.id for group in groups for row in group.rows}
        stuck = _stuck(groups, [row for row in rows if row.id not in gone])
        if not stuck:
            return [row for row in rows if row.id in gone]
        # All of the geolocation: if its delete must stay, so must what was before.
        groups = [group for group in groups if group.locid not in stuck]


def _stuck(groups: Iterable[_Group], left: Iterable[OutboxRow]) -> set[int]:
    """The geolocations that would get back a block which an edit of another one takes, and which stays."""
    freed = [(group.locid, block, number) for group in groups for block, number in group.freed.items()]
    takers: dict[Any, list[OutboxRow]] = {}
    for row in left:
        if row.edit.takes is not None:
            takers.setdefault(row.edit.takes, []).append(row)
    return {
        locid
        for locid, block, number in freed
        if any(row.id > number and row.locid != locid for row in takers.get(block, ()))
    }


def _groups(locid: int, rows: Iterable[OutboxRow], content: Content | None) -> list[_Group]:
    unsent: list[OutboxRow] = []
    for row in rows:
        if row.locid == locid:
            unsent = [*unsent, row] if row.never_sent else []
    if not unsent:
        return []
    if content is None:
        # One that no service has heard of is forgotten, and one that is deleted already stays so.
        whole = isinstance(unsent[0].edit, Create) or isinstance(unsent[-1].edit, Delete)
        return [] if whole else [_Group(locid, tuple(unsent))]
    found = [_Group(locid, (row,)) for row in unsent if isinstance(row.edit, Delete)]
    updates = [row for row in unsent if isinstance(row.edit, Update)]
    for at, row in enumerate(updates):
        if row.against is not None and row.against.values == content.values:
            found.append(_Group(locid, tuple(updates[at:])))
            break
    return [*found, *_block_groups(locid, unsent, content)]


def _block_groups(locid: int, unsent: list[OutboxRow], content: Content) -> Iterator[_Group]:
    """The edits of blocks after a moment at which these were as they shall be.

    Edits that have a block in common belong together; the others are independent of them.
    """
    parts: list[tuple[set[Any], list[OutboxRow]]] = []
    for row in unsent:
        concerned = _concerned(row)
        if concerned:
            touched = [part for part in parts if part[0] & concerned]
            parts = [part for part in parts if part not in touched]
            members = sorted((other for _, others in touched for other in others), key=lambda other: other.id)
            parts.append((concerned.union(*(blocks for blocks, _ in touched)), [*members, row]))
    for blocks, members in parts:
        for at, row in enumerate(members):
            had = frozenset() if row.against is None else row.against.blocks
            if blocks & had == blocks & content.blocks:
                yield _Group(locid, tuple(members[at:]))
                break


def _concerned(row: OutboxRow) -> set[Any]:
    given = row.intent.new
    return set(row.intent.takes) if given is None else {*row.intent.takes, given}


def _freed(row: OutboxRow) -> Blocks:
    if row.intent.what == "delete":
        return frozenset() if row.against is None else row.against.blocks
    return row.intent.takes
