"""Records of tables: what rows say besides our fields, in GeoIP2's shape, and what `check` says of their columns."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.index.reader import IndexReader
from geolookup.model.errors import GeoLookupError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.current import index_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer, answer

GERMANY = {
    "iso_code": "DE",
    "geoname_id": 2921044,
    "is_in_european_union": True,
    "names": {"en": "Germany", "de": "Deutschland"},
}
LOCATIONS = (
    "geoname_id,locale_code,continent_code,continent_name,country_iso_code,country_name,subdivision_1_iso_code,"
    "subdivision_1_name,subdivision_2_iso_code,subdivision_2_name,city_name,metro_code,time_zone,is_in_european_union\n"
)
BLOCKS = (
    "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id,is_anonymous_proxy,"
    "is_satellite_provider,postal_code,latitude,longitude,accuracy_radius,is_anycast\n"
)


def sync(home: str, path: Path, **source: Any) -> Any:
    report = pull(StateDirectory(home), Settings(sources=(SourceSettings(name="a", location=str(path), **source),)))
    assert not report.rejected
    return report


def records(home: str, *addresses: str) -> list[Any]:
    with geolookup.open(home) as geo:
        return [found and found.as_dict() for found in map(geo.record, addresses)]


def sections(home: str) -> list[str]:
    with IndexReader.open(index_path(home, 1)) as reader:
        return [name for name in reader.arrays() if name.startswith(("part", "record"))]


def kept(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, tuple[str, int, str]]:
    assert run(["check", str(path), "--json", *options]) == 0
    found = json.loads(capsys.readouterr().out)["keys"]
    return {each["key"]: (each["kept_as"], each["records"], each["reason"]) for each in found}


@pytest.fixture
def geolite2(tmp_path: Path) -> Path:
    """A zip of GeoLite2 with two languages, each kind of place, and a block that only says who registered it."""
    english = [
        "6255148,en,EU,Europe,,,,,,,,,,0",
        "2921044,en,EU,Europe,DE,Germany,,,,,,,Europe/Berlin,1",
        "2951839,en,EU,Europe,DE,Germany,BY,Bavaria,,,,,Europe/Berlin,1",
        '2867714,en,EU,Europe,DE,Germany,BY,Bavaria,091,"Upper Bavaria",Munich,,Europe/Berlin,1',
        '6252001,en,NA,"North America",US,"United States",,,,,,,,0',
        '5391959,en,NA,"North America",US,"United States",CA,California,,,"San Francisco",807,America/Los_Angeles,0',
    ]
    german = [
        "2921044,de,EU,Europa,DE,Deutschland,,,,,,,Europe/Berlin,1",
        "2867714,de,EU,Europa,DE,Deutschland,BY,Bayern,091,Oberbayern,München,,Europe/Berlin,1",
    ]
    blocks = [
        "10.0.0.0/24,2867714,2921044,6252001,0,0,80331,48.125,11.5,20,1",
        "10.0.1.0/24,5391959,6252001,,0,0,94105,37.5,-122.5,,",
        "10.0.2.0/24,,2921044,,0,0,,,,,",
        "10.0.3.0/24,6255148,,,0,1,,50,8,1000,",
    ]
    path = tmp_path / "GeoLite2-City-CSV.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("GeoLite2-City-Locations-de.csv", LOCATIONS + "\n".join(german) + "\n")
        archive.writestr("GeoLite2-City-Locations-en.csv", LOCATIONS + "\n".join(english) + "\n")
        archive.writestr("GeoLite2-City-Blocks-IPv4.csv", BLOCKS + "\n".join(blocks) + "\n")
    return path


def test_everything_that_geolite2_says_of_a_place_is_in_its_record(home: str, geolite2: Path) -> None:
    sync(home, geolite2)
    europe = {"code": "EU", "geoname_id": 6255148, "names": {"en": "Europe", "de": "Europa"}}
    america = {"iso_code": "US", "geoname_id": 6252001, "is_in_european_union": False, "names": {"en": "United States"}}
    munich, francisco, registered, continent = records(home, "10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1")
    assert munich == {
        "continent": europe,
        "country": GERMANY,
        "subdivisions": [
            {"iso_code": "BY", "geoname_id": 2951839, "names": {"en": "Bavaria", "de": "Bayern"}},
            {"iso_code": "091", "names": {"en": "Upper Bavaria", "de": "Oberbayern"}},
        ],
        "city": {"geoname_id": 2867714, "names": {"en": "Munich", "de": "München"}},
        "postal": {"code": "80331"},
        "location": {"latitude": 48.125, "longitude": 11.5, "accuracy_radius": 20, "time_zone": "Europe/Berlin"},
        "registered_country": GERMANY,
        "represented_country": america,
        "traits": {"is_anycast": True},
    }
    assert francisco["location"] == {
        "latitude": 37.5,
        "longitude": -122.5,
        "metro_code": 807,
        "time_zone": "America/Los_Angeles",
    }
    assert francisco["country"] == america
    assert registered == {"registered_country": GERMANY}
    assert continent == {
        "continent": {"code": "EU", "geoname_id": 6255148, "names": {"en": "Europe"}},
        "location": {"latitude": 50.0, "longitude": 8.0, "accuracy_radius": 1000},
        "traits": {"is_satellite_provider": True},
    }
    with geolookup.open(home) as geo:
        assert [geo.lookup(f"10.0.{third}.1") is None for third in range(4)] == [False, False, True, True]


def test_check_says_of_each_column_of_geolite2_where_it_is_kept(
    geolite2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = kept(geolite2, capsys)
    assert found["subdivision_2_name"] == ("subdivisions.1.names", 1, "")
    assert found["time_zone"] == ("location.time_zone", 2, "")
    assert found["registered_country_geoname_id"] == ("registered_country", 3, "")
    assert found["accuracy_radius"] == ("location.accuracy_radius", 2, "")
    assert found["is_anycast"] == ("traits.is_anycast", 1, "")
    assert found["is_satellite_provider"] == ("traits.is_satellite_provider", 1, "")
    assert set(LOCATIONS.strip().split(",")) - set(found) == {"locale_code"}


TABLES = {
    "ranges-csv": (
        (
            "network,country,region,city,timezone,accuracy_radius,state_code,geoname_id,shop,asn\n"
            "10.0.0.0/24,de,Bayern,München,Europe/Berlin,20,BY,2867714,Filiale 7,64500\n"
            "10.0.1.0/24,DE,,,,wide,,,,\n"
            "10.0.2.0/24,DE,,,,,,,,64501\n"
        ),
        {
            "continent": {"code": "EU"},
            "country": {"iso_code": "DE"},
            "subdivisions": [{"iso_code": "BY", "names": {"en": "Bayern"}}],
            "city": {"names": {"en": "München"}, "geoname_id": 2867714},
            "location": {"time_zone": "Europe/Berlin", "accuracy_radius": 20},
            "extra": {"shop": "Filiale 7"},
            "traits": {"autonomous_system_number": 64500},
        },
    ),
    "dbip-csv": (
        (
            "10.0.0.0,10.0.0.255,DE,Bavaria,Upper Bavaria,Munich,80331,48.125,11.5,Europe/Berlin\n"
            "10.0.1.0,10.0.1.255,ZZ,,,,,0,0,\n"
        ),
        {
            "continent": {"code": "EU"},
            "country": {"iso_code": "DE"},
            "subdivisions": [{"names": {"en": "Bavaria"}}, {"names": {"en": "Upper Bavaria"}}],
            "city": {"names": {"en": "Munich"}},
            "postal": {"code": "80331"},
            "location": {"latitude": 48.125, "longitude": 11.5, "time_zone": "Europe/Berlin"},
        },
    ),
    "ip2location-csv": (
        (
            '"167772160","167772415","DE","Germany","Bayern","Munchen","48.125","11.5","80331","+01:00"\n'
            '"167772416","167772671","-","-","-","-","0","0","-","-"\n'
        ),
        {
            "continent": {"code": "EU"},
            "country": {"iso_code": "DE", "names": {"en": "Germany"}},
            "subdivisions": [{"names": {"en": "Bayern"}}],
            "city": {"names": {"en": "Munchen"}},
            "postal": {"code": "80331"},
            "location": {"latitude": 48.125, "longitude": 11.5},
            "extra": {"time_zone": "+01:00"},
        },
    ),
}


def within(part: Any, whole: Any) -> bool:
    """True if a record says all that ``part`` says; the names in other languages are our own table's."""
    if isinstance(part, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


@pytest.mark.parametrize("kind", TABLES)
def test_a_row_says_all_that_stands_in_its_columns(home: str, tmp_path: Path, kind: str) -> None:
    text, record = TABLES[kind]
    (path := tmp_path / "table.csv").write_text(text)
    sync(home, path, kind=kind)
    found, other = records(home, "10.0.0.1", "10.0.1.1")
    assert list(found) == list(dict.fromkeys([*found]))
    assert found.keys() == record.keys()  # type: ignore[attr-defined]
    assert within(record, found), found
    if kind == "ranges-csv":
        assert other["extra"] == {"accuracy_radius": "wide"}
    else:
        assert other is None or other.keys() == {"location"}


def test_a_row_that_says_no_more_than_our_fields_costs_no_section(home: str, tmp_path: Path) -> None:
    header = "network,country,region,city,postalcode,latitude,longitude,dmacode,areacode"
    rows = [f"10.0.{third}.0/24,US,CA,City {third},9410{third},37.5,-122.5,807,415" for third in range(9)]
    (path := tmp_path / "table.csv").write_text("\n".join([header, *rows]) + "\n")
    sync(home, path)
    assert sections(home) == []
    assert records(home, "10.0.1.1")[0]["location"]["metro_code"] == 807
    (path := tmp_path / "dbip.csv").write_text("10.0.0.0,10.0.0.255,DE,Bavaria,,Munich,80331,48.125,11.5,\n")
    home += "-2"
    sync(home, path)
    assert sections(home) == []


def test_check_says_of_each_column_where_it_is_kept_and_in_how_many_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "table.csv").write_text(TABLES["ranges-csv"][0])
    found = kept(path, capsys)
    assert found["timezone"] == ("location.time_zone", 1, "")
    assert found["state_code"] == ("subdivisions.0.iso_code", 1, "")
    assert found["region"] == ("subdivisions.0.names.en", 1, "")
    assert found["shop"] == ("extra.shop", 1, "")
    assert found["asn"] == ("traits.autonomous_system_number", 2, "")
    assert found["country"] == ("country.iso_code", 2, "")
    (path := tmp_path / "plain.csv").write_text("network,country,city,zip\n10.0.0.0/24,DE,Ulm,\n10.0.1.0/24,DE,,\n")
    found = kept(path, capsys)
    assert found["country"] == ("country.iso_code", 2, "")
    assert found["city"] == ("city.names.en", 1, "")


