"""The linter against an oracle that looks at every address, and what it says in words."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.linter import Finding, lint
from geolookup.model.types import Geolocation, IPBlock
from tests.oracle.block_findings import findings

BASE = {4: 10 << 24, 6: 0x20010DB8 << 96}


def place(locid: int, blocks: Iterable[IPBlock]) -> Geolocation:
    fields = {"country": "", "region": "", "city": "", "postalcode": "", "dmacode": "", "areacode": ""}
    return Geolocation(locid=locid, latitude=None, longitude=None, ipblocks=tuple(blocks), **fields)


def parsed(locid: int, *texts: str) -> Geolocation:
    return place(locid, [IPBlock.parse(*text.split("-")) for text in texts])


def blocks() -> st.SearchStrategy[IPBlock]:
    ends = st.lists(st.integers(0, 15), min_size=2, max_size=2).map(sorted)
    return st.builds(
        lambda family, pair: IPBlock(family=family, first=BASE[family] + pair[0], last=BASE[family] + pair[1]),
        st.sampled_from((4, 4, 4, 6)),
        ends,
    )


def comparable(found: Finding) -> tuple[object, ...]:
    return found.kind, found.locid, found.block, frozenset(found.others)


@given(st.lists(st.lists(blocks(), max_size=5), max_size=4), st.sets(st.integers(-4, -1), max_size=1))
def test_the_findings_are_those_of_a_look_at_every_address(layer: list[list[IPBlock]], gone: set[int]) -> None:
    places = [place(-number, own) for number, own in enumerate(layer, start=1)]
    found = [comparable(each) for each in lint(places, gone=gone)]
    assert len(found) == len(set(found)), "none is told twice"
    assert set(found) == findings(places, gone)


def told(*places: Geolocation, gone: tuple[int, ...] = ()) -> list[str]:
    return [f"{found.kind}: {found.describe()}" for found in lint(places, gone=gone)]


def test_disjoint_and_nested_blocks_of_different_geolocations_are_as_they_should_be() -> None:
    assert told(parsed(-1, "10.0.0.0/8", "2001:db8::/32"), parsed(-2, "10.1.0.0/16"), parsed(-3, "11.0.0.0/8")) == []


def test_a_block_that_its_own_geolocation_covers_is_redundant() -> None:
    (found,) = told(parsed(-1, "10.0.0.0/8", "10.1.0.0/16"))
    assert found == (
        "redundant: 10.1.0.0-10.1.255.255 of -1 is not needed: without it, 10.0.0.0-10.255.255.255 of -1 would give "
        "the same answers"
    )


def test_a_block_that_takes_an_address_back_from_another_geolocation_is_not_redundant() -> None:
    assert told(parsed(-1, "10.0.0.0/8", "10.1.1.0/24"), parsed(-2, "10.1.0.0/16")) == []


def test_a_block_that_narrower_ones_cover_between_them_is_shadowed() -> None:
    (found,) = told(parsed(-2, "10.0.0.0/8"), parsed(-1, "10.0.0.0/9"), parsed(-3, "10.128.0.0/9"))
    assert found == (
        "shadowed: 10.0.0.0-10.255.255.255 of -2 is shadowed: every address of it is won by "
        "10.0.0.0-10.127.255.255 of -1, 10.128.0.0-10.255.255.255 of -3"
    )


def test_crossing_identical_and_gone_blocks_are_named_with_the_other_one() -> None:
    found = told(
        parsed(-1, "10.0.0.0-10.0.0.9", "::1"), parsed(-2, "10.0.0.5-10.0.0.20", "::1"), parsed(-3), gone=(-2, -3)
    )
    assert found == [
        "gone: 10.0.0.5-10.0.0.20 belongs to geolocation -2, which the service no longer lists",
        "gone: ::1 belongs to geolocation -2, which the service no longer lists",
        "gone: there are pending edits of geolocation -3, which the service no longer lists",
        "identical: ::1 of -1 is ::1 of -2 too: -2 wins",
        "crossing: 10.0.0.0-10.0.0.9 of -1 crosses 10.0.0.5-10.0.0.20 of -2: where they overlap, the narrower one wins",
    ]


def test_a_long_list_of_others_is_cut_short_in_words_only() -> None:
    parts = [parsed(-2 - number, f"10.0.0.{number}") for number in range(8)]
    (found,) = lint([parsed(-1, "10.0.0.0/29"), *parts])
    assert found.describe().endswith("10.0.0.4 of -6 and 3 more")
    assert len(found.as_dict()["others"]) == 8
