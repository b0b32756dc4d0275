"""What an edit may have to wait for, found without a look at all that wait: few of a thousand free its block."""

from collections.abc import Iterable

from geolookup.state.edits.outbox.operations import Create, RemoveBlock, ReplaceBlock
from geolookup.state.edits.outbox.payload import ends_of
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.sync.push.reconcile import waits_for


class Obstacles:
    """The rows of `Outbox.rows_in_the_way`, by what they are in the way of."""

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
