"""What every address answers, asked one address at a time, and what of that differs between two sides."""

from collections.abc import Callable, Iterable
from typing import Any

#: An answer: the locid and the eight fields, or None where nothing covers.
Answer = tuple[Any, ...] | None


def edges(ends: Iterable[tuple[int, int]], last: int) -> list[tuple[int, int]]:
    """The ranges between the ends of all blocks (inclusive): inside one of them no answer can change."""
    firsts = sorted({0, *(edge for first, end in ends for edge in (first, end + 1) if edge <= last)})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), last], strict=True))


def changes(
    ranges: Iterable[tuple[int, int]],
    before: Callable[[int], Answer],
    after: Callable[[int], Answer],
    country: Callable[[Answer], str | None],
) -> dict[tuple[str | None, str | None], int]:
    """How many addresses of the ranges answer otherwise, by country before and after."""
    found: dict[tuple[str | None, str | None], int] = {}
    for first, last in ranges:
        old, new = before(first), after(first)
        if old != new:
            change = country(old), country(new)
            found[change] = found.get(change, 0) + last - first + 1
    return found
