"""Whose a number is, by what places of ours were: each in a world that the exploration of CI does not reach."""

import pytest

from geolookup.state.edits.places.concluding import concluded
from geolookup.state.edits.places.place import Content, Intent, Place, Request
from tests.state.edits.places.world import EXACT

BARE, GIVEN = Content(("a",)), Content(("a",), frozenset({3}))


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
