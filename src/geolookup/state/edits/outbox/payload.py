"""Geolocations and blocks as edits.db holds them: fields by name, and a block as the texts of its two ends."""

from collections.abc import Iterable, Mapping
from typing import Any

from geolookup.model.fields import UNKNOWN
from geolookup.model.types import Geolocation, IPBlock


def geolocation(locid: int, fields: Mapping[str, Any], blocks: tuple[IPBlock, ...]) -> Geolocation:
    """A geolocation from its fields as a row holds them."""
    # An edit from before a field was there says nothing of it.
    return Geolocation(locid=locid, **{**UNKNOWN, **fields}, ipblocks=blocks)


def block_of(ends: Iterable[str]) -> IPBlock:
    """A block from its two ends as a row holds them."""
    return IPBlock.from_ends(*ends)


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
