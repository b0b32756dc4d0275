"""Places and networks of several files and of our own, at every boundary, against each file by itself."""

import ipaddress
from typing import Any

import pytest

import geolookup
from geolookup.state.publishing.verify import verify
from tests.oracle.plain_files import FORMS, WIDTH, Plain, publish_all


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = publish_all(tmp_path_factory.mktemp("oracle"))
    assert verify(home) == []
    return home


def test_each_boundary_has_the_facts_and_the_place_that_the_files_say(plain: Plain, state: str) -> None:
    seen = networks = places = merged = 0
    with geolookup.GeoLookup(state) as geo:
        for address in plain.boundaries():
            seen += 1
            facts, said = plain.network(address)
            found = geo.network(str(address))
            assert (
                (facts, said) == ({}, {})
                if found is None
                else (dict(found.facts), dict(found.sources)) == (facts, said)
            ), address
            networks += bool(facts)
            merged += len(set(said.values())) > 1
            place = plain.place(address)
            places += place is not None
            record = geo.record(str(address))
            whole = {} if record is None else record.as_dict()
            assert whole.pop("traits", {}) == facts, address
            if isinstance(place, str):
                assert whole["country"]["iso_code"] == place, address
            else:
                assert (whole or None) == place, address
    assert seen > 5000
    assert min(networks, places, merged) > 50


def test_a_range_is_the_largest_with_the_same_facts_from_the_same_sources(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        for address in plain.boundaries():
            found = geo.network(str(address))
            if found is None:
                continue
            expected = plain.network(address)
            form = FORMS[address.version]
            first, last = int(form(found.first)), int(form(found.last))
            assert first <= int(address) <= last
            for value in (first, last):
                assert plain.network(form(value)) == expected
            for value in (first - 1, last + 1):
                outside = not 0 <= value < 1 << WIDTH[address.version]
                assert outside or plain.network(form(value)) != expected or _is_edge_of_6to4(form(value), address)
            inner = ipaddress.ip_network(found.network)
            assert address in inner
            assert first <= int(inner[0])
            assert int(inner[-1]) <= last


def _is_edge_of_6to4(one: Any, other: Any) -> bool:
    """True if only one of two addresses holds another: then their ranges end between them."""
    return bool(one.version == 6 and (one.sixtofour is None) != (other.sixtofour is None))


def test_an_explanation_names_who_said_each_fact_and_who_said_something_else(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        found = {fact.name: fact for fact in geo.explain("1.128.0.1").facts}
        assert found.keys() == {"asn", "as_organization"}
        assert (found["asn"].value, found["asn"].source, found["asn"].others) == (64512, "own", (("asn", 1221),))
        assert found["as_organization"].others == (("asn", "Telstra Pty Ltd"),)
        zero = {fact.name: fact for fact in geo.explain("1.128.4.1").facts}
        assert (zero["asn"].source, zero["asn"].others) == ("asn", ())
        assert (zero["is_anonymous_vpn"].value, zero["is_anonymous_vpn"].source) == (False, "own")
        agreed = {fact.name: fact for fact in geo.explain("81.2.69.155").facts}
        assert agreed["is_anonymous_vpn"].source == "own"
        assert agreed["is_anonymous_vpn"].others == (), "anonymous says the same"
        assert geo.explain("9.9.9.9").facts == ()
        for address in ("1.128.4.1", "81.2.69.160", "2002:180:401::1"):
            facts, said = plain.network(ipaddress.ip_address(address))
            explained = geo.explain(address).facts
            assert sorted((str(fact.value), fact.source) for fact in explained) == sorted(
                (str(value), said[key]) for key, value in facts.items()
            )


def test_custom_edits_change_no_fact_of_a_network(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        match, network = geo.match("214.78.0.5"), geo.network("214.78.0.5")
    assert match is not None
    assert (match.layer, match.geolocation.country) == ("custom", "IT")
    assert network is not None
    assert network.asn == 721
    assert network.last != match.last
