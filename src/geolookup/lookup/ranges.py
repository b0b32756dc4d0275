"""What the addresses of one range resolve to, piece by piece."""

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from geolookup.addresses import to_text
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import IPBlock, Match

if TYPE_CHECKING:
    from geolookup.addresses import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Addresses side by side with one answer; ``match`` is None if nothing covers them, else its range is the block."""

    block: IPBlock
    match: Match | None


def pieces(geo: GeoLookup, block: IPBlock, most: int) -> tuple[list[Piece], IPBlock | None]:
    """The first ``most`` pieces of a block, ascending, and what is left of it, None if that is all.

    The pieces together are the block without gaps: what nothing covers is a piece too.

    :raises IndexDamagedError: if the files are damaged there
    """

    def work(snapshot: Snapshot) -> tuple[list[Piece], IPBlock | None]:
        found: list[Piece] = []
        at = block.first
        while at <= block.last and len(found) < most:
            match = snapshot.match(to_text(block.family, at), block.family, at)
            if match is not None:
                covered = IPBlock.parse(match.first, match.last)
                last = min(covered.last, block.last)
            else:
                following = next(islice(snapshot.segments(block.family, None, at), 1), None)
                last = block.last if following is None else min(following.first - 1, block.last)
            found.append(Piece(block=_part(block.family, at, last), match=match))
            at = last + 1
        return found, None if at > block.last else _part(block.family, at, block.last)

    return geo.with_snapshot(work)


def _part(family: "Family", first: int, last: int) -> IPBlock:
    return IPBlock(family=family, first=first, last=last)
