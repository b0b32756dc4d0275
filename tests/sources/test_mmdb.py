"""MaxMind DBs: our walk against maxminddb's reader, the shapes of records, and damaged files."""

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import maxminddb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import DataFileError, GeoLookupError, SettingsError
from geolookup.sources.detect import open_source
from geolookup.sources.mmdb_tree import Networks, last_addresses
from geolookup.sources.places import PlaceFields
from tests.support.data.source_files import Block, mmdb, read_all
from tests.support.examples import examples

DATA = Path(__file__).parent.parent / "data" / "mmdb"
WHOLE = ("GeoIP2-City-Test", "GeoIP2-Country-Test", "GeoLite2-City-Test", "GeoLite2-Country-Test")


def place_of(record: Any) -> PlaceFields | None:
    """What a nested record says, written apart from the code under test."""
    subdivision = (record.get("subdivisions") or [{}])[0]
    location = record.get("location", {})
    place = PlaceFields(
        record.get("country", {}).get("iso_code", ""),
        subdivision.get("iso_code", ""),
        record.get("city", {}).get("names", {}).get("en", ""),
        record.get("postal", {}).get("code", ""),
        location.get("latitude"),
        location.get("longitude"),
        str(location.get("metro_code", "")),
    )
    return place if any(place[:4]) else None


def find(blocks: list[Block], address: str) -> PlaceFields | None:
    family, value = addresses.parse(address)
    for first, last, place in blocks:
        low, high = addresses.parse(first), addresses.parse(last)
        if low[0] == family and low[1] <= value <= high[1]:
            return place
    return None


def agrees_with_maxminddb(path: Path) -> int:
    """Compare the first and last address of every network that the reader has; how many there were."""
    blocks, _ = read_all(path)
    seen = 0
    with maxminddb.open_database(str(path), maxminddb.MODE_MEMORY) as reader:
        for network, record in reader:
            for address in (network[0], network[-1]):
                assert find(blocks, str(address)) == place_of(record), (network, record)
                seen += 1
        for first, last, place in blocks:
            for address in (first, last):
                record = reader.get(address)
                assert record is not None
                assert place_of(record) == place
    return seen


@pytest.mark.parametrize("name", WHOLE)
def test_every_network_of_a_real_layout_is_as_the_reader_has_it(name: str) -> None:
    assert agrees_with_maxminddb(DATA / f"{name}.mmdb") > 100


@pytest.mark.parametrize("name", WHOLE)
def test_aliases_of_ipv4_are_not_followed(name: str) -> None:
    blocks, gathered = read_all(DATA / f"{name}.mmdb")
    ranges = sorted(addresses.parse_range(first, last) for first, last, _ in blocks)
    assert all(before[0] != after[0] or before[2] < after[1] for before, after in itertools.pairwise(ranges))
    assert not any(first.startswith(("2002:", "2001::")) for first, _, _ in blocks)
    with maxminddb.open_database(str(DATA / f"{name}.mmdb"), maxminddb.MODE_MEMORY) as reader:
        assert gathered.rows == sum(1 for _ in reader)


_octet = st.sampled_from([0, 1, 127, 128, 255])
_networks4 = st.builds(
    lambda octets, bits: str(_network(4, int.from_bytes(bytes(octets), "big"), bits)),
    st.lists(_octet, min_size=4, max_size=4),
    st.sampled_from([1, 7, 8, 9, 15, 16, 23, 24, 25, 31, 32]),
)
_networks6 = st.builds(
    lambda octets, bits: str(_network(6, int.from_bytes(b"\x20\x01" + bytes(octets), "big"), bits)),
    st.lists(_octet, min_size=14, max_size=14),
    st.sampled_from([16, 17, 32, 47, 48, 63, 64, 65, 96, 127, 128]),
)


def _network(family: int, value: int, bits: int) -> str:
    width = 32 if family == 4 else 128
    return f"{addresses.to_text(family, value >> (width - bits) << (width - bits))}/{bits}"


