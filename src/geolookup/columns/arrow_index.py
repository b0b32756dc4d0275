"""One snapshot's index files as Arrow arrays: what they say of a column's addresses. Needs pyarrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import is_text, pa, pc, slots_of, take
from geolookup.columns.arrow_rows import TYPES, FactColumns, Rows, room
from geolookup.columns.common import ENOUGH_VALUES, address_text
from geolookup.columns.facts import FACTS_BY_NAME, slots_of_records
from geolookup.columns.kernel import ABSENT, BAD, EMPTY, OVERLAY, SlotFinder, Slots, SlotValues
from geolookup.index.reader import IndexReader, piece_of_both
from geolookup.model.addresses import network_around, parse, to_text
from geolookup.model.errors import IndexDamagedError
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS
from geolookup.model.fields import DEGREES, TEXT_NAMES

__all__ = ["ArrowIndex", "Found", "sample_of"]

#: The fields that the file has as they are answered: one item a location.
_STORED: Final = frozenset(("locid", *TEXT_NAMES, *DEGREES))
#: The fields that the neighbours of an address decide.
_RANGES: Final = ("first", "last", "network")


class ArrowIndex:
    """The default and the custom layer of one snapshot, ready for columns.

    ``texts`` is the dictionary of every text column. It looks into the mapped file without a copy, unless the custom
    layer has texts that the default one lacks: then both were copied into one, once for the snapshot and not for each
    batch, so that every batch of a stream has the same dictionary.

    :raises IndexDamagedError: if the file's strings, or what names them, lead outside it: Arrow trusts both
    """

    def __init__(
        self, base: IndexReader, overlay: IndexReader, networks: Callable[[], IndexReader | None] | None = None
    ) -> None:
        """``networks`` opens the index of networks, once the first of their facts is asked for."""
        self.base = base
        self.overlay = overlay
        self.finder = SlotFinder(base, overlay, room)
        self._open_networks = networks
        self._arrays = base.arrays()
        self._over = overlay.arrays()
        self.texts = _string_table(base, self._arrays)
        if overlay.location_count:
            self.texts = self._add_overlay_texts()

    def _add_overlay_texts(self) -> Any:
        own = _string_table(self.overlay, self._over)
        known = pc.index_in(own, value_set=self.texts)
        is_new = known.is_null()
        ids = known.fill_null(0).to_numpy().astype(np.int32)
        new = is_new.to_numpy(zero_copy_only=False)
        ids[new] = len(self.texts) + np.arange(int(new.sum()), dtype=np.int32)
        for name in TEXT_NAMES:
            self._over[f"loc.{name}"] = ids[self._over[f"loc.{name}"]]
        return pa.concat_arrays([self.texts, own.filter(is_new)]) if new.any() else self.texts

    @cached_property
    def places(self) -> FactColumns:
        """The facts of places."""
        readers = self.base, self.overlay
        if not any("record.slot" in reader.header.sections for reader in readers):
            return FactColumns(self.finder, readers)  # records have the numbers of slots
        return FactColumns(SlotFinder(*readers, room, records=True), readers)

    @cached_property
    def networks(self) -> FactColumns | None:
        """The facts of networks; None if no source says who runs addresses.

        :raises IndexDamagedError: if their index is not what was published
        :raises StateDamagedError: if it is gone
        """
        reader = None if self._open_networks is None else self._open_networks()
        return None if reader is None else FactColumns(SlotFinder(reader, None, room), (reader,))

    def prepare(self, fields: Sequence[str]) -> None:
        """Read what these fields need, once for all threads that will ask for them.

        :raises IndexDamagedError: if a file is damaged there
        :raises StateDamagedError: if the index of networks is gone
        """
        for name in fields:
            facts = self.places if name in PLACE_FACTS else self.networks if name in NETWORK_FACTS else None
            if facts is not None:
                facts.table(name)

    def search(self, column: Any, fields: Sequence[str], before: int = 0) -> "Found":
        """Find the addresses of an Arrow array, in as much as these fields need.

        :raises ColumnError: as for `slots_of`
        """
        slots = records = networks = None
        if any(name in NETWORK_FACTS for name in fields) and self.networks is not None:
            networks = slots_of(self.networks.finder, column, before)
        if any(name in PLACE_FACTS for name in fields):
            records = slots_of(self.places.finder, column, before)
        if any(name not in FACTS_BY_NAME for name in fields):
            slots = slots_of(self.finder, column, before) if records is None else self._slots_of_records(records)
        if slots is None and records is None and networks is None:  # no source says who runs addresses
            networks = slots_of(self.finder, column, before)
            networks[networks < ABSENT] = EMPTY
        return Found(column, slots, records, networks)

    def _slots_of_records(self, records: Slots) -> Slots:
        if self.places.finder is self.finder:
            return records
        found = self.places.finder.take(records, [self._record_slots]).values[0]
        return np.where(records < ABSENT, found, records)

    @cached_property
    def _record_slots(self) -> tuple[Slots, Slots]:
        return slots_of_records(self.base), slots_of_records(self.overlay) | np.uint32(OVERLAY)

    def answer(self, found: "Found", fields: Sequence[str]) -> "Answer":
        """One array for each field, null if nothing covers the row's address, or what covers it does not say it."""
        arrays: dict[str, Any] = {}
        taken: list[SlotValues] = []
        if found.slots is not None:
            names = [name for name in fields if name not in FACTS_BY_NAME]
            own = [name for name in names if name in _STORED]
            pairs = [(self._arrays[f"loc.{name}"], self._over[f"loc.{name}"]) for name in own]
            rows = Rows(found.slots, self.finder.take(found.slots, pairs), own)
            taken.append(rows.taken)
            ranges = self._ranges(found) if any(name in _RANGES for name in names) else {}
            arrays = {name: ranges[name] if name in ranges else self._column(name, rows) for name in names}
        for numbers, known in ((found.records, PLACE_FACTS), (found.networks, NETWORK_FACTS)):
            facts = None if numbers is None else self.places if known is PLACE_FACTS else self.networks
            if facts is not None and numbers is not None:
                names = [name for name in fields if name in known]
                rows = facts.rows(numbers, names)
                taken.append(rows.taken)
                arrays |= {name: facts.column(name, rows) for name in names}
        counted = taken[0] if taken else self.finder.take(found.anywhere, [])
        return Answer(
            arrays=[arrays[name] if name in arrays else pa.nulls(len(found.column), TYPES[name]) for name in fields],
            malformed=np.flatnonzero(found.anywhere == BAD) if counted.malformed else np.empty(0, np.int64),
            not_covered=found.nowhere() if len(taken) > 1 else counted.not_covered,
            absent=counted.absent,
        )

    def _column(self, name: str, rows: "Rows") -> Any:
        if name in TEXT_NAMES:
            return pa.DictionaryArray.from_arrays(rows.array(pa.int32(), rows.values[name]), self.texts, safe=False)
        if name in DEGREES:
            values = rows.values[name]
            return rows.array(pa.float64(), values, known=~np.isnan(values))
        if name == "layer":
            is_custom = np.zeros(rows.count, np.int8)
            is_custom[rows.over] = 1
            return pa.DictionaryArray.from_arrays(
                rows.array(pa.int8(), is_custom), pa.array(["default", "custom"]), safe=False
            )
        if name == "pending":
            is_pending = np.zeros(rows.count, np.bool_)
            if "loc.pending" in self._over:
                is_pending[rows.over] = self._over["loc.pending"][rows.over_slots] != 0
            return rows.array(pa.bool_(), np.packbits(is_pending, bitorder="little"))
        if name == "source":
            names = [*(self.base.sources or ("service",)), "custom"]
            numbers = np.full(rows.count, len(names) - 1, np.int16)
            own = self._arrays.get("loc.source")
            numbers[rows.base] = 0 if own is None else own[rows.base_slots]
            if int(numbers.max(initial=0)) >= len(names):
                raise IndexDamagedError(f"{self.base.path}: loc.source names a source that is not there: it is damaged")
            return pa.DictionaryArray.from_arrays(rows.array(pa.int16(), numbers), pa.array(names), safe=False)
        return rows.array(TYPES[name], rows.values[name])

    def _ranges(self, found: "Found") -> dict[str, Any]:
        # One at a time: the neighbours of both layers decide what a range is. Repeated addresses cost a dict's lookup.
        known: dict[Any, tuple[str, ...]] = {}
        assert found.slots is not None
        covered = np.flatnonzero(found.slots < ABSENT)
        each: list[list[str | None]] = [[None] * len(found.slots) for _ in _RANGES]
        for row, address in zip(covered.tolist(), take(found.column, covered).to_pylist(), strict=True):
            ends = known.get(address)
            if ends is None:
                ends = known[address] = self._range(address)
            for column, value in zip(each, ends, strict=True):
                column[row] = value
        return {name: pa.array(column, pa.string()) for name, column in zip(_RANGES, each, strict=True)}

    def _range(self, address: Any) -> tuple[str, ...]:
        text = address_text(address)
        family, value = parse(text)
        _, _, first, last = piece_of_both(self.base, self.overlay, family, value)
        ends = to_text(family, first), to_text(family, last)
        return *ends, network_around(text, *ends)


