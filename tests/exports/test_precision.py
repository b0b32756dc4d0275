"""Places told no more precisely than by country, region or city: nothing finer is left in any format."""

import csv
import io
from pathlib import Path
from typing import Any

import maxminddb
import pytest

import geolookup
from geolookup.exports.precision import PRECISIONS, Precision
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.exports.round_trip import compared
from tests.support.data.states import place, publish

DATA = Path(__file__).parents[1] / "data" / "mmdb"
#: In England, with two subdivisions; an own place of no record.
BOXFORD, OWN, INDIANA = "2.125.160.216", "8.8.8.8", "9.9.9.9"


def state_of(folder: Path, name: str) -> str:
    home = str(folder / "state")
    pull(StateDirectory(home), Settings(sources=(SourceSettings(name="a", location=str(DATA / name)),), attempts=1))
    with geolookup.open_editor(home) as editor:
        fields = {"region": "IN", "postalcode": "47906", "dmacode": "582", "areacode": "765"}
        for address, country, where in ((OWN, "FR", 48.8583), (INDIANA, "US", 40.42)):
            locid = editor.create(country=country, city="Here", latitude=where, longitude=-2.2945, **fields)
            editor.add_block(locid, address)
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return state_of(tmp_path_factory.mktemp("precise"), "GeoIP2-City-Test.mmdb")


