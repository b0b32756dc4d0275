"""Which of many points a bounded sweep tries: spread evenly, and some of each kind."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def spread(items: Sequence[T], count: int) -> list[T]:
    """``count`` of the items, or all: evenly, the first and the last among them."""
    last = len(items) - 1
    if count <= 0 or not items:
        return []
    return [items[number] for number in sorted({round(step * last / max(1, count - 1)) for step in range(count)})]


def each_kind(items: Sequence[T], count: int, kind: Callable[[T], str]) -> list[T]:
    """``count`` of the items, or all: of each kind as many as of the others, or all of it; rare kinds come first."""
    kinds: dict[str, list[T]] = {}
    for item in items:
        kinds.setdefault(kind(item), []).append(item)
    found: list[T] = []
    for done, one in enumerate(sorted(kinds.values(), key=len)):
        share = (count - len(found)) // (len(kinds) - done)
        found += spread(one, min(share, len(one)))
    return found
