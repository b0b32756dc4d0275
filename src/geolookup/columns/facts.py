"""The facts of records as columns: each fact is read once for a file, however many rows ask for it.

`FactTable` has one fact by the number of the record; `FactFinder` asks it about addresses. Neither needs pyarrow.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.kernel import ABSENT, OVERLAY, SlotFinder, Slots
from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader
from geolookup.lookup.fact_columns import by_record
from geolookup.model.errors import IndexDamagedError
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS, Fact

if TYPE_CHECKING:
    from geolookup.lookup.snapshot import Snapshot

_DTYPES: Final = {"text": np.int32, "boolean": np.uint8, "uint16": np.uint16, "uint32": np.uint32}
#: The facts of both layers by their names.
FACTS_BY_NAME: Final = {**PLACE_FACTS, **NETWORK_FACTS}
_RECORD: Final = ~OVERLAY & EMPTY


class FactTable:
    """One fact of all records of a default and a custom layer, or of a file of networks alone.

    ``values`` has an array for each of two files, with an item a record: a number, 1 or 0 for true or false, or the
    number of a text in ``texts``, which the files share. ``known`` has arrays of the same lengths, 1 where the fact is
    known; the other values mean nothing. `is_whole` says that every record has the fact.

    :raises IndexDamagedError: if a file is damaged
    """

    def __init__(self, fact: Fact, readers: Sequence[IndexReader]) -> None:
        self.fact = fact
        self._numbers: dict[Any, int] = {}  # of each distinct value
        found = [self._of(reader) for reader in readers]
        self.texts: list[str] = list(self._numbers) if fact.kind == "text" else []
        # One item more, for the number -1 of what is not known.
        items = np.array([*(range(len(self.texts)) if self.texts else self._numbers), 0], _DTYPES[fact.kind])
        values = [items[numbers] for numbers in found]
        known = [(numbers >= 0).view(np.uint8) for numbers in found]
        self.is_whole = all(each.all() for each in known)
        none: NDArray[Any] = items[:0]
        self.values = values[0], values[1] if values[1:] else none
        self.known = known[0], known[1] if known[1:] else none.view(np.uint8)

    def get(self, layer: int, record: int) -> Any:
        """The fact of one record of a file, as Python has it; None if it is not known."""
        if not self.known[layer][record]:
            return None
        value = self.values[layer][record].item()
        if self.fact.kind == "text":
            return self.texts[value]
        return bool(value) if self.fact.kind == "boolean" else value

    def _of(self, reader: IndexReader) -> NDArray[np.int32]:
        """For each record the number of its value among the distinct ones, -1 if it is not known."""
        numbers, values = by_record(reader, self.fact)
        known = self._numbers
        ids = np.array([-1 if each is None else known.setdefault(each, len(known)) for each in values], np.int32)
        found: NDArray[np.int32] = ids[numbers]
        return found


class FactFinder:
    """One fact of a snapshot for many addresses at once: of their places, or of their networks.

    :raises IndexDamagedError: if a file is damaged
    :raises StateDamagedError: if it is a fact of networks, and their index is gone
    """

    def __init__(self, snapshot: "Snapshot", name: str) -> None:
        """``name`` is one of `facts.FACT_NAMES`."""
        fact = FACTS_BY_NAME[name]
        readers: tuple[IndexReader, ...] = (snapshot.base.reader, snapshot.custom.reader)
        if fact.layer == "network":
            networks = snapshot.networks()
            readers = () if networks is None else (networks.reader,)
        self._asked: tuple[SlotFinder, FactTable] | None = None
        if readers:
            finder = SlotFinder(readers[0], readers[1] if readers[1:] else None, records=True)
            self._asked = finder, FactTable(fact, readers)

    def of(self, tokens: Sequence[bytes]) -> list[Any]:
        """The fact of each address, as text in ASCII: None if nobody says it, or if it is not an address."""
        if self._asked is None:  # no source says who runs addresses
            return [None] * len(tokens)
        finder, table = self._asked
        ends = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)), out=ends[1:])
        records = finder.strings(b"".join(tokens), ends.data, None, 0, len(tokens), large=True)
        # Each record once: many addresses have the same.
        distinct, inverse = np.unique(records, return_inverse=True)
        found = [
            None if record >= ABSENT else table.get(record >> 31, record & _RECORD) for record in distinct.tolist()
        ]
        return [found[at] for at in inverse.tolist()]


def slots_of_records(reader: IndexReader) -> Slots:
    """The slot of each record of a file, `EMPTY` of a weak one.

    :raises IndexDamagedError: if one leads nowhere
    """
    slots = reader.arrays().get("record.slot")
    if slots is None:
        return np.arange(reader.record_count, dtype=np.uint32)
    strong = slots[slots != EMPTY]
    if int(strong.max(initial=0)) >= max(reader.location_count, 1):
        raise IndexDamagedError(f"{reader.path}: record.slot names a location that is not there: the file is damaged")
    found: Slots = slots
    return found
