"""What a typed program does with the library, for type checkers: nothing here runs.

A line that ends in ``# refused`` must be an error of both checkers, and no other line may be one of either.
"""

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, assert_type

import geolookup
from geolookup import Geolocation, GeoLookup, IPBlock, Match, Network, Record


def addresses(geo: GeoLookup, found: str | None, either: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    geo.lookup("8.8.8.8")
    geo.lookup(either)
    geo.match(either)
    geo.network(ipaddress.IPv4Address("8.8.8.8"))
    geo.record(ipaddress.ip_address("2001:db8::1"))
    geo.explain(either)
    geo.lookup(None)  # refused
    geo.lookup(b"8.8.8.8")  # refused
    geo.lookup(0x08080808)  # refused
    geo.lookup(("8.8.8.8",))  # refused
    geo.lookup(found)  # refused
    geo.lookup(ipaddress.ip_network("8.8.8.0/24"))  # refused
    geo.lookup(IPBlock.parse("8.8.8.8"))  # refused
    geo.match(None)  # refused
    geo.match(b"8.8.8.8")  # refused
    geo.match(found)  # refused
    geo.network(None)  # refused
    geo.record(None)  # refused
    geo.record(134744072)  # refused
    geo.explain(found)  # refused


def many(geo: GeoLookup, rows: list[str | None], texts: Iterator[str]) -> None:
    assert_type(geo.lookup_many(texts), list[Geolocation | None])
    assert_type(geo.lookup_many(rows, errors="none"), list[Geolocation | None])
    assert_type(geo.lookup_many([float("nan"), None, "8.8.8.8"], errors="none"), list[Geolocation | None])
    assert_type(geo.lookup_many_integers([134744072], family=4), list[Geolocation | None])
    geo.lookup_many(rows)  # refused
    geo.lookup_many(rows, errors="raise")  # refused
    geo.lookup_many(b"8.8.8.8")  # refused
    geo.lookup_many(texts, errors="ignore")  # refused
    geo.lookup_integer(134744072, family=5)  # refused
    geo.lookup_integer(134744072)  # refused


def answers(geo: GeoLookup) -> None:
    assert_type(geo.lookup("8.8.8.8"), Geolocation | None)
    assert_type(geo.network("8.8.8.8"), Network | None)
    assert_type(geo.record("8.8.8.8"), Record | None)
    match = geo.match("8.8.8.8")
    assert_type(match, Match | None)
    match.country  # refused # noqa: B018
    if match is not None:
        assert_type(match.network, str)
        assert_type(match.first, str)
        assert_type(match.geolocation, Geolocation)
        assert_type(match.latitude, float | None)
        assert_type(match.pending, bool)
        assert_type(match.asn, int | None)
        assert_type(match.time_zone, str | None)
        assert_type(match.is_in_european_union, bool | None)
        assert_type(match.flat(), dict[str, str | int | float | bool | None])
        match.asnn  # refused # noqa: B018
        match.country = "DE"  # refused
    network = geo.network("8.8.8.8")
    if network is not None:
        assert_type(network.network, str)
        assert_type(network.asn, int | None)
        assert_type(network.is_tor_exit_node, bool | None)
        assert_type(network.source_of("asn"), str | None)
    record = geo.record("8.8.8.8")
    if record is not None:
        assert_type(record.find("location.time_zone"), Any)
    for segment in geo.segments(4, "custom"):
        assert_type(segment.first, int)
    geo.segments(5)  # refused
    geo.segments(4, "both")  # refused


def opening(moment: datetime) -> None:
    assert_type(geolookup.open(), GeoLookup)
    geolookup.open(as_of=moment, max_age="36h", stale="refuse", fallback="registry")
    geolookup.open(as_of=datetime.now(UTC).date())
    geolookup.open(stale="refused")  # refused
    geolookup.open(fallback="none")  # refused
    geolookup.open(as_of=1.5)  # refused


def editing(editor: geolookup.Editor) -> None:
    locid = editor.create(
        country="DE",
        region="BE",
        city="Berlin",
        postalcode="",
        latitude=52.5,
        longitude=13.4,
        dmacode="",
        areacode="",
    )
    assert_type(locid, int)
    assert_type(editor.add_block(locid, "10.20.0.0/16"), IPBlock)
    editor.add_block(locid, ipaddress.ip_network("10.21.0.0/16"))
    editor.add_block(locid, ipaddress.ip_address("10.22.0.0"), ipaddress.ip_address("10.22.0.9"))
    editor.add_block(locid, IPBlock.parse("10.23.0.0/16"))
    editor.add_block(locid, None)  # refused
    editor.add_block(locid, b"10.24.0.0")  # refused
    editor.add_block(locid, 168296448, 168296449)  # refused
    editor.add_block(locid, "10.25.0.0", ipaddress.ip_network("10.25.0.0/16"))  # refused
    editor.create(country=49)  # refused
    editor.create(name="Berlin office", blocks=["10.20.0.0/16"], country="DE", city="Berlin")


def aliases(
    address: geolookup.AddressLike, block: geolookup.BlockLike, geo: GeoLookup, editor: geolookup.Editor
) -> None:
    geo.lookup(address)
    editor.add_block(-1, block)
    geolookup.export(geo, "mmdb", "corrected.mmdb", layer="both")
    geolookup.export(geo, "xml", "corrected.xml")  # refused
