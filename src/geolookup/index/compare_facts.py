"""The difference of layers of networks: addresses by the facts that they had and have, and those with other facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.index.flatten import I64, Array
from geolookup.index.layout import PART
from geolookup.index.recording import renumbered_parts
from geolookup.index.scratch import Texts
from geolookup.index.walk import Stretch, walk

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
#: Facts are bits of a whole number. Files have some twenty; of more, the rarest are not told apart.
_MOST_KEYS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKind:
    """Which facts an address has, before and after, and which of the files that were asked aside say any of it."""

    before: frozenset[str]
    after: frozenset[str]
    aside: frozenset[str]


def changed_facts(
    old: "Sequence[IndexReader]", new: "Sequence[IndexReader]", aside: "Mapping[str, IndexReader] | None" = None
) -> dict[Literal[4, 6], dict[FactKind, int]]:
    """The addresses of each family by the facts that they have in two stacks of networks, in one walk over all files.

    ``aside`` are files by name of which it is told whether they say anything of an address. Addresses of which neither
    stack says anything are left out. Exact, in memory that grows with the records only.

    :raises IndexDamagedError: if a file's segments cannot be followed
    """
    others = aside or {}
    readers = [*old, *new, *others.values()]
    keys = _keys(readers)
    masks = [_masks(reader, keys) for reader in readers]
    found: dict[Literal[4, 6], dict[FactKind, int]] = {}
    for family in _FAMILIES:
        sums: dict[tuple[int, int, int], int] = {}
        for stretch in walk(readers, family, records=True):
            own = [mask[slots] for mask, slots in zip(masks, stretch.slots, strict=True)]
            before, after = _joined(own[: len(old)], stretch), _joined(own[len(old) : len(old) + len(new)], stretch)
            says = np.zeros(len(before), np.int64)
            for bit, mask in enumerate(own[len(old) + len(new) :]):
                says |= (mask != 0).astype(np.int64) << bit
            _add(sums, stretch, np.stack([before, after, says]), (before | after) != 0)
        found[family] = {
            FactKind(before=_named(before, keys), after=_named(after, keys), aside=_named(says, list(others))): count
            for (before, after, says), count in sums.items()
        }
    return found


def returning_facts(
    kept: "IndexReader", away: "IndexReader", new: "Sequence[IndexReader]"
) -> dict[Literal[4, 6], tuple[int, int]]:
    """The addresses of each family whose facts differ from ``kept`` to ``away``, and those that have these in ``new``.

    Of several files the first answers that has a fact.

    :raises IndexDamagedError: if a file's segments or records cannot be followed
    """
    readers = [kept, away, *new]
    tables = []
    for key in dict.fromkeys(key for reader in readers for key in reader.record_keys):
        texts = Texts()
        tables.append([np.append(renumbered_parts(reader, key, texts), 0) for reader in readers])
    found: dict[Literal[4, 6], tuple[int, int]] = {}
    for family in _FAMILIES:
        taken = back = 0
        for stretch in walk(readers, family, records=True):
            differs, same = np.zeros(len(stretch.lo), np.bool_), np.ones(len(stretch.lo), np.bool_)
            for table in tables:
                was, went, *layers = (values[slots] for values, slots in zip(table, stretch.slots, strict=True))
                comes = np.zeros(len(was), np.int64)
                for layer in layers:
                    comes = np.where(comes == 0, layer, comes)
                differs |= was != went
                same &= comes == went
            for limb, shift in stretch.lengths():
                taken += int(limb[differs].sum(dtype=np.uint64)) << shift
                back += int(limb[differs & same].sum(dtype=np.uint64)) << shift
        found[family] = taken, back
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChanges:
    """The difference of two files of networks.

    ``ranges`` counts those that are new, gone, or have other facts; ``addresses`` the addresses of each family in them.
    """

    ranges: dict[str, int]
    addresses: dict[Literal[4, 6], dict[str, int]]

    @property
    def is_empty(self) -> bool:
        """True if nothing differs."""
        return not any(self.ranges.values())

    def as_dict(self) -> dict[str, object]:
        """All of it by name; counts of IPv6 addresses as text, since they have up to 39 digits."""
        four, six = self.addresses[4], self.addresses[6]
        return {"ranges": self.ranges, "ipv4": four, "ipv6": {name: str(count) for name, count in six.items()}}


def differing(old: "IndexReader | None", new: "IndexReader | None") -> FactChanges:
    """The difference of two files of networks, of which one may be missing.

    :raises IndexDamagedError: if a file's segments cannot be followed
    """
    readers = [reader for reader in (old, new) if reader is not None]
    numbers = _contents(readers)
    ranges = dict.fromkeys(("added", "removed", "changed"), 0)
    addresses: dict[Literal[4, 6], dict[str, int]] = {}
    for family in _FAMILIES:
        totals = addresses[family] = dict.fromkeys(ranges, 0)
        for stretch in walk(readers, family, records=True):
            own = [number[slots] for number, slots in zip(numbers, stretch.slots, strict=True)]
            nothing = np.full(len(stretch.lo), -1, np.int64)
            before = nothing if old is None else own[0]
            after = nothing if new is None else own[-1]
            lengths = stretch.lengths()
            for how, where in (
                ("added", (before < 0) & (after >= 0)),
                ("removed", (before >= 0) & (after < 0)),
                ("changed", (before >= 0) & (after >= 0) & (before != after)),
            ):
                ranges[how] += int(np.count_nonzero(where))
                totals[how] += sum(int(limb[where].sum(dtype=np.uint64)) << shift for limb, shift in lengths)
    return FactChanges(ranges=ranges, addresses=addresses)


def _keys(readers: "Sequence[IndexReader]") -> list[str]:
    counts: dict[str, int] = {}
    for reader in readers:
        arrays = reader.arrays()
        for key in reader.record_keys:
            counts[key] = counts.get(key, 0) + int(np.count_nonzero(arrays[PART + key]))
    return sorted(counts, key=lambda key: (-counts[key], key))[:_MOST_KEYS]


def _masks(reader: "IndexReader", keys: Sequence[str]) -> I64:
    """The facts of each record as bits; the last item stands for what the file does not cover."""
    arrays = reader.arrays()
    mask = np.zeros(reader.record_count + 1, np.int64)
    for bit, key in enumerate(keys):
        if PART + key in arrays:
            mask[:-1] |= (arrays[PART + key] != 0).astype(np.int64) << bit
    return mask


def _joined(masks: Sequence[I64], stretch: Stretch) -> I64:
    found = np.zeros(len(stretch.lo), np.int64)
    for mask in masks:
        found |= mask
    return found


def _add(sums: dict[tuple[int, int, int], int], stretch: Stretch, keys: Array, where: Array) -> None:
    """Add the lengths of the chosen starts of a stretch by the keys that they have."""
    if not where.any():
        return
    distinct, which = np.unique(keys[:, where], axis=1, return_inverse=True)
    for limb, shift in stretch.lengths():
        # A limb has 32 bits, and a stretch fewer than 2**21 starts: their sum is exact in 53 bits.
        counted = np.bincount(which.reshape(-1), weights=limb[where])
        for at in np.flatnonzero(counted).tolist():
            before, after, says = distinct[:, at].tolist()
            key = (before, after, says)
            sums[key] = sums.get(key, 0) + (int(counted[at]) << shift)


def _named(bits: int, names: Sequence[str]) -> frozenset[str]:
    return frozenset(name for bit, name in enumerate(names) if bits >> bit & 1)


def _contents(readers: "Sequence[IndexReader]") -> list[I64]:
    """A number for each record's facts, the same in all files for the same; the last item stands for nothing, -1."""
    keys = list(dict.fromkeys(key for reader in readers for key in reader.record_keys))
    texts = {key: Texts() for key in keys}
    rows = []
    for reader in readers:
        arrays = reader.arrays()
        row = np.zeros((reader.record_count, len(keys)), np.uint32)
        for at, key in enumerate(keys):
            if PART + key in arrays:
                row[:, at] = renumbered_parts(reader, key, texts[key])
        rows.append(row)
    _, which = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    ends = np.cumsum([len(row) for row in rows])[:-1]
    return [np.append(part, -1).astype(np.int64) for part in np.split(which.reshape(-1), ends)]
