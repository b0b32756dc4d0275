"""Blocks that are flattened in pieces are the segments of the whole."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.flatten import Flattener, flatten_v4, flatten_v6
from tests.index.building import blocks
from tests.support.examples import examples

LOW64 = 2**64 - 1


# Flattening in pieces


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("ranked", [True, False])
@given(data=st.data())
@examples(150)
def test_pieces_of_any_size_make_the_segments_of_the_whole(family: Any, ranked: bool, data: st.DataObject) -> None:
    content = data.draw(blocks(families=[family], most=20))
    rank = np.arange(9, dtype=np.int64) if ranked else None
    slot = np.array([block.locid for block in content], np.uint32)
    ends = [[block.first for block in content], [block.last for block in content]]
    whole: tuple[Any, ...]
    if family == 4:
        columns = [np.array(values, np.uint32) for values in ends]
        whole = flatten_v4(columns[0], columns[1], slot, rank)
    else:
        columns = [
            np.array([value >> 64 if upper else value & LOW64 for value in values], np.uint64)
            for values in ends
            for upper in (True, False)
        ]
        whole = flatten_v6(*columns, slot, rank)
    order = sorted(range(len(content)), key=lambda at: content[at].first)
    rows = [values[order] for values in (*columns, slot)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    flattener = Flattener(family, None if rank is None else rank.__getitem__)
    found = [
        flattener.add([row[begin:end] for row in rows], np.array(order, np.int64)[begin:end])
        for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
    ]
    found.append(flattener.finish())
    starts = [np.concatenate(halves).tolist() for halves in zip(*(each[0] for each in found), strict=True)]
    assert [*starts, np.concatenate([each[1] for each in found]).tolist()] == [part.tolist() for part in whole]
