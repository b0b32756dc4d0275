"""The facts of networks: what files say, in which words, and as which values."""

from pathlib import Path
from typing import Any

import maxminddb
import pytest

from geolookup.index import mmdb
from geolookup.model.errors import DataFileError, PullError, SettingsError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.sources import facts
from geolookup.sources.detect import open_source
from geolookup.sources.places import BadFieldError, PlaceFields
from tests.support.data.source_files import Block, in_order, read_all
from tests.support.data.source_files import mmdb as written_mmdb

DATA = Path(__file__).parent.parent / "data" / "mmdb"
FLAT = ("GeoLite2-ASN", "GeoIP2-ISP", "GeoIP2-Anonymous-IP", "GeoIP-Anonymous-Plus", "GeoIP2-Connection-Type")
FLAT += ("GeoIP2-Domain", "GeoIP2-IP-Risk")


def write(folder: Path, text: str) -> Path:
    path = folder / "input"
    path.write_text(text, encoding="utf-8")
    return path


def of_as(number: int, organization: str) -> dict[str, Any]:
    return {"autonomous_system_number": number, "autonomous_system_organization": organization}


def networks(path: Path, **options: Any) -> list[Block]:
    blocks, _ = read_all(path, networks=True, **options)
    return [block for block in blocks if isinstance(block[2], dict)]


def plain(found: dict[str, bytes]) -> dict[str, Any]:
    return {key: mmdb.plain(part) for key, part in found.items()}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("15169", 15169),
        ("AS15169", 15169),
        ("as15169", 15169),
        ("AS 15169", 15169),
        ("ASN15169", 15169),
        ("4200000000", 4200000000),
        ("4294967295", 4294967295),
        ("1.10", 65546),
        ("AS64086.59904", 4200000000),
        ("0.15169", 15169),
        ("0", 0),
        ("AS0", 0),
        ("", 0),
        ("-", 0),
        (" 7 ", 7),
    ],
)
def test_as_numbers_are_read_in_all_their_forms(text: str, number: int) -> None:
    assert facts.as_number(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("4294967296", "the greatest is 4294967295"),
        ("AS", "is not an AS number"),
        ("-7", "is not an AS number"),
        ("AS15169 Google", "is not an AS number"),
        ("1.2.3", "is not an AS number"),
        ("65536.1", "halves have 16 bits"),
        ("1.65536", "halves have 16 bits"),
        ("15169.0", "may be an AS number with a decimal point: write 15169"),
        ("１５", "is not an AS number"),
    ],
)
def test_what_may_not_be_an_as_number_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadFieldError, match=why):
        facts.as_number(text)


def test_every_typed_fact_is_known_by_its_own_name_and_by_geoip2s() -> None:
    for name, fact in NETWORK_FACTS.items():
        key = fact.path.removeprefix("traits.")
        assert facts.key_of(name) == key
        assert facts.key_of(key) == key


def test_no_two_facts_have_a_name_in_common() -> None:
    names = [name for key, fact in facts._FACTS.items() for name in {key, *fact.names}]
    assert len(names) == len(set(names))


def test_what_stands_for_nothing_says_nothing() -> None:
    said = facts.of_texts([("asn", "0"), ("as_name", "Not routed"), ("isp", ""), ("is_vpn", "none"), ("domain", "-")])
    assert said == {}
    assert plain(facts.of_texts([("asn", ""), ("as_name", "Somebody"), ("organization", "None")])) == {
        "autonomous_system_organization": "Somebody",
        "organization": "None",
    }
    assert facts.of_values({"asn": mmdb.Value(0, mmdb.uint32(0)), "user_count": mmdb.Value(0, mmdb.uint32(0))}) == {
        "user_count": mmdb.uint32(0)
    }


