"""Arrow arrays whose offsets, views or indexes lead outside: `ColumnError` naming the row, and never another answer."""

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.columns.arrow import enrich, locate
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError
from tests.oracle.single_lookups import single_lookups
from tests.support.examples import examples

DATA = b"8.8.8.8 9.0.0.1 2001:db8::1 8.0.0.1 ::ffff:8.8.8.8"
#: Ends of texts, mostly inside the data and in order.
ENDS = st.sampled_from([0, 7, 8, 15, 16, 27, 28, 35, 36, 50]) | st.sampled_from(
    [-1, -8, 51, 1 << 20, 2**31 - 1, -(2**31)]
)
VALIDITY = st.none() | st.binary(min_size=2, max_size=2)
INDEX_TYPES = {
    pa.int8(): "b", pa.uint8(): "B", pa.int16(): "h", pa.uint16(): "H",
    pa.int32(): "i", pa.uint32(): "I", pa.int64(): "q", pa.uint64(): "Q",
}  # fmt: skip


def array_of(kind: Any, length: int, bits: bytes | None, own: bytes, data: bytes | None, offset: int = 0) -> Any:
    """An array whose offsets, views or indexes are written after pyarrow has looked at them."""
    room = bytearray(len(own))
    # Inside a longer buffer, so that reading a little outside of it finds addresses.
    inside = [] if data is None else [pa.py_buffer(DATA + data + DATA).slice(len(DATA), len(data))]
    validity = None if bits is None else pa.py_buffer(bits)
    array = pa.Array.from_buffers(kind, length, [validity, pa.py_buffer(room), *inside], offset=offset)
    room[:] = own
    return array


def is_valid(bits: bytes | None, row: int) -> bool:
    return bits is None or bool(bits[row >> 3] >> (row & 7) & 1)


def check(geo: GeoLookup, column: Any, texts: Sequence[str | ColumnError | None], outside: str) -> None:
    """A column is answered as these texts are, or refused at the first of them that cannot be read."""
    wrong = [row for row, text in enumerate(texts) if isinstance(text, ColumnError)]
    if wrong:
        with pytest.raises(ColumnError, match=f"row {wrong[0]}: .*{outside}"):
            locate(geo, column, ("locid", "first"))
    else:
        expected = single_lookups(geo, [text for text in texts if not isinstance(text, ColumnError)])
        found = locate(geo, column, ("locid", "first")).to_pylist()
        assert found == [{"locid": row["locid"], "first": row["first"]} for row in expected]


def text_at(data: bytes, begin: int, end: int) -> str | ColumnError:
    return data[begin:end].decode() if 0 <= begin <= end <= len(data) else ColumnError()


@examples(100)
@given(
    ends=st.lists(ENDS, min_size=1, max_size=10) | st.lists(ENDS, min_size=1, max_size=10).map(sorted), data=st.data()
)
def test_offsets_that_lead_outside_are_refused(either_geo: GeoLookup, ends: list[int], data: st.DataObject) -> None:
    kind, code = data.draw(st.sampled_from([(pa.string(), "i"), (pa.large_string(), "q")]))
    bits, rows = data.draw(VALIDITY), len(ends) - 1
    offset = data.draw(st.integers(0, rows))
    offsets = struct.pack(f"{len(ends)}{code}", *ends)
    column = array_of(kind, rows - offset, bits, offsets, DATA, offset)
    texts = [text_at(DATA, ends[row], ends[row + 1]) if is_valid(bits, row) else None for row in range(offset, rows)]
    check(either_geo, column, texts, "outside")


@st.composite
def views(draw: st.DrawFn) -> tuple[bytes, str | ColumnError]:
    if draw(st.booleans()):
        text = draw(st.sampled_from(["8.8.8.8", "9.0.0.1", "2001:db8::1", ""]))
        return struct.pack("i12s", len(text), text.encode()), text
    size = draw(st.sampled_from([14, 19, 22, 50, -1, 51, 2**31 - 1, -(2**31)]))
    number = draw(st.sampled_from([0, 0, 0, 1, -1, 2**31 - 1]))
    place = draw(st.sampled_from([0, 28, 36, -1, 51, 2**31 - 1]))
    text = text_at(DATA, place, place + size) if number == 0 and size >= 0 else ColumnError()
    return struct.pack("i4sii", size, b"8.8.", number, place), text


