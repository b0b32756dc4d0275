"""Files of sites that an export wrote, applied after others have changed what they were made from."""

import json
from pathlib import Path

import pytest

from geolookup.state.base.actor import who
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place


@pytest.fixture
def exported(person: Person, tmp_path: Path) -> Path:
    """An export of two sites that the service has: A is -1 and B is -2."""
    for name, block, city in (("A", "10.1.0.0/24", "Berlin"), ("B", "10.2.0.0/24", "Bonn")):
        fields = {**BERLIN, "city": city}
        person("custom", "create", name, "--block", block, *(f"--{key}={value}" for key, value in fields.items()))
    person.pushes_for_all_to_see()
    return _export(person, tmp_path)


def _export(person: Person, folder: Path) -> Path:
    path = folder / "sites.csv"
    person("custom", "export", path)
    person("custom", "apply", path)
    return path


def _named(person: Person) -> dict[str, tuple[str, list[str]]]:
    """The cities and blocks of sites by name."""
    listed = json.loads(person("custom", "list", "--json"))
    return {each["site"] or "": (each["city"], [block["startip"] for block in each["ipblocks"]]) for each in listed}


FORMER = {"A": ("Berlin", ["10.1.0.0"]), "B": ("Bonn", ["10.2.0.0"])}


@pytest.mark.parametrize("keep", ["mine", "theirs"])
@pytest.mark.parametrize("is_pushed", [False, True], ids=["", "pushed"])
@pytest.mark.parametrize("how", ["made again", "passed on", "exchanged"])
def test_a_name_that_another_site_has_by_now_is_asked_for(
    person: Person, exported: Path, how: str, is_pushed: bool, keep: str
) -> None:
    if how == "exchanged":
        for name, other in (("A", "C"), ("B", "A"), ("C", "B")):
            person("custom", "rename", name, other)
    else:
        person("custom", "delete", "A")
    if how == "passed on":
        person("custom", "rename", "B", "A")
    if how == "made again":
        person("custom", "create", "A", "--country=AU", "--city=Perth", "--latitude=-32", "--longitude=116")
    if is_pushed:
        person.pushes_for_all_to_see()
    now = _named(person)
    person("custom", "apply", exported, exits=3)
    assert ("name was B, is A" if how == "exchanged" else f"A: {who()} deleted it") in person.said
    assert _named(person) == now
    person("custom", "apply", exported, "--keep", keep)
    after = now
    if keep == "mine":
        assert ("loses the name A" in person.said) is (how == "made again")
        after = {**FORMER, **({"": ("Perth", [])} if how == "made again" else {})}
    assert _named(person) == after
    # What a new site has by now is asked for again: it may be another one than a person decided on.
    person("custom", "apply", exported, exits=3 if (how, is_pushed, keep) == ("made again", True, "theirs") else 0)
    assert "nothing to change" in person.said or "is Perth" in person.said
    assert _named(person) == after
    person.pushes_for_all_to_see()
    assert sorted(person.there.values()) == sorted(after.values())


def test_what_was_added_since_an_export_by_a_sheet_that_only_adds_is_not_deleted_by_it(
    person: Person, exported: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.csv"
    more.write_text("name,country,city,latitude,longitude,blocks\nPerth,AU,Perth,-32,116,10.3.0.0/24\n")
    person("custom", "apply", more, "--add-only")
    person("custom", "apply", exported, exits=3)
    assert "added it" in person.said
    assert _named(person).keys() == {"A", "B", "Perth"}


@pytest.mark.parametrize("by", ["a colleague", "a colleague who changed it", "number"])
@pytest.mark.parametrize("blocks", [[], [("172.16.0.0", "172.16.0.255")]], ids=["no blocks", "a block"])
def test_what_no_name_stood_for_and_is_gone_since_an_export_is_not_made_again_without_a_word(
    person: Person, exported: Path, tmp_path: Path, blocks: list[tuple[str, str]], by: str
) -> None:
    person.upstream.colleague_creates(ELSEWHERE, blocks, who="colleague")
    person("sync")
    path = tmp_path / "all.csv"
    person("custom", "export", path)
    if by == "number":
        person("custom", "delete", "--", -3)
    elif by == "a colleague":
        person.upstream.colleague_changes(-3, None, who="colleague")
    else:
        there = Place(tuple({**ELSEWHERE, "areacode": "9"}.values()), frozenset({("172.17.0.0", "172.17.0.255")}))
        person.upstream.colleague_changes(-3, there, who="colleague")
    settle()
    person("sync")
    person("custom", "apply", path, exits=3)
    assert "Sydney AU: " in person.said
    person("custom", "apply", path, "--keep", "mine")
    person.pushes_for_all_to_see()
    assert ("Sydney", [first for first, _ in blocks]) in person.there.values()


def test_an_export_is_applied_without_a_question_where_nothing_of_it_ever_was(
    person: Person, exported: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    person.upstream.places.clear()
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "another"))
    person("sync")
    person("custom", "apply", exported)
    assert _named(person) == FORMER


