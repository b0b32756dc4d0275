"""Whole records: what a file says, with its types, against the file itself, in answers and in exports."""

import ipaddress
import json
import os
import pickle
from pathlib import Path
from typing import Any

import maxminddb
import pytest

import geolookup
from geolookup.exports.export import export
from geolookup.index import mmdb
from geolookup.lookup.record import Record
from geolookup.model.errors import InvalidAddressError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull
from tests.support.data import source_files

DATA = Path(__file__).parent.parent / "data" / "mmdb"
FILES = ("GeoIP2-City-Test", "GeoIP2-Country-Test", "GeoLite2-City-Test", "GeoLite2-Country-Test")
BERLIN = {
    "country": {"iso_code": "DE", "names": {"de": "Deutschland", "en": "Germany"}, "geoname_id": 2921044},
    "city": {"names": {"de": "Berlin", "en": "Berlin"}},
    "location": {"latitude": 52.5, "longitude": 13.5, "accuracy_radius": 20, "time_zone": "Europe/Berlin"},
    "a key of nobody": [1, {"x": True}],
}


def sync(home: str, *paths: Path) -> Any:
    sources = tuple(SourceSettings(name=path.stem.lower(), location=os.fspath(path)) for path in paths)
    return pull(StateDirectory(home), Settings(sources=sources, attempts=1))


def written_file(path: Path, networks: list[tuple[str, Any]]) -> Path:
    path.write_bytes(source_files.mmdb(dict(networks), path.parent, version=4))
    return path


def octets_of(path: Path) -> dict[ipaddress.IPv4Network | ipaddress.IPv6Network, dict[str, bytes]]:
    """The members of the record of every network, with their types."""
    content = path.read_bytes()
    with maxminddb.open_database(str(path), maxminddb.MODE_MEMORY) as reader:
        about = reader.metadata()
        begin = about.node_count * about.record_size // 4 + 16
        section = mmdb.Section(content[begin : content.rfind(b"\xab\xcd\xefMaxMind.com")])
        found: dict[Any, dict[str, bytes]] = {}
        at = {json.dumps(section.at(position).plain): position for position in positions(reader, about.node_count)}
        for network, record in reader:
            if isinstance(record, dict) and record:
                members = section.members(at[json.dumps(record)])
                found[network] = {key: value.octets for key, value in members.items()}
    return found


def positions(reader: Any, nodes: int) -> set[int]:
    """Where the records of a file begin."""
    found, left = set(), [0]
    seen = set(left)
    while left:
        node = left.pop()
        for bit in (0, 1):
            value = reader._read_node(node, bit)
            if value > nodes:
                found.add(value - nodes - 16)
            elif value < nodes and value not in seen:
                seen.add(value)
                left.append(value)
    return found


def is_alias(network: Any) -> bool:
    first = network.network_address
    return network.version == 6 and bool(first.sixtofour or first.teredo or first.ipv4_mapped)


@pytest.mark.parametrize("name", FILES)
def test_everything_that_a_file_says_of_a_place_is_answered_and_exported_with_its_type(
    home: str, tmp_path: Path, name: str
) -> None:
    path = DATA / f"{name}.mmdb"
    sync(home, path)
    said = octets_of(path)
    assert len(said) > 200
    with geolookup.open(home) as geo:
        for network, members in said.items():
            record = geo.record(str(network[0]))
            assert record is not None
            assert record.as_dict() == {key: mmdb.plain(value) for key, value in members.items()}, network
        export(geo, "mmdb", tmp_path / "out.mmdb", licence_allows=True)
    exported = octets_of(tmp_path / "out.mmdb")
    with maxminddb.open_database(str(tmp_path / "out.mmdb"), maxminddb.MODE_MEMORY) as reader:
        for network, members in said.items():
            if is_alias(network):
                continue
            found, length = reader.get_with_prefix_len(str(network[0]))
            if members.keys() == {"traits"}:  # it says something of the network alone
                assert found is None
                continue
            whole = ipaddress.ip_network(f"{network[0]}/{length}", strict=False)
            if whole not in exported:  # as the reader walks it, IPv4 stands in a tree of IPv6
                whole = ipaddress.ip_network(f"{network[0]}/{length - 96 if network.version == 4 else length}", False)
            got = exported[whole]
            assert got.pop("geolookup", None) or found
            assert got == {key: value for key, value in members.items() if key != "traits"}, network


