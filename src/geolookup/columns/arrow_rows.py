"""The rows of a column as Arrow arrays over what was taken for them, and facts of records as such. Needs pyarrow."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import is_dictionary, pa
from geolookup.columns.facts import FACTS_BY_NAME, FactTable
from geolookup.columns.kernel import ABSENT, EMPTY, OVERLAY, SlotFinder, Slots, SlotValues
from geolookup.index.reader import IndexReader
from geolookup.model.facts import FACTS
from geolookup.model.fields import DEGREES, TEXT_NAMES

__all__ = ["TYPES", "FactColumns", "Rows", "decoded", "plain_type", "room"]

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_FACT_TYPES: Final = {"text": _TEXT, "boolean": pa.bool_(), "uint16": pa.uint16(), "uint32": pa.uint32()}
#: The type of each field in a result. Text is dictionary-encoded; `decoded` makes it plain.
TYPES: Final = {
    "locid": pa.int64(),
    **dict.fromkeys(TEXT_NAMES, _TEXT),
    **dict.fromkeys(DEGREES, pa.float64()),
    "first": pa.string(),
    "last": pa.string(),
    "network": pa.string(),
    "layer": pa.dictionary(pa.int8(), pa.string()),
    "pending": pa.bool_(),
    "source": pa.dictionary(pa.int16(), pa.string()),
    **{fact.name: _FACT_TYPES[fact.kind] for fact in FACTS},
}


class Rows:
    """The rows of one column: their slots, what was taken from those, and which rows each layer covers.

    ``values`` has what was taken, by name, an item a row.
    """

    def __init__(self, slots: Slots, taken: SlotValues, names: Sequence[str]) -> None:
        self.slots = slots
        self.count = len(slots)
        self.taken = taken
        self.values = dict(zip(names, taken.values, strict=True))

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


class FactColumns:
    """The facts of the records of some files, as Arrow arrays: of both layers of places, or of networks.

    ``finder`` searches them by the numbers of their records.
    """

    def __init__(self, finder: SlotFinder, readers: Sequence[IndexReader]) -> None:
        self.finder = finder
        self._readers = readers
        self._tables: dict[str, tuple[FactTable, Any]] = {}

    def table(self, name: str) -> tuple[FactTable, Any]:
        """A fact by the number of the record, read once; and the dictionary of its texts.

        :raises IndexDamagedError: if a file is damaged there
        """
        found = self._tables.get(name)
        if found is None:
            table = FactTable(FACTS_BY_NAME[name], self._readers)
            found = self._tables[name] = table, pa.array(table.texts, pa.string())
        return found

    def rows(self, records: Slots, names: Sequence[str]) -> "Rows":
        """The rows whose ``records`` were found, ready to give these facts."""
        tables = [self.table(name)[0] for name in names]
        own, pairs = list(names), [table.values for table in tables]
        for name, table in zip(names, tables, strict=True):
            if not table.is_whole:
                own.append(_known(name))
                pairs.append(table.known)
        return Rows(records, self.finder.take(records, pairs), own)

    def column(self, name: str, rows: "Rows") -> Any:
        """One of the facts of `rows`, null if the record does not say it."""
        table, texts = self.table(name)
        values = rows.values[name]
        known = None if table.is_whole else rows.values[_known(name)].view(np.bool_)
        if table.fact.kind == "boolean":
            return rows.array(pa.bool_(), np.packbits(values, bitorder="little"), known)
        if table.fact.kind == "text":
            return pa.DictionaryArray.from_arrays(rows.array(pa.int32(), values, known), texts, safe=False)
        return rows.array(TYPES[name], values, known)


def _known(name: str) -> str:
    return f"{name} is known"


def room(length: int, kind: "np.dtype[Any]") -> NDArray[Any]:
    """Memory from Arrow's pool, which keeps what was freed: from the system, each page costs more than to fill it."""
    return np.frombuffer(pa.allocate_buffer(length * kind.itemsize), kind) if length else np.empty(0, kind)


def decoded(array: Any) -> Any:
    """An array without its dictionary, for callers that should not receive the whole string table of the index."""
    return array.dictionary_decode() if is_dictionary(array.type) else array


def plain_type(field: str) -> Any:
    """The type of a field if text is not dictionary-encoded."""
    kind = TYPES[field]
    return kind.value_type if is_dictionary(kind) else kind
