"""Text from outside, made fit for logs and terminals."""

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.base.text import fields_text, harmless_json, shown_degrees, size
from geolookup.columns import cells


@given(st.text())
@example("\x7f\x80\x85\x9b\u200f\u202e\u2028\u2066\ufeff\U000e0041\U0010ffff")
@example('\ud800 \\u0041 " Zürich 東京')
def test_json_says_the_same_in_printable_characters(text: str) -> None:
    line = harmless_json(json.dumps({"text": text}, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (812, "812 bytes"), (10_239, "10239 bytes"), (10_240, "10 KiB"), (44_000, "42 KiB"),
     (1_048_575, "1023 KiB"), (1_048_576, "1.0 MiB"), (63_069_790, "60.1 MiB")],
)  # fmt: skip
def test_no_size_is_shown_as_none_of_a_larger_unit(count: int, text: str) -> None:
    assert size(count) == text


def single(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


@given(st.floats(-180, 180))
@example(51.5143)
@example(-0.0912244)
@example(180.0)
@example(-0.0)
@example(1e-45)
def test_degrees_of_32_bits_are_shown_as_the_shortest_that_reads_back(value: float) -> None:
    shown = shown_degrees(single(value))
    assert single(shown) == single(value)
    assert len(repr(shown)) <= len(repr(single(value)))
    assert shown == float(str(np.float32(value)))
    if single(value) != value:
        assert shown_degrees(value) == value, "it needs 64 bits"
    assert cells.shown_degrees(pa.array([value, single(value), None])).to_pylist() == [
        shown_degrees(value), shown_degrees(single(value)), None
    ]  # fmt: skip


def test_fields_on_a_line_have_the_degrees_as_they_are_shown() -> None:
    fields = {"country": "DE", "region": "", "latitude": single(50.1109), "longitude": 8.6821298, "dmacode": None}
    assert fields_text(fields) == "country DE, latitude 50.1109, longitude 8.6821298"
