"""Many addresses counted by country, city, source or any other field, or by a fact."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from geolookup.base.text import place_text
from geolookup.columns.batches import Batch
from geolookup.columns.common import Doubt, Reread, default_geo
from geolookup.columns.fact_tally import BESIDE, FactTally
from geolookup.columns.tally import Distinct, Numbers, Tally
from geolookup.exports.licences import attributions
from geolookup.exports.provenance import of_sources, provenance
from geolookup.index.reader import IndexReader, source_of
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import no_address
from geolookup.model.errors import ColumnError, InvalidAddressError
from geolookup.model.facts import FACT_NAMES
from geolookup.model.fields import FIELD_NAMES, PLACE_NAMES, TEXT_NAMES

By: TypeAlias = Literal["requests", "addresses"]
#: The ways to count: every occurrence of an address, or every address once.
BYS: Final = get_args(By)

#: Problems that are named; the others are only counted.
NAMED_PROBLEMS: Final = 20

#: The fields that tell two places of one name apart: Paris in France from Paris in Texas.
_WITHIN: Final = {
    "region": ("country",),
    "city": ("country", "region"),
    "postalcode": ("country",),
    "areacode": ("country",),
    "locid": ("country", "region", "city"),
}
#: The fields to count by: those of text, and more of an address's object.
FIELDS: Final = (*TEXT_NAMES, "locid", "layer", "source")
#: What a person reads in place of a fact that is not known.
UNSAID: Final = "(no source says it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Addresses with the same place, or the same value of another field.

    ``fields`` has what they have in common, by name: the field asked for, and those that tell two of its values apart.
    A fact that no source says is None; beside an AS number stands the organisation of most of its addresses.
    ``latitude`` and ``longitude`` are degrees: those of the location in the group with the highest count that has them,
    or None.
    """

    fields: dict[str, str | int | None]
    count: int
    latitude: float | None
    longitude: float | None

    def place_text(self) -> str:
        """Its fields as a person reads them on a line; an unknown one is in brackets: "(no city), CA, US"."""
        name, value = next(iter(self.fields.items()))
        if name in FACT_NAMES:
            if value is None:
                return UNSAID
            text = f"AS{value}" if name == "asn" else str(value).lower() if isinstance(value, bool) else str(value)
            return "  ".join(
                [text, *(str(self.fields[other]) for other in self.fields if other != name and self.fields[other])]
            )
        values = {name: str(value) for name, value in self.fields.items()}
        asked = next(reversed(values))
        values[asked] = values[asked] or f"(no {asked})"
        first = [value for name, value in values.items() if name not in PLACE_NAMES]
        return place_text((*first, *(values[name] for name in PLACE_NAMES if name in values)))


@dataclass(slots=True)
class Problem:
    """Something that is no address, or a row that cannot be read: where it is first, and how often it is there."""

    where: str
    what: str
    count: int

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f" ({self.count:,} times)" if self.count > 1 else "")


