"""Telling somebody how many rows of a file were read."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

#: Told how many more rows were read.
OnRows: TypeAlias = Callable[[int], None]

_Row = TypeVar("_Row")
#: Telling takes longer than reading a row.
_AT_ONCE = 1000


def nobody_counts(_more: int) -> None:
    """For whoever does not want to know."""


def counted(rows: Iterable[_Row], on_rows: OnRows) -> Iterator[_Row]:
    """The rows; ``on_rows`` is told of each thousand, and of the rest at the end."""
    waiting = 0
    for row in rows:
        yield row
        waiting += 1
        if waiting == _AT_ONCE:
            on_rows(waiting)
            waiting = 0
    on_rows(waiting)
