"""Places and networks of several files and of our own in one MaxMind DB, at every boundary, against each file."""

import ipaddress
from pathlib import Path
from typing import Any

import maxminddb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.exports.mmdb.kinds import kind_of
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.oracle.plain_files import FORMS, WIDTH, Plain, publish_all
from tests.support.data.source_files import mmdb
from tests.support.examples import examples


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    return publish_all(tmp_path_factory.mktemp("oracle"))


def exported(state: str, folder: Path, **options: Any) -> maxminddb.Reader:
    path = folder / "out.mmdb"
    with geolookup.open(state) as geo:
        geolookup.export(geo, "mmdb", path, licence_allows=True, **options)
    return maxminddb.open_database(path)


def record_at(reader: maxminddb.Reader, address: Any) -> dict[str, Any]:
    found = reader.get(address)
    assert found is None or isinstance(found, dict)
    return dict(found or {})


def edges(reader: maxminddb.Reader) -> set[Any]:
    """Both ends of each network of a file, and the addresses next to them."""
    found = set()
    for network, _ in reader:
        for value in (int(network[0]) - 1, int(network[0]), int(network[-1]), int(network[-1]) + 1):
            if 0 <= value < 1 << network.max_prefixlen:
                found.add(FORMS[network.version](value))
    return {each for each in found if each.version == 4 or not (each.ipv4_mapped or int(each) >> 32 == 0)}


def test_each_boundary_has_in_one_file_what_the_files_say(plain: Plain, state: str, tmp_path: Path) -> None:
    both = places = networks = custom = 0
    with exported(state, tmp_path, layer="all") as reader:
        for address in sorted({*plain.boundaries(), *edges(reader)}, key=lambda each: (each.version, int(each))):
            record = record_at(reader, address)
            facts, said = plain.network(address)
            ours = record.pop("geolookup", {})
            assert record.pop("traits", {}) == facts, address
            assert ours.pop("sources", {}) == said, address
            place = plain.place(address)
            if isinstance(place, str):
                assert record["country"]["iso_code"] == place, address
                custom += ours["layer"] == "custom"
                assert ours["source"] == ("custom" if ours["layer"] == "custom" else "own"), address
            else:
                assert (record or None) == place, address
                assert ours.get("source") == (None if place is None else "city"), address
            both += bool(facts) and place is not None
            places += place is not None
            networks += bool(facts)
    assert both > 50
    assert min(places, networks) > both
    assert custom > 10


@pytest.mark.parametrize("kind", ["", "GeoLite2-ASN", "GeoIP2-ISP", "GeoIP2-Anonymous-IP"])
def test_each_boundary_has_the_facts_of_a_file_of_networks(kind: str, plain: Plain, state: str, tmp_path: Path) -> None:
    seen = 0
    known = kind_of(kind or "geolookup-Network")
    assert known is not None
    options = {"database_type": kind} if kind else {"layer": "network"}
    with exported(state, tmp_path, **options) as reader:
        assert reader.metadata().database_type == (kind or "geolookup-Network")
        for address in {*plain.boundaries(), *edges(reader)}:
            facts, said = plain.network(address)
            if known.facts is not None:
                facts = {key: value for key, value in facts.items() if key in known.facts}
            record = record_at(reader, address)
            ours = record.pop("geolookup", {})
            assert record == facts, address
            assert ours == ({"sources": {key: said[key] for key in facts}} if facts else {}), address
            seen += bool(facts)
    assert seen > 50


@pytest.mark.parametrize("source", ["own", "asn", "city"])
def test_what_one_source_says_is_that_of_each_address_which_it_answers(
    source: str, plain: Plain, state: str, tmp_path: Path
) -> None:
    seen = 0
    with exported(state, tmp_path, layer="all", source=source) as reader:
        for address in plain.boundaries():
            facts, said = plain.network(address)
            record = record_at(reader, address)
            assert record.get("traits", {}) == {key: value for key, value in facts.items() if said[key] == source}
            assert record.get("geolookup", {}).get("source", source) == source
            seen += bool(record)
    assert seen > 10


