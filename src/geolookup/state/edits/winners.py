"""Which custom geolocations win the addresses of a range: the narrowest block, of equal ones the later defined."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from sortedcontainers import SortedKeyList

from geolookup.model import Geolocation, IPBlock

#: Of each block that wins addresses, its locid; None stands for what no custom block covers.
Winners: TypeAlias = dict[tuple[int, IPBlock] | None, int]


def winners(places: Iterable[Geolocation], block: IPBlock) -> Winners:
    """How many addresses of ``block`` each block of these custom geolocations wins; a default one may win the rest."""
    owned = [
        (each, place.locid)
        for place in places
        for each in place.ipblocks
        if each.family == block.family and each.first <= block.last and block.first <= each.last
    ]
    changes: dict[int, list[tuple[bool, tuple[IPBlock, int]]]] = {block.first: [], block.last + 1: []}
    for each in owned:
        changes.setdefault(max(each[0].first, block.first), []).append((True, each))
        changes.setdefault(min(each[0].last, block.last) + 1, []).append((False, each))
    active: SortedKeyList[tuple[IPBlock, int]] = SortedKeyList(key=lambda each: (each[0].last - each[0].first, each[1]))
    found: Winners = {}
    positions = sorted(changes)
    for begin, end in pairwise(positions):
        for comes, each in changes[begin]:
            if comes:
                active.add(each)
            else:
                active.remove(each)
        first = (active[0][1], active[0][0]) if active else None
        found[first] = found.get(first, 0) + end - begin
    return found
