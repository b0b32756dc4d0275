"""Numbers as what differs from numbers that both sides know: where they differ, and what stands there.

All of it comes in pieces, each of bytes of one kind: the lowest bytes of numbers, the next ones, so that an entropy
coder finds in each piece how often a byte is there, and nothing else. A column that changed in one item of a hundred
takes then hardly more than what it says: a byte for where, and what is new.
"""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Pieces:
    """Reads back what was written in pieces.

    :raises ValueError: if there are fewer bytes than were written
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, dtype: str) -> Array:
        """The numbers that `numbers` wrote."""
        (count,) = self.whole("<u4")
        size = np.dtype(dtype).itemsize
        planes = np.frombuffer(self.bytes(int(count) * size), np.uint8).reshape(size, int(count))
        return np.ascontiguousarray(planes.T).reshape(-1).view(dtype)

    def whole(self, dtype: str) -> Array:
        """One number that was written as it is."""
        return np.frombuffer(self.bytes(np.dtype(dtype).itemsize), dtype)

    def bytes(self, size: int) -> bytes:
        """So many bytes as they were written."""
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise ValueError("a part is too short")
        self._at += size
        return found


def numbers(values: Array) -> list[bytes]:
    """Numbers in pieces, the lowest bytes of all of them first."""
    count = np.array([len(values)], "<u4").tobytes()
    if not len(values):
        return [count]
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1).T
    return [count, *(plane.tobytes() for plane in planes)]


def places(at: Array) -> list[bytes]:
    """Numbers that rise, in pieces: the steps between them."""
    return numbers((np.diff(at, prepend=-1) - 1).astype("<u4"))


def places_again(pieces: Pieces, count: int) -> Array:
    """What `places` wrote; each number is below ``count``.

    :raises ValueError: if one is not
    """
    at = np.cumsum(pieces.numbers("<u4").astype(np.int64) + 1) - 1
    if len(at) and at[-1] >= count:
        raise ValueError("a part leads outside of its column")
    return at


class Known(NamedTuple):
    """The distinct values that a column of the base has, ascending: new ones are most often among them."""

    values: Array

    @classmethod
    def of(cls, column: Array) -> "Known":
        """Those of a column."""
        return cls(np.unique(column))

    def written(self, values: Array) -> list[bytes]:
        """Values in pieces: their numbers among those that are known, and behind them among those that are not."""
        new = np.setdiff1d(values, self.values)
        found = np.searchsorted(self.values, values)
        is_new = np.isin(values, new)
        found[is_new] = len(self.values) + np.searchsorted(new, values[is_new])
        return [*numbers(new), *numbers(found.astype("<u4"))]

    def again(self, pieces: Pieces) -> Array:
        """What `written` wrote."""
        new = pieces.numbers(self.values.dtype.str)
        return np.concatenate((self.values, new))[pieces.numbers("<u4")]


def changes(actual: Array, expected: Array, known: Known | None = None) -> list[bytes]:
    """A column, as what differs from the one that is expected."""
    at = np.flatnonzero(actual != expected)
    values = actual[at]
    return [*places(at), *(numbers(values) if known is None else known.written(values))]


def changed(pieces: Pieces, expected: Array, known: Known | None = None) -> Array:
    """The column that `changes` wrote."""
    found = expected.copy()
    at = places_again(pieces, len(found))
    found[at] = pieces.numbers(found.dtype.str) if known is None else known.again(pieces)
    return found


def order(sequence: Array, rules: "list[Array]") -> list[bytes]:
    """Distinct numbers in an order of their own, as what differs from the best of some orders of the same numbers."""
    steps = [_steps(_inverted(rule)[sequence]) for rule in rules]
    best = min(range(len(rules)), key=lambda number: int(np.count_nonzero(steps[number])))
    return [bytes([best]), *changes(steps[best], np.zeros(len(sequence), "<u4"))]


def order_again(pieces: Pieces, rules: "list[Array]", count: int) -> Array:
    """The order that `order` wrote, of ``count`` numbers."""
    rule = rules[pieces.bytes(1)[0]]
    steps = changed(pieces, np.zeros(count, "<u4"))
    return rule[(np.cumsum(steps.view("<i4").astype(np.int64) + 1) - 1)]


def _steps(ranks: Array) -> Array:
    return (np.diff(ranks.astype(np.int64), prepend=-1) - 1).astype("<i4").view("<u4")


def _inverted(rule: Array) -> Array:
    found = np.zeros(len(rule), np.int64)
    found[rule] = np.arange(len(rule))
    return found