def test_the_readers_of_geoip2_know_the_files(state: str, tmp_path: Path) -> None:
    database = pytest.importorskip("geoip2.database")
    address = ipaddress.ip_address("1.128.0.1")
    with exported(state, tmp_path, database_type="GeoLite2-ASN"), database.Reader(tmp_path / "out.mmdb") as reader:
        assert reader.asn(address).autonomous_system_number == 64512
        assert reader.asn(address).autonomous_system_organization == "Ours"
    with (
        exported(state, tmp_path, database_type="GeoIP2-Anonymous-IP"),
        database.Reader(tmp_path / "out.mmdb") as reader,
    ):
        assert reader.anonymous_ip("81.2.69.155").is_anonymous_vpn is True
    with exported(state, tmp_path, layer="all"), database.Reader(tmp_path / "out.mmdb") as reader:
        answer = reader.enterprise("81.2.69.161")
        assert (answer.country.iso_code, answer.traits.autonomous_system_number) == ("DE", (1 << 16) + 10)


_STARTS = ["0.0.0.0", "10.0.0.0", "10.0.0.4", "10.0.0.6", "203.0.113.250"]
_STARTS += ["2001:db8::", "2001:db8::4", "2002::", "2002:a00::", "2002:a00:4::", "2002:a00:6:8000::", "2003::"]
_rows = st.tuples(
    st.sampled_from(_STARTS), st.integers(0, 9), st.sampled_from(["", "DE", "FR"]), st.sampled_from(["", "1", "2"])
)


@given(rows=st.lists(_rows.filter(lambda row: row[2] or row[3]), min_size=1, max_size=5, unique_by=lambda row: row[:2]))
@examples(40)
def test_each_address_of_a_file_of_both_has_the_record_of_a_lookup(
    rows: list[tuple[str, int, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """6to4 addresses among them: a layer without blocks there has what it says of the IPv4 addresses that they hold."""
    folder = tmp_path_factory.mktemp("both")
    lines, asked = ["first,last,country,asn"], set()
    for start, size, country, number in rows:
        first = ipaddress.ip_address(start)
        last = min(
            int(first) + (size << (0 if size % 2 else 77) if ":" in start else size), (1 << first.max_prefixlen) - 1
        )
        lines.append(f"{first},{FORMS[first.version](last)},{country},{number}")
        asked |= {(first.version, int(first) - 1), (first.version, int(first)), (first.version, last + 1)}
    (folder / "own.csv").write_text("\n".join((*lines, "")), encoding="utf-8")
    asked |= {(6, 0x2002 << 112 | at << 80) for version, at in asked if version == 4 and at >= 0}
    home = str(folder / "state")
    pull(StateDirectory(home), Settings(sources=(SourceSettings(name="own", location=str(folder / "own.csv")),)))
    with exported(home, folder, layer="all") as reader, geolookup.open(home) as geo:
        for version, value in asked:
            if 0 <= value < 1 << WIDTH[version] and not (version == 6 and value >> 32 == 0):
                address = FORMS[version](value)
                found, record = geo.record(str(address)), record_at(reader, address)
                record.pop("geolookup", None)
                assert record == ({} if found is None else found.as_dict()), address


def test_a_weak_record_of_6to4_hides_none_of_the_addresses_that_it_holds(tmp_path: Path) -> None:
    """Even if its network begins before them: in an export as in a lookup."""
    weak, strong = {"continent": {"code": "EU"}}, {"country": {"iso_code": "US"}}
    for wide in ("2002::/16", "2000::/3", "2002:808::/32"):
        path = tmp_path / "weak.mmdb"
        path.write_bytes(mmdb({"8.8.0.0/16": strong, wide: weak, "2003::/16": strong}, tmp_path, ipv4_compatible=True))
        home = str(tmp_path / wide.replace("/", "-").replace(":", ""))
        pull(StateDirectory(home), Settings(sources=(SourceSettings(name="own", location=str(path)),)))
        with exported(home, tmp_path, layer="default") as reader, geolookup.open(home) as geo:
            for address in ("8.8.0.1", "2002:808::1", "2002:707::1", "2001:db8::1", "2003::1"):
                found, record = geo.record(address), record_at(reader, address)
                record.pop("geolookup", None)
                assert record == ({} if found is None else found.as_dict()), (wide, address)
            assert reader.get("2002:808::1")["country"] == strong["country"]  # type: ignore[index, call-overload]
