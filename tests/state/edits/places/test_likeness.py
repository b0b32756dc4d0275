"""Same and like: what a service may have made of what it was sent, and what is merely near."""

from collections.abc import Collection
from typing import Any

import pytest

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.places import likeness
from tests.support.services.running_service import FIELDS


class Forms(likeness.Forms):
    """The same, asked with fields by name."""

    def __init__(self, seen: Any) -> None:
        super().__init__((values_of(sent), values_of(stored)) for sent, stored in seen)

    def same(self, sent: Any, found: Any) -> bool:
        return super().same(values_of(sent), values_of(found))

    def may_be(self, sent: Any, found: Any) -> bool:
        return super().may_be(values_of(sent), values_of(found))


def like(sent: Any, found: Any) -> bool:
    return likeness.Forms().like(values_of(sent), values_of(found))


def may_be_stored(sent: Any, found: Any, *, renamed: Collection[int] = ()) -> bool:
    return likeness.may_be_stored(values_of(sent), values_of(found), renamed=renamed)


def fields(**changes: Any) -> dict[str, Any]:
    return {**FIELDS, **changes}


def test_without_anything_seen_only_what_is_equal_is_the_same() -> None:
    forms = Forms([])
    assert forms.same(fields(), fields())
    assert not forms.same(fields(), fields(city="OAKLAND"))
    assert forms.may_be(fields(), fields(city="OAKLAND"))


def test_a_service_that_stored_everything_as_it_came_has_made_nothing_that_is_merely_like_it() -> None:
    other = fields(city="OAKLAND")
    assert not Forms([(fields(), fields())]).may_be(fields(), other)
    assert Forms([(fields(), fields()), (fields(), fields(city="Okland"))]).may_be(fields(), other)


@pytest.mark.parametrize(
    ("stored", "found", "not_found"),
    [
        ({"city": "OAKLAND"}, {"city": "BERKELEY"}, {"country": "us"}),
        ({"dmacode": ""}, {"dmacode": ""}, {"areacode": ""}),
        ({"latitude": 38.0, "longitude": -122.0}, {"latitude": 38.0, "longitude": -122.0}, {"latitude": 37.0}),
    ],
)
def test_what_differs_as_the_service_was_seen_to_store_that_field_is_the_same(
    stored: dict[str, Any], found: dict[str, Any], not_found: dict[str, Any]
) -> None:
    forms = Forms(
        [(fields(latitude=37.8044, longitude=-122.2711), fields(latitude=37.8044, longitude=-122.2711) | stored)]
    )
    sent = fields(city="Berkeley", latitude=37.9, longitude=-122.1)
    assert forms.same(sent, sent | found)
    assert not forms.same(sent, sent | not_found)


def test_the_rounding_must_explain_all_that_was_seen() -> None:
    seen = [
        (fields(latitude=1.2345, longitude=2.3456), fields(latitude=1.23, longitude=2.35)),
        (fields(latitude=7.1, longitude=8.0), fields(latitude=7.1, longitude=8.0)),
    ]
    forms = Forms(seen)
    sent = fields(latitude=5.4321, longitude=6.5432)
    assert forms.same(sent, sent | {"latitude": 5.43, "longitude": 6.54})
    assert not forms.same(sent, sent | {"latitude": 5.4, "longitude": 6.5})
    assert not forms.same(sent, sent | {"latitude": 5.432, "longitude": 6.543})


def test_another_name_is_the_same_only_if_that_very_name_was_seen_and_the_coordinates_agree() -> None:
    forms = Forms([(fields(city="Köln"), fields(city="Cologne"))])
    assert forms.same(fields(city="Köln"), fields(city="Cologne"))
    assert not forms.same(fields(city="Köln"), fields(city="Cologne", latitude=1.0))
    assert not forms.same(fields(city="Köln"), fields(city="Bonn"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"areacode": "0", "postalcode": "1"}, True),  # two branches in one town
        ({"latitude": 37.809}, True),
        ({"latitude": 37.85}, True),
        ({"latitude": 37.85, "city": "OAKLAND "}, True),
        ({"latitude": 37.85, "city": "Berkeley"}, False),
        ({"latitude": 38.0, "longitude": -122.0, "city": ""}, True),  # rounded
        ({"latitude": 39.0}, False),
        ({"country": "MX"}, False),
        ({"country": ""}, True),
        ({"latitude": None, "longitude": None}, True),
        ({"latitude": None, "longitude": None, "city": "Berkeley"}, False),
    ],
)
def test_like_is_what_is_near_enough_to_be_meant(found: dict[str, Any], expected: bool) -> None:
    assert like(fields(), fields(**found)) is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, True),
        ({"city": "OAKLAND", "latitude": 38.0, "longitude": -122.0}, True),
        ({"dmacode": "", "areacode": ""}, True),
        ({"city": "Oak"}, True),
        ({"city": "Oaktown"}, False),
        ({"areacode": "511"}, False),
        ({"latitude": 37.9}, False),
    ],
)
def test_what_a_service_may_have_made_of_something(found: dict[str, Any], expected: bool) -> None:
    assert may_be_stored(fields(), fields(**found)) is expected


def test_another_value_is_believed_only_where_it_may_be_another() -> None:
    city, latitude = FIELD_NAMES.index("city"), FIELD_NAMES.index("latitude")
    assert may_be_stored(fields(), fields(city="Oaktown"), renamed={city})
    assert not may_be_stored(fields(), fields(city="Oaktown", latitude=37.9), renamed={city})
    assert may_be_stored(fields(), fields(city="Oaktown", latitude=37.9), renamed={city, latitude})
    assert not may_be_stored(fields(), fields(areacode="511"), renamed={city})
