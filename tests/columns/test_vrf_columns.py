"""A column of routing domains (VRFs) beside that of addresses: the same answers in every adapter as one by one."""

import importlib
import json
import sqlite3
from pathlib import Path

import pytest

from geolookup.columns import sqlite
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import UnknownVrfError
from tests.state.test_vrfs import state

ADDRESSES = ["10.1.2.3", "10.1.2.3", "10.1.2.3", "10.9.9.9", None, "x"]
VRFS = ["CUST-A", "CUST-B", None, "CUST-A", "CUST-B", ""]


@pytest.fixture
def geo(tmp_path: Path) -> GeoLookup:
    found = state(tmp_path / "state")
    editor = found.edit()
    editor.create(name="All", country="FR", city="Paris", blocks=["10.1.0.0/16"])
    for vrf, city in (("CUST-A", "Utrecht"), ("CUST-B", "London")):
        editor.put_vrf_place(vrf, "office", country="NL", city=city, blocks=["10.1.2.0/24"])
    return found


@pytest.fixture
def wanted(geo: GeoLookup) -> list[str | None]:
    found: list[str | None] = []
    for address, vrf in zip(ADDRESSES, VRFS, strict=True):
        place = None if address in (None, "x") else geo.lookup(str(address), vrf=vrf or None)
        found.append(None if place is None else place.city)
    assert found[:3] == ["Utrecht", "London", "Paris"]
    return found


def test_duckdb(geo: GeoLookup, wanted: list[str | None]) -> None:
    duckdb = pytest.importorskip("duckdb")
    from geolookup.columns.duckdb import register

    connection = duckdb.connect()
    register(connection, geo)
    connection.execute("CREATE TABLE t (ip VARCHAR, vrf VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", list(zip(ADDRESSES, VRFS, strict=True)))
    assert [city for (city,) in connection.execute("SELECT geo_city(ip, vrf) FROM t").fetchall()] == wanted
    one = "SELECT geo_city('10.1.2.3', 'CUST-B'), geo_city(167838211::UINTEGER, 'CUST-A'), geo_city('10.1.2.3')"
    assert connection.execute(one).fetchone() == ("London", "Utrecht", "Paris")
    assert connection.execute("SELECT geo_city(167838211::UHUGEINT, 'CUST-A')").fetchone() == ("Utrecht",)
    whole = connection.execute("SELECT geo_json(ip, vrf), geo_json(ip) FROM t").fetchall()
    assert [text and json.loads(text)["city"] for text, _ in whole] == wanted
    assert [text and json.loads(text).get("vrf") for text, _ in whole] == ["CUST-A", "CUST-B", None, None, None, None]
    assert {text and json.loads(text)["city"] for _, text in whole[:3]} == {"Paris"}
    assert '"vrf":"CUST-A"' in connection.execute("SELECT geo_json(167838211::UHUGEINT, 'CUST-A')").fetchone()[0]
    for name in ("city", "json"):
        with pytest.raises(duckdb.Error, match="no VRF is named 'CUST-C'"):
            connection.execute(f"SELECT geo_{name}('10.1.2.3', 'CUST-C')").fetchall()


def test_sqlite_gives_the_whole_answer_in_a_vrf(geo: GeoLookup, wanted: list[str | None]) -> None:
    connection = sqlite3.connect(":memory:")
    sqlite.register(connection, geo)
    for address, vrf, city in zip(ADDRESSES, VRFS, wanted, strict=True):
        (text,) = connection.execute("SELECT geo_json(?, ?)", (address, vrf)).fetchone()
        assert (text and json.loads(text)["city"]) == city
    (text,) = connection.execute("SELECT geo_json('10.1.2.3', 'CUST-A')").fetchone()
    assert json.loads(text)["vrf"] == "CUST-A"


def test_polars(geo: GeoLookup, wanted: list[str | None]) -> None:
    pl = pytest.importorskip("polars")
    importlib.import_module("geolookup.columns.polars")
    frame = pl.DataFrame({"ip": ADDRESSES, "vrf": VRFS})
    for each in (frame, frame.lazy()):
        found = each.select(pl.col("ip").geo.city(geo=geo, vrf=pl.col("vrf")))
        found = found.collect() if isinstance(found, pl.LazyFrame) else found
        assert found["geo_city"].to_list() == wanted
    inside = frame.select(pl.col("ip").geo.locate(["city"], geo=geo, vrf="CUST-A"))["geo"].struct.field("city")
    assert inside.to_list()[:3] == ["Utrecht"] * 3


def test_pandas(geo: GeoLookup, wanted: list[str | None]) -> None:
    pd = pytest.importorskip("pandas")
    importlib.import_module("geolookup.columns.pandas")
    frame = pd.DataFrame({"ip": ADDRESSES, "vrf": VRFS}, index=list("abcdef"))
    found = frame["ip"].geo.city(geo=geo, vrf=frame["vrf"])
    assert [None if pd.isna(city) else city for city in found] == wanted
    assert list(frame["ip"].geo.city(geo=geo, vrf="CUST-B"))[:3] == ["London"] * 3
    with pytest.raises(UnknownVrfError, match=r"row 0: no VRF is named 'x'"):
        frame["ip"].geo.city(geo=geo, vrf=pd.Series(["x"] * 6))
