"""Which source of a stack answers, as plainly as it can be said: look at every row of every source, in order."""

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """A range of one source, at its place among that source's rows. Locid 0: known to have no location."""

    locid: int
    family: Literal[4, 6]
    first: int
    last: int


class Source(NamedTuple):
    """A source with its rows. Of two equal ones the greater locid wins if it numbers its places; else the later."""

    name: str
    numbered: bool
    rows: list[Row]


def answer(sources: Iterable[Source], family: int, address: int) -> tuple[str, int] | None:
    """The name of the source that answers, and the locid; None if none does, or one says that there is nothing."""
    for source in sources:
        covering = [
            (row.last - row.first, -abs(row.locid) if source.numbered else -place, row.locid)
            for place, row in enumerate(source.rows)
            if row.family == family and row.first <= address <= row.last
        ]
        if covering:
            locid = min(covering)[2]
            return (source.name, locid) if locid else None
    return None
