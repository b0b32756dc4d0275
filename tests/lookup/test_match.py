"""The members of a match that are facts, against the file that they are from, and how long they can be asked."""

import copy
import dataclasses
import ipaddress
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maxminddb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.facts import RecordFacts
from geolookup.lookup.record import Record, made
from geolookup.model.continents import countries
from geolookup.model.errors import StateDamagedError
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.types import MATCH_FACTS, Match, geolocation_of
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.index.building import build
from tests.oracle.linear_scan import Block
from tests.support.data.states import place, publish

DATA = Path(__file__).parent.parent / "data" / "mmdb"
CITY, ASN = DATA / "GeoIP2-City-Test.mmdb", DATA / "GeoLite2-ASN-Test.mmdb"
LONDON = "81.2.69.160"

pytestmark = pytest.mark.usefixtures("reader")


def sync(home: str, *paths: Path) -> None:
    sources = tuple(SourceSettings(name=path.stem.lower(), location=os.fspath(path)) for path in paths)
    pull(StateDirectory(home), Settings(sources=sources, attempts=1))


@pytest.fixture
def city(home: str) -> Iterator[GeoLookup]:
    sync(home, CITY)
    with geolookup.open(home) as opened:
        yield opened


def facts(match: Match) -> dict[str, Any]:
    return {name: getattr(match, name) for name in MATCH_FACTS}


def test_facts_are_those_of_the_file_and_what_it_leaves_out_follows_from_the_country(city: GeoLookup) -> None:
    asked = dict.fromkeys((name for name in PLACE_FACTS if name not in ("site", "vrf")), 0)  # which our own layers say
    with maxminddb.open_database(str(CITY), maxminddb.MODE_MEMORY) as reader:
        for network, tree in reader:
            match = city.match(str(network[0]))
            if match is None:
                continue
            assert isinstance(tree, dict)
            record = Record.made(tree)
            found, country = facts(match), countries()[match.country]
            said = {name: record.find(fact.path) for name, fact in PLACE_FACTS.items()}
            for name in asked:
                asked[name] += said[name] is not None
            follows = {"is_in_european_union": country.in_eu, "country_name": country.name}
            follows["continent_code"] = country.continent
            assert found == {
                **dict.fromkeys(MATCH_FACTS),
                **follows,
                **{k: v for k, v in said.items() if v is not None},
            }
            assert type(found["accuracy_radius"]) in (int, type(None))
            assert type(found["is_in_european_union"]) is bool
    assert min(asked.values()) > 10, asked


def test_the_network_of_a_match_is_the_largest_one_inside_its_range(geo: GeoLookup) -> None:
    for match, network in (
        (geo.match("8.0.0.1"), "8.0.0.0/13"),
        (geo.match("8.8.9.1"), "8.8.0.0/16"),
        (geo.match("8.10.0.1"), "8.10.0.0/15"),
        (geo.match("8.8.8.8"), "8.8.0.0/16"),
        (geo.match("2001:db8::1"), "2001:db8::/32"),
        (geo.match(ipaddress.ip_address("8.10.0.1")), "8.10.0.0/15"),
        (geo.match("::ffff:8.10.0.1"), "8.10.0.0/15"),
    ):
        assert match is not None
        assert match.network == network
        whole = ipaddress.ip_network(network)
        assert ipaddress.ip_address(match.first) <= whole[0] <= whole[-1] <= ipaddress.ip_address(match.last)
        wider = whole.supernet()
        assert not ipaddress.ip_address(match.first) <= wider[0] <= wider[-1] <= ipaddress.ip_address(match.last)


