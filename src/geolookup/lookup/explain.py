"""Why one block wins an address: the precedence rule, said in words block by block, over all sources."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolookup.errors import StateBusyError, StateDamagedError, StateUnwritableError
from geolookup.lookup.since import answer_since
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.fields import UNKNOWN
from geolookup.model.reports import CoveringBlock, Explanation
from geolookup.model.types import Geolocation, IPBlock, Layer, Match
from geolookup.state.base.clock import age_s
from geolookup.state.base.current import Current
from geolookup.state.base.parts import has_service, parts_of, snapshot_path
from geolookup.state.base.sqlite import GLANCE_WAIT_S
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

#: The kinds of sources whose places have numbers of their own: of two equal blocks the greater number wins.
_NUMBERED = ("service", "list", "legacy-csv")
#: Stands for a mask in an explanation.
_NOWHERE = Geolocation(locid=0, **UNKNOWN)  # type: ignore[arg-type] # the table of fields has every one


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """A block that covers the address. ``position`` is its source's in the stack, -1 for the custom layer; ``later`` is
    greater for what was defined later in the same source.
    """

    block: IPBlock
    laid: Laid
    source: str = "service"
    position: int = 0
    later: int = 0
    numbered: bool = True

    @property
    def layer(self) -> Layer:
        """Of the custom layer or of a source."""
        return "custom" if self.position < 0 else "default"

    @property
    def size(self) -> int:
        """One less than its addresses."""
        return self.block.last - self.block.first

    def order(self) -> tuple[int, int, int]:
        """The sort key: the first block wins."""
        return self.position, self.size, -self.later


def explain(
    snapshot: Snapshot, home: str, address: str, family: "Family", value: int, *, is_past: bool = False
) -> Explanation:
    """Why an address resolves as it does; the explanation repeats ``address``.

    If ``is_past``, the snapshot is a kept generation as it was served last. The local edits of that time are not kept,
    but the custom layer that they made is: of it the block that won is known, if the address has its answer from there.
    """
    current = snapshot.current
    directory = StateDirectory(home)
    covering: list[Covering] = []
    for position, part in enumerate(parts_of(current.published)):
        cache = Cache(f"{snapshot_path(home, part.snapshot)}/cache.db")
        numbered = part.kind in _NUMBERED
        for block, place, row in cache.covering_rows(family, value):
            if place is None or place.locid > 0:
                covering.append(
                    Covering(
                        block=block,
                        laid=Laid(place=place or _NOWHERE),
                        source=part.name,
                        position=position,
                        later=place.locid if numbered and place is not None else row,
                        numbered=numbered,
                    )
                )
    unreadable: tuple[str, ...] = ()
    match = snapshot.match(address, family, value)
    try:
        if is_past:
            layer = _custom_of_then(directory, current, match, family, value)
        elif directory.edits.is_of_others():
            raise StateUnwritableError(f"{directory.edits.path} is for its owner only")
        else:
            layer = list(directory.custom_layer(current.generation, current.published, wait_s=GLANCE_WAIT_S).values())
    except (StateBusyError, StateDamagedError, StateUnwritableError) as error:
        # Pulled blocks can still be explained; an edit behind the answer cannot.
        layer = [Laid(place=place) for place in directory.cache(current.generation).custom()]
        unreadable = (f"the local edits cannot be read: {error}",)
    if not has_service(current.published):
        layer = [replace(laid, edits=()) for laid in layer]
    for laid in layer:
        covering += [
            Covering(block=block, laid=laid, source="custom", position=-1, later=-laid.place.locid)
            for block in laid.place.ipblocks
            if block.family == family and block.first <= value <= block.last
        ]
    ranked = list(rank(covering))
    return Explanation(
        address=address,
        match=match,
        covering=tuple(item for item, _ in ranked),
        generation=current.generation,
        source=current.source,
        age_s=age_s(current.dated),
        confirmed="dated" not in current.published,
        since=answer_since(directory, current.generation, match, family, value),
        edits=unreadable or tuple(f"{edit.describe()} ({edit.state})" for _, laid in ranked[:1] for edit in laid.edits),
    )


def _custom_of_then(
    directory: StateDirectory, current: Current, match: Match | None, family: "Family", value: int
) -> list[Laid]:
    """Of the custom layer of a kept generation, the geolocation that won, with the block that did.

    That is a block of the service's list, if the geolocation has one there that holds the address; else an edit made
    it, and as much of it is known as had this answer.
    """
    if match is None or match.layer != "custom":
        return []
    listed = [place for place in directory.cache(current.generation).custom() if place.locid == match.geolocation.locid]
    blocks = [
        block
        for place in listed
        for block in place.ipblocks
        if block.family == family and block.first <= value <= block.last
    ]
    won = min(blocks, key=lambda block: block.last - block.first, default=IPBlock.parse(match.first, match.last))
    return [Laid(place=replace(match.geolocation, ipblocks=(won,)))]


def rank(covering: list[Covering]) -> Iterator[tuple[CoveringBlock, Laid]]:
    """Blocks that cover an address, the winner first and the others as they would have won, each with its rule."""
    ordered = sorted(covering, key=Covering.order)
    for at, each in enumerate(ordered):
        reason = _why_it_wins(ordered) if at == 0 else _why_it_loses(each, ordered[0])
        place = each.laid.place
        item = CoveringBlock(
            block=each.block,
            geolocation=replace(place, ipblocks=()),
            layer=each.layer,
            wins=at == 0,
            reason=reason,
            pending=each.laid.pending,
            source=each.source,
            masks=place.locid == 0,
        )
        yield item, each.laid


def _why_it_wins(ordered: list[Covering]) -> str:
    winner = ordered[0]
    rivals = [other for other in ordered[1:] if other.position == winner.position]
    if len(ordered) == 1:
        reason = "the only block that covers it"
    elif not rivals:
        custom = winner.layer == "custom"
        reason = (
            "a custom block comes before every default one"
            if custom
            else f"a block of {winner.source} comes before those of the sources below it"
        )
    elif rivals[0].size > winner.size:
        of = winner.layer if len({each.position for each in ordered if each.position >= 0}) <= 1 else winner.source
        reason = f"the narrowest {of} block that covers it"
    elif winner.numbered:
        reason = "of blocks of equal size, the later defined (its locid is further from zero)"
    else:
        reason = "of blocks of equal size, the later one in its file"
    if winner.laid.place.locid == 0:
        return f"{winner.source} says that it has no location: {reason}"
    return reason


def _why_it_loses(each: Covering, winner: Covering) -> str:
    if each.position != winner.position:
        return "a custom block covers the address" if winner.position < 0 else f"a block of {winner.source} covers it"
    if each.size > winner.size:
        return f"wider than {winner.block}"
    return f"as wide as {winner.block}, but defined earlier"
