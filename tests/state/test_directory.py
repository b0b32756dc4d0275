"""The state directory: what publishing promises, its locks, what is held, what is kept and what is removed."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from geolookup import disk
from geolookup.errors import NoStateError, StateBusyError, StateDamagedError, StateError, StateUnwritableError
from geolookup.state import locks as locks_module
from geolookup.state.current import read_current
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.store import Edits
from geolookup.state.generations.recovery import numbered
from geolookup.state.verify import verify
from tests.state.generations.staged import served, staged, stamped, strays, tree
from tests.support.states import publish


def generations(home: str) -> list[int]:
    return sorted(numbered(os.path.join(home, "generations")))


def overlays(home: str) -> list[int]:
    return sorted(numbered(os.path.join(home, "custom")))


# Numbers


def test_sequence_and_overlay_numbers_always_rise_whatever_is_published(home: str) -> None:
    directory = StateDirectory(home)
    found = [publish(home, stamped(1)), publish(home, stamped(2))]
    found.append(directory.republish())
    found.append(directory.keeping.rollback())
    with directory.locks.run():
        found.append(directory.confirm(etag='"x"'))
    found.append(publish(home, stamped(3)))
    assert [current.sequence for current in found] == [1, 2, 3, 4, 5, 6]
    assert [current.generation for current in found] == [1, 2, 2, 1, 1, 3]
    assert [current.newest for current in found] == [1, 2, 2, 2, 2, 3]
    assert [current.overlay for current in found] == [1, 2, 3, 4, 4, 5]
    assert found[4].published["etag"] == '"x"'


@pytest.mark.parametrize("loss", ["missing", "garbage", "all of it"])
def test_numbers_do_not_start_again_when_current_is_lost(home: str, loss: str) -> None:
    for number in range(1, 4):
        publish(home, stamped(number))
    path = Path(home, "CURRENT")
    if loss == "missing":
        path.unlink()
    else:
        path.write_bytes(b"\0")
    if loss == "all of it":
        for number in generations(home):
            os.truncate(os.path.join(home, "generations", f"{number:06d}", "index"), 9)
        with pytest.raises(StateDamagedError, match="geolookup sync"):
            StateDirectory(home).open()
    current = publish(home, stamped(4))
    assert (current.sequence, current.generation, current.overlay) == (4, 4, 4)
    assert (served(home), verify(home)) == ((4, {"4"}), [])


def test_numbers_and_refusals_survive_where_only_the_generations_are_damaged(home: str) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))
    directory = StateDirectory(home)
    refused = directory.keeping.rollback().refused
    with directory.locks.run():
        directory.confirm(etag=None)
    for number in (1, 2):
        os.truncate(os.path.join(home, "generations", f"{number:06d}", "index"), 9)
    current = publish(home, stamped(3))
    assert (current.sequence, current.generation, current.refused) == (5, 3, refused)
    assert len(refused) == 1


# Reading touches nothing; what is created is private


def test_opening_what_is_not_there_creates_nothing(home: str) -> None:
    with pytest.raises(NoStateError, match="geolookup sync"):
        StateDirectory(home).open()
    assert StateDirectory(home).current() is None
    assert StateDirectory(home).held() is None
    assert not os.path.exists(home)


def test_opening_and_verifying_change_no_byte(home: str) -> None:
    publish(home, stamped(1))
    before = tree(home)
    assert served(home) == (1, {"1"})
    assert verify(home) == []
    list(StateDirectory(home).cache(1).find(city="1"))
    assert tree(home) == before


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_everything_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    home = str(tmp_path / "new" / "deeper" / "state")
    before = os.umask(umask)
    try:
        publish(home, stamped(1))
        directory = StateDirectory(home)
        with staged(directory, stamped(2)) as candidate:
            directory.hold(candidate)
        publish(home, stamped(3))
        directory.keeping.rollback()
    finally:
        os.umask(before)
    modes = {}
    for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        modes.setdefault((path.is_dir(), stat.S_IMODE(path.stat().st_mode)), []).append(path)
    assert set(modes) == {(True, 0o700), (False, 0o600)}, modes
    assert {path.name for path in modes[False, 0o600]} >= {"CURRENT", "edits.db", "run.lock", "cache.db", "report.json"}


def test_a_file_where_the_directory_belongs_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("mine")
    with pytest.raises(StateUnwritableError, match=str(path)), StateDirectory(str(path)).locks.run():
        pytest.fail("the lock was given")
    assert path.read_text() == "mine"


# Locks

HOLDER = """
import sys
from geolookup.state.directory import StateDirectory
with getattr(StateDirectory(sys.argv[1]).locks, sys.argv[2])():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held_elsewhere(home: str, lock: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, home, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_run_is_busy_at_once_and_edits_go_on(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)

    def no_waiting(_seconds: float) -> None:
        pytest.fail("it waited")

    with held_elsewhere(home, "run"):
        monkeypatch.setattr(disk, "time", SimpleNamespace(monotonic=disk.time.monotonic, sleep=no_waiting))
        with pytest.raises(StateBusyError, match="another sync"), directory.locks.run():
            pytest.fail("the lock was given twice")
        with pytest.raises(StateBusyError, match="another sync"):
            directory.keeping.rollback()
        monkeypatch.undo()
        assert directory.republish().overlay == 2


def test_the_lock_of_a_killed_run_is_free(home: str) -> None:
    with held_elsewhere(home, "run") as process:
        process.kill()
        process.wait()
        with StateDirectory(home).locks.run():
            assert os.path.exists(os.path.join(home, "run.lock"))


def test_a_publish_waits_for_the_one_under_way(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    waiting = threading.Event()
    real_sleep = disk.time.sleep

    def sleep(seconds: float) -> None:
        waiting.set()
        real_sleep(seconds)

    monkeypatch.setattr(disk, "time", SimpleNamespace(**{**vars(disk.time), "sleep": sleep}))
    second = threading.Thread(target=directory.republish)
    with directory.locks.publish():
        second.start()
        assert waiting.wait(60)
        assert read_current(home).sequence == 1
    second.join(60)
    assert read_current(home).sequence == 2


def test_a_publish_does_not_wait_for_ever(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, stamped(1))
    monkeypatch.setattr(locks_module, "PUBLISH_WAIT_S", 0.0)
    before = tree(home)
    with held_elsewhere(home, "publish"), pytest.raises(StateBusyError, match="publishing"):
        StateDirectory(home).republish()
    assert tree(home) == before


# What is held


def test_a_held_candidate_is_replaced_by_a_newer_one_and_published_by_rename(home: str) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    for number in (2, 3):
        with staged(directory, stamped(number)) as candidate:
            directory.hold(candidate)
    assert (served(home), generations(home), strays(home)) == ((1, {"1"}), [1], [])
    with directory.locks.run():
        held = directory.held()
        assert held is not None
        held.verify()
        inode = os.stat(held.index).st_ino
        directory.publish(held)
    assert (served(home), directory.held(), verify(home)) == ((2, {"3"}), None, [])
    assert os.stat(os.path.join(home, "generations", "000002", "index")).st_ino == inode
    assert os.stat(os.path.join(home, "snapshots", "000002", "index")).st_ino == inode
    assert sorted(os.listdir(os.path.join(home, "generations", "000002"))) == ["cache.db", "index", "report.json"]
    assert strays(home) == []


def test_what_was_held_still_is_after_a_kill_between_the_two_renames(home: str) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(1)) as candidate:
        directory.hold(candidate)
    held = directory.held()
    assert held is not None
    before = tree(held.path)
    os.rename(held.path, os.path.join(home, "held", ".tmp-1-abc"))
    with directory.locks.run():
        assert tree(held.path) == before
    assert strays(home) == []


def test_a_held_candidate_that_was_dropped_leaves_nothing(home: str) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(1)) as candidate:
        directory.hold(candidate)
        directory.drop_held()
        directory.drop_held()
    assert (directory.held(), strays(home), os.path.exists(os.path.join(home, "held"))) == (None, [], False)


