"""Questions to the edits: they take no lock, create nothing, and are answered while others write."""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import EditError, NoStateError, StateBusyError
from geolookup.model.types import IPBlock
from geolookup.sites.plan import export_sites, plan_sites, preview_sites
from geolookup.sites.site import Site
from geolookup.state.editor import Editor
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import BERLIN, DEFAULTS
from tests.support.data.states import place, publish

SITES = [Site(name="Bonn", fields={**BERLIN, "city": "Bonn"}, blocks=(IPBlock.parse("10.30.0.0/16"),))]

QUESTIONS: dict[str, Callable[[Editor], Any]] = {
    "custom": Editor.custom,
    "get": lambda editor: editor.get(-1),
    "gone": Editor.gone,
    "sites": Editor.sites,
    "pending": Editor.pending,
    "history": Editor.history,
    "history of one": lambda editor: editor.history(-1),
    "outbox": Editor.outbox,
    "edit": lambda editor: editor.edit(1),
    "plan of a file": lambda editor: plan_sites(editor, SITES, prune_all=True),
    "what the plan would make": lambda editor: [laid.place for laid in preview_sites(editor, SITES, prune_all=True)],
    "export": export_sites,
}


@pytest.fixture
def edited(home: str) -> str:
    """A state with two edits, and the name of a site."""
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16")])
    editor = Editor(home)
    editor.add_block(-1, "10.20.0.0/16")
    editor.keep_sites({"Berlin": editor.create(**BERLIN)}, file="sites.toml")
    return home


def answers(home: str) -> dict[str, Any]:
    return {name: question(Editor(home)) for name, question in QUESTIONS.items()}


@contextlib.contextmanager
def held(home: str, how: str) -> Iterator[None]:
    """edits.db, locked by another connection."""
    connection = sqlite3.connect(Edits(home).path, isolation_level=None)
    connection.execute(f"BEGIN {how}")
    try:
        yield
    finally:
        connection.close()


def listing(home: str) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(home)): (path.stat().st_mtime_ns, path.stat().st_size) for path in Path(home).rglob("*")
    }


def test_questions_are_answered_while_another_process_publishes_and_writes(edited: str) -> None:
    before = answers(edited)
    assert len(before["outbox"]) == 2
    with StateDirectory(edited).locks.publish(), held(edited, "IMMEDIATE"):
        began = time.monotonic()
        assert answers(edited) == before
    assert time.monotonic() - began < 5.0, "some question waited for a lock"


def test_questions_write_nothing(edited: str) -> None:
    os.unlink(os.path.join(edited, "publish.lock"))
    before = listing(edited)
    answers(edited)
    assert listing(edited) == before


def test_questions_are_answered_before_the_first_edit_and_create_nothing(home: str) -> None:
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16")])
    before = listing(home)
    editor = Editor(home)
    assert [laid.place.locid for laid in editor.custom()] == [-1]
    assert (editor.pending(), editor.gone(), editor.sites(), editor.outbox()) == ([], [], {}, [])
    assert {name: found for name, found in listing(home).items() if "edits.db" in name} == {}
    assert listing(home) == before


def test_a_rehearsal_shows_what_its_edits_would_do_and_forgets_them(edited: str) -> None:
    editor, before, files = Editor(edited), answers(edited), listing(edited)
    with editor.rehearsal():
        locid = editor.create(**{**BERLIN, "city": "Bonn"})
        editor.add_block(locid, "10.30.0.0/16")
        editor.delete(-1)
        rehearsed = {laid.place.locid: laid.place.city for laid in editor.custom()}
    assert (locid in rehearsed, -1 in rehearsed, rehearsed[locid]) == (True, False, "Bonn")
    assert {name: question(editor) for name, question in QUESTIONS.items()} == before
    assert listing(edited) == files
    assert editor.create(**BERLIN) == locid, "the number was not used up"


def test_a_rehearsal_that_fails_is_over_and_edits_are_kept_again(edited: str) -> None:
    editor = Editor(edited)
    with pytest.raises(EditError), editor.rehearsal():
        editor.create(**{**BERLIN, "latitude": 91.0})
    assert editor.get(editor.create(**BERLIN)).place.city == BERLIN["city"]


def test_a_rehearsal_inside_a_transaction_is_refused_since_its_edits_would_be_kept(edited: str) -> None:
    editor, before = Editor(edited), answers(edited)
    with pytest.raises(EditError, match="cannot be part of a transaction"), editor.transaction(), editor.rehearsal():
        editor.delete(-1)
    assert answers(edited) == before


def test_questions_about_nothing_create_nothing(tmp_path: Path) -> None:
    for name, question in QUESTIONS.items():
        with pytest.raises(NoStateError):
            question(Editor(str(tmp_path / "none")))
        assert not (tmp_path / "none").exists(), name


def test_a_question_undoes_what_a_crash_left_half_done(edited: str) -> None:
    before, path = answers(edited), Edits(edited).path
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as interrupted:
        interrupted.execute("PRAGMA synchronous = off")  # so that its journal is valid before it is synced
        interrupted.execute("BEGIN")
        interrupted.execute("DELETE FROM outbox")
        for name in ("edits.db", "edits.db-journal"):
            shutil.copy(os.path.join(edited, name), os.path.join(edited, f"{name}.crashed"))
    for name in ("edits.db", "edits.db-journal"):
        os.rename(os.path.join(edited, f"{name}.crashed"), os.path.join(edited, name))
    with (
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader,
        pytest.raises(sqlite3.OperationalError),
    ):
        reader.execute("SELECT * FROM outbox").fetchall()
    assert answers(edited) == before


def test_a_status_answers_at_once_whoever_writes(edited: str) -> None:
    with GeoLookup(edited) as geo:
        with held(edited, "IMMEDIATE"):
            assert geo.status().pending_edits == 2
        with held(edited, "EXCLUSIVE"):
            began = time.monotonic()
            status = geo.status()
            assert time.monotonic() - began < 5.0, "it waited for the lock"
            assert status.pending_edits is None
            assert "another process keeps it locked" in str(status.problem)
        assert (geo.status().pending_edits, geo.status().problem) == (2, None)


def test_a_question_waits_for_a_commit_but_not_for_ever(edited: str) -> None:
    with held(edited, "EXCLUSIVE"), pytest.raises(StateBusyError), Edits(edited).reading(wait_s=0.01):
        pass
