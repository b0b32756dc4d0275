"""Values by slot: what the accelerator writes is what a loop over the rows writes."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.native import ABSENT, BAD, OVERLAY
from geolookup.index.reader import EMPTY
from tests.index.native.searchers import native, needs_native

pytestmark = needs_native

BASE, OVER = 7, 3
CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
MARKS = (EMPTY, BAD, ABSENT)


def layers(width: int) -> tuple[list[int], list[int]]:
    """Values of each location, none of which is 0: that stands for no location."""
    top = 256**width - 1
    return [top - place for place in range(BASE)], [place + 1 for place in range(OVER)]


def taken(slots: list[int], widths: list[int]) -> tuple[list[list[int]], list[int], tuple[int, int, int]]:
    """What the accelerator writes and counts."""
    assert native is not None
    outs = [bytearray(len(slots) * width) for width in widths]
    fields: list[Any] = []
    for width, out in zip(widths, outs, strict=True):
        fields.append((*(struct.pack(f"{len(one)}{CODES[width]}", *one) for one in layers(width)), out, width))
    validity = bytearray(b"\xa5" * -(-len(slots) // 8))
    counts = native.take(struct.pack(f"{len(slots)}I", *slots), BASE, OVER, tuple(fields), validity)
    values = [list(struct.unpack(f"{len(slots)}{CODES[width]}", out)) for width, out in zip(widths, outs, strict=True)]
    return values, [validity[row >> 3] >> (row & 7) & 1 for row in range(8 * len(validity))], counts


def value(slot: int, width: int) -> int:
    base, over = layers(width)
    return 0 if slot in MARKS else over[slot & ~OVERLAY] if slot & OVERLAY else base[slot]


SLOTS = st.one_of(
    st.integers(0, BASE - 1), st.integers(0, OVER - 1).map(lambda slot: slot | OVERLAY), st.sampled_from(MARKS)
)


@given(slots=st.lists(SLOTS, max_size=40), widths=st.lists(st.sampled_from(list(CODES)), max_size=4))
def test_each_row_gets_what_stands_in_its_slot(slots: list[int], widths: list[int]) -> None:
    check(slots, widths)


@pytest.mark.parametrize("rows", [1023, 1024, 1025, 3001])
@pytest.mark.parametrize("kinds", ["base", "both", "all"])
def test_a_long_column_does_too(rows: int, kinds: str) -> None:
    chance = random.Random(rows)
    places = list(range(BASE))
    places += [] if kinds == "base" else [OVERLAY, OVERLAY | OVER - 1]
    places += list(MARKS) if kinds == "all" else []
    slots = [chance.choice(places) for _ in range(rows)]
    slots[1024:2048] = [min(slot, BASE - 1) for slot in slots[1024:2048]]
    check(slots, [4, 1, 8])


def check(slots: list[int], widths: list[int]) -> None:
    values, bits, counts = taken(slots, widths)
    assert values == [[value(slot, width) for slot in slots] for width in widths]
    # The bits after the last row are not set, so that the same answers are the same bytes.
    assert bits == [int(slot not in MARKS) for slot in slots] + [0] * (-len(slots) % 8)
    assert counts == tuple(slots.count(mark) for mark in MARKS)


@pytest.mark.parametrize("slot", [BASE, OVERLAY - 1, OVERLAY | OVER, ABSENT - 1])
@pytest.mark.parametrize("row", [0, 1030])
def test_a_slot_of_no_location_is_refused(slot: int, row: int) -> None:
    slots = [0] * 1031
    slots[row] = slot
    with pytest.raises(ValueError, match="a slot is of no location"):
        taken(slots, [4])


def test_buffers_that_do_not_fit_are_refused() -> None:
    assert native is not None
    slots, base, over, out = bytes(8), bytes(4 * BASE), bytes(4 * OVER), bytearray(8)
    field: tuple[Any, ...] = (base, over, out, 4)
    assert native.take(slots, BASE, OVER, (field,), bytearray(1)) == (0, 0, 0)
    wrong: list[tuple[Any, ...]] = [
        *[(base[:-1], over, out, 4), (base, over[:-1], out, 4), (base, over, out[:-1], 4)],
        *[(base, over, out, width) for width in (8, 3, 0, -4, 2**40)],
        (memoryview(bytes(4 * BASE + 1))[1:], over, out, 4),
    ]
    for one in wrong:
        with pytest.raises(ValueError, match="do not fit"):
            native.take(slots, BASE, OVER, (field, one), bytearray(1))
    for arguments in (
        *[(slots[:-1], BASE, OVER, (), bytearray(1)), (slots, -1, OVER, (), bytearray(1))],
        *[(slots, BASE, 2**31, (), bytearray(1)), (slots, BASE, OVER, (), bytearray(0))],
        (memoryview(bytes(9))[1:], BASE, OVER, (), bytearray(1)),
    ):
        with pytest.raises(ValueError, match="do not fit each other"):
            native.take(*arguments)
    for odd in ((field[:3],), (7,), (tuple("text"),)):
        with pytest.raises(TypeError):
            native.take(slots, BASE, OVER, odd, bytearray(1))
