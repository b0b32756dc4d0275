"""Blocks in columns, and making them from text, networks and numbers, some ten thousands at a time.

Text of addresses is not parsed in numpy: `inet_pton` in a list comprehension takes less time than reading the CSV
around it, and knows every form.
"""

from _socket import AF_INET, AF_INET6, inet_pton
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from geolookup.index.flatten import U32, U64, Flags
from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError, InvalidRangeError

#: In a column of places: the addresses are known to have no location, which hides what lower sources say.
MASKED = 0xFFFF_FFFF

#: Told the position of a bad row in the lists that were given, and what is wrong with it.
OnBad: TypeAlias = Callable[[int, str], None]

_LOW64 = (1 << 64) - 1
_MAPPED = np.uint64(0xFFFF)
#: The addresses of a /8.
_U32_OF_8 = np.uint32(1 << 24)
_ONES = np.uint64(_LOW64)


class BlocksV4(NamedTuple):
    """IPv4 blocks: ``first`` and ``last`` are inclusive, ``place`` a number in the source's `Places` or `MASKED`."""

    first: U32
    last: U32
    place: U32


class BlocksV6(NamedTuple):
    """IPv6 blocks, whose ends are split in upper and lower 64 bits."""

    first_hi: U64
    first_lo: U64
    last_hi: U64
    last_lo: U64
    place: U32


class Batch(NamedTuple):
    """Blocks of both families, each in the order of their rows: of equal blocks the later wins."""

    v4: BlocksV4
    v6: BlocksV6

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.v4.place) + len(self.v6.place)

    def masks(self) -> int:
        """The number of those that are `MASKED`."""
        return int(np.count_nonzero(self.v4.place == MASKED) + np.count_nonzero(self.v6.place == MASKED))


def _u32(values: Any = ()) -> U32:
    return np.asarray(values, np.uint32)


def _u64(values: Any = ()) -> U64:
    return np.asarray(values, np.uint64)


class NetworkBatch(Batch):
    """Blocks of a source's networks: ``place`` is a number in its `Gathered.networks`."""

    __slots__ = ()


NO_V4 = BlocksV4(_u32(), _u32(), _u32())
NO_V6 = BlocksV6(_u64(), _u64(), _u64(), _u64(), _u32())


def from_ranges(ranges: Sequence[tuple[int, int, int, int]]) -> Batch:
    """From (family, first, last, place), in which nothing is IPv4-mapped."""
    v4 = [block for block in ranges if block[0] == 4]
    v6 = [block for block in ranges if block[0] == 6]
    return Batch(
        BlocksV4(_u32([b[1] for b in v4]), _u32([b[2] for b in v4]), _u32([b[3] for b in v4])),
        BlocksV6(
            _u64([b[1] >> 64 for b in v6]),
            _u64([b[1] & _LOW64 for b in v6]),
            _u64([b[2] >> 64 for b in v6]),
            _u64([b[2] & _LOW64 for b in v6]),
            _u32([b[3] for b in v6]),
        ),
    )


def from_text(firsts: Sequence[str], lasts: Sequence[str], places: U32, on_bad: OnBad) -> Batch:
    """From the ends of inclusive ranges as text: both families, IPv4-mapped addresses are IPv4. Netmasks are bad."""

    def batch(chosen: list[int]) -> Batch:
        low, high = [firsts[row] for row in chosen], [lasts[row] for row in chosen]
        found = _by_family(low, lambda: (_packed(low), _packed(high)), places[chosen])
        if np.any(_end_at_netmasks(found.v4)):
            raise ValueError
        return found

    def one(row: int) -> tuple[int, int, int]:
        return addresses.parse_range(firsts[row], lasts[row])

    return _with_bad_rows(len(firsts), places, batch, one, on_bad)


def from_networks(networks: Sequence[str], places: U32, on_bad: OnBad) -> Batch:
    """From networks (CIDR) or single addresses as text; host bits are bad."""

    def batch(chosen: list[int]) -> Batch:
        parts = [networks[row].partition("/") for row in chosen]
        low = [part[0] for part in parts]
        return _by_family(low, lambda: _network_ends(low, [part[2] for part in parts]), places[chosen])

    def one(row: int) -> tuple[int, int, int]:
        return addresses.parse_range(networks[row])

    return _with_bad_rows(len(networks), places, batch, one, on_bad)


def from_numbers(firsts: Sequence[str], lasts: Sequence[str], places: U32, on_bad: OnBad, *, six: bool) -> Batch:
    """From decimal numbers as text. With ``six`` they are of IPv6, and IPv4 stands among them as ``::ffff:0:0/96``."""
    family, width = (6, 16) if six else (4, 4)

    def batch(chosen: list[int]) -> Batch:
        columns = []
        for texts in (firsts, lasts):
            wanted = [texts[row] for row in chosen]
            if not all(map(str.isdecimal, wanted)) or not "".join(wanted).isascii() or max(map(len, wanted)) > 39:
                raise ValueError
            columns.append(b"".join([int(value).to_bytes(width, "big") for value in wanted]))
        return _from_packed(family, columns[0], columns[1], places[chosen])

    def one(row: int) -> tuple[int, int, int]:
        low, high = (_number(texts[row]) for texts in (firsts, lasts))
        (family_of_low, first), (family_of_high, last) = (
            addresses.from_integer(family, value) for value in (low, high)
        )
        if family_of_low != family_of_high:
            raise InvalidRangeError(f"{low} and {high} are not of one family: a range is IPv4 or IPv6")
        if first > last:
            raise InvalidRangeError(f"{low} is greater than {high}: the first address of a range comes first")
        return family_of_low, first, last

    return _with_bad_rows(len(firsts), places, batch, one, on_bad)


