"""What a push and a sync believe of what they find: whose a geolocation is, and what a person is told of it."""

import json
import time

import pytest

from geolookup.state.base import clock
from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, SETTLE_S, Person, settle
from tests.dials.upstream import CLIENT, Place

LIKE = {**ELSEWHERE, "region": "", **BERLIN, "areacode": "040"}
EQUAL = {**ELSEWHERE, "region": "", **BERLIN}


#: A block that nothing of ours gave.
THEIRS = [("172.16.0.0", "172.16.0.255")]


@pytest.mark.parametrize(
    "is_known", [True, False], ids=["a service that stores exactly", "one of which nothing is known"]
)
def test_a_lost_create_is_sent_again_beside_one_that_is_like_it_and_has_a_block_of_somebody_else(
    person: Person, is_known: bool
) -> None:
    if is_known:
        person.has(city="Bonn", latitude=50.73)  # by which the service stores what it is told
    person.creates(areacode="030")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    person.upstream.colleague_creates(LIKE, THEIRS, who="colleague")
    settle()
    person("push")
    assert len(person.there) == 2 + is_known


def test_a_create_of_which_somebody_has_changed_what_it_made_is_asked_about(person: Person) -> None:
    person.has(city="Bonn", latitude=50.73)  # by which the service stores what it is told
    person.creates(areacode="030")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.colleague_changes(-2, Place(tuple(LIKE.values()), frozenset()), who="colleague")
    settle()
    person("push", exits=3)
    assert "`geolookup outbox adopt 2 -2` says that -2 is it" in person.said
    person("outbox", "adopt", 2, -2)
    assert "the service has instead: areacode 040" in person.said
    person("push")
    assert sorted(person.there) == [-2, -1]


def test_of_several_that_are_equal_none_is_taken_until_a_person_says_which(person: Person) -> None:
    locid = person.creates()
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.colleague_creates(EQUAL, who="colleague")
    settle()
    person("push", exits=3)
    assert "held: edit 1: create geolocation" in person.said
    assert "the service has something new that may be Berlin" in person.said
    assert "-1 (Berlin, DE), or -2 (Berlin, DE); `geolookup outbox adopt 1 -1` says that -1 is it" in person.said
    person("outbox", "adopt", 1, -1)
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Berlin", [])}


def test_a_sync_says_one_thing_of_what_a_create_may_have_made(person: Person) -> None:
    person.creates()
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.colleague_creates(EQUAL, who="colleague")
    settle()
    for _ in range(2):
        person("sync", exits=3)
        assert "geolookup outbox adopt 1 -2" in person.said
        assert "given up" not in person.said
        assert "geolookup custom delete" not in person.said
    person("outbox", "drop", 1)
    person("sync", exits=3)  # of which it made one all the same
    assert "geolookup outbox keep -2" in person.said


def test_equal_creates_whose_outcomes_are_unknown_take_one_geolocation_each(person: Person) -> None:
    locids = [person.creates(), person.creates()]
    person("push")
    person("outbox", "restore")  # from before: nobody knows what became of either
    settle()
    person("push")
    assert sorted(person.there) == [-2, -1]
    assert sorted(json.loads(person("custom", "show", locid, "--json"))["locid"] for locid in locids) == [-2, -1]


def test_equal_creates_of_which_one_has_not_settled_are_not_held(person: Person) -> None:
    for _ in range(2):
        person.creates()
        person.upstream.faults = ["after"]
        person("push", exits=1)
        clock.sleep(0.6 * SETTLE_S)
    person("push", exits=1)  # only the first one has settled
    assert "something new" not in person.said
    settle()
    person("push")
    assert sorted(person.there) == [-2, -1]


def test_a_create_is_not_held_for_what_another_one_that_has_not_settled_sent(person: Person) -> None:
    for how, code in (("before", ""), ("after", "10008")):
        person.creates(postalcode=code)
        person.upstream.faults = [how]
        person("push", exits=1)
        clock.sleep(0.6 * SETTLE_S)
    person("push", exits=1)  # only the first one has settled, which a service might store with a postal code
    assert "something new" not in person.said
    settle()
    person("push")
    assert sorted(place.as_fields()["postalcode"] for place in person.upstream.places.values()) == ["", "10008"]


