"""Each file of answers says which they were: the fingerprint, the sources, their dates and licences; of any time."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import geolookup
from geolookup.cli.app import run
from geolookup.columns import arrow
from tests.exports.states import publish_sources
from tests.support.data.states import place, publish

CITY = {
    "name": "city",
    "dated": None,
    "licence": "Test Licence",
    "attribution": "City data by Example (https://example.com)",
}
COUNTRY = {"name": "country", "dated": None, "licence": None, "attribution": None}


def said(metadata: dict[bytes, bytes]) -> tuple[str, list[dict[str, str | None]]]:
    return metadata[b"geolookup.fingerprint"].decode(), json.loads(metadata[b"geolookup.sources"])


@pytest.fixture(autouse=True)
def state(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_sources(home, tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def test_parquet_by_enrich_and_by_export_says_what_it_is_from(home: str, tmp_path: Path) -> None:
    with geolookup.open(home) as geo:
        fingerprint = geo.fingerprint()
        about = arrow.provenance(geo)
        whole, custom = io.BytesIO(), io.BytesIO()
        geolookup.export(geo, "parquet", whole)
        geolookup.export(geo, "parquet", custom, layer="custom")
    (tmp_path / "in.csv").write_text("ip\n8.8.8.8\n")
    assert run(["enrich", str(tmp_path / "in.csv"), str(tmp_path / "out.parquet"), "--ok-uncovered"]) == 0
    written = parquet.read_metadata(tmp_path / "out.parquet").metadata
    assert said(written) == (fingerprint, [CITY, COUNTRY])
    assert {name.decode(): value.decode() for name, value in written.items() if name.startswith(b"geolookup.")} == about
    assert said(parquet.read_metadata(whole).metadata) == (fingerprint, [CITY, COUNTRY])
    assert said(parquet.read_metadata(custom).metadata) == (fingerprint, []), "no source is in it"


def test_metadata_of_the_rows_stay_beside_it(tmp_path: Path) -> None:
    table = pa.table({"ip": ["8.8.8.8"]}).replace_schema_metadata({"kept": "yes", "geolookup.fingerprint": "older"})
    parquet.write_table(table, tmp_path / "in.parquet")
    assert run(["enrich", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), "--ok-uncovered"]) == 0
    found = parquet.read_schema(tmp_path / "out.parquet").metadata
    assert found[b"kept"] == b"yes"
    assert len(found[b"geolookup.fingerprint"]) == 64


def test_counts_and_maps_say_it_too(home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("10.0.0.1\n198.51.100.1\n8.8.8.8\n")
    with geolookup.open(home) as geo:
        fingerprint = geo.fingerprint()
    assert run(["top", str(tmp_path / "log"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fingerprint"] == fingerprint
    assert found["generation"] == 1
    assert all(each in (CITY, COUNTRY) for each in found["sources"])
    pytest.importorskip("vl_convert")
    for form in ("html", "svg"):
        assert run(["map", str(tmp_path / "log"), "-o", str(tmp_path / f"map.{form}")]) == 0
        drawn = (tmp_path / f"map.{form}").read_text()
        assert f"Fingerprint of the data: {fingerprint}." in drawn
        assert all(f"{each['name']} (of unknown date)" in drawn for each in found["sources"])


def test_all_three_answer_as_of_another_time(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "nights")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    prints = []
    for country in ("DE", "FR"):
        publish(home, [place(1, "8.0.0.0/8", country=country)])
        with geolookup.open(home) as geo:
            prints.append(geo.fingerprint())
    (tmp_path / "in.csv").write_text("ip\n8.8.8.8\n")
    for options, country, fingerprint in ((["--as-of", "previous"], "DE", prints[0]), ([], "FR", prints[1])):
        assert run(["enrich", str(tmp_path / "in.csv"), str(tmp_path / "out.parquet"), *options]) == 0
        assert parquet.read_table(tmp_path / "out.parquet").column("geo_country").to_pylist() == [country]
        assert said(parquet.read_schema(tmp_path / "out.parquet").metadata)[0] == fingerprint
        assert run(["top", str(tmp_path / "in.csv"), "--json", *options]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["rows"][0]["country"], found["fingerprint"]) == (country, fingerprint)
    assert run(["enrich", str(tmp_path / "in.csv"), "-", "--as-of", "1999-01-01"]) == 2
    assert "1999" in capsys.readouterr().err
    pytest.importorskip("vl_convert")
    assert run(["map", str(tmp_path / "in.csv"), "-o", str(tmp_path / "map.svg"), "--as-of", "previous"]) == 0
    assert prints[0] in (tmp_path / "map.svg").read_text()
