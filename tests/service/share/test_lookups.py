"""Lookups of a share: the same answers as the library's, and an edit is seen without a restart."""

import httpx

from geolookup.model import flat_not_covered
from tests.support.running_share import RunningShare

ADDRESSES = ("10.20.0.1", "9.0.0.7", "9.1.2.3", "8.8.8.8", "44.10.20.1", "203.0.113.9", "2001:db8::1", "2a00::1")


def test_lookups_answer_as_the_library_does(shared: RunningShare, client: httpx.Client) -> None:
    wanted = [
        found.flat() if (found := shared.geo.match(address)) is not None else flat_not_covered(address)
        for address in ADDRESSES
    ]
    assert [client.get(f"/lookup/{address}").json() for address in ADDRESSES] == wanted
    assert client.post("/lookup", json=ADDRESSES).json() == wanted
    assert client.get("/lookup/nowhere").json()["type"].endswith(":invalid-address")
