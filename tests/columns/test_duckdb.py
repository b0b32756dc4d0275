"""DuckDB: the functions in real queries, over vectors, with NULLs, beside each other's connections."""

import json
from pathlib import Path

import duckdb
import pytest

from geolookup.columns.common import FIELDS, json_of
from geolookup.columns.duckdb import register
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import NoStateError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.compat.suites import DATABASES
from tests.oracle.single_lookups import single_lookup

ROWS = "(values (1, '8.8.8.8'), (2, NULL), (3, 'bad'), (4, '9.0.0.1'), (5, '7.0.0.1'), (6, '2001:db8::1')) t(n, ip)"


def test_every_field_has_a_function(geo: GeoLookup) -> None:
    with duckdb.connect() as connection:
        register(connection, geo)
        columns = ", ".join(f"geo_{name}(ip)" for name in FIELDS)
        found = connection.execute(f"select {columns} from {ROWS} order by n").fetchall()
    match = geo.match("8.8.8.8")
    assert match is not None
    assert found[0] == tuple(single_lookup(geo, "8.8.8.8").values())
    assert found[1] == found[2] == found[4] == (None,) * len(FIELDS)
    assert found[5][1] == "US"


def test_geo_json_is_the_object_of_a_match_with_its_facts(geo: GeoLookup) -> None:
    with duckdb.connect() as connection:
        register(connection, geo)
        found = [row[0] for row in connection.execute(f"select geo_json(ip) from {ROWS} order by n").fetchall()]
    match = geo.match("8.8.8.8")
    assert match is not None
    facts = {
        "country_name": "France",
        "continent_code": "EU",
        "is_in_european_union": True,
        "time_zone": "Europe/Paris",
    }
    assert json.loads(found[0]) == {**match.flat(), **facts}
    assert found[1:3] == [None, None]


def test_many_vectors_and_threads_are_answered_in_their_rows(state: str) -> None:
    with duckdb.connect() as connection:
        register(connection)
        connection.execute(
            "create table visits as select i, case i % 3 when 0 then '8.8.' || (i % 256) || '.1' when 1 then '9.0.0.1' "
            "end as ip from range(200000) r(i)"
        )
        found = connection.execute(
            "select i % 3, geo_country(ip), count(*) from visits group by all order by all"
        ).fetchall()
    assert found == [(0, "FR", 66667), (1, "DE", 66667), (2, None, 66666)]


def test_constants_and_empty_tables_are_answered(geo: GeoLookup) -> None:
    with duckdb.connect() as connection:
        register(connection, geo)
        assert connection.execute("select geo_city('9.0.0.1'), geo_city(NULL)").fetchall() == [("Köln", None)]
        assert connection.execute(f"select geo_city(ip) from {ROWS} where n > 9").fetchall() == []
        with pytest.raises(duckdb.Error, match="geo_city"):
            connection.execute("select geo_city()")


def test_the_reason_of_an_error_reaches_the_person(
    geo: GeoLookup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect() as connection:
        register(connection, geo)
        geo.close()
        with pytest.raises(duckdb.Error, match="this GeoLookup is closed"):
            connection.sql("select geo_country('8.8.8.8')").fetchall()
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "none"))
    with duckdb.connect() as connection, pytest.raises(NoStateError, match="does not exist"):
        register(connection)


def test_geo_json_has_the_facts_that_a_source_says(tmp_path: Path) -> None:
    """Of a place, of a network, and of an address that only a source of networks knows."""
    networks = tmp_path / "networks.csv"
    networks.write_text(
        "first,last,asn,as_organization,is_anonymous_vpn\n"
        '81.2.69.0,81.2.69.255,64500,"Ünder ""x""",true\n'
        "9.9.9.0,9.9.9.255,64501,,\n"
    )
    home = str(tmp_path / "state")
    sources = [("city", DATABASES / "GeoIP2-City-Test.mmdb"), ("own", networks)]
    settings = [SourceSettings(name=name, location=str(path)) for name, path in sources]
    assert pull(StateDirectory(home), Settings(sources=tuple(settings))).outcome == "published"
    asked = ["81.2.69.160", "9.9.9.9", "2001:218::1", "67.43.156.1", "1.1.1.1", "bad", "81.2.69.142"]
    with GeoLookup(home) as geo, duckdb.connect() as connection:
        register(connection, geo)
        found = [
            row[0] for row in connection.execute("select geo_json(a) from (select unnest(?) a)", [asked]).fetchall()
        ]
        assert found == [json_of(geo, address) for address in asked]
        first, second = json.loads(found[0]), json.loads(found[1])
        assert (first["city"], first["time_zone"], first["asn"]) == ("London", "Europe/London", 64500)
        assert (first["as_organization"], first["is_anonymous_vpn"]) == ('Ünder "x"', True)
        assert "isp" not in first  # nobody says it
        assert (second["locid"], second["first"], second["asn"]) == (None, None, 64501)
        assert found[4:6] == [None, None]
        geo.edit().create(country="DE", city="Bonn", blocks=["81.2.69.160"])
        ((edited,),) = connection.execute("select geo_json('81.2.69.160')").fetchall()
        assert edited == json_of(geo, "81.2.69.160")
        assert (json.loads(edited)["city"], json.loads(edited)["layer"]) == ("Bonn", "custom")
