"""The ranges in which fields and facts have asked-for values, as lookups answer them, over both layers of places and
that of networks; in memory that does not grow with the number of ranges."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from geolookup.columns.facts import FactTable, slots_of_records
from geolookup.index.layout import EMPTY
from geolookup.index.reader import source_of
from geolookup.index.walk import Stretch, walk
from geolookup.lookup.facts import RecordFacts
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS
from geolookup.model.types import FLAT_NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolookup.index.reader import IndexReader
    from geolookup.lookup.snapshot import OpenLayer, Snapshot
    from geolookup.model.addresses import Family
    from geolookup.model.facts import Fact
    from geolookup.model.types import Layer, ListFilters

#: A range of a family: its inclusive ends, and the values that were asked for.
Row: TypeAlias = "tuple[Family, int, int, tuple[Any, ...]]"

#: The names of values that a range can have.
NAMES: Final = (*(name for name in FLAT_NAMES if name not in ("ip", "first", "last")), *PLACE_FACTS, *NETWORK_FACTS)
_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
#: Values of answers that are remembered, in case further ranges have the same answer.
_MOST_KNOWN: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The answers that are asked for: those of which all of this is true.

    ``facts`` has for names of facts the values, one of which it must be; ``fields`` the texts of fields of the place.
    Text is compared without regard to case. ``layer`` is the layer of places that must answer, by itself; None for
    what both answer together, or if the place does not matter.
    """

    facts: Mapping[str, Sequence[str | int | bool]] = field(default_factory=dict)
    fields: "ListFilters" = field(default_factory=dict)  # type: ignore[assignment] # a dictionary without keys is one
    layer: "Layer | None" = None

    @property
    def of_places(self) -> bool:
        """Whether it matters where an address is."""
        return self.layer is not None or any(self.fields.values()) or any(name in PLACE_FACTS for name in self.facts)

    @property
    def of_networks(self) -> bool:
        """Whether it matters who runs an address."""
        return any(name in NETWORK_FACTS for name in self.facts)


def ranges_where(snapshot: "Snapshot", wanted: Wanted, names: Sequence[str] = ()) -> Iterator[Row]:
    """The ranges whose answers fit, ascending, IPv4 first, with their values of some of `NAMES`.

    Neighbours with the same values are one range. 6to4 addresses are there if a block of their own covers them.

    :raises IndexDamagedError: if a file is damaged
    :raises StateDamagedError: if the index of networks is gone
    """
    layers = []
    if wanted.layer is not None:
        layers = [snapshot.custom if wanted.layer == "custom" else snapshot.base]
    elif wanted.of_places or any(name not in NETWORK_FACTS for name in names):
        layers = [snapshot.custom, snapshot.base]
    asks_for_networks = wanted.of_networks or any(name in NETWORK_FACTS for name in names)
    networks = snapshot.networks() if asks_for_networks else None
    reader = None if networks is None else networks.reader
    if wanted.of_networks and reader is None:
        return
    answers = _Answers(layers, reader, names)
    fits = _Fits(layers, reader, wanted)
    for family in _FAMILIES:
        yield from _joined(family, _pieces(walk(answers.readers, family, records=True), fits, answers))


def _pieces(stretches: Iterator[Stretch], fits: "_Fits", answers: "_Answers") -> Iterator[tuple[int, int, Any]]:
    """The ranges that fit, with their values; neighbours may have the same."""
    for stretch in stretches:
        good = fits.of(stretch)
        changes = np.append(True, good[1:] != good[:-1])
        if answers.names:
            for slots in stretch.slots:
                changes[1:] |= slots[1:] != slots[:-1]
        begins = np.flatnonzero(changes)
        chosen = begins[good[begins]]
        # The position that ends each: that of the next change, or the end of the stretch.
        after = np.append(begins, len(good))[np.searchsorted(begins, chosen, side="right")]
        starts = [
            hi << 64 | lo for hi, lo in zip(stretch.hi[chosen].tolist(), stretch.lo[chosen].tolist(), strict=True)
        ]
        inside = np.minimum(after, len(good) - 1)
        ends = [hi << 64 | lo for hi, lo in zip(stretch.hi[inside].tolist(), stretch.lo[inside].tolist(), strict=True)]
        numbers = zip(*(slots[chosen].tolist() for slots in stretch.slots), strict=True)
        for start, end, position, own in zip(starts, ends, after.tolist(), numbers, strict=True):
            yield start, (stretch.end if position == len(good) else end) - 1, answers.values(own)


