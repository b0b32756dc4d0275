"""Commands that only read, while another process holds a lock of the state: they wait for none."""

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base.sqlite import QUESTION_WAIT_S
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.places.place import Intent
from geolookup.state.publishing.directory import StateDirectory
from tests.cli.edits.test_custom import CREATE, Command
from tests.support.data.states import place, publish

FIRST = PROVISIONAL_LOCID - 1

HOLDER = """
import fcntl, os, sqlite3, sys
home, name = sys.argv[1:]
if name.endswith(".lock"):
    fcntl.flock(os.open(os.path.join(home, name), os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
else:
    connection = sqlite3.connect(os.path.join(home, "edits.db"), isolation_level=None)
    connection.execute(f"BEGIN {name}")
print("held", flush=True)
sys.stdin.read()
"""

#: Everything that an edit bears on, and asks for nothing but an answer.
READING = [
    ("custom", "list"),
    ("custom", "show", FIRST),
    ("custom", "check"),
    ("custom", "create", "--latitude", 1, "--longitude", 2, "--preview"),
    ("custom", "export", "others.toml"),
    ("custom", "plan", "sites.toml"),
    ("outbox", "list"),
    ("outbox", "show", 1),
    ("history",),
    ("list",),
    ("lookup", "10.20.0.1"),
    ("explain", "10.20.0.1"),
    ("status",),
    ("source", "list"),
    ("generations", "list"),
    ("verify",),
]
#: Of these an answer without the edits is worth something: they say that the edits cannot be read.
ANSWERED_ANYWAY = {"list", "lookup", "explain", "status", "source", "generations"}


@contextlib.contextmanager
def held(home: str, name: str) -> Iterator[None]:
    """A lock that another process holds."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, home, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "held\n"
            yield
        finally:
            holder.stdin.close()


def in_city(intent: Intent, city: str) -> Intent:
    at = FIELD_NAMES.index("city")
    return msgspec.structs.replace(intent, values=(*intent.values[:at], city, *intent.values[at + 1 :]))


@pytest.fixture
def command(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Two edits, and a third that is durable while nobody has published it: its process may be about to."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.chdir(tmp_path)
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    command = Command(capsys)
    command(*CREATE)
    command("custom", "add-block", FIRST, "10.20.0.0/16")
    lines = ["[[site]]", 'name = "Bonn"', *(f'{name} = ""' for name in FIELD_NAMES if name not in DEGREES)]
    lines += ["latitude = 50.7", "longitude = 7.1", "blocks = []"]
    (tmp_path / "sites.toml").write_text("\n".join(lines))
    with StateDirectory(home).edits.transaction() as database:
        outbox = Outbox(database)
        outbox.change(1, intent=in_city(outbox.row(1).intent, "Ulm"))
    return command


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many seconds each connection to edits.db waits at most if another process has it; for files nobody may."""
    found: list[float] = []
    real = sqlite3.connect

    def connect(*arguments: Any, timeout: float = 5.0, **more: Any) -> sqlite3.Connection:
        if "edits.db" in str(arguments[0]):
            found.append(timeout)
        return real(*arguments, timeout=timeout, **more)

    def waited(_seconds: float) -> None:
        raise AssertionError("it waited for the lock of a file")

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr("geolookup.base.disk.time.sleep", waited)
    return found


@pytest.mark.parametrize("lock", ["publish.lock", "run.lock", "IMMEDIATE"])
@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(map(str, words[:2])))
def test_a_command_that_only_reads_answers_whoever_publishes_runs_or_writes(
    command: Command, home: str, waits: list[float], lock: str, words: tuple[Any, ...]
) -> None:
    with held(home, lock):
        said = command(*words)
    assert max(waits, default=0.0) <= QUESTION_WAIT_S
    if words[:2] in (("custom", "list"), ("custom", "show"), ("outbox", "show")):
        assert "Ulm" in said, "what is durable is shown, though nobody has published it"


@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(map(str, words[:2])))
def test_while_another_process_commits_a_question_waits_no_longer_than_that_takes(
    command: Command, home: str, waits: list[float], words: tuple[Any, ...]
) -> None:
    with held(home, "EXCLUSIVE"):
        said = command(*words, exits=0 if words[0] in ANSWERED_ANYWAY else 75)
    assert max(waits, default=0.0) <= QUESTION_WAIT_S
    if words[0] == "explain":
        assert "another process keeps it locked" in said


def test_others_read_edits_db_however_much_an_edit_writes_before_it_is_committed(command: Command, home: str) -> None:
    directory = StateDirectory(home)
    with directory.edits.transaction() as database:
        outbox = Outbox(database)
        long = in_city(outbox.row(1).intent, "x" * 20_000)
        for _ in range(300):  # more than SQLite keeps in its cache
            outbox.add(long, FIRST)
        with directory.edits.reading(wait_s=0.0) as reading:
            assert len(Outbox(reading).rows()) == 2
    with directory.edits.reading(wait_s=0.0) as reading:
        assert len(Outbox(reading).rows()) == 302
