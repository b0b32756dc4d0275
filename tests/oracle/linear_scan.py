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


def range_around(
    custom: Iterable[Block], default: Iterable[Block], family: int, address: int
) -> tuple[int, int, int] | None:
    """The locid that an address has, and the ends of the largest range around it that has this locid throughout."""
    custom, default = list(custom), list(default)
    locid = winner(custom, default, family, address)
    if locid is None:
        return None
    blocks = [block for block in (*custom, *default) if block.family == family]
    # Answers change nowhere but at these addresses, each of which begins something.
    begins = sorted({0, *(block.first for block in blocks), *(block.last + 1 for block in blocks)})
    end = 2 ** (32 if family == 4 else 128)
    pieces = list(zip(begins, [*begins[1:], end], strict=True))
    same = [(first, after) for first, after in pieces if after > first and has(custom, default, family, first, locid)]
    first, after = next((low, high) for low, high in same if low <= address < high)
    while any(high == first for _, high in same):
        first = next(low for low, high in same if high == first)
    while any(low == after for low, _ in same):
        after = next(high for low, high in same if low == after)
    return locid, first, after - 1


def has(custom: Iterable[Block], default: Iterable[Block], family: int, address: int, locid: int) -> bool:
    """Whether an address of the family has this locid; the one behind the last has none."""
    return address < 2 ** (32 if family == 4 else 128) and winner(custom, default, family, address) == locid
