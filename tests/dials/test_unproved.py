"""What a create of unknown outcome has made is no place of its own: a person meets the site that they created alone."""

import json
from pathlib import Path

import pytest

from tests.dials.dials import Dials
from tests.dials.person import Person, settle

_HEADER = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"


def _sheet(folder: Path, **sites: str) -> Path:
    """A file of sites that are all where `Person.creates` makes one, each with these blocks."""
    path = folder / "sites.csv"
    rows = (f"{name},DE,,Berlin,,52.520008,13.404954,,,{blocks}\n" for name, blocks in sites.items())
    path.write_text(_HEADER + "".join(rows), "utf-8")
    return path


@pytest.fixture
def lost(person: Person) -> int:
    """A site of which the create was carried out as -1, and not answered; a pull within `settle_s` has that."""
    locid = person.creates("10.1.0.0/24")
    person("custom", "rename", locid, "First")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    person("sync")
    assert sorted(person.there) == [-1]
    return locid


def _settles(person: Person) -> None:
    settle()
    person("push")
    person.pushes_for_all_to_see()


def test_it_is_not_listed_and_an_edit_of_it_is_refused_with_the_site_that_is_meant(person: Person, lost: int) -> None:
    assert [each["locid"] for each in json.loads(person("custom", "list", "--json"))] == [lost]
    for command in (("delete",), ("add-block", "10.2.0.0/24"), ("update", "--city", "Bonn"), ("rename", "Depot")):
        person("custom", command[0], -1, *command[1:], exits=None)
        assert (
            f"-1 may have been made by the create of geolocation {lost}, whose outcome is not known yet" in person.said
        )
    _settles(person)
    assert (person.there, person.looks_up("10.1.0.1")) == ({-1: ("Berlin", ["10.1.0.0"])}, [-1])


def test_it_is_not_told_as_made_twice_by_another_site_that_is_equal(person: Person) -> None:
    person.upstream.faults = ["after"]
    person.creates("10.1.0.0/24")
    person.creates("10.2.0.0/24")
    person("push", exits=1)
    person("sync")
    assert "applied twice" not in person.said
    _settles(person)
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -2]
    assert sorted(person.there) == [-2, -1]


def test_a_file_with_the_site_deletes_nothing_that_it_does_not_name(person: Person, lost: int, tmp_path: Path) -> None:
    person("custom", "apply", _sheet(tmp_path, First="10.1.0.0/24"), "--prune-all")
    _settles(person)
    assert (person.there, person.looks_up("10.1.0.1")) == ({-1: ("Berlin", ["10.1.0.0"])}, [-1])
    assert lost < -1


@pytest.mark.usefixtures("lost")
def test_another_site_that_is_equal_is_a_site_of_its_own(person: Person, tmp_path: Path) -> None:
    person("custom", "apply", _sheet(tmp_path, First="10.1.0.0/24", Second="10.2.0.0/24"))
    _settles(person)
    assert sorted(blocks for _, blocks in person.there.values()) == [["10.1.0.0"], ["10.2.0.0"]]
    assert sorted(person.looks_up("10.1.0.1", "10.2.0.1")) == [-2, -1]
    assert sorted(each["site"] for each in json.loads(person("custom", "list", "--json"))) == ["First", "Second"]


def test_a_site_that_is_deleted_meanwhile_takes_it_along(person: Person, lost: int) -> None:
    person("custom", "delete", lost)
    person("sync")
    person("custom", "add-block", -1, "10.2.0.0/24", exits=2)
    _settles(person)
    assert (person.there, person.looks_up("10.1.0.1")) == ({}, [1])


def test_what_an_answer_with_a_wrong_number_left_without_a_name_is_the_site(person: Person) -> None:
    person.upstream.dials = Dials(lie=1.0)
    person.creates("10.1.0.0/24")
    person("push", exits=1)
    person.upstream.dials = Dials()
    person("sync")
    assert "applied twice" not in person.said
    assert len(json.loads(person("custom", "list", "--json"))) == 1
    _settles(person)
    assert (person.there, person.looks_up("10.1.0.1")) == ({-1: ("Berlin", ["10.1.0.0"])}, [-1])