def test_flags_are_true_false_or_refused() -> None:
    said = plain(facts.of_texts([("is_vpn", "Yes"), ("is_hosting", "0"), ("tor", "FALSE"), ("is_anycast", "t")]))
    assert said == {
        "is_anonymous_vpn": True,
        "is_hosting_provider": False,
        "is_tor_exit_node": False,
        "is_anycast": True,
    }
    with pytest.raises(BadFieldError, match="is_anonymous_vpn is neither true nor false: 'perhaps'"):
        facts.of_texts([("is_vpn", "perhaps")])


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_file_of_facts_is_kept_whole_with_its_types(name: str) -> None:
    path = DATA / f"{name}-Test.mmdb"
    found = networks(path)
    with maxminddb.open_database(str(path)) as reader:
        known = [(str(network[0]), str(network[-1]), dict(record)) for network, record in reader if record]
    asked = {first: value for first, _, value in known}
    assert asked
    covered = {}
    for first, last, value in found:
        covered[first] = value
        assert first in asked, (first, last)
    # Neighbours of one record are one block: so the block that holds an address is the one before it.
    blocks = in_order(found)
    for first, last, value in known:
        for address in (first, last):
            assert _at(blocks, address) == value
    with open_source(path) as reading:
        assert sum(len(batch) for batch in reading.batches()) == 0, "and no place"


def _at(blocks: list[Block], address: str) -> Any:
    from geolookup.model import addresses

    family, value = addresses.parse(address)
    for first, last, facts_ in blocks:
        low, high = addresses.parse(first), addresses.parse(last)
        if low[0] == family and low[1] <= value <= high[1]:
            return facts_
    return None


def test_the_types_of_values_stay() -> None:
    with open_source(DATA / "GeoIP2-IP-Risk-Test.mmdb") as reading:
        list(reading.batches(networks=True))
        found = reading.gathered.networks
        parts = {key: found.part(key, 1) for key in found.names}
    assert parts["anonymizer_confidence"][0] >> 5 == 5, "a uint16"
    assert parts["ip_risk"][0] >> 5 == 3, "a double"


def test_traits_are_facts_of_the_network_and_the_place_is_without_them() -> None:
    path = DATA / "GeoIP2-Enterprise-Test.mmdb"
    with open_source(path) as reading:
        list(reading.batches(networks=True))
        gathered = reading.gathered
    assert gathered.records is not None
    assert "traits" not in gathered.records.names
    assert {"static_ip_score", "isp", "autonomous_system_number"} <= set(gathered.networks.names)
    assert gathered.blocks
    assert gathered.network_blocks
    kept = {key.key: key.kept_as for key in gathered.keys}
    assert kept["isp"] == "traits.isp"
    assert kept["city"] == "city"
    blocks = networks(path)
    with maxminddb.open_database(str(path)) as reader:
        for network, record in reader:
            assert _at(blocks, str(network[0])) == (record.get("traits") or None)


def test_an_empty_record_is_no_answer() -> None:
    path = DATA / "GeoIP2-Anonymous-IP-Test.mmdb"
    with maxminddb.open_database(str(path)) as reader:
        empty = [str(network[0]) for network, record in reader if not record]
    blocks = networks(path)
    assert empty
    assert all(_at(blocks, address) is None for address in empty)


def test_a_file_of_both_feeds_both_and_says_where_each_key_goes(tmp_path: Path) -> None:
    record = {
        "country": "Germany",
        "country_code": "DE",
        "asn": "AS64512",
        "as_name": "Own",
        "as_domain": "own.de",
    }
    path = tmp_path / "lite.mmdb"
    path.write_bytes(
        written_mmdb({"1.0.0.0/24": record, "1.0.1.0/24": {"country_code": "FR", "asn": ""}}, tmp_path, version=4)
    )
    blocks, gathered = read_all(path, networks=True)
    assert [(block[0], getattr(block[2], "country", block[2])) for block in blocks] == [
        ("1.0.0.0", "DE"),
        ("1.0.1.0", "FR"),
        (
            "1.0.0.0",
            {
                "autonomous_system_number": 64512,
                "autonomous_system_organization": "Own",
                "as_domain": "own.de",
            },
        ),
    ]
    assert {key.key: key.kept_as for key in gathered.keys} == {
        "country_code": "country.iso_code",
        "country": "country.names.en",
        "asn": "traits.autonomous_system_number",
        "as_name": "traits.autonomous_system_organization",
        "as_domain": "traits.as_domain",
    }
    only, gathered = read_all(path, networks=True, layer="place")
    assert all(not isinstance(block[2], dict) for block in only)
    assert {key.key: key.reason for key in gathered.keys if not key.kept_as}.keys() == {"asn", "as_name", "as_domain"}
    only, gathered = read_all(path, networks=True, layer="network")
    assert all(isinstance(block[2], dict) for block in only)
    assert {key.key for key in gathered.keys if not key.kept_as} == {"country", "country_code"}


