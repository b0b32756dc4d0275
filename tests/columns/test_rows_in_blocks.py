"""Rows that are read and written in whole arrays are those that a plain reader finds line by line."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.columns import blocks
from geolookup.columns.json_rows import NdjsonReader
from geolookup.columns.readers import Chunk, CsvReader
from geolookup.columns.writers import open_writer
from geolookup.model.errors import ColumnError, DataFileError
from tests.oracle.rows_one_by_one import Row, csv_rows, ndjson_rows

ADDED = ("geo_city", "geo_n")

_csv = st.lists(
    st.sampled_from([b",", b'"', b"\n", b"\r\n", b"\r", b"ab", b"8.8.8.8", b"\xc3\xa9", b"\xff", b" ", b'""', b"\0"]),
    max_size=60,
).map(b"".join)
_tidy = st.lists(
    st.lists(
        st.sampled_from([b"", b"8.8.8.8", b'"a,""b"', b'"two\nlines"', b'""', b"plain"]), min_size=1, max_size=3
    ).map(b",".join),
    max_size=30,
).map(b"\n".join)
_values = st.sampled_from(
    [
        b'"8.8.8.8"',
        b'"\xc3\xa9\\u00e9\\""',
        b"1",
        b"null",
        b"[1, {}]",
        b"{}",
        b'{"ip": "x"}',
        b'"\xff"',
        b"nul",
    ]
)
_members = st.tuples(st.sampled_from([b'"ip"', b'"i\\u0070"', b'"n"', b'"geo_n"', b'"geo\\u005fn"']), _values).map(
    b": ".join
)
_objects = st.lists(st.one_of(_members, st.just(b'"n": 1e400')), max_size=3).map(
    lambda all_: b"{" + b", ".join(all_) + b"}"
)
_lines = st.one_of(
    _objects, _objects.map(lambda text: b"  " + text + b" \r"), _objects.map(lambda text: text[:-1] + b"\t }"),
    st.sampled_from([b"", b"  ", b"{} {}", b"[1]", b'{"ip": [{}', b"{}]}", b"{}{}", b"{", b"\v", b"{ }"]),
)  # fmt: skip
_json = st.lists(_lines, max_size=30).map(b"\n".join)
_blocks = st.sampled_from([8, 64, 1 << 20])


@pytest.fixture(autouse=True)
def whole_blocks() -> Iterator[None]:
    before = blocks.BLOCK_BYTES
    yield
    blocks.BLOCK_BYTES = before  # type: ignore[misc]


def rows_of(chunk: Chunk) -> list[Row]:
    bad = {row for row, _ in chunk.bad}
    columns = (chunk.lines, chunk.records.to_pylist(), chunk.ends.to_pylist(), chunk.batch.column(0).to_pylist())
    return [(*row, at in bad) for at, row in enumerate(zip(*columns, strict=True))]


def answers_for(chunk: Chunk) -> Any:
    rows = len(chunk.lines)
    texts = [(None, "Köln", 'a,"b"\n\\', "")[line % 4] for line in chunk.lines]
    return pa.RecordBatch.from_arrays(
        [pa.array(texts, pa.string()).dictionary_encode(), pa.array([line / 4 for line in chunk.lines])],
        names=["city", "n"],
    ).slice(0, rows)


def answered(line: int) -> list[Any]:
    return [(None, "Köln", 'a,"b"\n\\', "")[line % 4], line / 4]


@given(data=st.one_of(_csv, _tidy), size=_blocks)
@example(data=b'8.8.8.8,"a\n', size=1 << 20)
@example(data=b'1,2,3\n8.8.8.8,b"c,d\n4,5,6\n', size=1 << 20)
@example(data=b'"","",""\r\n8.8.8.8,"""",\n', size=8)
def test_csv_is_read_as_the_plain_reader_reads_it(data: bytes, size: int) -> None:
    blocks.BLOCK_BYTES = size  # type: ignore[misc]
    data = b"ip,b,c\n" + data
    try:
        header, right = csv_rows(data, "ip", ",")
    except csv.Error:
        with pytest.raises(DataFileError, match="is not CSV"):
            list(CsvReader("f", io.BytesIO(data), column="ip", added=(), as_is=True, delimiter=",").chunks())
        return
    reader = CsvReader("f", io.BytesIO(data), column="ip", added=ADDED, as_is=True, delimiter=",")
    chunks = list(reader.chunks())
    assert reader.header == header
    assert [row for chunk in chunks for row in rows_of(chunk)] == right
    out = io.BytesIO()
    writer = open_writer("csv", out, reader, ("city", "n"), "geo_")
    for chunk in chunks:
        writer.write(chunk, answers_for(chunk))
    expected = b"ip,b,c,geo_city,geo_n\n"
    for line, record, end, _, is_bad in right:
        more = io.StringIO()
        if record and not is_bad:
            csv.writer(more, lineterminator="").writerow(
                ["", *("" if each is None else each for each in answered(line))]
            )
        expected += record + more.getvalue().encode() + end
    assert out.getvalue() == expected


