"""Who runs addresses, as far as an export has it: the segments of the layer of networks, and their facts in columns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.exports import licences
from geolookup.exports.parts import Column, Parts, column_of, distinct_rows, parts_of
from geolookup.exports.segments import Segments, joined
from geolookup.index.flatten import EMPTY, I64, U32
from geolookup.index.walk import walk
from geolookup.lookup.fact_columns import by_record
from geolookup.lookup.network import key_of
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.facts import NETWORK_FACTS

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_SAID = "record.said"
_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """The facts of all networks. The values of the segments are numbers of ``which_said`` and of all ``parts``.

    ``parts`` has the facts by GeoIP2's keys, or their sources' own. ``said`` are the distinct ways in which sources
    share the facts of a record: for each key the source that said it. ``facts`` are the typed ones that were asked for,
    by their names. ``answering`` names the sources that said
    something, in their order, and ``origins`` says of each the day of its data and whether its licence is known.
    """

    four: Segments
    six: Segments
    parts: dict[str, Parts]
    said: list[Mapping[str, str]]
    which_said: I64
    answering: tuple[str, ...]
    origins: tuple[str, ...]
    facts: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.which_said)

    def covered(self) -> int:
        """The number of segments that are not gaps."""
        return self.four.covered() + self.six.covered()

    def kept(self, keeps: Callable[[str, str], bool]) -> "Networks":
        """The same with some facts only: those whose key and source ``keeps`` wants. Equal neighbours are joined."""
        parts = {}
        for key, part in self.parts.items():
            wanted = np.array([key in said and keeps(key, said[key]) for said in self.said], np.bool_)
            which = np.where(wanted[self.which_said], part.which, -1)
            if (which >= 0).any():
                parts[key] = Parts(part.values, which)
        # Who said what is left: of few distinct ones.
        left = [{key: name for key, name in said.items() if keeps(key, name)} for said in self.said]
        known: dict[tuple[tuple[str, str], ...], int] = {}
        renumbered = np.array([known.setdefault(tuple(said.items()), len(known)) for said in left], np.int64)
        which_said = renumbered[self.which_said]
        first, which = distinct_rows([which_said, *(part.which for part in parts.values())])
        number: U32 = which.astype(np.uint32)
        number[np.all([part.which < 0 for part in parts.values()], axis=0)] = EMPTY  # nothing is left
        names = {name for said in left for name in said.values()}
        is_left = [name in names for name in self.answering]
        return replace(
            self,
            four=self.four.with_values(number),
            six=self.six.with_values(number),
            parts={key: Parts(part.values, part.which[first]) for key, part in parts.items()},
            said=[dict(said) for said in known],
            which_said=which_said[first],
            facts={name: self._kept_fact(name, parts, first) for name in self.facts},
            answering=tuple(name for name, there in zip(self.answering, is_left, strict=True) if there),
            origins=tuple(origin for origin, there in zip(self.origins, is_left, strict=True) if there),
        )

    def _kept_fact(self, name: str, parts: Mapping[str, Parts], first: I64) -> Column:
        """A typed fact of some records, unknown where its part is gone."""
        values, which = self.facts[name]
        part = parts.get(key_of(NETWORK_FACTS[name]))
        unknown = np.full(len(which), len(values), np.int64)
        which = unknown if part is None else np.where(part.which < 0, unknown, which)
        return column_of([(which[first], [*values, None])])


def sources_of(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of the sources of networks, in their order."""
    found = snapshot.networks()
    return () if found is None else tuple(found.reader.sources)


def collect(
    snapshot: Snapshot, *, source: str | None, progress: Callable[[int, int], None], facts: Iterable[str] = ()
) -> Networks:
    """All facts of networks in this snapshot, or what one source says of them; those named ``facts`` typed, too.

    :raises IndexDamagedError: if the index cannot be followed
    :raises StateDamagedError: if it is gone
    """
    opened = snapshot.networks()
    readers = [] if opened is None else [opened.reader]
    total = sum(reader.segment_count_v4 + reader.segment_count_v6 for reader in readers) or 1
    count = sum(reader.record_count for reader in readers)
    used = np.zeros(count + 1, np.bool_)
    families, done = [], 0
    for version in _FAMILIES:
        pieces: list[Segments] = []
        for stretch in walk(readers, version, records=True):
            value = stretch.slots[0].copy() if readers else np.full(len(stretch.lo), -1, np.int64)
            value[value < 0] = count
            used[value] = True
            pieces.append(Segments(stretch.hi, stretch.lo, value.astype(np.uint32)).merged())
            done += len(value)
            progress(min(done, total), total)
        families.append(joined(*pieces))
    kept = np.flatnonzero(used[:-1])
    numbers: U32 = np.full(len(used), EMPTY, np.uint32)
    numbers[kept] = np.arange(len(kept), dtype=np.uint32)
    four, six = (Segments(each.hi, each.lo, numbers[each.value]).merged() for each in families)
    parts = parts_of([(reader, kept) for reader in readers])
    said, which_said = _said(readers[0], kept, parts) if readers else ([], np.empty(0, np.int64))
    names = {name for each in said for name in each.values()}
    answering = tuple(name for name in sources_of(snapshot) if name in names)
    found = Networks(
        four=four,
        six=six,
        parts=parts,
        said=said,
        which_said=which_said,
        answering=answering,
        origins=licences.origins(snapshot.current, answering),
        facts={name: _typed(name, readers, kept) for name in facts},
    )
    return found if source is None else found.kept(lambda _, name: name == source)


def _typed(name: str, readers: "list[IndexReader]", kept: I64) -> Column:
    pieces = (by_record(reader, NETWORK_FACTS[name]) for reader in readers)
    return column_of([(numbers[kept], values) for numbers, values in pieces])


def _said(reader: "IndexReader", kept: I64, parts: Mapping[str, Parts]) -> tuple[list[Mapping[str, str]], I64]:
    """Who said the facts of some records: the distinct answers, and which of them each record has."""
    column = reader.arrays().get(_SAID)
    if column is not None:
        first, which = distinct_rows([column[kept].astype(np.int64)])
        return [reader.said(record) for record in kept[first].tolist()], which
    # One source said all.
    first, which = distinct_rows([np.zeros(len(kept), np.int64), *(part.which < 0 for part in parts.values())])
    source = reader.sources[0] if reader.sources else ""
    return [{key: source for key, part in parts.items() if part.which[at] >= 0} for at in first.tolist()], which
