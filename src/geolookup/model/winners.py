"""The custom geolocations that win the addresses of a range, by the rule of `model.precedence`."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from sortedcontainers import SortedKeyList

from geolookup.model.precedence import order
from geolookup.model.types import Geolocation, IPBlock

#: Of each block that wins addresses, its locid; None stands for what no custom block covers.
Winners: TypeAlias = dict[tuple[int, IPBlock] | None, int]
#: A block, and the rank of its geolocation: of two the lesser one was defined later, as it is with custom locids.
Owned: TypeAlias = tuple[IPBlock, int]


def winners(places: Iterable[Geolocation], block: IPBlock) -> Winners:
    """Count the addresses of ``block`` that each of these custom blocks wins; a default one may win the rest."""
    owned = [
        (each, place.locid)
        for place in places
        for each in place.ipblocks
        if each.family == block.family and each.first <= block.last and block.first <= each.last
    ]
    found: Winners = {}
    rest = block.last - block.first + 1
    for begin, end, active in _stretches(owned):
        count = min(end, block.last + 1) - max(begin, block.first)
        if count > 0:
            first, locid = active[0]
            found[locid, first] = found.get((locid, first), 0) + count
            rest -= count
    return {**found, None: rest} if rest else found


def elsewhere(owned: Iterable[Owned], blocks: Collection[IPBlock]) -> tuple[int, dict[Owned, dict[Owned, int]]]:
    """Count the addresses of these ``blocks`` that go to other geolocations, in one pass over ``owned``, all there are.

    :returns: the count, each address counted once, and of each of the blocks that loses any the blocks that
        win them, with their numbers
    """
    looked_for = set(blocks)
    if not looked_for:
        return 0, {}
    by_family: dict[int, list[Owned]] = {}
    for each in owned:
        by_family.setdefault(each[0].family, []).append(each)
    total = 0
    found: dict[Owned, dict[Owned, int]] = {}
    for of_family in by_family.values():
        for begin, end, active in _stretches(of_family):
            losers = [each for each in active if each[1] != active[0][1] and each[0] in looked_for]
            total += end - begin if losers else 0
            for loser in losers:
                won = found.setdefault(loser, {})
                won[active[0]] = won.get(active[0], 0) + end - begin
    return total, found


def _stretches(owned: Iterable[Owned]) -> Iterator[tuple[int, int, Sequence[Owned]]]:
    """Stretches in which the same blocks of one family overlap; none where there is no block.

    Each is (first address, the one after the last, the blocks by precedence).
    """
    changes: dict[int, list[tuple[bool, Owned]]] = {}
    for each in owned:
        changes.setdefault(each[0].first, []).append((True, each))
        changes.setdefault(each[0].last + 1, []).append((False, each))
    active: SortedKeyList[Owned] = SortedKeyList(key=lambda each: order(each[0].first, each[0].last, -each[1]))
    for begin, end in pairwise(sorted(changes)):
        for comes, each in changes[begin]:
            if comes:
                active.add(each)
            else:
                active.remove(each)
        if active:
            yield begin, end, active
