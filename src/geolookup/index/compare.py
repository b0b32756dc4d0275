"""What two index files disagree on: how many addresses are in another country, for the report of a sync."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.addresses import IPV4_MAX, IPV6_MAX
from geolookup.errors import IndexDamagedError
from geolookup.index.flatten import I64, U64, span_v6
from geolookup.index.layout import EMPTY, TABLE_LENGTH
from geolookup.index.segments import segments_v4, segments_v6

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: How many segments of both files are compared at a time, where the tables allow.
_CHUNK = 1 << 18


def changed_country_addresses(old: "IndexReader", new: "IndexReader") -> tuple[int, int]:
    """How many IPv4 and how many IPv6 addresses have another country in ``new`` than in ``old``.

    Not covered counts as a country of its own; a geolocation without a country has the country "".

    :raises IndexDamagedError: where a file's segments or locations cannot be followed
    """
    numbers: dict[str, int] = {}
    sides = [(reader, _country_numbers(reader, numbers)) for reader in (old, new)]
    try:
        return _changed(sides, 4), _changed(sides, 6)
    except IndexError as error:
        raise IndexDamagedError(f"{old.path} or {new.path}: a table or slot points outside: {error}") from error


def _country_numbers(reader: "IndexReader", numbers: dict[str, int]) -> I64:
    """The number of each slot's country, the same in both files; the item past the last is for what is not covered."""
    text_ids = reader.arrays()["loc.country"]
    distinct, first_slots, inverse = np.unique(text_ids, return_index=True, return_inverse=True)
    own = np.empty(len(distinct) + 1, np.int64)
    for index, slot in enumerate(first_slots.tolist()):
        own[index] = numbers.setdefault(reader.country(slot), len(numbers))
    own[-1] = -1
    numbered: I64 = own[np.append(inverse, len(distinct))]
    return numbered


def _changed(sides: "list[tuple[IndexReader, I64]]", family: Literal[4, 6]) -> int:
    tables = [reader.arrays()[f"v{family}.table"].astype(np.int64) for reader, _ in sides]
    both = tables[0] + tables[1]
    total = 0
    begin = 0
    while begin < TABLE_LENGTH - 1:
        # At least one value of the upper 16 bits, and as many more as fit a chunk.
        end = max(begin + 1, int(np.searchsorted(both, both[begin] + _CHUNK, side="right")) - 1)
        end = min(end, TABLE_LENGTH - 1)
        total += _changed_between(sides, tables, family, begin, end)
        begin = end
    return total


def _changed_between(
    sides: "list[tuple[IndexReader, I64]]", tables: list[I64], family: Literal[4, 6], begin: int, end: int
) -> int:
    """Changed addresses whose upper 16 bits lie from ``begin`` up to ``end``."""
    his: list[U64] = []
    los: list[U64] = []
    countries: list[I64] = []
    for (reader, country_of), table in zip(sides, tables, strict=True):
        # The segment that reaches in from before comes first; where one begins right here, its length is nothing.
        inside = int(table[begin])
        before = max(inside - 1, 0)
        if family == 4:
            first, slots = segments_v4(reader, before, int(table[end]))
            lo = first[inside - before :].astype(np.uint64)
            hi = np.zeros(len(lo), np.uint64)
        else:
            hi, lo, slots = segments_v6(reader, before, int(table[end]))
            hi, lo = hi[inside - before :], lo[inside - before :]
        slot = np.concatenate([slots[:1], slots[inside - before :]]).astype(np.int64)
        slot[slot == EMPTY] = len(country_of) - 1
        start = begin << (16 if family == 4 else 112)
        his.append(np.concatenate([np.full(1, start >> 64, np.uint64), hi]))
        los.append(np.concatenate([np.full(1, start & (1 << 64) - 1, np.uint64), lo]))
        countries.append(country_of[slot])
    order = np.lexsort((np.concatenate(los), np.concatenate(his)))
    hi, lo = np.concatenate(his)[order], np.concatenate(los)[order]
    from_old = order < len(his[0])
    country = np.concatenate(countries)[order]
    place = np.arange(len(order))
    # Each start carries the country of the newest start of its own side on. Both sides begin at the same address, so
    # the starts that have seen only one of them have no length.
    old_country = country[np.maximum.accumulate(np.where(from_old, place, 0))]
    new_country = country[np.maximum.accumulate(np.where(from_old, 0, place))]
    differs = old_country != new_country
    total = span_v6(hi, lo, differs[:-1])
    if differs[-1]:
        past = min(end << (16 if family == 4 else 112), (IPV4_MAX if family == 4 else IPV6_MAX) + 1)
        total += past - (int(hi[-1]) << 64 | int(lo[-1]))
    return total
