"""A plan in numbers: how much comes and goes, and which addresses the added blocks do not get.

Too much that goes is refused until a person has looked at it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from geolookup.base.text import addresses, count, percent, plain
from geolookup.model.errors import TooMuchGoneError, WideBlockError
from geolookup.model.public import too_wide
from geolookup.model.types import Geolocation, IPBlock
from geolookup.model.winners import Owned, elsewhere
from geolookup.settings.table import Settings
from geolookup.sites.changes import Change, Kind
from geolookup.sites.site import block_text

_MOST_NAMED = 3
#: Steps that change a geolocation that stays.
_CHANGING = (Kind.TAKE_BACK, Kind.UPDATE, Kind.TIME_ZONE, Kind.ADD_BLOCK, Kind.REMOVE_BLOCK, Kind.CLEAR_BLOCKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A plan by kind.

    Of the ``sites`` of the file ``new`` are created, ``returned`` come back since their delete was not sent yet,
    ``changed`` are changed and ``unchanged`` stay as they are. ``deleted`` geolocations go, of ``known``: those that an
    earlier file named, and all if all others are pruned. A block is ``added`` or ``gone`` if no geolocation had it, or
    none has it any more, and ``moved`` if it goes from one to another; ``known_blocks`` are those of the known.
    ``wide`` are the sites that get very many addresses (`too_wide` of the blocks that each gets), in words.
    """

    sites: int
    new: int
    returned: int
    changed: int
    unchanged: int
    deleted: int
    known: int
    added: int
    moved: int
    gone: int
    known_blocks: int
    wide: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        sites: int,
        governed: Collection[Geolocation],
        changes: Iterable[Change],
        returned: Collection[str],
        before: Mapping[IPBlock, int],
        after: Mapping[IPBlock, int | None],
        names: Mapping[str, int],
    ) -> "Summary":
        """Count; ``before`` and ``after`` are the owners of all blocks, None for a site that is still to be created."""
        changes = list(changes)
        new = {change.site for change in changes if change.kind is Kind.CREATE}
        changed = {change.site for change in changes if change.kind in _CHANGING and change.site in names}
        return cls(
            sites=sites,
            new=len(new),
            returned=len(returned),
            changed=len(changed - new - set(returned)),
            unchanged=sites - len(new | changed | set(returned)),
            deleted=sum(change.kind is Kind.DELETE for change in changes),
            known=len(governed),
            added=len(after.keys() - before.keys()),
            moved=sum(owner != before[block] for block, owner in after.items() if block in before),
            gone=len(before.keys() - after.keys()),
            known_blocks=sum(len(place.ipblocks) for place in governed),
            wide=_wide(changes),
        )

    def describe(self) -> list[str]:
        """All of it in a line or two."""
        parts = {
            "to create": self.new,
            "whose delete is taken back": self.returned,
            "to change": self.changed,
            "as they are": self.unchanged,
        }
        told = ", ".join(f"{count} {what}" for what, count in parts.items() if count) or "none"
        lines = [f"sites in the file: {self.sites} ({told}); to delete: {self.deleted} of {self.known}"]
        if self.added or self.moved or self.gone:
            lines.append(
                f"networks: {self.added} more, {self.moved} to another site, {self.gone} of {self.known_blocks} gone"
            )
        return lines

    def reasons_to_hold(self, settings: Settings) -> list[str]:
        """The reasons for which a person must look at it first, a sentence each; empty if it may be made."""
        reasons = []
        for what, gone, of in (("sites", self.deleted, self.known), ("networks", self.gone, self.known_blocks)):
            many = gone > settings.guard_sites_gone and gone > settings.guard_sites_share * of
            if many or (gone == of and gone > 1):
                which = f"all {of}" if gone == of else f"{gone} of {of}"
                reasons.append(f"{which} {what} would be gone ({gone / of:.0%})")
        return [*reasons, *self.wide]

    def require_allowed(self, settings: Settings, file: str) -> None:
        """Refuse a plan that a person must look at.

        :raises TooMuchGoneError: says how much would be gone, and what to do
        :raises WideBlockError: if nothing else is the reason; says what the blocks cover
        """
        reasons = self.reasons_to_hold(settings)
        if reasons == [*self.wide] and reasons:
            raise WideBlockError(f"{file}: {'; '.join(reasons)}", "apply it with --accept if that is meant")
        if reasons:
            raise TooMuchGoneError(
                f"{file}: {'; '.join(reasons)}. Is the file right? `geolookup custom plan` shows what would change. "
                "If it is meant, apply it with --accept. Nothing was changed"
            )

    def as_dict(self) -> dict[str, Any]:
        """The counts by name, for ``--json``."""
        return asdict(self)


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
    """The addresses of added blocks that go to other blocks, which are narrower.

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
        which = f"{len(self.found)} of {count(self.added, 'added network')}"
        get = "does not get all of its" if len(self.found) == 1 else "do not get all of their"
        lines = [f"{which} {get} addresses: {plain(self.addresses)} go to other networks"]
        for owner, block, won in self.found[:_MOST_NAMED]:
            other, by, number = won[0]
            lost, size = _sum(won), block.last - block.first + 1
            winner = f"{block_text(by)} of {other}"
            to = winner if len(won) == 1 else f"{len(won)} networks, {plain(number)} of them to {winner}"
            share = f"{plain(lost)} of {addresses(size)} ({percent(lost, size)})"
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


def _wide(changes: Iterable[Change]) -> tuple[str, ...]:
    """The sites that get very many addresses. One site is one edit to a person, so each is looked at by itself."""
    added: dict[str | None, list[IPBlock]] = {}
    for change in changes:
        if change.kind is Kind.ADD_BLOCK and change.block is not None:
            added.setdefault(change.site, []).append(change.block)
    told = ((site, too_wide(blocks)) for site, blocks in added.items())
    return tuple(f"site {site!r}: {why}" for site, why in told if why is not None)


def _block_object(owner: Owner, block: IPBlock) -> dict[str, Any]:
    return {"site": owner.site, "locid": owner.locid, "startip": block.startip, "endip": block.endip}


def _sum(won: Iterable[tuple[Owner, IPBlock, int]]) -> int:
    return sum(number for _, _, number in won)
