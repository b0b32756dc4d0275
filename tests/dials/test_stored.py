"""Services that store something else than they are told: what they said yes to is done, and told once, by field."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.dials.dials import Dials
from tests.dials.person import Person, settle
from tests.dials.upstream import Place, changed

FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "postal codes without blanks": ({"squeezed": True}, {"postalcode": "SW1A 1AA"}, "postalcode"),
    "postal codes of five digits": ({"short": True}, {"postalcode": "94043-1351"}, "postalcode"),
    "no leading zeros of an area code": ({"numbers": True}, {"areacode": "030"}, "areacode"),
    "no leading zeros of a DMA code": ({"numbers": True}, {"dmacode": "0807"}, "dmacode"),
    "two digits": ({"digits": 2}, {"latitude": 52.520008}, "latitude"),
    "no digits": ({"digits": 0}, {"latitude": 52.520008}, "latitude"),
    "single precision": ({"single": True}, {"latitude": 52.520008}, "latitude"),
    "other names": ({"names": True}, {"city": "Köln", "latitude": 50.937531, "longitude": 6.960279}, "city"),
    "other names of cities, and no digits": (
        {"names": True, "digits": 0}, {"city": "Köln", "latitude": 50.937531, "longitude": 6.960279}, "city",
    ),
}  # fmt: skip


@pytest.mark.parametrize("blocks", [("10.1.0.0/24",), ()], ids=["with a block", "without blocks"])
@pytest.mark.parametrize("form", FORMS)
def test_what_the_service_stores_otherwise_is_done_and_told_once(
    person: Person, form: str, blocks: tuple[str, ...]
) -> None:
    dials, fields, name = FORMS[form]
    person.upstream.dials = Dials(**dials)
    person.creates(*blocks, **fields)
    person("push")
    settle()
    person("sync")
    assert f"the service stores {name} " in person.said
    settle()
    person("sync")
    assert "the service stores" not in person.said
    assert json.loads(person("outbox", "list", "--json")) == []
    settle()
    person("push")
    assert len(person.there) == 1


def test_what_is_stored_otherwise_is_told_by_field_of_all_geolocations_at_once(person: Person) -> None:
    person.upstream.dials = Dials(squeezed=True, numbers=True)
    for number in range(3):
        person.creates(f"10.{number}.0.0/24", postalcode=f"SW1A {number}AA", areacode="030", latitude=51.5 + number)
    person("push")
    settle()
    person("sync")
    said = [line for line in person.said.splitlines() if "the service stores" in line]
    assert len(said) == 2
    assert "stores postalcode without blanks: it has 'SW1A" in said[0]
    assert "and the like for 2 more" in said[0]
    assert "stores areacode without leading zeros" in said[1]


@pytest.mark.parametrize(
    ("dials", "change", "lost"),
    [
        ({"numbers": True}, ("--areacode", "031"), {"areacode": "31"}),
        ({}, ("--city", "Potsdam"), {"city": "Bernau"}),
        ({}, ("--areacode", "031"), {"areacode": ""}),
    ],
    ids=["in a form that explains it", "as something else", "as it was before"],
)
def test_an_update_that_is_stored_otherwise_comes_to_rest_within_two_pushes(
    person: Person, dials: dict[str, Any], change: tuple[str, str], lost: dict[str, str]
) -> None:
    """Whatever a service makes of it, the same again after a retry is how it stores it."""
    locid = person.has("10.1.0.0/24")
    person.upstream.dials = Dials(**dials, ignored=tuple(lost.items()))
    person("custom", "update", locid, *change)
    person.pushes_for_all_to_see(exits=None)
    said = person.said
    if waiting := json.loads(person("outbox", "list", "--json")):
        person("outbox", "retry", waiting[0]["id"])
        person.pushes_for_all_to_see()
        said = person.said
    assert any(f"the service {does} {change[0].removeprefix('--')}" in said for does in ("stores", "does not keep"))
    assert json.loads(person("outbox", "list", "--json")) == []
    person.pushes_for_all_to_see()
    assert "the service" not in person.said
    assert person.upstream.places[-1].as_fields() | lost == person.upstream.places[-1].as_fields()


@pytest.mark.parametrize(("field", "theirs"), [("city", "Kiel"), ("dmacode", "502"), ("areacode", "03")])
def test_what_a_colleague_wrote_before_a_list_showed_ours_is_not_written_over(
    person: Person, field: str, theirs: str
) -> None:
    locid = person.creates(areacode="0301")
    person("push")
    settle()
    place = person.upstream.places[-1]
    changed = Place(tuple({**place.as_fields(), field: theirs}.values()))
    person.upstream.colleague_changes(-1, changed, who="colleague")
    person("custom", "update", locid, "--postalcode", "10115")
    person("push", exits=None)
    settle()
    person("sync", exits=None)
    assert person.upstream.places[-1].as_fields()[field] == theirs
    assert person.upstream.places[-1].as_fields()["postalcode"] == "10115"


def test_a_field_that_a_create_left_empty_may_be_filled_in_by_others(person: Person) -> None:
    locid = person.creates()
    person("push")
    person("sync")
    place = person.upstream.places[-1]
    filled = Place(tuple({**place.as_fields(), "dmacode": "502"}.values()))
    person.upstream.colleague_changes(-1, filled, who="colleague")
    person("custom", "update", locid, "--city", "Ulm")
    settle()
    person("push")
    settle()
    person("sync")
    assert person.upstream.places[-1].as_fields() == {**filled.as_fields(), "city": "Ulm"}


@pytest.mark.parametrize("other", ["before", "after"])
def test_a_name_that_somebody_wrote_for_another_is_no_form_of_it_if_that_is_stored_too(
    person: Person, other: str
) -> None:
    def creates_another() -> int:
        return person.has("10.4.0.0/24", city="Bonn", latitude=50.73)

    if other == "before":
        locid = creates_another()
    person.creates("10.1.0.0/24", city="Bonn", latitude=50.74)
    person("push")
    mine = min(person.upstream.places)
    place = person.upstream.places[mine]
    renamed = {**place.as_fields(), "city": "Kiel"}
    person.upstream.colleague_changes(mine, Place(tuple(renamed.values()), place.blocks), who="colleague")
    settle()
    person("sync", exits=None)
    if other == "after":
        locid = creates_another()
    number = json.loads(person("custom", "show", locid, "--json"))["locid"]
    place = person.upstream.places[number]
    theirs = {**place.as_fields(), "city": "Kiel"}
    person("custom", "update", locid, "--city", "Ulm")
    person.upstream.colleague_changes(number, Place(tuple(theirs.values()), place.blocks), who="colleague")
    settle()
    person("push", exits=3)
    assert "has changed" in person.said
    assert person.upstream.places[number].as_fields()["city"] == "Kiel"


def test_a_name_that_somebody_wrote_is_no_form_of_another_on_a_service_that_stores_names(person: Person) -> None:
    person.has("10.4.0.0/24", city="Kiel", latitude=54.3)
    person.creates("10.1.0.0/24", city="Bonn", latitude=50.74)
    person("push")
    place = person.upstream.places[-2]
    renamed = {**place.as_fields(), "city": "Kiel"}
    person.upstream.colleague_changes(-2, Place(tuple(renamed.values()), place.blocks), who="colleague")
    settle()
    person("sync", exits=3)
    assert "stores city otherwise" not in person.said
    person("outbox", "drop", 3)
    person("push")
    person("sync")
    assert person.upstream.places[-2].as_fields()["city"] == "Kiel"


@pytest.mark.parametrize("dials", [Dials(capitals=True, digits=2), Dials(capitals=True, digits=2, squeezed=True)])
def test_an_update_before_any_list_comes_to_rest_on_a_service_with_several_forms(person: Person, dials: Dials) -> None:
    person.upstream.dials = dials
    locid = person.creates(city="Bonn", latitude=50.763, longitude=7.1, postalcode="12 3")
    person("push")
    person("custom", "update", locid, "--city", "Ulm")
    person("push", exits=None)  # it may have to wait until what the create made is recognised
    settle()
    person("push")
    settle()
    person("sync")
    person("custom", "add-block", locid, "10.1.0.0/24")
    person.pushes_for_all_to_see()
    person("push")
    assert "0 done in 0 requests; nothing left over" in person.said
    (place,) = person.upstream.places.values()
    assert (place.as_fields()["city"].casefold(), place.blocks) == ("ulm", {("10.1.0.0", "10.1.0.255")})


def test_another_name_of_what_was_created_comes_to_rest_by_one_retry(person: Person) -> None:
    person.upstream.dials = Dials(names=True)
    person.has()  # Berlin, which is stored so
    locid = person.creates("10.1.0.0/24", city="Köln", latitude=50.937531, longitude=6.960279)
    person("push")
    settle()
    person("sync", exits=3)
    edit = json.loads(person("outbox", "list", "--json"))[0]["id"]
    person("outbox", "retry", edit)
    person("push", exits=None)
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []
    person("custom", "update", locid, "--areacode", "0221")
    person("push")
    person.pushes_for_all_to_see()
    assert len(person.there) == 2
    person.creates("10.2.0.0/24", city="Köln", latitude=50.937531, longitude=6.960279, postalcode="50667")
    person.pushes_for_all_to_see()  # it is known by now


@pytest.mark.parametrize("blocks", [1, 2])
def test_what_was_edited_in_our_words_and_then_deleted_in_those_of_the_service_is_no_conflict(
    person: Person, blocks: int
) -> None:
    person.upstream.dials = Dials(capitals=True)
    locid = person.creates(*["10.1.0.0/24", "10.3.0.0/24"][:blocks])
    person("push")
    person("sync")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.creates("10.2.0.0/24", city="Ulm")
    settle()
    person("push")
    assert person.said.count("stores city in other capitals") == 1
    person("custom", "delete", locid)
    person("push")
    assert [city for city, _ in person.there.values()] == ["ULM"]


def test_what_a_look_told_of_how_the_service_stores_is_known_after_a_list_that_tells_nothing(person: Person) -> None:
    person.upstream.dials = Dials(digits=2)
    locid = person.creates("10.1.0.0/24")
    person("push")
    person("custom", "delete", locid)
    person("sync")
    person.creates("10.2.0.0/24", city="Ulm", latitude=48.4)
    settle()
    person("push")
    assert [city for city, _ in person.there.values()] == ["Ulm"]


def test_what_was_pushed_just_now_and_stored_otherwise_can_be_deleted_at_once(person: Person) -> None:
    """A list that is asked for by its fields does not find it, and a complete one is not conclusive yet."""
    person.upstream.dials = Dials(capitals=True, squeezed=True, digits=2)
    locid = person.creates("10.1.0.0/24", postalcode="530 1")
    person("push")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("custom", "delete", locid)
    person.creates("10.2.0.0/24", city="Ulm", latitude=48.4)
    person("push", exits=None)
    assert "the service has changed" not in person.said
    settle()
    person("push")
    person("push")
    assert [city for city, _ in person.there.values()] == ["ULM"]


def test_a_place_without_blocks_whose_field_was_seen_in_two_forms_is_still_itself(person: Person) -> None:
    person.upstream.dials = Dials(capitals=True, squeezed=True, digits=2, dropped=("dmacode",))
    locid = person.creates(postalcode="53 111", latitude=52.701, longitude=13.1, dmacode="77")
    person("push")
    person("custom", "update", locid, "--region", "c", "--latitude", "52.711", "--longitude", "13.6")
    settle()
    person("push")
    person("custom", "update", locid, "--longitude", "13.1")
    settle()
    person("push")
    assert "something else" not in person.said
    assert person.upstream.places[-1].as_fields()["longitude"] == 13.1


def test_what_was_made_before_is_told_once_a_person_has_said_how_the_service_calls_it(person: Person) -> None:
    person.has("10.1.0.0/24")  # which is stored as it was sent
    person.upstream.dials = Dials(names=True)
    person.creates(city="Köln", latitude=50.93, longitude=6.95)
    person.upstream.faults = ["after"]
    person("push", exits=1)
    settle()
    person("push", exits=None)
    settle()
    person("sync", exits=3)
    (edit,) = (each["id"] for each in json.loads(person("outbox", "list", "--json")))
    person("outbox", "adopt", edit, -3)
    person("push")
    settle()
    person("sync", exits=3)
    assert "geolocation -2 " in person.said


def test_an_update_that_a_copy_took_back_is_no_form_of_what_was_sent(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = person.creates("10.1.0.0/24", postalcode="10115")
    person("push")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("sync")  # its list shows the create, and proves nothing yet
    before = person.upstream.places
    person("custom", "update", locid, "--city", "Cologne", "--postalcode", "50667", "--latitude", "50.9")
    person("push")
    person.upstream.fail_over(before)
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0.3")
    settle()
    person("sync", exits=3)
    assert "and does not show them" in person.said
    assert "city Berlin instead of Cologne" in person.said
    person("outbox", "retry", 3)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Cologne", ["10.1.0.0"])}


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize(
    "change", [{"latitude": 52.56}, {"city": "Potsdam"}, {"areacode": ""}, {"areacode": "031"}], ids=str
)
def test_a_deletion_waits_if_somebody_changed_what_no_list_has_shown_yet(
    person: Person, change: dict[str, Any], *, others: bool
) -> None:
    if others:
        person.has("10.9.0.0/24", areacode="7")
    locid = person.creates("10.1.0.0/24", areacode="030")
    person("push")
    number = min(person.upstream.places)
    person("custom", "delete", locid)
    theirs = changed(person.upstream.places[number], **change)
    person.upstream.colleague_changes(number, theirs, who="colleague")
    for command in ("push", "sync", "push", "refresh"):
        settle()
        person(command, exits=3)
        assert person.upstream.places[number] == theirs
    assert "instead of" in person("outbox", "list") + person.said


@pytest.mark.parametrize("when", ["created, and seen", "another field updated", "another field updated, and seen"])
def test_what_a_colleague_filled_in_after_a_list_is_not_taken_back_by_a_sheet(
    person: Person, tmp_path: Path, when: str
) -> None:
    sheet, head = tmp_path / "a.csv", "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"

    def applies(areacode: str, *, exits: int = 0) -> None:
        sheet.write_text(f"{head}Ulm,DE,,Ulm,,48.4,10.0,,{areacode},10.1.0.0/24\n")
        person("custom", "apply", sheet, exits=exits)

    person("sync")
    applies("")
    if when == "created, and seen":
        person("push")
    else:
        person.pushes_for_all_to_see()
        applies("0731")
        person("push")
    if when.endswith("seen"):
        person("sync")  # which proves nothing yet, and shows what was sent
    place = person.upstream.places[-1]
    filled = replace(place, fields=tuple({**place.as_fields(), "postalcode": "89073"}.values()))
    person.upstream.colleague_changes(-1, filled, who="colleague")
    settle()
    person("sync")
    applies("0732", exits=3)
    assert "Ulm: the service changed it: postalcode was empty, is 89073" in person.said
    person("push")
    assert person.upstream.places[-1].as_fields()["postalcode"] == "89073"
