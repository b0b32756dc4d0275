"""The editor: what an edit promises from its return on."""

import multiprocessing
import signal
import sqlite3
import subprocess
import sys

import pytest

import geolookup
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import (
    BlockError,
    StateUnwritableError,
    UnknownGeolocationError,
)
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base.parts import SERVICE
from geolookup.state.custom_edits import ADD_BLOCK
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.publish import Publish
from geolookup.state.publishing.run import running
from tests.state.edits.editing import BERLIN, DEFAULTS, acknowledge, conclude, content, located, put
from tests.state.generations.staged import staged, staged_by
from tests.support.data.states import place, publish


@pytest.fixture
def editor(home: str) -> Editor:
    """An editor of a state with two default geolocations and one custom."""
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    return Editor(home)


# From its return on


def test_an_edit_is_in_lookups_of_this_process_at_once_and_pending(editor: Editor, home: str) -> None:
    with GeoLookup(home) as geo:
        assert geo.lookup("10.20.30.40").locid == 1  # type: ignore[union-attr]
        locid = editor.create(**BERLIN)
        editor.add_block(locid, "10.20.0.0/16")
        found = geo.match("10.20.30.40")
        assert found is not None
        assert (found.geolocation.locid, found.pending, found.layer) == (locid, True, "custom")
        assert (found.first, found.last) == ("10.20.0.0", "10.20.255.255")
        assert found.geolocation.fields() == BERLIN
        with geo.edit() as other:
            other.remove_block(locid, "10.20.0.0/16")
        assert geo.lookup("10.20.30.40").locid == 1  # type: ignore[union-attr]


FOLLOWER = """
import sys, time, geolookup
with geolookup.open(sys.argv[1]) as geo:
    print(geo.lookup("10.20.30.40").locid, flush=True)
    while geo.lookup("10.20.30.40").locid > 0:
        time.sleep(0.05)
    print(geo.lookup("10.20.30.40").city, flush=True)
"""


def test_another_process_that_has_it_open_sees_an_edit(editor: Editor, home: str) -> None:
    command = [sys.executable, "-c", FOLLOWER, home]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            assert follower.stdout.readline() == "1\n"
            with editor.transaction():
                editor.add_block(editor.create(**BERLIN), "10.20.0.0/16")
            assert follower.stdout.readline() == "Berlin\n"
        finally:
            follower.kill()


