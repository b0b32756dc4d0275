"""What a service lost, did in spite of its answer, or shows by an old list: only a conclusive list proves anything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dials.dials import Dials
from tests.dials.person import ELSEWHERE, Person, settle
from tests.dials.upstream import Place


@pytest.mark.parametrize("command", ["push", "refresh"])
def test_a_list_that_a_sync_holds_proves_nothing_to_a_push(person: Person, tmp_path: Path, command: str) -> None:
    head = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
    rows = [f"s{number},DE,BE,Berlin,{10000 + number},52.5,13.4,,,10.0.{number}.0/24\n" for number in range(12)]
    (tmp_path / "sites.csv").write_text(head + "".join(rows))
    person("custom", "apply", tmp_path / "sites.csv")
    person.pushes_for_all_to_see()
    person("custom", "update", "s3", "--city", "Potsdam")
    person("custom", "delete", "s4")
    whole = person.upstream.places
    person.upstream.fail_over({})
    for each in ("sync", command, "sync"):
        settle()
        person(each, exits=None)
        assert "is gone from the service" not in person.said
        assert person.looks_up("10.0.0.1", "10.0.3.1", "10.0.4.1") == [-1, -4, 1]
    person(command, exits=1)
    assert "lacks 11 of 12 custom geolocations" in person.said
    person.upstream.fail_over(whole)
    settle()
    person.pushes_for_all_to_see()
    assert set(person.there) == set(whole) - {-5}
    assert json.loads(person("custom", "show", "s0", "--json"))["locid"] == -1
    assert person.there[-4][0] == "Potsdam"


def _without_blocks(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "ipblocks"}


def _with_networks(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "ipblocks": [{"startip": f"{block['startip']}/24"} for block in row["ipblocks"]]}


def _with_decimal_commas(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "latitude": "52,5"}


def test_an_edit_that_only_a_list_can_tell_of_stops_no_other(person: Person) -> None:
    berlin = person.has("10.1.0.0/24")
    bonn = person.has("10.2.0.0/24", city="Bonn", latitude=50.73)
    theirs = person.upstream.colleague_creates(ELSEWHERE, who="colleague")
    person("sync")
    person("custom", "update", berlin, "--postalcode", "10115")
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person.upstream.spoil = lambda row: {**row, "latitude": "x"} if row["locid"] == theirs else row
    person("custom", "update", bonn, "--postalcode", "53111")
    person("push", exits=1)
    assert "done: update geolocation -2: the service has it" in person.said
    assert f"a row of a custom geolocation cannot be read (locid {theirs}" in person.said
    person("push", exits=1)
    person.upstream.spoil = lambda row: row
    person("push")
    codes = {at: place.as_fields()["postalcode"] for at, place in person.upstream.places.items()}
    assert codes == {-1: "10115", -2: "53111", theirs: ""}


@pytest.mark.parametrize("spoiled", [_without_blocks, _with_networks, _with_decimal_commas])
def test_a_list_in_which_custom_rows_cannot_be_read_ends_no_edit(person: Person, spoiled: Callable[..., Any]) -> None:
    for name, blocks in (("A", ("10.0.0.0/24", "10.0.5.0/24")), ("B", ("10.0.1.0/24",)), ("C", ("10.0.2.0/24",))):
        place = ("--country", "DE", "--city", name, "--latitude", "52.5", "--longitude", "13.4")
        person("custom", "create", name, *place, *(f"--block={block}" for block in blocks))
    person.pushes_for_all_to_see()
    person("custom", "remove-block", "A", "10.0.5.0/24")
    person("custom", "delete", "B")
    person.upstream.spoil = lambda row: spoiled(row) if row["locid"] < 0 else row
    settle()
    person("sync")
    assert "this list ends no edit" in person.said
    assert "gone" not in person.said
    person("push", exits=1)
    assert [row["state"] for row in json.loads(person("outbox", "list", "--json"))] == ["queued", "queued"]
    person.upstream.spoil = lambda row: row
    settle()
    person.pushes_for_all_to_see()
    assert sorted(person.there.values()) == [("A", ["10.0.0.0"]), ("C", ["10.0.2.0"])]
    assert json.loads(person("lookup", "10.0.2.1", "--format", "ndjson"))["site"] == "C"
    assert person.looks_up("10.0.5.1", "10.0.1.1") == [1, 1]


def test_a_service_that_counts_all_geolocations_of_a_filtered_list_takes_updates(person: Person) -> None:
    person.upstream.dials = Dials(counts_all=True)
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    assert person.upstream.places[-1].as_fields()["postalcode"] == "10115"


def test_a_list_that_is_capped_without_a_word_proves_nothing_to_a_push(person: Person) -> None:
    person.upstream.dials = Dials(cap=16)
    for number in range(15):
        person.upstream.colleague_creates({**ELSEWHERE, "latitude": float(number)}, who="colleague")
    person("sync")
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    settle()
    person("push", exits=1)  # the list lacks what was made: there is no room for it
    assert "the list is truncated: 16 geolocations without `top`" in person.said
    assert len(person.there) == 16
    person.upstream.dials = Dials()
    person("push")
    assert len(person.there) == 16
    assert person.looks_up("10.1.0.1") == [-16]


def test_all_that_a_service_lost_is_named_and_kept_and_restored_by_one_retry(person: Person) -> None:
    empty = person.upstream.places
    locid = person.creates("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person.upstream.fail_over(empty)
    settle()
    person("sync", exits=3)
    assert json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))["city"] == "Potsdam"
    held = [row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held"]
    person("outbox", "retry", held[0])
    person.pushes_for_all_to_see()
    assert list(person.there.values()) == [("Potsdam", ["10.1.0.0"])]


def test_a_list_that_was_not_sent_again_proves_nothing(person: Person) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    empty = person.upstream.places
    person.creates("10.1.0.0/24")
    person("push")
    person.upstream.fail_over(empty)
    settle()
    person("sync", exits=3)
    assert json.loads(person("lookup", "10.1.0.1", "--format", "ndjson"))["city"] == "Berlin"


def test_one_etag_for_ever_loses_nothing_and_makes_no_twin(person: Person) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    person.creates("10.1.0.0/24")
    person.pushes_for_all_to_see()
    settle()
    person("sync")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    assert person.looks_up("10.1.0.1") == [-1]


@pytest.mark.parametrize("edit", ["delete", "remove-block 10.1.0.0/24", "add-block 10.9.0.0/24", "update --region=BE"])
def test_one_etag_for_ever_is_no_proof_against_a_look(person: Person, edit: str) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    command, *rest = edit.split()
    person("custom", command, locid, *rest)
    tokyo = Place(tuple(ELSEWHERE.values()), frozenset({("172.16.0.0", "172.16.0.255")}))
    person.upstream.colleague_changes(-1, tokyo, who="colleague")
    person("push", exits=3)
    assert "the service has given the number -1 to something else" in person.said
    assert person.upstream.places == {-1: tokyo}


@pytest.mark.parametrize("edit", ["delete", "remove-block 10.1.0.0/24", "update --region=BE"])
def test_what_creates_are_held_against_is_no_proof_against_a_look(person: Person, edit: str) -> None:
    person.upstream.etag = '"always"'
    person("sync")
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person.creates(city="Bonn", latitude=50.73)
    command, *rest = edit.split()
    person("custom", command, locid, *rest)
    before = person.upstream.places[-1]
    fields = tuple((before.as_fields() | {"region": "Bavaria"}).values())
    theirs = Place(fields, before.blocks | {("172.16.0.0", "172.16.0.255")})
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("push", exits=3)
    assert "the service has changed Berlin (-1)" in person.said
    assert person.upstream.places[-1] == theirs


def test_two_branches_in_one_town_whose_requests_are_lost_in_turn_are_not_held(person: Person) -> None:
    first, second = person.creates(), person.creates(latitude=52.521, longitude=13.41)
    person.upstream.faults = ["before", "after"]
    person("push", exits=1)
    settle()
    person("push")
    settle()
    person("sync")
    shown = [json.loads(person("custom", "show", locid, "--json")) for locid in (first, second)]
    assert [place["latitude"] for place in shown] == [52.520008, 52.521]
    assert len(person.there) == 2


def test_what_is_gone_can_be_made_anew_as_the_message_says(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "retry", edit)
    person.pushes_for_all_to_see()
    assert list(person.there.values()) == [("Potsdam", ["10.1.0.0"])]


@pytest.mark.parametrize("what", ["update", "clear"])
def test_a_conflict_that_was_answered_after_the_work_is_no_refusal(person: Person, what: str) -> None:
    locid = person.has("10.1.0.0/24")
    if what == "update":
        person("custom", "update", locid, "--city", "Potsdam")
    else:
        person("custom", "clear-blocks", locid)
    person.upstream.faults = ["conflict"]
    person("push")
    settle()
    person("push")
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"]) if what == "update" else ("Berlin", [])}


def test_a_restored_outbox_does_not_send_again_what_was_added_and_removed_since(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push")
    person("custom", "remove-block", locid, "10.3.0.0/24")
    person("push")
    person("outbox", "restore")
    settle()
    person("push", exits=None)
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


def test_blocks_that_a_lost_delete_all_took_come_back_though_the_removed_one_was_given_again(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person.upstream.faults = ["after"]  # all blocks are deleted, and nobody is told
    person("push", exits=1)
    assert person.there == {-1: ("Berlin", [])}
    person("custom", "add-block", locid, "10.2.0.0/24")
    settle()
    person("sync")
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -1]
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}
    person("push")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_an_edit_that_a_colleague_took_back_is_not_sent_again_with_the_next_one(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    place = person.upstream.places[-1]
    fields = tuple("Berlin" if value == "Potsdam" else value for value in place.fields)
    person.upstream.colleague_changes(-1, type(place)(fields, place.blocks), who="colleague")
    settle()
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push", exits=3)
    assert "does not show them" in person.said
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    edit = min(row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "drop", edit)
    person.pushes_for_all_to_see()
    assert person.there[-1][0] == "Berlin"


def test_a_name_that_a_colleague_took_back_is_a_conflict_with_the_next_name(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person("custom", "update", locid, "--city", "Spandau")
    place = person.upstream.places[-1]
    fields = tuple("Berlin" if value == "Potsdam" else value for value in place.fields)
    person.upstream.colleague_changes(-1, type(place)(fields, place.blocks), who="colleague")
    settle()
    person("push", exits=3)
    assert "has changed Berlin" in person.said or "has changed Spandau" in person.said
    assert person.there[-1][0] == "Berlin"


def test_a_create_that_was_sent_again_by_its_key_goes_on_in_the_same_push(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(keys=True)
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true")
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_what_shall_be_deleted_is_deleted_though_the_service_lost_a_block_of_it(person: Person) -> None:
    locid = person.has("10.0.0.0/24")
    before = person.upstream.places
    person("custom", "add-block", locid, "10.0.1.0/24")
    person("push")
    person.upstream.fail_over(before)
    person("custom", "delete", locid)
    settle()
    person("push")
    assert person.there == {}


def test_a_lost_deletion_is_sent_again_if_a_person_says_so(person: Person) -> None:
    locid = person.has("10.0.0.0/24")
    before = person.upstream.places
    person("custom", "delete", locid)
    person("push")
    person.upstream.fail_over(before)
    settle()
    person("sync", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["state"] == "held")
    person("outbox", "retry", edit)
    person("push")
    assert person.there == {}
