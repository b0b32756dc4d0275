"""An answer that came from a block of a routing domain (VRF) says so, whichever way it is asked for."""

import io
import json
from pathlib import Path
from typing import Any

import maxminddb
import pyarrow as pa
import pyarrow.parquet
import pytest

import geolookup
from geolookup.base.plainjson import sealed
from geolookup.cli.app import run
from geolookup.columns.arrow import locate
from geolookup.exports.export import export
from geolookup.state.base.vrfs import list_path, read_vrfs
from tests.state.test_vrfs import state
from tests.support.services.running_share import RunningShare

ASKED = ("10.1.2.3", "10.1.9.9", "10.2.0.1")  # of the VRF, of the global custom layer, and of the source


@pytest.fixture
def geo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> geolookup.GeoLookup:
    """A source, a site above it, and a site of a VRF above that."""
    found = state(tmp_path / "state")
    editor = found.edit()
    editor.create(name="Paris", country="FR", city="Paris", blocks=["10.1.0.0/16"])
    editor.put_vrf_place("CUST-A", "Utrecht", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    monkeypatch.setenv("GEOLOOKUP_HOME", found.home)
    return found


@pytest.mark.parametrize("pure", [False, True])
def test_a_match_a_record_and_columns_name_the_vrf_of_their_block(
    geo: geolookup.GeoLookup, monkeypatch: pytest.MonkeyPatch, pure: bool
) -> None:
    if pure:
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    with geolookup.GeoLookup(geo.home) as opened:
        found = [opened.match(address, vrf="CUST-A") for address in ASKED]
        assert [match and (match.site, match.vrf) for match in found] == [
            ("Utrecht", "CUST-A"),
            ("Paris", None),
            (None, None),
        ]
        outside = opened.match(ASKED[0])
        assert outside is not None
        assert (outside.site, outside.vrf) == ("Paris", None)
        assert (opened.in_vrf("CUST-A").record(ASKED[0]) or {})["geolookup"] == {"site": "Utrecht", "vrf": "CUST-A"}
        rows = locate(opened, pa.array(ASKED), fields=["site", "vrf"], vrf=pa.array(["CUST-A", None, "CUST-A"]))
        assert rows.column(1).to_pylist() == ["CUST-A", None, None]


def test_commands_name_the_vrf_and_csv_only_if_it_is_asked_for(
    geo: geolookup.GeoLookup, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        assert run([*words, "--vrf", "CUST-A"]) == 0
        return capsys.readouterr().out

    lines = said(*ASKED).splitlines()
    assert lines[0].endswith(", VRF CUST-A")
    assert "VRF" not in lines[1] + lines[2]
    assert said(*ASKED, "--field", "vrf") == "CUST-A\n\n\n"
    assert [each["vrf"] for each in json.loads(said(*ASKED, "--json"))] == ["CUST-A", None, None]
    assert json.loads(said(ASKED[0], "--format", "ndjson"))["vrf"] == "CUST-A"
    assert "vrf" not in said(ASKED[0], "--format", "csv")
    assert said(ASKED[0], "--format", "csv", "--fields", "ip,vrf").splitlines()[1] == "10.1.2.3,CUST-A,"
    match = json.loads(said("explain", ASKED[0], "--json"))["match"]
    assert (match["site"], match["vrf"]) == ("Utrecht", "CUST-A")


def test_exports_and_http_name_the_vrf(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    inside = geo.in_vrf("CUST-A")
    export(inside, "mmdb", tmp_path / "out.mmdb")
    with maxminddb.open_database(tmp_path / "out.mmdb") as database:
        ours: list[Any] = [database.get(address)["geolookup"] for address in ASKED]  # type: ignore[index, call-overload]
    assert [(each.get("site"), each.get("vrf")) for each in ours] == [
        ("Utrecht", "CUST-A"),
        ("Paris", None),
        (None, None),
    ]
    rows = io.BytesIO()
    export(inside, "csv", rows, fields=["vrf", "site"])
    assert "10.1.2.0,10.1.2.255,CUST-A,Utrecht" in rows.getvalue().decode()
    export(inside, "parquet", tmp_path / "out.parquet", fields=["vrf"])
    assert set(pyarrow.parquet.read_table(tmp_path / "out.parquet").column("vrf").to_pylist()) == {"CUST-A", None}
    coarse = io.BytesIO()
    export(inside, "csv", coarse, fields=["vrf", "city"], precision="city")
    assert "CUST-A" not in coarse.getvalue().decode()
    with RunningShare(geo.home, tmp_path / "built") as running, running.client() as client:
        for address, vrf in zip(ASKED, ("CUST-A", None, None), strict=True):
            assert client.get(f"/lookup/{address}", params={"vrf": "CUST-A"}).json()["vrf"] == vrf


def test_a_layer_that_was_compiled_without_its_vrf_is_made_anew_with_the_next_edit_of_any(
    geo: geolookup.GeoLookup,
) -> None:
    current = geo.snapshot().current
    path, number = Path(list_path(geo.home, current.vrfs)), read_vrfs(geo.home, current)["CUST-A"].number
    path.write_bytes(sealed(path.read_bytes().replace(b'"version": "1.1"', b'"version": "1.0"'), b'"check": "'))
    with geolookup.GeoLookup(geo.home) as opened:
        assert opened.match(ASKED[0], vrf="CUST-A") is not None, "it still answers"
        geo.edit().put_vrf_place("CUST-B", "London", country="GB", city="London", blocks=["10.1.2.0/24"])
        opened.look_soon()
        after = read_vrfs(geo.home, opened.with_snapshot(lambda snapshot: snapshot.current))
    assert after["CUST-A"].number > number
