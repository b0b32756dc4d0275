"""CSV reads back as a source, as what lookups answer; Parquet has the same rows."""

import csv
import gzip
import io
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import geolookup
import geolookup.exports
from geolookup.exports import rows
from geolookup.model.fields import FIELD_NAMES
from tests.exports.contents import FOUR, SIX, content_of
from tests.exports.states import publish_sources
from tests.support.data.source_files import read_all
from tests.support.data.states import place, publish

_texts = st.one_of(st.sampled_from(["", "DE", 'a "b", c', "line\nbreak", "=1+1", "Ö"]), st.text("aä,\"'\n", max_size=4))
#: What a source takes for a country: nothing, or the form of a code.
_countries = st.one_of(st.just(""), st.text("aDEz9", min_size=2, max_size=2))
_degrees = st.one_of(st.none(), st.floats(-90, 90))
_places = st.lists(st.fixed_dictionaries({"country": _countries, "city": _texts, "latitude": _degrees}), min_size=1)


def exported(home: str, form: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        geolookup.export(geo, form, out, **options)
    return out.getvalue()


@given(places=_places, networks=st.booleans(), data=st.data())
def test_csv_reads_back(places: list[dict[str, Any]], networks: bool, data: st.DataObject, tmp_path: Path) -> None:
    answers = [*data.draw(st.lists(st.one_of(st.none(), st.integers(0, len(places) - 1)), max_size=20)), 0]
    table = rows.Rows(content_of(places, answers), rows.DEFAULT_FIELDS, networks=networks)
    path = tmp_path / "ranges.csv"
    path.write_bytes(b"".join(rows.csv_parts(table, lambda _done, _all: None)))
    blocks, gathered = read_all(path, kind="ranges-csv")
    assert gathered.bad == 0
    found = {}
    for first, last, fields in blocks:
        block = geolookup.IPBlock.parse(first, last)
        for value in range(block.first, block.last + 1):
            assert (block.family, value) not in found, "ranges are disjoint"
            found[block.family, value] = fields
    for at, number in enumerate(answers):
        wanted = None if number is None else places[number]
        for got in (found.get((4, FOUR + at)), found.get((6, SIX + at))):
            assert (wanted is None) == (got is None)
            if wanted is not None and got is not None:
                assert (got.country, got.city) == (wanted["country"].strip().upper(), wanted["city"].strip())
                assert got.latitude == wanted["latitude"]
    assert len(found) == 2 * sum(number is not None for number in answers)


def test_the_columns_are_those_asked_for(home: str) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/9", country="US", city="One", latitude=0.1),
            place(2, "8.128.0.0/9", country="US", city="Two, again"),
            place(-3, "9.0.0.0-9.0.0.2", country="DE", city="Drei"),
        ],
    )
    assert exported(home, "csv", fields="country,city,latitude,locid").decode() == (
        "first,last,country,city,latitude,locid\n"
        "8.0.0.0,8.127.255.255,US,One,0.1,1\n"
        '8.128.0.0,8.255.255.255,US,"Two, again",,2\n'
        "9.0.0.0,9.0.0.2,DE,Drei,,-3\n"
    )
    assert exported(home, "csv", fields=["country", "layer", "source", "pending"], networks=True).decode() == (
        "network,country,layer,source,pending\n"
        "8.0.0.0/8,US,default,service,false\n"
        "9.0.0.0/31,DE,custom,custom,false\n"
        "9.0.0.2/32,DE,custom,custom,false\n"
    )
    assert exported(home, "csv", fields="country").decode().splitlines()[1] == "8.0.0.0,8.255.255.255,US"


@pytest.mark.parametrize("fields", ["", "country,country", "first", "no"])
def test_columns_that_are_not_there_are_refused(home: str, fields: str) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    with pytest.raises(geolookup.ColumnError):
        exported(home, "csv", fields=fields)


@pytest.mark.parametrize("networks", [False, True])
def test_parquet_has_the_rows_of_the_csv(home: str, tmp_path: Path, networks: bool) -> None:
    publish_sources(home, tmp_path)
    fields = ("locid", *FIELD_NAMES, "layer", "pending", "source")
    table = parquet.read_table(io.BytesIO(exported(home, "parquet", fields=fields, networks=networks)))
    lines = list(csv.reader(io.StringIO(exported(home, "csv", fields=fields, networks=networks).decode())))
    assert table.column_names == lines[0]

    def cell(value: object) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    assert [[cell(value) for value in row.values()] for row in table.to_pylist()] == lines[1:]
    assert len(lines) > 6
    assert table.schema.field("locid").type == pa.int64()
    assert table.schema.field("latitude").type == pa.float64()
    assert b"City data by Example" in table.schema.metadata[b"description"]


def test_nothing_is_a_file_without_rows(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        written = geolookup.export(geo, "csv", out, layer="custom")
        assert parquet.read_table(io.BytesIO(exported(home, "parquet", layer="custom"))).num_rows == 0
    assert out.getvalue().decode().count("\n") == 1
    assert written.warnings == ("nothing is covered in what was asked for: it holds no addresses",)


def test_parquet_without_pyarrow_names_the_extra(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    for name in list(sys.modules):
        if name.startswith("pyarrow"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "geolookup.exports.parquet", raising=False)
    monkeypatch.delattr(geolookup.exports, "parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "x.parquet"
    with geolookup.open(home) as geo, pytest.raises(geolookup.MissingExtraError, match=r"geolookup\[arrow\]"):
        geolookup.export(geo, "parquet", path)
    assert not path.exists()


def test_gz_compresses_with_the_same_content(home: str, tmp_path: Path) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    path = tmp_path / "ranges.csv.gz"
    with geolookup.open(home) as geo:
        written = geolookup.export(geo, "csv", path)
    content = gzip.decompress(path.read_bytes())
    assert content == exported(home, "csv")
    assert written.size_bytes == len(content)
    assert read_all(path)[1].bad == 0
