"""Commands against a service over HTTP that is not ideal: what a person sees, and what the service has in the end."""

import json
import os
import signal
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from geolookup.cli.app import run
from geolookup.sync.pull import service
from geolookup.sync.push import requests
from geolookup.sync.push.requests import send
from geolookup.upstream.geolocations import GeolocationsClient
from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import CLIENT, Place, changed

# Behind a replica


def test_edits_in_a_row_are_no_conflicts_though_a_replica_shows_none_of_them(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()
    for postalcode in ("10115", "10117"):
        person("custom", "update", locid, "--postalcode", postalcode)
        person("push")
    person("custom", "clear-blocks", locid)
    person("push")
    place = person.upstream.places[-1]
    assert (place.as_fields()["postalcode"], place.blocks) == ("10117", frozenset())
    person("sync")  # which still has the first state
    assert person.looks_up("10.1.0.1") == [1]


@pytest.mark.parametrize(
    "edit", [("remove-block", "10.1.0.0/24"), ("update", "--postalcode", "10115")], ids=lambda e: e[0]
)
def test_a_404_right_after_our_own_write_is_no_refusal(
    person: Person, monkeypatch: pytest.MonkeyPatch, edit: tuple[str, ...]
) -> None:
    locid = person.creates("10.1.0.0/24", "10.2.0.0/24")
    person("push")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("custom", edit[0], locid, *edit[1:])
    person.upstream.faults = ["missing"]
    person("push", exits=1)
    assert [row["state"] for row in json.loads(person("outbox", "list", "--json"))] == ["unknown"]
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("push")
    place = person.upstream.places[-1]
    removed = edit[0] == "remove-block"
    assert (place.as_fields()["postalcode"], len(place.blocks)) == (("", 1) if removed else ("10115", 2))


# Services that store otherwise


SITE = """[[site]]
name = "Berlin office"
country = "DE"
region = ""
city = "Berlin"
postalcode = ""
latitude = 52.520008
longitude = 13.404954
dmacode = "807"
areacode = ""
blocks = ["10.1.0.0/24"]
"""


def test_a_field_that_the_service_does_not_keep_is_sent_once_and_said_in_plans(person: Person, tmp_path: Path) -> None:
    person.upstream.dials = Dials(dropped=("dmacode",))
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    for _ in range(2):
        person("custom", "apply", file)
        person.pushes_for_all_to_see()
    before = len(person.upstream.log)
    for _ in range(2):
        assert "nothing to change" in person("custom", "plan", file)
        assert "the service has dmacode '' for '807' of" in person.said
        person("custom", "apply", file)
        person("push")
    assert len(person.upstream.log) == before
    file.write_text(SITE.replace("807", "808"))
    person("custom", "apply", file)
    person("push")
    assert len(person.upstream.log) == before + 1


def test_second_edits_of_several_geolocations_are_no_conflicts_with_our_own_first(person: Person) -> None:
    person.upstream.dials = Dials(capitals=True)
    locids = [person.creates(city=city) for city in ("Berlin", "Bonn", "Kiel")]
    person.pushes_for_all_to_see()
    for city in ("Berlin Mitte", "Berlin West"):
        for locid in locids:
            person("custom", "update", locid, "--city", city)
        person("push")
        settle()  # nothing was read since: the push itself sees first what the service made of its first edit
    assert {city for city, _ in person.there.values()} == {"BERLIN WEST"}


@pytest.mark.parametrize("fault", ["", "before", "after"])
def test_an_edit_that_the_service_rounds_away_is_no_conflict_with_the_next(person: Person, fault: str) -> None:
    person.upstream.dials = Dials(digits=2)
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--latitude", "52.521")  # stored as what was there before: 52.52
    person.upstream.faults = [fault]
    person("push", exits=1 if fault else 0)
    settle()
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    place = person.upstream.places[-1].as_fields()
    assert (place["latitude"], place["postalcode"]) == (52.52, "10115")


def test_what_the_service_has_just_rounded_is_ours_though_it_has_no_block(person: Person) -> None:
    person.upstream.dials = Dials(digits=2)
    locid = person.creates(latitude=52.5213)
    person("push")
    person("sync")
    person("custom", "delete", locid)
    assert json.loads(person("custom", "list", "--json")) == []
    person("custom", "undo", "--run")
    person("push")
    settle()
    person("sync")
    assert [place.as_fields()["latitude"] for place in person.upstream.places.values()] == [52.52]


def test_a_second_edit_before_a_sync_is_no_conflict_with_our_own_first(person: Person) -> None:
    person.upstream.dials = Dials(capitals=True, digits=2)
    locid = person.creates("10.1.0.0/24")
    person("push")
    settle()
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    settle()
    person("custom", "update", locid, "--postalcode", "10117")
    person("push")
    assert [place.as_fields()["postalcode"] for place in person.upstream.places.values()] == ["10117"]


@pytest.mark.parametrize("fault", ["after", "error"])
def test_a_lost_create_is_found_though_the_service_stores_it_otherwise(person: Person, fault: str) -> None:
    person.upstream.dials = Dials(capitals=True)
    person.has("10.1.0.0/24")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person.upstream.faults = [fault]
    person("push", exits=1)
    settle()
    person("push")
    assert person.there == {-1: ("BERLIN", ["10.1.0.0"]), -2: ("BONN", ["10.2.0.0"])}


def test_a_create_that_was_applied_twice_is_told_until_it_is_kept(person: Person) -> None:
    person.upstream.dials = Dials(twice=1.0)
    person.creates("10.1.0.0/24")
    person("push")
    for _ in range(2):
        settle()
        person("sync", exits=3)
        assert "geolookup outbox keep -1" in person.said
    person("outbox", "keep", -1)
    person("sync")


def test_a_create_that_a_push_saw_and_a_colleague_deleted_since_is_kept_until_a_person_decides(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")  # the push's list is not conclusive, however slow all is
    locid = person.creates(country="", city="")
    person("push")
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push")  # no filter finds it: a complete list is read, and shows it
    person.upstream.colleague_changes(-1, None, who="colleague")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("sync", exits=3)  # that a list showed it proves nothing: a service may lose what it has shown
    assert person.looks_up("10.1.0.1") == [locid]
    person("outbox", "drop", 1)
    assert person.looks_up("10.1.0.1") == [1]


def test_a_twin_of_a_place_that_was_changed_since_is_told_and_not_taken_for_it(person: Person) -> None:
    locid = person.creates("10.1.0.0/24")
    person("custom", "rename", locid, "Head office")
    person("push")
    person("custom", "update", locid, "--latitude", "48.1")
    person("push")
    person.upstream.colleague_creates({**ELSEWHERE, **BERLIN}, who="colleague")
    settle()
    person("sync", exits=3)
    assert "is the same as Head office (-1) from here" in person.said
    assert "`geolookup outbox keep -2`" in person.said
    assert person.looks_up("10.1.0.1") == [-1]


@pytest.mark.parametrize("settle_s", ["0", "600"])
def test_another_name_that_a_colleague_gave_is_a_conflict_with_an_edit_that_waits(
    person: Person, monkeypatch: pytest.MonkeyPatch, settle_s: str
) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", settle_s)
    locid = person.creates("10.1.0.0/24")
    person("push")
    person("custom", "update", locid, "--city", "Bernau")
    place = person.upstream.places[-1]
    fields = tuple((place.as_fields() | {"city": "Potsdam"}).values())
    person.upstream.colleague_changes(-1, Place(fields, place.blocks), who="colleague")
    person("push", exits=3)
    assert person.there == {-1: ("Potsdam", ["10.1.0.0"])}


def test_what_is_gone_and_shall_be_gone_waits_for_nobody(person: Person) -> None:
    locid = person.creates(country="", city="")
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("custom", "delete", locid)
    person("push")
    assert person.there == {}


def test_a_block_that_was_never_sent_is_the_colleagues_who_adds_it_later(person: Person) -> None:
    locid = person.creates("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    person("push")
    place = person.upstream.places[-1]
    theirs = replace(place, blocks=place.blocks | {("10.2.0.0", "10.2.0.255")})
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    settle()
    person("sync")
    assert "remove 10.2" not in person.said
    assert person.looks_up("10.2.0.1") == [-1]
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    assert person.upstream.places[-1].blocks == theirs.blocks


def test_a_removal_that_a_colleagues_equal_block_makes_needless_is_not_told_as_done(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.5.0.0/24")
    person("custom", "remove-block", locid, "10.5.0.0/24")
    place = person.upstream.places[-1]
    theirs = replace(place, blocks=place.blocks | {("10.5.0.0", "10.5.0.255")})
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("sync")
    assert "what the service has is somebody else's" in person.said
    assert person.looks_up("10.5.0.1") == [-1]


def test_a_site_whose_name_is_a_number_is_meant_by_it_and_never_another(person: Person) -> None:
    place = ("--country", "DE", "--city", "Bonn", "--latitude", "50.7", "--longitude", "7.1")
    for name in ("0815", "-1"):
        person("custom", "create", *place, "--", name)
    person("push")
    person("custom", "update", "0815", "--areacode", "0228")
    assert "updated 0815 (-1)" in person("custom", "update", "0815", "--postalcode", "53111")
    person("custom", "delete", "--", "-1", exits=2)  # which is the number of the site 0815, too
    assert "'-1' is the name of the site -2, and a locid: rename the site, by -2" in person.said
    person("custom", "rename", "--", "-2", "Bonn")
    assert "deleted 0815 (-1)" in person("custom", "delete", "--", "-1")


def test_a_sheet_that_changes_nothing_more_is_no_step_to_undo(person: Person, tmp_path: Path) -> None:
    bonn = SITE.replace("Berlin", "Bonn").replace("10.1.", "10.2.").replace("52.5", "50.7")
    both, one = tmp_path / "both.toml", tmp_path / "one.toml"
    both.write_text(SITE + bonn)
    one.write_text(SITE)
    for file in (both, one):
        person("custom", "apply", file, "--accept")
        person.pushes_for_all_to_see()
    assert "nothing to change" in person("custom", "apply", one)
    person("custom", "undo", "--run")
    assert person("10.2.0.1", "--fields", "site").strip() == "Bonn office"


@pytest.mark.parametrize("seen", [True, False])
def test_a_deletion_that_a_list_made_needless_is_told_and_so_is_the_place_if_it_is_back(
    person: Person, seen: bool
) -> None:
    person(
        "custom", "create", "Bonn office", "--country", "DE", "--city", "Bonn", "--latitude", "50.7", "--longitude", 7
    )
    person("push")
    settle()
    if seen:
        person("sync")
    there = person.upstream.places
    person("custom", "delete", "Bonn office")
    person.upstream.fail_over({})
    person("sync")
    assert "delete geolocation -1 (Bonn office): done without a push, it is gone already" in person.said
    assert "not deleted here" not in person.said
    person.upstream.fail_over(there)
    person("sync", exits=3)
    assert "geolocation -1 (Bonn, DE) was gone from the service, and is there again: if it is not wanted" in person.said
    assert "Bonn office" not in person("custom", "list")


def test_an_acknowledged_edit_that_is_not_there_is_told_until_a_person_decides(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "add-block", locid, "10.2.0.0/24")
    assert "add 10.2.0.0-10.2.0.255 to -1" in person("push", "--dry-run")
    person("push")
    person.upstream.colleague_changes(-1, before, who="the service, which lost it")
    settle()
    person("sync", exits=3)
    shown = "it has Berlin, DE with 10.1.0.0-10.1.0.255: 10.2.0.0-10.2.0.255 is missing;"
    assert f"and does not show them: {shown}" in person.said
    person("sync", exits=3)
    assert "and does not show them: it has Berlin" in person.said
    assert "\tadd 10.2.0.0-10.2.0.255 to -1\t" in person("outbox", "list")  # by the number that each message has
    assert "pending: add 10.2.0.0-10.2.0.255 to -1 (held)" in person("custom", "show", -1)
    assert "pending: add 10.2.0.0-10.2.0.255 to -1 (held)" in person("explain", "10.2.0.1")
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "drop", edit)
    person("sync")


@pytest.mark.parametrize(
    ("dropped", "later", "left"),
    [
        (("update", "--areacode", "1"), ("update", "--areacode", "2"), ("2", ["10.1.0.0"])),
        (("update", "--areacode", "1"), ("delete",), None),
        (("add-block", "10.2.0.0/24"), ("remove-block", "10.2.0.0/24"), ("", ["10.1.0.0"])),
        (("replace-block", "10.1.0.0/24", "10.2.0.0/24"), ("clear-blocks",), ("", [])),
        (("remove-block", "10.1.0.0/24"), ("add-block", "10.1.0.0/24"), ("", ["10.1.0.0"])),
    ],
    ids=lambda words: words and " ".join(map(str, words)),
)
def test_for_what_was_edited_later_an_edit_that_is_dropped_never_was(
    person: Person, dropped: tuple[str, ...], later: tuple[str, ...], left: tuple[str, list[str]] | None
) -> None:
    locid = person.has("10.1.0.0/24")
    for name, *words in (dropped, later):
        person("custom", name, locid, *words)
    person("outbox", "drop", json.loads(person("outbox", "list", "--json"))[0]["id"])
    person("push")
    found = [
        (each.as_fields()["areacode"], sorted(at for at, _ in each.blocks)) for each in person.upstream.places.values()
    ]
    assert found == ([] if left is None else [left])
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize(
    ("first", "later", "instead", "left"),
    [
        (("update", "--areacode", "1"), ("update", "--postalcode", "10115"), ("--areacode", "2"), ("2", ["10.1.0.0"])),
        (("update", "--areacode", "1"), ("delete",), ("--areacode", "2"), None),
        (("add-block", "10.2.0.0/24"), ("clear-blocks",), ("--block", "10.3.0.0/24"), ("", [])),
    ],
    ids=lambda words: words and " ".join(map(str, words)),
)
def test_what_was_edited_later_goes_by_an_edit_as_it_is_changed(
    person: Person, first: tuple[str, ...], later: tuple[str, ...], instead: tuple[str, ...], left: Any
) -> None:
    locid = person.has("10.1.0.0/24")
    for name, *words in (first, later):
        person("custom", name, locid, *words)
    person("outbox", "edit", json.loads(person("outbox", "list", "--json"))[0]["id"], *instead)
    person("push")
    there = person.upstream.places.values()
    found = [(each.as_fields()["areacode"], sorted(at for at, _ in each.blocks)) for each in there]
    assert found == ([] if left is None else [left])
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_undoing_a_deletion_that_the_service_lost_makes_nothing_twice(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.pushes_for_all_to_see()
    before = dict(person.upstream.places)
    person("custom", "delete", "Berlin office")
    person("push")
    person.upstream.fail_over(before)
    settle()
    person("sync", exits=3)
    assert "and does not show them: it has Berlin" in person.said
    person("custom", "undo", "--run")
    person("push")
    settle()
    person("sync")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
    assert "Berlin office" in person("lookup", "10.1.0.1")


@pytest.mark.parametrize("is_seen", [False, True], ids=["not listed since", "held since"])
def test_an_update_that_was_lost_and_that_nobody_wants_any_more_is_not_held(person: Person, is_seen: bool) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    person.upstream.colleague_changes(-1, before, who="the service, which lost it")
    settle()
    if is_seen:
        person("sync", exits=3)
    person("custom", "undo", "--run")
    person("push", exits=3 if is_seen else 0)
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []


def test_a_replica_that_is_behind_by_two_updates_does_not_store_anything_otherwise(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()
    for postalcode in ("10115", "10117", "10119"):
        person("custom", "update", locid, "--postalcode", postalcode)
        person("push")
        assert "does not keep" not in person.said


@pytest.mark.parametrize("by", ["field", "block"])
def test_a_sheet_without_digests_takes_back_nothing_that_a_colleague_changed_at_the_service(
    person: Person, tmp_path: Path, by: str
) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.pushes_for_all_to_see()
    place = person.upstream.places[-1]
    theirs = changed(place, areacode="030") if by == "field" else changed(place, "10.9.0.1")
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("sync")
    person("custom", "apply", file, exits=3)
    assert "Berlin office: the service changed it: " in person.said
    file.write_text(SITE.replace("Berlin office", "Bonn office").replace("Berlin", "Bonn").replace("10.1.", "10.2."))
    person("custom", "apply", file, exits=3)
    assert "Berlin office: the service changed it, and the file does not have it" in person.said
    file.write_text(SITE)
    for keep in (("--keep", "theirs"), ()):
        person("custom", "apply", file, *keep)
        person("push")
        assert person.upstream.places[-1] == theirs
    person("sync", exits=None)
    person("custom", "apply", file, "--keep", "mine")
    person("push")
    assert person.upstream.places[-1] == place


@pytest.mark.parametrize("is_exported", [False, True])
def test_a_site_that_a_colleague_deleted_at_the_service_is_not_made_again_without_a_word(
    person: Person, tmp_path: Path, is_exported: bool
) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.has("10.2.0.0/24", city="Kiel", latitude=54.3)
    person("sync")
    if is_exported:
        person("custom", "export", file)
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("sync", exits=3)
    person("custom", "apply", file, exits=3)
    assert "Berlin office: the service deleted it, and the file has it" in person.said
    for keep in (("--keep", "theirs"), ()):
        person("custom", "apply", file, *keep)
        person("push")
        assert [*person.there] == [-2]
    person("custom", "apply", file, "--keep", "mine")
    person("push")
    assert sorted(person.there.values()) == [("Berlin", ["10.1.0.0"]), ("Kiel", ["10.2.0.0"])]


@pytest.mark.parametrize("seen", ["push", "sync", "push, sync"])
def test_the_sheet_before_one_that_waits_takes_back_nothing_of_a_colleagues(
    person: Person, tmp_path: Path, seen: str
) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.pushes_for_all_to_see()
    file.write_text(SITE.replace("807", "808"))
    person("custom", "apply", file)
    theirs = changed(person.upstream.places[-1], dmacode="809")
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    for command in seen.split(", "):
        person(command, exits=None)
    file.write_text(SITE)
    person("custom", "apply", file, exits=3)
    assert "Berlin office: the service changed it: dmacode was 807, is 809" in person.said
    assert person.upstream.places[-1] == theirs
    person("sync", exits=None)
    person("custom", "apply", file, "--keep", "mine")
    person("push")
    assert person.upstream.places[-1].as_fields()["dmacode"] == "807"


@pytest.mark.parametrize("more", [(), ("10.90.0.0",)], ids=["its block", "its block, and another"])
def test_a_site_that_somebody_deleted_is_nothing_else_that_has_its_block_also_if_the_file_is_kept(
    person: Person, tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.pushes_for_all_to_see()
    there = changed(person.upstream.places[-1], *more, country="ES", city="Madrid", latitude=40.4, longitude=-3.7)
    person.upstream.fail_over({-7: there})
    settle()
    person("sync", exits=3)
    for words in ((), ("--keep", "mine")):
        person("custom", "apply", file, *words, exits=1)
        assert "10.1.0.0/24 belongs to custom geolocation -7" in person.said
    person("push")
    assert person.upstream.places == {-7: there}


def test_a_site_of_which_the_row_cannot_be_read_is_named_and_not_made_again(person: Person, tmp_path: Path) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(SITE)
    person("custom", "apply", file)
    person.pushes_for_all_to_see()
    was = person.upstream.places[-1]
    person.upstream.fail_over({-1: changed(was, latitude=999.0)})
    settle()
    person("sync", exits=None)
    assert "not in lookups until their rows can be read: Berlin office" in person.said
    for words in (("plan",), ("apply",), ("apply", "--keep", "mine")):
        person("custom", words[0], file, *words[1:], exits=1)
        assert "it is geolocation -1, which the newest list does not show" in person.said
    person.upstream.fail_over({-1: was})
    settle()
    person("sync", exits=None)
    person("custom", "apply", file)
    assert "nothing to change" in person.said


def test_of_a_site_without_blocks_that_has_another_number_the_equal_one_is_named(person: Person) -> None:
    person("custom", "create", "Bonn office", "--country", "DE", "--city", "Bonn", "--latitude", "50.7",
           "--longitude", "7.1")  # fmt: skip
    person("push")
    person.has("10.2.0.0/24", city="Kiel", latitude=54.3)
    bonn, kiel = person.upstream.places[-1], person.upstream.places[-2]
    settle()
    person("sync", exits=None)
    person.upstream.fail_over({-7: bonn, -8: kiel})
    settle()
    person("sync", exits=3)
    assert "Bonn office (-1) is gone from the service" in person.said
    assert "If -7 (Bonn, DE) is the same: `geolookup custom rename -7 'Bonn office'`" in person.said
    person("custom", "rename", "-7", "Bonn office")
    person("custom", "list")
    assert "Bonn office" in next(line for line in person.said.splitlines() if line.startswith("-7"))
    person("sync")
    person("push")
    assert sorted(person.upstream.places) == [-8, -7]


@pytest.mark.parametrize("there", ["as it was", "changed", "under another number"])
def test_a_site_that_one_list_lacks_has_its_name_again_once_it_is_back(person: Person, there: str) -> None:
    person("custom", "create", "Bonn office", "--block", "10.1.0.0/24", "--country", "DE", "--city", "Bonn",
           "--latitude", "50.7", "--longitude", "7.1", "--time-zone", "Europe/Berlin")  # fmt: skip
    person.has("10.2.0.0/24", city="Kiel", latitude=54.3)
    place, kiel = person.upstream.places[-1], {-2: person.upstream.places[-2]}
    person.upstream.fail_over(kiel)
    settle()
    person("sync", exits=3)
    assert "Bonn office (-1) is gone from the service" in person.said
    tokyo = Place(changed(place, city="Tokyo", latitude=35.6, longitude=139.7).fields)
    person.upstream.fail_over(
        {
            "as it was": {-1: place},
            "changed": {-1: changed(place, areacode="0228")},
            "under another number": {-1: tokyo, -7: place},
        }[there]
        | kiel
    )
    person("sync")
    assert "Bonn office (-" in person.said
    assert "is at the service again" in person.said
    assert person("10.1.0.1", "--fields", "site,time_zone,locid").split() == [
        "Bonn", "office", "Europe/Berlin", "-7" if there == "under another number" else "-1",
    ]  # fmt: skip
    person("custom", "update", "Bonn office", "--postalcode", "53111")
    person("push")
    assert [each.as_fields()["city"] for each in person.upstream.places.values() if "53111" in each.fields] == ["Bonn"]


@pytest.mark.parametrize("is_gone_before", [False, True])
def test_an_edit_that_waits_goes_to_its_place_though_that_has_another_number(
    person: Person, is_gone_before: bool
) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    person("custom", "update", locid, "--postalcode", "10115")
    if is_gone_before:
        person.upstream.fail_over({})
        settle()
        person("sync", exits=3)
    person.upstream.fail_over({-500: place})
    person("sync")
    told = "is at the service again" if is_gone_before else "has another number at the service: it was -1"
    assert f"Berlin (-500) {told}" in person.said
    assert "answered with" not in person.said
    person("push")
    assert {number: each.as_fields()["postalcode"] for number, each in person.upstream.places.items()} == {
        -500: "10115"
    }
    assert person.upstream.places[-500].blocks == place.blocks


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_edit_that_was_sent_is_found_under_the_other_number_of_its_place(person: Person, is_lost: bool) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.upstream.fail_over({-500: before if is_lost else person.upstream.places[-1]})
    settle()
    person("sync", exits=3 if is_lost else 0)
    if is_lost:
        assert "said yes to edits of Berlin (-500), and does not show them: it has Berlin, DE" in person.said
        person("outbox", "retry", 3)
    person("push")
    assert person.there == {-500: ("Berlin", ["10.1.0.0", "10.2.0.0"])}
    assert person.upstream.places[-500].as_fields()["postalcode"] == "10115"


def test_what_a_list_did_not_show_once_is_done_when_the_next_one_does(person: Person) -> None:
    person.creates("10.1.0.0/24")
    person("push")
    place = person.upstream.places[-1]
    person.upstream.fail_over({})
    settle()
    person("sync", exits=3)
    person.upstream.fail_over({-1: place})
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []
    assert person.looks_up("10.1.0.1") == [-1]


@pytest.mark.parametrize("choice", ["drop", "retry"])
def test_the_new_owner_of_a_number_stays_in_lookups_whatever_becomes_of_ours(person: Person, choice: str) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--areacode", "030")
    tokyo = Place(changed(person.upstream.places[-1], city="Tokyo", latitude=35.6, longitude=139.7).fields)
    person.upstream.fail_over({-1: changed(tokyo, "10.9.0.1")})
    person("push", exits=3)
    person("sync", exits=3)
    assert person.looks_up("10.9.0.1") == [-1]
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", choice, edit)
    person("push")
    assert person.looks_up("10.9.0.1") == [-1]


@pytest.mark.parametrize("choice", ["drop", "retry"])
def test_what_a_person_says_is_not_theirs_stays_in_lookups_as_the_service_has_it(person: Person, choice: str) -> None:
    locid = person.creates("10.1.0.0/24")
    person("push")
    place = person.upstream.places[-1]
    person.upstream.fail_over({})
    settle()
    person("sync", exits=3)
    person.upstream.fail_over({-1: changed(place, areacode="030")})
    person("sync", exits=3)
    assert "has something new that may be" in person.said
    (edit, *_) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", choice, edit)
    person("sync")
    assert person.looks_up("10.1.0.1") == [-1 if choice == "drop" else locid]
    assert -1 in [each["locid"] for each in json.loads(person("custom", "list", "--json"))]


@pytest.mark.parametrize("way", ["undo", "delete"])
def test_a_create_that_was_never_sent_is_taken_back_though_a_colleague_made_the_same(person: Person, way: str) -> None:
    locid = person.creates("10.1.0.0/24")
    person.upstream.colleague_creates({**ELSEWHERE, "region": "", **BERLIN}, who="colleague")
    person("push", exits=3)
    person("custom", *(("undo", "--last", "2", "--run") if way == "undo" else ("delete", locid)))
    person("push", exits=3)
    assert "never sent, and deleted again. It stays" in person.said
    person("sync")
    person("push")
    assert person("outbox", "list") == ""
    assert person.there == {-1: ("Berlin", [])}


@pytest.mark.parametrize("is_seen", [False, True])
def test_an_undone_edit_of_what_a_colleague_deleted_does_not_make_it_again(person: Person, is_seen: bool) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--postalcode", "10115")
    person.upstream.colleague_changes(-1, None, who="colleague")
    person("push", exits=3)
    if is_seen:
        person("sync", exits=3)
    person("custom", "undo", "--run")
    assert "is gone since: what was changed of it stays as it is" in person.said
    assert person.looks_up("10.1.0.1") == [1]
    person("push")
    person("sync")
    assert (person.there, person("outbox", "list")) == ({}, "")


@pytest.mark.parametrize(
    ("edit", "back"),
    [
        (("update", "--postalcode", "10115"), ("update", "--postalcode", "")),
        (("add-block", "10.3.0.0/24"), ("remove-block", "10.3.0.0/24")),
        (("remove-block", "10.2.0.0/24"), ("add-block", "10.2.0.0/24")),
        (("replace-block", "10.2.0.0/24", "10.3.0.0/24"), ("replace-block", "10.3.0.0/24", "10.2.0.0/24")),
        (("clear-blocks",), None),
        (("delete",), None),
    ],
    ids=lambda words: words and words[0],
)
def test_an_edit_whose_push_was_killed_is_taken_back_at_the_service_too(
    person: Person, edit: tuple[str, ...], back: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    before = {(place.as_fields()["postalcode"], place.blocks) for place in person.upstream.places.values()}
    person("custom", edit[0], locid, *edit[1:])

    def killed(*given: Any) -> NoReturn:
        send(*given)  # all is done there, and nothing of it is noted here
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    if (child := os.fork()) == 0:
        monkeypatch.setattr(requests, "send", killed)
        run(["push"])
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    person("custom", *(("undo", "--run") if back is None else (back[0], locid, *back[1:])))
    person("push", exits=1)
    settle()
    for _ in range(2):
        person("push", exits=None)
        settle()
    person("push")
    person("sync")
    after = {(place.as_fields()["postalcode"], place.blocks) for place in person.upstream.places.values()}
    assert after == before


def test_a_lost_deletion_that_is_undone_makes_the_place_again_with_its_blocks_in_one_push(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "delete", locid)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("custom", "undo", "--run")
    settle()
    person("push")
    assert person.there == {-2: ("Berlin", ["10.1.0.0"])}


def test_a_block_that_a_push_alone_has_seen_is_not_taken_away_for_a_moment(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person.upstream.colleague_changes(-1, changed(person.upstream.places[-1], "10.9.0.1"), who="colleague")
    person("custom", "update", locid, "--postalcode", "10115")
    person("push")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("push", exits=3)
    assert "the service has changed Berlin (-1)" in person.said
    assert len(person.upstream.places[-1].blocks) == 3


def test_what_an_undone_deletion_waits_for_keeps_no_block_from_the_place_that_is_made_again(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    tokyo = Place(changed(person.upstream.places[-1], city="Tokyo", latitude=35.6, longitude=139.7).fields)
    person("custom", "delete", locid)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.fail_over({-1: changed(tokyo, "10.9.0.1")})
    settle()
    person("push", exits=3)
    person("custom", "undo", "--run")
    person("push", exits=3)
    assert person.there == {-1: ("Tokyo", ["10.9.0.1"]), -2: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("is_seen", [False, True])
def test_an_undone_edit_that_was_held_leaves_what_the_colleague_wrote(person: Person, is_seen: bool) -> None:
    locid = person.has("10.1.0.0/24")
    theirs = changed(person.upstream.places[-1], postalcode="20095")
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("custom", "update", locid, "--postalcode", "10115")
    person("push", exits=3)
    if is_seen:
        person("sync", exits=3)
    person("custom", "undo", "--run")
    person("push")
    person("sync")
    assert (person.upstream.places[-1], person("outbox", "list")) == (theirs, "")


def test_an_undone_rename_leaves_the_name_if_another_site_has_the_former_one(person: Person) -> None:
    for name, network in (("Bonn", "10.1.0.0/24"), ("Rhein", "10.2.0.0/24")):
        if name == "Rhein":
            person("custom", "rename", "Bonn", "Rhein")
            name = "Bonn"
        person("custom", "create", name, "--block", network, "--country", "DE", "--city", "Bonn",
               "--latitude", "50.7", "--longitude", "7.1")  # fmt: skip
    person("custom", "undo", "--step", 2, "--run")
    assert "another site is named Bonn by now: Rhein keeps its name" in person.said
    assert person("10.1.0.1", "10.2.0.1", "--fields", "site").split() == ["Rhein", "Bonn"]


def test_a_held_update_that_is_edited_leaves_the_other_fields_as_the_colleague_wrote_them(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    theirs = changed(person.upstream.places[-1], city="Bernau", postalcode="16321", latitude=52.7)
    person.upstream.colleague_changes(-1, theirs, who="colleague")
    person("custom", "update", locid, "--city", "Buch")
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", "edit", edit, "--city", "Pankow")
    person("push")
    assert person.upstream.places[-1] == changed(theirs, city="Pankow")


def test_a_block_that_two_others_have_stands_in_the_way_of_no_undo(person: Person) -> None:
    person.has("10.1.0.0/24")
    locid = person.has("10.2.0.0/24", city="Kiel", latitude=54.3)
    person.upstream.colleague_creates(ELSEWHERE, [("10.1.0.0", "10.1.0.255")], who="colleague")
    person("sync")
    person("custom", "update", locid, "--postalcode", "24103")
    person("custom", "undo", "--run")
    person("push")
    assert person.upstream.places[-2].as_fields()["postalcode"] == ""


@pytest.mark.parametrize("command", ["sync", "push", "refresh"])
def test_what_a_run_found_and_could_not_say_is_told_by_the_next(
    person: Person, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("push")
    person.upstream.colleague_changes(-1, before, who="the service, which lost it")
    settle()
    with monkeypatch.context() as patch:
        patch.setattr(service, "late_twins", _dies)  # by then the list was held against what was acknowledged
        with pytest.raises(_DiedError):
            person("sync")
    person(command, exits=3)
    assert "and does not show them: it has Berlin" in person.said
    person(command, exits=3)  # what waits for a person is named each time


class _DiedError(BaseException):
    """The process died here."""


def _dies(*_: object) -> NoReturn:
    raise _DiedError


@pytest.mark.parametrize("keys", [False, True], ids=["keys ignored", "keys honoured"])
def test_a_retried_create_whose_geolocation_is_gone_is_made_anew(
    person: Person, monkeypatch: pytest.MonkeyPatch, keys: bool
) -> None:
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true" if keys else "false")
    person.upstream.dials = Dials(keys=keys)
    person.creates("10.1.0.0/24")
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("sync", exits=3)
    assert "and does not show them: it has nothing" in person.said
    person("outbox", "retry", 1)
    person.pushes_for_all_to_see()
    assert list(person.there) == [-2]


def test_a_retry_does_not_ask_about_the_same_geolocations_again(person: Person) -> None:
    person.upstream.faults = ["before"]
    locid = person.creates(areacode="030")
    person("push", exits=1)
    near = {**ELSEWHERE, **BERLIN, "areacode": "040"}
    person.upstream.colleague_creates(near, who="colleague")
    settle()
    person("push", exits=3)
    assert "something new that may be Berlin" in person.said
    person("outbox", "retry", 1)
    person.upstream.faults = ["before"]  # lost again: what was shown then is no candidate any more
    person("push", exits=1)
    settle()
    person("push")
    assert sorted(person.there) == [-2, -1]
    assert json.loads(person("custom", "show", locid, "--json"))["locid"] == -2


def test_a_retry_remembers_what_was_shown_though_a_replica_does_not_have_it_yet(person: Person) -> None:
    person.upstream.faults = ["before"]
    person.creates(areacode="030")
    person("push", exits=1)
    earlier_s = time.monotonic()
    near = {**ELSEWHERE, **BERLIN, "areacode": "040"}
    person.upstream.colleague_creates(near, who="colleague")
    settle()
    person("push", exits=3)
    person("outbox", "retry", 1)
    person.upstream.frozen_s = earlier_s
    person.upstream.faults = ["before"]
    person("push", exits=1)
    person.upstream.frozen_s = None
    settle()
    person("push")
    assert sorted(person.there) == [-2, -1]


def test_a_twin_is_told_of_though_one_list_is_the_first_and_the_last_to_show_how_it_is_stored(person: Person) -> None:
    person.upstream.dials = Dials(capitals=True, dropped=("dmacode",), twice=1.0)
    person.creates("10.1.0.0/24", dmacode="807")
    person("push")
    settle()
    person("sync", exits=3)
    assert "-1" in person.said
    assert sorted(person.there) == [-2, -1]


def test_a_create_that_is_lost_twice_is_not_its_own_twin(person: Person) -> None:
    locid = person.creates()
    person.upstream.faults = ["before"]
    person("push", exits=1)
    settle()
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("sync")  # before it settles
    assert "the same as" not in person.said
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", [])}
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("command", ["push", "sync"])
def test_a_lost_create_is_not_sent_again_by_a_list_that_is_cut_without_a_word(person: Person, command: str) -> None:
    for number in range(2):
        person.creates(f"10.{number}.0.0/24", areacode=str(number))
    person.pushes_for_all_to_see()
    person.creates("10.9.0.0/24", city="Kiel", latitude=54.3)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    rows = 1 + len(person.upstream.places)
    person.upstream.dials = Dials(cap=rows - 1)
    settle()
    person(command, exits=1)
    assert "caps its list silently" in person.said
    person("push", exits=1)
    assert sorted(person.there) == [-3, -2, -1]
    person.upstream.dials = Dials()
    person("push")
    assert person.there[-3] == ("Kiel", ["10.9.0.0"])


@pytest.mark.parametrize("choice", ["retry", "drop"])
def test_a_deletion_that_a_copy_with_other_numbers_undoes_waits_for_a_person(person: Person, choice: str) -> None:
    locid = person.has("10.1.0.0/24")
    place = person.upstream.places[-1]
    person("custom", "delete", locid)
    person("push")
    person.upstream.fail_over({-500: place})
    person("sync")  # before it has settled
    settle()
    person("sync", exits=3)
    assert "said yes to edits of Berlin (-500), and does not show them" in person.said
    assert person.looks_up("10.1.0.1") == [1]
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("outbox", choice, edit)
    person("push")
    person("sync")
    assert person.there == ({} if choice == "retry" else {-500: ("Berlin", ["10.1.0.0"])})
    assert person.looks_up("10.1.0.1") == [1 if choice == "retry" else -500]


def test_what_somebody_creates_between_a_list_and_its_probe_is_no_sign_that_it_was_cut(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person.upstream.dials = Dials(cap=1000)
    settle()
    real = GeolocationsClient.require_whole

    def between(client: GeolocationsClient, count: int) -> None:
        person.upstream.colleague_creates(ELSEWHERE, who="colleague")
        real(client, count)

    monkeypatch.setattr(GeolocationsClient, "require_whole", between)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Sydney", [])}


def test_a_conflict_that_comes_after_the_work_makes_no_twin(person: Person) -> None:
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["conflict"]
    person("push", exits=1)
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("deleted_by", ["person", "colleague"])
def test_what_was_deleted_with_a_block_of_somebody_elses_is_gone_from_lookups_at_once(
    person: Person, deleted_by: str
) -> None:
    locid = person.has()
    person("custom", "delete", locid)
    given = replace(person.upstream.places[-1], blocks=frozenset({("10.1.0.0", "10.1.0.255")}))
    person.upstream.colleague_changes(-1, given, who="colleague")
    person("sync")
    assert person.looks_up("10.1.0.1") == [1]
    if deleted_by == "colleague":
        person.upstream.colleague_changes(-1, None, who="colleague")
    person("push", "--on-conflict", "mine")
    assert person.there == {}
    assert person.looks_up("10.1.0.1") == [1]


def test_fifty_updates_of_places_without_texts_read_at_most_two_complete_lists(person: Person) -> None:
    locids = [person.creates(country="", city="", latitude=float(number)) for number in range(10)]
    person.pushes_for_all_to_see()
    for locid in locids:
        person("custom", "update", locid, "--areacode", "030")
    before = person.upstream.lists
    person("push")
    assert person.upstream.lists - before <= 2


def test_what_a_replica_does_not_show_costs_no_list_each(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person.upstream.frozen_s = time.monotonic()
    for number in range(5):
        locid = person.creates(f"10.{number}.0.0/24", areacode=f"0{number}")
        person("custom", "update", locid, "--postalcode", "10115")
    before = person.upstream.lists
    person("push")
    assert person.upstream.lists - before <= 2
    assert {place.as_fields()["postalcode"] for place in person.upstream.places.values()} == {"10115"}


def test_a_file_of_sites_finds_them_by_their_blocks_on_another_machine(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.dials = Dials(capitals=True)
    (tmp_path / "sites.toml").write_text(SITE)
    person("custom", "apply", tmp_path / "sites.toml")
    person("push")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "elsewhere"))
    person("sync")
    person("custom", "apply", tmp_path / "sites.toml")
    settle()
    person("push")
    assert person.there == {-1: ("BERLIN", ["10.1.0.0"])}


def test_what_a_lost_create_made_is_told_though_the_create_was_changed_since(person: Person) -> None:
    person.upstream.faults = ["before"]  # it lands late
    person.creates(areacode="030")
    person("push", exits=1)
    person.upstream.colleague_creates({**ELSEWHERE, **BERLIN, "areacode": "040"}, who="colleague")
    settle()
    person("push", exits=3)
    person("outbox", "edit", 1, "--city", "Bernau")
    person("push")
    assert person.there[-2] == ("Bernau", [])
    person.upstream.colleague_creates({**ELSEWHERE, "region": "", **BERLIN, "areacode": "030"}, who=CLIENT)
    settle()
    person("sync", exits=3)
    assert "geolookup outbox keep -3" in person.said


@pytest.mark.parametrize("which", [3, 5])
def test_a_drop_of_what_the_service_lost_keeps_the_edits_that_were_never_sent(person: Person, which: int) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places
    person("custom", "update", locid, "--city", "Ulm")
    person("push")
    person.upstream.fail_over(before)
    settle()
    person("custom", "update", locid, "--areacode", "030")
    person("custom", "add-block", locid, "10.3.0.0/24")
    person("push", exits=3)
    said = {row["id"]: row["state"] for row in json.loads(person("outbox", "list", "--json"))}
    assert said == {3: "held", 4: "queued", 5: "queued"}
    out = person("outbox", "drop", which)
    assert [f"edit {each}" in out for each in (3, 4, 5)] == [each == which for each in (3, 4, 5)]
    person("push", exits=3 if which == 5 else 0)
    if which == 3:
        assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.3.0.0"])}
        assert person.upstream.places[-1].as_fields()["areacode"] == "030"
        assert person.looks_up("10.3.0.1") == [-1]


def test_a_push_opens_the_edits_few_times_and_sends_several_edits_of_a_place_by_one_request(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = sqlite3.connect, []

    def connect(path: Any, *given: Any, **options: Any) -> sqlite3.Connection:
        opened.append(str(path))
        return real(path, *given, **options)

    locid = person.creates()
    monkeypatch.setattr(sqlite3, "connect", connect)
    before = person.upstream.requests
    person("push")
    assert 0 < sum("edits.db" in path for path in opened) <= 12
    assert person.upstream.requests - before == 2  # a list, and the create
    settle()
    for option, value in (("--city", "Bonn"), ("--areacode", "0228"), ("--postalcode", "53111")):
        person("custom", "update", locid, option, value)
    before = person.upstream.requests
    person("push")
    assert person.upstream.requests - before == 2  # a look, and one update