def _number(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) <= 39):
        raise InvalidRangeError(f"{text!r:.60} is not the decimal number of an address")
    return int(text)


def _with_bad_rows(
    count: int,
    places: U32,
    batch: Callable[[list[int]], Batch],
    one: Callable[[int], tuple[int, int, int]],
    on_bad: OnBad,
) -> Batch:
    """All rows at once; if that fails, row by row, so that a bad row costs only itself."""
    if not count:
        return Batch(NO_V4, NO_V6)
    try:
        if _STRICT_C_PARSER:
            return batch(list(range(count)))
    except (ValueError, OverflowError, OSError):
        pass
    good = []
    for row in range(count):
        try:
            good.append((*one(row), int(places[row])))
        except (InvalidAddressError, InvalidRangeError) as error:
            on_bad(row, str(error))
    return from_ranges(good)


def _by_family(low: list[str], ends: Callable[[], tuple[bytes, bytes]], places: U32) -> Batch:
    """:raises ValueError: if the rows are of two families, or one is bad: then they are read one by one"""
    colons = sum(":" in text for text in low)
    if colons not in (0, len(low)):
        raise ValueError
    first, last = ends()
    return _from_packed(6 if colons else 4, first, last, places)


def _end_at_netmasks(blocks: BlocksV4) -> Flags:
    """`addresses.is_netmask` of the last addresses, but for blocks of one address."""
    host = ~blocks.last
    few: Flags = (host < _U32_OF_8) & (host > 0) & (blocks.first != blocks.last)
    few &= (host & (host + np.uint32(1))) == 0
    return few


def _packed(texts: list[str]) -> bytes:
    family = AF_INET6 if ":" in texts[0] else AF_INET
    return b"".join([inet_pton(family, text) for text in texts])


def _network_ends(low: list[str], lengths: list[str]) -> tuple[bytes, bytes]:
    packed = _packed(low)
    width = 128 if ":" in low[0] else 32
    plain = str(width)
    if not all(length.isdecimal() and length.isascii() and len(length) <= 3 for length in set(lengths) - {""}):
        raise ValueError
    known = {length: int(length or plain) for length in set(lengths)}
    if max(known.values()) > width:
        raise ValueError
    host = {length: ((1 << (width - bits)) - 1).to_bytes(width // 8, "big") for length, bits in known.items()}
    mask = np.frombuffer(b"".join([host[length] for length in lengths]), np.uint8)
    first = np.frombuffer(packed, np.uint8)
    if np.any(first & mask):
        raise ValueError
    return packed, (first | mask).tobytes()


def _from_packed(family: int, first: bytes, last: bytes, places: U32) -> Batch:
    if family == 4:
        low, high = (np.frombuffer(ends, ">u4").astype(np.uint32) for ends in (first, last))
        if np.any(low > high):
            raise ValueError
        return Batch(BlocksV4(low, high, places), NO_V6)
    ends = [np.frombuffer(packed, ">u8").astype(np.uint64).reshape(-1, 2) for packed in (first, last)]
    columns = [np.ascontiguousarray(pair[:, half]) for pair in ends for half in (0, 1)]
    first_hi, first_lo, last_hi, last_lo = columns
    if np.any((first_hi > last_hi) | ((first_hi == last_hi) & (first_lo > last_lo))):
        raise ValueError
    return split_mapped(BlocksV6(first_hi, first_lo, last_hi, last_lo, places))


def split_mapped(blocks: BlocksV6) -> Batch:
    """IPv6 blocks, of which those inside ``::ffff:0:0/96`` become IPv4.

    :raises ValueError: if only one end of a block is IPv4-mapped
    """
    mapped = _is_mapped(blocks.first_hi, blocks.first_lo)
    mapped_last = _is_mapped(blocks.last_hi, blocks.last_lo)
    if np.any(mapped != mapped_last):
        raise ValueError
    if not mapped.any():
        return Batch(NO_V4, blocks)
    low, high = (column[mapped].astype(np.uint32) for column in (blocks.first_lo, blocks.last_lo))
    rest = ~mapped
    return Batch(BlocksV4(low, high, blocks.place[mapped]), BlocksV6._make(column[rest] for column in blocks))


def _is_mapped(hi: U64, lo: U64) -> Flags:
    mapped: Flags = (hi == 0) & (lo >> np.uint64(32) == _MAPPED)
    return mapped


# If the parser of C reads what `addresses` refuses, each row is read by itself.
_STRICT_C_PARSER = addresses.c_parser_is_strict()
