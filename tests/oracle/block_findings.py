"""The linter's findings as plainly as they can be said: look at every address and every pair of blocks."""

from typing import Any

from geolookup.model.types import Geolocation, IPBlock


def findings(places: list[Geolocation], gone: set[int]) -> set[tuple[Any, ...]]:
    """(kind, locid, block, others) of each finding, the others as a set."""
    owned = sorted({(place.locid, block) for place in places for block in place.ipblocks})
    found: set[tuple[Any, ...]] = set()
    for place in places:
        if place.locid in gone:
            found |= {("gone", place.locid, block, frozenset()) for block in place.ipblocks or [None]}
    for locid, block in owned:
        same = {(other, at) for other, at in owned if at == block and other != locid}
        if same and locid == max({locid, *(other for other, _ in same)}):
            found.add(("identical", locid, block, frozenset(same)))
        if not same:
            winners = {_ranked(owned, block.family, address)[0] for address in range(block.first, block.last + 1)}
            if (locid, block) not in winners:
                found.add(("shadowed", locid, block, frozenset(winners)))
        heirs = set()
        for address in range(block.first, block.last + 1):
            ranked = [*_ranked(owned, block.family, address), (0, None)]
            if ranked[0] == (locid, block):
                heirs.add(ranked[1])
        if heirs and {heir[0] for heir in heirs} == {locid}:
            found.add(("redundant", locid, block, frozenset(heirs)))
        for other, at in owned:
            if other != locid and at.family == block.family and block.first < at.first <= block.last < at.last:
                found.add(("crossing", locid, block, frozenset({(other, at)})))
    return found


def _ranked(owned: list[tuple[int, IPBlock]], family: int, address: int) -> list[tuple[int, IPBlock]]:
    """The blocks that cover an address, in the order in which they win."""
    covering = [item for item in owned if item[1].family == family and item[1].first <= address <= item[1].last]
    return sorted(covering, key=lambda item: (item[1].last - item[1].first, -abs(item[0])))
