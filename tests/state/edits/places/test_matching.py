"""Whose a number is, by what places of ours were: each in a world that the exploration of CI does not reach."""

import pytest
from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.edits.places.concluding import concluded
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.place import Content, Intent, Place, Request, Values
from tests.state.edits.places.world import EXACT

BARE, GIVEN = Content(("a",)), Content(("a",), frozenset({3}))
LOST = Request(what="create", values=("a",), settled=True)
CREATE = Intent(what="create", id=1, values=("a",))


@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_a_colleague_made_equal_to_a_place_of_ours_is_not_that_place(is_deleted: bool) -> None:
    made = Request(what="create", values=("a",), known=True, settled=True)
    given = Request(what="add", before=BARE, new=3, known=True, settled=True)
    delete = Intent(what="delete", id=2, base=GIVEN)
    ours = Place(id=1, number=-1, intents=(Intent(what="create", id=1, values=("a",)),), requests=(made,))
    other = Place(id=2, number=-2, baseline=BARE, requests=(given,), intents=(delete,) if is_deleted else ())
    found = concluded((ours, other), {-1: GIVEN, -2: GIVEN}, before={}, forms=EXACT)
    assert [place.number for place in found.places] == [-1, -2]
    assert (found.held, found.undecided) == ({}, set())


def test_two_whose_numbers_are_exchanged_have_each_others() -> None:
    bare = Place(id=1, number=-1, baseline=BARE)
    other = Place(id=2, number=-2, baseline=GIVEN)
    found = concluded((bare, other), {-1: GIVEN, -2: BARE}, before={}, forms=EXACT)
    assert [place.number for place in found.places] == [-2, -1]


def test_a_lost_create_has_not_made_what_has_the_number_of_a_place_that_waits() -> None:
    update = Request(what="put", before=Content(("b",)), values=("a",), known=True)
    waits = Place(id=1, number=-1, baseline=Content(("b",)), requests=(update,))
    lost = Place(id=2, intents=(CREATE,), requests=(LOST,))
    found = concluded((lost,), {-1: BARE}, before={}, forms=EXACT, waiting=(waits,))
    assert [(place.number, place.requests) for place in found.places] == [(None, ())]
    assert found.held == {}


def test_a_place_that_was_lost_has_its_number_again_if_that_shows_it() -> None:
    found = concluded((Place(id=1, lost=-1, baseline=BARE),), {-1: BARE}, before={}, forms=EXACT)
    assert [place.number for place in found.places] == [-1]


def test_of_two_equal_places_without_numbers_one_has_moved() -> None:
    gone = [Place(id=id_, number=-id_, baseline=GIVEN) for id_ in (1, 2)]
    found = concluded(gone, {-7: GIVEN}, before={}, forms=EXACT)
    assert [place.number for place in found.places] == [-7, None]


def test_what_a_create_has_made_counts_for_no_other_one() -> None:
    given = replace(LOST, known=True, misnamed=True)
    update = Request(what="put", before=BARE, values=("b",), settled=True)
    one = Place(id=1, lost=-5, intents=(CREATE,), requests=(given, update))
    other = Place(id=2, intents=(CREATE,), requests=(LOST,))
    found = concluded((one, other), {-7: Content(("b",)), -8: BARE, -9: BARE}, before={}, forms=EXACT)
    assert [place.number for place in found.places] == [-7, None]
    assert found.held[2].numbers == {-8, -9}  # one of them is a colleague's


def test_a_lost_create_may_have_made_what_a_person_has_moved_to_another_square_since() -> None:
    def values(**fields: object) -> Values:
        known = {"country": "DE", "city": "Bonn", "latitude": 50.7, "longitude": 7.1, **fields}
        return tuple(known.get(name, "") for name in FIELD_NAMES)

    sent, now = values(), values(latitude=52.5, longitude=13.4)
    moved = Request(what="put", before=Content(sent), values=now, known=True, settled=True)
    edited = Place(id=-1, number=-1, baseline=Content(sent), requests=(moved,))
    lost = Place(id=2, intents=(replace(CREATE, values=sent),), requests=(replace(LOST, values=sent),))
    found = concluded((edited, lost), {-1: Content(now)}, before={}, forms=Forms())
    assert found.held[2].numbers == {-1}
