"""The difference of what two stacks of index files answer: numbers of addresses, by the answers before and after."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from geolookup.index.flatten import I64
from geolookup.index.walk import Stretch, walk
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import DEGREES, FIELD_NAMES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: The default and the custom layer that answer together.
LayerPair: TypeAlias = "tuple[IndexReader, IndexReader]"
#: A file's sections by their names.
Arrays: TypeAlias = "Mapping[str, np.ndarray[Any, Any]]"
#: (before, after), each a country's code, "" if the geolocation has none, None if no block covers the address.
CountryChange: TypeAlias = tuple[str | None, str | None]

_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
_NOTHING = -1
#: In tables by slot: nothing answers, and no other file is asked; the file does not cover, so the next one is asked.
_NO_ANSWER = 0
_LOOK_ON = -1
#: With more keys than this, those that a stretch has are looked for first: arrays of all of them would be large.
_MOST_BINS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKind:
    """A kind of answer: which source gave it, and the names of the fields that it has.

    Without an answer ``fields`` is None: if a mask hides one, ``source`` is the mask's, else None.
    """

    source: str | None
    fields: frozenset[str] | None


#: No block covers the address, or a source that does not count.
NO_ANSWER = AnswerKind(source=None, fields=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChange:
    """An address's kind of answer before and after, and whether both have the same country (or both have none)."""

    before: AnswerKind
    after: AnswerKind
    same_country: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChanges:
    """The addresses of each family by `KindChange`, and the number of places that answer, by source.

    ``countries`` are those addresses whose country changed, by both.
    """

    addresses: dict[Literal[4, 6], dict[KindChange, int]]
    countries: dict[Literal[4, 6], dict[CountryChange, int]]
    places_before: dict[str, int]
    places_after: dict[str, int]


#: The readers of a stack, the one of highest precedence first, each with the name of its source.
#: A file that names sources itself has these instead.
NamedLayers: TypeAlias = "Sequence[tuple[str, IndexReader]]"


def changed_kinds(old: NamedLayers, new: NamedLayers, *, left_out: Collection[str] = ()) -> KindChanges:
    """The addresses of each family by the kind of answer that two stacks give, in one walk over all of their files.

    Masks end a search without an answer. So do answers of the sources that are ``left_out``. Addresses without an
    answer on both sides are left out. Exact, in memory that grows with the geolocations only.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    kinds: dict[AnswerKind, int] = {NO_ANSWER: _NO_ANSWER}
    countries: dict[str, int] = {}
    layers = (*old, *new)
    arrays = [reader.arrays() for _, reader in layers]
    kind = [
        _kind_numbers(reader.sources or (name,), own, kinds, left_out)
        for (name, reader), own in zip(layers, arrays, strict=True)
    ]
    country = [_country_numbers(reader, own, countries) for (_, reader), own in zip(layers, arrays, strict=True)]
    answering = [np.zeros(reader.location_count + 1, np.bool_) for _, reader in layers]
    named, found = list(kinds), {}
    names: list[str | None] = [None, *countries]
    moved: dict[Literal[4, 6], dict[CountryChange, int]] = {4: {}, 6: {}}
    for family in _FAMILIES:
        sums = _Sums(2 * len(named) ** 2)
        for stretch in walk([reader for _, reader in layers], family):
            size = len(stretch.lo)
            before = _Answers(stretch.slots[: len(old)], kind[: len(old)], country[: len(old)], size)
            after = _Answers(stretch.slots[len(old) :], kind[len(old) :], country[len(old) :], size)
            before.note(answering[: len(old)])
            after.note(answering[len(old) :])
            # Two gaps have the same country, and so has everything that is compared with itself.
            key = (before.kind * len(named) + after.kind) * 2 + (before.country == after.country)
            sums.add(stretch, key)
            _count_countries(moved[family], stretch, before, after, before.country != after.country, names)
        found[family] = {
            KindChange(before=named[pair // len(named)], after=named[pair % len(named)], same_country=bool(same)): count
            for key, count in sums.totals().items()
            for pair, same in (divmod(key, 2),)
            if (named[pair // len(named)].fields, named[pair % len(named)].fields) != (None, None)
        }
    places = [_answering_places(kinds_of, seen, named) for kinds_of, seen in zip(kind, answering, strict=True)]
    return KindChanges(
        addresses=found,
        countries=moved,
        places_before=_joined(places[: len(old)]),
        places_after=_joined(places[len(old) :]),
    )


def changed_answers(old: LayerPair, new: LayerPair) -> dict[Literal[4, 6], dict[CountryChange, int]]:
    """The addresses of each family whose answer differs from ``old`` to ``new``, counted by country before and after.

    Answers differ if any field of the geolocation differs, its locid included; so both countries may be the same.
    Exact, in memory that grows with the geolocations only: some seconds for millions of blocks.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    countries: dict[str, int] = {}
    layers = (*old[::-1], *new[::-1])
    country = [_country_numbers(reader, reader.arrays(), countries) for reader in layers]
    # The two layers of one side never have a locid in common, so neither do their answers' numbers.
    base_before, base_after = _answer_numbers(old[0], new[0], 1)
    over_before, over_after = _answer_numbers(old[1], new[1], len(base_before) + len(base_after) + 2)
    answer = (over_before, base_before, over_after, base_after)
    names: list[str | None] = [None, *countries]
    found: dict[Literal[4, 6], dict[CountryChange, int]] = {}
    for family in _FAMILIES:
        counts: dict[CountryChange, int] = {}
        for stretch in walk(layers, family):
            size = len(stretch.lo)
            before = _Answers(stretch.slots[:2], answer[:2], country[:2], size)
            after = _Answers(stretch.slots[2:], answer[2:], country[2:], size)
            _count_countries(counts, stretch, before, after, before.kind != after.kind, names)
        found[family] = counts
    return found


