"""What the added blocks of a plan do not get: addresses that go to other blocks, which are narrower."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from geolookup.base.text import addresses, count, plain
from geolookup.model.types import IPBlock
from geolookup.sites.site import block_text
from geolookup.state.edits.winners import Owned, elsewhere

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A geolocation with its blocks. One that is still to be created has no ``locid``, and one without a name no
    ``site``.
    """

    locid: int | None
    site: str | None
    blocks: tuple[IPBlock, ...]

    def __str__(self) -> str:
        if self.site is None:
            return f"geolocation {self.locid}"
        return self.site if self.locid is None else f"{self.site} ({self.locid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The addresses of added blocks that go to other geolocations.

    ``addresses`` counts each once. ``found`` has each added block that loses any, the one that loses most first, with
    the blocks that win them, the one that wins most first. ``added`` is how many blocks are added.
    """

    added: int = 0
    addresses: int = 0
    found: tuple[tuple[Owner, IPBlock, tuple[tuple[Owner, IPBlock, int], ...]], ...] = field(default=())

    @classmethod
    def of(cls, owners: Iterable[Owner], added: Collection[IPBlock]) -> "Elsewhere":
        """Look at the layer as it shall be; owners without a locid are created in this order."""
        ranked: dict[int, Owner] = {}
        owners = list(owners)
        least = min((owner.locid for owner in owners if owner.locid is not None), default=0)
        for owner in owners:
            if owner.locid is None:
                least -= 1
            ranked[least if owner.locid is None else owner.locid] = owner
        owned: list[Owned] = [(block, rank) for rank, owner in ranked.items() for block in owner.blocks]
        total, lost = elsewhere(owned, added)
        found = [
            (
                ranked[rank],
                block,
                tuple(
                    (ranked[winner], other, number)
                    for (other, winner), number in sorted(won.items(), key=lambda item: (-item[1], item[0][0]))
                ),
            )
            for (block, rank), won in lost.items()
        ]
        found.sort(key=lambda each: (-_sum(each[2]), each[1]))
        return cls(added=len(added), addresses=total, found=tuple(found))

    def describe(self) -> list[str]:
        """A sum and the first few, a line each; nothing if every added block gets all of its addresses."""
        if not self.found:
            return []
        which = f"{len(self.found)} of {count(self.added, 'added block')}"
        get = "does not get all of its" if len(self.found) == 1 else "do not get all of their"
        lines = [f"{which} {get} addresses: {plain(self.addresses)} go to other blocks"]
        for owner, block, won in self.found[:_MOST_NAMED]:
            other, by, number = won[0]
            lost, size = _sum(won), block.last - block.first + 1
            winner = f"{block_text(by)} of {other}"
            to = winner if len(won) == 1 else f"{len(won)} blocks, {plain(number)} of them to {winner}"
            share = f"{plain(lost)} of {addresses(size)} ({100 * lost / size:.3g}%)"
            lines.append(f"  {block_text(block)} of {owner}: {share} go to {to}")
        if len(self.found) > _MOST_NAMED:
            lines.append(f"  and {len(self.found) - _MOST_NAMED} more")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """All of it for ``--json``; numbers of addresses are texts, since many programs round large numbers."""
        return {
            "addresses": str(self.addresses),
            "blocks": [
                {
                    **_block_object(owner, block),
                    "addresses": str(_sum(won)),
                    "others": [{**_block_object(other, by), "addresses": str(number)} for other, by, number in won],
                }
                for owner, block, won in self.found
            ],
        }


def _block_object(owner: Owner, block: IPBlock) -> dict[str, Any]:
    return {"site": owner.site, "locid": owner.locid, "startip": block.startip, "endip": block.endip}


def _sum(won: Iterable[tuple[Owner, IPBlock, int]]) -> int:
    return sum(number for _, _, number in won)