@pytest.mark.parametrize("name", ["cache.db", "index"])
@pytest.mark.parametrize("damage", ["byte", "missing"])
def test_a_damaged_held_candidate_is_noticed(home: str, name: str, damage: str) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(1)) as candidate:
        directory.hold(candidate)
    path = Path(home, "held", "service", name)
    if damage == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    held = directory.held()
    assert held is not None
    with pytest.raises(StateDamagedError, match=f"{name}.*sync again"):
        held.verify()
    Path(home, "held", "service", "report.json").write_bytes(b"{")
    assert directory.held() is None


# Leftovers and retention


def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(home: str) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))
    Path(home, "notes.tmp-mine.txt").write_text("not ours")
    Path(home, "generations", "readme").write_text("not ours")
    whole = tree(home)
    source = os.path.join(home, "generations", "000001")
    for name in ("generations/.candidate-1-a", "generations/.tmp-1-a", "held.tmp-1-a", "generations/000003"):
        shutil.copytree(source, os.path.join(home, name))
    os.unlink(os.path.join(home, "held.tmp-1-a", "report.json"))
    for name in ("custom/.tmp-1-a", "CURRENT.tmp-1-a"):
        Path(home, name).write_bytes(b"x")
    shutil.copyfile(os.path.join(home, "custom", "000002"), os.path.join(home, "custom", "000003"))
    with StateDirectory(home).locks.run():
        assert tree(home) == whole
    assert publish(home, stamped(3)).generation == 3


