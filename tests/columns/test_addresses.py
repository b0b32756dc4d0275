"""Addresses as bytes, numbers of 32 to 256 bits and objects in every engine: each form of one has one answer."""

import ipaddress
import sqlite3
import struct
from contextlib import closing
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup.columns.pandas  # noqa: F401 - registers the accessor
from geolookup.columns import duckdb as in_duckdb
from geolookup.columns import sqlite as in_sqlite
from geolookup.columns.arrow import MALFORMED_KEY, locate
from geolookup.columns.batches import of_columns
from geolookup.columns.common import address_text
from geolookup.columns.polars import geo as of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, InvalidAddressError
from tests.columns.conftest import PLACES
from tests.columns.test_unsound_arrays import array_of
from tests.oracle.single_lookups import single_lookups
from tests.support.data.states import place, publish

TEXTS = [
    "8.0.0.1", "8.8.8.8", "9.255.255.255", "0.0.0.0", "255.255.255.255", "2001:db8::1", "2001:db8:0:1::8",
    "2001:db8:8::", "::", "::1", "::808:808", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fd00::1", "2002:808:808::1",
]  # fmt: skip
FIELDS = ("locid", "first", "network", "time_zone")
MAPPED = int(ipaddress.ip_address("::ffff:8.8.8.8"))


@pytest.fixture
def wide(either_geo: GeoLookup, home: str) -> GeoLookup:
    """A state that covers addresses whose first bit is set, too."""
    publish(home, [*PLACES, place(-9, "fc00::/7", country="NL"), place(7, "::/96", country="PL")])
    either_geo.look_soon()
    return either_geo


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def number(text: str) -> int:
    return int(ipaddress.ip_address(text))


def chosen(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in FIELDS} for row in answers]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_bytes_are_addresses_of_their_length(wide: GeoLookup, kind: Any, encoded: bool) -> None:
    odd = [
        b"",
        b"8.8.8.8",
        bytes(5),
        bytes(15),
        bytes(17),
        b"8.8.8.88",
        bytes(10) + b"\xff\xff\x08\x08\x08\x08",
    ]
    values = [None, *map(packed, TEXTS), *odd, None]
    if encoded and kind == pa.binary_view():
        pytest.skip("Arrow makes no dictionary of views")
    column = pa.array([b"1234", *values], kind)
    column = (column.dictionary_encode() if encoded else column).slice(1)
    right = single_lookups(wide, [None, *TEXTS, *["bad"] * 6, "::ffff:8.8.8.8", None])
    found = locate(wide, column, FIELDS)
    assert found.to_pylist() == chosen(right)
    assert found.schema.metadata[MALFORMED_KEY] == b"6"


@pytest.mark.parametrize("width", [4, 16])
def test_bytes_of_a_fixed_length_are_addresses(wide: GeoLookup, width: int) -> None:
    texts = [text for text in TEXTS if len(packed(text)) == width]
    column = pa.array([bytes(width), None, *map(packed, texts)], pa.binary(width)).slice(1)
    assert locate(wide, column, FIELDS).to_pylist() == chosen(single_lookups(wide, [None, *texts]))
    assert locate(wide, column.slice(0, 0), FIELDS).num_rows == 0
    with pytest.raises(ColumnError, match="not fixed_size_binary"):
        locate(wide, pa.array([bytes(5)], pa.binary(5)), FIELDS)


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.decimal256(76, 0)], ids=str)
def test_wide_numbers_are_addresses_of_both_families(wide: GeoLookup, kind: Any) -> None:
    most = 10**38 - 1 if kind == pa.decimal128(38, 0) else 10**76 - 1
    texts = [text for text in TEXTS if number(text) <= most and (":" not in text or number(text) >> 32)]
    wrong = [-1, -(10**38 - 1), *([2**128, 2**200] if most > 2**128 else [])]
    column = pa.array([*map(Decimal, [7, *map(number, texts), MAPPED, *wrong]), None], kind).slice(1)
    right = single_lookups(wide, [*texts, "::ffff:8.8.8.8", *["bad"] * len(wrong), None])
    found = locate(wide, column, FIELDS)
    assert found.to_pylist() == chosen(right)
    assert found.schema.metadata[MALFORMED_KEY] == str(len(wrong)).encode()
    with pytest.raises(ColumnError, match="not decimal128"):
        locate(wide, pa.array([Decimal("1.5")], pa.decimal128(38, 1)), FIELDS)


