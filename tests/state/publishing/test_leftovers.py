"""What is held for a person, what killed runs leave, and what retention keeps."""

import os
import shutil
from pathlib import Path

import pytest

from geolookup.model.errors import StateDamagedError
from geolookup.state.base.parts import SERVICE
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.state.publishing.verify import verify
from tests.state.generations.staged import generations, overlays, served, staged, staged_by, stamped, strays, tree
from tests.support.data.states import publish

# What is held


def test_a_held_candidate_is_replaced_by_a_newer_one_and_published_by_rename(home: str) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    for number in (2, 3):
        with staged(directory, stamped(number)) as candidate:
            directory.holding.hold(candidate, SERVICE)
    assert (served(home), generations(home), strays(home)) == ((1, {"1"}), [1], [])
    with running(directory) as run:
        held = directory.held()
        assert held is not None
        held.verify()
        inode = os.stat(held.index).st_ino
        run.publish(held)
    assert (served(home), directory.held(), verify(home)) == ((2, {"3"}), None, [])
    assert os.stat(os.path.join(home, "generations", "000002", "index")).st_ino == inode
    assert os.stat(os.path.join(home, "snapshots", "000002", "index")).st_ino == inode
    assert sorted(os.listdir(os.path.join(home, "generations", "000002"))) == ["cache.db", "index", "report.json"]
    assert strays(home) == []


def test_what_was_held_still_is_after_a_kill_between_the_two_renames(home: str) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(1)) as candidate:
        directory.holding.hold(candidate, SERVICE)
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
        directory.holding.hold(candidate, SERVICE)
        directory.holding.drop(SERVICE)
        directory.holding.drop(SERVICE)
    assert (directory.held(), strays(home), os.path.exists(os.path.join(home, "held"))) == (None, [], False)


@pytest.mark.parametrize("name", ["cache.db", "index"])
@pytest.mark.parametrize("damage", ["byte", "missing"])
def test_a_damaged_held_candidate_is_noticed(home: str, name: str, damage: str) -> None:
    directory = StateDirectory(home)
    with staged(directory, stamped(1)) as candidate:
        directory.holding.hold(candidate, SERVICE)
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
    for name in ("generations/.candidate-1-a", "generations/.tmp-1-a", "generations/000003"):
        shutil.copytree(source, os.path.join(home, name))
    for name in ("custom/.tmp-1-a", "CURRENT.tmp-1-a"):
        Path(home, name).write_bytes(b"x")
    shutil.copyfile(os.path.join(home, "custom", "000002"), os.path.join(home, "custom", "000003"))
    with StateDirectory(home).locks.run():
        assert tree(home) == whole
    assert publish(home, stamped(3)).generation == 3


def test_an_edit_leaves_the_candidate_of_a_running_sync_alone(home: str) -> None:
    publish(home, stamped(1))
    directory = StateDirectory(home)
    with running(directory) as run, staged_by(run, stamped(2)) as candidate:
        StateDirectory(home).republish()
        candidate.verify()
        run.publish(candidate)
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
        directory.holding.hold(candidate, SERVICE)
    directory.republish()
    assert generations(home) == [1, 2]
    StateDirectory(home, keep_generations=1).republish()
    # Until an update takes the place of what was gone back to, updates are compared with what was rolled back.
    assert (generations(home), served(home), verify(home)) == ([1, 2], (1, {"1"}), [])
    publish(home, stamped(4), keep=2)
    assert (generations(home), served(home)) == ([1, 3], (3, {"4"}))


def test_what_is_removed_loses_its_name_before_its_files(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed half-way, half of it must not be taken for a generation or for what is held."""
    publish(home, stamped(1))
    directory = StateDirectory(home)
    with staged(directory, stamped(2)) as candidate:
        directory.holding.hold(candidate, SERVICE)
    removed = []

    def remove(path: str, **_options: object) -> None:
        removed.append(os.path.relpath(path, home))

    monkeypatch.setattr(shutil, "rmtree", remove)
    publish(home, stamped(3), keep=1)
    directory.holding.drop(SERVICE)
    names = [os.path.split(path) for path in removed if os.path.lexists(os.path.join(home, path))]
    assert [(directory, name.split("-")[0]) for directory, name in names] == [
        ("generations", ".tmp"),
        ("snapshots", ".tmp"),
        ("held", ".tmp"),
    ]
