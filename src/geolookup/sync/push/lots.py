"""Edits that go out together: the rule alone, which a push follows and a plan tells."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from geolookup.model.types import IPBlock
from geolookup.state.edits.outbox.operations import Create, Delete, RemoveBlock, ReplaceBlock
from geolookup.state.edits.outbox.payload import blocks_of, ends_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push.reconcile import waits_for

#: Edits of one lot.
_MOST = 256
#: Edits looked through for a lot: those of one geolocation, of which only the first may join, may be many.
LOOKED_THROUGH = 4 * _MOST

_Values: TypeAlias = tuple[Any, ...]


def may_share(row: OutboxRow) -> bool:
    """True if an edit may be one of a lot: no service can have heard of it, and one request brings it there."""
    return (
        row.state == State.QUEUED and not isinstance(row.edit, RemoveBlock) and not row.attempts and row.journal is None
    )


def to_go_with(
    row: OutboxRow,
    later: Sequence[OutboxRow],
    *,
    blocked: Collection[int],
    fresh: Callable[[OutboxRow], OutboxRow | None],
    is_free: Callable[[OutboxRow], bool],
) -> list[OutboxRow]:
    """The later edits that go out with this one, in their order: each the first of another geolocation.

    They may be under way at the same time, so it must not matter which of them the service meets first. ``fresh`` says
    how an edit is now, None if it is over; ``is_free`` whether one has to wait for none outside the lot. What stands
    behind an edit whose outcome is unknown goes out after it.
    """
    if not may_share(row):
        return []
    found: list[OutboxRow] = []
    together, passed = _Together(row), {row.locid, *blocked}
    for known in later[:LOOKED_THROUGH]:
        if len(found) + 1 >= _MOST or known.state == State.UNKNOWN:
            break
        other = fresh(known)
        if other is None:
            continue
        if other.locid not in passed and may_share(other) and together.may_join(other) and is_free(other):
            together.add(other)
            found.append(other)
        else:
            together.pass_over(other)
        passed.add(other.locid)
    return found


class _Together:
    """The edits of a lot so far, by what they have to do with others."""

    def __init__(self, row: OutboxRow) -> None:
        self._created: set[_Values] = set()
        self._kinds: set[type] = set()
        self._claimed = _Claimed()
        self.add(row)

    def add(self, row: OutboxRow) -> None:
        """One more."""
        self._kinds.add(type(row.edit))
        if isinstance(row.edit, Create):
            self._created.add(_values(row.edit.fields))
        self.pass_over(row)

    def pass_over(self, row: OutboxRow) -> None:
        """One that goes out later: what has to do with its blocks must not overtake it."""
        for block in _touched(row):
            self._claimed.add(block)

    def may_join(self, row: OutboxRow) -> bool:
        """True if the order does not matter between an edit and those here, with any outcome of each."""
        if isinstance(row.edit, Create):
            # Of two equal ones, nobody could tell which is which; and what is deleted may leave its number to a create.
            return Delete not in self._kinds and _values(row.edit.fields) not in self._created
        if isinstance(row.edit, Delete) and Create in self._kinds:
            return False
        base = row.base
        if base is not None and not base["blocks"] and _values(base["fields"]) in self._created:
            return False  # it may be of what an equal create, if its answer is lost, is found by
        return not any(self._claimed.meets(block) for block in _touched(row))


def _values(fields: Mapping[str, Any]) -> _Values:
    return tuple(sorted(fields.items()))


def _touched(row: OutboxRow) -> Iterable[IPBlock]:
    """The blocks that an edit gives to its geolocation, or takes away."""
    taken = () if row.edit.takes is None else (row.edit.takes,)
    if isinstance(row.edit, ReplaceBlock | RemoveBlock):
        return (*taken, row.edit.block)
    if row.edit.frees_blocks and row.base is not None:
        return blocks_of(row.base["blocks"])
    return taken


class _Claimed:
    """Addresses, as disjoint ranges of each family in their order."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {4: [], 6: []}

    def meets(self, block: IPBlock) -> bool:
        """True if any address of the block is among them."""
        ranges = self._ranges[block.family]
        after = bisect_right(ranges, block.last, key=lambda each: each[0])
        return after > 0 and ranges[after - 1][1] >= block.first

    def add(self, block: IPBlock) -> None:
        """Add the block's addresses."""
        ranges = self._ranges[block.family]
        begin = bisect_left(ranges, block.first, key=lambda each: each[1])
        end = bisect_right(ranges, block.last, key=lambda each: each[0])
        met = ranges[begin:end]
        ranges[begin:end] = [
            (min([block.first, *(first for first, _ in met)]), max([block.last, *(last for _, last in met)]))
        ]


class Obstacles:
    """The rows of `Outbox.rows_in_the_way`, grouped by what they block: few of a thousand free an edit's block."""

    def __init__(self, rows: Iterable[OutboxRow]) -> None:
        self._creates: list[OutboxRow] = []
        self._freeing: dict[tuple[str, ...], list[OutboxRow]] = {}
        for row in rows:
            if isinstance(row.edit, Create):
                self._creates.append(row)
                continue
            if isinstance(row.edit, RemoveBlock | ReplaceBlock):
                freed = [ends_of(row.edit.block)]
            else:
                freed = (row.base or {}).get("blocks", [])
            for ends in freed:
                self._freeing.setdefault(tuple(ends), []).append(row)

    def waited_for_by(self, row: OutboxRow) -> OutboxRow | None:
        """The edit that must be over before this one may go out, as `reconcile.waits_for`."""
        taken = row.edit.takes
        freeing = () if taken is None else self._freeing.get(tuple(ends_of(taken)), ())
        return waits_for(row, [*self._creates, *freeing])