@given(
    st.lists(st.none() | st.binary(max_size=18) | st.sampled_from(TEXTS).map(packed), max_size=30), st.integers(0, 3)
)
def test_any_bytes_are_answered_as_their_text_is(either_geo: GeoLookup, values: list[bytes | None], skip: int) -> None:
    texts = [None if value is None else address_text(value) for value in values]
    column = pa.array([b"x" * skip] * skip + values, pa.binary()).slice(skip)
    assert locate(either_geo, column, ("locid", "city")).to_pylist() == [
        {"locid": row["locid"], "city": row["city"]} for row in single_lookups(either_geo, texts)
    ]


@pytest.mark.parametrize(
    ("kind", "own", "row"),
    [
        (pa.binary(), struct.pack("3i", 0, 4, 99), 1),
        (pa.binary(), struct.pack("3i", 0, -4, 8), 0),
        (pa.large_binary(), struct.pack("3q", 0, 4, 1 << 40), 1),
        (pa.binary_view(), struct.pack("i12s4i", 4, b"\x08" * 4, 16, 0, 0, 0), 1),
        (pa.binary_view(), struct.pack("i12s4i", 4, b"\x08" * 4, 16, 0, 3, 0), 1),
    ],
)
def test_bytes_outside_of_their_buffers_are_refused(either_geo: GeoLookup, kind: Any, own: bytes, row: int) -> None:
    column = array_of(kind, 2, None, own, bytes(8))
    with pytest.raises(ColumnError, match=f"row {row}: its text is outside"):
        locate(either_geo, column)


@pytest.mark.parametrize(("size", "kind"), [("i", pa.binary()), ("q", pa.large_binary())])
def test_a_dictionary_of_bytes_outside_of_their_buffers_is_refused_if_it_uses_them(
    either_geo: GeoLookup, size: str, kind: Any
) -> None:
    room = bytearray(struct.calcsize(f"3{size}"))
    values = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(room), pa.py_buffer(packed("8.8.8.8"))])
    used, unused = (pa.DictionaryArray.from_arrays(pa.array(numbers), values) for numbers in ([0, 1], [0]))
    room[:] = struct.pack(f"3{size}", 0, 4, 99)
    with pytest.raises(ColumnError, match="row 1: its text is outside"):
        locate(either_geo, used)
    assert locate(either_geo, unused, ("locid",)).column(0).to_pylist() == [-1]


def test_malformed_bytes_and_numbers_are_named(geo: GeoLookup) -> None:
    with pytest.raises(InvalidAddressError, match=r"row 1: b'abc' is not an IP address"):
        locate(geo, pa.array([packed("8.8.8.8"), b"abc"]), errors="raise")
    with pytest.raises(InvalidAddressError, match=r"row 0: Decimal.*-1.* is not an IP address"):
        locate(geo, pa.array([Decimal(-1)]), errors="raise")


def test_columns_of_other_forms_are_counted(geo: GeoLookup) -> None:
    column = pa.array([packed("8.8.8.8"), None, packed("2001:db8::1"), b"abc"])
    assert dict(next(iter(of_columns([column]))).found) == {b"8.8.8.8": 1, b"2001:db8::1": 1, b"b'abc'": 1}


MIXED: list[Any] = [
    "8.8.8.8", ipaddress.ip_address("8.8.8.8"), packed("8.8.8.8"), number("8.8.8.8"), np.int64(number("8.8.8.8")),
    float(number("8.8.8.8")), Decimal(number("8.8.8.8")), ipaddress.ip_address("2001:db8::1"), packed("2001:db8::1"),
    number("2001:db8::1"), None, float("nan"), "bad", b"bad", 1.5, -1, 2**128, True, object(), ["8.8.8.8"],
    ipaddress.ip_address("fe80::1%eth0"), float("inf"),
]  # fmt: skip
RIGHT = ["FR"] * 7 + ["US"] * 3 + [None] * 12