KILLED = """
import os, signal, sys, geolookup
editor = geolookup.open_editor(sys.argv[1])
editor.add_block(-1, "10.20.0.0/16")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_edit_whose_process_is_killed_right_after_it_is_there(editor: Editor, home: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, home], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert located(home, "10.20.30.40") == -1
    assert [row.describe() for row in editor.pending()] == ["add 10.20.0.0-10.20.255.255 to -1"]


def test_an_edit_is_durable_before_it_is_published(editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def publishing(*_given: object, **_named: object) -> None:
        connection = sqlite3.connect(f"file:{home}/edits.db?mode=ro", uri=True)
        seen.append(connection.execute("SELECT operation, state FROM outbox").fetchall())
        connection.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Publish, "draft", publishing)
    with pytest.raises(KeyboardInterrupt):
        editor.add_block(-1, "10.20.0.0/16")
    monkeypatch.undo()
    assert seen == [[("add_block", "queued")]]
    assert located(home, "10.20.30.40") == 1
    Editor(home).add_block(-1, "10.21.0.0/16")  # whoever publishes next
    assert located(home, "10.20.30.40") == -1


def test_where_lookups_cannot_be_told_the_edit_is_kept_with_a_warning(
    editor: Editor, home: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_given: object, **_named: object) -> None:
        raise StateUnwritableError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Publish, "draft", full)
        made = ADD_BLOCK.of(-1, blocks=[("10.20.0.0/16", None)])(editor)
        assert "the edit is kept" in caplog.text
        caplog.clear()
        editor.sessions.catch_up()
        assert "an earlier edit is kept" in caplog.text
    assert made.text.startswith("kept, and not in lookups yet (`geolookup status` says why); once it is: 10.20.0.0-")
    assert "no space left" in caplog.text
    assert located(home, "10.20.30.40") == 1
    with geolookup.open(home) as geo:
        assert "edits are kept that lookups do not show" in (geo.status().problem or "")
    made = ADD_BLOCK.of(-1, blocks=[("10.21.0.0/16", None)])(editor)
    assert made.text == "10.21.0.0-10.21.255.255 now resolves to -1"
    with geolookup.open(home) as geo:
        assert geo.status().problem is None
    assert (located(home, "10.20.30.40"), located(home, "10.21.30.40")) == (-1, -1)


def test_editing_works_while_a_sync_runs_and_the_sync_keeps_the_edit(editor: Editor, home: str) -> None:
    directory = StateDirectory(home)
    with running(directory) as run, staged_by(run, [place(1, "10.0.0.0/8"), place(-1, "10.9.0.0/16")]) as candidate:
        locid = editor.create(**BERLIN)
        editor.add_block(locid, "10.20.0.0/16")
        assert located(home, "10.20.0.1") == locid
        run.publish(candidate)
    assert directory.open().current.generation == 2
    assert located(home, "10.20.0.1") == locid


def test_edits_survive_a_pull_a_held_pull_its_acceptance_and_a_rollback(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    editor.add_block(locid, "10.20.0.0/16")
    editor.update(-1, city="edited")
    editor.add_block(-1, "10.8.0.0/16")
    editor.remove_block(-1, "10.9.0.0/16")
    before = editor.custom()
    directory = StateDirectory(home)

    def assert_kept() -> None:
        assert Editor(home).custom() == before == editor.custom()
        with GeoLookup(home) as geo:
            assert geo.lookup("10.20.0.1").city == "Berlin"  # type: ignore[union-attr]
            assert geo.lookup("10.8.0.1").city == "edited"  # type: ignore[union-attr]
            assert geo.lookup("10.9.0.1").locid > 0  # type: ignore[union-attr]

    publish(home, [place(5, "10.0.0.0/8"), place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    assert_kept()
    with staged(directory, [place(6, "10.0.0.0/8"), place(-1, "10.9.0.0/16", latitude=1.0, longitude=2.0)]) as held:
        directory.holding.hold(held, SERVICE)
    assert_kept()
    candidate = directory.held()
    assert candidate is not None
    with running(directory) as run:
        run.publish(candidate)
    assert_kept()
    directory.keeping.rollback(1)
    assert_kept()


def test_a_pull_that_brings_more_custom_blocks_adds_them_to_an_edited_geolocation(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16", "10.30.0.0/16"), place(-2, "10.40.0.0/16")])
    assert [located(home, f"10.{number}.0.1") for number in (9, 20, 30, 40)] == [-1, -1, -1, -2]


# Numbers


def test_a_provisional_locid_works_for_ever(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    assert locid == PROVISIONAL_LOCID - 1
    editor.add_block(locid, "10.20.0.0/16")
    acknowledge(home, p1=-7)
    assert [laid.place.locid for laid in editor.custom()] == [-1, -7]
    assert located(home, "10.20.0.1") == -7
    publish(home, [*DEFAULTS, place(-7, "10.20.0.0/16", **BERLIN)])
    for number in (locid, -7):
        assert editor.get(number).place.locid == -7
        assert not editor.get(number).pending
        assert [line["what"] for line in editor.history(number)] == ["create", "add_block"]
    editor.update(locid, city="Potsdam")
    editor.remove_block(-7, "10.20.0.0/16")
    editor.add_block(locid, "10.21.0.0/16")
    with GeoLookup(home) as geo:
        found = geo.match("10.21.0.1")
    assert found is not None
    assert (found.geolocation.locid, found.geolocation.city, found.pending) == (-7, "Potsdam", True)
    assert {row.locid for row in editor.pending()} == {locid}, (
        "one geolocation has one queue, whatever number was given"
    )
    editor.delete(-7)
    with pytest.raises(UnknownGeolocationError):
        editor.get(locid)
    assert located(home, "10.21.0.1") == 1


def test_no_provisional_locid_is_given_twice(editor: Editor, home: str) -> None:
    first = editor.create(**BERLIN)
    editor.delete(first)
    second = editor.create(**BERLIN)
    acknowledge(home, p2=-7)
    assert len({first, second, Editor(home).create(**BERLIN)}) == 3


def test_an_acknowledged_edit_stays_laid_over_a_generation_that_began_before(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    acknowledge(home)
    assert not editor.get(-1).pending
    assert editor.pending() == []
    editor.custom()
    with GeoLookup(home) as geo:
        found = geo.match("10.20.0.1")
    assert found is not None
    assert (found.geolocation.locid, found.pending) == (-1, False)
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16")])  # a list that is not conclusive
    assert located(home, "10.20.0.1") == -1
    # By now another client has removed it there.
    publish(home, [*DEFAULTS, place(-1, "10.9.0.0/16")], mark=conclude(home))
    assert located(home, "10.20.0.1") == 1


# Deleting


def test_deleting_what_was_never_sent_forgets_it(editor: Editor, home: str) -> None:
    locid = editor.create(**BERLIN)
    editor.add_block(locid, "10.20.0.0/16")
    editor.delete(locid)
    assert editor.pending() == []
    assert {row.state for row in editor.outbox()} == {State.DROPPED}
    assert located(home, "10.20.0.1") == 1
    assert [line["what"] for line in editor.history(locid)] == ["create", "add_block", "delete"]
    editor.add_block(-1, "10.20.0.0/16")


@pytest.mark.parametrize("state", [State.SENDING, State.UNKNOWN, State.REJECTED])
def test_deleting_what_may_have_been_sent_is_an_edit_of_its_own(editor: Editor, home: str, state: State) -> None:
    locid = editor.create(**BERLIN)
    put(home, 1, state)
    editor.delete(locid)
    then = State.QUEUED if state == State.REJECTED else state  # another edit is tried with what was refused
    assert [(row.operation, row.state) for row in editor.pending()] == [("create", then), ("delete", State.QUEUED)]
    with pytest.raises(UnknownGeolocationError):
        editor.get(locid)


def test_deleting_what_the_service_has_takes_its_blocks_along(editor: Editor, home: str) -> None:
    editor.delete(-1)
    assert located(home, "10.9.0.1") == 1
    assert [row.operation for row in editor.pending()] == ["delete"]
    editor.add_block(editor.create(**BERLIN), "10.9.0.0/16")


# Transactions


def test_a_transaction_that_raises_leaves_nothing_of_any_of_its_edits(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.7.0.0/16")
    before, sequence = content(editor), StateDirectory(home).open().current.sequence

    def edit() -> None:
        with editor.transaction():
            editor.add_block(editor.create(**BERLIN), "10.20.0.0/16")
            editor.update(-1, city="edited")
            editor.keep_sites({"one": -1}, file="sites.toml")
            editor.add_block(-1, "10.9.0.0/16")

    with pytest.raises(BlockError):
        edit()
    assert content(editor) == before == content(Editor(home))
    assert (located(home, "10.20.0.1"), StateDirectory(home).open().current.sequence) == (1, sequence)
    assert editor.create(**BERLIN) == PROVISIONAL_LOCID - 1


def test_a_transaction_is_published_once_at_its_end(editor: Editor, home: str) -> None:
    sequence = StateDirectory(home).open().current.sequence
    with editor.transaction(), editor.transaction():
        locid = editor.create(**BERLIN)
        for number in range(5):
            editor.add_block(locid, f"10.20.{number}.0/24")
        assert len(editor.get(locid).place.ipblocks) == 5, "its own edits are seen within it"
        assert located(home, "10.20.0.1") == 1, "and by nobody else"
    assert located(home, "10.20.0.1") == locid
    assert StateDirectory(home).open().current.sequence == sequence + 1


def test_questions_publish_nothing(editor: Editor, home: str) -> None:
    editor.add_block(-1, "10.20.0.0/16")
    before = StateDirectory(home).open().current.sequence
    content(editor)
    editor.pending()
    editor.gone()
    editor.get(-1)
    editor.edit(1)
    assert StateDirectory(home).open().current.sequence == before


def edit_often(home: str, number: int, count: int, ready: "multiprocessing.synchronize.Barrier") -> None:
    editor = Editor(home)
    ready.wait(60)
    for step in range(count):
        editor.add_block(editor.create(**{**BERLIN, "city": f"{number}"}), f"10.{number}.{step}.0/24")


def test_two_processes_that_edit_at_once_lose_nothing(editor: Editor, home: str) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    processes = [context.Process(target=edit_often, args=(home, number, 8, ready)) for number in (20, 21)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    with GeoLookup(home) as geo:
        for number in (20, 21):
            for step in range(8):
                found = geo.lookup(f"10.{number}.{step}.1")
                assert found is not None
                assert found.city == str(number)
    assert len({laid.place.locid for laid in editor.custom()}) == 17
    assert len(editor.pending()) == 32
