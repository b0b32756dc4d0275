"""State directories of builds before the first release: refused in one sentence, and left as they are."""

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.model.errors import StateTooNewError
from geolookup.state.editor import Editor
from tests.state.generations.staged import stamped, tree
from tests.support.data.states import publish

SENTENCE = "made by an unreleased build: sync into a new directory"


def of_the_last_builds(current: dict[str, Any]) -> None:
    current["version"] = "2.0"


def of_the_first_builds(current: dict[str, Any]) -> None:
    for name in ("check", "sources", "newest_snapshot", "next_locid", "pins", "served"):
        current.pop(name)
    current["published"].pop("stack")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "state")
    publish(path, stamped(1))
    monkeypatch.setenv("GEOLOOKUP_HOME", path)
    return path


@pytest.mark.parametrize("made", [of_the_last_builds, of_the_first_builds])
def test_what_an_unreleased_build_published_is_refused_and_left_alone(
    home: str, tmp_path: Path, made: Callable[[dict[str, Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(home, "CURRENT")
    current = json.loads(path.read_text())
    made(current)
    current.pop("check", None)
    path.write_text(json.dumps(current))
    (tmp_path / "list.csv").write_text("first,last,country\n10.0.0.0,10.0.0.255,DE\n")
    before = tree(home)
    with pytest.raises(StateTooNewError, match=SENTENCE):
        geolookup.open(home)
    for command in (["10.0.0.1"], ["lookup", "10.0.0.1"], ["status"], ["sync", str(tmp_path / "list.csv")]):
        assert run(command) != 0
        said = capsys.readouterr().err
        assert SENTENCE in said
        assert "`geolookup custom export`" in said
    after = tree(home)
    assert {name: after.get(name) for name in before} == before


def test_the_edits_of_an_unreleased_build_are_refused_and_lookups_go_on(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(home, "edits.db")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE history (id INTEGER PRIMARY KEY, at TEXT, what TEXT)")
        connection.execute("CREATE TABLE _sqlite_migrations (migration_set TEXT, name TEXT, applied_at TEXT)")
        connection.execute("INSERT INTO _sqlite_migrations VALUES ('geolookup', 'm001_history', '')")
    before = path.read_bytes()
    with pytest.raises(StateTooNewError, match=SENTENCE):
        Editor(home).custom()
    assert run(["custom", "add-block", "-1", "10.7.0.0/16"]) != 0
    assert SENTENCE in capsys.readouterr().err
    assert path.read_bytes() == before
    assert run(["lookup", "10.0.0.1"]) == 0
