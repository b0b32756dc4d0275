"""What an older copy of the edits leaves in doubt: what was done since is neither undone nor asked about."""

import json
import shutil
from pathlib import Path

import pytest

from tests.dials.person import Person, settle

_ADDED = ("add-block", -1, "10.4.0.0/24")


def _is_put_back(
    person: Person,
    home: str,
    tmp_path: Path,
    how: str,
    *,
    edit: tuple[object, ...],
    since: tuple[tuple[object, ...], ...] = (),
) -> None:
    """The state, or the edits, of before a push are put back after it, and after all that was edited ``since``."""
    person("custom", *edit)
    person("state", "backup", tmp_path / "backup")
    shutil.copy(f"{home}/edits.db", tmp_path / "edits.db")
    person("push")
    for later in since:
        person("custom", *later)
    if since:
        person.pushes_for_all_to_see()
    if how == "state":
        person("state", "restore", tmp_path / "backup", "--replace")
    else:
        person("outbox", "restore", tmp_path / "edits.db")
    settle()


@pytest.mark.parametrize("how", ["state", "outbox"])
@pytest.mark.parametrize("is_pushed", [False, True], ids=["at once", "after a push"])
@pytest.mark.parametrize(
    ("edit", "left"),
    [
        (("remove-block", -1, "10.2.0.0/24"), ["10.1.0.0", "10.4.0.0"]),
        (("replace-block", -1, "10.1.0.0/24", "10.5.0.0/24"), ["10.2.0.0", "10.4.0.0", "10.5.0.0"]),
        (("clear-blocks", -1), []),
        (("remove-block", -1, "10.4.0.0/24"), ["10.1.0.0", "10.2.0.0"]),
        (("update", -1, "--city", "Bonn"), ["10.1.0.0", "10.2.0.0", "10.4.0.0"]),
    ],
    ids=["removes", "replaces", "clears", "takes back", "updates"],
)
def test_a_later_edit_of_what_was_pushed_before_a_restore_is_done_without_a_question(
    person: Person, home: str, tmp_path: Path, how: str, is_pushed: bool, edit: tuple[object, ...], left: list[str]
) -> None:
    person.has("10.1.0.0/24", "10.2.0.0/24")
    _is_put_back(person, home, tmp_path, how, edit=_ADDED)
    if is_pushed:
        person("push")
    person("custom", *edit)
    person("push")
    assert person.there == {-1: ("Bonn" if edit[0] == "update" else "Berlin", left)}
    settle()
    person("sync")
    assert json.loads(person("outbox", "list", "--json")) == []
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1 if each in left else 1 for each in ("10.1.0.0", "10.2.0.0")]


@pytest.mark.parametrize("how", ["state", "outbox"])
def test_a_block_that_is_replaced_after_a_restore_is_not_taken_for_one_that_a_removal_took(
    person: Person, home: str, tmp_path: Path, how: str
) -> None:
    person.has("10.1.0.0/24", "10.2.0.0/24", "10.4.0.0/24")
    _is_put_back(person, home, tmp_path, how, edit=("remove-block", -1, "10.4.0.0/24"))
    person("push")
    person("custom", "replace-block", -1, "10.1.0.0/24", "10.5.0.0/24")
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.2.0.0", "10.5.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("choice", ["adopt", "drop"])
def test_a_create_that_was_done_and_moved_to_another_town_is_asked_about_by_its_block(
    person: Person, tmp_path: Path, choice: str
) -> None:
    person("sync")
    locid = person.creates("10.1.0.0/24")
    person("state", "backup", tmp_path / "backup")
    person.pushes_for_all_to_see()
    person("custom", "update", locid, "--city", "Bern", "--latitude", 46.9, "--longitude", 7.4)
    person("push")
    person("state", "restore", tmp_path / "backup", "--replace")
    settle()
    person("push", exits=3)
    assert "`geolookup outbox adopt 1 -1` says that -1 is it, `geolookup outbox drop 1` gives it up" in person.said
    person("outbox", choice, 1, *([-1] if choice == "adopt" else []))
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Bern", ["10.1.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize(
    ("choice", "left"), [("adopt", []), ("retry", ["10.2.0.0"]), ("drop", ["10.1.0.0", "10.2.0.0"])]
)
def test_each_choice_about_a_removal_says_which_blocks_it_gives_back(
    person: Person, home: str, tmp_path: Path, choice: str, left: list[str]
) -> None:
    person.has("10.1.0.0/24", "10.2.0.0/24", "10.4.0.0/24")
    person("custom", "remove-block", -1, "10.1.0.0/24")
    shutil.copy(f"{home}/edits.db", tmp_path / "edits.db")
    person.pushes_for_all_to_see()
    person("custom", "remove-block", -1, "10.2.0.0/24")
    person.pushes_for_all_to_see()
    person("outbox", "restore", tmp_path / "edits.db", exits=None)
    settle()
    person("push", exits=3)
    (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")))
    person("push", exits=3)
    first, second = "10.1.0.0-10.1.0.255", "10.2.0.0-10.2.0.255"
    assert f"`geolookup outbox retry {edit}` sends it again and gives {second} back" in person.said
    assert f"`geolookup outbox drop {edit}` gives it up and gives {first}, {second} back" in person.said
    assert f"`geolookup outbox adopt {edit} -1` keeps it as it is there" in person.said
    person("outbox", "adopt", edit, -2, exits=2)
    person("outbox", choice, edit, *([-1] if choice == "adopt" else []))
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", [*left, "10.4.0.0"])}
    assert json.loads(person("outbox", "list", "--json")) == []


@pytest.mark.parametrize("how", ["state", "outbox"])
def test_a_decision_about_a_field_after_a_restore_sends_nothing_again_that_was_taken_back(
    person: Person, home: str, tmp_path: Path, how: str
) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.5.0.0/24")
    since = (("remove-block", -1, "10.5.0.0/24"), ("update", -1, "--areacode", "0891"))
    _is_put_back(person, home, tmp_path, how, edit=("update", -1, "--areacode", "089"), since=since)
    person("push", exits=3)
    for row in json.loads(person("outbox", "list", "--json")):
        if "areacode 0891 instead of 089" in (row["problem"] or "") and "changed" in row["problem"]:
            person("outbox", "retry", row["id"])
    person("push", exits=3)
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}