def _count_countries(
    counts: dict[CountryChange, int],
    stretch: Stretch,
    before: "_Answers",
    after: "_Answers",
    differs: "np.ndarray[Any, np.dtype[np.bool_]]",
    names: Sequence[str | None],
) -> None:
    """Add the addresses of a stretch that differ by their country before and after; ``names`` are by number."""
    where = np.flatnonzero(differs)
    pairs, which = np.unique(before.country[where] * len(names) + after.country[where], return_inverse=True)
    sums = _Sums(len(pairs))
    sums.add(stretch, which, where)
    for at, count in sums.totals().items():
        came, went = divmod(int(pairs[at]), len(names))
        change = names[came], names[went]
        counts[change] = counts.get(change, 0) + count


@dataclass(frozen=True, slots=True)
class Return:
    """What became of an answer that was taken away: what a newer stack has in its place.

    ``kept`` and ``away`` are the countries of the answer that stayed and of the one that was taken away (None: no
    answer). The newer stack has the ``same`` answer again as was taken away, or at least its country
    (``same_country``); ``source`` is the one that answers there, None if none does.
    """

    kept: str | None
    away: str | None
    same: bool
    same_country: bool
    source: str | None


def returning(
    kept: "IndexReader", away: "IndexReader", new: NamedLayers, sites: "IndexReader"
) -> dict[Literal[4, 6], dict[Return, int]]:
    """The addresses of each family whose answer differs from ``kept`` to ``away``, by what ``new`` answers there.

    Answers differ if a field does; their numbers are left aside, since a source may give the same place another one.
    Addresses of ``sites`` are left out. Exact, in memory that grows with the geolocations only.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    countries: dict[str, int] = {}
    layers = [kept, away, *(reader for _, reader in new)]
    country = [_country_numbers(reader, reader.arrays(), countries) for reader in layers]
    answer = _field_numbers(layers)
    names: list[str | None] = [None, *countries]
    sources: list[str | None] = [None, *(name for name, _ in new)]
    found: dict[Literal[4, 6], dict[Return, int]] = {}
    for family in _FAMILIES:
        counts: dict[Return, int] = {}
        for stretch in walk([*layers, sites], family):
            stays, went, comes = (
                _Answers(stretch.slots[part], answer[part], country[part], len(stretch.lo))
                for part in (slice(0, 1), slice(1, 2), slice(2, len(layers)))
            )
            where = np.flatnonzero((stays.kind != went.kind) & (stretch.slots[-1] < 0))
            pairs = stays.country * len(names) + went.country
            same = 2 * (comes.kind == went.kind) + (comes.country == went.country)
            key = (4 * pairs + same) * len(sources) + comes.answering()
            distinct, which = np.unique(key[where], return_inverse=True)
            sums = _Sums(len(distinct))
            sums.add(stretch, which, where)
            for at, count in sums.totals().items():
                rest, source = divmod(int(distinct[at]), len(sources))
                pair, alike = divmod(rest, 4)
                came, went_to = divmod(pair, len(names))
                own = Return(names[came], names[went_to], alike >= 2, alike % 2 == 1, sources[source])
                counts[own] = counts.get(own, 0) + count
        found[family] = counts
    return found


class _Answers:
    """The answers of a stack along a stretch: the number of each one's kind and country, 0 where there is none.

    ``numbers`` has for each file the number by slot; the last item, for what the file does not cover, is `_LOOK_ON`.
    """

    __slots__ = ("_chosen", "country", "kind")

    def __init__(self, slots: Sequence[I64], numbers: Sequence[I64], countries: Sequence[I64], size: int) -> None:
        """``size`` is the number of starts: there may be no file."""
        self.kind = np.full(size, _LOOK_ON, np.int64)
        self.country = np.zeros(size, np.int64)
        self._chosen = []
        for at in range(len(slots)):
            open_ = np.flatnonzero(self.kind == _LOOK_ON)
            chosen = np.full(len(self.kind), -1, np.int64)
            chosen[open_] = slots[at][open_]
            self.kind[open_] = numbers[at][chosen[open_]]
            self.country[open_] = countries[at][chosen[open_]]
            self._chosen.append(chosen)
        unanswered = self.kind <= _NO_ANSWER
        self.country[unanswered] = 0
        self.kind[unanswered] = _NO_ANSWER

    def note(self, seen: "Sequence[np.ndarray[tuple[int], np.dtype[np.bool_]]]") -> None:
        """Mark in ``seen``, which has an array for each file, the slots that answer somewhere."""
        for marks, chosen in zip(seen, self._chosen, strict=True):
            marks[chosen] = True

    def answering(self) -> I64:
        """The number of the file that answers, from 1 on; 0 if none covers."""
        found = np.zeros(len(self.kind), np.int64)
        for at, chosen in enumerate(self._chosen, 1):
            found[chosen >= 0] = at
        return found


class _Sums:
    """The addresses of a family, summed by a key from 0 up to ``keys``."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._totals: dict[int, int] = {}

    def add(self, stretch: Stretch, key: I64, where: I64 | None = None) -> None:
        """Add the lengths of a stretch's starts, those of ``where`` only; ``key`` has each one's."""
        keys = None
        if self._keys > _MOST_BINS:
            keys, key = np.unique(key, return_inverse=True)
        for limb, shift in stretch.lengths():
            chosen = limb if where is None else limb[where]
            if not chosen.any():
                continue
            # A limb has 32 bits, and a stretch fewer than 2**21 starts: their sum is exact in 53 bits.
            sums = np.bincount(key, weights=chosen)
            for at in np.flatnonzero(sums).tolist():
                own = at if keys is None else int(keys[at])
                self._totals[own] = self._totals.get(own, 0) + (int(sums[at]) << shift)

    def totals(self) -> dict[int, int]:
        """The sum of each key that has one."""
        return self._totals