def test_the_provider_in_a_table_of_places_is_of_the_network_and_stands_in_no_place(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "table.csv").write_text(
        '"167772160","167772415","DE","Germany","Bayern","Munchen","Own ISP","isp.example"\n'
        '"167772416","167772671","DE","Germany","Bayern","Munchen","Other ISP","-"\n'
        '"167772672","167772927","-","-","-","-","-","-"\n'
    )
    assert kept(path, capsys)["isp"] == ("traits.isp", 2, "")
    reason = 'it is of the network, and the source has `layer = "place"`'
    assert kept(path, capsys, "--layer", "place")["domain"] == ("", 1, reason)
    assert sync(home, path, kind="ip2location-csv").rows["geolocations"] == 1
    found = records(home, "10.0.0.1", "10.0.1.1", "10.0.2.1")
    assert [each and each["traits"] for each in found] == [
        {"isp": "Own ISP", "domain": "isp.example"},
        {"isp": "Other ISP"},
        None,
    ]
    with IndexReader.open(index_path(home, 1)) as reader:
        assert reader.record_count == 1


def test_rows_of_one_block_contradict_each_other_by_place_or_facts_only(home: str, tmp_path: Path) -> None:
    (path := tmp_path / "table.csv").write_text(
        "network,country,shop,asn\n10.0.0.0/24,DE,one,64500\n10.0.0.0/24,de,two,AS64500\n"
        "10.0.1.0/24,DE,one,64500\n10.0.1.0/24,DE,one,64501\n"
    )
    report = pull(StateDirectory(home), Settings(bad_rows=2, sources=(SourceSettings(name="a", location=str(path)),)))
    assert [row["reason"].rpartition(", ")[2] for row in report.rejected] == ["with other facts"] * 2
    first, second = records(home, "10.0.0.1", "10.0.1.1")
    assert (first["extra"], second) == ({"shop": "two"}, None)


