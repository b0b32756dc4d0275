"""A column in which few values are addresses draws the question whether it is the right one, once, at every door."""

import json
import re
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from geolookup.cli.app import run
from geolookup.cli.exit_codes import DONE, MALFORMED
from geolookup.columns.arrow import enrich, locate
from geolookup.columns.common import ENOUGH_VALUES, LEAST_VALUES, ColumnWarning, Doubt
from geolookup.lookup.engine import GeoLookup

GOOD, BAD = "8.8.8.8", "order 17"


def asked_by(work: Callable[[], object]) -> list[str]:
    """The questions that come up."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in caught if one.category is ColumnWarning]


@pytest.mark.parametrize(
    ("addresses", "values", "doubted"),
    [(0, 19, False), (0, 20, True), (9, 20, True), (10, 20, False), (12, 10_000, True), (20, 20, False)],
)
def test_fewer_than_half_of_twenty_values_are_doubted(addresses: int, values: int, doubted: bool) -> None:
    doubt = Doubt('column "id"')
    doubt.add(addresses, values)
    asked = f'{addresses:,} of {values:,} values of column "id" are addresses: is it the right one?'
    assert doubt.question() == (asked if doubted else None)
    assert doubt.question() is None


def test_a_stream_is_doubted_after_a_thousand_values_or_at_its_end() -> None:
    doubt = Doubt("it")
    doubt.add(0, ENOUGH_VALUES - 1)
    assert doubt.question(ended=False) is None
    doubt.add(0, 1)
    assert doubt.question(ended=False) == "0 of the first 1,000 values of it are addresses: is it the right one?"


def test_the_likeliest_other_column_is_named() -> None:
    others = {"a": [GOOD, BAD, BAD, BAD], "ip": [GOOD] * 3 + [BAD, None], "b": [GOOD, GOOD, BAD], "n": [1, 2, 3]}
    doubt = Doubt("it", lambda: others)
    doubt.add(0, LEAST_VALUES)
    assert str(doubt.question()).endswith(' Of column "ip", 3 of 4 are.')


def test_nulls_and_addresses_that_are_not_covered_raise_no_doubt(either_geo: GeoLookup) -> None:
    assert not asked_by(lambda: locate(either_geo, pa.array([None] * 100 + ["1.1.1.1"] * 20)))


def test_arrow_asks_once_a_column(either_geo: GeoLookup) -> None:
    asked = asked_by(lambda: locate(either_geo, pa.chunked_array([[BAD] * 15, [BAD] * 15, [GOOD, None]])))
    assert asked == ["1 of 31 values of the column are addresses: is it the right one?"]


def test_a_stream_of_batches_asks_once_and_names_the_likeliest(either_geo: GeoLookup) -> None:
    batch = pa.record_batch({"id": [BAD] * 600, "ip": [GOOD] * 600, "other": [b"\xff"] * 600})
    asked = asked_by(lambda: list(enrich(either_geo, [batch] * 5, column="id")))
    question = 'values of column "id" are addresses: is it the right one? Of column "ip", 600 of 600 are.'
    assert asked == [f"0 of the first 1,200 {question}"]
    asked = asked_by(lambda: list(enrich(either_geo, [batch.slice(0, 30)], column="id")))
    assert asked == ['0 of 30 values of column "id" are addresses: is it the right one? Of column "ip", 30 of 30 are.']


def test_pandas_asks_once_a_series(geo: GeoLookup) -> None:
    pd = pytest.importorskip("pandas")
    import geolookup.columns.pandas  # noqa: F401 - registers the accessor

    accessor = pd.Series([BAD] * 30, name="id").geo
    asked = asked_by(lambda: (accessor.country(geo=geo), accessor.city(geo=geo)))
    assert asked == ['0 of 30 values of column "id" are addresses: is it the right one?']


def test_polars_asks_once_an_expression_and_column(geo: GeoLookup) -> None:
    pl = pytest.importorskip("polars")
    import geolookup.columns.polars  # noqa: F401 - registers the namespace

    frame = pl.DataFrame({"id": [BAD] * 30, "ip": [GOOD] * 30})
    expression = pl.col("id", "ip").geo.country(geo=geo).name.keep()
    asked = asked_by(lambda: (frame.select(expression), frame.lazy().select(expression).collect()))
    assert asked == ['0 of 30 values of column "id" are addresses: is it the right one?']


SQL = "the column given to the geo_ functions"


def test_duckdb_asks_once_a_connection(geo: GeoLookup) -> None:
    duckdb = pytest.importorskip("duckdb")
    from geolookup.columns.duckdb import register

    connection = duckdb.connect()
    register(connection, geo)
    query = f"select geo_country('{BAD}' || range), geo_json('{BAD}' || range) from range(5000)"
    asked = asked_by(lambda: [connection.sql(query).fetchall() for _ in range(2)])
    assert len(asked) == 1
    assert re.fullmatch(rf"0 of (the first )?[\d,]+ values of {SQL} are addresses: is it the right one\?", asked[0])


def test_sqlite_asks_once_a_connection_after_a_thousand_values(geo: GeoLookup) -> None:
    from geolookup.columns.sqlite import register

    connection = sqlite3.connect(":memory:")
    register(connection, geo)
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"
    query = numbers + " select geo_country('x' || i) from n"
    assert not asked_by(lambda: connection.execute(query.format(999)).fetchall())
    asked = asked_by(lambda: connection.execute(query.format(2000)).fetchall())
    assert asked == [f"0 of the first 1,000 values of {SQL} are addresses: is it the right one?"]


def rows_in(folder: Path, form: str, count: int) -> Path:
    path = folder / f"visits.{form}"
    ids = [f"order {number}" for number in range(count)]
    if form == "csv":
        path.write_text("id,client\n" + "".join(f"{one},{GOOD}:443\n" for one in ids))
    elif form == "ndjson":
        path.write_text("".join(json.dumps({"id": one, "client": GOOD}) + "\n" for one in ids))
    else:
        parquet.write_table(pa.table({"id": ids, "client": [GOOD] * count}), path)
    return path


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("command", ["top", "enrich", "enrich to parquet"])
def test_commands_ask_once_and_name_the_likeliest_column(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, command: str
) -> None:
    path = rows_in(tmp_path, form, 40)
    out = [] if command == "top" else [str(tmp_path / f"out.{'parquet' if 'parquet' in command else form}")]
    words = [command.split()[0], str(path), *out, "--column"]
    assert run([*words, "id"]) == MALFORMED
    questions = [line for line in capsys.readouterr().err.splitlines() if "right one" in line]
    question = '0 of 40 values of column "id" are addresses: is it the right one? Of column "client", 40 of 40 are.'
    assert questions == [f"geolookup: warning: {path}: {question}"]
    assert run([*words, "client"]) == DONE
    assert "right one" not in capsys.readouterr().err
