"""A range of addresses as lookups answer it: the segments in it, the largest first, or piece by piece."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from geolookup.index.layout import EMPTY
from geolookup.model.addresses import to_text
from geolookup.model.types import IPBlock, Match

if TYPE_CHECKING:
    from geolookup.lookup.snapshot import Snapshot
    from geolookup.model.addresses import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePart:
    """A piece of a range in which every address has the same answer: ``match``, or None if it has no place.

    ``first`` and ``last`` are the inclusive ends of the piece, cut to the range; those of ``match`` are the same.
    ``addresses`` is its size, and ``share`` what that is of the whole range.
    """

    first: str
    last: str
    match: Match | None
    addresses: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeAnswer:
    """The largest ``parts`` of a range, the largest first; ``count`` is how many there are, gaps included.

    ``covered`` is true if every address of the range is covered.
    """

    parts: tuple[RangePart, ...]
    count: int
    covered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Addresses side by side with one answer: ``match``, None if nothing says where they are.

    Of those ``has_network`` is true if something is known of who runs some of them.
    """

    block: IPBlock
    match: Match | None
    has_network: bool = False


def parts_of_range(
    snapshot: "Snapshot", text: str, family: "Family", first: int, last: int, most: int, *, facts: bool = False
) -> RangeAnswer:
    """The content of a range, with its ``most`` largest parts; memory does not grow with the range. ``text`` names it.

    With ``facts`` a part has one answer in all that is known, of its network too.

    :raises IndexDamagedError: if the file is damaged there
    """
    count = 0
    covered = True

    def counted() -> Iterator[tuple[int, int, Match | None]]:
        nonlocal count, covered
        for part in snapshot.matches(text, family, first, last, facts=facts):
            count += 1
            covered &= part[2] is not None
            yield part

    largest = heapq.nsmallest(most, counted(), key=lambda part: (part[0] - part[1], part[0]))
    size = last - first + 1
    return RangeAnswer(
        parts=tuple(
            RangePart(
                first=to_text(family, low),
                last=to_text(family, high),
                match=match,
                addresses=high - low + 1,
                share=(high - low + 1) / size,
            )
            for low, high, match in largest
        ),
        count=count,
        covered=covered,
    )


def pieces(snapshot: "Snapshot", block: IPBlock, most: int) -> tuple[list[Piece], IPBlock | None]:
    """The first ``most`` pieces of a block, ascending, and what is left of it, None if that is all.

    The pieces together are the block without gaps: what nothing covers is a piece too.

    :raises IndexDamagedError: if the files are damaged there
    """
    family, last = block.family, block.last
    if block.first == last:  # a walk along segments begins with many of them
        asked = block.startip, family, last
        match = snapshot.match(*asked)
        known = match is None and snapshot.network(*asked) is not None
        return [Piece(block=block, match=match, has_network=known)], None
    found = [
        Piece(
            block=IPBlock(family=family, first=low, last=high),
            match=match,
            has_network=match is None
            and any(number != EMPTY for *_, number in snapshot.networks_in(family, low, high)),
        )
        for low, high, match in islice(snapshot.matches(str(block), family, block.first, last), most)
    ]
    reached = found[-1].block.last
    return found, None if reached == last else IPBlock(family=family, first=reached + 1, last=last)


def pieces_of(snapshot: "Snapshot", blocks: Sequence[IPBlock], most: int) -> tuple[list[Piece], int, IPBlock | None]:
    """The first ``most`` pieces of several blocks, how many blocks have none of them, and what is left of the last one.

    :raises IndexDamagedError: if the files are damaged there
    """
    found: list[Piece] = []
    rest = None
    for number, block in enumerate(blocks):
        if len(found) == most:
            return found, len(blocks) - number, None
        more, rest = pieces(snapshot, block, most - len(found))
        found += more
    return found, 0, rest


def addresses_of(blocks: Iterable[IPBlock]) -> dict[int, int]:
    """The number of addresses that some blocks have together, by family: those of several count once."""
    found, reached = {4: 0, 6: 0}, {4: -1, 6: -1}
    for block in sorted(blocks):
        family = block.family
        found[family] += max(0, block.last - max(block.first - 1, reached[family]))
        reached[family] = max(reached[family], block.last)
    return found