def _kind_numbers(names: Sequence[str], arrays: Arrays, kinds: dict[AnswerKind, int], left_out: Collection[str]) -> I64:
    """The number of each slot's kind, the same in all files; the last item stands for what the file does not cover.

    ``names`` are those of the file's sources.
    """
    bits = np.zeros(len(arrays["loc.locid"]), np.int64)
    sizes = np.diff(arrays["strings.offsets"].astype(np.int64))
    empty = next(iter(np.flatnonzero(sizes == 0).tolist()), -1)
    for at, field in enumerate(FIELD_NAMES):
        column = arrays[f"loc.{field}"]
        known = ~np.isnan(column) if field in DEGREES else column != empty
        bits |= known.astype(np.int64) << at
    source = np.asarray(arrays["loc.source"], np.int64) if "loc.source" in arrays else np.zeros(len(bits), np.int64)
    distinct, inverse = np.unique(source << len(FIELD_NAMES) | bits, return_inverse=True)
    own = np.empty(len(distinct) + 1, np.int64)
    for at, value in enumerate(distinct.tolist()):
        number, has = divmod(value, 1 << len(FIELD_NAMES))
        if names[number] in left_out:
            own[at] = _NO_ANSWER
            continue
        fields = frozenset(each for bit, each in enumerate(FIELD_NAMES) if has >> bit & 1)
        own[at] = kinds.setdefault(AnswerKind(source=names[number], fields=fields), len(kinds))
    own[-1] = _LOOK_ON
    numbered: I64 = own[np.append(inverse, len(distinct))]
    masks = np.flatnonzero(arrays["loc.locid"] == 0)
    for number, mask in zip(source[masks].tolist(), masks.tolist(), strict=True):
        numbered[mask] = kinds.setdefault(AnswerKind(source=names[number], fields=None), len(kinds))
    return numbered


