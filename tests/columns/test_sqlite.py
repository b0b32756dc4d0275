"""SQLite: the functions on a plain connection, by the sqlite-utils command, and in a real Datasette."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from geolookup.columns.common import FIELDS
from geolookup.columns.sqlite import register
from geolookup.lookup.engine import GeoLookup
from tests.oracle.single_lookups import single_lookup
from tests.support.data.states import place, publish

ADDRESSES = ["8.8.8.8", None, "bad", "9.0.0.1", "7.0.0.1", 8 << 24, -1, 2**40, 1.5, b"8.8.8.8"]


@pytest.fixture
def connection(geo: GeoLookup) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as opened:
        register(opened, geo)
        opened.execute("create table visits (n integer primary key, ip)")
        opened.executemany("insert into visits (ip) values (?)", [(address,) for address in ADDRESSES])
        yield opened


def test_one_bad_row_is_null_and_does_not_end_the_query(connection: sqlite3.Connection) -> None:
    found = [row[0] for row in connection.execute("select geo_country(ip) from visits order by n")]
    assert found == ["FR", None, None, "DE", None, "US", None, None, None, None]


def test_every_field_has_a_function(connection: sqlite3.Connection, geo: GeoLookup) -> None:
    columns = ", ".join(f"geo_{name}(ip)" for name in FIELDS)
    match = geo.match("8.8.8.8")
    assert match is not None
    found = connection.execute(f"select {columns} from visits where n = 1").fetchone()
    assert found == tuple(single_lookup(geo, "8.8.8.8").values())


def test_geo_json_is_the_object_of_a_match_with_its_facts(connection: sqlite3.Connection, geo: GeoLookup) -> None:
    found = [row[0] for row in connection.execute("select geo_json(ip) from visits order by n")]
    match = geo.match("8.8.8.8")
    assert match is not None
    facts = {"country_name": "France", "continent_code": "EU", "is_in_european_union": True}
    assert json.loads(found[0]) == {**match.flat(), **facts, "time_zone": match.time_zone}
    assert found[1:3] == [None, None]


def test_answers_follow_a_publish_within_one_connection(
    connection: sqlite3.Connection, geo: GeoLookup, home: str
) -> None:
    query = "select geo_country('8.8.8.8')"
    assert connection.execute(query).fetchone() == ("FR",)
    publish(home, [place(1, "8.0.0.0/8", country="NL")])
    geo.look_soon()
    assert connection.execute(query).fetchone() == ("NL",)


def test_no_index_may_keep_an_answer(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="non-deterministic"):
        connection.execute("create index by_country on visits (geo_country(ip))")


def test_the_sqlite_utils_command_has_the_functions(state: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", "memory", "select geo_country('8.8.8.8') c, geo_city('9.0.0.1') t"],
        capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(found.stdout) == [{"c": "FR", "t": "Köln"}]


def test_datasette_has_the_functions(state: str) -> None:
    from datasette.app import Datasette

    async def ask() -> object:
        datasette = Datasette(memory=True)
        await datasette.invoke_startup()
        answer = await datasette.client.get("/_memory.json?sql=select+geo_country('8.8.8.8')&_shape=arrayfirst")
        return answer.json()

    assert asyncio.run(ask()) == ["FR"]


def test_the_reason_of_an_error_is_logged_and_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite3.enable_callback_tracebacks(False)  # which the import of Datasette in another test has switched on
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "none"))
    with closing(sqlite3.connect(":memory:")) as opened:
        register(opened)
        for function in ("geo_country", "geo_json", "geo_source"):
            caplog.clear()
            with pytest.raises(sqlite3.OperationalError):
                opened.execute(f"select {function}('8.8.8.8')").fetchone()
            assert f"{tmp_path / 'none'}: does not exist" in caplog.text
        assert "does not exist" in opened.execute("select geo_problem()").fetchone()[0]
        publish(str(tmp_path / "none"), [place(1, "8.0.0.0/8", country="US")])
        assert opened.execute("select geo_problem(), geo_country('8.8.8.8')").fetchone() == (None, "US")


def test_a_person_at_the_shell_sees_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "none"))
    done = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", "memory", "select geo_country('8.8.8.8')"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"geolookup cannot answer: {tmp_path / 'none'}: does not exist" in done.stderr
