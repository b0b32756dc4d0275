"""The guard of networks: which facts would be lost if one stack of sources took the place of another."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from geolookup.base.text import addresses
from geolookup.index.compare_facts import FactKind, changed_facts
from geolookup.model.facts import NETWORK_FACTS
from geolookup.settings.table import Settings
from geolookup.sync.pull.losses import FEW_ADDRESSES, LITTLE, MUCH, Loss

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_NAMES = {fact.path.rpartition(".")[2]: name for name, fact in NETWORK_FACTS.items()}


def judge_networks(
    settings: Settings,
    old: "Sequence[IndexReader]",
    new: "Sequence[IndexReader]",
    *,
    moving: "Mapping[str, IndexReader] | None" = None,
    lenient: Collection[str] = (),
) -> tuple[Loss, ...]:
    """The losses that are too large, of addresses of which something is said, in one walk over all files.

    ``moving`` has the sources whose new snapshot may be held by itself, each with its old file: a loss is charged to
    the one that said most of what is lost. ``lenient`` are those of which only a few rows differ: they may change the
    facts of as many addresses as such a source may change places.

    :raises IndexDamagedError: if a file's segments cannot be followed
    """
    if not old:
        return ()
    found: list[Loss] = []
    for family, kinds in changed_facts(old, new, moving).items():
        had = {kind: count for kind, count in kinds.items() if kind.before}
        covered = sum(had.values())
        if not covered:
            continue
        gone = {kind: count for kind, count in had.items() if not kind.after}
        name, few = f"IPv{family}", FEW_ADDRESSES[family]
        if not any(kind.after for kind in kinds):
            charged, _ = _charged(gone)
            said = f"nothing would be known of the networks of {name} at all: of {addresses(covered)} it is"
            found.append(Loss(said, charged))
            continue
        found += _share(
            gone,
            covered,
            settings.guard_uncovered,
            lenient,
            few,
            f"{name} addresses whose network is known would have none",
        )
        found += _facts(settings, name, had, covered, lenient, few)
    return tuple(found)


def _facts(
    settings: Settings, name: str, had: Mapping[FactKind, int], covered: int, lenient: Collection[str], few: int
) -> list[Loss]:
    """Facts that many addresses had: gone altogether, or missing where the network is known."""
    found: list[Loss] = []
    vanished: dict[FactKind, int] = {}
    labels: list[str] = []
    for key in sorted(set().union(*(kind.before for kind in had))):
        own = {kind: count for kind, count in had.items() if key in kind.before and kind.after}
        lost = {kind: count for kind, count in own.items() if key not in kind.after}
        all_of_it, without = sum(own.values()), sum(lost.values())
        if not without or all_of_it < MUCH * covered:
            continue
        if all_of_it - without < LITTLE * all_of_it:
            labels.append(_NAMES.get(key, key))
            vanished |= lost
        else:
            label = _NAMES.get(key, key)
            found += _share(
                lost,
                all_of_it,
                settings.guard_coarser,
                lenient,
                few,
                f"{name} addresses whose {label} is known would have none",
            )
    if labels:
        charged, _ = _charged(vanished)
        said = f"the {', '.join(labels)} of {name} networks would be gone, which the served data have"
        found.append(Loss(said, charged))
    return found


def _share(
    lost: Mapping[FactKind, int], of: int, allowed: float, lenient: Collection[str], few: int, said: str
) -> list[Loss]:
    number = sum(lost.values())
    if number <= allowed * of:
        return []
    charged, is_alone = _charged(lost)
    if charged in lenient and is_alone and number <= few:
        return []
    return [Loss(f"{number / of:.1%} of the {said} ({addresses(number)})", charged)]


def _charged(lost: Mapping[FactKind, int]) -> tuple[str | None, bool]:
    """The moving source that said something of most of these addresses, and whether it did of all of them."""
    charges: dict[str, int] = {}
    for kind, count in lost.items():
        for name in kind.aside:
            charges[name] = charges.get(name, 0) + count
    most = max(charges, key=lambda name: (charges[name], name), default=None)
    return most, most is not None and charges[most] == sum(lost.values())
