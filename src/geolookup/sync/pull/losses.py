"""The guard by addresses: which kinds of answer would be lost if one stack of sources took the place of another.

It is asked wherever default data is published: by pulls of any source, and before going back.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from geolookup.base.text import addresses, count
from geolookup.index.compare import AnswerKind, CountryChange, KindChange, KindChanges, NamedLayers, changed_kinds
from geolookup.model.continents import move_text
from geolookup.model.fields import FIELDS
from geolookup.settings.table import Settings

#: A fact that so large a share of the addresses have is missed if it is gone; gone is what so small a share still have.
MUCH = 0.2
LITTLE = 0.1
#: With so many places or more, fewer than half of them are too few.
_MANY_PLACES = 20
#: Addresses of each family that a few rows of a small source may change: a /16, and a /32.
FEW_ADDRESSES = {4: 1 << 16, 6: 1 << 96}

Family: TypeAlias = Literal[4, 6]
_Count: TypeAlias = tuple[KindChange, int]
_FACTS = {field.name: field.label for field in FIELDS if field.name not in ("country", "city")}


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of answer that too many addresses would lose: a ``reason`` to hold, as a sentence.

    ``charged`` is the source whose new snapshot explains most of it, None if no new snapshot does. ``ends`` are the
    generations whose roll-back is over if a person accepts it.
    """

    reason: str
    charged: str | None
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The guard's finding: the losses that are too large, and all changes by the kind of answer."""

    losses: tuple[Loss, ...]
    changes: KindChanges

    def addresses_whose_country_changed(self) -> dict[str, Any]:
        """The addresses of each family with another country than before, for a report; no answer counts as one.

        ``most`` says between which two countries the largest part goes, and its share of IPv4, else of IPv6.
        """
        four, six = (self.changes.countries[family] for family in (4, 6))
        told: dict[str, Any] = {"ipv4": sum(four.values()), "ipv6": str(sum(six.values()))}
        pairs = four or six
        if pairs:
            before, after = max(pairs, key=lambda pair: pairs[pair])
            share = round(pairs[before, after] / sum(pairs.values()), 4)
            told["most"] = {"from": before, "to": after, "share": share}
        return told