@examples(40)
@given(
    version=st.sampled_from([4, 6]),
    networks=st.lists(st.tuples(_networks4, st.integers(0, 4)), min_size=1, max_size=12),
    more=st.lists(st.tuples(_networks6, st.integers(0, 4)), max_size=12),
)
def test_any_written_tree_is_read_as_the_reader_has_it(
    tmp_path: Path, version: int, networks: list[tuple[str, int]], more: list[tuple[str, int]]
) -> None:
    records = [
        {"country": {"iso_code": "DE"}},
        {"country": {"iso_code": "DE"}, "traits": {"x": "y"}},  # the same place in another record
        {"country": {"iso_code": "US"}, "location": {"latitude": 1.5, "longitude": -2.25}},
        {"registered_country": {"iso_code": "FR"}},
        {"city": {"names": {"en": "Köln"}}, "country": {"iso_code": "DE"}},
    ]
    chosen = dict(networks + (more if version == 6 else []))
    chosen["9.9.9.9/32"] = 0  # one that says a place
    path = tmp_path / "tree.mmdb"
    path.write_bytes(
        mmdb(
            {network: records[number] for network, number in chosen.items()},
            tmp_path,
            version=version,
            **({"ipv4_compatible": True} if version == 6 else {}),
        )
    )
    agrees_with_maxminddb(path)


def test_a_tree_without_ipv4_below_zero_reads_mapped_addresses_as_ipv4(tmp_path: Path) -> None:
    path = tmp_path / "mapped.mmdb"
    path.write_bytes(mmdb({"::ffff:5.1.0.0/112": {"country": {"iso_code": "DE"}}}, tmp_path))
    blocks, _ = read_all(path)
    assert blocks == [("5.1.0.0", "5.1.255.255", PlaceFields("DE"))]


def test_a_wide_tree_is_walked_in_pieces_in_the_order_of_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = read_all(DATA / "GeoLite2-City-Test.mmdb")
    monkeypatch.setattr("geolookup.sources.mmdb_tree._WIDEST", 8)
    monkeypatch.setattr("geolookup.sources.mmdb_tree._PIECE", 3)
    monkeypatch.setattr("geolookup.sources.mmdb_tree._FAR", 4)
    monkeypatch.setattr("geolookup.sources.mmdb_tree._STEP", 2)
    in_pieces, _ = read_all(DATA / "GeoLite2-City-Test.mmdb")
    assert in_pieces == whole
    numbers = [addresses.parse(first) for first, _, _ in whole]
    assert numbers == sorted(numbers)


@given(st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 128)), min_size=1, max_size=20))
def test_last_addresses_are_those_of_integers(networks: list[tuple[int, int]]) -> None:
    starts = [value >> (128 - bits) << (128 - bits) for value, bits in networks]
    low64 = (1 << 64) - 1
    given_networks = Networks(
        np.array([start >> 64 for start in starts], np.uint64),
        np.array([start & low64 for start in starts], np.uint64),
        np.array([bits for _, bits in networks], np.uint8),
        np.zeros(len(networks), np.uint32),
    )
    hi, lo = last_addresses(given_networks)
    lasts = [int(upper) << 64 | int(lower) for upper, lower in zip(hi, lo, strict=True)]
    assert lasts == [start | ((1 << (128 - bits)) - 1) for start, (_, bits) in zip(starts, networks, strict=True)]


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (
            {
                "city": {"names": {"en": "Köln"}},
                "continent": {"code": "EU"},
                "country": {"iso_code": "DE"},
                "location": {"latitude": 50.5, "longitude": 7.25},
                "subdivisions": [{"names": {"en": "North Rhine-Westphalia"}}],
            },
            PlaceFields("DE", "North Rhine-Westphalia", "Köln", "", 50.5, 7.25),
        ),
        (
            {
                "country": "US",
                "region": "Texas",
                "city": "Austin",
                "lat": "30.25",
                "lng": "-97.75",
                "postal_code": "78701",
            },
            PlaceFields("US", "Texas", "Austin", "78701", 30.25, -97.75),
        ),
        ({"country": "Germany", "country_code": "DE", "asn": "AS1", "continent": "Europe"}, PlaceFields("DE")),
        (
            {
                "country_code": "AU",
                "state1": "Queensland",
                "state2": "",
                "city": "Brisbane",
                "postcode": "4000",
                "latitude": -27.5,
                "longitude": 153.0,
                "timezone": "",
            },
            PlaceFields("AU", "Queensland", "Brisbane", "4000", -27.5, 153.0),
        ),
    ],
    ids=["DB-IP", "IPinfo", "IPinfo Lite", "flat"],
)
def test_the_shapes_of_other_providers_are_understood(tmp_path: Path, record: Any, place: PlaceFields) -> None:
    path = tmp_path / "a.mmdb"
    path.write_bytes(mmdb({"5.1.0.0/16": record}, tmp_path, version=4))
    blocks, _ = read_all(path)
    assert blocks == [("5.1.0.0", "5.1.255.255", place)]