def test_an_edit_leaves_the_candidate_of_a_running_sync_alone(home: str) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    with staged(directory, stamped(2)) as candidate:
        StateDirectory(home).republish()
        candidate.verify()
        directory.publish(candidate)
    assert (served(home), verify(home), strays(home)) == ((2, {"2"}), [], [])


def test_nothing_with_a_number_is_removed_while_current_is_unreadable(home: str) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))
    Path(home, "CURRENT").write_bytes(b"{")
    with StateDirectory(home).locks.run():
        assert (generations(home), overlays(home)) == ([1, 2], [1, 2])
    assert served(home) == (2, {"2"})


@pytest.mark.parametrize("keep", [1, 3])
def test_the_newest_generations_are_kept_each_with_its_newest_overlay(home: str, keep: int) -> None:
    for number in range(1, 6):
        publish(home, stamped(number), keep=keep)
        StateDirectory(home, keep_generations=keep).republish()
    assert generations(home) == [1, 2, 3, 4, 5][-keep:]
    assert overlays(home) == [2, 4, 6, 8, 10][-keep:]
    assert (verify(home), strays(home)) == ([], [])


def test_the_served_generation_is_kept_however_old(home: str) -> None:
    publish(home, stamped(1), keep=2)
    publish(home, stamped(2), keep=2)
    directory = StateDirectory(home, keep_generations=2)
    directory.keeping.rollback()
    with staged(directory, stamped(3)) as candidate:
        directory.hold(candidate)
    directory.republish()
    assert generations(home) == [1, 2]
    StateDirectory(home, keep_generations=1).republish()
    assert (generations(home), served(home), verify(home)) == ([1], (1, {"1"}), [])
    publish(home, stamped(4), keep=2)
    assert (generations(home), served(home)) == ([1, 3], (3, {"4"}))


