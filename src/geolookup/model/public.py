"""Which addresses are public: those that are not set aside for private use, documentation and the like.

By the special-purpose registries of the IANA (RFC 6890), everything that is not globally reachable there; of IPv6 only
2000::/3 is given out for public use. And which blocks cover more of them than a person is likely to mean.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import Final

from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, parse_range
from geolookup.model.types import IPBlock

_SET_ASIDE: Final = {
    4: (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
    ),
    6: (
        *("::/3", "2001::/23", "2001:db8::/32", "3fff::/20"),
        *("4000::/2", "8000::/1"),
    ),
}
#: The most public addresses that one edit covers without a question: those of a /8, and of an IPv6 /24.
_MOST: Final = {4: 1 << 24, 6: 1 << 104}


def _public(version: int) -> tuple[tuple[int, int], ...]:
    found = []
    at = 0
    for network in _SET_ASIDE[version]:
        _, first, last = parse_range(network)
        if first > at:
            found.append((at, first - 1))
        at = last + 1
    most = IPV4_MAX if version == 4 else IPV6_MAX
    return (*found, (at, most)) if at <= most else tuple(found)


#: The inclusive ranges of public addresses of each version, ascending.
PUBLIC: Final = {4: _public(4), 6: _public(6)}
_STARTS: Final = {version: [first for first, _ in ranges] for version, ranges in PUBLIC.items()}


def public_parts(version: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The parts of an inclusive range that are public, ascending."""
    ranges = PUBLIC[version]
    for at in range(max(bisect_right(_STARTS[version], first) - 1, 0), len(ranges)):
        low, high = max(first, ranges[at][0]), min(last, ranges[at][1])
        if ranges[at][0] > last:
            return
        if low <= high:
            yield low, high


def use_of(version: int, value: int) -> tuple[bool, int, int]:
    """Whether an address is public, and the inclusive ends of the range around it of which that is so."""
    ranges = PUBLIC[version]
    at = bisect_right(_STARTS[version], value)
    first = ranges[at - 1][1] + 1 if at else 0
    if value < first:
        return True, *ranges[at - 1]
    last = ranges[at][0] - 1 if at < len(ranges) else (IPV4_MAX if version == 4 else IPV6_MAX)
    return False, first, last


def too_wide(blocks: Collection[IPBlock]) -> str | None:
    """Why a person should be asked before one geolocation gets these blocks, with numbers; None if there is no reason.

    They cover more than a /8 of public space together (IPv6: a /24), or one covers private and public addresses. A
    network of exactly that size is never a reason, nor is private space alone.
    """
    for version in (4, 6):
        mine = sorted(block for block in blocks if block.family == version)
        public = at = 0
        for block in mine:
            first = max(at, block.first)
            public += sum(high - low + 1 for low, high in public_parts(version, first, block.last))
            at = max(at, block.last + 1)
        which = str(mine[0]) if len(mine) == 1 else f"{len(mine)} IPv{version} blocks together"
        if public > _MOST[version]:
            return f"{which} {'covers' if len(mine) == 1 else 'cover'} {_number(version, public)}"
        for block in mine:
            public = sum(high - low + 1 for low, high in public_parts(version, block.first, block.last))
            if 0 < public < block.last - block.first + 1 and not _is_of_most(block):
                return f"{block} covers private addresses and {_number(version, public)}"
    return None


def _is_of_most(block: IPBlock) -> bool:
    size = _MOST[block.family]
    return block.last - block.first + 1 == size and block.first % size == 0


def _number(version: int, public: int) -> str:
    if version == 4:
        share = 100 * public / (1 << 32)
        of = f", {share:.0f} % of IPv4" if share >= 1 else f", {share:.2f} % of IPv4" if share >= 0.01 else ""
        return f"{public:,} public addresses{of}"
    network = f"/{129 - public.bit_length()}"
    return f"as many public addresses as {'more than ' if public & (public - 1) else ''}a {network} of IPv6"
