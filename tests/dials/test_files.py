"""States and files that went back, were copied or are open to every user: what a person sees, and what is sent."""

import contextlib
import json
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from geolookup.state.base import clock, marks
from geolookup.state.base.marks import Begun
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.publishing.directory import StateDirectory
from tests.dials.dials import Dials
from tests.dials.person import BERLIN, ELSEWHERE, Person, settle
from tests.dials.upstream import Place


@pytest.mark.parametrize("command", ["sync", "push", "refresh"])
def test_a_state_that_every_user_may_write_is_warned_of(person: Person, home: str, command: str) -> None:
    person.creates("10.1.0.0/24")
    os.chmod(home, 0o777)
    person(command)
    assert person.said.count("every user of this machine may write there (mode 0777)") == 1
    os.chmod(home, 0o700)
    person(command)
    assert "every user" not in person.said


def test_a_copied_state_is_warned_of_before_it_pushes_though_nothing_was_pushed_before(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.creates("10.1.0.0/24")
    shutil.copytree(home, tmp_path / "copy")
    person("push")
    assert "another machine" not in person.said
    monkeypatch.setattr(marks, "machine_id", lambda: "elsewhere")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "copy"))
    person("push", exits=3)  # the service has the same by now
    assert "another machine" in person.said
    assert list(person.there) == [-1]


def test_a_state_that_was_copied_on_this_machine_is_warned_of_before_it_pushes_and_one_that_moved_is_not(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.creates("10.1.0.0/24")
    for name in ("copy", "moved"):
        shutil.copytree(home, tmp_path / name)
    person("push")
    assert "a copy" not in person.said
    settle()
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "copy"))
    person("push", exits=3)  # the service has the same by now
    assert f"this state is a copy of {home}: if that pushes too, what waits in both is sent twice" in person.said
    person("outbox", "adopt", 1, -1)
    person("push", exits=None)
    assert "a copy" not in person.said
    os.rename(home, tmp_path / "elsewhere")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "moved"))
    person("push", exits=None)
    assert "a copy" not in person.said


@pytest.mark.parametrize("how", ["in its place", "over it"])
def test_a_copy_of_a_state_that_was_put_back_at_its_place_is_warned_of_and_a_restored_one_is_not(
    person: Person, home: str, tmp_path: Path, how: str
) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.2.0.0/24")
    person("state", "backup", tmp_path / "archive")
    shutil.copytree(home, tmp_path / "copy")
    person("push")
    if how == "in its place":
        os.rename(home, tmp_path / "aside")
    shutil.copytree(tmp_path / "copy", home, dirs_exist_ok=True)
    person("push", exits=None)
    assert "this state was copied here: if it is an older one that was put back" in person.said
    person("push")
    assert "copied here" not in person.said
    person("state", "restore", tmp_path / "archive", "--replace")
    person("push", exits=None)
    assert "copied here" not in person.said
    person("outbox", "restore")
    person("push", exits=None)
    assert "copied here" not in person.said