@pytest.mark.parametrize(
    ("region", "code", "name"), [("ENG", "ENG", None), ("England", None, "England"), ("91", "91", None)]
)
def test_a_code_and_a_name_of_a_region_are_two_facts_whatever_column_has_them(
    home: str, tmp_path: Path, region: str, code: str | None, name: str | None
) -> None:
    (path := tmp_path / "table.csv").write_text(f"network,country,region,note\n10.0.0.0/24,GB,{region},x\n")
    sync(home, path)
    with geolookup.open(home) as geo:
        record = geo.record("10.0.0.1")
        place = geo.lookup("10.0.0.1")
    assert record is not None
    assert place is not None
    assert (record.find("subdivisions.0.iso_code"), record.find("subdivisions.0.names.en")) == (code, name)
    assert place.region == region


def test_rows_of_one_place_that_say_other_things_do_not_contradict_each_other(home: str, tmp_path: Path) -> None:
    (path := tmp_path / "table.csv").write_text("network,country,note\n10.0.0.0/24,DE,x\n10.0.0.0/24,DE,y\n")
    sync(home, path)
    assert records(home, "10.0.0.1")[0]["extra"] == {"note": "y"}
    path.write_text("network,country,note\n10.0.0.0/24,DE,x\n10.0.0.0/24,AT,x\n")
    with pytest.raises((GeoLookupError, AssertionError)):
        sync(home + "-2", path)


ELEMENTS = [
    {
        "locid": 7,
        "country": "DE",
        "region": "BY",
        "latitude": 48.125,
        "timezone": "Europe/Berlin",
        "accuracy_radius": 20,
        "shops": [1, "x", {"open": True}],
        "population": 5_000_000_000,
        "ipblocks": [{"startip": "10.0.0.0", "endip": "10.0.0.255"}],
    },
    {"locid": 8, "country": "DE", "ipblocks": [{"startip": "10.0.1.0", "endip": "10.0.1.255"}]},
    {"locid": 9, "country": "AT", "note": "without blocks"},
    {"locid": -3, "country": "AT", "note": "custom", "ipblocks": [{"startip": "10.0.2.0", "endip": "10.0.2.255"}]},
]


@pytest.mark.parametrize("kind", ["list", "lines", "service"])
def test_members_of_elements_that_are_no_fields_are_in_their_records(
    home: str, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "service":
        with RawServer(answer(json.dumps(ELEMENTS).encode())) as server:
            pull(StateDirectory(home), Settings(url=server.url, attempts=1))
    else:
        path = tmp_path / "list.json"
        text = json.dumps(ELEMENTS) if kind == "list" else "\n".join(map(json.dumps, ELEMENTS)) + "\n"
        path.write_text(text)
        sync(home, path)
        found = kept(path, capsys)
        assert found["timezone"] == ("location.time_zone", 1, "")
        assert found["note"] == ("extra.note", 1, "")
        assert found["country"] == ("country.iso_code", 3, "")
    found, plain, custom = records(home, "10.0.0.1", "10.0.1.1", "10.0.2.1")  # type: ignore[assignment]
    assert found["location"] == {"latitude": 48.125, "time_zone": "Europe/Berlin", "accuracy_radius": 20}
    assert found["extra"] == {"shops": [1, "x", {"open": True}], "population": 5_000_000_000}
    assert within({"country": {"iso_code": "DE"}, "subdivisions": [{"iso_code": "BY"}]}, found)
    assert "extra" not in plain
    assert plain["country"]["names"]["en"] == "Germany"  # type: ignore[index]
    assert custom is None or "extra" not in custom


def test_a_member_that_changed_is_published(home: str, tmp_path: Path) -> None:
    for note in ("before", "after"):
        elements = [{**ELEMENTS[1], "note": note}]
        with RawServer(answer(json.dumps(elements).encode())) as server:
            pull(StateDirectory(home), Settings(url=server.url, attempts=1))
        assert records(home, "10.0.1.1")[0]["extra"] == {"note": note}


def test_a_list_of_no_more_than_our_fields_costs_no_section(home: str) -> None:
    with RawServer(answer(json.dumps(ELEMENTS[1:2] + ELEMENTS[3:]).replace("note", "areacode").encode())) as server:
        pull(StateDirectory(home), Settings(url=server.url, attempts=1))
    assert sections(home) == []
