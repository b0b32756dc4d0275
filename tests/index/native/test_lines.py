"""The accelerator's search of IPv4 keys by cache lines: each address against numpy's search of whole firsts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from geolookup.index.layout import TABLE_LENGTH
from tests.index.native.searchers import native, needs_native

pytestmark = needs_native

#: More rows than it takes until the lines' first keys are gathered.
MANY = 5000


def placed(array: NDArray[Any], shift: int) -> memoryview:
    """A copy that begins ``shift`` items behind the begin of a cache line."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    begin = -room.ctypes.data % 64 + shift * array.itemsize
    room[begin : begin + array.nbytes] = array.view(np.uint8)
    return memoryview(room)[begin : begin + array.nbytes]


def searcher(firsts: NDArray[np.uint64], shift: int) -> Any:
    """One over segments that begin at ``firsts``, each of which has its position as its slot."""
    assert native is not None
    positions = np.arange(len(firsts), dtype=np.uint32)
    table = np.searchsorted(firsts >> np.uint64(16), np.arange(TABLE_LENGTH)).astype(np.uint32)
    none = (
        np.zeros(1, np.uint64),
        None,
        np.zeros(1, np.uint16),
        np.zeros(1, np.uint8),
        np.ones(TABLE_LENGTH, np.uint32),
        None,
    )
    four = (
        placed((firsts & np.uint64(0xFFFF)).astype(np.uint16), shift),
        (positions & np.uint32(0xFFFF)).astype(np.uint16),
        (positions >> np.uint32(16)).astype(np.uint8),
        table,
    )
    base = native.Layer((*four, *none), len(firsts))
    empty = native.Layer(
        (*(np.zeros(1, kind) for kind in (np.uint16, np.uint16, np.uint8)), np.ones(TABLE_LENGTH, np.uint32), *none),
        0,
    )
    return native.Searcher(base, empty)


def located(found: Any, asked: NDArray[np.uint32]) -> NDArray[np.uint32]:
    out = np.empty(len(asked), np.uint32)
    found.locate_u32(asked, None, 0, len(asked), out)
    return out


def check(firsts: NDArray[np.uint64], shift: int) -> None:
    around = np.concatenate([firsts, firsts - np.uint64(1), firsts + np.uint64(1), firsts ^ np.uint64(0x8000)])
    asked = np.unique(np.append(around & np.uint64(0xFFFFFFFF), [0, 0xFFFFFFFF])).astype(np.uint32)
    np.random.default_rng(shift).shuffle(asked)
    expected = np.searchsorted(firsts, asked, "right") - 1
    one = searcher(firsts, shift)
    few = asked[:500]
    assert (located(one, few) == expected[:500]).all()  # before the lines are known
    located(one, np.zeros(MANY, np.uint32))
    assert (located(one, asked) == expected).all()
    assert native is not None
    native.go_wide(False)
    assert (located(one, asked) == expected).all()
    native.go_wide(True)


@given(
    groups=st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 150)), max_size=8),
    seed=st.integers(0, 99),
    shift=st.integers(0, 31),
)
@example(groups=[], seed=0, shift=0)
@example(groups=[(0, 31)], seed=0, shift=31)
@example(groups=[(0, 32), (0xFFFF, 32)], seed=0, shift=0)
@example(groups=[(5, 33), (7, 1)], seed=0, shift=1)
def test_the_last_segment_not_after_an_address_is_found(groups: list[tuple[int, int]], seed: int, shift: int) -> None:
    chance = np.random.default_rng(seed)
    lows = [np.uint64(upper << 16) + chance.integers(0, 2**16, count, np.uint64) for upper, count in groups]
    check(np.unique(np.concatenate([np.zeros(1, np.uint64), *lows])), shift)


@pytest.mark.parametrize("shift", range(32))
def test_it_is_found_among_many_that_share_their_upper_half(shift: int) -> None:
    chance = np.random.default_rng(shift)
    # So many that their lines are more than one search of lines sees; the last of them up to the very end.
    lows = [
        (np.uint64(upper << 16) + chance.choice(2**16, 1000 + 150 * shift, replace=False)) for upper in (1, 2, 0xFFFF)
    ]
    check(np.unique(np.concatenate([np.zeros(1), *lows]).astype(np.uint64)), shift)


def test_it_is_found_where_each_address_has_a_segment() -> None:
    check(np.append(np.arange(2**16), [2**16 + 1, 2**32 - 1]).astype(np.uint64), 3)