@given(data=st.one_of(_csv, _tidy), size=_blocks)
def test_csv_in_columns_has_the_values_of_the_plain_reader(data: bytes, size: int) -> None:
    blocks.BLOCK_BYTES = size  # type: ignore[misc]
    data = b"ip,b,c\n" + data.replace(b"\xff", b"")
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline="\n"), delimiter=","))
    except csv.Error:
        return
    chunks = list(CsvReader("f", io.BytesIO(data), column="ip", added=(), as_is=False, delimiter=",").chunks())
    found = [row for chunk in chunks for row in chunk.batch.to_pylist()]
    whole = [row for row in rows[1:] if len(row) == 3]
    assert found == [{"ip": row[0] or None, "b": row[1], "c": row[2]} for row in whole]
    assert sum(len(chunk.bad) for chunk in chunks) == sum(len(row) not in (0, 3) for row in rows)


@given(data=_json, size=_blocks)
@example(data=b'{"ip": [{}\n{}]}\n{} {}\n', size=1 << 20)
@example(data=b'{"ip":1}{"ip":2}\n{"ip":"8.8.8.8"}\n', size=1 << 20)
@example(data=b'{"ip":"8.8.8.8","geo\\u005fn":1}\n', size=1 << 20)
def test_ndjson_is_read_and_amended_as_line_by_line(data: bytes, size: int) -> None:
    blocks.BLOCK_BYTES = size  # type: ignore[misc]
    data = b'{"ip":null}\n' + data
    right = ndjson_rows(data, "ip", ADDED)
    reader = NdjsonReader("f", io.BytesIO(data), column="ip", added=ADDED, as_is=True)
    chunks = list(reader.chunks())
    found = [row for chunk in chunks for row in rows_of(chunk)]
    assert [(row[:3], row[4]) for row in found] == [(row[:3], row[4]) for row in right]
    assert [row[3] for row in found if _is_text(row)] == [row[3] for row in right if _is_text(row)]
    out = io.BytesIO()
    writer = open_writer("ndjson", out, reader, ("city", "n"), "geo_")
    for chunk in chunks:
        writer.write(chunk, answers_for(chunk))
    lines = out.getvalue().split(b"\n")
    assert len(lines) == len(data.split(b"\n"))
    for line, (number, record, end, _, is_bad) in zip(lines, right, strict=False):
        if is_bad or not record:
            assert line == (record + end).rstrip(b"\n")
        else:
            city, n = answered(number)
            assert json.loads(line) == {**json.loads(record), "geo_city": city, "geo_n": n}
            assert line.startswith(record[:-1].rstrip())
            assert (line + b"\n").endswith(b"}" + (end if end.endswith(b"\n") else end + b"\n"))


def _is_text(row: Row) -> bool:
    return row[3] is None or row[3].startswith("8")


def test_rows_of_ndjson_without_the_member_are_refused_at_the_end() -> None:
    reader = NdjsonReader("f", io.BytesIO(b'{"a":1}\n' * 3), column="ip", added=(), as_is=True)
    with pytest.raises(ColumnError, match="no row has a member 'ip'"):
        list(reader.chunks())


def test_a_record_that_is_longer_than_a_block_is_one_row() -> None:
    blocks.BLOCK_BYTES = 64  # type: ignore[misc]
    data = b'ip,note\n8.8.8.8,"' + b"long\n" * 100 + b'"\n9.0.0.1,x\n'
    reader = CsvReader("f", io.BytesIO(data), column="ip", added=(), as_is=True)
    rows = [row for chunk in reader.chunks() for row in rows_of(chunk)]
    assert [(line, address) for line, _, _, address, _ in rows] == [(2, "8.8.8.8"), (103, "9.0.0.1")]
    assert b"".join(record + end for _, record, end, *_ in rows) == data[8:]
