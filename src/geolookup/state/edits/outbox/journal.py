"""The journal of a removal: its progress, and the meaning of that for lookups and for the person who decides.

``before`` is what the geolocation had when deleting began, ``after`` what it shall have; ``phase`` is "deleting" from
then on. `sync.push.reconcile` says what else stands there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.payload import blocks_of, ends_of


def is_half_done(journal: Mapping[str, Any] | None) -> bool:
    """True if the service may lack blocks that the removal must bring back."""
    return (journal or {}).get("phase") == "deleting"


def laid_over(journal: Mapping[str, Any], place: Geolocation) -> Geolocation:
    """A listed geolocation after a removal that has begun to delete.

    The blocks of before that the list has may be there or not: the target stands in for them. All other blocks of the
    list come from other clients, and stay.
    """
    target = {*blocks_of(journal["after"]), *blocks_of(journal.get("accepted", ()))}
    blocks = set(place.ipblocks) - set(blocks_of(journal["before"])) | target
    return replace(place, ipblocks=tuple(sorted(blocks)))


def turned_round(journal: Mapping[str, Any]) -> dict[str, Any]:
    """The journal of a half-done removal that was dropped: it brings back what there was before."""
    kept = {name: value for name, value in journal.items() if name != "refused"}
    return {**kept, "after": journal["before"]}


def cut_short(journal: Mapping[str, Any], base: Mapping[str, Any], block: IPBlock) -> dict[str, Any]:
    """The journal of a removal that was held because other blocks are missing (``lost``): it brings those back."""
    kept = {name: value for name, value in journal.items() if name != "lost"}
    after = [ends for ends in base["blocks"] if ends != ends_of(block)]
    there = [ends for ends in after if ends not in journal["lost"]]
    return {**kept, "before": base["blocks"], "after": after, "phase": "deleting", "restored": there}
