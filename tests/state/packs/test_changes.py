"""What differs from what both sides know comes back, and hardly takes more than it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.state.packs.changes import Array, Known, Pieces, changed, changes, numbers, order, order_again, places
from geolookup.state.packs.changes import places_again as again

_NUMBERS = st.lists(st.integers(0, (1 << 32) - 1), max_size=40)


def _array(values: list[int]) -> Array:
    return np.array(values, "<u4")


@given(actual=_NUMBERS, expected=_NUMBERS, base=_NUMBERS, by_known=st.booleans())
def test_a_column_comes_back(actual: list[int], expected: list[int], base: list[int], by_known: bool) -> None:
    own, theirs = _array(actual), _array((expected + actual)[: len(actual)])
    known = Known.of(_array(base)) if by_known else None
    found = changed(Pieces(b"".join(changes(own, theirs, known))), theirs, known)
    assert found.tolist() == actual


@given(
    sequence=st.permutations(range(20)).flatmap(lambda each: st.integers(0, 20).map(lambda end: each[:end])),
    rule=st.permutations(range(20)),
)
def test_an_order_comes_back(sequence: list[int], rule: list[int]) -> None:
    rules = [np.arange(20), np.array(rule)]
    written = b"".join(order(np.array(sequence, np.int64), rules))
    assert order_again(Pieces(written), rules, len(sequence)).tolist() == sequence


def test_what_is_as_expected_takes_nothing_and_a_number_is_split_by_its_bytes() -> None:
    many = np.arange(100_000, dtype="<u4")
    assert sum(map(len, changes(many, many))) == 8  # two counts of 4 bytes
    assert sum(map(len, order(many.astype(np.int64), [many[::-1].astype(np.int64), many.astype(np.int64)]))) == 9
    assert numbers(_array([0x0201, 0x0403]))[1:3] == [b"\x01\x03", b"\x02\x04"]


def test_what_was_cut_or_leads_outside_is_refused() -> None:
    written = b"".join(changes(_array([1, 2, 3]), _array([1, 2, 4])))
    for end in range(len(written)):
        with pytest.raises(ValueError, match="too short"):
            changed(Pieces(written[:end]), _array([1, 2, 4]))
    with pytest.raises(ValueError, match="outside"):
        again(Pieces(b"".join(places(np.array([3])))), 3)
