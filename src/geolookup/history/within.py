"""Whose answer differs inside a few ranges, place by place: what an edit of some blocks changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolookup.index.compare import LayerPair
from geolookup.index.layers import source_of
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.lookup.snapshot import OpenLayer
from geolookup.model.types import Geolocation, IPBlock

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

#: Ranges that are named of those with the same change.
NAMED_RANGES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What addresses resolve to: the place, and the source that has it."""

    place: Geolocation
    source: str


@dataclass(slots=True, kw_only=True)
class PlaceChange:
    """Addresses that have one answer before and another one after; None if nothing covers them.

    ``ranges`` counts the ranges, each with one answer before and one after; ``named`` has the first `NAMED_RANGES`.
    """

    before: Answer | None
    after: Answer | None
    ipv4: int = 0
    ipv6: int = 0
    ranges: int = 0
    named: tuple[IPBlock, ...] = ()
    #: Where the last of them ends.
    end: "tuple[Family, int]" = (4, -2)


def changes_within(old: LayerPair, new: LayerPair, blocks: Iterable[IPBlock], *, most: int) -> list[PlaceChange] | None:
    """Every change inside these blocks, those of most addresses first; exact.

    Answers are equal if they are the same geolocation, field by field. None if there are more than ``most`` segments to
    look at: then `geolookup.history.impact.impact` counts them all, by country.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    before, after = (tuple(OpenLayer(reader) for reader in layers) for layers in (old, new))
    found: dict[tuple[Geolocation | None, Geolocation | None], PlaceChange] = {}
    looked = 0
    for family, low, high in merged(blocks):
        at = low
        while at <= high:
            looked += 1
            if looked > most:
                return None
            was, was_until = _piece(before, family, at)
            now, now_until = _piece(after, family, at)
            until = min(was_until, now_until, high)
            key = (None if was is None else was.place, None if now is None else now.place)
            if key[0] != key[1]:
                change = found.setdefault(key, PlaceChange(before=was, after=now))
                _count(change, family, at, until)
            at = until + 1
    return sorted(found.values(), key=lambda change: (-change.ipv4, -change.ipv6))


def merged(blocks: Iterable[IPBlock]) -> "list[tuple[Family, int, int]]":
    """The ranges that the blocks cover together: ascending and disjoint."""
    found: list[tuple[Family, int, int]] = []
    for block in sorted(blocks):
        if found and found[-1][0] == block.family and block.first <= found[-1][2] + 1:
            found[-1] = (block.family, found[-1][1], max(found[-1][2], block.last))
        else:
            found.append((block.family, block.first, block.last))
    return found


def _piece(layers: tuple[OpenLayer, ...], family: "Family", value: int) -> tuple[Answer | None, int]:
    """What an address resolves to, and the last address up to which that is so."""
    base, custom = layers
    slot, _, last = custom.reader.segment(family, value)
    if slot != EMPTY:
        return _answer(custom, custom.reader, slot), last
    slot, _, base_last = base.reader.segment(family, value)
    last = min(last, base_last)
    return (None if slot == EMPTY else _answer(base, base.reader, slot)), last


def _answer(layer: OpenLayer, reader: IndexReader, slot: int) -> Answer:
    return Answer(layer.geolocation(slot), source_of(reader, slot))


def _count(change: PlaceChange, family: "Family", first: int, last: int) -> None:
    if family == 4:
        change.ipv4 += last - first + 1
    else:
        change.ipv6 += last - first + 1
    goes_on = change.end == (family, first - 1)
    change.end = family, last
    if not goes_on:
        change.ranges += 1
        first_of_range = first
    elif change.ranges == len(change.named):  # a border in a file that makes no difference here
        first_of_range = change.named[-1].first
        change.named = change.named[:-1]
    else:
        return
    if len(change.named) < NAMED_RANGES and change.ranges == len(change.named) + 1:
        change.named = (*change.named, IPBlock(family=family, first=first_of_range, last=last))
