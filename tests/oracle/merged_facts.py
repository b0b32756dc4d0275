"""What the sources of networks say together, as plainly as it can be said: ask each of its rows, in order."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A range of one source, and its facts by their keys; without any it says nothing."""

    family: int
    first: int
    last: int
    facts: Mapping[str, Any]


def narrowest(rows: Iterable[Row], family: int, address: int) -> Mapping[str, Any]:
    """The facts of the narrowest row that covers an address, of several the later; empty if none does."""
    found: Mapping[str, Any] = {}
    size = None
    for row in rows:
        if row.facts and row.family == family and row.first <= address <= row.last:
            own = row.last - row.first
            if size is None or own <= size:
                found, size = row.facts, own
    return found


def merged(
    sources: Iterable[tuple[str, Iterable[Row]]], family: int, address: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """The facts of an address, and the name of the source that said each: the first one that has it."""
    facts: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, rows in sources:
        for key, value in narrowest(rows, family, address).items():
            if key not in facts:
                facts[key], said[key] = value, name
    return facts, said