@examples(100)
@given(rows=st.lists(views(), max_size=9), bits=VALIDITY, data=st.data())
def test_views_that_lead_outside_are_refused(
    either_geo: GeoLookup, rows: list[tuple[bytes, Any]], bits: bytes | None, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, len(rows)))
    own = b"".join(view for view, _ in rows)
    column = array_of(pa.string_view(), len(rows) - offset, bits, own, DATA, offset)
    texts = [text if is_valid(bits, row) else None for row, (_, text) in enumerate(rows)][offset:]
    check(either_geo, column, texts, "outside")


@examples(100)
@given(
    indexes=st.lists(
        st.integers(0, 4) | st.sampled_from([-1, -2, 5, 100, -128, 2**31, 2**63 - 1, -(2**63)]), max_size=9
    ),
    kind=st.sampled_from(list(INDEX_TYPES)),
    bits=VALIDITY,
    more=st.sampled_from([0, 20]),
    data=st.data(),
)
def test_indexes_that_lead_outside_are_refused(
    either_geo: GeoLookup, indexes: list[int], kind: Any, bits: bytes | None, more: int, data: Any
) -> None:
    values = ["8.8.8.8", "9.0.0.1", None, "2001:db8::1", "bad", *(["8.0.0.1"] * more)]
    width = kind.bit_width
    kept = [index & 2**width - 1 for index in indexes]
    signed = [index - (index >> width - 1 << width) if str(kind)[0] == "i" else index for index in kept]
    offset = data.draw(st.integers(0, len(signed)))
    own = struct.pack(f"{len(signed)}{INDEX_TYPES[kind]}", *signed)
    numbers = array_of(kind, len(signed) - offset, bits, own, None, offset)
    column = pa.DictionaryArray.from_arrays(numbers, pa.array(values), safe=False)
    texts: list[Any] = []
    for row, index in enumerate(signed):
        inside = values[index] if 0 <= index < len(values) else ColumnError()
        texts.append(inside if is_valid(bits, row) else None)
    check(either_geo, column, texts[offset:], "dictionary")


@pytest.mark.parametrize("more", [0, 50])
def test_a_dictionary_whose_text_leads_outside_is_refused_at_the_row(either_geo: GeoLookup, more: int) -> None:
    offsets = struct.pack(f"{4 + more}i", 0, 7, 1 << 30, *([7] * (1 + more)))
    values = array_of(pa.string(), 3 + more, None, offsets, DATA)
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 1, 0], pa.int32()), values, safe=False)
    with pytest.raises(ColumnError, match=r"row 3: .*outside"):
        locate(either_geo, column)
    sound = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int32()), values, safe=False)
    assert locate(either_geo, sound, "locid").to_pylist() == [{"locid": -1}, {"locid": None}]


def unsound(rows: int) -> Any:
    """A column of text whose last row but one leads outside."""
    return array_of(pa.string(), rows, None, struct.pack(f"{rows + 1}i", *([0] * (rows - 1)), 1 << 30, 0), DATA)


def test_rows_are_counted_from_the_beginning_of_all_chunks_and_batches(either_geo: GeoLookup) -> None:
    sound = pa.array(["8.8.8.8", None])
    with pytest.raises(ColumnError, match="row 5: "):
        locate(either_geo, pa.chunked_array([sound, sound, unsound(3)]))
    batches = [pa.record_batch({"ip": sound}), pa.record_batch({"ip": unsound(4)})]
    for threads in (1, 2):
        with pytest.raises(ColumnError, match="row 4: "):
            list(enrich(either_geo, batches, column="ip", threads=threads))
