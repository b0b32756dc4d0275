"""A fact of all records of one open index file at once, in numpy: each distinct part of them is read once."""

from typing import TYPE_CHECKING, Any

import numpy as np

from geolookup.index.layout import EMPTY, PART
from geolookup.lookup.facts import RecordFacts, follows_from, part_of
from geolookup.model.errors import IndexDamagedError
from geolookup.model.types import geolocation_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolookup.index.reader import IndexReader
    from geolookup.model.facts import Fact


def by_record(reader: "IndexReader", fact: "Fact") -> "tuple[NDArray[np.int64], list[Any]]":
    """A number for each record of a file, and for each number the fact: None if nobody says it.

    Several numbers may have one value.

    :raises IndexDamagedError: if the file is damaged
    """
    arrays, count = reader.arrays(), reader.record_count
    if not count:
        return np.empty(0, np.int64), []
    numbers = arrays.get(PART + part_of(fact, reader), np.zeros(count, np.uint8)).astype(np.int64)
    field = follows_from(fact)
    slots = slots_of(reader)
    if field:
        # Where the record does not say it, it follows from a field of the place; a weak record has none.
        texts = np.append(arrays[f"loc.{field}"].astype(np.int64) + 1, 0)
        numbers = numbers * (int(texts.max()) + 1) + texts[slots]
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    facts = RecordFacts(reader, {fact.name: fact})
    values = []
    for record in first.tolist():
        slot = int(slots[record]) if field else -1
        place = None if slot < 0 else geolocation_of(reader.location(slot))
        values.append(facts.get(fact.name, record, place))
    return which.reshape(-1), values


def slots_of(reader: "IndexReader") -> "NDArray[np.int64]":
    """The slot of each record of a file; -1 of a weak one, and of all in a file of networks.

    :raises IndexDamagedError: if a record names no location
    """
    if not reader.location_count:
        return np.full(reader.record_count, -1, np.int64)
    of_record = reader.arrays().get("record.slot")
    if of_record is None:
        return np.arange(reader.record_count)
    if np.any((of_record >= reader.location_count) & (of_record != EMPTY)):
        raise IndexDamagedError(f"{reader.path}: record.slot names no location: the file is damaged")
    slots = of_record.astype(np.int64)
    slots[of_record == EMPTY] = -1
    return slots