def test_capitals_that_a_colleague_changed_are_a_conflict_though_the_service_changes_capitals_too(
    person: Person,
) -> None:
    person.upstream.dials = Dials(capitals=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    place = person.upstream.places[-1]
    fields = tuple((place.as_fields() | {"city": "BeRLiN"}).values())
    person.upstream.colleague_changes(-1, Place(fields, place.blocks), who="colleague")
    person("push", exits=3)
    assert (
        "since the edit was made: it has BeRLiN, DE with 10.1.0.0-10.1.0.255: city BeRLiN instead of Potsdam;"
        in person.said
    )
    assert person.there == {-1: ("BeRLiN", ["10.1.0.0"])}


def test_what_somebody_deleted_after_a_list_had_it_is_not_brought_back(person: Person) -> None:
    person.has("10.1.0.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("refresh")
    assert person.looks_up("10.1.0.1") == [1]
    assert person.there == {}


def test_what_a_dropped_create_makes_late_is_told(person: Person) -> None:
    person.creates()
    person.upstream.faults = ["before"]  # it lands late
    person("push", exits=1)
    person.upstream.colleague_creates(LIKE, who="colleague")
    settle()
    person("push", exits=3)
    person("outbox", "drop", 1)
    person.upstream.colleague_creates(EQUAL, who=CLIENT)
    person("sync", exits=3)
    assert "geolocation -2 (Berlin, DE) is the same as a create that was given up from here, or like it" in person.said


def test_what_a_create_that_was_sent_again_makes_late_is_told_though_it_is_stored_as_never_before(
    person: Person,
) -> None:
    person.upstream.dials = Dials(capitals=True)
    person.has(city="Bonn", latitude=50.73)
    person.creates(areacode="030")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person("push")  # nothing is there: it is sent again
    person.upstream.colleague_creates({**EQUAL, "postalcode": "10115"}, who=CLIENT)
    person("sync", exits=3)
    assert "geolookup outbox keep -3" in person.said


@pytest.mark.parametrize("is_sent", [False, True], ids=["alone", "beside what was sent"])
def test_what_a_push_found_there_already_is_over_and_a_later_change_stays(person: Person, is_sent: bool) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    if is_sent:
        person("custom", "update", locid, "--postalcode", "10115")
        person("push")
        before = person.upstream.places[-1]
    person("custom", "update", locid, "--areacode", "77")
    person.upstream.colleague_changes(
        -1, Place(tuple({**before.as_fields(), "areacode": "77"}.values()), before.blocks), who="colleague"
    )
    settle()
    person("push")
    assert "has these values already" in person.said
    assert json.loads(person("lookup", "10.1.0.1", "--json"))[0]["areacode"] == "77"
    person.upstream.colleague_changes(-1, before, who="colleague")
    settle()
    person("sync")  # though the list is as it was when it was published
    assert json.loads(person("outbox", "list", "--json")) == []
    assert json.loads(person("lookup", "10.1.0.1", "--json"))[0]["areacode"] == ""
    person("push")
    assert person.upstream.places[-1].as_fields()["areacode"] == ""


def test_what_another_create_turns_out_to_have_made_is_no_twin(person: Person) -> None:
    person.creates()
    person.upstream.faults = ["before"]
    person("push", exits=1)
    person.upstream.colleague_creates(LIKE, who="colleague")
    settle()
    person("push", exits=3)
    person("outbox", "drop", 1)
    person.creates()
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("sync")  # it may be either's
    settle()
    person("push")
    person("sync")
    assert sorted(person.there) == [-2, -1]


def test_a_create_that_was_put_off_after_its_work_is_found_by_the_next_push(person: Person) -> None:
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["busy after"]
    person("push", exits=1)
    person("push", exits=1)
    assert "the outcome is unknown, and settles in" in person.said
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_a_create_that_was_put_off_and_sent_again_at_once_is_told_if_it_was_made_twice(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_MAX_WAIT_S", "4000")
    monkeypatch.setattr(clock, "sleep", lambda _seconds: None)
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["busy after"]
    person("push")
    assert person.there == {-1: ("Berlin", []), -2: ("Berlin", ["10.1.0.0"])}
    settle()
    person("sync", exits=3)
    assert "geolookup outbox keep -1" in person.said


def test_what_a_create_that_was_put_off_has_made_is_changed_as_the_create_was_since(person: Person) -> None:
    locid = person.creates("10.1.0.0/24")
    person.upstream.faults = ["busy after"]
    person("push", exits=1)
    person("outbox", "edit", 1, "--city", "Bonn", "--latitude", "50.73")
    settle()
    person("push")
    assert person.there == {-1: ("Bonn", ["10.1.0.0"])}
    assert json.loads(person("custom", "show", locid, "--json"))["locid"] == -1


def test_a_twin_is_told_until_it_is_gone_or_has_blocks(person: Person) -> None:
    person.upstream.dials = Dials(twice=1.0)
    for city in ("Berlin", "Bonn"):
        person.creates("10.1.0.0/24" if city == "Bonn" else "10.2.0.0/24", city=city)
    person("push")
    settle()
    person("refresh", exits=3)
    assert "next: delete the twins" in person.said
    twins = [locid for locid, (_, blocks) in person.there.items() if not blocks]
    assert [str(locid) in person.said for locid in twins] == [True, True]
    gone, given = twins
    person.upstream.colleague_changes(gone, None, who="colleague")
    place = person.upstream.places[given]
    person.upstream.colleague_changes(given, Place(place.fields, frozenset({("10.9.0.0", "10.9.0.0")})), who="them")
    person("sync")


def test_a_refresh_that_misses_what_was_acknowledged_says_what_to_do(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push")
    person.upstream.colleague_changes(-1, before, who="the service, which lost it")
    settle()
    person("refresh", exits=3)
    assert "next: decide on the edits that wait (`geolookup outbox list` names them), or that a warning" in person.said


def test_a_number_that_has_something_unlike_is_not_believed_to_be_ours(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    locid = person.creates()
    person("push")
    person.upstream.colleague_changes(-1, Place(tuple(ELSEWHERE.values())), who="colleague")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("sync", exits=3)
    assert "the service has given the number -1 to something else (Sydney, AU)" in person.said
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push", exits=3)
    assert person.there == {-1: ("Sydney", [])}


def test_a_number_that_has_another_of_our_branches_is_not_believed_though_nobody_saw_yet_what_the_service_drops(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(dropped=("dmacode",))
    person.creates(city="Bonn", latitude=50.73)
    person("push")
    settle()
    person("sync")  # so far, it stores what it is told
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    monkeypatch.setenv("GEOLOOKUP_PUSH_CONNECTIONS", "1")
    person.creates(postalcode="10115", dmacode="807")
    person.creates("10.1.0.0/24", postalcode="10024", dmacode="807")
    person.upstream.faults = ["as -1", "as -2"]  # where the first branch is
    person("push", exits=1)
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("sync", exits=3)
    assert "said yes to edits of Berlin (-2), and does not show them" in person.said
    assert person.looks_up("10.1.0.1") == [-2]


def test_a_create_is_not_doubted_if_its_list_shows_by_another_how_the_service_names_the_town(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(names=True)
    monkeypatch.setenv("GEOLOOKUP_PUSH_CONNECTIONS", "1")
    locids = [person.creates("10.1.0.0/24", city="Köln"), person.creates("10.2.0.0/24", city="Köln", areacode="02")]
    person.upstream.faults = ["", "", "", "before"]  # the block of the second is lost, so that an edit of it waits
    person("push", exits=1)
    settle()
    person("sync")
    person("push")
    assert person.there == {-1: ("Cologne", ["10.1.0.0"]), -2: ("Cologne", ["10.2.0.0"])}
    assert [json.loads(person("custom", "show", locid, "--json"))["locid"] for locid in locids] == [-1, -2]


def test_what_somebody_else_wrote_stays_beside_what_we_write(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    locid = person.has("10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    person("custom", "update", locid, "--postalcode", "10117")
    place = person.upstream.places[-1]
    fields = tuple((place.as_fields() | {"city": "Potsdam"}).values())
    person.upstream.colleague_changes(-1, Place(fields, place.blocks), who="colleague")
    person("push")
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"])}
    assert person.upstream.places[-1].as_fields()["postalcode"] == "10117"


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "with others"])
def test_what_was_deleted_though_a_colleague_had_given_it_a_block_stays_deleted_whatever_a_replica_shows(
    person: Person, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    locids = [person.creates(postalcode=f"1011{number}") for number in range(others + 1)]
    person.pushes_for_all_to_see()
    for locid in locids:
        person("custom", "delete", locid)
    place = person.upstream.places[-1]
    given = Place(place.fields, frozenset({("10.1.0.0", "10.1.0.255")}))
    person.upstream.colleague_changes(-1, given, who="colleague")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()
    person("push", "--on-conflict", "mine")
    assert person.there == {}
    person("sync")  # which begins after the deletion, and still has it
    assert person.looks_up("10.1.0.1") == [1]
