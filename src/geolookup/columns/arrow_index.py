"""One snapshot's index files as Arrow arrays: what stands in the slots of a column's addresses. Needs pyarrow."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import is_dictionary, is_text, pa, pc, slots_of, take
from geolookup.columns.common import ENOUGH_VALUES
from geolookup.columns.kernel import ABSENT, BAD, EMPTY, OVERLAY, SlotFinder, Slots, SlotValues
from geolookup.index.reader import IndexReader, piece_of_both
from geolookup.model.addresses import parse, to_text
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import DEGREES, TEXT_NAMES

__all__ = ["TYPES", "ArrowIndex", "Rows", "decoded", "pa", "pc", "plain_type", "sample_of"]

#: The type of each field in a result. Text is dictionary-encoded; `decoded` makes it plain.
TYPES: Final = {
    "locid": pa.int64(),
    **dict.fromkeys(TEXT_NAMES, pa.dictionary(pa.int32(), pa.string())),
    **dict.fromkeys(DEGREES, pa.float64()),
    "first": pa.string(),
    "last": pa.string(),
    "layer": pa.dictionary(pa.int8(), pa.string()),
    "pending": pa.bool_(),
    "source": pa.dictionary(pa.int16(), pa.string()),
}
#: The fields that the file has as they are answered: one item a location.
_STORED: Final = frozenset(("locid", *TEXT_NAMES, *DEGREES))


class ArrowIndex:
    """The default and the custom layer of one snapshot, ready for columns.

    ``texts`` is the dictionary of every text column. It looks into the mapped file without a copy, unless the custom
    layer has texts that the default one lacks: then both were copied into one, once for the snapshot and not for each
    batch, so that every batch of a stream has the same dictionary.

    :raises IndexDamagedError: if the file's strings, or what names them, lead outside it: Arrow trusts both
    """

    def __init__(self, base: IndexReader, overlay: IndexReader) -> None:
        self.base = base
        self.overlay = overlay
        self.finder = SlotFinder(base, overlay, _room)
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

    def slots(self, column: Any, before: int = 0) -> Slots:
        """The slot of each row of an Arrow array: see `slots_of`."""
        return slots_of(self.finder, column, before)

    def rows(self, column: Any, slots: Slots, fields: Sequence[str]) -> "Rows":
        """The rows of a column whose ``slots`` were found, ready to give these fields."""
        own = [name for name in fields if name in _STORED]
        pairs = [(self._arrays[f"loc.{name}"], self._over[f"loc.{name}"]) for name in own]
        return Rows(column, slots, self.finder.take(slots, pairs), own)

    def columns(self, rows: "Rows", fields: Sequence[str]) -> list[Any]:
        """One array for each field, null if no block covers the row's address or the field is unknown."""
        ranges = self._ranges(rows) if "first" in fields or "last" in fields else {}
        return [ranges[name] if name in ranges else self._column(name, rows) for name in fields]

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

    def _ranges(self, rows: "Rows") -> dict[str, Any]:
        # One at a time: the neighbours of both layers decide what a range is. Repeated addresses cost a dict's lookup.
        known: dict[Any, tuple[str, str]] = {}
        firsts: list[str | None] = [None] * rows.count
        lasts: list[str | None] = [None] * rows.count
        covered = np.flatnonzero(rows.slots < ABSENT)
        for row, address in zip(covered.tolist(), take(rows.column, covered).to_pylist(), strict=True):
            found = known.get(address)
            if found is None:
                found = known[address] = self._range(address)
            firsts[row], lasts[row] = found
        return {"first": pa.array(firsts, pa.string()), "last": pa.array(lasts, pa.string())}

    def _range(self, address: str | int) -> tuple[str, str]:
        family, value = parse(address) if isinstance(address, str) else (4, address)
        _, _, first, last = piece_of_both(self.base, self.overlay, family, value)
        return to_text(family, first), to_text(family, last)


class Rows:
    """The rows of one column: their slots, what was taken from those, and which rows each layer covers.

    ``values`` has the stored fields that were asked for, by name, an item a row.
    """

    def __init__(self, column: Any, slots: Slots, taken: SlotValues, names: Sequence[str]) -> None:
        self.column = column
        self.slots = slots
        self.count = len(slots)
        self.taken = taken
        self.values = dict(zip(names, taken.values, strict=True))

    @cached_property
    def malformed(self) -> NDArray[np.int64]:
        """The rows whose address is malformed."""
        return np.flatnonzero(self.slots == BAD) if self.taken.malformed else np.empty(0, np.int64)

    @cached_property
    def base(self) -> NDArray[np.int64]:
        """The rows that the default layer answers."""
        return np.flatnonzero(self.slots < OVERLAY)

    @cached_property
    def over(self) -> NDArray[np.int64]:
        """The rows that the custom layer answers."""
        return np.flatnonzero((self.slots >= OVERLAY) & (self.slots < ABSENT))

    @property
    def base_slots(self) -> Slots:
        """The slots of `base`."""
        return self.slots[self.base]

    @property
    def over_slots(self) -> Slots:
        """The slots of `over`, in that layer."""
        return self.slots[self.over] & np.uint32(~OVERLAY & EMPTY)

    def array(self, kind: Any, values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> Any:
        """An Arrow array over ``values`` itself, null if a row is not covered or not ``known``."""
        validity = None if self.taken.is_whole else self.taken.validity
        if known is not None and not known.all():
            validity = self.taken.validity & np.packbits(known, bitorder="little")
        return pa.Array.from_buffers(
            kind, self.count, [None if validity is None else pa.py_buffer(validity), pa.py_buffer(values)]
        )


def _room(length: int, kind: "np.dtype[Any]") -> NDArray[Any]:
    """Memory from Arrow's pool, which keeps what was freed: from the system, each page costs more than to fill it."""
    return np.frombuffer(pa.allocate_buffer(length * kind.itemsize), kind) if length else np.empty(0, kind)


def decoded(array: Any) -> Any:
    """An array without its dictionary, for callers that should not receive the whole string table of the index."""
    return array.dictionary_decode() if is_dictionary(array.type) else array


def plain_type(field: str) -> Any:
    """The type of a field if text is not dictionary-encoded."""
    kind = TYPES[field]
    return kind.value_type if is_dictionary(kind) else kind


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
