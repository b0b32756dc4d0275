"""Values in columns: the parts of records, each distinct one once, and rows of numbers that are equal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geolookup.index.flatten import I64, Array
from geolookup.index.layout import PART
from geolookup.model.errors import IndexDamagedError

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader


class Parts(NamedTuple):
    """One key of records: its distinct values, as octets of `mmdb`, and which of them each record has, -1 for none."""

    values: list[bytes]
    which: I64


class Column(NamedTuple):
    """A typed fact: its distinct values (None: not known), and which of them each record has."""

    values: list[Any]
    which: I64

    def says_any(self) -> bool:
        """True if one of the records has the fact."""
        return any(self.values[at] is not None for at in np.unique(self.which).tolist())


def column_of(pieces: Sequence[tuple[I64, Sequence[Any]]]) -> Column:
    """One column of several pieces, each with its numbers and what these mean; several may mean the same."""
    known: dict[Any, int] = {}
    columns = [np.empty(0, np.int64)]
    for numbers, values in pieces:
        which = np.array([known.setdefault(value, len(known)) for value in values], np.int64)
        columns.append(which[numbers])
    return Column(list(known), np.concatenate(columns))


def parts_of(recorded: "Sequence[tuple[IndexReader, Array]]") -> dict[str, Parts]:
    """The parts of some records of each file, one file after the other.

    :raises IndexDamagedError: if a file is damaged there
    """
    total = sum(len(numbers) for _, numbers in recorded)
    tables: dict[str, dict[bytes, int]] = {}
    columns: dict[str, I64] = {}
    begin = 0
    for reader, numbers in recorded:
        arrays = reader.arrays()
        for key in reader.record_keys:
            table = tables.setdefault(key, {})
            column = columns.setdefault(key, np.full(total, -1, np.int64))
            used, which = distinct(arrays[PART + key][numbers])
            offsets, octets = arrays["parts.offsets"], arrays["parts.bytes"]
            if len(used) and int(used[-1]) >= len(offsets) - 1:
                raise IndexDamagedError(f"{reader.path}: part.{key} names no part: the file is damaged")
            new = np.full(len(used), -1, np.int64)
            for at, number in enumerate(used.tolist()):
                if number:
                    part = octets[offsets[number] : offsets[number + 1]].tobytes()
                    new[at] = table.setdefault(part, len(table))
            column[begin : begin + len(numbers)] = new[which]
        begin += len(numbers)
    return {key: Parts(list(table), columns[key]) for key, table in tables.items()}


def distinct(values: Array) -> tuple[Array, I64]:
    """The distinct values, ascending, and the position among them of each value."""
    found, which = np.unique(values, return_inverse=True)
    return found, which.reshape(-1)


def distinct_rows(columns: Sequence[Array]) -> tuple[I64, I64]:
    """Where each distinct row stands first, in the order of their values, and which of these each row is."""
    which: I64 = np.zeros(len(columns[0]), np.int64)
    first: I64 = np.zeros(min(1, len(which)), np.int64)
    for column in columns:
        found, at = distinct(column)
        _, first, inverse = np.unique(which * max(len(found), 1) + at, return_index=True, return_inverse=True)
        which = inverse.reshape(-1)
    return first, which


#: Degrees that are not known, as `bits` has them.
NO_DEGREES = int(np.array([np.nan]).view(np.int64)[0])


def bits(degrees: Array) -> I64:
    """Degrees as whole numbers that are equal if the degrees are, or neither is known."""
    same: Array = degrees + 0.0  # which takes the sign from a zero
    same[np.isnan(same)] = np.nan
    return same.view(np.int64)
