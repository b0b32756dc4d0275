"""Numbers that a service names wrongly, or gives again: whose a geolocation is, and what is sent to it."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place, changed

BLOCKS = ("10.3.0.0", "10.4.0.0")


def test_a_wrong_number_in_an_answer_is_not_believed_for_long(person: Person) -> None:
    person.upstream.dials = Dials(lie=1.0)
    person.creates("10.1.0.0/24")
    person("push", exits=1)
    person.upstream.dials = Dials()
    settle()
    person("sync")
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_an_edit_goes_to_the_right_number_once_its_push_learns_it(person: Person) -> None:
    person.upstream.dials = Dials(lie=1.0)
    locid = person.creates(country="", city="")
    person("push")
    person.upstream.dials = Dials()
    settle()
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push")
    assert person.there == {-1: ("", ["10.1.0.0"])}


def test_an_edit_waits_if_its_push_learns_that_the_create_made_nothing(person: Person) -> None:
    locid = person.creates(country="", city="")
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("custom", "add-block", locid, "10.1.0.0/24")
    before = len(person.upstream.log)
    person("push", exits=3)
    assert "said yes to edits of" in person.said
    assert len(person.upstream.log) == before
    person("outbox", "retry", 1)
    person("push")
    assert person.there == {-2: ("", ["10.1.0.0"])}


def test_a_number_that_a_create_never_had_is_free_for_the_one_that_gets_it(person: Person) -> None:
    person.upstream.faults = ["as -2"]
    gone = person.creates("10.1.0.0/24")
    person("push", exits=1)  # the block finds nothing under this number
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("custom", "delete", gone)
    settle()
    person("push")  # gone, as it shall be
    person.creates("10.2.0.0/24", postalcode="10115")
    person("push")
    settle()
    person("sync")
    assert person.there == {-2: ("Berlin", ["10.2.0.0"])}
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, -2]


def test_a_block_that_may_have_gone_to_a_wrong_number_is_told_of(person: Person) -> None:
    person.upstream.faults = ["after", "as -1", "error"]
    person.creates(postalcode="10115")
    second = person.creates("10.1.0.0/24", postalcode="10117")
    person("push", exits=1)
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Berlin", [])}
    settle()
    person("sync", exits=3)
    assert (
        "locid -1 to a create that made -2: what was sent to -1 for it since may have changed something" in person.said
    )
    assert json.loads(person("custom", "show", second, "--json"))["locid"] == -2


def test_what_a_colleague_made_under_a_wrong_number_is_not_taken_for_ours(person: Person) -> None:
    person.upstream.faults = ["as -3", "as -1"]
    first = person.creates(postalcode="10115")
    person.creates(city="Bonn", latitude=50.73)
    person("push")
    like = {**ELSEWHERE, **BERLIN, "postalcode": "10999"}
    assert person.upstream.colleague_creates(like, [("172.16.0.0", "172.16.0.0")], who="colleague") == -3
    settle()
    person("sync", exits=3)
    assert "-1 (Berlin, 10115, DE), or -3 (Berlin, 10999, DE with 172.16.0.0: postalcode 10999 " in person.said
    assert "`geolookup outbox adopt 1 -1` says that -1 is it, `geolookup outbox adopt 1 -3` says" in person.said
    person("outbox", "adopt", 1, -1)
    person("custom", "add-block", first, "10.1.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Bonn", []), -3: ("Berlin", ["172.16.0.0"])}


def test_of_two_creates_with_wrong_numbers_neither_keeps_what_the_other_made(person: Person) -> None:
    person.upstream.faults = ["as -7", "as -1"]
    first = person.creates(postalcode="10115")
    second = person.creates(postalcode="10117")
    person("push")
    person("custom", "delete", first)
    settle()
    person("push")
    assert list(person.there) == [-2]
    assert json.loads(person("custom", "show", second, "--json"))["locid"] == -2
    assert json.loads(person("outbox", "list", "--json")) == []


def test_nothing_goes_to_the_new_owner_of_a_number(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.9.0.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    blocks = [("172.16.0.0", "172.16.0.0")]
    fields = {**person.upstream.dials.stored(ELSEWHERE)}
    assert person.upstream.colleague_creates(fields, blocks, who="colleague") == -1
    person("push", exits=3)
    assert person.there == {-1: ("Sydney", ["172.16.0.0"])}


def test_a_number_that_a_deletion_freed_for_an_older_create_is_the_creates(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    first, second = person.creates("10.1.0.0/24"), person.creates("10.2.0.0/24", postalcode="10115")
    person.pushes_for_all_to_see()
    person.creates("10.4.0.0/24", postalcode="10117")  # for which a list is read
    person("custom", "delete", second)
    person.creates("10.3.0.0/24", postalcode="10117")  # goes out after its equal
    person("custom", "delete", first)  # goes out with the other deletion, before the create
    person("push")
    third, fourth = (next(each for each in person.there if person.there[each][1] == [block]) for block in BLOCKS)
    assert sorted(person.there) == sorted([third, fourth])
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1") == [1, 1, third, fourth]
    settle()
    person("sync")  # which tells nobody that a deletion is missing
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1") == [1, 1, third, fourth]


def test_a_number_that_we_deleted_is_nothing_of_ours_any_more(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")  # no list is conclusive for the deletion
    person("custom", "delete", locid)
    person("push")
    theirs = [("172.16.0.0", "172.16.0.0")]
    assert person.upstream.colleague_creates({**ELSEWHERE, **BERLIN}, theirs, who="colleague") == -1
    person("sync")
    assert person.looks_up("172.16.0.0", "10.1.0.1") == [-1, 1]
    for command in ("show", "delete"):
        person("custom", command, locid, exits=2)
    person("custom", "add-block", locid, "10.9.0.0/24", exits=2)
    person("push")
    assert person.there == {-1: ("Berlin", ["172.16.0.0"])}


def test_a_number_that_somebody_elses_branch_got_is_not_believed_unasked_if_what_was_sent_is_there(
    person: Person,
) -> None:
    person.creates(areacode="030")
    person.upstream.faults = ["as -2"]  # which nothing has yet
    person("push")
    assert person.upstream.colleague_creates({**ELSEWHERE, **BERLIN}, who="colleague") == -2
    settle()
    person("sync", exits=3)  # or a colleague has changed it, and made an equal one
    assert "-1 (Berlin, DE), or -2 (Berlin, DE: " in person.said
    assert "`geolookup outbox adopt 1 -1` says that -1 is it" in person.said
    assert person.there == {-1: ("Berlin", []), -2: ("Berlin", [])}


@pytest.mark.parametrize("is_updated", [False, True])
@pytest.mark.parametrize(
    ("edit", "left"),
    [
        (("delete",), {}),
        (("remove-block", "10.1.0.0/24"), {-500: ("Berlin", [])}),
        (("add-block", "10.2.0.0/24"), {-500: ("Berlin", ["10.1.0.0", "10.2.0.0"])}),
        (("update", "--city", "Bonn"), {-500: ("Bonn", ["10.1.0.0"])}),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_what_a_copy_numbers_otherwise_before_a_list_has_shown_it_gets_the_edits_that_follow(
    person: Person, edit: tuple[str, ...], left: dict[int, Any], is_updated: bool
) -> None:
    locid = person.creates("10.1.0.0/24")
    person("push")
    if is_updated:
        person("custom", "update", locid, "--postalcode", "10115")
        person("push")
    person.upstream.fail_over({-500: person.upstream.places[-1]})
    settle()
    person("custom", edit[0], locid, *edit[1:])
    person("push")
    assert "(-500) has another number at the service: it was -1" in person.said
    assert person.there == left
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []
    assert person.looks_up("10.1.0.1") == [1 if edit[0] in ("delete", "remove-block") else -500]


@pytest.mark.parametrize("how", ["state", "edits", "nothing"])
def test_a_number_that_was_given_before_a_restore_is_not_given_again(person: Person, tmp_path: Path, how: str) -> None:
    person.has("10.1.0.0/24")
    backup = tmp_path / "backup"
    person("state", "backup", backup)
    rows = (f"Bonn {at},DE,Bonn,50.{at},7.1,10.2.{at}.0/24" for at in range(20))  # more than the backup can count
    Path(tmp_path, "sites.csv").write_text("\n".join(["name,country,city,latitude,longitude,blocks", *rows]))
    person("custom", "apply", tmp_path / "sites.csv")
    person.pushes_for_all_to_see()
    number = min(row["locid"] for row in json.loads(person("outbox", "list", "--all", "--json")))
    if how == "state":
        person("state", "restore", backup, "--replace", exits=None)
    elif how == "edits":
        person("outbox", "restore", exits=None)
    else:
        person("outbox", "restore", "--empty", exits=None)
    person("sync", exits=None)
    if how == "edits":  # whose newest backup may have it
        assert person.creates("10.3.0.0/24", city="Rome", latitude=41.9) != number
        return
    assert person.creates("10.3.0.0/24", city="Rome", latitude=41.9) < number
    person("custom", "delete", "--", number, exits=2)


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize(
    "edit", [("delete",), ("add-block", "10.7.0.0/24"), ("update", "--region", "NRW")], ids=lambda e: e[0]
)
def test_of_two_branches_in_one_town_that_a_copy_numbers_otherwise_each_stays_what_it_was(
    person: Person, edit: tuple[str, ...], is_synced: bool
) -> None:
    bare = person.has(postalcode="10115")
    person.has("10.2.0.0/24", postalcode="10117")
    first, second = (person.upstream.places[number] for number in (-1, -2))
    person.upstream.fail_over({-1: second, -2: first})
    settle()
    if is_synced:
        person("sync")
        assert "has another number at the service: it was -1" in person.said
    person("custom", edit[0], bare, *edit[1:])
    person("push")
    assert person.upstream.places[-1] == second
    assert (-2 in person.there) == (edit[0] != "delete")
    settle()
    person("sync")
    assert person.looks_up("10.2.0.1") == [-1]
    assert json.loads(person("outbox", "list", "--json")) == []


def test_two_branches_in_one_town_that_a_colleague_made_equal_keep_their_numbers(person: Person) -> None:
    first, second = person.has("10.1.0.0/24", postalcode="10115"), person.has(postalcode="10117")
    person("custom", "update", second, "--areacode", "7")
    person("push")
    settle()
    person("sync")
    person("custom", "clear-blocks", first)
    person("push")
    fields = person.upstream.places[-1].fields
    person.upstream.colleague_changes(-1, Place(fields, frozenset({("172.16.0.0", "172.16.0.0")})), who="colleague")
    person.upstream.colleague_changes(-2, Place(fields, frozenset()), who="colleague")
    settle()
    person("sync")
    assert person.looks_up("172.16.0.0") == [-1]
    person("custom", "update", first, "--city", "Bonn")
    person("push")
    assert person.there == {-1: ("Bonn", ["172.16.0.0"]), -2: ("Berlin", [])}


def test_a_number_that_a_person_ruled_out_is_asked_about_if_it_shows_what_was_created_since(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.upstream.colleague_changes(-1, Place(tuple(ELSEWHERE.values()), frozenset()), who="colleague")
    person("push", exits=3)  # -1 is something else
    person("outbox", "retry", 3)
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person.upstream.faults = ["after"]
    person("push", exits=1)  # it is created as -1, and nobody knows
    settle()
    person("push", exits=3)
    edit = json.loads(person("outbox", "list", "--json"))[0]["id"]
    person("outbox", "adopt", edit, -1)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


def test_what_a_push_told_to_have_another_number_and_changed_there_is_not_told_to_be_gone(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person.upstream.fail_over({-500: person.upstream.places[-1]})
    settle()
    person("custom", "update", locid, "--areacode", "030")
    person("push")
    assert "(-500) has another number at the service: it was -1" in person.said
    person("sync")
    assert "gone" not in person.said


def test_what_follows_a_create_is_given_up_with_it(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person("sync")
    locid = person.creates(dmacode="Z")
    person("push")
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_creates({**place.as_fields(), "dmacode": "W"}, [("10.8.0.0", "10.8.0.255")], who="other")
    person("custom", "add-block", locid, "10.5.0.0/24")
    settle()
    person("push", exits=3)
    person("outbox", "drop", 1)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.8.0.0"])}
    assert person.looks_up("10.5.0.1") == [1]


def test_a_place_that_is_over_hides_no_other_of_ours_that_has_its_number(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person.has("10.3.0.0/24")
    person("custom", "clear-blocks", -1)
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.creates("10.3.0.0/24", dmacode="N")
    for command in ("push", "push", "sync", "sync"):
        person(command, exits=None)
        settle()
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    for edit in held:
        person("outbox", "drop", edit)
    person("push")
    person("sync")
    assert person.there == {-1: ("Berlin", ["10.3.0.0"])}
    assert person.looks_up("10.3.0.1") == [-1]


def test_a_place_that_is_itself_and_was_given_a_block_is_not_the_one_that_had_it(person: Person) -> None:
    fields = {**ELSEWHERE, "region": "", **BERLIN}
    blocks = [("10.1.0.0", "10.1.0.255"), ("10.2.0.0", "10.2.0.255")]
    person.upstream.colleague_creates({**fields, "dmacode": "X"}, blocks, who="colleague")
    person.upstream.colleague_creates({**fields, "dmacode": "Y"}, [("10.3.0.0", "10.3.0.255")], who="colleague")
    person("sync")
    person("custom", "update", -2, "--postalcode", "5")
    other, place = person.upstream.places[-1], person.upstream.places[-2]
    new = Place(tuple({**place.as_fields(), "dmacode": "N"}.values()))
    person.upstream.colleague_changes(-2, new, who="colleague")
    given = other.blocks - {blocks[1]} | {("10.3.0.0", "10.3.0.255"), ("10.4.0.0", "10.4.0.255")}
    person.upstream.colleague_changes(-1, Place(other.fields, given), who="colleague")
    person("push", exits=None)
    assert person.upstream.places[-1].as_fields()["postalcode"] == ""
    assert "another number" not in person.said


def test_a_deletion_that_waits_for_a_decision_is_not_done_because_a_copy_numbers_otherwise(person: Person) -> None:
    locid = person.creates("10.1.0.0/24")
    person("push")
    person("custom", "delete", locid)
    block = ("172.16.0.0", "172.16.0.0")
    before = person.upstream.places[-1]
    for fields in (before.fields, Place(tuple({**before.as_fields(), "city": "Bonn"}.values())).fields):
        person.upstream.colleague_changes(-1, Place(fields, before.blocks | {block}), who="colleague")
        settle()
        person("sync")
    person.upstream.fail_over({-4: person.upstream.places[-1]})
    settle()
    person("sync")
    assert "has another number at the service: it was -1" in person.said
    person("push", exits=3)  # a colleague has changed it
    person("outbox", "retry", 3)
    person("push")
    assert person.there == {}


def test_a_deletion_that_a_person_decided_on_takes_that_and_not_what_was_made_twice(person: Person) -> None:
    person.upstream.dials = Dials(twice=1.0)
    locid = person.creates()
    person("push")
    person("custom", "update", locid, "--city", "Bonn")
    place = person.upstream.places[-2]
    theirs = Place(place.fields, frozenset({("172.16.0.0", "172.16.0.0")}))
    person.upstream.colleague_changes(-2, theirs, who="colleague")
    person("push")
    person("custom", "delete", locid)
    settle()
    person("sync", exits=3)  # it was made twice
    person("push", exits=3)  # and a colleague has changed it
    person("outbox", "retry", 3)
    person("sync", exits=3)
    person("push", exits=None)
    assert person.there == {-1: ("Berlin", [])}


@pytest.mark.parametrize(
    "edit", [("update", "--dmacode", "9"), ("add-block", "10.2.0.0/24"), ("clear-blocks",)], ids=lambda edit: edit[0]
)
@pytest.mark.parametrize("blocks", [(["10.1.0.0/24"], []), ([], ["10.1.0.0/24"]), ([], [])])
def test_two_branches_in_a_town_whose_numbers_are_exchanged_before_a_push_keep_what_is_theirs(
    person: Person, edit: tuple[str, ...], blocks: tuple[list[str], list[str]]
) -> None:
    here = person.creates(*blocks[0], areacode="1")
    person.creates(*blocks[1], areacode="2")
    person.pushes_for_all_to_see()
    numbers = dict(
        zip(
            ("1", "2"), (-1, -2) if person.upstream.places[-1].as_fields()["areacode"] == "1" else (-2, -1), strict=True
        )
    )
    places = person.upstream.places
    person.upstream.fail_over({-1: places[-2], -2: places[-1]})
    other = places[numbers["2"]]
    if edit[0] != "clear-blocks" or blocks[0]:
        person("custom", edit[0], here, *edit[1:])
    person("push", exits=None)
    settle()
    person("sync", exits=None)
    left = [place for place in person.upstream.places.values() if place.as_fields()["areacode"] == "2"]
    assert left == [other]


@pytest.mark.parametrize(
    "edit", [("update", "--dmacode", "9"), ("remove-block", "10.1.0.0/24")], ids=lambda edit: edit[0]
)
def test_two_branches_in_a_town_whose_numbers_are_exchanged_after_a_lost_answer_keep_what_is_theirs(
    person: Person, edit: tuple[str, ...]
) -> None:
    here = person.creates("10.1.0.0/24", "10.3.0.0/24", areacode="1")
    person.creates(areacode="2")
    person.pushes_for_all_to_see()
    mine = next(number for number, place in person.upstream.places.items() if place.blocks)
    other = next(place for place in person.upstream.places.values() if not place.blocks)
    person("custom", edit[0], here, *edit[1:])
    person.upstream.faults = ["after"]
    person("push", exits=1)
    places = person.upstream.places
    person.upstream.fail_over({mine: other, -3 - mine: places[mine]})
    person("sync", exits=None)
    settle()
    person("push", exits=None)
    settle()
    person("sync", exits=None)
    left = [place for place in person.upstream.places.values() if place.as_fields()["areacode"] == "2"]
    assert left == [other]
    (moved,) = (place for place in person.upstream.places.values() if place.as_fields()["areacode"] == "1")
    assert ("10.3.0.0", "10.3.0.255") in moved.blocks


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_that_are_exchanged_before_a_list_has_shown_them_tell_nothing_of_how_the_service_stores(
    person: Person, first: int
) -> None:
    codes = ["", "013"] if first == 0 else ["013", ""]
    places = {code: person.creates(areacode=code) for code in codes}
    person("push")
    settle()
    there = person.upstream.places
    person.upstream.fail_over({-1: there[-2], -2: there[-1]})
    person("custom", "add-block", places[""], "10.1.0.0/24")
    person("push")
    assert "does not keep" not in person.said
    found = sorted((place.as_fields()["areacode"], len(place.blocks)) for place in person.upstream.places.values())
    assert found == [("", 1), ("013", 0)]


@pytest.mark.parametrize("later", [False, True])
def test_a_block_that_is_moved_after_a_push_learned_new_numbers_is_not_answered_under_the_old_ones(
    person: Person, later: bool
) -> None:
    locid = person.has("10.1.0.0/24") if later else person.creates("10.1.0.0/24")
    if later:
        person("custom", "replace-block", locid, "10.1.0.0/24", "10.3.0.0/24")
    person("push")
    person("sync")
    person.upstream.fail_over({-7: person.upstream.places[-1]})
    settle()
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push")
    assert "has another number at the service: it was -1" in person.said
    person("custom", "remove-block", locid, "10.3.0.0/24" if later else "10.1.0.0/24")
    assert person.looks_up("10.1.0.1", "10.3.0.1", "10.2.0.1") == [1, 1, -7]


def test_a_create_that_no_list_has_shown_does_not_keep_the_number_of_what_moved_there(person: Person) -> None:
    person.has("10.1.0.0/24")
    person.creates(postalcode="10033")
    person("push")
    settle()
    there = person.upstream.places
    person.upstream.fail_over({-1: there[-2], -2: there[-1]})
    person("sync")
    assert "Berlin (-2) has another number at the service: it was -1" in person.said
    person("custom", "update", -1, "--dmacode", "9")
    person("push")
    found = {number: place.as_fields() for number, place in person.upstream.places.items()}
    assert {number: (fields["postalcode"], fields["dmacode"]) for number, fields in found.items()} == {
        -1: ("10033", "9"),
        -2: ("", ""),
    }


def test_a_place_that_we_deleted_is_not_in_lookups_though_the_published_list_has_what_a_colleague_made_of_it(
    person: Person,
) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    fields = tuple({**place.as_fields(), "city": "Ulm"}.values())
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("push")
    person("custom", "delete", locid)
    person.upstream.colleague_changes(-1, type(place)(fields, place.blocks), who="colleague")
    person("sync", exits=None)
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=None)
    assert "it is gone already" in person.said
    assert person.looks_up("10.1.0.1") == [1]


def _changed_since_the_last_sync(person: Person) -> int:
    """A place that has another block, and is elsewhere, than the published list says; a push has read a newer one."""
    locid = person.has("10.1.0.0/24")
    person("custom", "replace-block", locid, "10.1.0.0/24", "10.2.0.0/24")
    person("custom", "update", locid, "--city", "Ulm", "--latitude", "48.4", "--longitude", "9.99")
    person("push")
    settle()
    person("custom", "add-block", person.creates(city="Bonn"), "10.3.0.0/24")
    person("push")
    return locid


def test_what_a_newer_list_has_is_not_answered_as_an_older_one_has_it_however_much_it_has_changed(
    person: Person,
) -> None:
    locid = _changed_since_the_last_sync(person)
    person("custom", "delete", locid)
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, 1]
    person("push")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, 1]
    settle()
    person.creates(city="Mainz")
    person("push")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, 1], "a list of that push has shown that it is gone"


def test_what_has_another_number_is_not_answered_as_an_older_list_has_it_however_it_has_changed(person: Person) -> None:
    locid = _changed_since_the_last_sync(person)
    there = person.upstream.places
    settle()
    person.upstream.fail_over({-7: there[-1], -8: there[-2]})
    person("custom", "add-block", locid, "10.4.0.0/24")
    person("push")
    assert "has another number at the service: it was -1" in person.said
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.4.0.1") == [1, -7, -7]


@pytest.mark.parametrize("has_all", [False, True], ids=["a copy that lacks them", "a copy that has them"])
def test_what_has_another_number_before_its_edits_have_settled_is_answered_with_them(
    person: Person, has_all: bool
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    former = person.upstream.places[-1]
    person("custom", "update", locid, "--city", "Bonn")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    person.upstream.fail_over({-7: person.upstream.places[-1] if has_all else former})
    for number, exits in ((-1, 0), (-7, 0 if has_all else 3)):
        person("sync", exits=exits)
        ours, theirs = json.loads(person("lookup", "10.1.0.1", "10.2.0.1", "--format", "json"))
        assert (ours["locid"], ours["city"], theirs["locid"]) == (number, "Bonn", 1)
        settle()


@pytest.mark.parametrize("is_known", [True, False], ids=["one that a list has shown", "one that none has shown"])
@pytest.mark.parametrize("pulls", [True, False])
def test_a_branch_without_blocks_whose_number_is_exchanged_with_that_of_a_new_one_keeps_what_is_its_own(
    person: Person, is_known: bool, pulls: bool
) -> None:
    here = person.has() if is_known else person.creates()
    second = person.creates("10.1.0.0/24")
    person("push")
    if pulls:
        person("sync")
    places = person.upstream.places
    person.upstream.fail_over({-1: places[-2], -2: places[-1]})
    person("custom", "update", here, "--city", "Bonn")
    person("push", exits=None)
    person("sync", exits=None)
    assert person.looks_up("10.1.0.1") == [json.loads(person("custom", "show", second, "--json"))["locid"]]
    for _ in range(2):
        settle()
        person("push", exits=None)
        person("sync", exits=None)
    assert person.upstream.places[-1] == places[-2]
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Bonn", [])}
    assert person.looks_up("10.1.0.1") == [-1]
    assert json.loads(person("custom", "show", here, "--json"))["city"] == "Bonn"


@pytest.mark.parametrize("is_exchanged", [True, False], ids=["exchanged", "moved on"])
@pytest.mark.parametrize("edit", [("delete",), ("update", "--areacode", "7"), ("remove-block", "10.1.0.0/24")])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_place_that_was_just_pushed_leaves_the_number_that_a_list_gives_to_another_one(
    person: Person, is_exchanged: bool, edit: tuple[str, ...], is_new: bool
) -> None:
    older = person.has("10.1.0.0/24", "10.3.0.0/24")
    newer = person.creates("10.5.0.0/24", city="Bonn", latitude=50.73)
    if not is_new:
        person.pushes_for_all_to_see()
        person("custom", "update", newer, "--areacode", "9")
    person("push")
    places = person.upstream.places
    roma = Place(tuple(ELSEWHERE.values()), frozenset({("10.8.0.0", "10.8.0.255")}))
    moved = {-1: places[-2]} if is_exchanged else {-1: roma, -4: places[-2]}
    person.upstream.fail_over({**moved, -2: places[-1]})
    person("sync", exits=None)
    shown = {each: json.loads(person("custom", "show", each, "--json"))["locid"] for each in (older, newer)}
    assert person.looks_up("10.1.0.1", "10.5.0.1") == [shown[older], shown[newer]]
    assert shown[older] == -2
    person("custom", edit[0], older, *edit[1:])
    person("push", exits=None)
    for _ in range(2):
        settle()
        person("push", exits=None)
        person("sync", exits=None)
    left = person.upstream.places
    assert places[-2] in left.values()
    assert places[-1] not in left.values()
    assert (-2 in left) == (edit[0] != "delete")
    assert len(person.looks_up("10.5.0.1")) == 1


@pytest.mark.parametrize("gone", [(), (3,), tuple(range(1, 13))], ids=["none gone", "one gone", "all gone"])
def test_names_and_edits_follow_a_list_that_is_accepted(person: Person, tmp_path: Path, gone: tuple[int, ...]) -> None:
    sites = ["name,country,city,latitude,longitude,cidr"]
    sites += [f"S{at},DE,City {at},{45 + at}.5,10.5,10.{at}.0.0/24" for at in range(1, 13)]
    (tmp_path / "sites.csv").write_text("\n".join(sites) + "\n")
    person("custom", "apply", tmp_path / "sites.csv")
    person.pushes_for_all_to_see()
    person("custom", "update", "S4", "--areacode", "9")
    person("custom", "replace-block", "S5", "10.5.0.0/24", "10.95.0.0/24")
    person("custom", "delete", "S6")
    there = sorted(person.upstream.places.items(), reverse=True)
    left = [place for at, (_, place) in enumerate(there, 1) if at not in gone]
    person.upstream.fail_over({-50 - at: place for at, place in enumerate(left)})
    person("sync", exits=3)
    (digest,) = re.findall(r"sync --accept (\w+)", person.said)
    person("sync", "--accept", digest, exits=3 if gone else 0)
    for at in gone:
        assert (f"S{at}" in person.said) or at == 6
    listed = {each["site"]: each for each in json.loads(person("custom", "list", "--json"))}
    assert {*listed} >= {f"S{at}" for at in range(1, 13) if at not in (*gone, 6)}
    assert listed["S4"]["areacode"] == "9"
    answers = [
        json.loads(line)
        for line in person("lookup", "10.95.0.1", "10.5.0.1", "10.6.0.1", "--format", "ndjson").splitlines()
    ]
    assert [each.get("city") for each in answers] == ["City 5", "", ""]


@pytest.mark.parametrize("city", ["Berlin", "Ulm"])
@pytest.mark.parametrize("blocks", [(), ("10.9.0.0/24",)], ids=["bare", "with a block"])
def test_a_create_that_gets_the_number_of_what_was_just_deleted_is_made_once_and_the_other_is_told(
    person: Person, city: str, blocks: tuple[str, ...]
) -> None:
    person.upstream.dials = Dials(reuse=True)
    person("custom", "create", "Old", "--block", "10.1.0.0/24", *(f"--{key}={value}" for key, value in BERLIN.items()))
    person.pushes_for_all_to_see()
    person.creates(*blocks, city=city)
    handle = person.upstream.handle

    def deleted_before(method: str, *request: Any) -> Any:
        if method == "POST" and person.upstream.places[-1].blocks == {("10.1.0.0", "10.1.0.255")}:
            person.upstream.colleague_changes(-1, None, who="colleague")
        return handle(method, *request)

    person.upstream.handle = deleted_before  # type: ignore[method-assign] # between the list and the create
    person("push", exits=1)
    settle()
    person("push", exits=None)
    settle()
    told = person.said
    person("sync", exits=None)
    assert "Old (-1) is gone from the service" in told + person.said
    person("push")
    assert person.there == {-1: (city, ["10.9.0.0"] * len(blocks))}
    assert "Old" not in {each["site"] for each in json.loads(person("custom", "list", "--json"))}


@pytest.mark.parametrize("choice", ["retry", "drop"])
def test_a_create_without_an_answer_that_may_have_the_number_of_what_is_empty_now_is_asked_about(
    person: Person, choice: str
) -> None:
    person.upstream.dials = Dials(reuse=True)
    person.has("10.1.0.0/24")
    person.creates("10.9.0.0/24")
    person.upstream.faults = ["after"]
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.frozen_s = time.monotonic() - 0.01  # a replica that is behind
    person("push", exits=1)
    person.upstream.frozen_s = None
    settle()
    person("push", exits=3)
    assert "something new that may be Berlin" in person.said
    person("sync", exits=None)
    person("push", exits=3)
    assert [write.what for write in person.upstream.log].count("create") == 2
    person("outbox", choice, 3)
    person("push", exits=None)
    person.pushes_for_all_to_see(exits=None)
    assert len(person.there) == (2 if choice == "retry" else 1)


@pytest.mark.parametrize("edit", [(), ("update", "A", "--dmacode", "7"), ("add-block", "A", "10.4.0.0/24")], ids=str)
@pytest.mark.parametrize("new_blocks", [frozenset(), frozenset({("10.9.0.0", "10.9.0.255")})], ids=["bare", "block"])
def test_a_place_is_where_all_its_blocks_are_and_not_what_has_its_number_in_its_town(
    person: Person, edit: tuple[str, ...], new_blocks: frozenset[tuple[str, str]]
) -> None:
    fields = [f"--{key}={value}" for key, value in BERLIN.items()]
    person("custom", "create", "A", "--block", "10.1.0.0/24", "--block", "10.3.0.0/24", "--postalcode", "1", *fields)
    person.pushes_for_all_to_see()
    was = person.upstream.places[-1]
    new = replace(changed(was, postalcode="2"), blocks=new_blocks)
    if edit:
        person("custom", *edit)
    person.upstream.fail_over({-1: new, -2: changed(was, areacode="99")})
    settle()
    person("refresh")
    assert "A (-2) has another number at the service: it was -1" in person.said
    settle()
    person("refresh")
    assert person.upstream.places[-1] == new  # nothing of ours was written to it
    listed = {each["site"]: each["locid"] for each in json.loads(person("custom", "list", "--json"))}
    assert listed == {None: -1, "A": -2}
    there = person.upstream.places[-2]
    assert (len(there.blocks) == 3) == (edit[:1] == ("add-block",))
    assert there.as_fields()["areacode"] == "99"
    assert (there.as_fields()["dmacode"] == "7") == (edit[:1] == ("update",))


@pytest.mark.parametrize("which", [-1, -2])
def test_exchanged_numbers_are_told_if_one_has_no_blocks_and_a_record_was_changed(person: Person, which: int) -> None:
    fields = [f"--{key}={value}" for key, value in BERLIN.items()]
    person("custom", "create", "A", "--block", "10.1.0.0/24", "--postalcode", "1", *fields)
    person("custom", "create", "B", "--postalcode", "2", *fields)
    person.pushes_for_all_to_see()
    exchanged = {-1: person.upstream.places[-2], -2: person.upstream.places[-1]}
    person.upstream.fail_over({**exchanged, which: changed(exchanged[which], areacode="99")})
    settle()
    person("sync", exits=None)
    assert "A (-2) has another number" in person.said
    assert ("B (-1) has another number" if which == -2 else "B (-2) is gone") in person.said
    assert json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))["site"] == "A"


def test_a_new_geolocation_under_the_number_of_what_was_deleted_is_not_said_to_be_that_again(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person.has("10.1.0.0/24")
    new = replace(changed(person.upstream.places[-1], postalcode="10999"), blocks=frozenset())
    person("custom", "delete", -1)
    person.pushes_for_all_to_see()
    settle()
    person("sync")
    person.upstream.fail_over({-1: new})
    settle()
    person("sync", exits=None)
    assert "is there again" not in person.said


def test_what_has_one_block_and_one_coordinate_of_a_place_in_another_town_is_not_that_place(person: Person) -> None:
    person.has("10.1.0.0/24", "10.2.0.0/24")
    was = person.upstream.places[-1]
    blocks = frozenset(block for block in was.blocks if block[0] == "10.1.0.0")
    new = replace(changed(was, country="ES", city="Madrid", longitude=-3.7), blocks=blocks)
    person("custom", "update", -1, "--areacode", "9")
    person.upstream.fail_over({-1: new})
    settle()
    person("push", exits=3)
    assert "the service has given the number -1 to something else" in person.said
    assert person.upstream.places == {-1: new}


@pytest.mark.parametrize("again", [True, False], ids=["the same", "another"])
def test_a_deletion_and_a_create_without_answers_that_got_one_number_are_both_done(
    person: Person, *, again: bool
) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "delete", locid)
    person.creates("10.1.0.0/24" if again else "10.3.0.0/24", **({} if again else {"postalcode": "10999"}))
    person.upstream.faults = ["after", "after"]
    person("push", exits=1)
    settle()
    person("push")
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0" if again else "10.3.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("choice", ["adopt", "retry", "drop"])
@pytest.mark.parametrize("blocks", [frozenset(), frozenset({("10.1.0.0", "10.1.0.255"), ("10.7.0.0", "10.7.0.255")})])
def test_a_new_owner_in_the_town_of_what_was_deleted_is_deleted_only_if_a_person_says_that_it_is_that(
    person: Person, blocks: frozenset[tuple[str, str]], choice: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    new = replace(changed(person.upstream.places[-1], postalcode="10999"), blocks=blocks)
    person("custom", "delete", locid)
    person("push")
    person.upstream.fail_over({-1: new})
    settle()
    person("sync", exits=3)
    assert "the service has something new that may be" in person.said
    if blocks:
        assert person.looks_up("10.7.0.1") == [-1]
    number = json.loads(person("outbox", "list", "--json"))[0]["id"]
    person("outbox", choice, number, *([-1] if choice == "adopt" else []))
    person("push", exits=None)
    if json.loads(person("outbox", "list", "--json")):  # it has a block that the person has not seen
        person("outbox", "retry", number)
        person("push")
    assert person.upstream.places == ({} if choice == "adopt" else {-1: new})


@pytest.mark.parametrize("how", ["undo", "create"])
def test_a_place_that_is_made_again_and_gets_the_number_of_the_deleted_one_is_not_that(
    person: Person, how: str
) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "delete", locid)
    person("refresh")
    settle()
    if how == "undo":
        person("custom", "undo", "--run")
    else:
        person.creates("10.1.0.0/24")
    person("refresh")
    settle()
    person("refresh")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    assert person.looks_up("10.1.0.1") == [-1]
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_number_and_all_blocks_that_went_to_another_town_are_told(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    tokyo = place.as_fields() | {"country": "JP", "city": "Tokyo", "latitude": 35.7, "longitude": 139.7}
    person.upstream.colleague_changes(-1, Place(tuple(tokyo.values()), place.blocks), who="colleague")
    person("custom", "update", locid, "--postalcode", "1")
    person("push")
    assert "Berlin (-1) was Berlin, DE with 10.1.0.0-10.1.0.255, and has another city and" in person.said
    assert "at the service now: Tokyo, JP with 10.1.0.0-10.1.0.255. Somebody moved it" in person.said
    settle()
    person("sync")
    assert "has another city" not in person.said
    person("custom", "update", locid, "--city", "Bonn", "--latitude", "50.7", "--longitude", "7.1")
    person.pushes_for_all_to_see()
    assert "has another city" not in person.said


@pytest.mark.parametrize(
    "anew",
    [{-1: -4, -2: -1}, {-1: -2, -2: -3}, {-1: -2, -2: -1}],
    ids=["one takes the number of the other", "shifted", "exchanged"],
)
@pytest.mark.parametrize("edit", [("update", "--areacode", "089"), ("add-block", "10.5.0.0/24"), None])
def test_branches_without_blocks_in_one_town_are_told_apart_by_their_other_fields(
    person: Person, anew: dict[int, int], edit: tuple[str, ...] | None
) -> None:
    one = person.has(postalcode="1")
    person.has(postalcode="2")
    person("custom", "rename", "--", -1, "Uno")
    person("custom", "rename", "--", -2, "Due")
    if edit is not None:
        person("custom", edit[0], one, *edit[1:])
    person.upstream.fail_over({anew[at]: place for at, place in person.upstream.places.items()})
    settle()
    person("sync")
    assert "gone" not in person.said
    person.pushes_for_all_to_see()
    there = {at: place.as_fields() for at, place in person.upstream.places.items()}
    assert {fields["postalcode"]: at for at, fields in there.items()} == {"1": anew[-1], "2": anew[-2]}
    is_field = edit is not None and edit[0] == "update"
    assert [there[anew[at]]["areacode"] for at in (-1, -2)] == ["089" if is_field else "", ""]
    assert len(person.upstream.places[anew[-1]].blocks) == (edit is not None and not is_field)
    names = {site["locid"]: site["site"] for site in json.loads(person("custom", "list", "--json"))}
    assert names == {anew[-1]: "Uno", anew[-2]: "Due"}