def test_an_unknown_shape_shows_a_record_and_takes_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "a.mmdb"
    path.write_bytes(mmdb({"5.1.0.0/16": {"geo": {"cc": "DE", "towns": ["Köln"]}, "dma": 7}}, tmp_path, version=4))
    with pytest.raises(DataFileError, match=r"'cc': 'DE'.*country\.iso_code.*fields = "):
        read_all(path)
    blocks, _ = read_all(path, fields={"country": "geo.cc", "city": "geo.towns.0", "dmacode": "dma"})
    assert blocks == [("5.1.0.0", "5.1.255.255", PlaceFields("DE", "", "Köln", "", None, None, "7"))]
    with pytest.raises(DataFileError, match="those given in `fields`"):
        read_all(path, fields={"country": "geo.nothing"})
    with pytest.raises(SettingsError, match="unknown field 'town'"):
        read_all(path, fields={"town": "geo.towns.0"})


def test_a_record_with_a_value_that_cannot_be_refuses_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mmdb"
    networks = {"5.1.0.0/16": {"country_code": "DE"}, "5.2.0.0/16": {"country_code": "US", "latitude": 91.5}}
    path.write_bytes(mmdb(networks, tmp_path, version=4))
    with pytest.raises(DataFileError, match="latitude is not between -90 and 90"):
        read_all(path)


def test_a_country_in_words_refuses_the_file_and_says_which_code_was_meant(tmp_path: Path) -> None:
    record = {"country": "Germany", "code": "DE"}
    path = tmp_path / "a.mmdb"
    path.write_bytes(mmdb({"10.0.0.0/8": record}, tmp_path, version=4))
    with pytest.raises(DataFileError, match=r"'Germany' is not a code of two letters: write DE in .*Name others with"):
        read_all(path)
    (block,), _ = read_all(path, fields={"country": "code"})
    assert block[2] == PlaceFields("DE")


def test_the_files_description_is_kept(tmp_path: Path) -> None:
    _, gathered = read_all(DATA / "GeoLite2-City-Test.mmdb")
    assert gathered.about["database_type"] == "GeoLite2-City"
    assert gathered.about["description"].startswith("GeoLite2 City Test Database")


def test_a_file_without_places_and_a_broken_tree_are_refused() -> None:
    for name in ("MaxMind-DB-test-ipv6-28", "MaxMind-DB-test-mixed-24"):
        with pytest.raises(DataFileError, match="say no place"):
            read_all(DATA / f"{name}.mmdb")
    with pytest.raises(DataFileError, match="the file is damaged"):
        read_all(DATA / "MaxMind-DB-test-broken-search-tree-24.mmdb", fields={"city": "ip"})