class Counts:
    """The result of `count`.

    ``by`` says what was counted; ``covered`` and ``not_covered`` count addresses that have a location and that have
    none; ``malformed`` counts what is not an address, and rows that could not be read, ``problems`` has the first
    `NAMED_PROBLEMS` of them, each once. ``questions`` has one for each file of whose column few values are addresses.
    ``generation`` is the one that answered, and ``dated`` the oldest date or moment
    (ISO 8601, UTC) that its sources say their data are of, None if none says one.
    """

    def __init__(
        self,
        tally: Tally,
        by: By,
        home: str,
        snapshot: Snapshot,
        malformed: int,
        problems: tuple[Problem, ...],
        questions: tuple[str, ...],
    ) -> None:
        self.by = by
        self.covered = tally.covered
        self.not_covered = tally.not_covered
        self.malformed = malformed
        self.problems = problems
        self.questions = questions
        self.generation = snapshot.current.generation
        self.dated = snapshot.current.dated
        self._layers = tally.layers
        self._facts = tally if isinstance(tally, FactTally) else None
        self._home = home
        self._snapshot = snapshot

    @property
    def counted(self) -> int:
        """All addresses, covered or not."""
        return self.covered + self.not_covered

    def groups(self, field: str = "country") -> list[Group]:
        """The covered addresses by one of `FIELDS`, or by the fact that was counted; the highest count comes first.

        :raises ColumnError: for an unknown field
        """
        if self._facts is not None and field == self._facts.fact.name:
            return self._groups_of_fact(self._facts)
        if field not in FIELDS:
            raise ColumnError(f"unknown field {field!r:.60}: addresses are counted by {', '.join(FIELDS)}")
        names = (*_WITHIN.get(field, ()), field)
        merged: dict[tuple[str | int | None, ...], tuple[int, Group]] = {}
        for reader, counts in self._layers:
            for weight, group in _groups(reader, counts, names):
                key = tuple(group.fields.values())
                merged[key] = _together((weight, group), merged[key]) if key in merged else (weight, group)
        return sorted(
            (group for _, group in merged.values()),
            key=lambda group: (-group.count, tuple(map(str, group.fields.values()))),
        )

    def _groups_of_fact(self, facts: FactTally) -> list[Group]:
        names = [facts.fact.name, *([BESIDE[facts.fact.name]] if facts.fact.name in BESIDE else [])]
        found = [
            Group(fields=dict(zip(names, values, strict=True)), count=number, latitude=None, longitude=None)
            for values, number in facts.values().items()
        ]
        return sorted(found, key=lambda group: (-group.count, group.place_text()))

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that answered."""
        if self._facts is not None and self._facts.fact.layer == "network":
            return self._facts.sources
        return tuple(str(group.fields["source"]) for group in self.groups("source"))

    @property
    def attributions(self) -> tuple[str, ...]:
        """The lines that the licences of these sources want shown."""
        return attributions(self._home, self._snapshot.current, self.sources)

    def provenance(self) -> dict[str, Any]:
        """What the answers come from: see `exports.provenance`. Of the sources, those that answered."""
        return of_sources(provenance(self._home, self._snapshot), self.sources)


def count(
    geo: GeoLookup | None, batches: Iterable[tuple[str, Batch]], *, by: By = "requests", fact: str | None = None
) -> Counts:
    """Count addresses by where they are, in one generation, from beginning to end.

    ``batches`` has each batch with the name of what it is from, for `Counts.problems`. Memory does not grow with their
    number; with ``by`` "addresses" a temporary folder does. With ``geo`` None, the settings' state directory answers.
    With a ``fact``, one of `facts.FACT_NAMES`, there are groups by that too; if it is one of networks, an address is
    covered that has a network and no place.

    :raises ColumnError: if ``by`` or the fact is unknown
    """
    if by not in BYS:
        raise ColumnError(f"unknown count {by!r:.60}: it is one of {', '.join(BYS)}")
    if fact is not None and fact not in FACT_NAMES:
        raise ColumnError(f"unknown fact {fact!r:.60}: it is one of {', '.join(FACT_NAMES)}")
    geo = default_geo() if geo is None else geo

    def begin(snapshot: Snapshot) -> tuple[Tally, Snapshot]:
        if fact is not None:
            return FactTally(snapshot, fact), snapshot
        return Tally(snapshot.base.reader, snapshot.custom.reader), snapshot

    tally, counted = geo.with_networks(begin)
    problems: dict[tuple[str, str], Problem] = {}
    doubts: dict[str, Doubt] = {}
    malformed = 0
    with Distinct() as distinct:
        for name, batch in batches:
            good, bad = _count(tally, batch)
            if batch.doubt is not None:
                doubts[name] = batch.doubt
                wrong = sum(batch.found[token] for token in bad)
                batch.doubt.add(sum(batch.found.values()) - wrong, sum(batch.found.values()))
            if by == "addresses":
                distinct.add(good)
            malformed += len(batch.unreadable) + sum(batch.found[token] for token in bad)
            if bad or batch.unreadable:
                _add_problems(problems, name, batch, bad)
        if by == "addresses":
            tally = tally.anew()
            tally.add_distinct(distinct)
    asked = tuple(f"{name}: {doubt.asked}" for name, doubt in doubts.items() if doubt.asked)
    return Counts(tally, by, geo.home, counted, malformed, tuple(problems.values()), asked)


def _count(tally: Tally, batch: Batch) -> tuple[list[bytes], dict[bytes, str]]:
    """Count a batch; returns the counted texts, each once, and the malformed ones with the reason."""
    bad = tally.add(batch.found)
    good = list(batch.found)
    wrong: dict[bytes, str] = {}
    meant: Counter[bytes] = Counter()
    for token in bad:
        try:
            again = _again(token, batch.reread)
        except InvalidAddressError as error:
            wrong[token] = str(error)
        else:
            if again is not None:
                meant[again] += batch.found[token]
    if meant:
        tally.add(meant)
        good += meant
    return good, wrong


def _again(token: bytes, reread: Reread | None) -> bytes | None:
    """The address that another text means.

    :raises InvalidAddressError: if it means nothing, saying what is wrong with it
    """
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidAddressError("the address is not text in UTF-8") from None
    if reread is None:
        raise no_address(text)
    found = reread(text)
    return None if found is None else found.encode("ascii")


def _add_problems(known: dict[tuple[str, str], Problem], name: str, batch: Batch, bad: dict[bytes, str]) -> None:
    """Count the problems of a batch; those that are new are added in the order of its lines, while there is room."""
    times = Counter({what: batch.found[token] for token, what in bad.items()})
    times.update(what for _, what in batch.unreadable)
    new = {}
    for what, count in times.items():
        if (problem := known.get((name, what))) is not None:
            problem.count += count
        elif len(known) < NAMED_PROBLEMS:
            new[what] = count
    if not new:
        return
    places = ((place, bad[token]) for place, token in batch.where([each for each, what in bad.items() if what in new]))
    first: dict[str, int] = {}
    for place, what in (*batch.unreadable, *places):
        if what in new:
            first[what] = min(first.get(what, place), place)
    for what, place in sorted(first.items(), key=lambda each: each[1])[: NAMED_PROBLEMS - len(known)]:
        known[name, what] = Problem(f"{name}, {batch.word} {place}", what, new[what])


def _groups(reader: IndexReader, counts: Numbers, names: tuple[str, ...]) -> list[tuple[int, Group]]:
    """The groups of one layer, each with the count of the location whose coordinates it has; 0 if it has none."""
    slots = np.flatnonzero(counts)
    if not len(slots):
        return []
    arrays = reader.arrays()
    codes = np.zeros(len(slots), np.int64)
    for name in names:
        if name != "layer":  # all of a reader's slots are of one
            codes = _finer(codes, _values(reader, arrays, name)[slots])
    sums = np.zeros(int(codes.max()) + 1, np.int64)
    np.add.at(sums, codes, counts[slots])
    # Those with coordinates come last, and of those the one with the highest count: the last one stays.
    placed = ~(np.isnan(arrays["loc.latitude"][slots]) | np.isnan(arrays["loc.longitude"][slots]))
    order = np.lexsort((counts[slots], placed))
    chosen = np.zeros(len(sums), np.int64)
    chosen[codes[order]] = slots[order]
    found = [_group(reader, slot, number, names) for slot, number in zip(chosen.tolist(), sums.tolist(), strict=True)]
    weights = np.where(np.isin(chosen, slots[placed]), counts[chosen], 0).tolist()
    return list(zip(weights, found, strict=True))


def _group(reader: IndexReader, slot: int, number: int, names: tuple[str, ...]) -> Group:
    place = dict(zip(("locid", *FIELD_NAMES), reader.location(slot), strict=True))
    more = {"layer": reader.layer, "source": source_of(reader, slot)}
    known = place["latitude"] is not None and place["longitude"] is not None
    return Group(
        fields={name: more[name] if name in more else place[name] for name in names},
        count=number,
        latitude=place["latitude"] if known else None,
        longitude=place["longitude"] if known else None,
    )


def _values(reader: IndexReader, arrays: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """A number for each slot, equal if and only if what they have under ``name`` is."""
    found = arrays.get(f"loc.{name}")
    return np.zeros(reader.location_count, np.int64) if found is None else found


def _finer(codes: Numbers, values: NDArray[Any]) -> Numbers:
    """Codes from 0 on, equal if and only if both the codes and the values are."""
    _, inner = np.unique(values, return_inverse=True)
    _, found = np.unique(codes * (int(inner.max()) + 1) + inner, return_inverse=True)
    result: Numbers = found.astype(np.int64)
    return result


def _together(one: tuple[int, Group], other: tuple[int, Group]) -> tuple[int, Group]:
    """One group of two parts of it, from two layers for example."""
    weight, placed = max(one, other, key=lambda each: each[0])
    return weight, replace(placed, count=one[1].count + other[1].count)
