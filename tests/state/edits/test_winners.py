"""Who wins the addresses of a range, against a scan of every address."""

from hypothesis import given
from hypothesis import strategies as st

from geolookup.model import Geolocation, IPBlock
from geolookup.state.edits.winners import winners
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
