"""The difference of two index files, or two pairs of them: numbers of addresses, from one country to another."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from geolookup.index.flatten import I64
from geolookup.index.walk import Stretch, walk
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import DEGREES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: The default and the custom layer that answer together.
LayerPair: TypeAlias = "tuple[IndexReader, IndexReader]"
#: (before, after), each a country's code, "" if the geolocation has none, None if no block covers the address.
CountryChange: TypeAlias = tuple[str | None, str | None]

_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
_NOTHING = -1


def changed_country_addresses(old: "IndexReader", new: "IndexReader") -> tuple[int, int]:
    """The numbers of IPv4 and of IPv6 addresses that have a different country in ``new`` than in ``old``.

    Not covered counts as a country of its own; a geolocation without a country has the country "".

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    numbers: dict[str, int] = {}
    before, after = (_country_numbers(reader, numbers) for reader in (old, new))
    v4, v6 = (
        sum(
            _total(stretch, before[stretch.slots[0]] != after[stretch.slots[1]]) for stretch in walk((old, new), family)
        )
        for family in _FAMILIES
    )
    return v4, v6


def changed_answers(old: LayerPair, new: LayerPair) -> dict[Literal[4, 6], dict[CountryChange, int]]:
    """The addresses of each family whose answer differs from ``old`` to ``new``, counted by country before and after.

    Answers differ if any field of the geolocation differs, its locid included; so both countries may be the same.
    Exact, in memory that grows with the geolocations only: some seconds for millions of blocks.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    countries: dict[str, int] = {}
    layers = (*old, *new)
    country = [_country_numbers(reader, countries) for reader in layers]
    # The two layers of one side never have a locid in common, so neither do their answers' numbers.
    base_before, base_after = _answer_numbers(old[0], new[0], 0)
    over_before, over_after = _answer_numbers(old[1], new[1], len(base_before) + len(base_after) + 1)
    answer = (base_before, over_before, base_after, over_after)
    names: list[str | None] = [*countries, None]
    return {family: _by_country(layers, family, answer, country, names) for family in _FAMILIES}


def _by_country(
    layers: "tuple[IndexReader, ...]",
    family: Literal[4, 6],
    answer: tuple[I64, ...],
    country: list[I64],
    names: list[str | None],
) -> dict[CountryChange, int]:
    found: dict[CountryChange, int] = {}
    for stretch in walk(layers, family):
        base_before, over_before, base_after, over_after = stretch.slots
        before = _laid_over(answer[0][base_before], answer[1][over_before], over_before)
        after = _laid_over(answer[2][base_after], answer[3][over_after], over_after)
        differs = np.flatnonzero(before != after)
        if not len(differs):
            continue
        came = _laid_over(country[0][base_before], country[1][over_before], over_before)[differs]
        went = _laid_over(country[2][base_after], country[3][over_after], over_after)[differs]
        pairs, which = np.unique(came * len(names) + went % len(names), return_inverse=True)
        for pair, count in zip(pairs.tolist(), _sums(stretch, differs, which, len(pairs)), strict=True):
            if count:
                before_number, after_number = divmod(pair, len(names))
                change = names[before_number], names[after_number]
                found[change] = found.get(change, 0) + count
    return found


def _laid_over(base: I64, over: I64, over_slot: I64) -> I64:
    return np.where(over_slot == -1, base, over)


def _sums(stretch: Stretch, differs: I64, which: I64, count: int) -> Iterator[int]:
    """The lengths of the starts ``differs``, summed by ``which``."""
    totals = [0] * count
    for limb, shift in stretch.lengths():
        sums = np.zeros(count, np.uint64)
        np.add.at(sums, which, limb[differs])
        for index in np.flatnonzero(sums).tolist():
            totals[index] += int(sums[index]) << shift
    return iter(totals)


def _total(stretch: Stretch, wanted: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> int:
    differs = np.flatnonzero(wanted)
    return sum(int(limb[differs].sum(dtype=np.uint64)) << shift for limb, shift in stretch.lengths())


def _country_numbers(reader: "IndexReader", numbers: dict[str, int]) -> I64:
    """The number of each slot's country, the same in all files; the item past the last stands for not covered."""
    text_ids = reader.arrays()["loc.country"]
    distinct, first_slots, inverse = np.unique(text_ids, return_index=True, return_inverse=True)
    own = np.empty(len(distinct) + 1, np.int64)
    for index, slot in enumerate(first_slots.tolist()):
        own[index] = numbers.setdefault(reader.country(slot), len(numbers))
    own[-1] = _NOTHING
    numbered: I64 = own[np.append(inverse, len(distinct))]
    return numbered


