"""The kernel: every type of column against single lookups, nulls, malformed text, what is copied and what is not."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.columns.arrow import MALFORMED_KEY, NOT_COVERED_KEY, Located, answers_of, enrich, locate
from geolookup.columns.arrow_index import ArrowIndex
from geolookup.columns.common import FIELDS
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, IndexDamagedError, InvalidAddressError, StateError
from tests.index.building import ADDRESSES
from tests.oracle.single_lookups import single_lookups
from tests.support.data.states import place, publish
from tests.support.examples import examples

ADDRESS_TEXTS = [
    "8.0.0.1", "8.8.8.8", "9.255.255.255", "10.0.0.0", "11.0.0.0", "11.0.1.0", "7.255.255.255", "0.0.0.0",
    "255.255.255.255", "2001:db8::1", "2001:db8:8::", "2001:db8:0:1::7", "2001:db8:0:1::8", "2001:db8:0:1::f",
    "2001:db8:0:1::10", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:8.8.8.8", "::ffff:808:808",
]  # fmt: skip
BAD_TEXTS = [
    "", " ", "8.8.8", "8.8.8.8.8", "08.8.8.8", "8.8.8.08", "8.8.8.256", "8.8.8.8 ", " 8.8.8.8", "8.8.8.", ".8.8.8",
    "8..8.8", "+8.8.8.8", "8.8.8.8\n", "8.8.8.8\0", "0x8.8.8.8", "134744072", "8.8.8.-1", "８.8.8.8", "fe80::1%eth0",
    "1::2::3", "::ffff:8.8.8.08", "8.8.8.8/32", "not covered", "1111.1.1.1", "8.8.8.00", "999999999999999",
]  # fmt: skip


def text_types() -> list[Any]:
    return [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


def column_of(texts: list[str | None], kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        return pa.array(texts, pa.string()).dictionary_encode()
    return pa.array(texts, kind)


@pytest.mark.parametrize("kind", text_types(), ids=str)
def test_a_column_of_text_is_answered_as_single_lookups_are(either_geo: GeoLookup, kind: Any) -> None:
    texts = [*ADDRESS_TEXTS, None, *BAD_TEXTS, *ADDRESS_TEXTS]
    found = locate(either_geo, column_of(texts, kind), FIELDS)
    expected = single_lookups(either_geo, texts)
    assert found.to_pylist() == expected
    assert any(row["layer"] == "custom" for row in expected)
    assert any(row["layer"] == "default" for row in expected)
    not_covered = sum(row["locid"] is None for row in expected) - len(BAD_TEXTS) - 1
    assert found.schema.metadata == {
        MALFORMED_KEY: str(len(BAD_TEXTS)).encode(),
        NOT_COVERED_KEY: str(not_covered).encode(),
    }


@given(
    texts=st.lists(
        st.one_of(
            st.none(),
            st.sampled_from(ADDRESS_TEXTS),
            st.sampled_from(BAD_TEXTS),
            st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", fullmatch=True),
            st.text("0189.:af ", max_size=17),
        ),
        max_size=40,
    ),
    before=st.lists(st.sampled_from([None, "8.8.8.8", "2001:db8::1", ""]), max_size=20),
    kind=st.sampled_from(text_types()),
)
def test_any_slice_of_any_text_is_answered_as_single_lookups_are(
    either_geo: GeoLookup, texts: list[str | None], before: list[str | None], kind: Any
) -> None:
    column = column_of(before + texts, kind).slice(len(before))
    assert locate(either_geo, column, ("locid", "city")).to_pylist() == [
        {"locid": row["locid"], "city": row["city"]} for row in single_lookups(either_geo, texts)
    ]


def test_the_accelerator_was_asked_where_it_is_there(either_geo: GeoLookup) -> None:
    pure = os.environ.get("GEOLOOKUP_PURE") == "1"
    assert answers_of(either_geo, FIELDS).finder.accelerated is not pure


@pytest.mark.parametrize(
    "kind",
    [pa.uint8(), pa.int8(), pa.uint16(), pa.int16(), pa.uint32(), pa.int32(), pa.uint64(), pa.int64()],
    ids=str,
)
def test_whole_numbers_are_ipv4_addresses(either_geo: GeoLookup, kind: Any) -> None:
    numbers = [0, 1, 127, 8 << 24, (8 << 24) + (8 << 16) + 8, -1, 2**31 - 1, 2**32 - 1, 2**32, 2**63 - 1, None]
    width = kind.bit_width
    lowest, highest = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if str(kind)[0] == "i" else (0, 2**width - 1)
    fitting = [number for number in numbers if number is None or lowest <= number <= highest]
    found = locate(either_geo, pa.array([None, *fitting], kind).slice(1), ("country", "first", "last"))
    places = [
        None if number is None or not 0 <= number < 2**32 else either_geo.lookup_integer(number, family=4)
        for number in fitting
    ]
    assert found.column(0).to_pylist() == [None if place is None else place.country for place in places]
    malformed = sum(number is not None and not 0 <= number < 2**32 for number in fitting)
    assert found.schema.metadata[MALFORMED_KEY] == str(malformed).encode()


@examples(30)
@given(
    addresses=st.lists(st.tuples(st.sampled_from((4, 6)), st.integers(0, 20)), min_size=1, max_size=30),
    ranges=st.lists(
        st.tuples(st.sampled_from((4, 6)), st.integers(0, 20), st.integers(0, 20), st.sampled_from((1, -1, 2, -2))),
        max_size=8,
    ),
    pure=st.booleans(),
)
def test_columns_agree_with_single_lookups_on_colliding_blocks(
    tmp_path_factory: pytest.TempPathFactory, addresses: Any, ranges: Any, pure: bool
) -> None:
    from geolookup.model.addresses import to_text

    def at(family: int, number: int) -> str:
        return to_text(family, ADDRESSES[family][number % len(ADDRESSES[family])])

    places: dict[int, list[str]] = {9: ["200.0.0.0/8"]}
    for family, one, other, locid in ranges:
        low, high = sorted(
            (ADDRESSES[family][one % len(ADDRESSES[family])], ADDRESSES[family][other % len(ADDRESSES[family])])
        )
        places.setdefault(locid, []).append(f"{to_text(family, low)}-{to_text(family, high)}")
    home = str(tmp_path_factory.mktemp("collide"))
    publish(home, [place(locid, *sorted(set(blocks))) for locid, blocks in places.items()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_PURE", str(int(pure)))
        with GeoLookup(home) as geo:
            texts = [at(family, number) for family, number in addresses]
            assert locate(geo, pa.array(texts), FIELDS).to_pylist() == single_lookups(geo, texts)


def test_a_chunked_column_gives_a_table_of_its_chunks(geo: GeoLookup) -> None:
    chunks = pa.chunked_array([["8.8.8.8", "x"], [], ["9.0.0.1", None]], pa.string())
    found = locate(geo, chunks, ("country",))
    assert isinstance(found, pa.Table)
    assert found.column("country").to_pylist() == ["FR", None, "DE", None]
    assert found.schema.metadata[MALFORMED_KEY] == b"1"
    none = locate(geo, pa.chunked_array([], pa.string()), FIELDS)
    assert (none.num_rows, none.schema.names) == (0, list(FIELDS))


@pytest.mark.parametrize("kind", [*text_types(), pa.null(), pa.uint32()], ids=str)
def test_a_column_without_rows_or_values_has_the_same_types(either_geo: GeoLookup, kind: Any) -> None:
    full = locate(either_geo, pa.array(["8.8.8.8"]), FIELDS)
    for rows in ([], [None, None]):
        found = locate(either_geo, pa.array(rows, kind), FIELDS)
        assert found.schema.types == full.schema.types
        assert found.to_pylist() == [dict.fromkeys(FIELDS)] * len(rows)


def test_the_types_are_those_documented(geo: GeoLookup) -> None:
    found = locate(geo, pa.array(["8.8.8.8"]), ("country", "latitude", "locid", "pending", "layer", "first"))
    assert list(map(str, found.schema.types)) == [
        "dictionary<values=string, indices=int32, ordered=0>",
        "double",
        "int64",
        "bool",
        "dictionary<values=string, indices=int8, ordered=0>",
        "string",
    ]


def test_unknown_coordinates_are_null_and_unknown_text_is_empty(geo: GeoLookup) -> None:
    found = locate(geo, pa.array(["9.0.0.1", "8.0.0.1"]), ("latitude", "region"))
    assert found.to_pylist() == [{"latitude": None, "region": ""}, {"latitude": 37.5, "region": "CA"}]


def test_text_looks_into_the_mapped_file_without_a_copy(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    with GeoLookup(home) as geo:
        found = locate(geo, pa.array(["8.8.8.8"]), ("country", "city"))
        mapped = geo.with_readers(lambda base, _: base).arrays()["strings.bytes"].ctypes.data
        assert [column.dictionary.buffers()[2].address for column in found.columns] == [mapped, mapped]


def test_text_of_the_custom_layer_is_added_once_and_never_twice(geo: GeoLookup) -> None:
    first, second = (locate(geo, pa.array([text]), ("city",)).column(0).dictionary for text in ("8.8.8.8", "9.0.0.1"))
    assert first.buffers()[2].address == second.buffers()[2].address
    texts = first.to_pylist()
    assert len(set(texts)) == len(texts)
    assert {"Köln", "Orléans"} <= set(texts)


def test_answers_outlive_the_geolookup_that_gave_them(state: str) -> None:
    with GeoLookup(state) as geo:
        found = locate(geo, pa.array(["8.8.8.8", "9.1.1.1"] * 100), ("city",))
    del geo
    gc.collect()
    assert found.column(0).to_pylist() == ["Orléans", "Köln"] * 100


def test_malformed_text_can_be_an_error_that_names_the_row(geo: GeoLookup) -> None:
    with pytest.raises(InvalidAddressError, match=r"row 2: '8\.8\.8' is not an IP address"):
        locate(geo, pa.array(["8.8.8.8", None, "8.8.8"]), errors="raise")
    with pytest.raises(InvalidAddressError, match=r"row 3: -1 is not an IPv4 address"):
        locate(geo, pa.chunked_array([[1, 2], [3, -1]]), errors="raise")
    assert locate(geo, pa.array(["8.8.8.8", None]), ("country",), errors="raise").num_rows == 2


def test_bytes_that_are_no_text_are_malformed(either_geo: GeoLookup) -> None:
    column = pa.StringArray.from_buffers(
        2, pa.array([0, 7, 14], pa.int32()).buffers()[1], pa.py_buffer(b"8.8.8.\xff8.8.8.8")
    )
    assert locate(either_geo, column, ("country",)).column(0).to_pylist() == [None, "FR"]
    with pytest.raises(InvalidAddressError, match="row 0: the address is not text in UTF-8"):
        locate(either_geo, column, errors="raise")


def test_only_values_that_a_dictionary_column_uses_count_as_malformed(geo: GeoLookup) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([2, None, 2]), pa.array(["bad", "worse", "8.8.8.8", None]))
    found = locate(geo, column, ("country",))
    assert (found.column(0).to_pylist(), found.schema.metadata[MALFORMED_KEY]) == (["FR", None, "FR"], b"0")
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 3, 0, 2, 2, 2]), column.dictionary)
    assert locate(geo, twice, ("country",)).schema.metadata[MALFORMED_KEY] == b"2"


@pytest.mark.parametrize(
    ("column", "fields", "message"),
    [
        (pa.array([1.5]), ("country",), "not double"),
        (pa.array([[b"8.8.8.8"]]), ("country",), "not list<item: binary>"),
        (pa.array([1.5]).dictionary_encode(), ("country",), "not double"),
        (pa.array([], pa.float64()), ("country",), "not double"),
        (["8.8.8.8"], ("country",), "not list"),
        (pa.array(["8.8.8.8"]), ("land",), "unknown field 'land': the fields are locid, country"),
        (pa.array(["8.8.8.8"]), ("city", "city"), "only once"),
        (pa.array(["8.8.8.8"]), (), "at least one"),
    ],
)
def test_what_cannot_be_located_is_refused(geo: GeoLookup, column: Any, fields: Any, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        locate(geo, column, fields)


def test_the_settings_state_answers_where_none_is_given(state: str) -> None:
    assert locate(None, pa.array(["8.8.8.8"]), "country").column(0).to_pylist() == ["FR"]


def test_columns_follow_what_is_published_and_a_closed_one_refuses(state: str) -> None:
    with GeoLookup(state) as geo:
        assert locate(geo, pa.array(["8.8.8.8"]), ("country",)).column(0).to_pylist() == ["FR"]
        publish(state, [place(1, "8.0.0.0/8", country="NL")])
        geo.look_soon()
        assert locate(geo, pa.array(["8.8.8.8"]), ("country",)).column(0).to_pylist() == ["NL"]
    with pytest.raises(StateError):
        locate(geo, pa.array(["8.8.8.8"]))


@pytest.mark.parametrize("pure", ["0", "1"])
@pytest.mark.parametrize("section", ["strings.bytes", "strings.offsets", "loc.city", "v4.slot"])
def test_a_damaged_index_is_an_error_and_the_generation_before_serves(
    state: str, section: str, pure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", pure)
    publish(state, [place(1, "8.0.0.0/8", country="NL", city="Älst")])
    path = Path(state, "generations", "000002", "index")
    with IndexReader.open(path) as reader:
        found = reader.header.sections[section]
    data = bytearray(path.read_bytes())
    if section == "strings.offsets":
        data[found.begin + 4 : found.end - 4] = b"\xff\xff\xff\x7f" * (found.length - 2)
    else:
        data[found.begin : found.end] = (b"\xf0\xff\xff\x7f" * (found.end - found.begin))[: found.end - found.begin]
    path.write_bytes(data)
    with GeoLookup(state) as geo:
        assert locate(geo, pa.array(["8.8.8.8"]), ("country",)).column(0).to_pylist() == ["FR"]
        assert "damaged" in (geo.status().problem or "")
    with IndexReader.open(path) as damaged, pytest.raises(IndexDamagedError, match="damaged"):
        ArrowIndex(damaged, damaged).search(pa.array(["8.8.8.8"]), FIELDS)


def batches_of(*texts: list[str | None]) -> Iterator[Any]:
    for number, some in enumerate(texts):
        yield pa.record_batch({"n": pa.array([number] * len(some)), "ip": pa.array(some, pa.string())})


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stream_keeps_its_order_and_columns(geo: GeoLookup, threads: int) -> None:
    texts = [["8.8.8.8"] * (97 - number) + [None] for number in range(60)]
    found = list(enrich(geo, batches_of(*texts), column="ip", fields="country,locid", threads=threads))
    assert [batch.column("n").to_pylist() for batch in found] == [[n] * len(some) for n, some in enumerate(texts)]
    assert all(batch.column("geo_country").to_pylist()[-2:] == ["FR", None] for batch in found)
    assert found[0].schema.names == ["n", "ip", "geo_country", "geo_locid"]
    assert len({batch.column("geo_country").dictionary.buffers()[2].address for batch in found}) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_holds_only_a_few_batches(geo: GeoLookup, threads: int) -> None:
    begun = 0

    def many() -> Iterator[Any]:
        nonlocal begun
        for batch in batches_of(*[["8.8.8.8"]] * 1000):
            begun += 1
            yield batch

    found = enrich(geo, many(), column="ip", threads=threads)
    for taken in range(1, 51):
        next(found)
        assert begun - taken <= 2 * threads
    found.close()
    assert begun < 60
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("geolookup-columns")]


def test_a_stream_stays_with_the_generation_that_it_began_with(state: str) -> None:
    with GeoLookup(state) as geo:
        found = enrich(geo, batches_of(["8.8.8.8"], ["8.8.8.8"]), column="ip", fields=("country",))
        first = next(found)
        publish(state, [place(1, "8.0.0.0/8", country="NL")])
        geo.look_soon()
        assert geo.lookup("8.8.8.8").country == "NL"  # type: ignore[union-attr]
        assert [first.column(2)[0].as_py(), next(found).column(2)[0].as_py()] == ["FR", "FR"]


def test_what_was_observed_names_malformed_rows_and_counts_those_not_covered(geo: GeoLookup) -> None:
    seen: list[Located] = []
    batches = pa.Table.from_batches(list(batches_of(["8.8.8.8", "x", "7.7.7.7"], [None, "7.0.0.0", "", "y"])))
    list(enrich(geo, batches, column="ip", threads=2, observe=seen.append))
    assert [(one.malformed.tolist(), one.not_covered) for one in seen] == [([1], 1), ([2, 3], 1)]
    assert seen[1].reason(3) == "'y' is not an IP address"


def test_a_stream_counts_rows_from_its_begin_in_its_errors(geo: GeoLookup) -> None:
    found = enrich(geo, batches_of(["8.8.8.8", None], ["8.8.8.8", "x"]), column="ip", errors="raise", threads=2)
    next(found)
    with pytest.raises(InvalidAddressError, match="row 3: 'x'"):
        next(found)


def test_a_stream_refuses_a_column_that_is_missing_or_taken(geo: GeoLookup) -> None:
    with pytest.raises(ColumnError, match="unknown column 'address': the columns are 'n', 'ip'"):
        next(enrich(geo, batches_of(["8.8.8.8"]), column="address"))
    with pytest.raises(ColumnError, match="a column 'country' exists already"):
        next(enrich(geo, [batch.rename_columns(["n", "country"]) for batch in batches_of(["8.8.8.8"])],
                    column="n", fields="country", prefix=""))  # fmt: skip
