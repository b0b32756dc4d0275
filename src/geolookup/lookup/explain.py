"""Why one block wins an address: the precedence rule, said in words block by block."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from geolookup.errors import StateDamagedError
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import CoveringBlock, Explanation, IPBlock
from geolookup.state.clock import age_s
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.layer import Laid

if TYPE_CHECKING:
    from geolookup.addresses import Family


def explain(snapshot: Snapshot, home: str, address: str, family: "Family", value: int) -> Explanation:
    """Why an address resolves as it does; ``address`` is for the explanation to repeat."""
    current = snapshot.current
    directory = StateDirectory(home)
    cache = directory.cache(current.generation)
    covering = [(block, Laid(place=place)) for block, place in cache.covering(family, value) if place.locid > 0]
    unreadable: tuple[str, ...] = ()
    try:
        layer = list(directory.custom_layer(current.generation, current.published).values())
    except StateDamagedError as error:
        # What was pulled can be explained all the same; an edit behind the answer cannot.
        layer = [Laid(place=place) for place in cache.custom()]
        unreadable = (f"the local edits cannot be read: {error}",)
    for laid in layer:
        covering += [
            (block, laid)
            for block in laid.place.ipblocks
            if block.family == family and block.first <= value <= block.last
        ]
    ranked = list(rank(covering))
    return Explanation(
        address=address,
        match=snapshot.match(address, family, value),
        covering=tuple(item for item, _ in ranked),
        generation=current.generation,
        source=current.source,
        age_s=age_s(current.dated),
        edits=unreadable or tuple(f"{edit.describe()} ({edit.state})" for _, laid in ranked[:1] for edit in laid.edits),
    )


def rank(covering: list[tuple[IPBlock, Laid]]) -> Iterator[tuple[CoveringBlock, Laid]]:
    """Blocks that cover an address, the winner first and the others as they would have won, each with its rule."""

    def order(item: tuple[IPBlock, Laid]) -> tuple[bool, int, int]:
        block, laid = item
        return laid.place.locid > 0, block.last - block.first, -abs(laid.place.locid)

    ordered = sorted(covering, key=order)
    for position, (block, laid) in enumerate(ordered):
        place = laid.place
        if position == 0:
            rivals = [other for other in ordered[1:] if other[1].place.layer == place.layer]
            if len(ordered) == 1:
                reason = "the only block that covers it"
            elif not rivals:
                reason = "a custom block comes before every default one"
            elif rivals[0][0].last - rivals[0][0].first > block.last - block.first:
                reason = f"the narrowest {place.layer} block that covers it"
            else:
                reason = "of blocks of equal size, the later defined (its locid is further from zero)"
        else:
            winner_block, winner = ordered[0][0], ordered[0][1].place
            if place.layer != winner.layer:
                reason = "a custom block covers the address"
            elif block.last - block.first > winner_block.last - winner_block.first:
                reason = f"wider than {winner_block}"
            else:
                reason = f"as wide as {winner_block}, but defined earlier"
        item = CoveringBlock(
            block=block,
            geolocation=replace(place, ipblocks=()),
            layer=place.layer,
            wins=position == 0,
            reason=reason,
            pending=laid.pending,
        )
        yield item, laid
