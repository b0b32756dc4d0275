"""Columns whose buffers hold anything: the accelerator refuses what the reference refuses, and answers alike."""

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolookup.index.native import open_searcher
from geolookup.index.reader import IndexReader
from tests.index.building import build
from tests.index.native.searchers import native, needs_native
from tests.oracle.linear_scan import Block
from tests.oracle.pure_searcher import PureSearcher

pytestmark = needs_native

CUSTOM = [Block(-1, 4, 0x08080000, 0x0808FFFF), Block(-2, 6, 2**125, 2**126)]
DEFAULT = [Block(1, 4, 0x08000000, 0x08FFFFFF), Block(3, 6, 2**124, 2**127)]

TEXTS = st.sampled_from(
    [
        *(b"8.8.8.8", b"8.1.2.3", b"208.108.255.199", b"08.1.2.3", b"2000::1", b"::ffff:8.8.1.1", b"1.2.3", b""),
        *(b"\xff.2.3.4", b"2000:1000:2000:3000::1"),
    ]
)
#: What stands in the place of a number that fits.
ODD = st.one_of(st.integers(0, 60), st.sampled_from([-1, -(2**31), 2**31 - 1]))


@st.composite
def perturbed(draw: st.DrawFn, sound: int, odd: st.SearchStrategy[int] = ODD, *, one_in: int = 12) -> int:
    """A number that fits, but for a few."""
    return draw(odd) if draw(st.integers(1, one_in)) == one_in else sound


@st.composite
def rows(draw: st.DrawFn, count: int) -> tuple[bytes | None, int, int, int]:
    """The validity, offset and length of a column of ``count`` items, and how many bytes there are for the answers."""
    offset = draw(st.integers(0, count))
    length = draw(perturbed(count - offset, st.sampled_from([-1, 0, count + 1, 2**40, 2**62])))
    bits = draw(st.one_of(st.none(), st.binary(min_size=1, max_size=2)))
    room = draw(perturbed(4 * count, st.integers(0, 4 * count)))
    return bits, draw(perturbed(offset, st.sampled_from([-1, count + 1, 2**40]))), length, room


@st.composite
def string_columns(draw: st.DrawFn) -> tuple[Any, ...]:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=6))
    ends = [0, *itertools.accumulate(map(len, texts))]
    ends = [draw(perturbed(end)) for end in ends]
    large = draw(st.booleans())
    data = b"".join(texts)[: draw(perturbed(1000, st.integers(0, 40)))]
    validity, offset, length, room = draw(rows(len(texts)))
    return (data, struct.pack(f"{len(ends)}{'q' if large else 'i'}", *ends), validity, offset), length, room, large


@st.composite
def view_columns(draw: st.DrawFn) -> tuple[Any, ...]:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=6))
    views, buffers = b"", [b"", b"filler"]
    for text in texts:
        size, number = draw(perturbed(len(text))), draw(st.integers(0, 1))
        if 0 <= size <= 12:
            views += struct.pack("i12s", size, text)
        else:
            place = draw(perturbed(len(buffers[number])))
            views += struct.pack("i4sii", size, text, draw(perturbed(number, st.sampled_from([-1, 2]))), place)
            buffers[number] += text
    validity, offset, length, room = draw(rows(len(texts)))
    return (views, tuple(buffers), validity, offset), length, room


@st.composite
def number_columns(draw: st.DrawFn) -> tuple[Any, ...]:
    wide = draw(st.booleans())
    numbers = draw(st.lists(st.integers(0, 2**33 if wide else 2**32 - 1), max_size=6))
    values = struct.pack(f"{len(numbers)}{'Q' if wide else 'I'}", *numbers)
    validity, offset, length, room = draw(rows(len(numbers)))
    return (values[: draw(perturbed(1000, st.integers(0, 47)))], validity, offset), length, room, wide


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The accelerator's searcher and the reference, over both layers."""
    folder = tmp_path_factory.mktemp("index")
    build(folder / "base", DEFAULT)
    build(folder / "overlay", CUSTOM, layer="custom")
    with IndexReader.open(folder / "base") as base, IndexReader.open(folder / "overlay") as overlay:
        yield open_searcher(native, base, overlay), PureSearcher(base, overlay)  # type: ignore[arg-type]


def outcome(locate: Callable[..., int], *given: Any, length: int, room: int, **more: Any) -> object:
    """What was written and counted; None if the buffers were refused."""
    out = bytearray(b"\xa5" * room)
    try:
        return locate(*given, length, out, **more), bytes(out)
    except (ValueError, OverflowError):
        return None


@settings(max_examples=400)
@given(column=string_columns())
def test_any_strings(both: tuple[Any, Any], column: tuple[Any, ...]) -> None:
    buffers, length, room, large = column
    fast, slow = (outcome(one.locate_strings, *buffers, length=length, room=room, large=large) for one in both)
    assert fast == slow


@settings(max_examples=400)
@given(column=view_columns())
def test_any_views(both: tuple[Any, Any], column: tuple[Any, ...]) -> None:
    buffers, length, room = column
    fast, slow = (outcome(one.locate_views, *buffers, length=length, room=room) for one in both)
    assert fast == slow


@settings(max_examples=400)
@given(column=number_columns())
def test_any_numbers(both: tuple[Any, Any], column: tuple[Any, ...]) -> None:
    buffers, length, room, wide = column
    fast, slow = (
        outcome(one.locate_u64 if wide else one.locate_u32, *buffers, length=length, room=room) for one in both
    )
    assert fast == slow
