"""Removals of one block on services that are not ideal: what a person sees, and which blocks the service has then."""

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dials.person import ELSEWHERE, Person, settle
from tests.dials.upstream import Place


def _gives(person: Person, block: str) -> Place:
    """A colleague gives a block to our place, which is returned."""
    place = person.upstream.places[-1]
    given = Place(place.fields, place.blocks | {(f"{block}.0", f"{block}.255")})
    person.upstream.colleague_changes(-1, given, who="colleague")
    return given


def behind(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on lists are a replica's that stands still, and that may be behind for minutes."""
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()


@pytest.mark.parametrize("listed", [True, False], ids=["with a place that lists had", "with a new one"])
def test_a_block_of_a_place_that_is_deleted_goes_to_another_in_one_push(person: Person, listed: bool) -> None:
    taker = person.has("10.2.0.0/24", city="Bonn", latitude=50.73) if listed else None
    giver = person.has("10.1.0.0/24")
    person("custom", "delete", giver)
    if taker is None:
        person.creates("10.1.0.0/24", city="Bonn", latitude=50.73)
    else:
        person("custom", "add-block", taker, "10.1.0.0/24")
    person("push")
    assert list(person.there.values()) == [("Bonn", ["10.1.0.0", "10.2.0.0"] if listed else ["10.1.0.0"])]


def test_a_removal_brings_back_a_block_of_ours_that_no_list_has_yet(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    behind(person, monkeypatch)
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.3.0.0"])}
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-1, 1, -1]


def test_edits_and_lookups_of_then_go_by_what_a_half_done_removal_will_leave(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["", "busy"]
    person("refresh", exits=1)  # which publishes a list without any block of it
    generation = json.loads(person("status", "--json"))["generation"]
    person("custom", "add-block", locid, "10.3.0.0/24")
    assert json.loads(person("outbox", "show", 5, "--json"))["base"]["blocks"] == [["10.1.0.0", "10.1.0.255"]]
    answers = person("lookup", "10.1.0.1", "10.2.0.1", "--as-of", generation, "--format", "ndjson")
    assert [json.loads(line)["locid"] for line in answers.splitlines()] == [-1, 1]
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.3.0.0"])}


def test_more_deleted_than_a_replica_had_shown_is_told(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    behind(person, monkeypatch)
    place = person.upstream.places[-1]
    theirs = type(place)(place.fields, place.blocks | {("10.9.0.0", "10.9.0.255")})
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    assert "the service deleted 3 blocks of geolocation -1, and its list had 2: look whether" in person.said


def test_a_block_that_is_given_again_after_all_were_removed_stays(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "replace-block", locid, "10.1.0.0/24", "10.2.0.0/24")
    person("custom", "clear-blocks", locid)
    person("push")
    person("custom", "add-block", locid, "10.1.0.0/24")
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, 1]
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("answered", range(3))
def test_a_block_that_is_added_after_all_were_removed_is_sent_until_it_is_there(person: Person, answered: int) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "clear-blocks", locid)
    person("custom", "add-block", locid, "10.5.0.0/24")
    person.upstream.faults = [""] * answered + ["before"]
    person("push", exits=None)
    person.upstream.faults = []
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.5.0.1") == [1, 1, -1]
    settle()
    person("push")
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.5.0.0"])}
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.5.0.1") == [1, 1, -1]


def test_a_removal_of_all_takes_nothing_that_was_given_after_it(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "clear-blocks", locid)
    person("custom", "add-block", locid, "10.5.0.0/24")
    person("custom", "add-block", locid, "10.6.0.0/24")
    person("push")  # and no list shows it before the next
    person("custom", "remove-block", locid, "10.6.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the first does not come back
    person("push", exits=1)
    settle()
    person("push")
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.5.0.0"])}
    assert person.looks_up("10.1.0.1", "10.5.0.1", "10.6.0.1") == [1, -1, 1]


def test_blocks_that_were_all_removed_do_not_come_back_with_a_decision_about_another_edit(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "clear-blocks", locid)
    person("push")
    person("custom", "update", locid, "--areacode", "030")
    place = person.upstream.places[-1]
    renamed = tuple({**place.as_fields(), "areacode": "040"}.values())
    person.upstream.colleague_changes(-1, type(place)(renamed, place.blocks), who="a colleague")
    settle()
    person("refresh", exits=3)
    person("outbox", "retry", json.loads(person("outbox", "list", "--json"))[-1]["id"])
    settle()
    person("refresh")
    assert person.there == {-1: ("Berlin", [])}
    assert person.upstream.places[-1].as_fields()["areacode"] == "030"
    assert person.looks_up("10.1.0.1") == [1]


def test_a_removal_leaves_alone_what_a_colleague_took_besides(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    place = person.upstream.places[-1]
    left = type(place)(place.fields, frozenset({("10.3.0.0", "10.3.0.255"), ("10.2.0.0", "10.2.0.255")}))
    person.upstream.colleague_changes(-1, left, who="a colleague")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.3.0.0"])}


@pytest.mark.parametrize("fault", ["before", "after", "error", "busy"])
def test_a_removal_that_is_cut_short_takes_no_other_block_out_of_lookups(person: Person, fault: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["", fault]  # all blocks are deleted, and the first does not come back
    person("refresh", exits=1)
    assert "10.2.0.0" in person.said
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-1, 1, -1]
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.3.0.0"])}
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-1, 1, -1]


def test_a_half_done_removal_that_is_dropped_puts_back_what_there_was(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["", "busy"]
    person("push", exits=1)
    assert person.there == {-1: ("Berlin", [])}
    person("outbox", "drop", 4)
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


def test_after_an_acknowledged_delete_all_the_blocks_come_back_whatever_a_replica_shows(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    person("sync")  # which still has both
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, 1]


@pytest.mark.parametrize("answer", ["busy after", "denied after"])
def test_a_removal_that_was_put_off_after_its_work_goes_on(person: Person, answer: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = [answer]
    person("push", exits=1)
    assert person.there == {-1: ("Berlin", [])}
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, 1]
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_a_block_that_a_late_deletion_takes_after_all_is_told(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["later"]  # that the other is put back is answered by: it is there
    person("push")
    person.upstream.settle()
    settle()
    person("sync", exits=3)
    assert person.there == {-1: ("Berlin", [])}
    assert "and does not show them: it has Berlin, DE: 10.1.0.0-10.1.0.255 is missing; `geolookup" in person.said


@pytest.mark.parametrize("later", ["remove", "replace", "clear"])
def test_a_block_that_a_later_edit_takes_is_not_missed(person: Person, later: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    if later == "remove":
        person("custom", "remove-block", locid, "10.1.0.0/24")
    elif later == "replace":
        person("custom", "replace-block", locid, "10.1.0.0/24", "10.4.0.0/24")
    else:
        person("custom", "clear-blocks", locid)
    person.pushes_for_all_to_see()
    assert person.looks_up("10.1.0.1") == [1]


def test_a_removal_of_unknown_outcome_can_be_dropped_after_a_sync_as_its_error_says(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the other does not come back
    person("push", exits=1)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit, exits=2)
    assert "sync first, and drop it if it waits then" in person.said
    settle()
    person("sync")
    person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


def test_a_block_waits_for_its_removal_elsewhere_also_if_its_adding_was_not_answered(person: Person) -> None:
    here, there = person.has("10.5.0.0/24"), person.has("10.6.0.0/24", city="Bonn", latitude=50.7, longitude=7.1)
    person("custom", "add-block", here, "10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=None)
    assert "10.1.0.0" in person.there[-1][1]
    person("custom", "remove-block", here, "10.1.0.0/24")
    person("custom", "add-block", there, "10.1.0.0/24")
    person("push", exits=None)
    assert "rejected" not in person.said
    assert "waits for edit 5: add 10.1.0.0-10.1.0.255 to -1\n" in person.said
    for _ in range(2):
        settle()
        person("push", exits=None)
    assert person.there == {-1: ("Berlin", ["10.5.0.0"]), -2: ("Bonn", ["10.1.0.0", "10.6.0.0"])}


def test_a_block_that_was_added_after_a_removal_and_is_removed_again_is_gone_at_the_service(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    for edit, block in (("remove-block", "10.1.0.0/24"), ("add-block", "10.3.0.0/24")):
        person("custom", edit, locid, block)
        person("push")
    person("custom", "remove-block", locid, "10.3.0.0/24")
    settle()
    person("sync")
    person("push")
    assert person.there == {-1: ("Berlin", [])}
    settle()
    person("sync")
    assert person.looks_up("10.3.0.1") == [1]


def test_a_deletion_that_a_person_decided_on_is_sent_though_one_before_was_lost(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "replace-block", locid, "10.1.0.0/24", "10.2.0.0/24")
    person("push")
    person("custom", "delete", locid)
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, replace(place, blocks=frozenset()), who="colleague")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person("push", exits=3)
    edits = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", "retry", edits[0])
    person("push")
    assert person.there == {}


def test_a_removal_that_is_dropped_while_an_earlier_one_is_half_done_leaves_that_as_it_is(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the others do not come back
    person("push", exits=1)
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("outbox", "drop", max(row["id"] for row in json.loads(person("outbox", "list", "--json"))))
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.2.0.0", "10.3.0.0"])}


def test_a_half_done_removal_that_is_dropped_puts_back_what_there_was_after_another_list(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    settle()
    person("sync")
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit)
    person.upstream.colleague_creates(ELSEWHERE, [], who="colleague")  # so that the list is another one
    person("sync")
    person("push")
    assert person.there[-1] == ("Berlin", ["10.1.0.0", "10.2.0.0"])


@pytest.mark.parametrize("later", ["refused", "waiting", "conflicting"])
@pytest.mark.parametrize("removal", [("remove-block", "10.1.0.0/24"), ("clear-blocks",)], ids=lambda words: words[0])
def test_blocks_that_were_removed_do_not_come_back_as_a_later_edit_is_dropped(
    person: Person, removal: tuple[str, ...], later: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", removal[0], locid, *removal[1:])
    person("push")
    left = person.there
    if later == "conflicting":
        person("custom", "update", locid, "--areacode", "1")
        place = person.upstream.places[-1]
        fields = {**place.as_fields(), "areacode": "2"}
        person.upstream.colleague_changes(-1, replace(place, fields=tuple(fields.values())), who="colleague")
    else:
        person("custom", "add-block", locid, "10.3.0.0/24")
        person.upstream.colleague_creates(ELSEWHERE, [("10.3.0.0", "10.3.0.255")], who="colleague")
        left = person.there
    if later != "waiting":
        person("push", exits=3)
    person("outbox", "drop", max(row["id"] for row in json.loads(person("outbox", "list", "--json"))))
    assert person.looks_up("10.1.0.1") == [1]
    for _ in range(2):
        person("push")
        settle()
        person("sync")
    assert person.there == left
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_block_that_a_colleague_gave_before_us_is_removed_once_a_list_has_shown_it(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("custom", "add-block", locid, "10.3.0.0/24")
    _gives(person, "10.3.0")
    settle()
    person("sync")
    person("custom", "remove-block", locid, "10.3.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, who="colleague")
    person("sync")
    person("push")
    assert person.there == {-1: ("Berlin", []), -2: ("Sydney", [])}
    assert person.looks_up("10.3.0.1") == [1]


def test_a_block_that_came_back_and_is_removed_here_goes_after_a_retry_of_what_was_lost_too(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push")
    after = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, before, who="colleague")
    settle()
    person("sync", exits=3)  # it is not shown
    person.upstream.colleague_changes(-1, after, who="colleague")
    person("custom", "remove-block", locid, "10.3.0.0/24")
    person("outbox", "retry", 3)
    settle()
    person("sync")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("colleague", ["puts it back", "changes a field"])
def test_a_half_done_removal_that_is_held_and_dropped_puts_back_what_it_took_besides(
    person: Person, colleague: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    if colleague == "changes a field":
        person("custom", "update", locid, "--areacode", "030")
        person.upstream.faults = ["", "", "before"]
    else:
        person.upstream.faults = ["", "before"]
    person("push", exits=1)
    place = person.upstream.places[-1]
    if colleague == "changes a field":
        theirs = Place(tuple({**place.as_fields(), "areacode": "040"}.values()), place.blocks)
    else:
        theirs = Place(place.fields, frozenset({("10.1.0.0", "10.1.0.255")}))
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    settle()
    person("push", exits=3)
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", "drop", held[0])
    person("push", exits=None)
    settle()
    person("sync", exits=None)
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_half_done_removal_that_was_refused_and_is_dropped_is_given_up(person: Person, is_lost: bool) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    if is_lost:  # the first delete-all: a second one is sent for the same edit
        person.upstream.faults = ["before"]
        person("push", exits=1)
        settle()
    person.upstream.faults = ["", "refused"]
    person("push", exits=3)
    person("outbox", "drop", 4)
    person("push")
    settle()
    person("sync")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


@pytest.mark.parametrize("removal", [("remove-block", "10.2.0.0/24"), ("clear-blocks",)], ids=lambda words: words[0])
@pytest.mark.parametrize("later", ["update", "delete"])
def test_a_block_that_was_removed_and_that_a_colleague_gives_after_a_list_is_theirs(
    person: Person, removal: tuple[str, ...], later: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", removal[0], locid, *removal[1:])
    person("push")
    person("custom", later, locid, *(("--postalcode", "10115") if later == "update" else ()))
    settle()
    person("sync")
    given = _gives(person, "10.2.0")
    person("sync")
    if later == "update":
        assert person.looks_up("10.2.0.1") == [-1]
    person("push", exits=3 if later == "delete" else 0)
    assert later != "delete" or "10.2.0.0-10.2.0.255 is there, too;" in person.said
    assert person.upstream.places[-1].blocks == given.blocks


@pytest.mark.parametrize("is_known", [True, False])
def test_a_half_done_removal_puts_the_other_blocks_back_though_a_colleague_corrects_the_place(
    person: Person, is_known: bool
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    place = person.upstream.places[-1]
    elsewhere = {} if is_known else {"latitude": 50.7, "longitude": 7.1}
    renamed = tuple({**place.as_fields(), "city": "Spandau", **elsewhere}.values())
    person.upstream.colleague_changes(-1, Place(renamed, place.blocks), who="colleague")
    settle()
    person("push", exits=0 if is_known else 3)
    if not is_known:  # it has neither its city nor a coordinate any more: a person says that it is still it
        person("outbox", "adopt", 4, -1)
        assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, -1]
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Spandau", ["10.2.0.0"])}


@pytest.mark.parametrize("later", ["nothing", "delete"])
@pytest.mark.parametrize("decision", ["drop", "retry"])
def test_a_block_that_a_half_done_removal_took_and_a_colleague_gives_again_is_a_conflict(
    person: Person, later: str, decision: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the other does not come back
    person("push", exits=1)
    if later == "delete":
        person("custom", "delete", locid)
    settle()
    person("sync", exits=None)
    assert person.upstream.places[-1].blocks == set()
    given = _gives(person, "10.1.0")
    person("push", exits=3)
    assert "the service has changed Berlin (-1) since the edit was made" in person.said
    assert person.upstream.places[-1].blocks == given.blocks
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", decision, held[0])  # which decides of all
    person("push")
    person.pushes_for_all_to_see()
    first = {"drop": ["10.1.0.0", "10.2.0.0"], "retry": ["10.2.0.0"]}[decision]
    there = {-1: ("Berlin", first)} if (later, decision) != ("delete", "retry") else {}
    assert person.there == there


def test_a_place_is_found_under_another_number_after_a_removal(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    person("custom", "update", locid, "--postalcode", "10115")
    settle()
    person("sync")
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, None, who="the service, by a copy")
    number = person.upstream.colleague_creates(place.as_fields(), place.blocks, who="the service, by a copy")
    person("push")
    assert {at: each.as_fields()["postalcode"] for at, each in person.upstream.places.items()} == {number: "10115"}


def test_a_block_that_was_given_and_taken_again_before_a_push_is_a_colleagues_who_gives_it(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    given = _gives(person, "10.2.0")
    person("push")
    assert "done: remove 10.2.0.0-10.2.0.255 from -1: somebody else has given what it takes" in person.said
    person("sync")
    assert person.upstream.places[-1].blocks == given.blocks
    assert person.looks_up("10.2.0.1") == [-1]


def test_an_edit_that_the_service_has_is_not_told_again_as_a_later_one_is_sent(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    for command in 2 * ("add-block", "remove-block"):
        person("custom", command, locid, "10.2.0.0/24")
        person("push")
        assert person.said.count("done: ") == 1


def test_a_removal_that_was_taken_back_is_not_told_as_done_with_another(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert "done: remove 10.2.0.0-10.2.0.255 from -1: the service has it" in person.said
    assert "remove 10.1.0.0-10.1.0.255 from -1: the service has it" not in person.said
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_an_add_that_was_refused_and_taken_back_is_not_refused_again_with_another(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert "done: add 10.2.0.0-10.2.0.255 to -1: a later edit replaces it" in person.said
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    assert "1 rejected" in person.said


@pytest.mark.parametrize("decision", ["retry", "drop"])
@pytest.mark.parametrize("how", ["state", "outbox"])
def test_a_restore_in_the_middle_of_a_removal_waits_for_a_person_who_gets_the_other_blocks_back(
    person: Person, tmp_path: Path, home: str, how: str, decision: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("state", "backup", tmp_path / "backup")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    if how == "state":
        person("state", "restore", tmp_path / "backup", "--replace", exits=None)
    else:
        Path(home, "edits.db").unlink()
        person("outbox", "restore", exits=None)
    settle()
    person("push", exits=3)
    assert "older copy of the edits was put back" in person.said
    person("sync", exits=3)
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [1, -1, -1]
    person("outbox", decision, 5)
    person("push")
    settle()
    person("sync")
    again = ["10.1.0.0"] if decision == "drop" else []
    assert person.there == {-1: ("Berlin", [*again, "10.2.0.0", "10.3.0.0"])}


@pytest.mark.parametrize("decision", ["retry", "drop", "adopt"])
@pytest.mark.parametrize("lost", [True, False], ids=["a fail-over lost the half", "a colleague took another block"])
def test_each_choice_about_a_removal_of_which_others_are_missing_too_does_what_it_says(
    person: Person, lost: bool, decision: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("push")
    place = person.upstream.places[-1]
    left = place.blocks - {("10.2.0.0", "10.2.0.255"), *(place.blocks if lost else [])}
    person.upstream.colleague_changes(-1, Place(place.fields, left), who="somebody")
    person("custom", "add-block", locid, "10.5.0.0/24")
    settle()
    person("push", exits=3)
    missing = "10.2.0.0-10.2.0.255" + (", 10.3.0.0-10.3.0.255" if lost else "")
    assert f"`geolookup outbox retry 5` sends it again and gives {missing} back" in person.said
    assert f"`geolookup outbox drop 5` gives it up and gives 10.1.0.0-10.1.0.255, {missing} back" in person.said
    assert "10.5.0.0-10.5.0.255 is missing" not in person.said  # it waits to be sent
    person("outbox", decision, 5, *([-1] if decision == "adopt" else []))
    back = {"retry": ["10.2.0.0"], "drop": ["10.1.0.0", "10.2.0.0"], "adopt": []}[decision]
    back += ["10.3.0.0"] if not lost or decision != "adopt" else []
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1 if each in back else 1 for each in ("10.1.0.0", "10.2.0.0")]
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", [*back, "10.5.0.0"])}


def test_a_removal_that_waits_for_a_block_of_somebody_else_names_it(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    place = person.upstream.places[-1]
    theirs = Place(place.fields, place.blocks | {("172.16.0.0", "172.16.0.255")})
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("push", exits=3)
    assert "172.16.0.0-172.16.0.255 is new there" in person.said


def test_what_a_deletion_makes_needless_is_told_as_replaced(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, [("10.7.0.0", "10.7.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.7.0.0/24")
    person("push", exits=3)
    person("custom", "delete", locid)
    settle()
    person("push")
    assert re.search(r"done: add 10.7.0.0-10.7.0.255 to -\d+: a later edit replaces it", person.said)


def test_what_a_later_edit_replaced_is_told_so_though_nothing_was_pushed(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Bonn")
    person("custom", "update", locid, "--city", "Ulm")
    place = person.upstream.places[-1]
    theirs = Place(tuple({**place.as_fields(), "city": "Ulm"}.values()), place.blocks)
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("sync", exits=None)
    assert "update geolocation -1: done without a push, a later edit replaces it" in person.said
    assert "update geolocation -1: done without a push, the service has it" in person.said


@pytest.mark.parametrize("change", ["add-block", "replace-block"])
def test_a_block_that_was_given_though_the_service_was_busy_is_taken_away_again(person: Person, change: str) -> None:
    locid = person.has("10.1.0.0/24")
    given = ["10.2.0.0/24"] if change == "add-block" else ["10.1.0.0/24", "10.2.0.0/24"]
    person("custom", change, locid, *given)
    person.upstream.faults = ["busy after"]
    person("push", exits=1)
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    assert "somebody else" not in person.said
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0"] if change == "add-block" else [])}
    assert person.looks_up("10.2.0.1") == [1]


@pytest.mark.parametrize("edit", [["delete"], ["add-block", "10.3.0.0/24"], ["update", "--city", "Potsdam"]])
def test_a_block_that_a_colleague_gives_right_after_a_removal_is_seen(
    person: Person, edit: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("push")
    _gives(person, "10.2.0")
    person("custom", edit[0], locid, *edit[1:])
    person("push", exits=3 if edit == ["delete"] else 0)
    ((_, blocks),) = person.there.values()
    assert "10.2.0.0" in blocks


_ONE = ("remove-block", -1, "10.4.0.0/24")


@pytest.mark.parametrize("choice", ["", "retry", "drop"])
@pytest.mark.parametrize(
    ("is_copied", "what"),
    [
        pytest.param(False, _ONE, id="another machine"),
        pytest.param(False, ("clear-blocks", -1), id="another machine, all"),
        pytest.param(True, _ONE, id="an older copy"),
    ],
)
def test_a_removal_that_finds_other_blocks_gone_too_is_asked_about(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    is_copied: bool, what: tuple[object, ...], choice: str,
) -> None:  # fmt: skip
    person.has("10.1.0.0/24", "10.3.0.0/24", "10.4.0.0/24")
    other = str(tmp_path / "other")
    if is_copied:
        person("custom", *what)
        shutil.copytree(home, other)
        shutil.copytree(home, tmp_path / "night")
    else:
        monkeypatch.setenv("GEOLOOKUP_HOME", other)
        person("sync")
        monkeypatch.setenv("GEOLOOKUP_HOME", home)
        person("custom", "remove-block", -1, "10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)  # the service has none of the blocks for now
    if is_copied:
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "night", home)
    else:
        monkeypatch.setenv("GEOLOOKUP_HOME", other)
        person("custom", *what)
    person("push", exits=3)
    assert ("10.3.0.0-10.3.0.255 is missing" in person.said) == (what == _ONE)
    assert person.there == {-1: ("Berlin", [])}
    if choice:
        (edit,) = {each["id"] for each in json.loads(person("outbox", "list", "--json")) if each["state"] == "held"}
        person("outbox", choice, edit)
        person("push")
        person.pushes_for_all_to_see()
        assert person.there == {-1: ("Berlin", [])}
    if not is_copied:
        monkeypatch.setenv("GEOLOOKUP_HOME", home)
        settle()
        person("push")
        assert person.there == {-1: ("Berlin", ["10.3.0.0", "10.4.0.0"])}
        monkeypatch.setenv("GEOLOOKUP_HOME", other)
        person("sync")
        person("push")
        blocks = ["10.3.0.0", "10.4.0.0"] if choice else ["10.3.0.0"] if what == _ONE else []
        assert person.there == {-1: ("Berlin", blocks)}


@pytest.mark.parametrize("decision", ["adopt", "retry"])
def test_a_half_done_removal_of_what_has_another_number_is_not_dropped_before_that_is_known(
    person: Person, decision: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the others do not come back
    person("push", exits=1)
    fields = person.upstream.places[-1].as_fields()
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_creates(fields, who="colleague")
    settle()
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    assert f"`geolookup outbox adopt {edit} -2` says that -2 is it" in person.said
    assert "outbox drop" not in person.said
    person("outbox", "drop", edit, exits=2)
    assert "half done" in person.said
    person("outbox", decision, edit, *([-2] if decision == "adopt" else []))
    if decision == "adopt":
        person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    blocks = {number: blocks for number, (_, blocks) in person.there.items()}
    if decision == "adopt":
        assert blocks == {-2: ["10.1.0.0", "10.2.0.0", "10.3.0.0"]}
    else:
        assert blocks == {-2: [], -3: ["10.2.0.0", "10.3.0.0"]}


@pytest.mark.parametrize("then", ["at once", "after a list", "after the other is dropped"])
def test_a_block_that_is_removed_while_it_cannot_be_put_back_is_not_put_back_later(person: Person, then: str) -> None:
    locid = person.has("10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24")
    person("custom", "remove-block", locid, "10.0.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and the others do not come back
    person("push", exits=1)
    person.upstream.colleague_creates(ELSEWHERE, [("10.0.1.0", "10.0.1.255")], who="colleague")
    settle()
    person("push", exits=None)
    settle()
    person("push", exits=3)  # somebody has one of them by now
    person("custom", "remove-block", locid, "10.0.1.0/24")
    person("push", exits=None)
    if then == "after a list":
        settle()
        person("sync", exits=None)
    elif then == "after the other is dropped":
        first = min(row["id"] for row in json.loads(person("outbox", "list", "--json")) or [{"id": 0}])
        person("outbox", "drop", first, exits=None)
    person.upstream.colleague_changes(-2, None, who="colleague")
    for _ in range(2):
        settle()
        person("push", exits=None)
    settle()
    person("sync", exits=None)
    assert person.there == {-1: ("Berlin", ["10.0.2.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []
    assert person.looks_up("10.0.1.1", "10.0.2.1") == [1, -1]


def test_a_block_that_is_taken_and_given_again_and_is_elsewhere_by_now_is_named_as_missing(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("custom", "add-block", locid, "10.1.0.0/24")
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, replace(place, blocks=frozenset()), who="colleague")
    person.upstream.colleague_creates(ELSEWHERE, [("10.1.0.0", "10.1.0.255")], who="colleague")
    settle()
    person("push", exits=3)
    assert "it has Berlin, DE: 10.1.0.0-10.1.0.255 is missing; `geolookup outbox retry" in person.said


def test_what_is_refused_of_a_removal_leaves_nothing_else_missing(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    for command, block in (("remove-block", "1"), ("remove-block", "2"), ("add-block", "7")):
        person("custom", command, locid, f"10.{block}.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, [("10.7.0.0", "10.7.0.255")], who="colleague")
    person("push", exits=3)
    assert person.there[-1] == ("Berlin", ["10.3.0.0"])
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "rejected")
    person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    assert person.there[-1] == ("Berlin", ["10.3.0.0"])
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("choice", ["drop", "remove"])
def test_a_block_that_somebody_takes_in_the_middle_of_a_removal_is_left_to_him(person: Person, choice: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and nothing comes back
    person("push", exits=1)
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    settle()
    person("push", exits=3)
    edit, problem = next((row["id"], row["problem"]) for row in json.loads(person("outbox", "list", "--json")))
    command = "custom remove-block -1 10.2.0.0-10.2.0.255"
    assert f"`geolookup outbox drop {edit}` gives it up, `geolookup {command}` goes on without that block" in problem
    person(*(("outbox", "drop", edit) if choice == "drop" else command.split()))
    person.pushes_for_all_to_see()
    assert person.there[-1] == ("Berlin", ["10.1.0.0", "10.3.0.0"] if choice == "drop" else ["10.3.0.0"])
    assert json.loads(person("outbox", "list", "--json")) == []
    assert person.looks_up("10.2.0.1", "10.3.0.1") == [-2, -1]


@pytest.mark.parametrize("dropped", ["refused", "queued"])
def test_a_block_that_was_to_come_back_and_is_dropped_comes_back_no_more(person: Person, dropped: str) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    settle()
    person("sync", exits=None)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit)  # all three are to come back
    person.upstream.colleague_creates(ELSEWHERE, [("10.1.0.0", "10.1.0.255")], who="colleague")
    person("push", exits=3)
    rows = {row["state"]: row["id"] for row in json.loads(person("outbox", "list", "--json"))}
    if dropped == "refused":
        person("outbox", "drop", rows["rejected"])
    else:
        person("outbox", "drop", rows["queued"] if "queued" in rows else rows["rejected"])
        person("push", exits=None)
        rows = {row["state"]: row["id"] for row in json.loads(person("outbox", "list", "--json"))}
        if "rejected" in rows:
            person("outbox", "drop", rows["rejected"])
    person.pushes_for_all_to_see()
    assert json.loads(person("outbox", "list", "--json")) == []
    assert "10.1.0.0" not in person.there[-1][1]