def _answer_numbers(old: "IndexReader", new: "IndexReader", begin: int) -> tuple[I64, I64]:
    """A number for each slot of both files, the same for the same answer; the last item stands for not covered."""
    before, after = _Locations(old), _Locations(new)
    texts: dict[bytes, int] = {}
    try:
        before.number_texts(texts)
        after.number_texts(texts)
    except IndexError as error:
        raise IndexDamagedError(f"{old.path} or {new.path}: a location names a text that is not there") from error
    own_before = begin + before.first_equal(before)
    partner = before.first_equal(after)
    own_after = begin + len(own_before) + 1 + after.first_equal(after)
    known = partner != _NOTHING
    own_after[known] = own_before[partner[known]]
    return np.append(own_before, _NOTHING), np.append(own_after, _NOTHING)


class _Locations:
    """The locations of a file in columns of whole numbers, to be compared with another file's."""

    def __init__(self, reader: "IndexReader") -> None:
        self._reader = reader
        #: They ascend, and several sources may have used one.
        self.locid = reader.arrays()["loc.locid"].astype(np.int64)
        self.columns: list[I64] = []

    def number_texts(self, texts: dict[bytes, int]) -> None:
        """Fill the columns; ``texts`` has the number of each text of all files, and grows."""
        arrays, own = self._reader.arrays(), _text_numbers(self._reader, texts)
        self.columns = [degrees_as_numbers(arrays[f"loc.{name}"]) for name in DEGREES]
        self.columns += [own[arrays[f"loc.{name}"]] for name in TEXT_NAMES]

    def first_equal(self, other: "_Locations") -> I64:
        """For each location of the other file the first slot here that equals it in every field; -1 if none does."""
        begin = np.searchsorted(self.locid, other.locid, "left")
        count = np.searchsorted(self.locid, other.locid, "right") - begin
        found = np.full(len(other.locid), _NOTHING, np.int64)
        for step in range(int(count.max(initial=0))):
            wanting = np.flatnonzero((found == _NOTHING) & (count > step))
            mine = begin[wanting] + step
            equal = np.ones(len(wanting), np.bool_)
            for own, its in zip(self.columns, other.columns, strict=True):
                equal &= own[mine] == its[wanting]
            found[wanting[equal]] = mine[equal]
        return found


def degrees_as_numbers(degrees: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> I64:
    """Whole numbers that are equal for equal degrees; an unknown value equals an unknown value."""
    whole = degrees + 0.0  # makes -0.0 and 0.0 equal
    whole[np.isnan(whole)] = np.nan
    return whole.view(np.int64)


def _text_numbers(reader: "IndexReader", numbers: dict[bytes, int]) -> I64:
    """The number of each text of a file, the same in all files."""
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts_of(reader)], np.int64)


def texts_of(reader: "IndexReader") -> list[bytes]:
    """Every distinct text of a file, by its number there.

    :raises IndexDamagedError: if one does not lie inside the file
    """
    arrays = reader.arrays()
    offsets, content = arrays["strings.offsets"].astype(np.int64), arrays["strings.bytes"].tobytes()
    if np.any(offsets[1:] < offsets[:-1]) or offsets[0] != 0 or offsets[-1] != len(content):
        raise IndexDamagedError(f"{reader.path}: strings.offsets: they are out of order")
    return [content[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
