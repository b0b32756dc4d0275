"""What creates became, by a list alone: adopted, sent again or held, and never another's."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.generations.cache import digest
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.edits.places.likeness import Forms, like
from geolookup.sync.push.matching import Candidates, Nearby, Wanted, match_creates
from tests.support.data.states import place as pulled
from tests.support.data.states import publish
from tests.support.services.running_service import FIELDS

BLOCK = IPBlock.parse("10.0.0.0/24")
CAPITALS = Forms([(FIELDS, {**FIELDS, "city": "OAKLAND"})])
EXACT = Forms([(FIELDS, FIELDS)])
NOTHING = Forms([])


def place(locid: int, *blocks: IPBlock, **changes: Any) -> Geolocation:
    return Geolocation(locid=locid, **{**FIELDS, **changes}, ipblocks=blocks)


def wanted(edit: int, *before: Geolocation, blocks: frozenset[IPBlock] = frozenset(), **changes: Any) -> Wanted:
    baseline = {each.locid: digest(each) for each in before}
    return Wanted(edit=edit, sent=({**FIELDS, **changes},), baseline=baseline, blocks=blocks)


def outcome(creates: list[Wanted], service: list[Geolocation], forms: Forms = EXACT, ours: Any = ()) -> dict[int, Any]:
    found = match_creates(creates, Candidates(service, ours), forms)
    return {edit: (match.what, [each.locid for each in match.found]) for edit, match in found.items()}


def test_the_one_that_is_new_and_equal_is_adopted() -> None:
    old = place(-1)
    assert outcome([wanted(1, old)], [old, place(-2)]) == {1: ("adopt", [-2])}
    assert outcome([wanted(1, old)], [old]) == {1: ("send", [])}


def test_a_number_that_was_there_is_new_again_if_it_has_another_content() -> None:
    assert outcome([wanted(1, place(-1, city="Bonn"))], [place(-1)]) == {1: ("adopt", [-1])}
    kept_by_an_earlier_release = Wanted(edit=1, sent=(FIELDS,), baseline={-1: ""})
    assert outcome([kept_by_an_earlier_release], [place(-1)]) == {1: ("send", [])}


def test_what_is_ours_already_or_has_blocks_of_others_is_no_candidate() -> None:
    assert outcome([wanted(1)], [place(-1)], ours={-1}) == {1: ("send", [])}
    assert outcome([wanted(1)], [place(-1, BLOCK, city="Bonn")]) == {1: ("send", [])}
    assert outcome([wanted(1, blocks=frozenset({BLOCK}))], [place(-1, BLOCK)]) == {1: ("adopt", [-1])}


def test_what_is_the_same_and_was_given_blocks_by_somebody_else_is_held() -> None:
    assert outcome([wanted(1)], [place(-1, BLOCK)]) == {1: ("hold", [-1])}
    assert outcome([wanted(1)], [place(-1, BLOCK), place(-2)]) == {1: ("adopt", [-2])}
    assert outcome([wanted(1, place(-1, BLOCK))], [place(-1, BLOCK)]) == {1: ("send", [])}


def test_several_are_adopted_only_if_they_are_no_more_than_the_creates() -> None:
    two = [place(-1), place(-2)]
    assert outcome([wanted(1), wanted(2)], two) == {1: ("adopt", [-1]), 2: ("adopt", [-2])}
    assert outcome([wanted(1), wanted(2)], two[:1]) == {1: ("adopt", [-1]), 2: ("send", [])}
    assert outcome([wanted(1)], two) == {1: ("hold", [-1, -2])}


def test_what_is_equal_goes_before_what_is_merely_the_same() -> None:
    service = [place(-1, city="OAKLAND"), place(-2)]
    assert outcome([wanted(1)], service, CAPITALS) == {1: ("adopt", [-2])}
    assert outcome([wanted(1), wanted(2, city="oakland")], service, CAPITALS) == {
        1: ("adopt", [-2]),
        2: ("adopt", [-1]),
    }


def test_two_that_are_stored_differently_are_held_though_each_is_the_same() -> None:
    service = [place(-1, city="OAKLAND"), place(-2, city="OAKland")]
    assert outcome([wanted(1), wanted(2)], service, CAPITALS) == {1: ("hold", [-1, -2]), 2: ("hold", [-1, -2])}


def test_a_branch_in_the_same_town_is_held_only_if_nobody_knows_how_the_service_stores() -> None:
    branch = [place(-1, postalcode="94602")]
    assert outcome([wanted(1)], branch, NOTHING) == {1: ("hold", [-1])}
    assert outcome([wanted(1)], branch, CAPITALS) == {1: ("hold", [-1])}
    assert outcome([wanted(1)], branch, EXACT) == {1: ("send", [])}


def test_one_geolocation_is_never_adopted_twice() -> None:
    creates = [wanted(1, dmacode="1"), wanted(2, dmacode="2")]
    emptied = Forms([(FIELDS, {**FIELDS, "dmacode": ""})])
    assert outcome(creates, [place(-1, dmacode="")], emptied) == {1: ("adopt", [-1]), 2: ("send", [])}


degrees = st.sampled_from([None, -0.005, 0.0, 0.004, 0.95, 1.0, 1.04, 1.499, 1.5, 179.999])
places = st.builds(
    lambda latitude, longitude, city: {**FIELDS, "latitude": latitude, "longitude": longitude, "city": city},
    degrees,
    degrees,
    st.sampled_from(["Oakland", "OAKLAND", "Bonn"]),
)


@given(places, st.lists(places, max_size=8))
def test_whatever_is_like_a_place_is_found_nearby(sent: dict[str, Any], others: list[dict[str, Any]]) -> None:
    there = [Geolocation(locid=-number, **each) for number, each in zip(itertools.count(1), others, strict=False)]
    nearby = {each.locid for each in Nearby(there).of(sent)}
    assert {each.locid for each in there if like(sent, each.fields())} <= nearby


@given(st.data())
def test_no_geolocation_is_adopted_for_two_creates_and_each_create_has_an_outcome(data: st.DataObject) -> None:
    towns = st.sampled_from(["Oakland", "OAKLAND", "Bonn"])
    creates = [wanted(number, city=data.draw(towns)) for number in range(data.draw(st.integers(0, 4)))]
    service = [place(-number, city=data.draw(towns)) for number in range(1, data.draw(st.integers(1, 5)))]
    forms = data.draw(st.sampled_from([NOTHING, EXACT, CAPITALS]))
    found = match_creates(creates, Candidates(service, ()), forms)
    adopted = [match.found[0].locid for match in found.values() if match.what == "adopt"]
    assert len(adopted) == len(set(adopted))
    assert set(found) == {each.edit for each in creates}


def test_the_digest_tells_fields_and_blocks_apart() -> None:
    digests = {digest(each) for each in (place(-1, BLOCK), place(-1), place(-1, BLOCK, city="Bonn"), place(-2, BLOCK))}
    assert len(digests) == 4


def test_the_digest_is_the_one_that_a_pull_keeps(home: str) -> None:
    publish(home, [pulled(-1, "10.0.0.0/24", "2001:db8::/32", city="Köln"), pulled(-2), pulled(1, "10.0.0.0/8")])
    cache = StateDirectory(home).cache(1)
    assert cache.custom_digests() == {each.locid: digest(each) for each in cache.custom()}


@pytest.mark.parametrize("count", [1, 50])
def test_the_reason_names_what_there_is_to_choose_from(count: int) -> None:
    service = [place(-number) for number in range(1, count + 2)]
    (match,) = match_creates([wanted(1)], Candidates(service, ()), EXACT).values()
    assert "-1, -2" in match.reason
