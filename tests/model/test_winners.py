"""Who wins the addresses of a range, against a scan of every address."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.types import Geolocation, IPBlock
from geolookup.model.winners import elsewhere, winners
from tests.oracle.linear_scan import Block, narrowest_covering

ends = st.lists(st.integers(0, 15), min_size=2, max_size=2).map(sorted)
blocks = st.tuples(st.sampled_from((4, 6)), ends).map(
    lambda each: IPBlock(family=each[0], first=each[1][0], last=each[1][1])
)
fields = {"country": "", "region": "", "city": "", "postalcode": "", "dmacode": "", "areacode": ""}


@given(st.lists(st.lists(blocks, max_size=4, unique=True), max_size=4), blocks)
def test_the_counts_are_those_of_a_scan(many: list[list[IPBlock]], asked: IPBlock) -> None:
    places = [
        Geolocation(locid=-number, latitude=None, longitude=None, ipblocks=tuple(each), **fields)
        for number, each in enumerate(many, start=1)
    ]
    every = [Block(place.locid, each.family, each.first, each.last) for place in places for each in place.ipblocks]
    expected: dict[int | None, int] = {}
    for address in range(asked.first, asked.last + 1):
        locid = narrowest_covering(every, asked.family, address)
        expected[locid] = expected.get(locid, 0) + 1
    counted: dict[int | None, int] = {}
    for key, number in winners(places, asked).items():
        if key is not None:
            assert key[1].first <= asked.last
            assert asked.first <= key[1].last
        counted[None if key is None else key[0]] = counted.get(None if key is None else key[0], 0) + number
    assert counted == expected


@given(st.lists(st.lists(blocks, max_size=4, unique=True), max_size=4), st.sets(st.integers(0, 15)))
def test_what_goes_elsewhere_in_one_pass_is_what_the_counts_of_each_block_say(
    many: list[list[IPBlock]], which: set[int]
) -> None:
    places = [
        Geolocation(locid=-number, latitude=None, longitude=None, ipblocks=tuple(each), **fields)
        for number, each in enumerate(many, start=1)
    ]
    owned = [(block, place.locid) for place in places for block in place.ipblocks]
    asked = {block for number, (block, _) in enumerate(owned) if number in which}
    expected: dict[Any, dict[Any, int]] = {}
    lost = set()
    for block, locid in owned:
        found = {key: number for key, number in winners(places, block).items() if key is not None and key[0] != locid}
        if block in asked and found:
            expected[block, locid] = {(by, winner): number for (winner, by), number in found.items()}
        for address in range(block.first, block.last + 1) if block in asked else ():
            every = [Block(owner, each.family, each.first, each.last) for each, owner in owned]
            if narrowest_covering(every, block.family, address) != locid:
                lost.add((block.family, address))
    assert elsewhere(owned, asked) == (len(lost), expected)
