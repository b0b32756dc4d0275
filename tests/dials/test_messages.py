"""What a person is told where nobody knows for sure: every number that may be ours, what came late, each effect."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle


def _held(person: Person) -> tuple[int, str]:
    """The one edit that is held, and why."""
    (row,) = (row for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    return row["id"], row["problem"]


def test_every_number_that_may_be_ours_is_named(person: Person) -> None:
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    for at in range(7):
        near = {**ELSEWHERE, **BERLIN, "city": f"Mitte {at}", "latitude": BERLIN["latitude"] + 0.001}
        person.upstream.colleague_creates(near, who="colleague")
    settle()
    person("push", exits=3)
    edit, problem = _held(person)
    assert all(re.search(rf"{number}\b", problem) for number in range(-7, 0)), problem
    person("outbox", "adopt", edit, -7)  # one of those that are not described
    person.pushes_for_all_to_see()
    assert person.there[-7] == ("Mitte 6", ["10.1.0.0"])


@pytest.mark.parametrize("blocks", [(), (("10.2.0.0", "10.2.0.255"),)], ids=["as it was made", "with a new block"])
def test_what_has_the_number_of_the_answer_is_named_beside_what_is_as_it_was_sent(
    person: Person, blocks: tuple[tuple[str, str], ...]
) -> None:
    person.has(city="Bonn", latitude=50.7)
    person.creates()
    person.upstream.faults = ["as -7"]
    person("push")
    place = person.upstream.places[-2]
    person.upstream.colleague_changes(-2, type(place)(place.fields, frozenset(blocks)), who="colleague")
    for number in range(-3, -8, -1):
        where = {**BERLIN, "areacode": "030"} if number == -7 else {"latitude": -33.8 + number}
        assert person.upstream.colleague_creates({**ELSEWHERE, **where}, who="colleague") == number
    settle()
    person("sync", exits=3)
    _, problem = _held(person)
    assert "-2 (" in problem
    assert "-7 (" in problem


@pytest.mark.parametrize("capitals", [False, True], ids=["plain", "a service of capitals"])
def test_an_update_that_lands_after_it_has_settled_is_told(person: Person, capitals: bool) -> None:
    person.upstream.dials = Dials(capitals=capitals)
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.faults = ["after later"]
    person("push", exits=1)
    settle()
    person("sync")
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[0]["id"])
    person("sync")
    assert "late" not in person.said
    person.upstream.settle()
    person("sync", exits=3)
    assert "was carried out late" in person.said
    assert "Potsdam" in person.said or "POTSDAM" in person.said
    person("sync")
    assert "late" not in person.said


@pytest.mark.parametrize("what", ["add-block", "clear-blocks"])
def test_a_change_of_blocks_that_lands_after_it_has_settled_is_told(person: Person, what: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", what, locid, *(["10.2.0.0/24"] if what == "add-block" else []))
    person.upstream.faults = ["after later"]
    person("push", exits=1)
    settle()
    person("sync")
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[0]["id"])
    person.upstream.settle()
    person("sync", exits=3)
    assert "was carried out late" in person.said


@pytest.mark.parametrize(
    "edit",
    [("remove-block", "10.2.0.0/24"), ("replace-block", "10.2.0.0/24", "10.3.0.0/24")],
)
def test_what_a_second_request_did_is_not_told_as_the_late_work_of_the_first(
    person: Person, edit: tuple[str, ...]
) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person("push")
    person("custom", edit[0], locid, *edit[1:])
    settle()
    person("sync")
    assert "carried out late" not in person.said


def test_a_delete_that_lands_after_it_has_settled_is_told(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "delete", locid)
    person.upstream.faults = ["after later"]
    person("push", exits=1)
    settle()
    person("sync")
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[0]["id"])
    person.upstream.settle()
    person("sync", exits=3)
    assert "was carried out late" in person.said


def test_what_was_sent_again_is_not_told_as_late_even_if_it_is_changed_here_since(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person.pushes_for_all_to_see()
    assert "late" not in person.said
    person("sync")
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"])}
    person("custom", "update", locid, "--city", "Spandau")
    person("sync")  # which has Potsdam still: it was sent again, and nothing was late
    assert "late" not in person.said


def test_a_refusal_stays_with_the_edit_that_was_refused(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.faults = ["missing"]
    for command in ("push", "sync", "push"):
        person(command, exits=3)
        states = [row["state"] for row in json.loads(person("outbox", "list", "--json"))]
        assert states == ["queued", "rejected"]


def test_a_refusal_ends_once_a_list_shows_what_was_refused_and_goes_over_to_no_other_edit(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    theirs = person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push", exits=3)
    assert "10.3.0.0" not in {block for _, blocks in person.there.values() for block in blocks}
    ours, other = person.upstream.places[-1], person.upstream.places[theirs]
    person.upstream.colleague_changes(theirs, replace(other, blocks=frozenset()), who="colleague")
    person.upstream.colleague_changes(-1, replace(ours, blocks=ours.blocks | other.blocks), who="colleague")
    settle()
    person("sync")
    assert "refuses" not in person.said
    person("push")
    assert person.there[-1] == ("Berlin", ["10.1.0.0", "10.2.0.0", "10.3.0.0"])


@pytest.mark.parametrize("then", ["another value", "taken back"])
def test_another_edit_of_what_was_refused_is_tried(person: Person, then: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.faults = ["missing"]
    person("push", exits=3)
    if then == "taken back":
        person("custom", "undo", "--run")
    else:
        person("custom", "update", locid, "--city", "Spandau")
    person("push")
    assert person.there == {-1: ("Berlin" if then == "taken back" else "Spandau", ["10.1.0.0"])}
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_create_that_was_deleted_since_is_not_offered_anew(person: Person) -> None:
    locid = person.creates()
    person.upstream.faults = ["before"]
    person("push", exits=1)
    person("custom", "delete", locid)
    near = {**ELSEWHERE, **BERLIN, "city": "Mitte", "latitude": BERLIN["latitude"] + 0.001}
    person.upstream.colleague_creates(near, who="colleague")
    settle()
    person("push", exits=3)
    edit, problem = _held(person)
    assert "creates it anew" not in problem
    assert "nothing is created or deleted" in problem
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Mitte", [])}


def test_what_the_service_lost_whole_is_said_to_be_created_anew(person: Person) -> None:
    empty = person.upstream.places
    person.creates("10.1.0.0/24")
    person("push")
    person.upstream.fail_over(empty)
    settle()
    person("sync", exits=3)
    assert "creates it anew" in json.loads(person("outbox", "list", "--json"))[0]["problem"]


def test_a_delete_all_that_was_carried_out_at_once_is_not_told_as_late(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["after"]  # all blocks are deleted, and nobody is told
    person("push", exits=1)
    settle()
    for _ in range(2):
        person("sync")
        assert "late" not in person.said
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_status_and_doctor_say_that_an_edit_waits_for_a_person(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("status")
    assert "1 edit\n" in person.said
    person("push", exits=3)
    person("status")
    assert "1 edit, 1 of them held or rejected: see `geolookup outbox list`" in person.said
    person("doctor", exits=None)
    assert "1 edit not sent yet, 1 of them held or rejected" in person.said


def test_a_drop_of_all_leaves_what_may_have_been_made_whole_and_says_so(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    lost = person.creates("10.2.0.0/24", city="Ulm", latitude=48.4)
    person.upstream.faults = ["before"]
    person("push", exits=1)
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("outbox", "drop", "--all", "--yes")
    assert f"edit 3 (create geolocation {lost}) is unknown: push first, and drop it if it waits then" in person.said
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Ulm", ["10.2.0.0"])}


def test_a_push_where_nothing_was_published_says_so(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "mistyped"))
    person("push", exits=1)
    assert "does not exist, so it holds no state: check the path" in person.said
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize("is_conclusive", [True, False], ids=["gone", "a list that is behind"])
def test_of_a_place_of_ours_that_a_list_lacks_one_line_says_what_became_of_it(
    person: Person, monkeypatch: pytest.MonkeyPatch, is_conclusive: bool
) -> None:
    person("sync")
    place = dict.fromkeys(ELSEWHERE, "") | BERLIN
    person("custom", "create", "Depot", *(f"--{name}={value}" for name, value in place.items() if value))
    if is_conclusive:
        person.pushes_for_all_to_see()
    else:
        monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
        person("push")
        person("sync")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("sync", exits=3 if is_conclusive else 0)
    assert "not deleted here" not in person.said
    assert ("Depot (-1) is gone from the service" in person.said) == is_conclusive
