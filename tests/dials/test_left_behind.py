"""A number that a place of ours has no more: what lookups have of it in older lists, and what is told if it is back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place, changed


def _retried(person: Person, *edit: str, given: bool = False) -> Place:
    """Edit a place that somebody has deleted, or whose number is something else, and have it made anew: what it was."""
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    before = person.upstream.places[-1]
    tokyo = Place(tuple(ELSEWHERE.values()), frozenset({("172.16.0.0", "172.16.0.255")}))
    person.upstream.colleague_changes(-1, tokyo if given else None, who="colleague")
    person("custom", edit[0], locid, *edit[1:])
    settle()
    person("push", exits=3)
    person("outbox", "retry", json.loads(person("outbox", "list", "--json"))[0]["id"])
    return before


EDITS: list[Any] = [
    ("remove-block", "10.2.0.0/24"),
    ("replace-block", "10.2.0.0/24", "10.7.0.0/24"),
    ("clear-blocks",),
    ("update", "--city", "Potsdam"),
]


@pytest.mark.parametrize("given", [False, True], ids=["deleted", "something else"])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[0])
def test_what_was_made_anew_and_is_there_again_is_told(person: Person, edit: tuple[str, ...], given: bool) -> None:
    before = _retried(person, *edit, given=given)
    person.pushes_for_all_to_see()
    person.upstream.fail_over({**person.upstream.places, -1: before})
    settle()
    person("sync", exits=3)
    assert "geolocation -1 (Berlin, DE with 10.1.0.0-10.1.0.255, 10.2.0.0-10.2.0.255) was gone" in person.said
    person("custom", "delete", "--", -1)
    person.pushes_for_all_to_see()
    assert -1 not in person.there
    assert len(person.there) == 1


@pytest.mark.parametrize("choice", ["adopt", "retry", "drop"])
@pytest.mark.parametrize("given", [False, True], ids=["deleted", "something else"])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[0])
def test_what_is_to_be_made_anew_and_is_there_again_before_the_push_is_asked_about(
    person: Person, edit: tuple[str, ...], given: bool, choice: str
) -> None:
    before = _retried(person, *edit, given=given)
    person.upstream.fail_over({**person.upstream.places, -1: before})
    settle()
    person("sync", exits=3)
    number = json.loads(person("outbox", "list", "--json"))[0]["id"]
    assert f"`geolookup outbox adopt {number} -1` says that -1 is it" in person.said
    person("outbox", choice, number, *([-1] if choice == "adopt" else []))
    person("push", exits=None)
    settle()
    person("sync", exits=None)
    person("push", exits=None if choice == "retry" else 0)
    wanted = {
        "remove-block": ("Berlin", ["10.1.0.0"]),
        "replace-block": ("Berlin", ["10.1.0.0", "10.7.0.0"]),
        "clear-blocks": ("Berlin", []),
        "update": ("Potsdam", ["10.1.0.0", "10.2.0.0"]),
    }[edit[0]]
    there, kept = person.there, ("Berlin", ["10.1.0.0", "10.2.0.0"])
    assert there.pop(-1) == (wanted if choice == "adopt" else kept)
    # One that is made besides is without the blocks that the other one has: that is told, and waits for a person.
    assert list(there.values()) == ([(wanted[0], [])] if choice == "retry" else [])


def test_what_was_made_anew_and_deleted_unsent_is_told_if_it_is_there_again(person: Person) -> None:
    before = _retried(person, "remove-block", "10.2.0.0/24")
    person("custom", "delete", json.loads(person("custom", "list", "--json"))[0]["locid"])
    assert person.looks_up("10.1.0.1") == [1]
    person.upstream.fail_over({**person.upstream.places, -1: before})
    settle()
    person("sync", exits=3)
    assert "was gone from the service, and is there again" in person.said


@pytest.mark.parametrize("edit", EDITS[:3], ids=lambda edit: edit[0])
def test_the_former_number_of_what_was_made_anew_answers_no_more(person: Person, edit: tuple[str, ...]) -> None:
    _retried(person, *edit)
    person("push")
    assert person.looks_up("10.2.0.1") == [1]
    settle()
    person("sync")
    published = json.loads(person("generations", "list", "--format", "json"))
    person("generations", "rollback", published[1]["number"], "--yes")
    assert person.looks_up("10.2.0.1") == [1]


@pytest.mark.parametrize("is_synced", [False, True], ids=["pushed", "pushed and synced, and rolled back"])
def test_the_former_numbers_at_a_service_that_numbers_otherwise_answer_no_more(person: Person, is_synced: bool) -> None:
    first, second = person.has("10.1.0.0/24", "10.2.0.0/24"), person.has("10.3.0.0/24", city="Bonn", latitude=50.73)
    served = json.loads(person("generations", "list", "--format", "json"))[0]["number"]
    person.upstream.fail_over({number - 10: place for number, place in person.upstream.places.items()})
    settle()
    person("custom", "remove-block", first, "10.2.0.0/24")
    person("custom", "delete", second)
    person("push")
    if is_synced:
        settle()
        person("sync", exits=None)
        person("generations", "rollback", served, "--yes")
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-11, 1, 1]
    assert [each["locid"] for each in json.loads(person("custom", "list", "--json"))] == [-11]


def test_a_rollback_names_the_sites_from_here_that_the_older_list_has_otherwise(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.has("10.1.0.0/24")
    person.has("10.2.0.0/24", city="Bonn", latitude=50.73)
    theirs = person.upstream.colleague_creates(ELSEWHERE, [("10.3.0.0", "10.3.0.255")], who="colleague")
    settle()
    person("sync")
    places = person.upstream.places
    for number in (-2, theirs):
        person.upstream.colleague_changes(number, None, who="colleague")
    person.upstream.colleague_changes(-1, changed(places[-1], country="FR"), who="colleague")
    settle()
    person("sync", exits=None)
    asked: list[str] = []
    monkeypatch.setattr("geolookup.cli.data.generations.may_ask", lambda **_: True)
    monkeypatch.setattr("click.confirm", lambda question: not asked.append(question))
    person("generations", "rollback")
    assert len(asked) == 1
    shown = [line for line in person.said.splitlines() if "256 IPv4" in line and "->" in line]
    assert [line.split("\t")[0].strip() for line in shown] == ["(no country) -> AU"], person.said
    assert "since they were made or edited here: Bonn, DE (-2, gone), Berlin, DE (-1)" in person.said
    assert person.looks_up("10.1.0.1", "10.2.0.1", "10.3.0.1") == [-1, 1, theirs]


def test_what_is_gone_and_deleted_here_answers_no_more(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    settle()
    person("push", exits=3)
    person("custom", "delete", locid)
    person.creates("10.3.0.0/24", city="Bonn", latitude=50.73)
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [1, 1]


@pytest.mark.parametrize("choice", ["adopt", "retry", "drop"])
def test_what_has_no_blocks_and_may_have_another_number_is_asked_about(person: Person, choice: str) -> None:
    locid = person.has()
    person.upstream.fail_over({-11: person.upstream.places[-1]})
    settle()
    person("custom", "update", locid, "--postalcode", "10117")
    person("push", exits=3)
    assert (
        "may be Berlin (-1): -11 (Berlin, DE: postalcode empty instead of 10117); `geolookup outbox adopt 2 -11` says"
        in person.said
    )
    person("outbox", choice, 2, *([-11] if choice == "adopt" else []))
    person("push")
    settle()
    person("sync", exits=None)
    person("push")
    postal = {number: place.as_fields()["postalcode"] for number, place in person.upstream.places.items()}
    assert postal == {"adopt": {-11: "10117"}, "retry": {-11: "", -2: "10117"}, "drop": {-11: ""}}[choice]


def _named(person: Person, name: str, **fields: str) -> None:
    options = [f"--{option}={value}" for option, value in {**BERLIN, **fields}.items()]
    person("custom", "create", name, *options)


@pytest.mark.parametrize("number", [-1, -3])
def test_what_is_like_a_site_that_was_deleted_from_here_is_not_that_site(
    person: Person, tmp_path: Path, number: int
) -> None:
    _named(person, "HQ")
    person("custom", "add-block", "HQ", "10.1.0.0/24")
    _named(person, "Lab", city="Bonn", latitude="50.7", longitude="7.1")
    person.pushes_for_all_to_see()
    was = person.upstream.places[-1]
    person("custom", "export", tmp_path / "sites.csv")
    person("custom", "apply", tmp_path / "sites.csv")
    lines = (tmp_path / "sites.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "sites.csv").write_text("".join(line for line in lines if "HQ" not in line), encoding="utf-8")
    person("custom", "apply", tmp_path / "sites.csv")
    person.pushes_for_all_to_see()
    person.upstream.dials = Dials(reuse=number == -1)
    fields = {**was.as_fields(), **({"city": "Potsdam"} if number == -1 else {})}
    person.upstream.colleague_creates(fields, sorted(was.blocks), who="colleague")
    person("sync", exits=3 if number == -1 else 0)
    assert "HQ" not in person.said
    person("custom", "apply", tmp_path / "sites.csv")
    assert "nothing to change" in person.said
    person.pushes_for_all_to_see()
    assert sorted(person.there) == sorted([-2, number])


def test_what_a_lost_create_made_is_not_the_place_that_had_its_number(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    _named(person, "office")
    person.pushes_for_all_to_see()
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("sync", exits=3)
    _named(person, "north", postalcode="13347")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("sync")  # which has it, and has not settled
    assert "again" not in person.said
    settle()
    person("push")
    assert list(person.there) == [-1]
    assert json.loads(person("custom", "show", "north", "--json"))["locid"] == -1


@pytest.mark.parametrize("choice", ["adopt", "drop"])
@pytest.mark.parametrize("blocks", [[], ["10.1.0.0/24"]], ids=["no blocks", "a block, and a colleague changes a field"])
@pytest.mark.parametrize("is_pushed", [False, True], ids=["waits", "acknowledged"])
def test_what_has_another_number_and_is_not_quite_what_it_was_is_asked_about(
    person: Person, is_pushed: bool, blocks: list[str], choice: str
) -> None:
    locid = person.has(*blocks)
    if is_pushed:
        person("custom", "update", locid, "--areacode", "9")
        person("push")
    place = person.upstream.places[-1]
    fields = {**place.as_fields(), **({"dmacode": "5"} if blocks else {})}
    person.upstream.fail_over({-7: Place(tuple(fields.values()), place.blocks)})
    person("custom", "update", locid, "--postalcode", "10117")
    settle()
    person("push", exits=3)
    number = json.loads(person("outbox", "list", "--json"))[0]["id"]
    assert f"`geolookup outbox adopt {number} -7` says that -7 is it" in person("outbox", "show", number)
    assert "postalcode empty instead of 10117" in person.said
    assert ("dmacode 5 instead of empty" in person.said) == bool(blocks)
    person("outbox", choice, number, *([-7] if choice == "adopt" else []))
    person.pushes_for_all_to_see()
    wanted = {**fields, **({"postalcode": "10117"} if choice == "adopt" else {})}
    assert person.upstream.places == {-7: Place(tuple(wanted.values()), place.blocks)}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("how", ["a field", "a block more", "a block less", "no blocks"])
@pytest.mark.parametrize("is_pushed", [False, True], ids=["waits", "acknowledged"])
def test_what_was_deleted_and_has_another_number_and_is_not_quite_what_it_was_is_asked_about(
    person: Person, is_pushed: bool, how: str
) -> None:
    locid = person.has(*([] if how == "no blocks" else ["10.1.0.0/24", "10.2.0.0/24"]))
    place = person.upstream.places[-1]
    person("custom", "delete", locid)
    if is_pushed:
        person("push")
    fields = {**place.as_fields(), **({"areacode": "9"} if how == "a field" else {})}
    blocks = place.blocks | ({("10.3.0.0", "10.3.0.255")} if how == "a block more" else set())
    blocks -= {("10.2.0.0", "10.2.0.255")} if how == "a block less" else set()
    there = Place(tuple(fields.values()), frozenset(blocks))
    person.upstream.fail_over({-7: there})
    settle()
    person("sync", exits=3)
    assert not is_pushed or "has another number" not in person.said  # somebody may have made a new one
    assert person.upstream.places == {-7: there}
    number = json.loads(person("outbox", "list", "--json"))[0]["id"]
    assert "-7" in person("outbox", "show", number)
    person("outbox", "adopt", number, -7)
    person("push", exits=None)
    if json.loads(person("outbox", "list", "--json")):  # it has a block that the person did not see
        person("outbox", "retry", number)
        person("push")
    assert person.there == {}


def test_what_is_there_again_as_it_was_is_answered_again_though_the_list_is_as_it_was(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    places = dict(person.upstream.places)
    person("custom", "delete", locid)
    person.upstream.fail_over({})
    settle()
    person("push")  # it is gone already
    person.upstream.fail_over(places)
    settle()
    person("sync", exits=3)
    assert "is there again" in person.said
    assert person.looks_up("10.1.0.1") == [-1]


def test_what_a_wrong_answer_named_was_never_ours_and_is_not_told_as_there_again(person: Person) -> None:
    person.upstream.dials = Dials(lie=1.0)
    person.creates("10.1.0.0/24")
    person("push", exits=1)
    person.upstream.dials = Dials()
    theirs = {**person.upstream.places[-1].as_fields(), "areacode": "7"}
    person.upstream.fail_over({**person.upstream.places, -8: Place(tuple(theirs.values()), frozenset())})
    said = ""
    for _ in range(3):
        settle()
        person("push", exits=None)
        said += person.said
        person("sync", exits=None)
        said += person.said
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -8: ("Berlin", [])}
    assert "is there again" not in said


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("update", "--postalcode", "5"), "postalcode '' instead of '5'"),
        (("add-block", "10.3.0.0/24"), "without 10.3.0.0-10.3.0.255"),
        (("remove-block", "10.2.0.0/24"), "with 10.2.0.0-10.2.0.255"),
    ],
    ids=["field", "block", "removal"],
)
def test_what_a_service_loses_of_edits_that_it_has_shown_is_said_once(
    person: Person, edit: tuple[str, ...], said: str
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    before = dict(person.upstream.places)
    person("custom", edit[0], locid, *edit[1:])
    person.pushes_for_all_to_see()
    settle()
    person("sync")
    assert "had changed" not in person.said
    person.upstream.fail_over(before)
    settle()
    person("sync")
    assert f"the service has again what edits from here had changed: Berlin (-1): {said}. Somebody undid" in person.said
    settle()
    person("sync")
    assert "had changed" not in person.said
    person("custom", edit[0], locid, *edit[1:])
    person.pushes_for_all_to_see()
    person("custom", "undo", "--run")
    person.pushes_for_all_to_see()
    settle()
    person("sync")
    assert "had changed" not in person.said


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("first", ["push", "sync"])
def test_what_a_fail_over_undid_is_named_once_though_another_edit_of_the_place_waits(
    person: Person, when: str, first: str
) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places
    person("custom", "update", locid, "--areacode", "1")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.pushes_for_all_to_see()
    if when == "before":
        person("custom", "update", locid, "--postalcode", "9")
    person.upstream.fail_over(before)
    if when == "after":
        person("custom", "update", locid, "--postalcode", "9")
    said = ""
    for command in (first, "push", "sync", "sync"):
        settle()
        person(command)
        said += person.said
    assert said.count("Berlin (-1): areacode '' instead of '1', without 10.2.0.0-10.2.0.255. Somebody undid") == 1
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("blocks", [(), ("10.2.0.0/24",)], ids=["bare", "with a block"])
@pytest.mark.parametrize("waits", [True, False], ids=["settled", "at once"])
def test_a_place_is_not_made_anew_where_it_is_again_though_an_answer_gave_its_number_to_another(
    person: Person, blocks: tuple[str, ...], waits: bool
) -> None:
    person.upstream.dials = Dials(reuse=True)
    person("sync")
    copy = person.upstream.places
    locid = person.has(*blocks)
    primary = person.upstream.places
    person("custom", "update", locid, "--postalcode", "3000")
    person.upstream.fail_over(copy)
    settle()
    person.creates("10.4.0.0/24", city="Ulm", latitude=48.4)
    person("push", exits=3)  # Berlin is gone, and Ulm has its number
    person.upstream.fail_over(primary)
    if waits:
        settle()
    (held,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "retry", held)
    person("push", exits=3)
    assert "the service has something new that may be Berlin" in person.said
    assert set(person.there) == {-1}


def test_who_has_the_blocks_of_a_site_that_is_gone_is_named(person: Person) -> None:
    person.has("10.1.0.0/24", "10.2.0.0/24")
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, None, who="colleague")
    tokyo = place.as_fields() | {"country": "JP", "city": "Tokyo", "latitude": 35.7, "longitude": 139.7}
    number = person.upstream.colleague_creates(tokyo, {("10.1.0.0", "10.1.0.255")}, who="colleague")
    settle()
    person("sync", exits=None)
    assert f"makes it anew, once its blocks are taken from {number} (Tokyo, JP with 10.1.0.0-" in person.said


def test_who_of_ours_has_the_blocks_of_a_site_that_is_gone_is_named_and_it_is_not_to_be_made_anew(
    person: Person,
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person.has("10.3.0.0/24", city="Bonn", latitude=50.73)
    gone, taker = person.upstream.places[-1], person.upstream.places[-2]
    person("custom", "update", locid, "--areacode", "9")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_changes(-2, Place(taker.fields, taker.blocks | gone.blocks), who="colleague")
    settle()
    person("push", exits=3)
    assert "deleted by somebody: -2 (Bonn, DE with 10.1.0.0-10.1.0.255" in person.said
    assert "has a block of it" in person.said
    assert "outbox retry" not in person.said
    assert "outbox drop" in person.said


def test_what_is_hidden_by_a_number_that_was_just_given_is_said(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    person("sync")
    person.creates("10.4.0.0/24", city="Ulm", latitude=48.4)
    person("push")
    fields = person.upstream.places[-1].as_fields() | {"city": "Bern", "country": "CH", "latitude": 46.9}
    person.upstream.colleague_changes(-1, None, who="colleague")
    person.upstream.colleague_creates(fields, {("10.2.0.0", "10.2.0.255")}, who="colleague")
    person("sync")
    assert (
        "the service shows Bern, CH with 10.2.0.0-10.2.0.255 under -1, which is the number of Ulm (-1)" in person.said
    )
    assert person.looks_up("10.4.0.1") == [-1]
    settle()
    person("sync", exits=3)
    assert person.looks_up("10.2.0.1") == [-1]


def test_what_was_given_the_number_and_a_block_of_a_site_is_not_told_as_there_again(
    person: Person, tmp_path: Path
) -> None:
    sites = tmp_path / "sites.csv"
    sites.write_text("name,country,city,latitude,longitude,blocks\nDepot,DE,Berlin,52.5,13.4,10.1.0.0/24 10.2.0.0/24\n")
    person("custom", "apply", sites)
    person.pushes_for_all_to_see()
    person.upstream.dials = Dials(reuse=True)
    person.upstream.colleague_changes(-1, None, who="colleague")
    assert person.upstream.colleague_creates(ELSEWHERE, [("10.1.0.0", "10.1.0.255")], who="colleague") == -1
    settle()
    person("sync", exits=None)
    sites.write_text(sites.read_text().replace("10.1.0.0/24 ", ""))
    person("custom", "apply", sites, "--keep", "mine")
    person("push")
    settle()
    person("sync")
    assert "there again" not in person.said
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -2]


def test_a_half_done_removal_of_what_lost_its_number_to_another_can_be_given_up(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]  # all are deleted, and nothing comes back
    person("push", exits=1)
    person.upstream.colleague_changes(-1, None, who="colleague")
    assert person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague") == -1
    settle()
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    problem = person("outbox", "show", edit)
    assert problem.count(f"`geolookup outbox adopt {edit} -1`") == 1
    assert f"`geolookup outbox drop {edit}` gives it up" in problem
    person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Sydney", ["10.2.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []
