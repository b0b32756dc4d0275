"""``geolookup.export`` as MMDB: maxminddb answers for every range as a lookup does, in records like those of GeoIP2."""

import io
import os
import subprocess
import sys
import zoneinfo
from datetime import datetime
from pathlib import Path
from typing import Any

import maxminddb
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.model.continents import CONTINENTS, countries, named
from geolookup.model.types import Geolocation
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.upstream.decode import PulledGeolocation
from tests.exports.states import publish_sources
from tests.support.data.source_files import mmdb as reference_file
from tests.support.data.states import place, publish
from tests.support.examples import examples

PLACES: dict[str, dict[str, Any]] = {
    "full": {
        "country": "DE",
        "region": "BE",
        "city": "Berlin",
        "postalcode": "10115",
        "latitude": 52.5,
        "longitude": 13.375,
        "dmacode": "501",
        "areacode": "30",
    },
    "named region": {"country": "US", "region": "California", "city": "", "longitude": -0.0},
    "bare": {"country": "", "region": "", "city": ""},
}


def exported(home: str, **options: Any) -> Any:
    """A reader of what is exported."""
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        geolookup.export(geo, "mmdb", out, **options)
    return maxminddb.open_database(io.BytesIO(out.getvalue()), maxminddb.MODE_FD)


def made(locid: int, *ranges: str, **fields: Any) -> PulledGeolocation:
    """A geolocation of exactly these fields."""
    return msgspec.structs.replace(place(locid, *ranges, **fields), city=fields.get("city", ""))


def pull_file(home: str, path: Path) -> None:
    source = SourceSettings(name="corrected", location=os.fspath(path))
    pull(StateDirectory(home), Settings(sources=(source,), attempts=1))


def record_of(found: Geolocation, layer: str, source: str) -> dict[str, Any]:
    """The contract's record, written apart from the code under test."""
    record: dict[str, Any] = {"geolookup": {"locid": str(found.locid), "layer": layer, "source": source}}
    if found.country:
        record["country"] = {"iso_code": found.country}
        known = countries().get(found.country)
        if known is not None:
            own = named()["country", found.country], named()["continent", known.continent]
            record["country"]["names"] = {"en": known.name}
            if known.in_eu:
                record["country"]["is_in_european_union"] = True
            names = {"EU": "Europe", "NA": "North America", "AS": "Asia"}
            record["continent"] = {"code": known.continent, "names": {"en": names[known.continent]}}
            if layer == "custom":
                for key, each in zip(("country", "continent"), own, strict=True):
                    record[key] |= {"names": each.names, "geoname_id": each.geoname_id}
                if own[0].time_zone:
                    record["location"] = {"time_zone": own[0].time_zone}
    if found.region:
        is_code = len(found.region) <= 3 and found.region.isascii() and found.region.upper() == found.region
        record["subdivisions"] = [{"iso_code": found.region} if is_code else {"names": {"en": found.region}}]
    if found.city:
        record["city"] = {"names": {"en": found.city}}
    if found.postalcode:
        record["postal"] = {"code": found.postalcode}
    location: dict[str, Any] = record.pop("location", {})
    if found.latitude is not None:
        location["latitude"] = found.latitude
    if found.longitude is not None:
        location["longitude"] = found.longitude
    if found.dmacode.isdecimal() and 0 < int(found.dmacode) <= 65_535:
        location["metro_code"] = int(found.dmacode)
    if location:
        record["location"] = location
    return record


def test_a_record_is_as_the_contract_says(home: str) -> None:
    publish(
        home,
        [
            place(3, "8.0.0.0/8", "2001:db8::/32", **{**PLACES["full"], "city": "Berlin"}),
            place(-7, "10.0.0.0/8", country="FR", city="Büro"),
        ],
    )
    with exported(home) as reader:
        found = reader.get("8.8.8.8")
        assert found == {
            "country": {"iso_code": "DE", "is_in_european_union": True, "names": {"en": "Germany"}},
            "continent": {"code": "EU", "names": {"en": "Europe"}},
            "subdivisions": [{"iso_code": "BE"}],
            "city": {"names": {"en": "Berlin"}},
            "postal": {"code": "10115"},
            "location": {"latitude": 52.5, "longitude": 13.375, "metro_code": 501},
            "geolookup": {"locid": "3", "layer": "default", "source": "service"},
        }
        assert found["country"]["is_in_european_union"] is True
        assert reader.get("2001:db8::1") == found
        france, europe = named()["country", "FR"], named()["continent", "EU"]
        assert reader.get("10.1.2.3") == {
            "country": {
                "iso_code": "FR",
                "is_in_european_union": True,
                "geoname_id": france.geoname_id,
                "names": france.names,
            },
            "continent": {"code": "EU", "geoname_id": europe.geoname_id, "names": europe.names},
            "city": {"names": {"en": "Büro"}},
            "location": {"time_zone": "Europe/Paris"},
            "geolookup": {"locid": "-7", "layer": "custom", "source": "custom"},
        }
        assert reader.get("::ffff:8.8.8.8") == reader.get("2002:808:808::1") == found


_blocks = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=1, max_size=3)


@given(
    rows=st.lists(st.tuples(st.sampled_from(sorted(PLACES)), st.booleans(), _blocks, _blocks), min_size=1, max_size=6)
)
@examples(25)
def test_every_answer_is_that_of_a_lookup(rows: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    home = str(tmp_path_factory.mktemp("states") / "state")
    places = []
    for number, (kind, custom, v4, v6) in enumerate(rows, 1):
        ranges = [f"10.0.0.{first}-10.0.0.{first + size}" for first, size in v4]
        ranges += [f"2001:db8::{first:x}-2001:db8::{first + size:x}" for first, size in v6]
        places.append(made(-number if custom else number, *dict.fromkeys(ranges), **PLACES[kind]))
    publish(home, places)
    with geolookup.open(home) as geo, exported(home) as reader:
        for at in range(60):
            for address in (f"10.0.0.{at}", f"2001:db8::{at:x}"):
                match = geo.match(address)
                wanted = None if match is None else record_of(match.geolocation, match.layer, match.source)
                assert reader.get(address) == wanted, address


@pytest.mark.parametrize(
    ("code", "metro"),
    [("1", 1), ("0501", 501), ("65535", 65_535), ("65536", None), ("0", None), ("", None), ("5a", None), ("-5", None)],
)
def test_a_metro_code_is_a_number_of_16_bits(home: str, code: str, metro: int | None) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US", dmacode=code)])
    with exported(home) as reader:
        assert reader.get("8.8.8.8").get("location") == (None if metro is None else {"metro_code": metro})


@pytest.mark.parametrize(
    ("region", "written"),
    [
        *((code, {"iso_code": code}) for code in ("CA", "1", "B2B")),
        *((name, {"names": {"en": name}}) for name in ("California", "ca", "CALI", "C-A", "Ö")),
    ],
)
def test_a_region_is_a_code_or_a_name(home: str, region: str, written: dict[str, Any]) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US", region=region)])
    with exported(home) as reader:
        assert reader.get("8.8.8.8")["subdivisions"] == [written]


@pytest.mark.parametrize(
    ("country", "eu", "continent"),
    [("GB", False, "EU"), ("MT", True, "EU"), ("mt", True, "EU"), ("XX", False, None), ("Malta", False, None)],
)
def test_membership_and_continent_come_from_the_table(home: str, country: str, eu: bool, continent: str | None) -> None:
    publish(home, [place(1, "8.0.0.0/8", country=country)])
    with exported(home) as reader:
        found = reader.get("8.8.8.8")
    assert found["country"]["iso_code"] == (country if country == "Malta" else country.upper())
    assert ("is_in_european_union" in found["country"]) is eu
    assert found.get("continent", {}).get("code") == continent
    with geolookup.open(home) as geo:
        record = geo.record("8.8.8.8")
    del found["geolookup"]
    assert record is not None
    assert record.as_dict() == found, "a lookup says the same"


def test_the_table_of_countries_agrees_with_real_files() -> None:
    seen = set()
    folder = Path(__file__).parent.parent / "data" / "mmdb"
    for name in ("GeoIP2-City-Test", "GeoIP2-Country-Test", "GeoLite2-City-Test"):
        with maxminddb.open_database(folder / f"{name}.mmdb", maxminddb.MODE_MEMORY) as reader:
            for _, record in reader:
                if not isinstance(record, dict) or "country" not in record:
                    continue
                known = countries()[record["country"]["iso_code"]]
                seen.add(record["country"]["iso_code"])
                assert known.continent == record["continent"]["code"]
                assert known.in_eu == record["country"].get("is_in_european_union", False)
    assert len(seen) > 40
    assert len(countries()) == 250


def test_the_names_in_eight_languages_are_of_the_same_countries_and_agree_with_real_files() -> None:
    assert {code for kind, code in named() if kind == "country"} == countries().keys()
    assert {code for kind, code in named() if kind == "continent"} == CONTINENTS.keys()
    for (kind, code), known in named().items():
        assert len(known.names) == 8
        assert all(known.names.values())
        assert known.names["en"] == (countries()[code].name if kind == "country" else CONTINENTS[code])
        assert known.time_zone == "" or zoneinfo.ZoneInfo(known.time_zone)
    assert named()["country", "US"].time_zone == ""
    ids = 0
    for name in ("GeoIP2-City-Test", "GeoIP2-Country-Test"):
        with maxminddb.open_database(Path(__file__).parent.parent / "data" / "mmdb" / f"{name}.mmdb") as reader:
            for _, record in reader:
                for kind, key in (("country", "iso_code"), ("continent", "code")):
                    if "geoname_id" in record.get(kind, {}):  # type: ignore[operator, union-attr]
                        found = record[kind]  # type: ignore[index, call-overload]
                        assert named()[kind, found[key]].geoname_id == found["geoname_id"]
                        ids += 1
    assert ids > 100


def test_a_file_of_countries_has_no_locid_and_joins_neighbours(home: str) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/9", country="US", city="One", latitude=1.0),
            place(2, "8.128.0.0/9", country="US", city="Two"),
            place(-1, "9.0.0.0/8", country="US"),
        ],
    )
    with exported(home, fields="country") as reader:
        assert reader.metadata().database_type == "geolookup-Country"
        record, prefix = reader.get_with_prefix_len("8.200.0.1")
        assert prefix == 8
        assert sorted(record) == ["continent", "country", "geolookup"]
        assert record["geolookup"] == {"layer": "default", "source": "service"}
        assert reader.get_with_prefix_len("9.1.1.1")[0]["geolookup"]["layer"] == "custom"


