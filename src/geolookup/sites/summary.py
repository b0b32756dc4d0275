"""A plan in numbers, and whether so much may go without a person who looked at it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from geolookup.errors import TooMuchGoneError
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.table import Settings
from geolookup.sites.changes import Change, Kind

#: Steps that change a geolocation that stays.
_CHANGING = (Kind.TAKE_BACK, Kind.UPDATE, Kind.ADD_BLOCK, Kind.REMOVE_BLOCK, Kind.CLEAR_BLOCKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A plan by kind.

    Of the ``sites`` of the file ``new`` are created, ``returned`` come back since their delete was not sent yet,
    ``changed`` are changed and ``unchanged`` stay as they are. ``deleted`` geolocations go, of ``known``: those that an
    earlier file named, and all if all others are pruned. A block is ``added`` or ``gone`` if no geolocation had it, or
    none has it any more, and ``moved`` if it goes from one to another; ``known_blocks`` are those of the known.
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
        )

    def describe(self) -> str:
        """All of it on a line or two."""
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
                f"blocks: {self.added} more, {self.moved} to another site, {self.gone} of {self.known_blocks} gone"
            )
        return "\n".join(lines)

    def reasons_to_hold(self, settings: Settings) -> list[str]:
        """Why a person must look at it first, a sentence each; empty if it may be made."""
        reasons = []
        for what, gone, of in (("sites", self.deleted, self.known), ("blocks", self.gone, self.known_blocks)):
            many = gone > settings.guard_sites_gone and gone > settings.guard_sites_share * of
            if many or (gone == of and gone > 1):
                which = "all" if gone == of else f"{gone} of {of}"
                reasons.append(f"{which} {what} would be gone ({gone / of:.0%})")
        return reasons

    def require_allowed(self, settings: Settings, file: str) -> None:
        """Refuse what a person must look at.

        :raises TooMuchGoneError: says how much would be gone, and what to do
        """
        reasons = self.reasons_to_hold(settings)
        if reasons:
            raise TooMuchGoneError(
                f"{file}: {'; '.join(reasons)}. Is the file whole? `geolookup custom plan` shows what would go. "
                "If it is meant, apply it with --accept. Nothing was changed"
            )

    def as_dict(self) -> dict[str, Any]:
        """The counts by name, for ``--json``."""
        return asdict(self)
