"""The state directory: what publishing promises, its locks, and going back."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace

import pytest

from geolookup.base import disk
from geolookup.model.errors import NoStateError, StateBusyError, StateDamagedError, StateError, StateUnwritableError
from geolookup.state.base.current import read_current
from geolookup.state.base.parts import SERVICE
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.state.publishing.verify import verify
from tests.state.generations.staged import generations, served, staged, stamped, tree
from tests.support.data.states import publish

# Numbers


def test_sequence_and_overlay_numbers_always_rise_whatever_is_published(home: str) -> None:
    directory = StateDirectory(home)
    found = [publish(home, stamped(1)), publish(home, stamped(2))]
    found.append(directory.republish())
    found.append(directory.keeping.rollback())
    with running(directory) as run:
        found.append(run.confirm(etag='"x"'))
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
    with running(directory) as run:
        run.confirm(etag=None)
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
            directory.holding.hold(candidate, SERVICE)
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
from geolookup.state.publishing.directory import StateDirectory
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
    monkeypatch.setattr(StateDirectory, "publishing", partialmethod(StateDirectory.publishing, wait_s=0.1))
    before = tree(home)
    with held_elsewhere(home, "publish"), pytest.raises(StateBusyError, match="publishing"):
        StateDirectory(home).republish()
    assert tree(home) == before


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
        with running(directory) as run, run.candidate() as candidate:
            assert os.path.isdir(candidate.path)

    free(15)
    with pytest.raises(StateUnwritableError, match="16 MiB are needed and 15 MiB are free"):
        begin()
    free(16)
    begin()
    record = {name: {"bytes": 100 << 20, "sha256": ""} for name in ("cache.db", "index")}
    monkeypatch.setattr(Run, "current", read_current(home).replace(published={"files": record}))
    free(239)
    with pytest.raises(StateUnwritableError, match="240 MiB are needed and 239 MiB are free"):
        begin()
    # Blocks stand in temporary files while an index is built, and then the index's own sections.
    rows = {"segments_v4": 1 << 20, "segments_v6": 1 << 20}
    monkeypatch.setattr(Run, "current", read_current(home).replace(published={"files": record, "rows": rows}))
    needed = int(1.2 * (200 + 48 + 100))
    free(needed - 1)
    with pytest.raises(StateUnwritableError, match=f"{needed} MiB are needed and {needed - 1} MiB are free"):
        begin()
    free(needed + 1)
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
