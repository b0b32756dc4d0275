"""Columns with a column of routing domains (VRFs) beside them, against single lookups."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from geolookup.columns import sqlite
from geolookup.columns.arrow import MALFORMED_KEY, NOT_COVERED_KEY, locate
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, UnknownVrfError
from tests.cli.lookup.test_lookup import command
from tests.state.test_vrfs import state

ADDRESSES = ["10.1.2.3", "10.1.2.3", "10.1.2.3", "10.9.0.1", "10.9.0.1", "1.1.1.1", "bad", None, "8.8.8.8"]
VRFS = ["CUST-A", "CUST-B", None, "CUST-B", "CUST-A", "CUST-A", "CUST-B", "CUST-A", ""]
FIELDS = ("country", "city", "locid", "first", "layer", "latitude")


@pytest.fixture
def geo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GeoLookup:
    """A state in which two VRFs have the same block."""
    found = state(tmp_path / "state")
    editor = found.edit()
    editor.put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", latitude=52.1, longitude=5.1,
                         blocks=["10.1.2.0/24"])  # fmt: skip
    editor.put_vrf_place("CUST-B", "office", country="GB", city="London", blocks=["10.1.2.0/24", "10.9.0.0/16"])
    monkeypatch.setenv("GEOLOOKUP_HOME", found.home)
    return found


def single(geo: GeoLookup, name: str) -> list[object]:
    """The values of a field, each by a lookup of its own."""
    found: list[object] = []
    for address, vrf in zip(ADDRESSES, VRFS, strict=True):
        match = None if address in (None, "bad") else geo.match(str(address), vrf=vrf or None)
        found.append(None if match is None else getattr(match, name))
    return found


@pytest.mark.parametrize("chunked", [False, True])
def test_each_row_is_answered_in_its_vrf(geo: GeoLookup, chunked: bool) -> None:
    column, vrfs = pa.array(ADDRESSES), pa.array(VRFS).dictionary_encode()
    if chunked:
        column, vrfs = pa.chunked_array([column[:4], column[4:]]), pa.chunked_array([vrfs[:1], vrfs[1:]])
    found = locate(geo, column, FIELDS, vrf=vrfs)
    for name in FIELDS:
        assert found.column(name).to_pylist() == single(geo, name), name
    counts = found.schema.metadata
    assert (counts[MALFORMED_KEY], counts[NOT_COVERED_KEY]) == (b"1", b"1")


def test_one_vrf_answers_a_whole_column(geo: GeoLookup) -> None:
    found = locate(geo, pa.array(["10.1.2.3", "10.9.0.1"]), "city", vrf="CUST-B")
    assert found.column(0).to_pylist() == ["London", "London"]
    assert locate(geo, pa.array([], pa.string()), "city", vrf=pa.array([], pa.string())).num_rows == 0


def test_a_row_with_a_vrf_that_is_not_there_is_named(geo: GeoLookup) -> None:
    with pytest.raises(UnknownVrfError, match="row 1: no VRF is named 'CUST-C'"):
        locate(geo, pa.array(["10.1.2.3"] * 2), "city", vrf=pa.array(["CUST-A", "CUST-C"]))
    with pytest.raises(ColumnError, match="a row for each address: 1 rows, and 2 addresses"):
        locate(geo, pa.array(["10.1.2.3"] * 2), "city", vrf=pa.array(["CUST-A"]))
    with pytest.raises(ColumnError, match="a column of VRFs is text, not int64"):
        locate(geo, pa.array(["10.1.2.3"]), "city", vrf=pa.array([1]))


def test_sqlite_takes_the_vrf_as_a_second_argument(geo: GeoLookup) -> None:
    connection = sqlite3.connect(":memory:")
    sqlite.register(connection, geo)
    for address, vrf, city in zip(ADDRESSES, VRFS, single(geo, "city"), strict=True):
        assert connection.execute("SELECT geo_city(?, ?)", (address, vrf)).fetchone() == (city,)


@pytest.mark.usefixtures("geo")
def test_enrich_takes_the_vrf_of_each_row_from_a_column(tmp_path: Path) -> None:
    source, target = tmp_path / "flows.csv", tmp_path / "out.csv"
    source.write_text("ip,vrf\n10.1.2.3,CUST-A\n10.1.2.3,CUST-B\n10.1.2.3,\n")
    done = command("enrich", str(source), str(target), "--fields", "city", "--vrf-from", "vrf")
    assert done.returncode == 0, done.stderr
    assert target.read_text().split() == ["ip,vrf,geo_city", "10.1.2.3,CUST-A,Utrecht", "10.1.2.3,CUST-B,London",
                                          "10.1.2.3,,Bonn"]  # fmt: skip
    assert command("enrich", str(source), str(target), "--fields", "city", "--vrf", "CUST-B").returncode == 0
    assert target.read_text().count("London") == 3
    refused = command("enrich", str(source), str(target), "--vrf-from", "vfr")
    assert refused.returncode != 0
    assert "unknown column 'vfr': the columns are 'ip', 'vrf'" in refused.stderr.decode()
