"""The custom layer as this machine sees it: a generation's custom geolocations with the local edits laid over them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from geolookup.fields import UNKNOWN
from geolookup.model import Geolocation, IPBlock
from geolookup.state.edits.outbox import OutboxRow, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A custom geolocation with its blocks as lookups see it.

    ``pending`` is true while an edit of it has not reached the service; ``edits`` are those edits, oldest first.
    """

    place: Geolocation
    edits: tuple[OutboxRow, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether an edit of it has not reached the service."""
        return bool(self.edits)


def lay_over(
    places: Iterable[Geolocation], rows: Iterable[OutboxRow], aliases: Mapping[int, int], *, began_at: str
) -> dict[int, Laid]:
    """Lay edits, oldest first, over the custom geolocations of a list that began at ``began_at``.

    An edit that the service acknowledged before the list began is in the list already; one that it acknowledged later,
    or not at all, is laid over it. ``aliases`` maps provisional locids to the service's; the result has the service's
    where there is one.
    """
    layer = {place.locid: Laid(place=place) for place in places}
    for row in rows:
        if row.state == State.DROPPED or (row.acknowledged_at is not None and row.acknowledged_at < began_at):
            continue
        locid = aliases.get(row.locid, row.locid)
        before = layer.pop(locid, None)
        after = apply(None if before is None else before.place, row, locid)
        if after is not None:
            pending = () if before is None else before.edits
            layer[locid] = Laid(place=after, edits=pending if row.state == State.DONE else (*pending, row))
    return layer


def apply(place: Geolocation | None, row: OutboxRow, locid: int) -> Geolocation | None:
    """What a geolocation is after an edit; None where it is gone.

    Where the list no longer has what the edit was made against, that stands in for it: until a person decides, the
    edit shows in lookups as it was meant.
    """
    if row.operation == "delete":
        return None
    if row.operation == "create":
        return geolocation(locid, row.payload["fields"], () if place is None else place.ipblocks)
    if place is None:
        base = row.base or {"fields": row.payload.get("fields"), "blocks": []}
        place = geolocation(locid, base["fields"], blocks_of(base["blocks"]))
    if row.operation == "update":
        return geolocation(locid, row.payload["fields"], place.ipblocks)
    blocks = set(place.ipblocks)
    if row.operation == "clear_blocks":
        blocks.clear()
    if row.operation in ("remove_block", "replace_block"):
        blocks.discard(block_of(row.payload["block"]))
    if row.operation == "add_block":
        blocks.add(block_of(row.payload["block"]))
    if row.operation == "replace_block":
        blocks.add(block_of(row.payload["new_block"]))
    return replace(place, ipblocks=tuple(sorted(blocks)))


def geolocation(locid: int, fields: Mapping[str, Any], blocks: tuple[IPBlock, ...]) -> Geolocation:
    """A geolocation from its fields as a row holds them."""
    # An edit from before a field was there says nothing of it.
    return Geolocation(locid=locid, **{**UNKNOWN, **fields}, ipblocks=blocks)


def block_of(ends: Iterable[str]) -> IPBlock:
    """A block from its two ends as a row holds them."""
    return IPBlock.parse(*ends)


def blocks_of(many: Iterable[Iterable[str]]) -> tuple[IPBlock, ...]:
    """Blocks from their ends, sorted."""
    return tuple(sorted(block_of(ends) for ends in many))


def ends_of(block: IPBlock) -> list[str]:
    """A block as a row holds it."""
    return [block.startip, block.endip]


def described(place: Geolocation | None) -> dict[str, Any] | None:
    """A geolocation as a row's ``base`` and the history hold it: its fields and blocks."""
    if place is None:
        return None
    return {"fields": place.fields(), "blocks": [ends_of(block) for block in sorted(place.ipblocks)]}
