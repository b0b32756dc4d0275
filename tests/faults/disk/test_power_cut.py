"""The model of a disk that the power cuts are replayed on, and the replay itself, in part.

``python -m tests.faults.disk.power_cut`` replays every moment of every command; the whole of one runs here.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.disk.disk_model import Directory, Disk, File, Tree
from tests.faults.disk.power_cut import write_out
from tests.faults.disk.recording import Playback, UnknownCallError
from tests.faults.kills.traced import why_not
from tests.state.generations.staged import tree

ROOT = Path(__file__).parents[3]


def left(disk: Disk) -> list[Tree]:
    return [found for _, found in disk.after_a_power_cut()]


def new_file(disk: Disk, path: str, data: bytes) -> File:
    file = File()
    disk.create(path, file)
    file.write(0, data)
    return file


# The model


def test_what_was_there_stays_whatever_is_not_synced() -> None:
    disk = Disk({"d": None, "d/a": b"old"})
    new_file(disk, "d/b", b"new")
    assert all(found["d/a"] == b"old" for found in left(disk))
    assert {found.get("d/b") for found in left(disk)} == {None, b"", b"n", b"\0\0\0", b"new"}


def test_a_synced_file_may_lack_its_name_until_the_directory_is_synced() -> None:
    disk = Disk({})
    disk.sync(new_file(disk, "a", b"new"))
    assert {found.get("a") for found in left(disk)} == {None, b"new"}
    disk.sync(disk.root)
    assert left(disk) == [{"a": b"new"}] * len(left(disk))


def replace(disk: Disk, *, sync_file: bool, sync_directory: bool) -> None:
    file = new_file(disk, "a.tmp", b"new")
    if sync_file:
        disk.sync(file)
    disk.rename("a.tmp", "a")
    if sync_directory:
        disk.sync(disk.root)


@pytest.mark.parametrize("sync_file", [True, False])
@pytest.mark.parametrize("sync_directory", [True, False])
def test_a_replacement_is_atomic_only_with_its_file_synced_and_durable_only_with_its_directory(
    sync_file: bool, sync_directory: bool
) -> None:
    disk = Disk({"a": b"old"})
    replace(disk, sync_file=sync_file, sync_directory=sync_directory)
    found = {each["a"] for each in left(disk)}
    assert (found <= {b"old", b"new"}) == sync_file
    assert (b"old" in found) == (not sync_directory)


def test_half_a_rename_is_never_seen_and_either_directory_makes_it_durable() -> None:
    for synced in ("x", "y"):
        disk = Disk({"x": None, "y": None, "x/a": b"1"})
        disk.rename("x/a", "y/b")
        assert all(("x/a" in found) != ("y/b" in found) for found in left(disk))
        node = disk.find(synced)
        assert isinstance(node, Directory)
        disk.sync(node)
        assert all("y/b" in found for found in left(disk))


def test_each_of_several_names_may_be_missing_alone() -> None:
    disk = Disk({})
    for name in "abc":
        disk.sync(new_file(disk, name, b"1"))
    assert {frozenset(found) for found in left(disk)} >= {
        *map(frozenset, ("", "a", "ab", "abc", "bc", "ac")),
    }


def test_a_write_in_the_middle_may_be_lost_in_part() -> None:
    disk = Disk({"db": b"....."})
    file = disk.find("db")
    assert isinstance(file, File)
    file.write(1, b"A")
    file.write(3, b"B")
    found = {each["db"] for each in left(disk)}
    assert found >= {b".....", b".A...", b"...B.", b".A.B.", b".\0.\0."}
    file.truncate(2)
    file.sync()
    assert {each["db"] for each in left(disk)} == {b".A"}


def test_a_removed_tree_comes_back_or_not() -> None:
    disk = Disk({"d": None, "d/a": b"1"})
    disk.remove("d/a")
    disk.remove("d")
    found = [set(each) for each in left(disk)]
    assert {"d", "d/a"} in found
    assert {"d"} in found
    assert set() in found


# The recording


def log(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "trace"
    path.write_text("".join(f"{line}\n" if line.startswith("8 ") else f"7 {line}\n" for line in lines))
    return str(path)


def test_a_log_is_played_call_by_call(tmp_path: Path) -> None:
    disk = Disk({"d": None, "d/old": b"1"})
    played = log(
        tmp_path,
        'openat(AT_FDCWD, "/elsewhere", O_RDWR|O_CREAT, 0600) = 3',
        'write(3, "ignored", 7) = 7',
        "close(3) = 0",
        'openat(AT_FDCWD, "/s/missing", O_RDONLY) = -1 ENOENT (No such file or directory)',
        'openat(AT_FDCWD, "/s/t", O_RDWR|O_CREAT|O_EXCL, 0600) = 3',
        r'write(3, "a\"b, \0\377", 7) = 7',
        'write(3, "cd", 2) = 1',
        r'pwrite64(3, "\n", 1, 0) = 1',
        "fsync(3 <unfinished ...>",
        "8 munmap(0x7f00, 8) = 0",
        "<... fsync resumed>) = 0",
        "close(3) = 0",
        'rename("/s/t", "/s/d/new") = 0',
        'openat(AT_FDCWD, "/s/d", O_RDONLY|O_DIRECTORY) = 3',
        "fsync(3) = 0",
        'unlinkat(3, "old", 0) = 0',
        r'sendto(4, "POST /geolocations HTTP/1.1\r\n"..., 30, 0, NULL, 0) = 30',
    )
    playback = Playback(played, "/s", disk)
    labels = "create t, write t, write t, pwrite64 t, fsync t, rename t d/new, fsync d, remove d/old, request"
    assert [event.label for event in playback] == labels.split(", ")
    assert playback.syncs == ["fsync t", "fsync d"]
    assert {bytes(found["d/new"] or b"") for found in left(disk)} == {b'\n"b, \0\xffc'}
    assert {frozenset(found) for found in left(disk)} == {frozenset({"d", "d/new"}), frozenset({"d", "d/new", "d/old"})}


@pytest.mark.parametrize(
    "line",
    [
        'link("/s/a", "/s/b") = 0',
        "fallocate(3, 0, 0, 10) = 0",
        "mmap(NULL, 8, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f00",
        'openat(AT_FDCWD, "/s/unknown", O_RDONLY) = 4',
    ],
)
def test_a_call_that_the_model_does_not_know_is_refused(tmp_path: Path, line: str) -> None:
    disk = Disk({"a": b""})
    played = log(tmp_path, 'openat(AT_FDCWD, "/s/a", O_RDWR) = 3', line)
    with pytest.raises(UnknownCallError):
        list(Playback(played, "/s", disk))


def test_a_second_thread_that_changes_the_state_is_refused(tmp_path: Path) -> None:
    played = log(tmp_path, 'mkdir("/s/a", 0700) = 0', '8 mkdir("/s/b", 0700) = 0')
    with pytest.raises(UnknownCallError, match="two threads"):
        list(Playback(played, "/s", Disk({})))


@pytest.mark.parametrize(
    ("without", "whole"), [(frozenset(), True), (frozenset({0}), False), (frozenset({1}), False)]
)  # fmt: skip
def test_a_replacement_needs_each_of_its_syncs(tmp_path: Path, without: frozenset[int], whole: bool) -> None:
    disk = Disk({"a": b"old"})
    played = log(
        tmp_path,
        'openat(AT_FDCWD, "/s/t", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3',
        'write(3, "new", 3) = 3',
        "fsync(3) = 0",
        'rename("/s/t", "/s/a") = 0',
        'openat(AT_FDCWD, "/s", O_RDONLY|O_DIRECTORY) = 3',
        "fsync(3) = 0",
    )
    found = [each["a"] for _ in Playback(played, "/s", disk, without=without) for each in left(disk)]
    assert (set(found) <= {b"old", b"new"} and left(disk) == [{"a": b"new"}] * len(left(disk))) == whole


def test_what_the_model_says_is_what_is_written_out(tmp_path: Path) -> None:
    home = str(tmp_path / "state")
    for left_over in ({"d": None, "d/a": b"1", "b": b""}, {"b": b"2"}):
        write_out(left_over, home)
        assert tree(home) == left_over


# A whole command


@pytest.fixture
def replay() -> Callable[..., str]:
    """The replay of one command, in a process of its own: what it printed."""
    reason = why_not()
    if reason is not None:
        if os.environ.get("REQUIRE_STRACE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "tests.faults.disk.power_cut", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout + done.stderr

    return run


def test_a_power_cut_anywhere_in_an_edit_leaves_the_old_state_or_the_new_one(replay: Callable[..., str]) -> None:
    printed = replay("edit")
    assert ", 0 bad" in printed.splitlines()[-1], printed
    assert int(printed.splitlines()[-1].split()[0]) > 200
