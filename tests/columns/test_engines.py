"""Every field in every engine, by the same name and of its type, against single answers at every boundary."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import geolookup
import geolookup.columns.pandas  # registers the accessor
from geolookup.columns import arrow
from geolookup.columns import duckdb as in_duckdb
from geolookup.columns import sqlite as in_sqlite
from geolookup.columns.common import FIELDS, json_of
from geolookup.columns.polars import geo as of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.facts import FACTS
from tests.columns.test_facts import boundaries, state_of_files
from tests.oracle.single_lookups import single_lookups

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def facts_geo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeoLookup]:
    home = str(tmp_path_factory.mktemp("engines") / "state")
    state_of_files(home)
    with geolookup.open(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def asked(facts_geo: GeoLookup) -> tuple[list[str | None], Rows]:
    texts = [*boundaries(facts_geo)[::5], None, "bad"]
    return texts, single_lookups(facts_geo, texts)


def of_arrow(geo: GeoLookup, texts: list[str | None]) -> Rows:
    batch = pa.record_batch({"ip": pa.array(texts)})
    rows: Rows = next(arrow.enrich(geo, [batch], column="ip", fields=FIELDS)).to_pylist()
    return rows


def of_polars(geo: GeoLookup, texts: list[str | None]) -> Rows:
    frame = pl.DataFrame({"ip": texts}).with_columns(of("ip").field(name, geo=geo) for name in FIELDS)
    struct = pl.DataFrame({"ip": texts}).select(of("ip").locate(FIELDS, geo=geo))
    assert struct.unnest("geo").rename(lambda name: f"geo_{name}").equals(frame.drop("ip"))
    return frame.to_dicts()


def of_pandas(geo: GeoLookup, texts: list[str | None]) -> Rows:
    frame = pd.DataFrame({"ip": texts})
    joined = frame.join(frame["ip"].geo.locate(FIELDS, geo=geo))
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in joined.astype(object).to_dict("records")
    ]


def of_duckdb(geo: GeoLookup, texts: list[str | None]) -> Rows:
    table = pa.table({"ip": pa.array(texts)})
    with duckdb.connect() as connection:
        in_duckdb.register(connection, geo)
        connection.register("visits", table)
        columns = ", ".join(f"geo_{name}(ip) geo_{name}" for name in FIELDS)
        found: Rows = connection.sql(f"select ip, {columns} from visits").to_arrow_table().to_pylist()
        return found


def of_sqlite(geo: GeoLookup, texts: list[str | None]) -> Rows:
    with closing(sqlite3.connect(":memory:")) as connection:
        in_sqlite.register(connection, geo)
        connection.row_factory = sqlite3.Row
        connection.execute("create table visits (ip)")
        connection.executemany("insert into visits values (?)", [(text,) for text in texts])
        columns = ", ".join(f"geo_{name}(ip) geo_{name}" for name in FIELDS)
        return [dict(row) for row in connection.execute(f"select ip, {columns} from visits order by rowid")]


@pytest.mark.parametrize("engine", [of_arrow, of_polars, of_pandas, of_duckdb, of_sqlite])
def test_every_engine_answers_as_match_and_network_do(
    facts_geo: GeoLookup, asked: tuple[list[str | None], Rows], engine: Callable[..., Rows]
) -> None:
    texts, right = asked
    found = engine(facts_geo, texts)
    assert list(found[0]) == ["ip", *(f"geo_{name}" for name in FIELDS)]
    for row, expected in zip(found, right, strict=True):
        assert {name: row[f"geo_{name}"] for name in FIELDS} == expected, row["ip"]
    for fact in FACTS:
        kinds = {type(row[f"geo_{fact.name}"]) for row in found} - {type(None)}
        of_kind = {"text": {str}, "boolean": {bool}}.get(fact.kind, {int})
        assert kinds <= (of_kind if engine is not of_sqlite or fact.kind != "boolean" else {int}), fact


def test_types_are_those_of_the_engine(facts_geo: GeoLookup) -> None:
    names = ("time_zone", "accuracy_radius", "asn", "is_anonymous")
    frame = pl.DataFrame({"ip": ["1.128.0.0"]})
    assert frame.select(of("ip").field(name, geo=facts_geo) for name in names).dtypes == [
        pl.String, pl.UInt16, pl.UInt32, pl.Boolean,
    ]  # fmt: skip
    with duckdb.connect() as connection:
        in_duckdb.register(connection, facts_geo)
        columns = ", ".join(f"typeof(geo_{name}('1.128.0.0'))" for name in names)
        assert connection.execute(f"select {columns}").fetchone() == ("VARCHAR", "USMALLINT", "UINTEGER", "BOOLEAN")


def test_geo_json_of_many_is_that_of_each(facts_geo: GeoLookup, asked: tuple[list[str | None], Rows]) -> None:
    """By the same door as columns, where what records share is written once; SQLite asks for one at a time."""
    texts, _ = asked
    with duckdb.connect() as connection:
        in_duckdb.register(connection, facts_geo)
        rows = connection.execute("select geo_json(a) from (select unnest(?) a)", [texts]).fetchall()
    found = [row[0] for row in rows]
    assert found == [json_of(facts_geo, text) for text in texts]
    assert len(set(found)) > 50


def test_the_accessors_have_a_method_for_each_field(facts_geo: GeoLookup) -> None:
    address = "81.2.69.160"
    series = pd.Series([address])
    frame = pl.DataFrame({"ip": [address]})
    for name in FIELDS:
        wanted = series.geo.field(name, geo=facts_geo)
        pd.testing.assert_series_equal(getattr(series.geo, name)(geo=facts_geo), wanted)
        found = frame.select(getattr(of("ip"), name)(geo=facts_geo, prefix="x_"))
        assert found.equals(frame.select(of("ip").field(name, geo=facts_geo, prefix="x_")))
    with pytest.raises(AttributeError):
        series.geo.land()