def _answering_places(
    kinds_of: I64,
    seen: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    named: Sequence[AnswerKind],
) -> dict[str, int]:
    """The number of a file's places that answer somewhere, by source."""
    counts = np.bincount(kinds_of[:-1][seen[:-1]], minlength=len(named)).tolist()
    return _joined(
        [{str(kind.source): count} for kind, count in zip(named, counts, strict=True) if kind.fields is not None]
    )


def _joined(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            found[name] = found.get(name, 0) + count
    return found


def _country_numbers(reader: "IndexReader", arrays: Arrays, numbers: dict[str, int]) -> I64:
    """The number of each slot's country, from 1 on and the same in all files; the last item is 0, of no answer."""
    text_ids = arrays["loc.country"]
    distinct, first_slots, inverse = np.unique(text_ids, return_index=True, return_inverse=True)
    own = np.zeros(len(distinct) + 1, np.int64)
    for index, slot in enumerate(first_slots.tolist()):
        own[index] = numbers.setdefault(reader.country(slot), len(numbers) + 1)
    numbered: I64 = own[np.append(inverse, len(distinct))]
    numbered[:-1][arrays["loc.locid"] == 0] = 0  # masks
    return numbered


def _answer_numbers(old: "IndexReader", new: "IndexReader", begin: int) -> tuple[I64, I64]:
    """A number for each slot of both files, the same for the same answer; the last item stands for not covered."""
    before, after = _Locations(old), _Locations(new)
    texts: dict[bytes, int] = {}
    before.number_texts(texts)
    after.number_texts(texts)
    own_before = begin + before.first_equal(before)
    partner = before.first_equal(after)
    own_after = begin + len(own_before) + 1 + after.first_equal(after)
    known = partner != _NOTHING
    own_after[known] = own_before[partner[known]]
    return np.append(own_before, _NOTHING), np.append(own_after, _NOTHING)


def _field_numbers(readers: "Sequence[IndexReader]") -> list[I64]:
    """A number for each slot of all files, the same for equal fields; `_NO_ANSWER` for masks, at the end `_LOOK_ON`."""
    texts: dict[bytes, int] = {}
    own = [_text_numbers(reader, texts) for reader in readers]
    locids = [reader.arrays()["loc.locid"] for reader in readers]
    number = np.zeros(sum(map(len, locids)), np.int64)
    for name in (*DEGREES, *TEXT_NAMES):
        column = np.concatenate([_column(reader, name, numbers) for reader, numbers in zip(readers, own, strict=True)])
        if (column == column[:1]).all():
            continue  # a field that nobody fills: most files have some
        if name in DEGREES:
            _, column = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (1 + int(column.max())) + column, return_inverse=True)
    number = np.where(np.concatenate(locids) == 0, _NO_ANSWER, number + 1)
    return [np.append(each, _LOOK_ON) for each in np.split(number, np.cumsum([len(each) for each in locids])[:-1])]


class _Locations:
    """The locations of a file in columns of whole numbers, to be compared with another file's."""

    def __init__(self, reader: "IndexReader") -> None:
        self._reader = reader
        #: They ascend, and several sources may have used one.
        self.locid = reader.arrays()["loc.locid"].astype(np.int64)
        self.columns: list[I64] = []

    def number_texts(self, texts: dict[bytes, int]) -> None:
        """Fill the columns; ``texts`` has the number of each text of all files, and grows."""
        own = _text_numbers(self._reader, texts)
        self.columns = [_column(self._reader, name, own) for name in (*DEGREES, *TEXT_NAMES)]

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


def _column(reader: "IndexReader", name: str, texts: I64) -> I64:
    """A field of all locations as whole numbers; ``texts`` has the number of each of the file's texts."""
    column = reader.arrays()[f"loc.{name}"]
    try:
        return degrees_as_numbers(column) if name in DEGREES else texts[column]
    except IndexError as error:
        raise IndexDamagedError(f"{reader.path}: a location names a text that is not there") from error


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
