"""The words that several commands share."""

import pytest

from geolookup.sync import words
from geolookup.sync.push.report import PushReport

ROWS = {"added": 1, "removed": 2, "changed": 3}
DIFFERENCE = {
    "geolocations": ROWS,
    "blocks": {"added": 4, "removed": 0, "changed": 0},
    "addresses_whose_country_changed": {"ipv4": 256, "ipv6": 0},
}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 blocks"), (1, "1 block"), (2, "2 blocks"), (1000000, "1000000 blocks")]
)
def test_a_count_agrees_with_its_noun(number: int, text: str) -> None:
    assert words.count(number, "block") == text


def test_a_noun_can_have_a_plural_of_its_own() -> None:
    assert words.count(1, "address", "addresses") == "1 address"
    assert words.count(2, "address", "addresses") == "2 addresses"


def test_what_a_generation_holds() -> None:
    rows = {"geolocations": 1, "custom_geolocations": 0, "blocks": 2, "custom_blocks": 0}
    assert words.contents(rows) == "1 geolocation, 2 blocks"
    assert words.contents({**rows, "custom_geolocations": 1}) == "1 geolocation (1 custom), 2 blocks"


@pytest.mark.parametrize(
    ("of_sources", "custom_places", "said"),
    [
        (0, 0, ""),
        (0, None, ""),
        (0, 1, "; your 1 custom place stays above them"),
        (0, 400, "; your 400 custom places stay above them"),
        (2, 2, ""),
        (2, 3, "; your 3 custom places stay above them"),
    ],
)
def test_custom_places_that_no_source_brought_are_said_beside(
    of_sources: int, custom_places: int | None, said: str
) -> None:
    rows = {"geolocations": 9, "custom_geolocations": of_sources, "blocks": 9}
    assert words.published(rows, custom_places) == words.contents(rows) + said


def test_what_a_pull_changed() -> None:
    assert words.row_changes(DIFFERENCE) == ["geolocations +1 -2 ~3", "blocks +4 -0 ~0"]
    country = "country changed for 256 IPv4 addresses and 0 of IPv6"
    assert words.changes(DIFFERENCE) == [*words.row_changes(DIFFERENCE), country]


@pytest.mark.parametrize("difference", [None, {}, {"url": {"before": "a", "after": "b"}}])
def test_nothing_is_said_of_changes_that_were_not_counted(difference: dict[str, object] | None) -> None:
    assert words.row_changes(difference) == words.changes(difference) == []


def test_only_outcomes_that_publish_nothing_have_a_reason_for_it() -> None:
    assert words.not_published("unchanged") == "nothing new"
    assert words.not_published("rolled-back") == "still what was rolled back"
    with pytest.raises(KeyError):
        words.not_published("published")


def test_what_a_push_left_over_has_every_state_that_waits() -> None:
    report = PushReport(url="https://geo.example.com", done=5, queued=1, rejected=2)
    assert words.left_over(report) == {"queued": 1, "unknown": 0, "held": 0, "rejected": 2}