def test_a_kind_of_file_that_is_not_known_is_refused_whole_or_kept_whole_if_asked_to() -> None:
    path = DATA / "GeoIP2-User-Count-Test.mmdb"
    with pytest.raises(DataFileError, match='layer = "network"'):
        read_all(path)
    blocks = networks(path, layer="network")
    with maxminddb.open_database(str(path)) as reader:
        for network, record in reader:
            assert _at(blocks, str(network[0])) == record


def test_a_file_without_a_fact_cannot_feed_the_network(tmp_path: Path) -> None:
    path = write(tmp_path, "first,last,country\n10.0.0.1,10.0.0.2,DE\n")
    with pytest.raises(PullError, match="not one good row"):
        read_all(path, layer="network")


def test_a_value_that_cannot_be_a_fact_refuses_a_database(tmp_path: Path) -> None:
    path = tmp_path / "bad.mmdb"
    path.write_bytes(written_mmdb({"1.0.0.0/24": {"asn": "Google"}}, tmp_path, version=4))
    with pytest.raises(DataFileError, match="'Google' is not an AS number"):
        read_all(path)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (
            '16777216,16777471,13335,"Cloudflare, Inc."\n',
            (
                "1.0.0.0",
                "1.0.0.255",
                of_as(13335, "Cloudflare, Inc."),
            ),
        ),
        (
            "42540766411282592856903984951653826560,42540766490510755371168322545197776895,7,X\n",
            (
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
                of_as(7, "X"),
            ),
        ),
        (
            '"16777216","16777471","1.0.0.0/24","13335","CloudFlare Inc"\n"16777472","16778239","1.0.1.0/24","-","-"\n',
            (
                "1.0.0.0",
                "1.0.0.255",
                of_as(13335, "CloudFlare Inc"),
            ),
        ),
        (
            "16777216\t16777471\t13335\tUS\tCLOUDFLARENET\n16777472\t16778239\t0\tNone\tNot routed\n",
            (
                "1.0.0.0",
                "1.0.0.255",
                {
                    "autonomous_system_number": 13335,
                    "as_country_code": "US",
                    "autonomous_system_organization": "CLOUDFLARENET",
                },
            ),
        ),
        (
            "network,autonomous_system_number,autonomous_system_organization\n1.0.0.0/24,13335,CLOUDFLARENET\n",
            (
                "1.0.0.0",
                "1.0.0.255",
                of_as(13335, "CLOUDFLARENET"),
            ),
        ),
        (
            '"ip_from","ip_to","cidr","asn","as"\n"16777216","16777471","1.0.0.0/24","13335","CloudFlare, Inc."\n',
            ("1.0.0.0", "1.0.0.255", of_as(13335, "CloudFlare, Inc.")),
        ),
        (
            "network,isp,mobile_country_code,note\n1.0.0.0/24,Somebody,262,as it came\n",
            ("1.0.0.0", "1.0.0.255", {"isp": "Somebody", "mobile_country_code": "262", "note": "as it came"}),
        ),
    ],
    ids=["numbers", "of IPv6", "IP2Location", "iptoasn u32", "GeoLite2 Blocks", "IP2Location, header", "own columns"],
)
def test_tables_of_networks_are_read_in_each_layout(tmp_path: Path, rows: str, found: Block) -> None:
    blocks, gathered = read_all(write(tmp_path, rows), networks=True)
    assert blocks == [found]
    assert gathered.bad == 0
    assert set(gathered.columns_not_read) <= {"ip_from", "ip_to"}, "another form of the range"


def test_columns_of_facts_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "net,number,who,country\n1.0.0.0/24,AS7,We,DE\n")
    blocks, _ = read_all(path, networks=True, fields={"network": "net", "asn": "number", "as_organization": "who"})
    assert blocks[1][2] == of_as(7, "We")
    with pytest.raises(DataFileError, match="these columns are missing: nobody"):
        read_all(path, fields={"network": "net", "asn": "nobody"})
    with pytest.raises(SettingsError, match="unknown field 'asnumbers'"):
        read_all(path, fields={"network": "net", "asnumbers": "number"})


