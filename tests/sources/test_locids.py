"""Numbers that survive from pull to pull."""

from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.sources.locids import Numbered, Numbering, digests_of, digests_of_texts, place_digest
from geolookup.sources.places import PlaceFields, Places

_text = st.sampled_from(["", "a", "b", "ab", "ü"])
_degrees = st.sampled_from([None, 0.0, -0.0, 1.5])
_places = st.builds(PlaceFields, _text, _text, _text, _text, _degrees, _degrees, _text, _text)


def table(*places: PlaceFields) -> Places:
    found = Places()
    for place in places:
        found.add(place)
    return found


def numbers(numbering: Numbering, places: Places) -> list[int]:
    return [*numbering.numbers_of(b"".join(map(place_digest, places))).tolist()]


def test_new_places_are_numbered_in_their_order_from_a_thousand_million_on() -> None:
    numbering = Numbering()
    assert numbers(numbering, table(PlaceFields("DE"), PlaceFields("US"))) == [FIRST_OWN_LOCID, FIRST_OWN_LOCID + 1]
    assert numbering.following == FIRST_OWN_LOCID + 2
    assert (numbering.kept, numbering.given) == (0, 2)


def test_equal_places_keep_their_numbers_and_gone_ones_are_never_given_again() -> None:
    earlier = [(FIRST_OWN_LOCID + 4, PlaceFields("DE")), (FIRST_OWN_LOCID + 1, PlaceFields("US"))]
    numbering = Numbering([Numbered.of(earlier)], following=FIRST_OWN_LOCID + 9)
    found = numbers(numbering, table(PlaceFields("FR"), PlaceFields("DE"), PlaceFields("DE", "BY")))
    assert found == [FIRST_OWN_LOCID + 9, FIRST_OWN_LOCID + 4, FIRST_OWN_LOCID + 10]
    assert (numbering.kept, numbering.given) == (1, 2)


def test_without_a_mark_numbers_go_on_after_the_highest() -> None:
    numbering = Numbering([Numbered.of([(FIRST_OWN_LOCID + 4, PlaceFields("DE"))])])
    assert numbers(numbering, table(PlaceFields("US"))) == [FIRST_OWN_LOCID + 5]


def test_a_number_that_a_service_uses_is_given_up_and_not_given() -> None:
    taken = {FIRST_OWN_LOCID, FIRST_OWN_LOCID + 2, 5}
    numbering = Numbering([Numbered.of([(FIRST_OWN_LOCID, PlaceFields("DE"))])], taken=taken)
    assert numbers(numbering, table(PlaceFields("DE"), PlaceFields("US"))) == [FIRST_OWN_LOCID + 1, FIRST_OWN_LOCID + 3]


@given(st.lists(_places, max_size=30), st.lists(_places, max_size=30))
def test_any_second_pull_keeps_the_numbers_of_equal_places(first: list[PlaceFields], second: list[PlaceFields]) -> None:
    before, after = table(*first), table(*second)
    numbering = Numbering()
    given_before = dict(zip(before, numbers(numbering, before), strict=True))
    earlier = Numbered.of((number, place) for place, number in given_before.items())
    again = Numbering([earlier], following=numbering.following)
    given_after = dict(zip(after, numbers(again, after), strict=True))
    assert len(set(given_after.values())) == len(given_after)
    for place, number in given_after.items():
        if place in given_before:
            assert number == given_before[place]
        else:
            assert number >= numbering.following
    assert again.following == numbering.following + len(given_after.keys() - given_before.keys())


@given(_places, _places)
def test_digests_are_equal_for_equal_places_only(one: PlaceFields, other: PlaceFields) -> None:
    assert (place_digest(one) == place_digest(other)) == (one == other)


@given(st.lists(_places, min_size=1, max_size=9))
def test_digests_in_columns_are_those_of_each_place(places: list[PlaceFields]) -> None:
    found = table(*places)
    of_texts = digests_of_texts(found.text(number).encode() for number in range(found.text_count))
    assert digests_of(*found.columns(range(len(found))), of_texts) == b"".join(map(place_digest, found))


@given(st.lists(_places, max_size=40))
def test_a_table_holds_each_place_once_and_gives_it_back(places: list[PlaceFields]) -> None:
    found = Places()
    numbers = [found.add(place) for place in places]
    assert [found[number] for number in numbers] == places
    assert len(found) == len(set(places))
    assert list(found) == list(dict.fromkeys(places))
    found.seal()
    assert [found[number] for number in numbers] == places
