"""pandas: the accessor on series of every kind that holds addresses."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import geolookup.columns.pandas  # noqa: F401 - registers the accessor
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, InvalidAddressError

ADDRESSES = ["8.8.8.8", None, "bad", "9.0.0.1", "7.0.0.1"]


def listed(series: Any) -> list[Any]:
    return [None if pd.isna(value) else value for value in series]


@pytest.mark.parametrize("kind", [object, "str", "category", pd.ArrowDtype(pa.string())], ids=str)
def test_a_series_answers_with_its_own_index(geo: GeoLookup, kind: Any) -> None:
    series = pd.Series(ADDRESSES, dtype=kind, index=[5, 3, 3, 1, 0], name="ip")
    assert listed(series.geo.country(geo=geo)) == ["FR", None, None, "DE", None]
    assert listed(series.geo.city(geo=geo)) == ["Orléans", None, None, "Köln", None]
    assert listed(series.geo.region(geo=geo)) == ["", None, None, "", None]
    assert listed(series.geo.locid(geo=geo)) == [-1, None, None, 2, None]
    assert series.geo.country(geo=geo).index.tolist() == [5, 3, 3, 1, 0]


def test_locate_gives_a_frame_that_joins(state: str) -> None:
    frame = pd.DataFrame({"ip": ADDRESSES}, index=list("abcde"))
    joined = frame.join(frame["ip"].geo.locate("country,longitude,pending"))
    assert joined.columns.tolist() == ["ip", "geo_country", "geo_longitude", "geo_pending"]
    assert frame["ip"].geo.locate("country,city", prefix="from_").columns.tolist() == ["from_country", "from_city"]
    assert [frame["ip"].geo.city().name, frame["ip"].geo.city(prefix="").name] == ["geo_city", "city"]
    assert joined.loc["a"].tolist() == ["8.8.8.8", "FR", 1.5, False]


def test_series_of_several_chunks_of_numbers_and_empty_ones_are_taken(geo: GeoLookup) -> None:
    chunked = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([["8.8.8.8"], ["9.0.0.1"]])))
    assert listed(chunked.geo.country(geo=geo)) == ["FR", "DE"]
    assert listed(pd.Series([8 << 24, 9 << 24]).geo.country(geo=geo)) == ["US", "DE"]
    assert listed(pd.Series([], dtype="str").geo.country(geo=geo)) == []


def test_what_holds_no_addresses_is_refused(geo: GeoLookup) -> None:
    with pytest.raises(ColumnError, match="not timestamp"):
        pd.Series(pd.to_datetime(["2026-01-01"])).geo.country(geo=geo)
    with pytest.raises(ColumnError, match="not double"):
        pd.Series([1.5]).geo.country(geo=geo)
    with pytest.raises(InvalidAddressError, match="row 2: 'bad'"):
        pd.Series(ADDRESSES).geo.country(geo=geo, errors="raise")
