"""Which addresses are public: those that are not set aside for private use, documentation and the like.

By the special-purpose registries of the IANA (RFC 6890), whatever is not globally reachable there; of IPv6 only
2000::/3 is given out for public use.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from geolookup.exports.segments import Segments
from geolookup.index.layout import EMPTY
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, parse_range, to_text

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


def first_private(version: int, segments: Segments) -> str | None:
    """The first address that is covered and not public, as text; None if there is none."""
    at = 0
    for first, last in (*PUBLIC[version], (None, None)):
        most = (IPV4_MAX if version == 4 else IPV6_MAX) if first is None else first - 1
        if at <= most and (found := _first_covered(segments, at, most)) is not None:
            return to_text(4 if version == 4 else 6, found)
        if last is None:
            return None
        at = last + 1
    return None


def _first_covered(segments: Segments, first: int, last: int) -> int | None:
    begin, end = max(segments.position(first + 1) - 1, 0), segments.position(last + 1)
    for at, value in enumerate(segments.value[begin:end].tolist(), begin):
        if value != EMPTY:
            return max(first, segments.start(at))
    return None
