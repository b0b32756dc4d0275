"""`geolookup state backup`, `restore` and `move`: complete, verified, private; all or nothing."""

import gzip
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.model.errors import StateBusyError, StateDamagedError
from geolookup.state.editor import Editor
from geolookup.state.publishing import archive
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.state.publishing.verify import verify
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24", city="Paris")])
    publish(home, [place(1, "8.8.8.0/24", city="Mainz")])
    with Editor(home) as editor:
        editor.add_block(editor.create(**BERLIN), "10.9.0.0/16")


def answers(home: str) -> list[str | None]:
    with geolookup.open(home) as geo:
        return [place and place.city for place in map(geo.lookup, ("8.8.8.8", "10.9.0.1", "9.9.9.9"))]


def test_the_drill(home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "state.tar.gz"
    before = answers(home)
    assert run(["state", "backup", str(file)]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [name for name in os.listdir(home) if name.startswith("backup.tmp")] == []
    assert run(["state", "restore", str(file)]) == 1
    assert "is not empty" in capsys.readouterr().err
    shutil.rmtree(home)
    assert run(["state", "restore", str(file)]) == 0
    assert run(["verify"]) == 0
    assert answers(home) == before == ["Mainz", "Berlin", None]
    with Editor(home) as editor:
        (laid,) = editor.custom()
        # The create may have been sent since, and the block waits for it.
        assert [str(row.state) for row in laid.edits] == ["unknown", "queued"]


def test_a_backup_takes_the_place_of_a_state_only_if_told_and_keeps_it(home: str, tmp_path: Path) -> None:
    file = str(tmp_path / "state.tar.gz")
    archive.backup(StateDirectory(home), file)
    publish(home, [place(1, "8.8.8.0/24", city="Rome")])
    assert run(["state", "restore", file, "--replace"]) == 0
    assert answers(home)[0] == "Mainz"
    (kept,) = Path(home).parent.glob("state.replaced-*")
    assert answers(str(kept))[0] == "Rome"


def test_a_backup_is_made_while_a_run_holds_its_lock(home: str, tmp_path: Path) -> None:
    with running(StateDirectory(home)):
        made = archive.backup(StateDirectory(home), str(tmp_path / "state.tar.gz"))
        assert made.generation == 2
        with pytest.raises(StateBusyError):
            archive.move(StateDirectory(home), str(tmp_path / "elsewhere"))


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def is_same_content(data: bytes, other: bytes) -> bool:
    try:
        return gzip.decompress(data) == gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return False


def test_every_flipped_bit_that_changes_what_is_read_is_told(home: str, tmp_path: Path) -> None:
    file, changed = tmp_path / "state.tar.gz", tmp_path / "changed.tar.gz"
    archive.backup(StateDirectory(home), str(file))
    data = file.read_bytes()
    read = []
    for at in (*range(0, len(data), len(data) // 100), *range(len(data) - 8, len(data))):
        changed.write_bytes(flipped(data, at))
        try:
            archive.restore(str(changed), str(tmp_path / f"{at}"))
        except StateDamagedError:
            continue
        read.append(at)
        assert is_same_content(data, changed.read_bytes()), at  # another way to write the same run of zeros
    assert read, "the gzip header has a time"


@pytest.mark.parametrize("kind", ["flipped", "cut", "foreign"])
def test_a_damaged_backup_changes_nothing(home: str, tmp_path: Path, kind: str) -> None:
    file, target = tmp_path / "state.tar.gz", str(tmp_path / "new")
    archive.backup(StateDirectory(home), str(file))
    data = file.read_bytes()
    if kind == "flipped":
        each = (flipped(data, at) for at in range(len(data) // 2, len(data)))
        data = next(changed for changed in each if not is_same_content(data, changed))
    if kind == "foreign":
        with tarfile.open(file, "w:gz") as tar:
            tar.add(__file__, "../outside")
    else:
        file.write_bytes(data[: len(data) // 2] if kind == "cut" else data)
    with pytest.raises(StateDamagedError):
        archive.restore(str(file), target)
    assert not os.path.exists(target)
    assert sorted(os.listdir(tmp_path)) == sorted({"state.tar.gz", "state", *os.listdir(tmp_path)} - {"new"})
    with pytest.raises(StateDamagedError):
        archive.restore(str(file), home, replace=True)
    assert answers(home)[0] == "Mainz"


def test_what_is_damaged_is_not_backed_up(home: str, tmp_path: Path) -> None:
    file = tmp_path / "state.tar.gz"
    cache = Path(home, "generations", "000002", "cache.db")
    data = bytearray(cache.read_bytes())
    data[-1] ^= 1
    cache.write_bytes(data)
    with pytest.raises(StateDamagedError):
        archive.backup(StateDirectory(home), str(file))
    assert not file.exists()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same disk", "another disk"])
def test_a_state_moves(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], elsewhere: bool
) -> None:
    before, target = answers(home), str(tmp_path / "var" / "lib" / "geolookup")
    if elsewhere:
        monkeypatch.setattr(archive, "_is_one_disk", lambda _one, _other: False)
    assert run(["state", "move", target]) == 0
    assert f"now set: export GEOLOOKUP_HOME={target}" in capsys.readouterr().out.splitlines()
    assert not os.path.exists(home)
    assert answers(target) == before
    assert verify(target) == []
    monkeypatch.setenv("GEOLOOKUP_HOME", target)
    with Editor(target) as editor:
        assert {str(row.state) for row in editor.outbox()} == {"queued"}
    os.mkdir(tmp_path / "taken")
    (tmp_path / "taken" / "x").touch()
    assert run(["state", "move", str(tmp_path / "taken")]) == 1
    assert run(["state", "move", os.path.join(target, "inside")]) == 1


_KILLED = """
import os, signal, sys
from geolookup.state.publishing import archive
from geolookup.state.publishing.directory import StateDirectory
at, home, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
archive._is_one_disk = lambda one, other: False
calls = 0
def watched(real):
    def call(*given, **options):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **options)
    return call
for name in ("open", "rename", "mkdir", "link", "fsync", "unlink", "rmdir"):
    setattr(os, name, watched(getattr(os, name)))
archive.move(StateDirectory(home), target)
"""


def test_a_move_that_is_killed_leaves_the_old_state_or_a_whole_copy(home: str, tmp_path: Path) -> None:
    template, before, at = f"{home}-template", answers(home), 1
    shutil.copytree(home, template)
    while True:
        target = str(tmp_path / f"target-{at}")
        killed = subprocess.run([sys.executable, "-c", _KILLED, str(at), home, target], check=False)
        left = [each for each in (home, target) if os.path.exists(os.path.join(each, "CURRENT"))]
        assert left, at
        assert answers(left[-1]) == before
        if killed.returncode != -signal.SIGKILL:
            assert (killed.returncode, left) == (0, [target])
            break
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(template, home)
        at += 29


def test_a_restore_that_is_killed_leaves_one_of_two_whole_states_and_nothing_of_the_next_one(
    home: str, tmp_path: Path
) -> None:
    file, folder, at = str(tmp_path / "backup.tar.gz"), Path(home).parent, 0
    archive.backup(StateDirectory(home), file)
    with Editor(home) as editor:
        editor.add_block(editor.create(**BERLIN), "9.9.9.0/24")
    template = str(tmp_path / "template")
    shutil.move(home, template)
    killed = True
    while killed:
        for left in folder.glob("state*"):
            shutil.rmtree(left)
        shutil.copytree(template, home)
        at += 3
        script = _KILLED.replace("move(StateDirectory(home), target)", "restore(target, home, replace=True)")
        done = subprocess.run([sys.executable, "-c", script, str(at), home, file], check=False)
        killed = done.returncode == -signal.SIGKILL
        old = [*folder.glob("state.replaced-*")] if answers(home)[2] is None else [home]
        assert [answers(str(each)) for each in old] == [["Mainz", "Berlin", "Berlin"]], at
        archive.restore(file, home, replace=True)
        assert [*folder.glob("state.tmp-*")] == [], at
    assert done.returncode == 0
    assert at > 20