def test_one_bad_object_is_one_missing_value_in_pandas(geo: GeoLookup) -> None:
    def countries(values: list[Any], **kind: Any) -> list[Any]:
        found = pd.Series(values, **kind).geo.country(geo=geo)
        return [None if pd.isna(value) else value for value in found]

    assert countries(MIXED, dtype=object) == RIGHT
    for value, right in zip(MIXED, RIGHT, strict=True):
        assert countries([value, None], dtype=object) == [right, None], value
    assert countries([number("8.8.8.8"), None, 1.5]) == ["FR", None, None]
    assert countries([ipaddress.ip_address("8.8.8.8"), ipaddress.ip_address("2001:db8::1")]) == ["FR", "US"]
    assert countries([number("2001:db8::1"), None, 5]) == ["US", None, None]
    assert countries([number("8.8.8.8"), None], dtype="Int64") == ["FR", None]
    assert pd.Series(MIXED, dtype=object).geo.asn(geo=geo).isna().all()
    with pytest.raises(InvalidAddressError, match="row 12: 'bad'"):
        pd.Series(MIXED, dtype=object).geo.country(geo=geo, errors="raise")


def test_one_bad_object_is_one_null_in_polars(geo: GeoLookup) -> None:
    frame = pl.DataFrame({"ip": pl.Series(MIXED, dtype=pl.Object)})
    assert frame.select(of("ip").country(geo=geo)).to_series().to_list() == RIGHT
    both = [number("8.8.8.8"), None, number("2001:db8::1"), -1]
    for kind, values in ((pl.Int128, both), (pl.UInt128, both[:3]), (pl.Binary, [packed("8.8.8.8"), None, b"x"])):
        found = pl.DataFrame({"ip": pl.Series(values, dtype=kind)}).lazy().select(of("ip").country(geo=geo)).collect()
        assert found.to_series().to_list() == ["FR", None, "US" if kind != pl.Binary else None, None][: len(values)]


def test_duckdb_takes_every_form_and_registers_twice(wide: GeoLookup, geo: GeoLookup) -> None:
    with duckdb.connect() as connection:
        in_duckdb.register(connection, geo)
        in_duckdb.register(connection, wide)

        def ask(value: str) -> Any:
            query = f"select geo_country({value}), geo_locid({value}), geo_json({value})"
            return connection.execute(query).fetchall()[0][0]

        four, six = number("8.8.8.8"), number("2001:db8::1")
        for kind in ("UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "INTEGER"):
            assert ask(f"{four}::{kind}") == "FR"
            assert ask(f"null::{kind}") is None
        for kind in ("HUGEINT", "UHUGEINT"):
            assert ask(f"{six}::{kind}") == "US"
        assert ask(f"{number('fd00::1')}::UHUGEINT") == "NL"
        assert [ask("-1"), ask("-1::HUGEINT"), ask("'bad'"), ask("''::BLOB"), ask("null")] == [None] * 5
        assert ask("'\\x08\\x08\\x08\\x08'::BLOB") == "FR"
        assert ask(f"unhex('{packed('fd00::1').hex()}')") == "NL"
        rows = f"(select i + {four} n from range(100000) r(i))"
        counted = f"select sum((geo_country(n) = 'FR')::int), sum((geo_country(n::uhugeint) = 'FR')::int) from {rows}"
        assert connection.sql(counted).fetchall() == [(63480, 63480)]
        assert connection.cursor().sql(f"select geo_country({four})").fetchall() == [("FR",)]
        with (
            connection.cursor() as other,
            pytest.raises(ColumnError, match="another connection to this database has registered them"),
        ):
            in_duckdb.register(other, geo)
        connection.begin()
        with pytest.raises(ColumnError, match="inside a transaction"):
            in_duckdb.register(connection, geo)
        connection.rollback()
        assert ask(str(four)) == "FR"


def test_sqlite_takes_bytes(geo: GeoLookup) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        in_sqlite.register(connection, geo)
        for text in ("8.8.8.8", "2001:db8::1"):
            asked = connection.execute("select geo_locid(?), geo_locid(?)", (packed(text), text)).fetchone()
            assert asked[0] == asked[1] is not None
        assert connection.execute("select geo_locid(x'0808')").fetchone() == (None,)