def test_a_record_is_read_only_and_found_by_paths_and_pickled(home: str, tmp_path: Path) -> None:
    path = written_file(tmp_path / "berlin.mmdb", [("10.0.0.0/8", BERLIN)])
    sync(home, path)
    with geolookup.open(home) as geo:
        record = geo.record("10.1.2.3")
        assert record is not None
        assert geo.record("11.1.2.3") is None
        with pytest.raises(InvalidAddressError):
            geo.record("10.1.2")
    assert record.as_dict() == BERLIN
    assert record.find("country.names.de") == "Deutschland"
    assert record.find("a key of nobody.1.x") == 1
    assert record.find("location.latitude") == 52.5
    for path_ in ("city.names.fr", "subdivisions.0.iso_code", "location.latitude.x", "a key of nobody.9", ""):
        assert record.find(path_) is None
    with pytest.raises(TypeError):
        record["country"]["iso_code"] = "FR"
    with pytest.raises(TypeError):
        record["city"] = {}  # type: ignore[index]
    again = pickle.loads(pickle.dumps(record))
    assert isinstance(again, Record)
    assert again == record


def test_no_value_of_the_old_place_remains_where_a_correction_answers(home: str, tmp_path: Path) -> None:
    sync(home, written_file(tmp_path / "berlin.mmdb", [("10.0.0.0/8", BERLIN)]))
    with open_editor(home) as editor:
        fields = {
            "country": "FR",
            "region": "IDF",
            "city": "Paris",
            "postalcode": "75001",
            "dmacode": "",
            "areacode": "",
        }
        locid = editor.create(**fields, latitude=48.85, longitude=2.35)  # type: ignore[arg-type]
        editor.add_block(locid, "10.1.0.0/16")
    with geolookup.open(home) as geo:
        corrected, other = geo.record("10.1.2.3"), geo.record("10.2.2.3")
        export(geo, "mmdb", tmp_path / "out.mmdb")
    names = [
        dict(zip(("de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"), row.split("|"), strict=True))
        for row in (
            "Europa|Europe|Europa|Europe|ヨーロッパ|Europa|Европа|欧洲",
            "Frankreich|France|Francia|France|フランス|França|Франция|法国",
        )
    ]
    assert corrected is not None
    assert other is not None
    assert other.as_dict() == BERLIN
    assert corrected.as_dict() == {
        "continent": {"code": "EU", "geoname_id": 6255148, "names": names[0]},
        "country": {"iso_code": "FR", "is_in_european_union": True, "geoname_id": 3017382, "names": names[1]},
        "subdivisions": [{"iso_code": "IDF"}],
        "city": {"names": {"en": "Paris"}},
        "postal": {"code": "75001"},
        "location": {"latitude": 48.85, "longitude": 2.35, "time_zone": "Europe/Paris"},
    }
    with maxminddb.open_database(str(tmp_path / "out.mmdb")) as reader:
        assert reader.get("10.1.2.3") == {
            **corrected.as_dict(),
            "geolookup": {"layer": "custom", "source": "custom", "locid": str(locid)},
        }
    exported = octets_of(tmp_path / "out.mmdb")[ipaddress.IPv4Network("10.1.0.0/16")]
    assert exported["country"].count(mmdb.text("geoname_id") + mmdb.uint32(3017382)) == 1


def test_of_two_sources_the_first_gives_its_whole_record(home: str, tmp_path: Path) -> None:
    small = {"country": {"iso_code": "DE"}, "location": {"time_zone": "Europe/Berlin"}}
    above = written_file(tmp_path / "above.mmdb", [("10.1.0.0/16", small)])
    sync(home, above, written_file(tmp_path / "below.mmdb", [("10.0.0.0/8", BERLIN)]))
    with geolookup.open(home) as geo:
        found = [geo.record(address) for address in ("10.0.0.1", "10.1.0.1", "10.2.0.1")]
    assert [record and record.as_dict() for record in found] == [BERLIN, small, BERLIN]


