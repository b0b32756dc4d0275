"""Which edits go out together: the rule alone, by which a push sends and a plan says in which order it will."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from geolookup.state.edits.outbox.operations import AddBlock, Create, ReplaceBlock
from geolookup.state.edits.outbox.row import OutboxRow, State

#: Edits of one lot.
_MOST = 64
#: Edits looked through for a lot: those of one geolocation, of which only the first may join, may be many.
LOOKED_THROUGH = 8 * _MOST


def may_share(row: OutboxRow) -> bool:
    """Whether an edit may be one of a lot: no service can have heard of it, and none need be asked before its request.

    Of an edit that overwrites what somebody may have changed, the service is asked right before.
    """
    return (
        row.state == State.QUEUED
        and isinstance(row.edit, Create | AddBlock | ReplaceBlock)
        and not row.attempts
        and row.journal is None
    )


def to_go_with(
    row: OutboxRow,
    later: Sequence[OutboxRow],
    *,
    blocked: Collection[int],
    fresh: Callable[[OutboxRow], OutboxRow | None],
    is_free: Callable[[OutboxRow, list[OutboxRow]], bool],
) -> list[OutboxRow]:
    """The later edits that go out right after this one, in their order: each the first of another geolocation.

    ``fresh`` says how an edit is now, None if it is over; ``is_free`` whether one has to wait for no other, not even
    for those of a list that are under way. What stands behind an edit whose outcome is unknown goes out after it.
    """
    if not may_share(row):
        return []
    found, passed = [replace(row, state=State.SENDING)], {row.locid, *blocked}
    for known in later[:LOOKED_THROUGH]:
        if len(found) >= _MOST or known.state == State.UNKNOWN:
            break
        other = fresh(known)
        if other is None:
            continue
        if other.locid not in passed and may_share(other) and is_free(other, found):
            found.append(replace(other, state=State.SENDING))
        passed.add(other.locid)
    return [replace(other, state=State.QUEUED) for other in found[1:]]
