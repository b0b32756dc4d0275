"""The reader for maxminddb on states, beside maxminddb's own on the files, and beside `GeoLookup.record`."""

import os
from pathlib import Path
from typing import Any

import maxminddb
import pytest

import geolookup
from geolookup.compat.maxminddb import open_database
from tests.compat.suites import DATABASES, synced
from tests.compat.test_geoip2 import KINDS, edges, file_of, sync


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_has_the_networks_and_records_of_its_file(kind: str, tmp_path: Path) -> None:
    synced(file_of(kind), tmp_path / "state")
    with open_database(tmp_path / "state") as ours, maxminddb.open_database(file_of(kind)) as theirs:
        wanted = [(network, record) for network, record in theirs if record]
        assert len(wanted) > 5
        assert list(ours) == wanted
        for address in edges(file_of(kind)):
            record, length = theirs.get_with_prefix_len(address)
            if record:
                assert ours.get_with_prefix_len(address) == (record, length), address


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Cities, AS numbers, a table that says our fields alone, and an own place."""
    (tmp_path / "own.csv").write_text("network,country,city\n192.0.2.0/24,DE,Bonn\n2002:c633:6400::/40,FR,Paris\n")
    city, asn = (os.fspath(file_of(kind)) for kind in ("GeoIP2-City-Test", "GeoLite2-ASN-Test"))
    sync(tmp_path / "state", ("own", os.fspath(tmp_path / "own.csv")), ("city", city), ("asn", asn))
    with geolookup.open_editor(tmp_path / "state") as editor:
        texts = dict.fromkeys(("region", "postalcode", "dmacode", "areacode"), "")
        locid = editor.create(country="AT", city="Wien", latitude=48.2, longitude=16.4, **texts)  # type: ignore[typeddict-item]
        editor.add_block(locid, "89.160.20.113", "89.160.20.114")
        editor.add_block(locid, "10.0.0.0/8")
    return tmp_path / "state"


def test_every_record_is_that_of_a_lookup(mixed: Path) -> None:
    asked = [*edges(file_of("GeoIP2-City-Test")), *edges(file_of("GeoLite2-ASN-Test"))]
    asked += ["192.0.2.1", "10.1.2.3", "89.160.20.112", "89.160.20.113", "2002:c633:6401::", "2002:5102:45a0::", "::1"]
    found = 0
    with open_database(mixed) as reader, geolookup.open(mixed) as geo:
        for address in map(str, asked):
            if address.startswith("::") and address != "::1":
                continue  # in ::/96, where MaxMind DBs have IPv4
            record = geo.record(address)
            assert reader.get(address) == (None if record is None else record.as_dict()), address
            found += record is not None
    assert found > 100


def test_the_networks_of_a_state_cover_what_lookups_answer_and_nothing_else(mixed: Path) -> None:
    with open_database(mixed) as reader, geolookup.open(mixed) as geo:
        before: Any = None
        for network, record in reader:
            for address in (str(network[0]), str(network[-1])):
                found = geo.record(address)
                assert found is not None
                assert found.as_dict() == record, network
            assert before is None or before.version < network.version or before[-1] < network[0]
            before = network


def test_an_ipv4_address_is_found_in_the_first_96_bits_unless_a_block_is_there(mixed: Path) -> None:
    with open_database(mixed) as reader:
        assert reader.get("::192.0.2.1")["city"]["names"]["en"] == "Bonn"
        assert reader.get_with_prefix_len("::192.0.2.1")[1] == 120
        assert reader.get("::198.51.100.1") is None
        assert reader.get("2002:c633:6401::")["country"]["iso_code"] == "FR"


def test_records_are_the_callers_own(mixed: Path) -> None:
    with open_database(mixed) as reader:
        for address in ("89.160.20.112", "10.1.2.3", "192.0.2.1"):
            record, again = reader.get(address), reader.get(address)
            record["country"]["names"]["en"] = record["traits"] = "changed"
            assert reader.get(address) == again


def test_records_of_networks_have_their_facts_at_the_top_until_there_are_places(tmp_path: Path) -> None:
    synced(DATABASES / "GeoLite2-ASN-Test.mmdb", tmp_path)
    with open_database(tmp_path) as reader:
        assert reader.get("1.128.0.0")["autonomous_system_number"] == 1221
        assert reader.get_with_prefix_len("1.128.0.0")[1] == 11
        assert reader.get("10.0.0.1") is None
