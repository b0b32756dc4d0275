"""Flattening: the precedence rule, address by address, against a linear scan."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.index.flatten import EMPTY, flatten_v4, flatten_v6
from geolookup.index.segments import covered, table_v4, table_v6
from tests.index.building import V4_END, V6_END, around, blocks
from tests.oracle.linear_scan import Block, narrowest_covering
from tests.support.examples import examples

LOW64 = 2**64 - 1
LOCIDS = 6


def flattened(content: list[Block], family: int) -> list[tuple[int, int]]:
    """(first, slot) of each segment; slots are locids here, so rank is the slot itself."""
    rank = np.arange(LOCIDS, dtype=np.int64)
    slot = np.array([block.locid for block in content], np.uint32)
    firsts, lasts = [block.first for block in content], [block.last for block in content]
    if family == 4:
        first, winners = flatten_v4(np.array(firsts, np.uint32), np.array(lasts, np.uint32), slot, rank)
        assert (first.dtype, winners.dtype) == (np.uint32, np.uint32)
        return list(zip(first.tolist(), winners.tolist(), strict=True))
    halves = [
        np.array([part(value) for value in ends], np.uint64) for ends in (firsts, lasts) for part in (upper, lower)
    ]
    hi, lo, winners = flatten_v6(*halves, slot, rank)
    assert (hi.dtype, lo.dtype, winners.dtype) == (np.uint64, np.uint64, np.uint32)
    return list(
        zip([h << 64 | m for h, m in zip(hi.tolist(), lo.tolist(), strict=True)], winners.tolist(), strict=True)
    )


def upper(value: int) -> int:
    return value >> 64


def lower(value: int) -> int:
    return value & LOW64


def at(segments: list[tuple[int, int]], address: int) -> int | None:
    slot = [slot for first, slot in segments if first <= address][-1]
    return None if slot == EMPTY else slot


@pytest.mark.parametrize("family", [4, 6])
@given(data=st.data())
@examples(120)
def test_every_address_has_what_a_linear_scan_finds(family: Any, data: st.DataObject) -> None:
    content = data.draw(blocks(families=[family]))
    segments = flattened(content, family)
    for address in around(family):
        assert at(segments, address) == narrowest_covering(content, family, address)


@pytest.mark.parametrize("family", [4, 6])
@given(data=st.data())
@examples(60)
def test_segments_begin_at_zero_ascend_and_are_merged(family: Any, data: st.DataObject) -> None:
    segments = flattened(data.draw(blocks(families=[family])), family)
    assert segments[0][0] == 0
    for (first, slot), (next_first, next_slot) in itertools.pairwise(segments):
        assert first < next_first
        assert slot != next_slot


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], [(0, None)]),
        ([(1, 10, 20)], [(0, None), (10, 1), (21, None)]),
        ([(1, 10, 20), (1, 21, 30)], [(0, None), (10, 1), (31, None)]),
        ([(1, 10, 20), (2, 21, 30)], [(0, None), (10, 1), (21, 2), (31, None)]),
        ([(1, 0, 99), (2, 10, 20)], [(0, 1), (10, 2), (21, 1), (100, None)]),
        ([(1, 10, 30), (2, 20, 40)], [(0, None), (10, 1), (20, 2), (41, None)]),
        ([(2, 10, 30), (1, 20, 40)], [(0, None), (10, 2), (31, 1), (41, None)]),
        ([(1, 10, 30), (2, 20, 41)], [(0, None), (10, 1), (31, 2), (42, None)]),
        ([(1, 10, 20), (2, 10, 20)], [(0, None), (10, 2), (21, None)]),
        ([(1, 0, 50), (2, 10, 20), (1, 12, 13)], [(0, 1), (10, 2), (12, 1), (14, 2), (21, 1), (51, None)]),
        # A single block between two clusters, and after them, goes back to its own place.
        (
            [(1, 0, 9), (2, 5, 6), (3, 20, 29), (4, 40, 49), (5, 45, 45), (3, 60, 60)],
            [
                *[(0, 1), (5, 2), (7, 1), (10, None), (20, 3), (30, None)],
                *[(40, 4), (45, 5), (46, 4), (50, None), (60, 3), (61, None)],
            ],
        ),
        # A long block that reaches over several that do not touch each other.
        ([(1, 0, 99), (2, 10, 10), (3, 50, 50)], [(0, 1), (10, 2), (11, 1), (50, 3), (51, 1), (100, None)]),
        # Two clusters side by side whose neighbours are of one location.
        ([(1, 0, 9), (2, 5, 5), (1, 10, 19), (3, 15, 15)], [(0, 1), (5, 2), (6, 1), (15, 3), (16, 1), (20, None)]),
    ],
)
def test_known_shapes(family: int, content: list[Any], expected: list[Any]) -> None:
    for order in (content, content[::-1]):
        segments = flattened([Block(locid, family, first, last) for locid, first, last in order], family)  # type: ignore[arg-type]
        assert [(first, None if slot == EMPTY else slot) for first, slot in segments] == expected


@pytest.mark.parametrize(("family", "end"), [(4, V4_END), (6, V6_END)])
def test_the_last_address_of_the_space_overflows_nothing(family: Any, end: int) -> None:
    whole, corner = Block(1, family, 0, end), Block(2, family, end, end)
    assert flattened([whole], family) == [(0, 1)]
    assert flattened([corner], family) == [(0, EMPTY), (end, 2)]
    assert flattened([whole, corner], family) == [(0, 1), (end, 2)]
    assert flattened([Block(1, family, 0, end - 1), corner], family) == [(0, 1), (end, 2)]
    assert flattened([Block(1, family, 0, 0), corner], family) == [(0, 1), (1, EMPTY), (end, 2)]


def test_ipv6_neighbours_meet_across_the_lower_half() -> None:
    edge = 2**64
    content = [Block(1, 6, edge - 5, edge - 1), Block(1, 6, edge, edge + 5), Block(2, 6, 3 * edge - 1, 3 * edge)]
    assert flattened(content, 6) == [
        (0, EMPTY),
        (edge - 5, 1),
        (edge + 6, EMPTY),
        (3 * edge - 1, 2),
        (3 * edge + 1, EMPTY),
    ]


def test_the_inputs_are_left_as_they_were() -> None:
    first, last, slot = (np.array(values, np.uint32) for values in ([9, 1, 2], [12, 5, 3], [1, 2, 3]))
    flatten_v4(first, last, slot, np.arange(4, dtype=np.int64))
    assert (first.tolist(), last.tolist(), slot.tolist()) == ([9, 1, 2], [12, 5, 3], [1, 2, 3])


def test_many_blocks_under_one_of_the_whole_space_agree_with_a_linear_scan() -> None:
    # More than one chunk of the sweep, with a block that stays active through all of them.
    chance = random.Random(7)
    cuts = sorted(chance.sample(range(1, V4_END), 140_000))
    content = [
        Block(2 + index % 4, 4, first, last - 1)
        for index, (first, last) in enumerate(zip(cuts[::2], cuts[1::2], strict=True))
    ]
    segments = flattened([Block(1, 4, 0, V4_END), *content], 4)
    assert sum(1 for _, slot in segments if slot == 1) == 70_001
    expected = [(0, 1)]
    for block in content:
        expected += [(block.first, block.locid), (block.last + 1, 1)]
    assert segments == expected


@pytest.mark.parametrize(("family", "end"), [(4, V4_END), (6, V6_END)])
@given(data=st.data())
@examples(60)
def test_covered_counts_every_address_once(family: Any, end: int, data: st.DataObject) -> None:
    content = data.draw(blocks(families=[family]))
    segments = flattened(content, family)
    expected = 0
    reached = -1
    for first, last in sorted((block.first, block.last) for block in content):
        expected += max(0, last - max(first - 1, reached))
        reached = max(reached, last)
    slot = np.array([slot for _, slot in segments], np.uint32)
    starts: tuple[Any, ...] = (np.array([first for first, _ in segments], np.uint32),) if family == 4 else ()
    if family == 6:
        starts = tuple(np.array([first >> by & LOW64 for first, _ in segments], np.uint64) for by in (64, 0))
    assert covered(starts, slot) == expected


@given(st.lists(st.sampled_from([0, 1, 0xFFFF, 0x10000, 0x10001, 0x20000, V4_END]), unique=True))
@example([])
def test_the_table_says_how_many_segments_begin_before_each_prefix(starts: list[int]) -> None:
    first = sorted({0, *starts})
    prefixes = [0, 1, 2, 3, 0xFFFF, 0x10000]
    expected = [sum(1 for start in first if start < prefix << 16) for prefix in prefixes]
    assert table_v4(np.array(first, np.uint32))[prefixes].tolist() == expected
    assert table_v6(np.array(first, np.uint64) << np.uint64(32))[prefixes].tolist() == expected
    assert len(table_v4(np.array(first, np.uint32))) == 65_537