def test_facts_of_an_mmdb_can_be_named_by_their_paths_and_nothing_beside_them_is_lost(tmp_path: Path) -> None:
    fields = {"asn": "as.number", "isp": "who"}
    records = {"1.0.0.0/24": {"as": {"number": 7, "rank": 3}, "who": "We", "more": "x"}}
    (tmp_path / "networks.mmdb").write_bytes(written_mmdb(records, tmp_path, version=4))
    blocks, _ = read_all(tmp_path / "networks.mmdb", networks=True, fields=fields)
    said = {"autonomous_system_number": 7, "isp": "We", "as": {"number": 7, "rank": 3}, "more": "x"}
    assert [block[2] for block in blocks] == [said]
    # Beside a place the other keys are those of the place.
    records = {"1.0.0.0/24": {"cc": "DE", **records["1.0.0.0/24"]}}
    (tmp_path / "both.mmdb").write_bytes(written_mmdb(records, tmp_path, version=4))
    blocks, gathered = read_all(tmp_path / "both.mmdb", networks=True, fields={**fields, "country": "cc"})
    assert blocks[0][2] == PlaceFields("DE")
    assert blocks[1][2] == {key: value for key, value in said.items() if key != "more"}
    assert {each.key for each in gathered.keys} == {"cc", "as", "asn", "isp", "more"}
    with pytest.raises(SettingsError, match=r"unknown field 'asnumber_': the fields are country.*asn"):
        read_all(tmp_path / "both.mmdb", fields={"asnumber_": "as.number"})
    with pytest.raises(DataFileError, match=r"none of its records has as\.nothing, which `fields` name"):
        read_all(tmp_path / "networks.mmdb", networks=True, fields={"asn": "as.nothing"})


def test_coordinates_of_a_row_count_whether_or_not_it_has_facts(tmp_path: Path) -> None:
    rows = "network,latitude,longitude,asn\n10.0.0.0/24,48,11,7\n10.0.1.0/24,48,11,\n10.0.2.0/24,,,7\n"
    blocks, _ = read_all(write(tmp_path, rows), networks=True)
    place = PlaceFields(latitude=48.0, longitude=11.0)
    places = [block for block in blocks if isinstance(block[2], PlaceFields)]
    assert places == [("10.0.0.0", "10.0.0.255", place), ("10.0.1.0", "10.0.1.255", place)]


def test_of_two_names_for_one_fact_the_first_counts_and_the_other_is_named(tmp_path: Path) -> None:
    rows = "network,asn,autonomous_system_number\n192.0.2.0/24,7,8\n192.0.3.0/24,,9\n192.0.4.0/24,7,\n"
    blocks, gathered = read_all(write(tmp_path, rows), networks=True)
    assert [block[2]["autonomous_system_number"] for block in blocks] == [7, 9, 7]
    told = ("autonomous_system_number", "", 1, "asn says this fact, too, and counts")
    kept = [(key.key, key.kept_as, key.records, key.reason) for key in gathered.keys]
    path = "traits.autonomous_system_number"
    assert sorted(kept) == sorted([told, ("asn", path, 2, ""), ("autonomous_system_number", path, 1, "")])
    record = {"asn": 7, "autonomous_system_number": 8}
    (tmp_path / "two.mmdb").write_bytes(written_mmdb({"192.0.2.0/24": record}, tmp_path, version=4))
    blocks, gathered = read_all(tmp_path / "two.mmdb", networks=True)
    assert blocks[0][2] == {"autonomous_system_number": 7}
    assert ("autonomous_system_number", "", 1, told[3]) in [
        (key.key, key.kept_as, key.records, key.reason) for key in gathered.keys
    ]


def test_rows_that_say_different_things_of_one_block_are_bad(tmp_path: Path) -> None:
    rows = "network,asn\n" + "".join(f"10.0.{third}.0/24,{third}\n" for third in range(40))
    _, gathered = read_all(write(tmp_path, rows + "10.0.7.0/24,8\n10.0.9.0/24,9\n"), networks=True)
    assert [row.line for row in gathered.bad_in_order()] == [9, 42]
    assert "with other facts" in gathered.bad_in_order()[0].reason


def test_the_day_of_a_dump_is_that_of_the_routing_table(tmp_path: Path) -> None:
    head = "; IP-ASN32-DAT file\n; Original file : /data/rib.20260105.1200.bz2\n; Converted on  : Tue May 26 2026\n"
    _, gathered = read_all(write(tmp_path, head + "1.0.0.0/24\t13335\n"))
    assert gathered.dated == "2026-01-05"
