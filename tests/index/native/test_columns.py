"""Columns of any width, whole or in part: a slot for each row, by the accelerator and by the reference reader."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.index.native import ABSENT, BAD, OVERLAY
from geolookup.index.reader import EMPTY
from tests.index.native.searchers import CUSTOM, DEFAULT, native, needs_native, opened, slots, strings, valid


@pytest.fixture(params=["pure", *(pytest.param(name, marks=needs_native) for name in ("native", "plain"))])
def searcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Of both layers; "plain" is the accelerator without instructions that not all processors have."""
    if native is not None:
        native.go_wide(request.param != "plain")
    yield opened(None if request.param == "pure" else native, tmp_path, CUSTOM, DEFAULT)
    if native is not None:
        native.go_wide(True)


TEXTS: list[Any] = [
    *["8.8.8.8", "8.1.2.3", None, "9.0.1.0", "9.0.0.255", "", "8.8.8", "2000::1", "1000::", "::ffff:8.8.1.1", "é"],
    *["::ffff:0008:1", b"\xff\xfe", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, "::1", "8.8.8.8 ", b"8.8.8.8\0"],
]
SLOTS = [
    *[1 | OVERLAY, 0, ABSENT, EMPTY, 1, BAD, BAD, 0 | OVERLAY, 2, 1 | OVERLAY, BAD],
    *[EMPTY, BAD, 0 | OVERLAY, ABSENT, EMPTY, BAD, BAD],
]


def expected(rows: range) -> tuple[list[int], int]:
    found = (SLOTS * 9)[rows.start : rows.stop]
    return found, found.count(BAD)


RANGES = [range(162), range(3, 100), range(9, 9), range(161, 162), range(16, 24)]


@pytest.mark.parametrize("rows", RANGES, ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_a_string_column_has_a_slot_for_each_row(searcher: Any, large: bool, rows: range) -> None:
    column = strings(TEXTS * 9, "q" if large else "i")
    out = bytearray(4 * len(rows))
    bad = searcher.locate_strings(*column, rows.start, len(rows), out, large=large)
    assert (list(struct.unpack(f"{len(rows)}I", out)), bad) == expected(rows)


@pytest.mark.parametrize("rows", RANGES, ids=str)
def test_a_string_view_column_has_a_slot_for_each_row(searcher: Any, rows: range) -> None:
    views, buffers = bytearray(), [bytearray(b"filler"), bytearray()]
    for text in TEXTS * 9:
        raw = b"" if text is None else text if isinstance(text, bytes) else text.encode()
        if len(raw) <= 12:
            views += struct.pack("i12s", len(raw), raw)
        else:
            number = len(views) // 16 % 2
            views += struct.pack("i4sii", len(raw), raw[:4], number, len(buffers[number]))
            buffers[number] += raw
    given = tuple(map(bytes, buffers))
    assert slots(searcher.locate_views, bytes(views), given, valid(TEXTS * 9), rows=rows) == expected(rows)


def test_integer_columns_are_ipv4(searcher: Any) -> None:
    values = [0x08080808, None, 0x08010203, 0, 2**32 - 1]
    packed = [value or 0 for value in values]
    for code, locate in (("I", searcher.locate_u32), ("Q", searcher.locate_u64)):
        found = slots(locate, struct.pack(f"5{code}", *packed), valid(values), rows=range(5))
        assert found == ([1 | OVERLAY, ABSENT, 0, EMPTY, EMPTY], 0)
    large = struct.pack("3Qq", 2**32, 2**64 - 1, 0x08010203, -1)
    assert slots(searcher.locate_u64, large, None, rows=range(4)) == ([BAD, BAD, 0, BAD], 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"offsets": struct.pack("3i", 0, 7, 99)}, {"offsets": struct.pack("3i", 0, 7, 5)}],
        *[{"offsets": struct.pack("3i", -1, 7, 14)}, {"offsets": struct.pack("2i", 0, 7)}],
        *[{"out": bytearray(7)}, {"validity": b""}, {"offset": 1}, {"length": 3}, {"offset": -1}, {"length": -1}],
        *[{"data": None}, {"length": 2**62}, {"offset": 2**62}],
    ],
    ids=str,
)
def test_buffers_that_do_not_fit_are_refused(searcher: Any, wrong: dict[str, Any]) -> None:
    right = {
        "data": b"8.8.8.88.1.2.3",
        "offsets": struct.pack("3i", 0, 7, 14),
        "validity": b"\3",
        "offset": 0,
        "length": 2,
        "out": bytearray(8),
    }
    assert searcher.locate_strings(**right) == 0
    with pytest.raises((ValueError, OverflowError)):
        searcher.locate_strings(**{**right, **wrong})


@pytest.mark.parametrize(
    "view", [(-1, 0, 0), (13, 1, 0), (13, -1, 0), (13, 0, 8), (13, 0, -1), (2**31 - 1, 0, 2**31 - 1)]
)
def test_views_that_lead_outside_are_refused(searcher: Any, view: tuple[int, int, int]) -> None:
    size, number, begin = view
    views = struct.pack("i4sii", size, b"", number, begin)
    with pytest.raises(ValueError, match="do not fit"):
        searcher.locate_views(views, (b"1.2.3.4 and more",), None, 0, 1, bytearray(4))
