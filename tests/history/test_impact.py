"""Whose answer differs inside some ranges, against asking address by address."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from geolookup.history.impact import changes_within
from geolookup.model.types import IPBlock
from tests.index.building import blocks
from tests.index.test_compare import END, Side, opened, sides
from tests.oracle import all_answers
from tests.support.examples import examples


def asked(old: Side, new: Side, ranges: list[IPBlock]) -> dict[tuple[Any, Any, int], int]:
    """How many addresses of the ranges have another answer, by both answers and the family."""
    found: dict[tuple[Any, Any, int], int] = {}
    for family in (4, 6):
        mine = [(block.first, block.last) for block in ranges if block.family == family]
        ends = [*old.ends(family), *new.ends(family), *mine]
        for first, last in all_answers.edges(ends, END[family]):
            before, after = old.answer(family)(first), new.answer(family)(first)
            if before != after and any(low <= first <= high for low, high in mine):
                key = (before, after, family)
                found[key] = found.get(key, 0) + last - first + 1
    return found


@given(old=sides(), new=sides(), ranges=st.lists(blocks(most=3)))
@examples(20)
def test_changes_within_ranges_are_those_that_asking_finds(
    tmp_path: Path, old: Side, new: Side, ranges: list[list[Any]]
) -> None:
    mine = [IPBlock(family=block.family, first=block.first, last=block.last) for several in ranges for block in several]
    with opened(tmp_path, old) as one, opened(tmp_path, new) as other:
        found = changes_within(one, other, mine, most=10_000)
    assert found is not None
    counts = {}
    for change in found:
        before, after = (
            None if side is None else (side.place.locid, *side.place.fields().values())
            for side in (change.before, change.after)
        )
        counts |= {(before, after, family): n for family, n in ((4, change.ipv4), (6, change.ipv6)) if n}
        total = sum(block.last - block.first + 1 for block in change.named)
        assert total == change.ipv4 + change.ipv6 if change.ranges <= 3 else total < change.ipv4 + change.ipv6
        for block in change.named:
            assert any(inside.family == block.family and inside.first <= block.first <= inside.last for inside in mine)
    assert counts == asked(old, new, mine)


def test_more_segments_than_allowed_are_not_counted(tmp_path: Path) -> None:
    one = Side((), ())
    with opened(tmp_path, one) as layers:
        assert changes_within(layers, layers, [IPBlock(family=4, first=0, last=9)], most=0) is None
        assert changes_within(layers, layers, [IPBlock(family=4, first=0, last=9)], most=1) == []
