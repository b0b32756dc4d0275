"""The ways to answer a column of addresses with country and city that benchmarks.columns compares: ours and peers'."""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import geolookup
from benchmarks.data import DataSet

#: What is asked for.
FIELDS = ("country", "city")


class Contestant:
    """One way to answer a column. What `prepare` does is not timed, `answer` is; `answered` says what it answered.

    ``needs`` are the packages without which it is left out, ``times`` is how many times as fast ours should be.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    times: ClassVar[float | None] = None

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:
        """Bring the column and the ranges into the form that suits this one best."""
        raise NotImplementedError

    def answer(self) -> object:
        """Country and city of every row, in whichever order, form and place is fastest."""
        raise NotImplementedError

    def answered(self) -> Any:
        """A table of the address as a number (``n``), ``country`` and ``city``, by the same means."""
        raise NotImplementedError


class Ours(Contestant):
    """`locate`: dictionary columns, in the order of the rows."""

    name = "geolookup"

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:
        from geolookup.columns import arrow

        self._geo = geolookup.open(data.home)
        assert self._geo.status().reader == "native", (
            "the accelerator was not built: reinstall where there is a compiler"
        )
        self._locate = arrow.locate
        self._column, self._numbers = column, numbers

    def answer(self) -> Any:
        return self._locate(self._geo, self._column, FIELDS)

    def answered(self) -> Any:
        found = self.answer()
        return pa.table({"n": self._numbers, **{name: found[name].dictionary_decode() for name in FIELDS}})


class OursDictionary(Ours):
    """The same, for a column that is dictionary-encoded."""

    name = "geolookup, dictionary-encoded column"

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:
        super().prepare(data, column.dictionary_encode(), numbers)


def _ranges(data: DataSet) -> dict[str, Any]:
    owner = pa.array(data.owner4)
    texts = {name: pa.array(data.texts(name)).take(owner) for name in FIELDS}
    return {"first": pa.array(data.first4), "last": pa.array(data.last4), **texts}


class Polars(Contestant):
    """polars-iptools reads the text, the numbers are sorted, and `join_asof` finds the range before each.

    Categorical places and eager calls were faster than String ones, lazy ones and the streaming engine.
    """

    name = "Polars, polars-iptools, join_asof"
    needs = ("polars", "polars_iptools")
    times: ClassVar[float | None] = 3
    _in_order = False

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:  # noqa: ARG002 - it reads the text
        import polars as pl
        import polars_iptools  # type: ignore[import-untyped] # it has no types

        assert pl.thread_pool_size() == 1
        self._pl, self._tools = pl, polars_iptools
        ranges = pl.DataFrame(pa.table(_ranges(data)))
        self._ranges = ranges.with_columns(
            pl.col("first").set_sorted(), *(pl.col(name).cast(pl.Categorical) for name in FIELDS)
        )
        self._asked = pl.DataFrame({"ip": pl.from_arrow(column)})

    def _joined(self) -> Any:
        numbers = self._asked.select(self._tools.ipv4_to_numeric("ip").alias("n"))
        if self._in_order:
            numbers = numbers.with_row_index("row")
        found = numbers.sort("n").join_asof(self._ranges, left_on="n", right_on="first")
        return found.sort("row") if self._in_order else found

    def _inside(self) -> list[Any]:
        pl = self._pl
        return [pl.when(pl.col("n") <= pl.col("last")).then(pl.col(name)).alias(name) for name in FIELDS]

    def answer(self) -> Any:
        return self._joined().select(*self._inside())

    def answered(self) -> Any:
        found = self._joined().select("n", *self._inside())
        return found.with_columns(self._pl.col(*FIELDS).cast(self._pl.String)).to_arrow()


class PolarsInOrder(Polars):
    """The same, put back into the order of the rows, as ours are."""

    name = "Polars, the same, rows in their order"
    times: ClassVar[float | None] = None
    _in_order = True


class Chdb(Contestant):
    """A dictionary of ClickHouse with the layout `ip_trie`, asked for both attributes at once; answers are dropped."""

    name = "chdb, ip_trie dictionary"
    needs = ("chdb",)
    times: ClassVar[float | None] = 6
    _QUERY = (
        "SELECT {} dictGet('places', ('country', 'city'), n) AS place, place.1 AS country, place.2 AS city"
        " FROM (SELECT IPv4StringToNum(ip) AS n FROM asked) SETTINGS max_threads = 1"
    )

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:  # noqa: ARG002 - it reads the text
        import chdb

        # Found by their names: chdb reads Python's variables.
        given = pa.table({"ip": column})
        prefixes = [
            f"{first >> 24}.{first >> 16 & 255}.{first >> 8 & 255}.{first & 255}/{bits}"
            for first, bits in zip(data.first4.tolist(), data.bits4.tolist(), strict=True)
        ]
        ranges = pa.table({"prefix": prefixes, "one": np.ones(len(prefixes), np.uint8), **_ranges(data)})
        self._engine = chdb.connect(":memory:")  # type: ignore[no-untyped-call] # it has no types
        for statement in (
            "CREATE TABLE asked (ip String) ENGINE = Memory",
            "INSERT INTO asked SELECT ip FROM Python(given)",
            *self._statements(),
        ):
            self._engine.query(statement)
        del given, ranges

    def _statements(self) -> tuple[str, ...]:
        return (
            "CREATE TABLE ranges (prefix String, country String, city String) ENGINE = Memory",
            "INSERT INTO ranges SELECT prefix, country, city FROM Python(ranges)",
            (
                "CREATE DICTIONARY places (prefix String, country String, city String) PRIMARY KEY prefix"
                " SOURCE(CLICKHOUSE(TABLE 'ranges')) LAYOUT(IP_TRIE) LIFETIME(0)"
            ),
            "SYSTEM RELOAD DICTIONARY places",
        )

    def answer(self) -> Any:
        return self._engine.query(f"SELECT country, city FROM ({self._QUERY.format('')})", "Null")

    def answered(self) -> Any:
        return self._engine.query(f"SELECT n, country, city FROM ({self._QUERY.format('n,')})", "ArrowTable")


class ChdbAsof(Chdb):
    """ClickHouse's ASOF join, over low-cardinality places."""

    name = "chdb, ASOF join"
    times: ClassVar[float | None] = None
    # Its ASOF join asks for an equality too.
    _QUERY = (
        "SELECT {} if(n <= last, country, '') AS country, if(n <= last, city, '') AS city"
        " FROM (SELECT IPv4StringToNum(ip) AS n, 1::UInt8 AS one FROM asked) AS asked"
        " ASOF LEFT JOIN sorted ON asked.one = sorted.one AND n >= sorted.first SETTINGS max_threads = 1"
    )

    def _statements(self) -> tuple[str, ...]:
        return (
            (
                "CREATE TABLE sorted (one UInt8, first UInt32, last UInt32, country LowCardinality(String),"
                " city LowCardinality(String)) ENGINE = Memory"
            ),
            "INSERT INTO sorted SELECT one, first, last, country, city FROM Python(ranges)",
        )


