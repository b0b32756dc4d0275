"""Lists as a service answers them, made from plain tuples."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.faults.raw_server import answer


def item(locid: int, *ranges: tuple[str, str], country: str = "", **fields: Any) -> dict[str, Any]:
    """One geolocation as the service sends it."""
    return {
        "locid": locid,
        "country": country,
        "region": "",
        "city": f"city {locid}",
        "postalcode": "",
        "latitude": 1.5,
        "longitude": "-2.25",
        "dmacode": "",
        "areacode": "",
        **fields,
        "ipblocks": [{"startip": first, "endip": last} for first, last in ranges],
    }


def many(count: int, *, first: int = 1, country: str = "") -> list[dict[str, Any]]:
    """``count`` default geolocations with one IPv4 and one IPv6 block each, disjoint."""
    return [
        item(
            number,
            (f"10.{number >> 8}.{number & 255}.0", f"10.{number >> 8}.{number & 255}.255"),
            (f"2001:db8:{number:x}::", f"2001:db8:{number:x}:ffff:ffff:ffff:ffff:ffff"),
            country=country,
        )
        for number in range(first, first + count)
    ]


def listed(
    items: Iterable[dict[str, Any]],
    *,
    framing: str = "length",
    count: int | None = None,
    etag: str | None = None,
    headers: Sequence[str] = (),
) -> bytes:
    """A whole answer with the list; ``count`` is declared in ``X-Total-Count``."""
    extra = [*headers]
    if count is not None:
        extra.append(f"X-Total-Count: {count}")
    if etag is not None:
        extra.append(f"ETag: {etag}")
    return answer(json.dumps(list(items)).encode(), framing=framing, headers=extra)