def test_a_row_that_was_copied_in_an_export_is_a_new_site(person: Person, exported: Path) -> None:
    head, first, *rest = exported.read_text(encoding="utf-8").splitlines()
    copied = first.replace("A,", "A2,", 1).replace("10.1.0.0/24", "10.9.0.0/24")
    exported.write_text("\n".join([head, first, copied, *rest, ""]), encoding="utf-8")
    person("custom", "apply", exported)
    assert _named(person) == {**FORMER, "A2": ("Berlin", ["10.9.0.0"])}


def test_a_site_that_has_a_geolocation_can_take_another_one_that_has_its_block(person: Person, exported: Path) -> None:
    person.upstream.colleague_creates(ELSEWHERE, [("10.9.0.0", "10.9.0.255")], who="colleague")
    person("sync")
    exported.write_text(exported.read_text(encoding="utf-8").replace("10.1.0.0/24", "10.9.0.0/24"), encoding="utf-8")
    person("custom", "apply", exported, exits=1)
    assert "--take 'A=-3'" in person.said
    person("custom", "apply", exported, "--take", "A=-3", exits=3)  # it is not what the file was made from
    person("custom", "apply", exported, "--take", "A=-3", "--keep", "A=mine")
    assert "delete A (-1)" in person.said
    assert _named(person) == {**FORMER, "A": ("Berlin", ["10.9.0.0"])}
    person.pushes_for_all_to_see()
    assert sorted(person.there) == [-3, -2]


@pytest.fixture
def nameless(person: Person, tmp_path: Path) -> Path:
    """An export of two geolocations without names, which a colleague made: -1 and -2."""
    for city, block in (("Bonn", "10.7.0"), ("Ulm", "10.8.0")):
        fields = {**ELSEWHERE, **BERLIN, "city": city}
        person.upstream.colleague_creates(fields, [(f"{block}.0", f"{block}.255")], who="colleague")
    person("sync")
    path = tmp_path / "sites.csv"
    person("custom", "export", path)
    settle()  # else what follows is of the same millisecond
    return path


@pytest.mark.parametrize("elsewhere", [False, True], ids=["", "on another machine"])
@pytest.mark.parametrize("block", ["10.9.0.0/24", ""])
def test_a_row_of_an_export_is_what_it_was_made_from_whatever_is_changed_in_it(
    person: Person, nameless: Path, block: str, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if elsewhere:
        monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "elsewhere"))
        person("sync")
    nameless.write_text(nameless.read_text().replace("10.7.0.0/24", block).replace("Bonn,", "Bonn-Beuel,"))
    person("custom", "apply", nameless)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Bonn-Beuel", [block.removesuffix("/24")] * bool(block)), -2: ("Ulm", ["10.8.0.0"])}


@pytest.mark.parametrize("is_pushed", [False, True], ids=["", "pushed"])
@pytest.mark.parametrize("how", ["deleted", "changed", "cleared"])
def test_an_older_export_without_names_takes_back_nothing_without_a_word(
    person: Person, nameless: Path, how: str, is_pushed: bool
) -> None:
    if how == "deleted":
        person("custom", "delete", "--", -1)
    else:
        person("custom", "update", "--areacode", 228, "--", -1)
        words = (
            ("clear-blocks", "--", -1)
            if how == "cleared"
            else ("replace-block", "--", -1, "10.7.0.0/24", "10.9.0.0/24")
        )
        person("custom", *words)
    if is_pushed:
        person.pushes_for_all_to_see()
    there = person.there
    person("custom", "apply", nameless, exits=3)
    assert f"Bonn DE: {who()} {'deleted' if how == 'deleted' else 'changed'} it" in person.said
    person("custom", "apply", nameless, "--keep", "theirs")
    person.pushes_for_all_to_see()
    if is_pushed:
        assert person.there == there
    person("custom", "apply", nameless, "--keep", "mine")
    person.pushes_for_all_to_see()
    assert sorted(person.there.values()) == [("Bonn", ["10.7.0.0"]), ("Ulm", ["10.8.0.0"])]
