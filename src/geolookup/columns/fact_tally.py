"""Counts of addresses by a fact. They take one number for each record, for an input of any length."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from geolookup.columns.facts import FACTS_BY_NAME, FactTable
from geolookup.columns.kernel import ABSENT, EMPTY, SlotFinder, Slots
from geolookup.columns.tally import Numbers, Tally, count_slots
from geolookup.index.reader import IndexReader
from geolookup.lookup.network import Said, key_of

if TYPE_CHECKING:
    from geolookup.lookup.snapshot import Snapshot

#: What is shown beside a value of a fact: the organisation to which most of its addresses belong.
BESIDE: Final = {"asn": "as_organization"}


class FactTally(Tally):
    """A tally that counts by a fact too, in one snapshot.

    ``fact`` is one of `facts.FACT_NAMES`. Of a fact of networks an address is covered if it has a place or a network.

    :raises IndexDamagedError: if a file is damaged
    :raises StateDamagedError: if it is a fact of networks, and their index is gone
    """

    def __init__(self, snapshot: "Snapshot", fact: str, finder: SlotFinder | None = None) -> None:
        super().__init__(snapshot.base.reader, snapshot.custom.reader, finder)
        self.fact = FACTS_BY_NAME[fact]
        self._snapshot = snapshot
        self._of_networks = self.fact.layer == "network"
        readers: tuple[IndexReader, ...] = (snapshot.base.reader, snapshot.custom.reader)
        if self._of_networks:
            networks = snapshot.networks()
            readers = () if networks is None else (networks.reader,)
        self._records = None
        if readers:
            self._records = SlotFinder(readers[0], readers[1] if readers[1:] else None, records=True)
        self._by_record = tuple((reader, np.zeros(reader.record_count, np.int64)) for reader in readers)

    def anew(self) -> "FactTally":
        """A tally of the same snapshot in which nothing is counted yet."""
        return FactTally(self._snapshot, self.fact.name, self._finder)

    def _add(self, search: Callable[[SlotFinder], Slots], times: Numbers) -> Slots:
        slots = super()._add(search, times)
        if self._records is None:
            return slots
        records = search(self._records)
        count_slots(self._by_record, records, times)
        if self._of_networks:
            known = records < ABSENT
            only = int(times[known & (slots == EMPTY)].sum())
            self.covered += only
            self.not_covered -= only
        return slots

    def values(self) -> "Counter[tuple[Any, ...]]":
        """How many covered addresses have each value of the fact, None if no source says it, and what is `BESIDE` it.

        The sums make ``covered``.
        """
        beside = BESIDE.get(self.fact.name)
        found: Counter[tuple[Any, ...]] = Counter()
        others: dict[Any, Counter[Any]] = {}
        readers = [reader for reader, _ in self._by_record]
        names = (self.fact.name, *([beside] if beside else [])) if readers else ()
        tables = [FactTable(FACTS_BY_NAME[name], readers) for name in names]
        for layer, (_, counts) in enumerate(self._by_record):
            for record in np.flatnonzero(counts).tolist():
                value, *other = (table.get(layer, record) for table in tables)
                number = int(counts[record])
                found[(value,)] += number
                if other and other[0] is not None:
                    others.setdefault(value, Counter())[other[0]] += number
        rest = self.covered - found.total()
        if rest:
            found[(None,)] += rest
        if beside is None:
            return found
        return Counter({(value, _most(others.get(value))): number for (value,), number in found.items()})

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources of networks that said the fact of a counted address, in their order."""
        names = set()
        for reader, counts in self._by_record if self._of_networks else ():
            said = Said(reader)
            records = np.flatnonzero(counts)
            # Few distinct ones: each is understood once.
            whose = reader.arrays().get("record.said", np.zeros(reader.record_count, np.uint8))[records]
            for record in records[np.unique(whose, return_index=True)[1]].tolist():
                names.add(said.sources(record).get(key_of(self.fact)))
        return tuple(name for reader, _ in self._by_record for name in reader.sources if name in names)


def _most(counts: "Counter[Any] | None") -> Any:
    return None if counts is None else min(counts, key=lambda each: (-counts[each], str(each)))