def test_trees_of_24_and_28_bits_are_walked_as_the_reader_does() -> None:
    for name in ("MaxMind-DB-test-ipv6-28", "MaxMind-DB-test-mixed-24"):
        path = DATA / f"{name}.mmdb"
        blocks, _ = read_all(path, fields={"city": "ip"})
        with maxminddb.open_database(str(path), maxminddb.MODE_MEMORY) as reader:
            for network, record in reader:
                place = find(blocks, str(network[0]))
                assert place is not None
                assert place.city == record["ip"]


def test_a_tree_that_goes_round_in_circles_is_refused(tmp_path: Path) -> None:
    content = bytearray((DATA / "GeoLite2-City-Test.mmdb").read_bytes())
    with maxminddb.open_database(str(DATA / "GeoLite2-City-Test.mmdb"), maxminddb.MODE_MEMORY) as reader:
        nodes, size = reader.metadata().node_count, reader.metadata().record_size // 4
    for target in (0, 1, 5):
        content[: nodes * size] = _node(size, target) * nodes
        path = tmp_path / "circle.mmdb"
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"goes round in circles|too deep|say no place"):
            read_all(path)


def _node(size: int, target: int) -> bytes:
    assert size == 7
    return target.to_bytes(3, "big") + b"\0" + target.to_bytes(3, "big")


@pytest.mark.parametrize("name", ["GeoLite2-City-Test", "MaxMind-DB-test-mixed-24"])
def test_flipped_bytes_end_in_an_error_or_in_what_the_reader_says(tmp_path: Path, name: str) -> None:
    whole = (DATA / f"{name}.mmdb").read_bytes()
    dice = random.Random(name)
    path = tmp_path / "flipped.mmdb"
    fields = {"city": "ip"} if "mixed" in name else None
    refused = read = 0
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2, 8))):
            content[dice.randrange(len(content))] = dice.randrange(256)
        path.write_bytes(content)
        try:
            blocks, _ = read_all(path, kind="mmdb", fields=fields)
        except GeoLookupError:
            refused += 1
            continue
        read += 1
        if fields is not None:
            continue
        with maxminddb.open_database(str(path), maxminddb.MODE_MEMORY) as reader:
            for first, last, place in blocks[:: max(1, len(blocks) // 20)]:
                for address in (first, last):
                    record = reader.get(address)
                    assert isinstance(record, dict)
                    assert place_of(record) == place
    assert refused > 10
    assert read > 10


def test_how_much_there_is_to_do_is_known_before_the_networks_come(tmp_path: Path) -> None:
    whole = (DATA / "GeoLite2-City-Test.mmdb").read_bytes()
    for name in ("a", "b"):
        (tmp_path / f"{name}.mmdb").write_bytes(whole)
    told: list[tuple[int, int | None]] = []
    with open_source(tmp_path) as reading:
        gathered = reading.gathered
        gathered.tell = lambda done, total: told.append((done, total))
        for _ in reading.batches():
            told.append((gathered.decoded + gathered.rows, gathered.expected))
    (total,) = {total for _, total in told}
    assert gathered.rows == 2 * 242
    assert total == gathered.decoded + 2 * 242
    assert told[0] == (1, total)
    assert told[-1][0] == total
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_two_files_of_a_folder_are_one_source(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    four = mmdb({"5.1.0.0/16": {"country_code": "DE"}}, tmp_path, version=4)
    (tmp_path / "in" / "four").write_bytes(four)
    shutil.copy(DATA / "LICENSE-MIT", tmp_path / "in" / "LICENSE")
    six = mmdb({"2001:db8::/32": {"country_code": "DE"}}, tmp_path, version=6)
    (tmp_path / "in" / "six").write_bytes(six)
    with open_source(tmp_path / "in") as reading:
        assert reading.kind == "mmdb"
        assert [len(batch) for batch in reading.batches()] == [1, 1]
        assert list(reading.gathered.places) == [PlaceFields("DE")]
