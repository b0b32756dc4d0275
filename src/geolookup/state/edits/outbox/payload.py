"""Geolocations and blocks as edits.db holds them: fields by name, and a block as the texts of its two ends."""

from collections.abc import Iterable, Mapping
from typing import Any

from geolookup.model.fields import FIELD_NAMES, UNKNOWN
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.places.place import Content, Values


def geolocation(locid: int, content: Content) -> Geolocation:
    """A geolocation of this content."""
    blocks: Iterable[Any] = content.blocks
    return Geolocation(
        locid=locid, **dict(zip(FIELD_NAMES, content.values, strict=True)), ipblocks=tuple(sorted(blocks))
    )


def content_of(place: Geolocation) -> Content:
    """The content of a geolocation."""
    return Content(values_of(place.fields()), frozenset(place.ipblocks))


def values_of(fields: Mapping[str, Any]) -> Values:
    """The values of fields in their order; an edit from before a field was there says nothing of it."""
    return tuple(fields[name] if name in fields else UNKNOWN[name] for name in FIELD_NAMES)


def block_of(ends: Iterable[str]) -> IPBlock:
    """A block from its two ends as a row holds them."""
    return IPBlock.from_ends(*ends)


def blocks_of(many: Iterable[Iterable[str]]) -> tuple[IPBlock, ...]:
    """Blocks from their ends, sorted."""
    return tuple(sorted(block_of(ends) for ends in many))


def ends_of(block: IPBlock) -> list[str]:
    """A block as a row holds it."""
    return [block.startip, block.endip]


def described(content: Content | Geolocation | None) -> dict[str, Any] | None:
    """A content as a row's ``base`` and the history hold it: its fields and blocks."""
    if content is None:
        return None
    if isinstance(content, Geolocation):
        content = content_of(content)
    blocks: Iterable[Any] = content.blocks
    return {
        "fields": dict(zip(FIELD_NAMES, content.values, strict=True)),
        "blocks": [ends_of(block) for block in sorted(blocks)],
    }


def read_content(found: Mapping[str, Any]) -> Content:
    """The content that `described` wrote."""
    return Content(values_of(found["fields"]), frozenset(block_of(ends) for ends in found["blocks"]))
