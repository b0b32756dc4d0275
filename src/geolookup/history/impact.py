"""Addresses whose answer differs between two pairs of layers: two generations, or the served one and a possible one.

`impact` counts them all by country, `changes_within` names the places inside a few ranges, and `Comparison` answers one
address at a time.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolookup.index.compare import CountryChange, LayerPair, changed_answers
from geolookup.index.reader import EMPTY, IndexReader, piece_of_both, source_of
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.model.addresses import parse
from geolookup.model.types import Geolocation, IPBlock, Match
from geolookup.state.base import files
from geolookup.state.edits.layer import Laid
from geolookup.state.publishing.publish import compile_overlay

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

#: Ranges of one change that are named; the others are counted.
NAMED_RANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Counts of the addresses of each family with another answer, by country before and after (None: not covered)."""

    ipv4: dict[CountryChange, int]
    ipv6: dict[CountryChange, int]

    def rows(self) -> list[tuple[str | None, str | None, int, int]]:
        """(before, after, IPv4 addresses, IPv6 addresses), the most first."""
        found = [(*change, self.ipv4.get(change, 0), self.ipv6.get(change, 0)) for change in {**self.ipv4, **self.ipv6}]
        return sorted(found, key=lambda row: (-row[2], -row[3], row[0] or "", row[1] or "", row[0] is None))

    def totals(self) -> tuple[int, int]:
        """IPv4 and IPv6 addresses altogether."""
        return sum(self.ipv4.values()), sum(self.ipv6.values())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: IPv6 counts are text, since many programs read numbers as floats."""
        v4, v6 = self.totals()
        return {
            "ipv4": v4,
            "ipv6": str(v6),
            "by_country": [
                {"from": came, "to": went, "ipv4": row_v4, "ipv6": str(row_v6)}
                for came, went, row_v4, row_v6 in self.rows()
            ],
        }


def impact(old: LayerPair, new: LayerPair) -> Impact:
    """Count the addresses whose answer differs, exactly: some seconds for millions of blocks.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    found = changed_answers(old, new)
    return Impact(ipv4=found[4], ipv6=found[6])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswer:
    """An address whose answer differs; None if nothing covers it."""

    address: str
    before: Match | None
    after: Match | None


class Comparison:
    """Answers addresses from two pairs of layers."""

    def __init__(self, old: LayerPair, new: LayerPair) -> None:
        self._sides = [tuple(OpenLayer(reader) for reader in layers) for layers in (old, new)]

    def answer(self, address: str) -> ChangedAnswer | None:
        """The answers of both sides for an address, or None if they are the same geolocation, field by field.

        :raises InvalidAddressError: if it is malformed
        """
        family, value = parse(address)
        before, after = (match_in(base, custom, address, family, value) for base, custom in self._sides)
        places = [None if match is None else match.geolocation for match in (before, after)]
        return None if places[0] == places[1] else ChangedAnswer(address=address, before=before, after=after)


@dataclass(frozen=True, slots=True)
class ServedPlace:
    """The place that addresses resolve to, and the source that has it."""

    place: Geolocation
    source: str


@dataclass(slots=True, kw_only=True)
class PlaceChange:
    """Addresses that have one answer before and another one after; None if nothing covers them.

    ``ranges`` counts the ranges, each with one answer before and one after; ``named`` has the first `NAMED_RANGES`.
    """

    before: ServedPlace | None
    after: ServedPlace | None
    ipv4: int = 0
    ipv6: int = 0
    ranges: int = 0
    named: tuple[IPBlock, ...] = ()
    #: Where the last of them ends.
    end: "tuple[Family, int]" = (4, -2)


def changes_within(old: LayerPair, new: LayerPair, blocks: Iterable[IPBlock], *, most: int) -> list[PlaceChange] | None:
    """Every change inside these blocks, those of most addresses first; exact.

    Answers are equal if they are the same geolocation, field by field. None if there are more than ``most`` segments to
    look at: `impact` counts those, by country.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    before, after = (tuple(OpenLayer(reader) for reader in layers) for layers in (old, new))
    found: dict[tuple[Geolocation | None, Geolocation | None], PlaceChange] = {}
    looked = 0
    for family, low, high in merged(blocks):
        at = low
        while at <= high:
            looked += 1
            if looked > most:
                return None
            was, was_until = _piece(before, family, at)
            now, now_until = _piece(after, family, at)
            until = min(was_until, now_until, high)
            key = (None if was is None else was.place, None if now is None else now.place)
            if key[0] != key[1]:
                change = found.setdefault(key, PlaceChange(before=was, after=now))
                _count(change, family, at, until)
            at = until + 1
    return sorted(found.values(), key=lambda change: (-change.ipv4, -change.ipv6))


def merged(blocks: Iterable[IPBlock]) -> "list[tuple[Family, int, int]]":
    """The ranges that the blocks cover together: ascending and disjoint."""
    found: list[tuple[Family, int, int]] = []
    for block in sorted(blocks):
        if found and found[-1][0] == block.family and block.first <= found[-1][2] + 1:
            found[-1] = (block.family, found[-1][1], max(found[-1][2], block.last))
        else:
            found.append((block.family, block.first, block.last))
    return found


def _piece(layers: tuple[OpenLayer, ...], family: "Family", value: int) -> tuple[ServedPlace | None, int]:
    """The answer for an address, and the last address that shares it."""
    base, custom = layers
    reader, slot, _, last = piece_of_both(base.reader, custom.reader, family, value)
    layer = custom if reader is custom.reader else base
    return (None if slot == EMPTY else _answer(layer, reader, slot)), last


def _answer(layer: OpenLayer, reader: IndexReader, slot: int) -> ServedPlace:
    return ServedPlace(layer.geolocation(slot), source_of(reader, slot))


def _count(change: PlaceChange, family: "Family", first: int, last: int) -> None:
    if family == 4:
        change.ipv4 += last - first + 1
    else:
        change.ipv6 += last - first + 1
    goes_on = change.end == (family, first - 1)
    change.end = family, last
    if not goes_on:
        change.ranges += 1
        first_of_range = first
    elif change.ranges == len(change.named):  # a border in a file that makes no difference here
        first_of_range = change.named[-1].first
        change.named = change.named[:-1]
    else:
        return
    if len(change.named) < NAMED_RANGES and change.ranges == len(change.named) + 1:
        change.named = (*change.named, IPBlock(family=family, first=first_of_range, last=last))


@contextlib.contextmanager
def compiled(layer: Iterable[Laid], generation: int) -> Iterator[IndexReader]:
    """An unpublished custom layer as an index file, removed at the end."""
    with contextlib.ExitStack() as stack:
        with files.file_errors(tempfile.gettempdir()):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="geolookup-"))
        path = f"{folder}/overlay"
        compile_overlay(path, layer, generation=generation, sequence=0, edits=0, memory="")
        yield stack.enter_context(IndexReader.open(path))