def test_who_runs_the_address_is_what_the_file_of_networks_says_with_its_types(home: str, tmp_path: Path) -> None:
    places = tmp_path / "places.csv"
    places.write_text("network,country\n0.0.0.0/0,DE\n::/0,FR\n", encoding="utf-8")
    sync(home, places, ASN)
    asked = 0
    with geolookup.open(home) as geo, maxminddb.open_database(str(ASN), maxminddb.MODE_MEMORY) as reader:
        assert reader.metadata().ip_version == 6
        for network, record in reader:
            assert isinstance(record, dict)
            for address in (network[0], network[-1]):
                match, network_of = geo.match(str(address)), geo.network(str(address))
                assert match is not None
                assert network_of is not None
                asn, of = record.get("autonomous_system_number"), record.get("autonomous_system_organization")
                assert (match.asn, match.as_organization) == (asn, of) == (network_of.asn, network_of.as_organization)
                assert type(match.asn) in (int, type(None))
                copied = pickle.loads(pickle.dumps(match))
                assert (copied, copied.asn, copied.as_organization) == (match, asn, of)
                asked += asn is not None and of is not None
        for address in ("9.9.9.9", "2002:909:909::1", "ffff::"):
            nobody = geo.match(address)
            assert nobody is not None
            assert (nobody.asn, nobody.as_organization, geo.network(address)) == (None, None, None)
        held = geo.match("2002:0180:1::1")  # 1.128.0.1
        assert held is not None
        assert (held.asn, held.country) == (1221, "FR")
    assert (match.asn, held.asn) == (network_of.asn, 1221)  # the index is open: closing the state takes nothing
    assert asked > 300


def test_networks_that_are_gone_before_they_are_asked_for_are_an_error(home: str, tmp_path: Path) -> None:
    places = tmp_path / "places.csv"
    places.write_text("network,country\n0.0.0.0/0,DE\n", encoding="utf-8")
    sync(home, places, ASN)
    with geolookup.open(home) as geo:
        match = geo.match("1.128.0.1")
        assert match is not None
        for name in ("generations", "snapshots"):
            Path(home, name).rename(tmp_path / name)
        with pytest.raises(StateDamagedError, match="is gone"):
            _ = match.asn
        assert (match.country, match.country_name) == ("DE", "Germany")
        for name in ("generations", "snapshots"):
            (tmp_path / name).rename(Path(home, name))
        assert match.asn == 1221


def test_a_match_stays_whole_when_its_state_is_replaced_closed_and_gone(home: str, city: GeoLookup) -> None:
    match = city.match(LONDON)
    assert match is not None
    before = copy.deepcopy(match)
    late = city.match("2.125.160.216")
    assert late is not None
    publish(home, [place(1, "81.0.0.0/8", country="FR")])
    city.look_soon()
    newer = city.match(LONDON)
    assert newer is not None
    assert (newer.country, newer.country_name, newer.time_zone) == ("FR", "France", None)
    city.close()
    for name in sorted(Path(home).rglob("*"), reverse=True):
        if name.is_file():
            name.unlink()
    assert (match, match.network, facts(match)) == (before, before.network, facts(before))
    assert (late.time_zone, late.region_code, late.region_name) == ("Europe/London", "ENG", "England")
    assert pickle.loads(pickle.dumps(late)).region_name == "England"


def test_a_match_that_is_made_by_hand_knows_no_facts_and_is_equal(city: GeoLookup) -> None:
    match = city.match(LONDON)
    assert match is not None
    by_hand = Match(**{field.name: getattr(match, field.name) for field in dataclasses.fields(Match)})
    assert (by_hand, hash(by_hand), by_hand.network) == (match, hash(match), match.network)
    assert facts(by_hand) == dict.fromkeys(MATCH_FACTS)
    assert dataclasses.replace(match, source="else").time_zone is None


TEXTS = st.sampled_from(["", "DE", "de", "US", "Atlantis", "ENG", "England", "B", "é", "ABCD"])


@given(country=TEXTS, region=TEXTS, layer=st.sampled_from(["default", "custom"]))
def test_facts_that_follow_from_the_fields_are_those_of_the_record_that_is_made_of_them(
    country: str, region: str, layer: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    locid = -1 if layer == "custom" else 1
    path = tmp_path_factory.mktemp("plain") / "index"
    build(path, [Block(locid, 4, 0, 1)], layer=layer)
    found = geolocation_of((locid, country, region, "", "", None, None, "", ""))
    record = Record.made(made(found, "city"))
    right = {name: record.find(fact.path) for name, fact in PLACE_FACTS.items()}
    if right["continent_code"] is not None:  # so the country is known, and a record says no false
        right["is_in_european_union"] = right["is_in_european_union"] is True
    with IndexReader.open(path) as reader:
        without_records = RecordFacts(reader, PLACE_FACTS)
        assert {name: without_records.get(name, 0, found) for name in PLACE_FACTS} == right