def test_it_says_when_it_was_published_and_whom_to_credit(home: str, tmp_path: Path) -> None:
    publish_sources(home, tmp_path)
    with geolookup.open(home) as geo, exported(home, database_type="GeoLite2-City") as reader:
        about = reader.metadata()
        assert about.build_epoch == int(datetime.fromisoformat(geo.status().published_at).timestamp())
    assert about.database_type == "GeoLite2-City"
    assert about.description["en"] == (
        "What geolookup answers, from city (of unknown date), country (of unknown date, licence unknown: yours to "
        "name). City data by Example (https://example.com)."
    )
    with exported(home) as reader:
        assert reader.metadata().database_type == "geolookup-City"
    with exported(home, source="country") as reader:
        assert "Example" not in reader.metadata().description["en"]


def test_a_layer_or_a_source_can_be_chosen(home: str, tmp_path: Path) -> None:
    publish_sources(home, tmp_path)
    lyon: geolookup.NewGeolocation = {
        "country": "FR",
        "region": "",
        "city": "Lyon",
        "postalcode": "",
        "latitude": 0.0,
        "longitude": 0.0,
        "dmacode": "",
        "areacode": "",
    }
    with geolookup.open_editor(home) as editor:
        locid = editor.create(**lyon)
        editor.add_block(locid, "9.0.0.0", "9.0.0.127")

    def sources(**options: Any) -> list[str | None]:
        with exported(home, **options) as reader:
            found = [reader.get(address) for address in ("8.8.8.8", "9.0.0.1", "9.0.0.200", "9.9.9.9", "10.0.0.1")]
            return [None if record is None else record["geolookup"]["source"] for record in found]

    assert sources() == ["city", "custom", "city", "country", "country"]
    assert sources(layer="both") == sources()
    assert sources(layer="custom") == [None, "custom", None, None, None]
    assert sources(layer="default") == ["city", "city", "city", "country", "country"]
    assert sources(source="country") == [None, None, None, "country", "country"]
    assert sources(source="city") == ["city", None, "city", None, None], "what the custom layer covers is not city's"
    assert sources(source="city", layer="default") == ["city", "city", "city", None, None]
    with pytest.raises(geolookup.SettingsError, match=r"unknown source 'else'.*custom, city, country"):
        sources(source="else")