def test_places_that_differ_in_nothing_of_ours_are_one_place_with_one_range(home: str, tmp_path: Path) -> None:
    wide = {**BERLIN, "location": {**BERLIN["location"], "accuracy_radius": 500}}  # type: ignore[dict-item]
    networks = [("10.0.0.0/24", BERLIN), ("10.0.1.0/24", wide), ("10.0.2.0/24", BERLIN)]
    sync(home, written_file(tmp_path / "berlin.mmdb", networks))
    with geolookup.open(home) as geo:
        matches = [geo.match(f"10.0.{third}.9") for third in range(3)]
        radii = [geo.record(f"10.0.{third}.9") for third in range(3)]
        assert len(list(geo.segments(4))) == 1
    assert {(match.locid, match.first, match.last) for match in matches if match} == {(10**9, "10.0.0.0", "10.0.2.255")}
    assert [record and record.find("location.accuracy_radius") for record in radii] == [20, 500, 20]


def test_a_radius_that_changed_is_published_and_its_place_keeps_its_number(home: str, tmp_path: Path) -> None:
    path = tmp_path / "berlin.mmdb"
    sync(home, written_file(path, [("10.0.0.0/8", BERLIN)]))
    wide = {**BERLIN, "location": {**BERLIN["location"], "accuracy_radius": 500}}  # type: ignore[dict-item]
    with geolookup.open(home) as geo:
        before = geo.match("10.1.1.1")
        sync(home, written_file(path, [("10.0.0.0/8", wide)]))
        geo.look_soon()
        assert geo.match("10.1.1.1") == before
        record = geo.record("10.1.1.1")
    assert record is not None
    assert record.find("location.accuracy_radius") == 500


def test_a_flat_record_is_put_into_the_same_shape_and_the_rest_is_kept(home: str, tmp_path: Path) -> None:
    flat = {
        "country_code": "DE",
        "country": "Germany",
        "state1": "Bayern",
        "state2": "Oberbayern",
        "city": "München",
        "postcode": "80331",
        "latitude": "48.125",
        "longitude": 11.5,
        "timezone": "Europe/Berlin",
        "geoname_id": "2867714",
        "floor": 3,
        "hosting": False,
        "empty": "",
    }
    sync(home, written_file(tmp_path / "flat.mmdb", [("10.0.0.0/8", flat)]))
    with geolookup.open(home) as geo:
        record = geo.record("10.1.1.1")
    assert record is not None
    assert record.as_dict() == {
        "country": {"iso_code": "DE", "names": {"en": "Germany"}},
        "subdivisions": [{"names": {"en": "Bayern"}}, {"names": {"en": "Oberbayern"}}],
        "city": {"names": {"en": "München"}, "geoname_id": "2867714"},
        "postal": {"code": "80331"},
        "location": {"latitude": 48.125, "longitude": 11.5, "time_zone": "Europe/Berlin"},
        "extra": {"floor": 3},
        "traits": {"is_hosting_provider": False},
    }


def test_a_record_that_says_no_place_is_no_answer_and_hides_none(home: str, tmp_path: Path) -> None:
    weak = {"continent": {"code": "EU"}, "location": {"latitude": 50.0, "longitude": 8.0, "accuracy_radius": 1000}}
    france = {"country": {"iso_code": "FR"}}
    above = written_file(tmp_path / "above.mmdb", [("10.0.0.0/8", weak), ("12.0.0.0/8", BERLIN)])
    sync(home, above, written_file(tmp_path / "below.mmdb", [("10.1.0.0/16", france)]))
    with geolookup.open(home) as geo:
        assert geo.lookup("10.2.0.1") is None
        assert geo.match("10.2.0.1") is None
        found = [geo.record(address) for address in ("10.2.0.1", "10.1.0.1", "12.0.0.1", "11.0.0.1")]
        assert [record and record.as_dict() for record in found] == [weak, france, BERLIN, None]
        export(geo, "mmdb", tmp_path / "out.mmdb")
        export(geo, "mmdb", tmp_path / "countries.mmdb", fields="country")
    with maxminddb.open_database(str(tmp_path / "out.mmdb")) as reader:
        assert reader.get("10.2.0.1") == {**weak, "geolookup": {"layer": "default", "source": "above"}}
        assert reader.get("10.1.0.1")["country"] == {"iso_code": "FR"}  # type: ignore[index, call-overload]
    with maxminddb.open_database(str(tmp_path / "countries.mmdb")) as reader:
        without = {key: value for key, value in weak.items() if key != "location"}
        assert reader.get("10.2.0.1") == {**without, "geolookup": {"layer": "default", "source": "above"}}
