"""The precedence rule as plainly as it can be said: look at every block."""

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Block(NamedTuple):
    """An inclusive range of one family that belongs to a geolocation."""

    locid: int
    family: Literal[4, 6]
    first: int
    last: int


def narrowest_covering(blocks: Iterable[Block], family: int, address: int) -> int | None:
    """The locid that an address has among the blocks of one layer, or None."""
    covering = [block for block in blocks if block.family == family and block.first <= address <= block.last]
    if not covering:
        return None
    return min(covering, key=lambda block: (block.last - block.first, -abs(block.locid))).locid


def winner(custom: Iterable[Block], default: Iterable[Block], family: int, address: int) -> int | None:
    """The locid that an address has where the custom layer lies above the default one, or None."""
    found = narrowest_covering(custom, family, address)
    return narrowest_covering(default, family, address) if found is None else found
