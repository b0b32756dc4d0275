"""Doubtful blocks of the custom layer: redundant, shadowed, crossing, identical, without a geolocation."""

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from sortedcontainers import SortedKeyList, SortedList

from geolookup.model.precedence import order
from geolookup.model.types import Geolocation, IPBlock

Kind: TypeAlias = Literal["gone", "identical", "redundant", "shadowed", "crossing"]

#: A message names this many other blocks at most.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One doubtful block.

    ``others`` are what makes it doubtful, each (locid, block): the identical or crossing block of another
    geolocation, those that win in its place; empty for ``gone``. ``block`` is None for a geolocation that is gone and
    has none.
    """

    kind: Kind
    locid: int
    block: IPBlock | None
    others: tuple[tuple[int, IPBlock], ...] = ()

    def describe(self, names: Mapping[int, str] = MappingProxyType({})) -> str:
        """The finding in words; ``names`` are those of sites, which stand in place of their locids."""
        if self.kind == "gone":
            what = f"{self.block} belongs to" if self.block is not None else "there are pending edits of"
            return f"{what} {names.get(self.locid, f'geolocation {self.locid}')}, which the service no longer lists"
        who = f"{self.block} of {names.get(self.locid, self.locid)}"
        named = ", ".join(f"{block} of {names.get(locid, locid)}" for locid, block in self.others[:_MOST_NAMED])
        if len(self.others) > _MOST_NAMED:
            named += f" and {len(self.others) - _MOST_NAMED} more"
        first = min([self.locid, *(locid for locid, _ in self.others)])
        return {
            "identical": f"{who} is {named} too: {names.get(first, first)} wins",
            "redundant": f"{who} is not needed: without it, {named} would give the same answers",
            "shadowed": f"{who} is shadowed: every address of it is won by {named}",
            "crossing": f"{who} crosses {named}: where they overlap, the narrower one wins",
        }[self.kind]

    def as_dict(self) -> dict[str, Any]:
        """The finding for ``--json``."""
        return {
            "finding": self.kind,
            "locid": self.locid,
            "block": None if self.block is None else _ends(self.block),
            "others": [{"locid": locid, "block": _ends(block)} for locid, block in self.others],
            "description": self.describe(),
        }


def lint(places: Iterable[Geolocation], *, gone: Collection[int] = ()) -> list[Finding]:
    """The doubtful ones among the blocks of these custom geolocations; by kind, then locid from zero, then block.

    - ``gone``: it belongs to one of the locids in ``gone``.
    - ``identical``: another geolocation has the same range.
    - ``redundant``: it wins addresses, and without it each of them would still go to its geolocation, by another block.
    - ``shadowed``: it wins no address, though no identical block is in its way.
    - ``crossing``: it overlaps a block of another geolocation, and neither holds the other; told of the first one.

    Each is about that block alone: where two are redundant, removing one may make the other needed. Takes time for
    the blocks and what is found, not for their pairs.
    """
    places = list(places)
    nothing: list[IPBlock | None] = [None]
    findings = [
        Finding(kind="gone", locid=place.locid, block=block)
        for place in places
        if place.locid in gone
        for block in sorted(set(place.ipblocks)) or nothing
    ]
    for family in (4, 6):
        owned = {(block, place.locid) for place in places for block in place.ipblocks if block.family == family}
        blocks = sorted(owned, key=lambda item: (item[0], -item[1]))
        findings += _identical(blocks)
        findings += _never_needed(blocks)
        findings += _crossing(blocks)
    order = ("gone", "identical", "redundant", "shadowed", "crossing")
    return sorted(
        findings,
        key=lambda found: (order.index(found.kind), -found.locid, () if found.block is None else (found.block,)),
    )


_Owned: TypeAlias = tuple[IPBlock, int]


def _identical(blocks: list[_Owned]) -> Iterator[Finding]:
    groups: dict[IPBlock, list[int]] = {}
    for block, locid in blocks:
        groups.setdefault(block, []).append(locid)
    for block, locids in groups.items():
        if len(locids) > 1:
            others = tuple((other, block) for other in locids[1:])
            yield Finding(kind="identical", locid=locids[0], block=block, others=others)


def _never_needed(blocks: list[_Owned]) -> Iterator[Finding]:
    """Redundant and shadowed blocks: by a sweep over the addresses at which a block begins or ends."""

    def precedence(number: int) -> tuple[int, int]:
        block, locid = blocks[number]
        return order(block.first, block.last, -locid)

    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, (block, _) in enumerate(blocks):
        begins.setdefault(block.first, []).append(number)
        ends.setdefault(block.last + 1, []).append(number)
    active: SortedKeyList[int] = SortedKeyList(key=precedence)
    starts: list[int] = []
    winners: list[int | None] = []
    heirs: dict[int, set[int]] = {}
    needed = set()
    for position in sorted(begins.keys() | ends.keys()):
        for number in ends.get(position, ()):
            active.remove(number)
        for number in begins.get(position, ()):
            active.add(number)
        starts.append(position)
        winners.append(active[0] if active else None)
        if active:
            heir = active[1] if len(active) > 1 else None
            if heir is None or blocks[heir][1] != blocks[active[0]][1]:
                needed.add(active[0])
            else:
                heirs.setdefault(active[0], set()).add(heir)
    shared = {first for (first, _), (second, _) in itertools.pairwise(blocks) if first == second}
    won = {winner for winner in winners if winner is not None}
    for number, (block, locid) in enumerate(blocks):
        if number in won and number not in needed:
            others = tuple((blocks[heir][1], blocks[heir][0]) for heir in sorted(heirs[number]))
            yield Finding(kind="redundant", locid=locid, block=block, others=others)
        elif number not in won and block not in shared:
            begin, end = bisect_right(starts, block.first) - 1, bisect_right(starts, block.last)
            inside = sorted({winner for winner in winners[begin:end] if winner is not None})
            others = tuple((blocks[winner][1], blocks[winner][0]) for winner in inside)
            yield Finding(kind="shadowed", locid=locid, block=block, others=others)


def _crossing(blocks: list[_Owned]) -> Iterator[Finding]:
    active: SortedList[tuple[int, int]] = SortedList()  # (last address, number), of those that began earlier
    waiting: list[int] = []
    for number, (block, locid) in enumerate(blocks):
        if waiting and blocks[waiting[0]][0].first < block.first:
            active.update((blocks[each][0].last, each) for each in waiting)
            waiting.clear()
        while active and active[0][0] < block.first:
            del active[0]
        for last, other in active:
            if last >= block.last:
                break
            if blocks[other][1] != locid:
                yield Finding(kind="crossing", locid=blocks[other][1], block=blocks[other][0], others=((locid, block),))
        waiting.append(number)


def _ends(block: IPBlock) -> dict[str, str]:
    return {"startip": block.startip, "endip": block.endip}
