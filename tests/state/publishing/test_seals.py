"""`verify` and `status --check` notice a changed report.json, and a row of edits.db that something else changed."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import damaged_sources, verify
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24")])
    publish(home, [place(1, "8.8.8.0/24"), place(2, "9.9.9.0/24")])


@pytest.mark.parametrize("which", ["generations/000002", "snapshots/000002"])
def test_a_changed_report_is_not_whole(home: str, which: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(home) == []
    path = Path(home, which, "report.json")
    text = path.read_text()
    path.write_text(text.replace('"source": "', '"source": "x', 1))
    assert path.read_text() != text
    assert any(str(path) in problem for problem in verify(home))
    assert run(["verify"]) == 1
    assert "checksum differs" in capsys.readouterr().err
    current = StateDirectory(home).require_current()
    assert damaged_sources(home, current)  # so that the next sync writes it again


_CHANGES = (
    "UPDATE outbox SET intent = replace(intent, 'Berlin', 'Bxrlin')",
    "UPDATE history SET outcome = 'done'",
    "DELETE FROM history WHERE id = 1",
    "UPDATE counters SET value = value + 1 WHERE name = 'marks'",
    "INSERT INTO settings VALUES ('x', 'y')",
    "UPDATE counters SET value = 'nonsense' WHERE name = 'seal'",
)


@pytest.mark.parametrize("change", _CHANGES)
def test_a_row_that_something_else_changed_is_noticed(
    home: str, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Editor(home) as editor:
        locid = editor.create(**BERLIN)
        editor.add_block(locid, "10.1.0.0/16")
        editor.update(locid, city="Bonn", latitude=52)
        editor.remove_block(locid, "10.1.0.0/16")
        editor.delete(editor.create(**{**BERLIN, "city": "Potsdam"}))
    assert verify(home) == []
    with contextlib.closing(sqlite3.connect(os.path.join(home, "edits.db"))) as database:
        database.execute(change)
        database.commit()
    assert any("do not fit their digest" in problem for problem in verify(home))
    assert run(["verify"]) == 1
    assert run(["status", "--check"]) == 1
    assert "do not fit their digest" in capsys.readouterr().out
    assert run(["outbox", "restore", os.path.join(home, "edits.db")]) in (0, 3)
    assert not [problem for problem in verify(home) if "digest" in problem]