def _joined(family: "Family", pieces: Iterator[tuple[int, int, Any]]) -> Iterator[Row]:
    """Ranges of pieces that follow each other with the same values."""
    held = None
    for first, last, values in pieces:
        if held is not None and held[1] + 1 == first and held[2] == values:
            held = held[0], last, values
            continue
        if held is not None:
            yield family, *held
        held = first, last, values
    if held is not None:
        yield family, *held


class _Fits:
    """Tells which starts of a stretch have an answer that fits, by tables of the records of each file.

    A table has one item more, false: -1 leads to it, where nothing covers.
    """

    def __init__(self, layers: "Sequence[OpenLayer]", networks: "IndexReader | None", wanted: Wanted) -> None:
        self._layers = len(layers)
        self._places = [_of_places(layer.reader, wanted) for layer in layers] if wanted.of_places else []
        self._networks = (
            np.append(_with_facts(networks, wanted, NETWORK_FACTS), False)
            if networks is not None and wanted.of_networks
            else None
        )

    def of(self, stretch: Stretch) -> "NDArray[np.bool_]":
        """Which starts fit."""
        good = np.ones(len(stretch.lo), np.bool_)
        if self._networks is not None:
            good &= self._networks[stretch.slots[self._layers]]
        if self._places:
            first, *second = stretch.slots[: self._layers]
            found = self._places[0][first]
            for slots, table in zip(second, self._places[1:], strict=True):
                found = np.where(first >= 0, found, table[slots])
            good &= found
        return good


def _of_places(reader: "IndexReader", wanted: Wanted) -> "NDArray[np.bool_]":
    """Which records of a layer of places fit."""
    slots = slots_of_records(reader)
    good = (slots != EMPTY) & _with_facts(reader, wanted, PLACE_FACTS)
    arrays = reader.arrays()
    for name, text in wanted.fields.items():
        if text:
            distinct, first = np.unique(arrays[f"loc.{name}"], return_index=True)
            position = FLAT_NAMES.index(name) - 1
            texts = [str(reader.location(slot)[position]) for slot in first.tolist()]
            fit = distinct[[each.casefold() == str(text).casefold() for each in texts]]
            good &= np.append(np.isin(arrays[f"loc.{name}"], fit), False)[np.minimum(slots, reader.location_count)]
    return np.append(good, False)


def _with_facts(reader: "IndexReader", wanted: Wanted, known: "Mapping[str, Fact]") -> "NDArray[np.bool_]":
    """Which records have the wanted values of those facts that are ``known``."""
    good = np.ones(reader.record_count, np.bool_)
    for name, values in wanted.facts.items():
        if name in known:
            table = FactTable(known[name], [reader])
            folded = {_folded(value) for value in values}
            numbers = [number for number, text in enumerate(table.texts) if _folded(text) in folded]
            numbers += [int(value) for value in values if not isinstance(value, str)]
            good &= (table.known[0] != 0) & np.isin(table.values[0], numbers)
    return good


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


class _Answers:
    """The values of answers, by the numbers of their records in the files that are walked: places, then networks."""

    def __init__(self, layers: "Sequence[OpenLayer]", networks: "IndexReader | None", names: Sequence[str]) -> None:
        self.names = names
        self.readers = [*(layer.reader for layer in layers), *(() if networks is None else (networks,))]
        self._layers = layers
        self._facts = None if networks is None else RecordFacts(networks, NETWORK_FACTS)
        self._known: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def values(self, numbers: tuple[int, ...]) -> tuple[Any, ...]:
        """The values of the names, by the record in each file; -1 stands for none."""
        if not self.names:
            return ()
        found = self._known.get(numbers)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()  # cheaper than an order of use; answers that come again are made again
            found = self._known[numbers] = tuple(map(self._reading(numbers), self.names))
        return found

    def _reading(self, numbers: tuple[int, ...]) -> Callable[[str], Any]:
        network = -1 if self._facts is None else numbers[-1]
        layer, record = next(
            ((layer, number) for layer, number in zip(self._layers, numbers, strict=False) if number >= 0), (None, -1)
        )
        slot = -1 if layer is None else int(layer.reader.slot_of_record(record))
        place = None if layer is None or slot >= layer.reader.location_count else layer.geolocation(slot)

        def read(name: str) -> Any:
            if name in NETWORK_FACTS:
                return self._facts.get(name, network) if self._facts is not None and network >= 0 else None
            if layer is None or place is None:
                return None
            if name in PLACE_FACTS:
                return layer.facts.get(name, record, place)
            if name == "layer":
                return layer.reader.layer
            if name == "pending":
                return layer.reader.pending(slot)
            return source_of(layer.reader, slot) if name == "source" else getattr(place, name)

        return read
