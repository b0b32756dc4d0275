"""Text from outside, made fit for logs and terminals."""

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.base.text import addresses, fields_text, harmless_json, percent, shown_degrees, size
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


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 addresses"), (1, "1 address"), (65_536, "65,536 addresses"), (10**15 - 1, "999,999,999,999,999 addresses"),
     (10**18, "1 quintillion addresses"), (2**64 - 1, "18.4 quintillion addresses"), (2**64, "1 network (/64)"),
     (2**80 + 5, "65,536 networks (/64)"), (37 * 2**88, "620.8 million networks (/64)"),
     (2**128, "4.3 billion networks (/32)"), (10**400, None)],
)  # fmt: skip
def test_a_count_of_addresses_is_one_that_people_can_read(number: int, text: str | None) -> None:
    assert text in (addresses(number), None)


@pytest.mark.parametrize(
    ("part", "of", "text"),
    [(0, 9, "0%"), (1, 256, "0.391%"), (1, 10_000, "0.01%"), (1, 10_001, "less than 0.01%"), (5, 5, "100%"),
     (1, 2**120, "less than 0.01%")],
)  # fmt: skip
def test_a_share_has_no_exponent(part: int, of: int, text: str) -> None:
    assert percent(part, of) == text


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