def test_older_edits_that_are_put_back_together_with_what_was_published_then_are_refused(
    person: Person, home: str, tmp_path: Path
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("custom", "remove-block", locid, "10.2.0.0/24")
    for name in ("edits.db", "CURRENT"):
        shutil.copy(f"{home}/{name}", tmp_path / name)
    person.pushes_for_all_to_see()
    person("custom", "add-block", locid, "10.2.0.0/24")
    person.pushes_for_all_to_see()
    for name in ("edits.db", "CURRENT"):
        shutil.copy(tmp_path / name, f"{home}/{name}")
    person("push", exits=1)
    assert "lacks what was published or pushed from it" in person.said
    person("outbox", "restore")
    person("push", exits=None)
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


@pytest.mark.parametrize("then", ["push", "sync", "restore"])
def test_a_restore_that_was_interrupted_says_later_what_it_took_away(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    locid = person.has("10.1.0.0/24")
    shutil.copy(f"{home}/edits.db", tmp_path / "edits.db")
    person("custom", "add-block", locid, "10.2.0.0/24")
    with monkeypatch.context() as patch:
        patch.setattr(StateDirectory, "republish", _interrupts)
        person("outbox", "restore", tmp_path / "edits.db", exits=None)
    if then == "restore":
        person("outbox", "restore", tmp_path / "edits.db", exits=3)
    else:
        person(then, exits=3)
        assert "interrupted before it said" in person.said
    assert "add 10.2.0.0-10.2.0.255 to -1" in person.said
    person(then if then != "restore" else "push")
    assert "interrupted" not in person.said
    person("outbox", "restore", f"{home}/edits.replaced.db", exits=None)
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


def _interrupts(_directory: StateDirectory) -> None:
    raise KeyboardInterrupt


def test_edits_of_a_copy_of_the_state_that_are_put_here_by_hand_are_refused_though_they_are_newer(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.has("10.1.0.0/24")
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    person.creates("10.2.0.0/24", city="Bonn")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(copy))
    for block, city in (("10.3.0.0/24", "Jena"), ("10.4.0.0/24", "Ulm")):
        person.creates(block, city=city)
        person("push", exits=None)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    (Path(home) / "edits.db").write_bytes((copy / "edits.db").read_bytes())
    for command in (("sync",), ("push",), ("custom", "list"), ("custom", "undo", "--run"), ("verify",)):
        person(*command, exits=1)
        assert "an older copy, or that of another state, was put in its place" in person.said
    assert sorted(city for city, _ in person.there.values()) == ["Berlin", "Jena", "Ulm"]
    person("outbox", "restore", exits=3)  # names what only the other has
    person("push", exits=None)
    assert sorted(city for city, _ in person.there.values()) == ["Berlin", "Bonn", "Jena", "Ulm"]
    settle()
    person("sync")
    # A person may have it all the same.
    (Path(home) / "edits.db").write_bytes((copy / "edits.db").read_bytes())
    person("outbox", "restore", Path(home) / "edits.db", exits=None)
    person("sync")
    person("push")
    assert len(person.there) == 4


@pytest.mark.parametrize("how", ["--empty", "backup"])
def test_a_restore_names_the_places_of_vrfs_that_lookups_lose(
    person: Person, home: str, tmp_path: Path, how: str
) -> None:
    person.creates("10.9.0.0/24")
    shutil.copy(f"{home}/edits.db", tmp_path / "backup")
    (tmp_path / "v.csv").write_text("name,country,city,blocks,vrf\nUtrecht office,NL,Utrecht,10.1.2.0/24,RED\n")
    person("custom", "apply", tmp_path / "v.csv")
    person("outbox", "restore", how if how == "--empty" else tmp_path / how, exits=3)
    assert "10.1.2.0-10.1.2.255: lookups no longer have Utrecht office (Utrecht, NL) of the VRF RED\n" in person.said
    assert ("Berlin" in person.said) is (how == "--empty")


@pytest.mark.parametrize("how", ["--empty", "backup"])
def test_a_restore_names_the_sites_that_lookups_call_otherwise(
    person: Person, home: str, tmp_path: Path, how: str
) -> None:
    locid = person.has("10.0.0.0/24")
    person("custom", "rename", locid, "Depot")
    person("outbox", "restore", f"{home}/edits.db")
    shutil.copy(f"{home}/edits.db", tmp_path / "backup")
    if how == "backup":
        person("custom", "rename", "Depot", "Dock")
        person("custom", "update", "Dock", "--time-zone", "Europe/Berlin")
    person("outbox", "restore", how if how == "--empty" else tmp_path / how, exits=3)
    site = "Dock (Berlin, DE; Europe/Berlin)" if how == "backup" else "Depot (Berlin, DE)"
    assert f"10.0.0.0-10.0.0.255: lookups no longer have {site}, but " in person.said


def test_a_state_that_is_replaced_names_what_its_edits_alone_had(person: Person, tmp_path: Path) -> None:
    locid = person.has("10.0.0.0/24")
    person("custom", "rename", locid, "Depot")
    person("custom", "add-block", "Depot", "10.0.1.0/24")
    person("state", "backup", tmp_path / "backup")
    person("state", "restore", tmp_path / "backup", "--replace")
    assert "not in the backup" not in person.said
    person("custom", "add-block", "Depot", "10.0.2.0/24")
    person("custom", "rename", "Depot", "Dock")
    (tmp_path / "v.csv").write_text("name,country,city,blocks,vrf\nUtrecht office,NL,Utrecht,10.1.2.0/24,RED\n")
    person("custom", "apply", tmp_path / "v.csv")
    person("state", "restore", tmp_path / "backup", "--replace", exits=3)
    assert [line.partition(": ")[2] for line in person.said.splitlines() if line.startswith("not in the backup")] == [
        "add 10.0.2.0-10.0.2.255 to -1 (Dock)",
        "the name Dock of geolocation -1",
        "Utrecht office of the VRF RED",
    ]


def _copied(home: str) -> bytes:
    with open(f"{home}/edits.db", "rb") as file:
        return file.read()


def _put_back(home: str, content: bytes) -> None:
    with open(f"{home}/edits.db", "wb") as file:
        file.write(content)


@pytest.mark.parametrize("command", ["push", "sync", "refresh"])
def test_an_older_copy_that_is_refused_does_not_become_the_newest_backup(
    person: Person, home: str, command: str
) -> None:
    locid = person.has("10.1.0.0/24")
    before = _copied(home)
    person("custom", "delete", locid)
    person("sync")  # the newest backup has the deletion
    _put_back(home, before)
    person(command, exits=1)
    assert "`geolookup outbox restore` puts the newest backup in its place" in person.said
    person("outbox", "restore", exits=None)
    assert person.looks_up("10.1.0.1") == [1]
    settle()
    person("push", exits=None)
    person("push")
    assert person.there == {}


@pytest.mark.parametrize("edit", [("update", "--postalcode", "77"), ("delete",), ("clear-blocks",)])
def test_an_edit_that_a_backup_lacks_is_named_as_it_is_restored(
    person: Person, tmp_path: Path, home: str, edit: tuple[str, ...]
) -> None:
    locid = person.has("10.1.0.0/24")
    shutil.copy(f"{home}/edits.db", tmp_path / "backup")
    person("outbox", "restore", tmp_path / "backup")
    person("custom", edit[0], locid, *edit[1:])
    person("outbox", "restore", tmp_path / "backup", exits=3)
    assert "not in the backup: " in person.said
    person("custom", edit[0], locid, *edit[1:])
    person("outbox", "restore", "--empty", exits=3)
    assert "given up: " in person.said


def test_a_place_that_answers_a_longer_range_after_a_restore_is_not_lost(
    person: Person, tmp_path: Path, home: str
) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "add-block", locid, "10.1.1.0/24")
    shutil.copy(f"{home}/edits.db", tmp_path / "backup")
    person("custom", "remove-block", locid, "10.1.1.0/24")
    person("custom", "add-block", locid, "10.1.9.0/24")
    person("outbox", "restore", tmp_path / "backup", exits=3)
    assert person.said.count("lookups no longer have") == 1
    assert "10.1.9.0-10.1.9.255: lookups no longer have " in person.said


def test_a_backup_that_is_restored_sends_nothing_twice(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person("push")
    assert len(person.there) == 2
    person("outbox", "restore", exits=0)
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Bonn", ["10.2.0.0"])}
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -2]


def test_a_backup_that_is_copied_back_by_hand_is_noticed_before_anything_is_sent(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    before = _copied(home)
    person("push")
    _put_back(home, before)
    for words in (["push"], ["refresh"], ["sync"], ["custom", "list"], ["custom", "add-block", -1, "10.9.0.0/24"]):
        person(*words, exits=1)
        assert "outbox restore" in person.said, words
    assert person.looks_up("10.1.0.1") == [-1]
    settle()
    person("outbox", "restore", f"{home}/edits.db")
    settle()
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("blocks", [(), ("10.1.0.0/24",)])
def test_a_create_that_a_newer_copy_has_sent_is_looked_for_also_if_keys_are_honoured(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true")
    person.upstream.dials = Dials(keys=True)
    person("sync", exits=None)
    person.creates(*blocks)
    person("state", "backup", tmp_path / "backup")
    person("push")
    person("state", "restore", tmp_path / "backup", "--replace", exits=None)
    person("push", exits=None)
    settle()
    person("push", exits=None)
    assert len(person.there) == 1


@pytest.mark.parametrize("has_moved", [False, True])
def test_a_site_that_a_colleague_deleted_is_made_anew_by_the_same_file_only_if_that_is_said(
    person: Person, tmp_path: Path, has_moved: bool
) -> None:
    person.upstream.colleague_creates(ELSEWHERE, [("10.2.0.0", "10.2.0.255")], who="colleague")
    person("sync")
    sheet = tmp_path / "sites.csv"
    sheet.write_text("name,country,city,latitude,longitude,blocks\nSydney,AU,Sydney,-33.8,151.2,10.2.0.0/24\n")
    person("custom", "apply", sheet)
    assert "Sydney (-1) is there already" in person.said
    person.upstream.colleague_changes(-1, None, who="colleague")
    if has_moved:
        ends = [(f"10.{at}.0.0", f"10.{at}.0.255") for at in (2, 3)]
        person.upstream.colleague_creates({**ELSEWHERE, "city": "Perth", "latitude": -31.9}, ends, who="colleague")
    settle()
    person("sync", exits=3)
    if has_moved:  # its network belongs to another branch by now, which is nothing of ours until a person says so
        person("custom", "apply", sheet, exits=1)
        assert "--take 'Sydney=-2'" in person.said
        assert person.there == {-2: ("Perth", ["10.2.0.0", "10.3.0.0"])}
        person("custom", "apply", sheet, "--take", "Sydney=-2")
        assert "Sydney (-2) is there already" in person.said
        return
    person("custom", "apply", sheet, exits=3)
    assert "Sydney: the service deleted it" in person.said
    person("custom", "apply", sheet, "--keep", "mine")
    person.pushes_for_all_to_see()
    assert list(person.there.values()) == [("Sydney", ["10.2.0.0"])]


def test_what_an_older_copy_would_send_again_is_held_if_it_was_deleted_since(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    before = _copied(home)
    person("push")
    person.upstream.colleague_changes(-1, None, who="colleague")
    _put_back(home, before)
    person("outbox", "restore", f"{home}/edits.db")
    settle()
    person("push", exits=3)
    assert "pushed and changed since" in person.said
    assert person.there == {}
    person("outbox", "retry", 1)
    person("push")
    assert person.there == {-2: ("Berlin", ["10.1.0.0"])}


def test_a_create_of_an_older_copy_is_not_taken_for_an_equal_one_that_was_there_before_it_was_made(
    person: Person, home: str
) -> None:
    equal = {**ELSEWHERE, "region": "", **BERLIN}
    person.upstream.colleague_creates(equal, who="colleague")
    person("sync")
    locid = person.creates()
    before = _copied(home)
    person("push")
    _put_back(home, before)
    person("outbox", "restore", f"{home}/edits.db")
    settle()
    person("push")
    person("custom", "add-block", locid, "10.1.0.0/24")
    person("push")
    assert person.there == {-1: ("Berlin", []), -2: ("Berlin", ["10.1.0.0"])}


def test_an_edit_that_only_the_replaced_file_had_is_named_as_lost(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    person("push")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    person("outbox", "restore", f"{home}/edits.backup.2.db", exits=3)
    assert "Bonn" in person.said
    assert "10.2.0.0-10.2.0.255" in person.said


def test_each_file_that_a_restore_replaced_is_kept(person: Person, home: str) -> None:
    for number in (1, 2, 3):
        person.creates(f"10.{number}.0.0/24", city=f"Bonn {number}")
        person("outbox", "restore", "--empty", exits=3)
    for number, name in enumerate(("edits.replaced.db", "edits.replaced.2.db", "edits.replaced.3.db"), start=1):
        person("outbox", "restore", f"{home}/{name}", exits=None)
        assert f"Bonn {number}" in person("custom", "list")


@pytest.mark.parametrize("content", [b"", None], ids=["empty", "gone"])
def test_an_empty_file_is_no_new_one_if_there_were_edits(person: Person, home: str, content: bytes | None) -> None:
    person.creates("10.1.0.0/24")
    if content is None:
        os.remove(f"{home}/edits.db")
    else:
        _put_back(home, content)
    person("push", exits=1)
    assert "outbox restore --empty" in person.said
    assert person.looks_up("10.1.0.1")[0] < -(10**15)
    person("outbox", "restore", "--empty", exits=3)
    person("push")
    assert person.looks_up("10.1.0.1") == [1]


def _changed(home: str, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(f"{home}/edits.db")) as database, database:
        database.execute(sql)


@pytest.mark.parametrize(
    "change",
    ["locid = -1", f"locid = {-(10**15) - 77}", "concluded = 1"],
    ids=["of another geolocation", "of none", "over"],
)
@pytest.mark.parametrize("edit", [1, 2], ids=["create", "block"])
def test_an_edit_that_is_of_another_geolocation_or_over_by_damage_is_damage(
    person: Person, home: str, edit: int, change: str
) -> None:
    person.creates("10.1.0.0/24")
    _changed(home, f"UPDATE outbox SET {change} WHERE id = {edit}")
    for command in ("push", "refresh", "verify"):
        person(command, exits=1)
        assert f"edit {edit} is damaged" in person.said
        assert "geolookup outbox restore" in person.said
    assert person.there == {}


def test_an_edit_of_what_nothing_will_ever_create_waits_for_a_person(person: Person, home: str) -> None:
    locid = person.creates("10.1.0.0/24")
    _changed(home, "DELETE FROM outbox WHERE id = 1")
    person("push", exits=3)
    assert f"nothing here creates geolocation ({locid}) any more" in person.said
    assert person.looks_up("10.1.0.1") == [1]
    person("outbox", "retry", 2)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def _goes_elsewhere(home: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on another machine is asked, which goes on with a copy of the state."""
    shutil.copytree(home, path)
    monkeypatch.setattr(marks, "machine_id", lambda: "elsewhere")
    monkeypatch.setattr(clock, "boot_id", lambda: "of elsewhere")
    monkeypatch.setenv("GEOLOOKUP_HOME", str(path))


@pytest.mark.parametrize("gone", [False, True], ids=["by our request", "and that was gone already"])
def test_a_copied_state_hides_no_new_owner_of_a_number_that_we_deleted(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    person.upstream.dials = Dials(reuse=True)
    locid = person.has("10.1.0.0/24")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")  # no list is conclusive for the deletion
    person("custom", "delete", locid)
    if gone:
        person.upstream.colleague_changes(-1, None, who="colleague")
    person("push")
    assert person.upstream.colleague_creates(ELSEWHERE, [("172.16.0.0", "172.16.0.0")], who="colleague") == -1
    person("sync")
    person("custom", "create", *(f"--{name}={value}" for name, value in BERLIN.items()))
    _goes_elsewhere(home, tmp_path / "copy", monkeypatch)
    person("push")
    assert "another machine" in person.said
    assert person.looks_up("172.16.0.0", "10.1.0.1") == [-1, 1]


def test_a_copied_state_does_not_count_on_keys_whose_age_nobody_knows(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_IDEMPOTENCY_KEYS", "true")  # which the service has forgotten since
    person.creates("10.1.0.0/24")
    person.upstream.faults = ["after"]
    person("push", exits=1)
    _goes_elsewhere(home, tmp_path / "copy", monkeypatch)
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("push", exits=1)  # on this machine it settles from now on
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_on_a_machine_that_has_long_been_up_a_copied_state_settles_from_when_it_was_found_there(
    person: Person, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.upstream.frozen_s = time.monotonic()
    person.creates("10.1.0.0/24")
    person("push")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    _goes_elsewhere(home, tmp_path / "copy", monkeypatch)
    monkeypatch.setattr(clock, "boot_s", lambda: 1e6 + time.monotonic())
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    person("push")
    person("sync")  # by a replica that has neither
    assert person.looks_up("10.1.0.1", "10.2.0.1") == [-1, -2]


def test_what_was_made_after_the_last_push_is_sent_from_a_backup_without_a_question(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    person("push")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.73)
    before = _copied(home)
    person.creates("10.3.0.0/24", city="Kiel", latitude=54.32)
    _put_back(home, before)
    person("outbox", "restore", f"{home}/edits.db", exits=3)  # Kiel
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"]), -2: ("Bonn", ["10.2.0.0"])}


def test_a_mistyped_backup_is_named_and_the_edits_stay(person: Person, home: str, tmp_path: Path) -> None:
    person.creates("10.1.0.0/24")
    (tmp_path / "empty.db").touch()
    for name, why in (("missing.db", "is not there"), ("empty.db", "is empty")):
        person("outbox", "restore", tmp_path / name, exits=1)
        assert (
            f"{tmp_path / name}: {why}: nothing was changed; `geolookup outbox restore` without a name" in person.said
        )
        assert "--empty" not in person.said
    person("push")
    assert list(person.there) == [-1]


def test_another_file_of_sqlite_is_not_put_in_the_place_of_the_edits(person: Person, home: str, tmp_path: Path) -> None:
    person.creates("10.1.0.0/24")
    (cache,) = Path(home, "snapshots").glob("*/cache.db")
    (tmp_path / "text.db").write_text("no database\n")
    for path, why in ((cache, "is not a copy of edits.db"), (tmp_path / "text.db", "is not an SQLite file")):
        person("outbox", "restore", path, exits=1)
        assert f"{path}: " in person.said
        assert f"{why}" in person.said
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_without_any_backup_a_person_is_told_so(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    _put_back(home, b"")
    for path in Path(home).glob("edits.backup.*"):
        path.unlink()
    person("outbox", "restore", exits=1)
    assert "there is no backup of edits.db; `geolookup custom export FILE`" in person.said
    assert "`geolookup outbox restore --empty` starts" in person.said


def test_no_sync_is_advised_for_edits_that_it_would_refuse(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    _put_back(home, b"")
    person("verify", exits=1)
    assert "geolookup outbox restore" in person.said
    assert "geolookup sync" not in person.said
    person("refresh", exits=1)
    assert "next: look at the state directory" in person.said


def test_what_an_older_copy_brought_back_settles_from_then_on(
    person: Person, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.creates("10.1.0.0/24")
    person("push")
    person("outbox", "restore")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "600")
    before = len(person.upstream.log)
    person("push", exits=1)
    assert "the outcome is unknown, and settles in " in person.said
    assert len(person.upstream.log) == before
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_a_damaged_value_is_named_by_whatever_command_stumbles_over_it(person: Person, home: str) -> None:
    locid = person.creates("10.1.0.0/24")
    _changed(home, "UPDATE counters SET value = 'x' WHERE name = 'edits'")
    for words in (["custom", "list"], ["outbox", "list"], ["custom", "add-block", locid, "10.2.0.0/24"], ["push"]):
        person(*words, exits=1)
        assert "was changed by something other than geolookup" in person.said, words
        assert "geolookup outbox restore" in person.said


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("baselines 1", "UPDATE baselines SET locids = '-1'"),
        ("forms 1", "INSERT INTO forms (sent, stored) VALUES ('7', '[]')"),
    ],
)
def test_a_copy_with_a_damaged_row_is_not_put_in_place(person: Person, home: str, row: str, change: str) -> None:
    person.creates("10.1.0.0/24")
    before = _copied(home)
    person("push")
    person("sync")
    _put_back(home, before)
    _changed(home, change)
    person("push", exits=1)
    person("outbox", "restore", f"{home}/edits.db", exits=1)
    assert f"{row} is damaged" in person.said
    assert "`geolookup outbox restore` without a name takes the newest backup" in person.said
    person("outbox", "restore")
    settle()
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


def test_a_file_of_which_nobody_can_tell_the_machine_is_taken_for_this_one_s(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    _changed(home, "UPDATE settings SET value = 'x' WHERE name = 'machine'")
    person("outbox", "restore", f"{home}/edits.db")
    settle()
    person.pushes_for_all_to_see()
    assert person.there == {-1: ("Berlin", ["10.1.0.0"])}


@pytest.mark.parametrize("below", ["what was pushed", "its own edits"])
def test_a_counter_that_was_lowered_is_noticed_and_does_not_keep_edits_for_ever(
    person: Person, home: str, below: str
) -> None:
    person.creates("10.1.0.0/24")
    person("push")
    pushed = StateDirectory(home).require_current().pushed
    _changed(home, f"UPDATE counters SET value = {pushed if below == 'its own edits' else -1} WHERE name = 'marks'")
    for command in ("push", "refresh", "verify"):
        person(command, exits=1)
        assert f"`geolookup outbox restore {home}/edits.db` goes on with it as it is" in person.said
    person("outbox", "restore", f"{home}/edits.db")
    settle()
    person.pushes_for_all_to_see()
    place = person.upstream.places[-1]
    person.upstream.colleague_changes(-1, Place(place.fields), who="colleague")
    person("sync")
    assert person.looks_up("10.1.0.1") == [1]


def test_after_a_restore_what_is_written_is_newer_than_the_list_that_is_served(person: Person, home: str) -> None:
    person.creates("10.1.0.0/24")
    before = _copied(home)
    person("push")
    for _ in range(3):
        person("sync")
    _put_back(home, before)
    person("outbox", "restore", f"{home}/edits.db")
    directory = StateDirectory(home)
    with directory.edits.reading() as database:
        assert Outbox(database).counter > Begun.of(directory.require_current().published).counter


@pytest.mark.parametrize("choice", ["adopt", "retry"])
def test_what_was_created_and_changed_since_a_backup_can_be_adopted_and_is_made_anew_by_one_word(
    person: Person, tmp_path: Path, choice: str
) -> None:
    person.creates("10.1.0.0/24")
    person.creates("10.2.0.0/24", city="Bonn", latitude=50.7, longitude=7.1)
    person("state", "backup", tmp_path / "backup")
    person.pushes_for_all_to_see()
    person("custom", "update", -1, "--city", "Potsdam")
    person("custom", "remove-block", -2, "10.2.0.0/24")
    person.pushes_for_all_to_see()
    person("state", "restore", tmp_path / "backup", "--replace")
    for command in ("push", "sync", "push", "sync"):
        settle()
        person(command, exits=3)
        (edit,) = (row["id"] for row in json.loads(person("outbox", "list", "--json")) if row["operation"] == "create")
        assert f"`geolookup outbox adopt {edit} -1`" in person("outbox", "list")
    person("outbox", choice, edit, *([-1] if choice == "adopt" else []))
    person("push", exits=3)  # of Bonn
    assert sorted(person.there) == ([-2, -1] if choice == "adopt" else [-3, -2, -1])


@pytest.mark.parametrize("back", ["undo", "by hand"])
@pytest.mark.parametrize("edit", ["add-block", "remove-block"])
def test_what_was_sent_since_a_backup_and_is_taken_back_after_it_is_taken_back_at_the_service_or_told(
    person: Person, tmp_path: Path, edit: str, back: str
) -> None:
    locid = person.has("10.1.0.0/24", *(["10.5.0.0/24"] if edit == "remove-block" else []))
    before = dict(person.there)
    person("custom", edit, locid, "10.5.0.0/24")
    person("state", "backup", tmp_path / "backup")
    person.pushes_for_all_to_see()
    person("state", "restore", tmp_path / "backup", "--replace")
    other = "remove-block" if edit == "add-block" else "add-block"
    person("custom", *(("undo", "--run") if back == "undo" else (other, locid, "10.5.0.0/24")))
    assert "not sent" not in person.said
    told = False
    for command in ("push", "sync", "push"):
        settle()
        person(command, exits=None)
        if "an older copy of the edits was put back" in person.said:
            assert f"done: {other.removesuffix('-block')}" not in person.said
            told = True
    assert told or person.there == before
    for row in json.loads(person("outbox", "list", "--json")):
        if row["state"] == "held":
            person("outbox", "retry", row["id"])
    person("push")
    assert "{edit}" not in person.said
    assert person.there == before


def test_a_sheet_without_coordinates_is_told_that_the_service_needs_them(person: Person, tmp_path: Path) -> None:
    sheet = tmp_path / "sites.csv"
    sheet.write_text("site,country,city,network\nNowhere,DE,Nowhere,10.1.0.0/24\n")
    person("sync")
    person("custom", "apply", sheet, exits=1)
    for name in ("latitude", "longitude"):
        assert f"'Nowhere': {name} is missing: the service takes no custom geolocation without it" in person.said
    sheet.write_text("site,country,city,network,latitude\nNowhere,DE,Nowhere,10.1.0.0/24,50\n")
    person("custom", "apply", sheet, exits=1)
    assert "longitude is missing: a place has both coordinates or none" in person.said


def test_what_is_dropped_after_a_restore_brings_back_no_block_that_the_service_removed(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("push")
    before = person.upstream.places[-1]
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person("outbox", "restore", exits=None)  # from before that push
    person.upstream.colleague_changes(-1, before, who="colleague")
    settle()
    person("push", exits=3)
    assert "older copy of the edits was put back" in person.said
    person("outbox", "drop", 4)
    person("push")
    settle()
    person("sync")
    assert person.there == {-1: ("Berlin", [])}
    assert person.looks_up("10.1.0.1") == [1]


def test_a_choice_of_before_a_restore_is_not_offered_before_a_list_was_read(person: Person, tmp_path: Path) -> None:
    locid = person.has("10.1.0.0/24")
    person("custom", "update", locid, "--city", "Potsdam")
    person.upstream.colleague_changes(-1, None, who="colleague")
    settle()
    person("push", exits=3)  # it is gone
    person("state", "backup", tmp_path / "backup")
    person("outbox", "retry", 3)
    person("push")
    person("state", "restore", tmp_path / "backup", "--replace")
    person("outbox", "retry", 3, exits=2)
    assert "does not wait for a person" in person.said
    settle()
    person("push")
    assert "done: update geolocation -2: the service has it" in person.said
    assert person.there == {-2: ("Potsdam", ["10.1.0.0"])}


def test_a_restore_over_a_half_done_removal_names_the_blocks_that_nothing_puts_back(person: Person) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    person("outbox", "restore", "--empty", exits=3)
    for block in ("10.2.0.0-10.2.0.255", "10.3.0.0-10.3.0.255"):
        assert f"{block}: a removal took it from Berlin, DE (-1), and nothing here puts it back" in person.said
    assert "10.1.0.0-10.1.0.255: a removal" not in person.said


def test_a_state_of_before_a_half_done_removal_is_put_back_and_its_blocks_are_named(
    person: Person, tmp_path: Path
) -> None:
    locid = person.has("10.1.0.0/24", "10.2.0.0/24")
    person("state", "backup", tmp_path / "backup")
    person("custom", "remove-block", locid, "10.1.0.0/24")
    person("state", "backup", tmp_path / "pending")
    person.upstream.faults = ["", "before"]
    person("push", exits=1)
    person("state", "restore", tmp_path / "backup", "--replace", exits=3)
    assert "10.2.0.0-10.2.0.255 of geolocation -1, which a removal took from the service" in person.said
    person("state", "restore", tmp_path / "pending", "--replace")  # the next push asks about it


def test_a_drop_of_what_a_restore_put_in_doubt_keeps_the_edits_since(person: Person) -> None:
    locid = person.has("10.1.0.0/24")
    before = person.upstream.places[-1]
    person("custom", "update", locid, "--city", "Potsdam")
    person("push")
    person("outbox", "restore", exits=None)
    person.upstream.colleague_changes(-1, before, who="colleague")
    person("custom", "add-block", locid, "10.2.0.0/24")
    settle()
    person("push", exits=3)
    assert "older copy of the edits was put back" in person.said
    person("outbox", "drop", 3)
    person("push")
    assert person.there == {-1: ("Berlin", ["10.1.0.0", "10.2.0.0"])}


@pytest.mark.parametrize(("before", "after"), [(2, 1), (3, 2), (4, 3)])
def test_an_editor_that_was_open_goes_on_with_the_state_that_was_restored(
    person: Person, home: str, tmp_path: Path, before: int, after: int
) -> None:
    """Counters go on from where they were: the editor must not take what was replaced for the same."""
    here, there = person.has("10.1.0.0/24"), person.has("10.4.0.0/24", city="Ulm")
    person("state", "backup", tmp_path / "backup")
    editor = Editor(home)
    for number in range(before):
        editor.update(here, region=f"taken back {number}")
    person("state", "restore", tmp_path / "backup", "--replace", exits=3)
    for number in range(after):
        person("custom", "add-block", there, f"10.7.{number}.0/24")
    editor.update(here, city="Bonn")
    for which in (editor, Editor(home)):
        found = {laid.place.city: laid.place for laid in which.custom()}
        assert (found["Bonn"].region, len(found["Ulm"].ipblocks)) == ("", 1 + after)
    assert person.looks_up("10.1.0.1", *(f"10.7.{number}.1" for number in range(after))) == [-1] + [-2] * after


@pytest.mark.parametrize("cidr", ["10.1.0.0/24", ""])
@pytest.mark.parametrize("how", ["dropped", "undone"])
def test_a_site_that_was_given_up_here_and_made_by_others_is_theirs_with_the_same_file(
    person: Person, tmp_path: Path, how: str, cidr: str
) -> None:
    file = tmp_path / "sites.csv"
    file.write_text(f"name,country,city,latitude,longitude,cidr\nNob,DE,Nob,47.5,7.5,{cidr}\n")
    fields = {**ELSEWHERE, "country": "DE", "city": "Nob", "latitude": 47.5, "longitude": 7.5}
    blocks = [("10.1.0.0", "10.1.0.255")] if cidr else []
    person("custom", "apply", file)
    if how == "undone":
        person.pushes_for_all_to_see()
        person("custom", "undo", "--run")
        person.pushes_for_all_to_see()
    theirs = person.upstream.colleague_creates(fields, blocks, who="colleague")
    if how == "dropped":
        person("push", exits=3)
        person("outbox", "drop", 1)
    person("sync")
    assert f"= Nob ({theirs}) is there already" in person("custom", "apply", file)
    person("push")
    assert len(person.there) == 1
