"""Counts are those of a plain Counter over single lookups: of logs, of columns, every time or once."""

from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.columns import batches, counts, tally, text
from geolookup.columns.batches import Batch, of_columns, of_text
from geolookup.columns.counts import FIELDS, Counts, count
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError
from tests.columns.test_arrow import ADDRESS_TEXTS, BAD_TEXTS, column_of, text_types
from tests.oracle.plain_counts import plain_counts, seen_by_annotate
from tests.support.data.states import place, publish
from tests.support.examples import examples

QUADS = [word for word in ADDRESS_TEXTS if ":" not in word]
WORDS = [*ADDRESS_TEXTS, "08.8.8.8", "1.2.3.256", "12:30:59", "12:30:00:8.8.8.8", "::", "00:1a:2b:3c:4d:5e", "v1.2.3.4",
         "2001:0DB8:0::1", "Chrome/120.0.0.0", "-", "\xa0", "8.8.8.8.8"]  # fmt: skip
LINES = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", "\n", "\r\n", ",", "", "\t"])), max_size=60)


def named(found: Iterator[Batch]) -> Iterator[tuple[str, Batch]]:
    return (("the log", batch) for batch in found)


def log(lines: list[tuple[str, str]]) -> bytes:
    return "".join(word + after for word, after in lines).encode()


def by_field(found: Counts, field: str) -> dict[tuple[object, ...], int]:
    return {tuple(group.fields.values()): group.count for group in found.groups(field)}


def names_of(field: str) -> tuple[str, ...]:
    within = {
        "region": ("country",),
        "city": ("country", "region"),
        "postalcode": ("country",),
        "areacode": ("country",),
        "locid": ("country", "region", "city"),
    }
    return (*within.get(field, ()), field)


@given(lines=LINES, by=st.sampled_from(["requests", "addresses"]), field=st.sampled_from(FIELDS))
def test_a_log_is_counted_as_single_lookups_count_it(
    either_geo: GeoLookup, lines: list[tuple[str, str]], by: Any, field: str
) -> None:
    data = log(lines)
    found = count(either_geo, named(of_text(BytesIO(data))), by=by)
    texts = [token for _, token in seen_by_annotate(either_geo, data)]
    expected, not_covered, malformed = plain_counts(either_geo, texts, names_of(field), once=by == "addresses")
    assert by_field(found, field) == expected
    assert (found.covered, found.not_covered, found.malformed) == (sum(expected.values()), not_covered, malformed)
    assert found.counted == found.covered + found.not_covered


@given(lines=LINES, piece=st.integers(16, 64), chunk=st.integers(1, 80))
def test_however_a_log_is_cut_annotate_finds_the_same(
    geo: GeoLookup, lines: list[tuple[str, str]], piece: int, chunk: int
) -> None:
    data = log(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "PIECE_BYTES", piece)
        patch.setattr(batches, "_CHUNK_BYTES", chunk)
        seen = seen_by_annotate(geo, data)
        found = list(of_text(BytesIO(data)))
        assert sorted(token for batch in found for token, times in batch.found.items() for _ in range(times)) == sorted(
            token.encode() for _, token in seen
        )
        assert sorted(one for batch in found for one in batch.where(batch.found)) == sorted(
            (line, token.encode()) for line, token in seen
        )


@pytest.mark.parametrize("kind", [*text_types(), pa.uint32(), pa.int64()], ids=str)
def test_a_column_is_counted_as_single_lookups_count_it(either_geo: GeoLookup, kind: Any) -> None:
    if pa.types.is_integer(kind):
        values = [8 << 24, None, (8 << 24) + (8 << 16), 9 << 24, 9 << 24, *([-1] if kind == pa.int64() else [])]
        texts = ["8.0.0.0", "8.8.0.0", "9.0.0.0", "9.0.0.0", *(["-1"] if kind == pa.int64() else [])]
        column = pa.array(values, kind)
    else:
        texts = [*ADDRESS_TEXTS, *BAD_TEXTS, *ADDRESS_TEXTS[:5]]
        column = column_of([*ADDRESS_TEXTS, None, *BAD_TEXTS, *ADDRESS_TEXTS[:5]], kind)
    found = count(either_geo, named(of_columns([column[:3], column[3:], column[:0]])))
    expected, not_covered, malformed = plain_counts(either_geo, texts, names_of("city"), once=False)
    assert by_field(found, "city") == expected
    assert (found.not_covered, found.malformed) == (not_covered, malformed)


def test_a_column_that_holds_no_addresses_is_refused(geo: GeoLookup) -> None:
    for array in (pa.array([1.5]), pa.array([[1]]), pa.array([1.5]).dictionary_encode()):
        with pytest.raises(ColumnError, match="a column of addresses holds text"):
            count(geo, named(of_columns([array])))
    assert count(geo, named(of_columns([pa.nulls(3), pa.array([], pa.string())]))).counted == 0


