"""Polars: eager, lazy and streaming queries on the real engine."""

import polars as pl
import pytest

from geolookup.columns.polars import geo as of  # which registers the namespace, too
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError

ADDRESSES = ["8.8.8.8", None, "bad", "9.0.0.1", "2001:db8::1", "7.0.0.1"]
COUNTRIES = ["FR", None, None, "DE", "US", None]


def test_an_expression_answers_with_country_region_city_and_locid(geo: GeoLookup) -> None:
    ip = pl.col("ip").geo
    found = pl.DataFrame({"ip": ADDRESSES}).select(
        country=ip.country(geo=geo),
        region=ip.region(geo=geo),
        city=ip.city(geo=geo),
        locid=ip.locid(geo=geo),
        layer=ip.field("layer", geo=geo),
    )
    assert found.schema == {"country": pl.String, "region": pl.String, "city": pl.String,
                            "locid": pl.Int64, "layer": pl.String}  # fmt: skip
    assert found["country"].to_list() == COUNTRIES
    assert found["locid"].to_list() == [-1, None, None, 2, 1, None]
    assert found.row(4) == ("US", "CA", "city 1", 1, "default")


def test_the_function_for_type_checkers_is_the_namespace(geo: GeoLookup) -> None:
    frame = pl.DataFrame({"ip": ADDRESSES})
    checked: list[pl.Expr] = [of("ip").country(geo=geo), of(pl.col("ip")).locate("city,locid", geo=geo)]
    namespace = pl.col("ip").geo
    assert frame.select(checked).equals(
        frame.select(namespace.country(geo=geo), namespace.locate("city,locid", geo=geo))
    )


def test_locate_answers_with_a_struct_that_unnests(geo: GeoLookup) -> None:
    frame = pl.DataFrame({"ip": ADDRESSES})
    found = frame.select(pl.col("ip").geo.locate("country,latitude,pending", geo=geo)).unnest("geo")
    assert found.schema == {"country": pl.String, "latitude": pl.Float64, "pending": pl.Boolean}
    assert found.row(0) == ("FR", 47.9, False)
    assert found.row(1) == (None, None, None)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_lazy_query_knows_its_schema_and_answers_in_either_engine(state: str, engine: str) -> None:
    lazy = pl.LazyFrame({"ip": ADDRESSES * 20_000}).with_columns(country=pl.col("ip").geo.country())
    assert lazy.collect_schema()["country"] == pl.String
    counted = lazy.group_by("country").len().sort("country").collect(engine=engine)  # type: ignore[call-overload]
    assert counted.rows() == [(None, 60_000), ("DE", 20_000), ("FR", 20_000), ("US", 20_000)]


def test_a_query_of_a_file_streams(state: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    pl.DataFrame({"ip": ADDRESSES * 1000}).write_parquet(tmp_path / "in.parquet")
    lazy = pl.scan_parquet(tmp_path / "in.parquet").with_columns(pl.col("ip").geo.city().alias("city"))
    lazy.sink_parquet(tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["city"].to_list()[:4] == ["Orléans", None, None, "Köln"]


def test_categorical_integer_and_empty_columns_are_taken(geo: GeoLookup) -> None:
    frame = pl.DataFrame({"c": pl.Series(ADDRESSES, dtype=pl.Categorical), "n": [8 << 24, 9 << 24, None, 0, -1, 1]})
    found = frame.select(pl.col("c").geo.country(geo=geo), pl.col("n").geo.country(prefix="n_", geo=geo))
    assert found["geo_country"].to_list() == COUNTRIES
    assert found["n_country"].to_list() == ["US", "DE", None, None, None, None]
    assert frame.clear().select(pl.col("c").geo.country(geo=geo)).schema == {"geo_country": pl.String}


def test_malformed_addresses_can_be_an_error(geo: GeoLookup) -> None:
    frame = pl.DataFrame({"ip": ADDRESSES})
    with pytest.raises(Exception, match="'bad' is not an IP address"):
        frame.select(pl.col("ip").geo.country(geo=geo, errors="raise"))
    with pytest.raises(ColumnError, match="unknown field 'land'"):
        pl.col("ip").geo.field("land")


def test_answers_have_names_of_their_own_and_the_addresses_stay(geo: GeoLookup) -> None:
    ip = pl.col("ip").geo
    frame = pl.DataFrame({"ip": ["8.8.8.8"], "n": [9 << 24]})
    found = frame.with_columns(
        ip.locate("country,city", geo=geo), ip.city(geo=geo), pl.col("n").geo.country(prefix="", geo=geo)
    )
    assert found.columns == ["ip", "n", "geo", "geo_city", "country"]
    assert found.row(0) == ("8.8.8.8", 9 << 24, {"country": "FR", "city": "Orléans"}, "Orléans", "DE")
    both = frame.with_columns(ip.country(geo=geo).alias("a"), b=ip.country(geo=geo))
    assert both.columns == ["ip", "n", "a", "b"]
    lazy = frame.lazy().with_columns(ip.country(geo=geo), ip.asn(geo=geo))
    assert lazy.collect_schema() == lazy.collect().schema
    assert lazy.collect_schema().names() == ["ip", "n", "geo_country", "geo_asn"]