class DuckDB(Contestant):
    """DuckDB's ASOF join over ENUM places, into Arrow; text becomes a number by arithmetic, as fast as we know how."""

    name = "DuckDB, ASOF join"
    needs = ("duckdb",)
    times = 8
    _QUERY = (
        "SELECT {} CASE WHEN n <= last THEN country END AS country, CASE WHEN n <= last THEN city END AS city"
        " FROM (SELECT list_reduce(string_split(ip, '.')::UINTEGER[], lambda a, b: a * 256 + b) AS n FROM asked)"
        " ASOF LEFT JOIN ranges ON n >= first"
    )

    def prepare(self, data: DataSet, column: Any, numbers: Any) -> None:  # noqa: ARG002 - it reads the text
        import duckdb

        self._engine = engine = duckdb.connect()
        engine.execute("SET threads = 1; SET preserve_insertion_order = false")
        engine.register("given_ranges", pa.table(_ranges(data)))
        engine.register("given", pa.table({"ip": column}))
        for name in FIELDS:
            engine.execute(f"CREATE TYPE {name}_enum AS ENUM (SELECT DISTINCT {name} FROM given_ranges ORDER BY 1)")
        engine.execute(
            "CREATE TABLE ranges AS SELECT first, last, country::country_enum AS country, city::city_enum AS city"
            " FROM given_ranges ORDER BY first"
        )
        engine.execute("CREATE TABLE asked AS SELECT ip FROM given")

    def answer(self) -> Any:
        return self._engine.sql(self._QUERY.format("")).to_arrow_table()

    def answered(self) -> Any:
        return self._engine.sql(self._QUERY.format("n,")).to_arrow_table()


CONTESTANTS: dict[str, type[Contestant]] = {
    one.__name__: one for one in (Ours, OursDictionary, Polars, PolarsInOrder, Chdb, ChdbAsof, DuckDB)
}