def test_another_time_can_be_exported(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    publish(home, [place(1, "8.0.0.0/8", country="DE")])
    out = io.BytesIO()
    with geolookup.open(home, as_of=1) as geo:
        geolookup.export(geo, "mmdb", out)
    with maxminddb.open_database(io.BytesIO(out.getvalue()), maxminddb.MODE_FD) as reader:
        assert reader.get("8.8.8.8")["country"]["iso_code"] == "US"


def test_the_same_state_gives_the_same_bytes(home: str, tmp_path: Path) -> None:
    publish_sources(home, tmp_path)
    code = (
        "import sys, geolookup\n"
        "with geolookup.open(sys.argv[1]) as geo:\n"
        "    for form, name in (('mmdb', 'a.mmdb'), ('csv', 'a.csv.gz'), ('parquet', 'a.parquet')):\n"
        "        geolookup.export(geo, form, sys.argv[2] + name)\n"
    )
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, home, f"{folder}{os.sep}"]
        subprocess.run(command, check=True, timeout=60, env=environment)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(written[0]) == 3
    assert written[0] == written[1]


def test_ipv6_where_readers_find_ipv4_is_left_out_and_said(home: str) -> None:
    publish(home, [place(1, "::1:0/112", "2002:808::/32", "2001:db8::/32", "8.0.0.0/8", country="US")])
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        written = geolookup.export(geo, "mmdb", out)
    (warning,) = written.warnings
    assert warning == "1 IPv6 range reaches into ::/96, where a MaxMind DB has IPv4: left out there"
    with maxminddb.open_database(io.BytesIO(out.getvalue()), maxminddb.MODE_FD) as reader:
        assert reader.get("::1:5") is None
        assert reader.get("2001:db8::1") == reader.get("2002:808:1::") == reader.get("8.1.1.1")


def test_it_can_be_a_source_itself(home: str, tmp_path: Path) -> None:
    publish(
        home,
        [
            *(place(number, f"{number}.0.0.0/8", f"2400:{number}::/32", **PLACES["full"]) for number in (8, 9)),
            place(5, "10.0.0.0/8", latitude=1.5, longitude=2.5, country="US", region="CA", city="Ångström"),
        ],
    )
    path = tmp_path / "corrected.mmdb"
    with geolookup.open(home) as geo:
        geolookup.export(geo, "mmdb", path)
    other = str(tmp_path / "other")
    pull_file(other, path)
    with geolookup.open(home) as geo, geolookup.open(other) as again:
        for address in ("8.1.1.1", "9.1.1.1", "10.1.1.1", "11.0.0.0", "2400:8::1", "2400:9::1", "2002:808:808::"):
            one, two = geo.lookup(address), again.lookup(address)
            assert (one is None) == (two is None), address
            if one is not None and two is not None:
                assert {**one.fields(), "areacode": ""} == two.fields()


def test_a_file_whose_places_say_nothing_can_be_read_back(home: str, tmp_path: Path) -> None:
    """Its first record has no part that other files have."""
    publish(home, [made(1, "8.0.0.0/8", **PLACES["bare"]), place(2, "9.0.0.0/8", country="US")])
    path = tmp_path / "bare.mmdb"
    with geolookup.open(home) as geo:
        geolookup.export(geo, "mmdb", path)
    other = str(tmp_path / "other")
    pull_file(other, path)
    with geolookup.open(other) as again:
        assert [found and found.country for found in again.lookup_many(["8.8.8.8", "9.9.9.9"])] == [None, "US"]


def test_it_is_no_larger_than_the_reference_writers_file(home: str, tmp_path: Path) -> None:
    """Of the same networks and records; where the reference has no aliases."""
    places = []
    for number in range(1, 400):
        fields = {**PLACES["full"], "city": f"City {number % 50}", "postalcode": f"{number % 7:05}"}
        fields |= {"latitude": number % 90 / 8, "longitude": number % 9 / 4}
        places.append(place(number, f"8.{number >> 4}.{number % 16 * 16}.0/20", f"2400:{number:x}::/32", **fields))
    publish(home, places)
    path = tmp_path / "ours.mmdb"
    with geolookup.open(home) as geo:
        geolookup.export(geo, "mmdb", path)
    with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
        networks = {}
        for network, record in reader:
            text = str(network)
            assert isinstance(record, dict)
            networks[text] = record
    theirs = reference_file(networks, tmp_path, languages=["en"], ipv4_compatible=True)
    assert path.stat().st_size < len(theirs)