def test_what_is_removed_loses_its_name_before_its_files(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed half-way, half of it must not be taken for a generation or for what is held."""
    publish(home, stamped(1))
    directory = StateDirectory(home)
    with staged(directory, stamped(2)) as candidate:
        directory.hold(candidate)
    removed = []

    def remove(path: str, **_options: object) -> None:
        removed.append(os.path.relpath(path, home))

    monkeypatch.setattr(shutil, "rmtree", remove)
    publish(home, stamped(3), keep=1)
    directory.drop_held()
    names = [os.path.split(path) for path in removed if os.path.lexists(os.path.join(home, path))]
    assert [(directory, name.split("-")[0]) for directory, name in names] == [
        ("generations", ".tmp"),
        ("snapshots", ".tmp"),
        ("held", ".tmp"),
    ]


# Rolling back


def test_rolled_back_content_is_remembered_until_it_is_served_again(home: str) -> None:
    first, second, third = (publish(home, stamped(number)) for number in (1, 2, 3))
    directory = StateDirectory(home)
    assert directory.keeping.rollback().refused == (third.digest,)
    back = directory.keeping.rollback()
    assert (back.generation, back.refused) == (1, (third.digest, second.digest))
    assert served(home) == (1, {"1"})
    again = directory.keeping.rollback(3)
    assert (again.generation, again.refused) == (3, (second.digest, first.digest))
    assert (served(home), verify(home)) == ((3, {"3"}), [])
    assert [line["after"] for line in directory.edits.history()] == [{"generation": number} for number in (2, 1, 3)]


def test_a_rollback_that_cannot_be_written_in_the_history_is_done_all_the_same(
    home: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))

    def record(*_given: object, **_members: object) -> None:
        raise StateUnwritableError("the disk is full")

    monkeypatch.setattr(Edits, "record", record)
    assert StateDirectory(home).keeping.rollback().generation == 1
    assert served(home) == (1, {"1"})
    assert "missing from the history" in caplog.text


@pytest.mark.parametrize(
    ("generation", "why"), [(None, "nothing to go back to"), (1, "served already; .*: none"), (9, "not kept; .*: none")]
)
def test_a_rollback_to_what_is_not_kept_changes_nothing(home: str, generation: int | None, why: str) -> None:
    publish(home, stamped(1))
    before = read_current(home).as_json()
    with pytest.raises(StateError, match=why):
        StateDirectory(home).keeping.rollback(generation)
    assert read_current(home).as_json() == before


@pytest.mark.parametrize("name", ["cache.db", "index", "report.json"])
def test_a_rollback_to_a_damaged_generation_is_refused(home: str, name: str) -> None:
    publish(home, stamped(1))
    publish(home, stamped(2))
    path = Path(home, "generations", "000001", name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x80
    path.write_bytes(data)
    with pytest.raises(StateDamagedError, match=name):
        StateDirectory(home).keeping.rollback()
    assert (served(home), verify(home)) == ((2, {"2"}), [])


# Before anything is begun


def test_a_run_is_not_begun_where_it_would_not_fit(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    real = os.statvfs(home)

    def free(megabytes: int) -> None:
        found = SimpleNamespace(f_bavail=megabytes * 256, f_frsize=4096, f_bfree=real.f_bfree)
        monkeypatch.setattr(os, "statvfs", lambda _path: found)

    def begin() -> None:
        with directory.locks.run(), directory.candidate() as candidate:
            assert os.path.isdir(candidate.path)

    free(15)
    with pytest.raises(StateUnwritableError, match="16 MiB are needed and 15 MiB are free"):
        begin()
    free(16)
    begin()
    record = {name: {"bytes": 100 << 20, "sha256": ""} for name in ("cache.db", "index")}
    monkeypatch.setattr(
        StateDirectory, "current_or_none", lambda _self: read_current(home).replace(published={"files": record})
    )
    free(239)
    with pytest.raises(StateUnwritableError, match="240 MiB are needed and 239 MiB are free"):
        begin()


def test_a_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(home: str) -> None:
    publish(home, stamped(1))
    shutil.rmtree(os.path.join(home, "generations"))
    Path(home, "generations").write_text("a file")
    with pytest.raises(StateDamagedError, match="generations"):
        StateDirectory(home).open()


def test_report_json_has_the_generations_own_record(home: str) -> None:
    current = publish(home, stamped(1))
    document = StateDirectory(home).report(1)
    assert document["published"] == current.published
    assert json.loads(Path(home, "CURRENT").read_text())["published"] == current.published


def test_a_misspelt_member_of_current_is_refused(home: str) -> None:
    publish(home, stamped(1))
    current = read_current(home)
    with pytest.raises(TypeError, match="sequnce"):
        current.replace(sequnce=7)
    assert current.replace(sequence=7).sequence == 7