def test_octets_are_counted_and_text_in_their_place_is_malformed(geo: GeoLookup) -> None:
    found = count(geo, named(of_columns([pa.array([bytes((8, 8, 8, 8)), b"8.8.8.8", None])])))
    assert (found.covered, found.malformed) == (1, 1)


@examples(40)
@given(
    st.lists(
        st.lists(st.one_of(st.sampled_from(WORDS), st.ip_addresses().map(str), st.from_regex(r"9\.9\.9\.[0-9]{1,3}"))),
        max_size=8,
    ),
    st.integers(0, 6),
)
def test_a_set_of_addresses_is_what_pythons_is(many: list[list[str]], held: int) -> None:
    from geolookup.model.addresses import parse
    from geolookup.model.errors import InvalidAddressError

    expected = set()
    with tally.Distinct(held) as found:
        for words in many:
            found.add([word.encode() for word in words])
            for word in words:
                try:
                    expected.add(parse(word))
                except InvalidAddressError:
                    continue
        fours = [value for part in found.fours() for value in part.tolist()]
        sixes = [value for part in found.sixes() for value in part]
    assert sorted([(4, value) for value in fours] + [(6, value) for value in sixes]) == sorted(expected)


def test_addresses_that_went_to_files_are_counted_and_the_files_are_gone(
    either_geo: GeoLookup, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally.tempfile, "tempdir", str(tmp_path))
    made: list[tally.Distinct] = []
    monkeypatch.setattr(counts, "Distinct", lambda: made.append(tally.Distinct(in_memory=5)) or made[0])
    texts = [f"8.8.{high}.{low}" for high in range(4) for low in range(50)] + [f"2001:db8::{n:x}" for n in range(90)]
    column = pa.array(texts * 2)
    found = count(
        either_geo, named(of_columns(column[at : at + 40] for at in range(0, len(column), 40))), by="addresses"
    )
    assert by_field(found, "country") == {("FR",): 200, ("US",): 90}
    assert [one._folder is not None for one in made] == [True]
    assert list(tmp_path.glob("geolookup-addresses-*")) == []


def test_two_places_of_one_name_are_two_and_one_place_of_two_layers_is_one(home: str) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/24", country="US", region="OH", city="Paris", latitude=1.0, longitude=2.0),
            place(2, "8.0.1.0/24", country="FR", region="IDF", city="Paris", latitude=48.9, longitude=2.3),
            place(3, "8.0.2.0/24", country="FR", region="IDF", city="Paris"),
            place(-1, "8.0.3.0/24", country="FR", region="IDF", city="Paris", latitude=48.8, longitude=2.4),
        ],
    )
    column = pa.array(["8.0.0.1", *["8.0.1.1"] * 2, *["8.0.2.1"] * 5, *["8.0.3.1"] * 4, "9.9.9.9"])
    with GeoLookup(home) as geo:
        found = count(geo, named(of_columns([column])))
    # The custom layer's location says where it is: of those that have coordinates, it has the most addresses.
    assert [(group.fields, group.count, group.latitude) for group in found.groups("city")] == [
        ({"country": "FR", "region": "IDF", "city": "Paris"}, 11, 48.8),
        ({"country": "US", "region": "OH", "city": "Paris"}, 1, 1.0),
    ]
    assert {fields[-1]: number for fields, number in by_field(found, "locid").items()} == {1: 1, 2: 2, 3: 5, -1: 4}
    assert by_field(found, "layer") == {("default",): 8, ("custom",): 4}
    assert found.sources == ("service", "custom")


def test_the_first_problems_are_named_with_their_lines_and_all_are_counted(geo: GeoLookup) -> None:
    data = b"8.8.8.8\n" + b"x 08.8.8.8\n8.8.8.256 9.9.9.9\n" * 30
    data += b"".join(b"9.9.9.%d\n" % number for number in range(300, 330)) + b"9.9.9.300 9.9.9.329\n"
    found = count(geo, named(chain(of_text(BytesIO(data[:153])), of_text(BytesIO(data[153:])))))
    assert found.malformed == 60 + 32
    assert len(found.problems) == 20
    assert str(found.problems[0]).startswith("the log, line 2: '08.8.8.8' is not an IP address")
    assert str(found.problems[0]).endswith("(30 times)")
    assert [problem.count for problem in found.problems] == [30, 30, 2, *[1] * 17]
    assert [problem.where for problem in found.problems[1:3]] == ["the log, line 3", "the log, line 51"]


def test_what_cannot_be_counted_is_refused(geo: GeoLookup) -> None:
    with pytest.raises(ColumnError, match="unknown count 'lines': it is one of requests, addresses"):
        count(geo, [], by="lines")  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="unknown field 'planet': addresses are counted by country, region, city"):
        count(geo, []).groups("planet")
