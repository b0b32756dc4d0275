"""A service with names of its own for what it is sent: learnt, or told, and no program writes for ever."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dials.dials import Dials
from tests.dials.person import BERLIN, Person, settle
from tests.dials.upstream import Place


def _site(tmp_path: Path, city: str, dmacode: str = "") -> Path:
    file = tmp_path / "sites.csv"
    file.write_text(
        "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
        f"office,DE,,{city},,50.937531,6.960279,{dmacode},,10.1.0.0/24\n"
    )
    return file


def _nights(person: Person, file: Path, *exits: int) -> list[int]:
    """How many writes a program makes that applies a file so often; ``exits`` are what the syncs after it exit with."""
    written = []
    for status in exits:
        before = len(person.upstream.log)
        person("custom", "apply", file)
        person("push")
        settle()
        person("sync", exits=status)
        written.append(len(person.upstream.log) - before)
    return written


def test_a_name_of_its_own_is_learnt_from_an_update_of_something_else(person: Person, tmp_path: Path) -> None:
    person.upstream.dials = Dials(names=True)
    person("custom", "apply", _site(tmp_path, "Köln", "807"))
    person("push")
    settle()
    person("custom", "apply", _site(tmp_path, "Köln"))
    person("push")  # nobody has seen yet that this service calls it Cologne
    assert "stores city otherwise: it has 'Cologne' for 'Köln' of office (-1)" in person.said
    person.pushes_for_all_to_see()
    assert _nights(person, _site(tmp_path, "Köln"), 0, 0) == [0, 0]


def test_a_name_that_a_service_keeps_as_it_was_is_told_once_and_not_sent_for_ever(
    person: Person, tmp_path: Path
) -> None:
    person("custom", "apply", _site(tmp_path, "Cologne"))
    person.pushes_for_all_to_see()
    person.upstream.dials = Dials(names=True)
    assert _nights(person, _site(tmp_path, "Köln"), 3) == [1]
    person("outbox", "drop", 3)  # so it is how the service calls it
    assert _nights(person, _site(tmp_path, "Köln"), 0, 0) == [0, 0]
    person("custom", "plan", _site(tmp_path, "Köln"))
    assert "the service has city 'Cologne' for 'Köln' of" in person.said


@pytest.mark.parametrize("areacode", ["", "77"])
def test_a_site_that_has_another_number_and_gave_away_a_block_keeps_its_name(person: Person, areacode: str) -> None:
    munich = {"country": "DE", "city": "Munich", "latitude": 48.1, "longitude": 11.6}
    for fields, blocks in ((BERLIN, ("10.1.0.0/24", "10.5.0.0/24")), (munich, ("10.2.0.0/24",))):
        words = [f"--{key}={value}" for key, value in fields.items()]
        person("custom", "create", fields["city"], *words, *(f"--block={block}" for block in blocks))
    person.pushes_for_all_to_see()
    one, two = person.upstream.places[-1], person.upstream.places[-2]
    given = {("10.5.0.0", "10.5.0.255")}
    one = replace(one, fields=(*one.fields[:-1], areacode))
    person.upstream.fail_over({-1: Place(two.fields, two.blocks | given), -2: Place(one.fields, one.blocks - given)})
    person("sync")
    listed = {each["site"]: each["locid"] for each in json.loads(person("custom", "list", "--json"))}
    assert listed == {"Berlin": -2, "Munich": -1}


def test_the_history_names_what_a_line_is_about_and_not_what_has_its_number_now(person: Person) -> None:
    person.upstream.dials = Dials(reuse=True)
    for name in ("One", "Two"):
        person("custom", "create", name, *(f"--{key}={value}" for key, value in BERLIN.items()))
        person.pushes_for_all_to_see()
        if name == "One":
            person("custom", "delete", "One")
            person.pushes_for_all_to_see()
    lines = [line.split("\t") for line in person("history").splitlines()]
    assert [(line[1], line[6:]) for line in lines if line[1] in ("create", "delete")] == [
        ("create", ["One"]), ("delete", ["One"]), ("create", ["Two"]),
    ]  # fmt: skip