def judge(
    settings: Settings,
    old: NamedLayers,
    new: NamedLayers,
    *,
    left_out: Collection[str] = (),
    moving: Collection[str] = (),
    lenient: Collection[str] = (),
) -> Verdict:
    """Compare what two stacks answer, in one walk over all of their files.

    ``left_out`` are the sources whose answers count on neither side: the bundled registry data. ``moving`` are the
    sources that have a new snapshot, which losses can be charged to; of those that are ``lenient`` a few addresses that
    they answered themselves may change.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    if _is_one_file(old, new):
        return Verdict(
            losses=(),
            changes=KindChanges(addresses={4: {}, 6: {}}, countries={4: {}, 6: {}}, places_before={}, places_after={}),
        )
    changes = changed_kinds(old, new, left_out=left_out)
    found: list[Loss] = []
    aside = " but that of the bundled registry data" if left_out else ""
    for family, counts in changes.addresses.items():
        found += _Family(settings, family, counts, moving, lenient).losses(aside, _direction(changes.countries[family]))
    before, after = sum(changes.places_before.values()), sum(changes.places_after.values())
    if before >= _MANY_PLACES and 2 * after < before:
        fewer = {name: changes.places_before.get(name, 0) - changes.places_after.get(name, 0) for name in moving}
        most = max(fewer, key=lambda name: fewer[name], default=None)
        charged = most if most is not None and fewer[most] > 0 else None
        found.append(Loss(f"{count(after, 'place')} would answer instead of {before}: fewer than half", charged))
    return Verdict(losses=tuple(found), changes=changes)


def _is_one_file(old: NamedLayers, new: NamedLayers) -> bool:
    """True if both stacks are one and the same index file: then nothing can differ."""
    return len(old) == len(new) == 1 and os.path.samefile(old[0][1].path, new[0][1].path)


class _Family:
    """The losses of one family; shares are of the addresses that had that kind of answer."""

    def __init__(
        self,
        settings: Settings,
        family: Family,
        addresses: dict[KindChange, int],
        moving: Collection[str],
        lenient: Collection[str],
    ) -> None:
        self._settings = settings
        self._name, self._few = f"IPv{family}", FEW_ADDRESSES[family]
        #: Those that had an answer.
        self._had = [(each, number) for each, number in addresses.items() if each.before.fields is not None]
        self._covered = _total(self._had)
        self._is_served = any(each.after.fields is not None for each in addresses)
        self._moving, self._lenient = moving, lenient

    def losses(self, aside: str, direction: str) -> list[Loss]:
        """Those that are too large; ``aside`` says which answers do not count, ``direction`` how countries change."""
        if not self._covered:
            return []
        gone = [each for each in self._had if not _is_answered(each)]
        if not self._is_served:
            said = f"{self._name} would have no answer at all{aside}: {addresses(self._covered)} have one"
            return [Loss(said, self._charged(gone))]
        had_city, had_country = (_with(name, self._had) for name in ("city", "country"))
        no_city = [each for each in had_city if _is_answered(each) and not _has("city", each)]
        moved = [each for each in had_country if _is_answered(each) and not each[0].same_country]
        allowed = self._settings
        return [
            *self._share(gone, self._had, allowed.guard_uncovered, "that have an answer would have none"),
            *self._share(
                no_city, had_city, allowed.guard_coarser, "whose answer names a city would have one that names none"
            ),
            *self._share(
                moved,
                had_country,
                allowed.guard_country,
                "whose answer names a country would have another country",
                direction,
            ),
            *self._facts(),
        ]

    def _share(
        self, lost: list[_Count], had: list[_Count], allowed: float, said: str, more: str = ""
    ) -> Iterable[Loss]:
        number, of = _total(lost), _total(had)
        if number <= allowed * of:
            return
        charged = self._charged(lost)
        own = all(change.before.source == charged for change, _ in lost)
        if charged in self._lenient and own and number <= self._few:
            return
        yield Loss(f"{number / of:.1%} of the {self._name} addresses {said} ({addresses(number)}{more})", charged)

    def _facts(self) -> Iterable[Loss]:
        """Facts that are gone: of the addresses that still have an answer, so few have them."""
        gone: list[str] = []
        lost: list[_Count] = []
        for name, label in _FACTS.items():
            had = _with(name, self._had)
            without = [each for each in had if _is_answered(each) and not _has(name, each)]
            still = _total([each for each in had if _has(name, each)])
            if without and _total(had) >= MUCH * self._covered and still < LITTLE * (still + _total(without)):
                gone.append(label)
                lost += without
        if gone:
            said = f"the {', '.join(gone)} of {self._name} addresses would be gone, which the served data have"
            yield Loss(said, self._charged(lost))

    def _charged(self, lost: list[_Count]) -> str | None:
        """The source that most of these addresses are charged to: its new snapshot answers there, or answered."""
        charges: dict[str | None, int] = {}
        for change, number in lost:
            owner = next((each for each in _sources(change.after, change.before) if each in self._moving), None)
            charges[owner] = charges.get(owner, 0) + number
        return max(charges, key=lambda name: charges[name])


def _direction(countries: Mapping[CountryChange, int]) -> str:
    """Between which countries most of the answers that have one before and after move, behind a comma."""
    pairs = {pair: number for pair, number in countries.items() if pair[0] and pair[1] is not None}
    most = max(pairs, key=lambda pair: pairs[pair], default=None)
    told = "" if most is None else move_text(*most, pairs[most] / sum(pairs.values()))
    return f", {told}" if told else ""


def _with(field: str, counts: list[_Count]) -> list[_Count]:
    """Those whose answer had the field."""
    return [each for each in counts if field in (each[0].before.fields or ())]


def _has(field: str, each: _Count) -> bool:
    """True if the new answer has the field."""
    return field in (each[0].after.fields or ())


def _is_answered(each: _Count) -> bool:
    return each[0].after.fields is not None


def _sources(*kinds: AnswerKind) -> Iterable[str]:
    return (kind.source for kind in kinds if kind.source is not None)


def _total(counts: list[_Count]) -> int:
    return sum(number for _, number in counts)
