"""The answers in a routing domain, the plain way: paint the widest blocks first, the sources under all, the VRF on top.

The space is one /16, so that an answer for each of its addresses fits into a list.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

SIZE = 1 << 16


class Painted(NamedTuple):
    """A block of the /16: ``first`` and ``last`` are offsets in it; of equal sizes the greater ``rank`` wins."""

    first: int
    last: int
    rank: int
    city: str


def painted(layers: Sequence[Iterable[Painted]]) -> list[str | None]:
    """The city of each address of the /16; the first of the layers is the one below all others."""
    answers: list[str | None] = [None] * SIZE
    for layer in layers:
        for block in sorted(layer, key=lambda each: (each.first - each.last, each.rank)):
            answers[block.first : block.last + 1] = [block.city] * (block.last - block.first + 1)
    return answers