def written(home: str, form: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        geolookup.export(geo, form, out, licence_allows=True, **options)
    return out.getvalue()


def database(home: str, **options: Any) -> maxminddb.Reader:
    return maxminddb.open_database(io.BytesIO(written(home, "mmdb", **options)), maxminddb.MODE_FD)


def record_at(home: str, address: str, precision: Precision | None) -> dict[str, Any]:
    with database(home, precision=precision) as reader:
        found = reader.get(address)
    assert isinstance(found, dict)
    return {key: value for key, value in found.items() if key != "geolookup"}


def test_a_record_has_the_keys_of_its_level_and_of_those_above(home: str) -> None:
    whole = record_at(home, BOXFORD, None)
    assert whole["location"] == {
        "accuracy_radius": 100,
        "latitude": 51.75,
        "longitude": -1.25,
        "time_zone": "Europe/London",
    }
    assert [part["iso_code"] for part in whole["subdivisions"]] == ["ENG", "WBK"]
    city = record_at(home, BOXFORD, "city")
    # A tenth of a degree is off by 8 km at most.
    shown = {**whole["location"], "accuracy_radius": 108, "latitude": 51.8, "longitude": -1.2}
    assert city == {**{key: value for key, value in whole.items() if key != "postal"}, "location": shown}
    region = record_at(home, BOXFORD, "region")
    of_country = {key: whole[key] for key in ("continent", "country", "registered_country")}
    zone = {"location": {"time_zone": "Europe/London"}}
    assert region == {**of_country, **zone, "subdivisions": whole["subdivisions"][:1]}
    assert record_at(home, BOXFORD, "country") == {**of_country, **zone}


def test_a_time_zone_is_told_below_a_city_only_if_the_country_has_no_other(home: str) -> None:
    with database(home) as reader:
        american = [
            network[0]
            for network, record in reader
            if isinstance(record, dict)
            and record.get("country", {}).get("iso_code") == "US"  # type: ignore[union-attr]
            and "time_zone" in record.get("location", {})  # type: ignore[operator]
        ]
    assert american
    for precision in ("country", "region"):
        with database(home, precision=precision) as reader:
            for address in american:
                assert "location" not in reader.get(address)  # type: ignore[operator]
    assert "time_zone" in record_at(home, str(american[0]), "city")["location"]
    assert record_at(home, OWN, "country")["location"] == {"time_zone": "Europe/Paris"}


def test_no_record_says_more_than_its_level_does(home: str) -> None:
    """Of every network, by what is allowed; and neighbours that say the same are one."""
    allowed = {
        "country": {"country", "continent", "registered_country", "represented_country", "location", "geolookup"},
        "region": {"subdivisions"},
        "city": {"city"},
    }
    counts = []
    for at, precision in enumerate(PRECISIONS):
        keys = set().union(*(allowed[level] for level in PRECISIONS[: at + 1]))
        with database(home, precision=precision) as reader:
            found = [record for _, record in reader if isinstance(record, dict)]
        for record in found:
            location, ours = record.get("location", {}), record["geolookup"]
            assert record.keys() <= keys
            assert ours.keys() == {"layer", "source"}  # type: ignore[union-attr]
            if precision != "city":
                assert location.keys() <= {"time_zone"}  # type: ignore[union-attr]
                assert len(record.get("subdivisions", ())) <= 1  # type: ignore[arg-type]
            else:
                degrees = [location[name] for name in ("latitude", "longitude") if name in location]  # type: ignore[operator, index, call-overload]
                assert all(value == round(value, 1) for value in degrees)
                assert location.get("accuracy_radius", 8) >= 8  # type: ignore[union-attr, operator]
        counts.append(len(found))
    with database(home) as reader:
        counts.append(sum(1 for _ in reader))
    assert counts == sorted(counts)


def test_a_file_of_countries_comes_back_whole_as_one_of_countries(tmp_path: Path) -> None:
    home = state_of(tmp_path, "GeoIP2-Country-Test.mmdb")
    for options in ({"database_type": "GeoIP2-Country"}, {"precision": "country"}, {"fields": "country"}):
        out = tmp_path / "out.mmdb"
        out.write_bytes(written(home, "mmdb", layer="default", **options))
        trip = compared(DATA / "GeoIP2-Country-Test.mmdb", out, without=("traits",))
        assert (trip.differ, trip.now) == (0, trip.leaves)


def test_rows_have_empty_cells_for_what_is_finer(home: str) -> None:
    def row(precision: Precision) -> dict[str, str]:
        text = written(home, "csv", precision=precision, layer="custom").decode()
        return next(row for row in csv.DictReader(text.splitlines()) if row["first"] == INDIANA)

    ends = {"first": INDIANA, "last": INDIANA}
    nothing = dict.fromkeys(("region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode"), "")
    assert row("country") == {**ends, **nothing, "country": "US"}
    assert row("region") == {**ends, **nothing, "country": "US", "region": "IN"}
    near = {"latitude": "40.4", "longitude": "-2.3", "dmacode": "582", "areacode": "765"}
    assert row("city") == {**ends, **near, "country": "US", "region": "IN", "city": "Here", "postalcode": ""}


def test_a_geofeed_says_no_more_either(home: str) -> None:
    lines = written(home, "geofeed", precision="region").decode().splitlines()
    assert f"{INDIANA}/32,US,US-IN,," in lines
    assert f"{INDIANA}/32,US,,," in written(home, "geofeed", precision="country").decode().splitlines()
    with pytest.raises(geolookup.SettingsError, match="postal codes are finer than a city"):
        written(home, "geofeed", precision="city", postal_codes=True)


def test_neighbours_that_say_the_same_are_one_row(home: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    publish(other, [place(1, "8.0.0.0/9", country="US", city="A"), place(2, "8.128.0.0/9", country="US", city="B")])
    text = written(other, "csv", precision="country").decode()
    assert text.splitlines()[1:] == ["8.0.0.0,8.255.255.255,US,,,,,,,"]
    text = written(other, "csv", precision="country", fields="locid,country").decode()
    assert text.splitlines()[1:] == ["8.0.0.0,8.255.255.255,,US"], "the number would tell which place it is"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"precision": "street"}, "precision = 'street': must be one of country, region, city"),
        ({"precision": "city", "fields": "country"}, "`fields` says country, and `precision` city"),
        ({"precision": "city", "layer": "network"}, "layer network has no places"),
        ({"database_type": "GeoLite2-ASN", "layer": "both"}, "cannot be of the layer both: its layer must be network"),
        ({"database_type": "GeoLite2-ASN", "layer": "all"}, "cannot be of the layer all"),
        ({"database_type": "GeoIP2-City", "layer": "network"}, "its layer must be custom, default, both, all"),
    ],
)
def test_options_that_exclude_each_other_are_refused(home: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(geolookup.SettingsError, match=problem):
        written(home, "mmdb", **options)


def test_a_state_without_networks_is_told_so(tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    publish(other, [place(1, "8.0.0.0/8", country="US")])
    with pytest.raises(geolookup.SettingsError, match="no source of this state says who runs addresses"):
        written(other, "mmdb", layer="network")
    with geolookup.open(other) as geo:
        done = geolookup.export(geo, "mmdb", io.BytesIO(), layer="all")
    assert done.warnings == ("no source of what was asked for says who runs addresses: it says where they are only",)
