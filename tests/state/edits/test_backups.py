"""edits.db is backed up without a service: after edits, before much changes, by runs; and damage does not spread."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.editor import Editor
from geolookup.state.edits import store
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24")])


def heads(home: str) -> list[int | None]:
    """The newest edit in each backup, None if it is not there."""
    found: list[int | None] = []
    for path in Edits(home).backups():
        found.append(Edits(home, os.path.basename(path)).head() if os.path.exists(path) else None)
    return found


def spoil(home: str) -> None:
    with open(os.path.join(home, "edits.db"), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


def edits(home: str, count: int) -> None:
    with Editor(home) as editor:
        for number in range(count):
            editor.create(**{**BERLIN, "city": f"Berlin {number}"})


def test_a_burst_of_edits_keeps_the_newest_backup_new_and_an_old_one(home: str) -> None:
    edits(home, 1)
    assert heads(home) == [1, None, None]
    edits(home, 4)
    assert heads(home) == [5, 1, None]
    second = Edits(home).backups()[1]
    os.utime(second, (0, 0))
    edits(home, 1)
    assert heads(home) == [6, 5, 1]


def test_a_large_file_is_copied_once_an_hour_and_by_the_next_run(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SMALL_BYTES", 0)
    edits(home, 5)
    assert heads(home) == [1, None, None]
    with running(StateDirectory(home)):
        pass
    assert heads(home) == [5, 1, None]
    with running(StateDirectory(home)):
        pass
    assert heads(home) == [5, 1, None]


def test_undo_and_apply_back_up_first(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(store, "_SMALL_BYTES", 0)
    edits(home, 3)
    file = tmp_path / "sites.csv"
    assert run(["custom", "export", str(file)]) == 0
    assert heads(home)[0] == 1
    assert run(["custom", "undo", "--run"]) == 0
    assert heads(home)[0] == 3
    with Editor(home) as editor:
        editor.update(-(10**15) - 1, city="Bonn")
    assert heads(home)[0] == 3
    before = Edits(home).head()
    assert run(["custom", "apply", "--keep", "mine", str(file)]) == 0
    assert heads(home)[0] == before > 3


def test_a_damaged_file_never_takes_the_place_of_a_backup(home: str) -> None:
    edits(home, 2)
    spoil(home)
    kept = Path(Edits(home).backups()[0]).read_bytes()
    with running(StateDirectory(home)):
        pass
    assert Path(Edits(home).backups()[0]).read_bytes() == kept


def test_damage_without_a_service_is_restored_and_the_advice_begins_with_the_backup(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Editor(home) as editor:
        locid = editor.create(**BERLIN)
        editor.add_block(locid, "10.9.0.0/16")
    spoil(home)
    capsys.readouterr()
    assert run(["custom", "list"]) == 1
    said = capsys.readouterr().err
    order = [said.index(each) for each in ("outbox restore`", "custom export", "outbox restore --empty")]
    assert order == sorted(order)
    file = tmp_path / "kept.toml"
    assert run(["custom", "export", str(file)]) == 0
    assert "10.9.0.0/16" in file.read_text()
    assert run(["outbox", "restore"]) == 0
    with Editor(home) as editor:
        assert [str(block) for block in editor.get(locid).place.ipblocks] == ["10.9.0.0-10.9.255.255"]


def test_what_was_exported_from_damage_can_be_applied_to_an_empty_file(home: str, tmp_path: Path) -> None:
    with Editor(home) as editor:
        editor.add_block(editor.create(**BERLIN), "10.9.0.0/16")
    spoil(home)
    for path in Edits(home).backups():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    file = tmp_path / "kept.toml"
    assert run(["custom", "export", str(file)]) == 0
    assert run(["outbox", "restore", "--empty"]) == 3
    assert run(["custom", "apply", str(file)]) == 0
    with Editor(home) as editor:
        (laid,) = editor.custom()
    assert laid.place.city == BERLIN["city"]
    assert sqlite3.connect(os.path.join(home, "edits.db")).execute("PRAGMA quick_check").fetchone() == ("ok",)