@dataclass(frozen=True, slots=True)
class Found:
    """Where the addresses of ``column`` were found, an item a row of each array; None if its kind was not asked for.

    ``slots`` are those of places, ``records`` the numbers of their records, ``networks`` of the records of networks.
    """

    column: Any
    slots: Slots | None
    records: Slots | None
    networks: Slots | None

    @property
    def anywhere(self) -> Slots:
        """One of the arrays: all of them say of the same rows that they are malformed or absent."""
        return next(each for each in (self.slots, self.records, self.networks) if each is not None)

    def nowhere(self) -> int:
        """The number of rows whose address is not covered by anything that was asked for."""
        is_empty = np.ones(len(self.column), np.bool_)
        for each in (self.slots, self.records, self.networks):
            if each is not None:
                is_empty &= each == EMPTY
        return int(np.count_nonzero(is_empty))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answers for a column: an array for each field.

    ``malformed`` are the rows whose address is that; ``not_covered`` counts those whose address nothing covers of what
    was asked for, and ``absent`` nulls.
    """

    arrays: list[Any]
    malformed: NDArray[np.int64]
    not_covered: int
    absent: int


def _string_table(reader: IndexReader, arrays: dict[str, NDArray[Any]]) -> Any:
    offsets, data = arrays["strings.offsets"], arrays["strings.bytes"]
    table = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise IndexDamagedError(f"{reader.path}: the strings are damaged") from error
    for name in TEXT_NAMES:
        ids = arrays[f"loc.{name}"]
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            raise IndexDamagedError(f"{reader.path}: loc.{name} names a text that is not there: the file is damaged")
    return table


def sample_of(batch: Any) -> dict[str, list[Any]]:
    """The first values of each column of text of a record batch, for `Doubt`."""
    found = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_text(column.type):
            some = column.slice(0, ENOUGH_VALUES)
            try:
                some.validate(full=True)  # pyarrow believes offsets, and text may not be UTF-8
            except pa.ArrowInvalid:
                continue
            found[name] = some.to_pylist()
    return found
