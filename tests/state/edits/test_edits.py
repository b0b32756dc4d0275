"""edits.db: durable transactions, one schema, and SQLite's errors as ours."""

import contextlib
import multiprocessing
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import (
    EditsDamagedError,
    StateBusyError,
    StateDamagedError,
    StateError,
    StateTooNewError,
    StateUnwritableError,
)
from geolookup.state.base.sqlite import sqlite_errors
from geolookup.state.edits.outbox.schema import insert, version_of
from geolookup.state.edits.store import Edits


@pytest.fixture
def edits(tmp_path: Path) -> Edits:
    return Edits(str(tmp_path))


def test_nothing_is_created_by_asking(edits: Edits) -> None:
    assert not edits.exists()
    assert edits.history() == []
    edits.check()
    assert not edits.exists()


def test_the_history_comes_back_as_it_was_recorded(edits: Edits) -> None:
    edits.record("pull", "published", after={"generation": 1, "ö": [None, True]})
    edits.record("edit", "done", locid=-3, before="x", after=[1])
    lines = edits.history()
    assert [(line["what"], line["outcome"], line["locid"]) for line in lines] == [
        ("pull", "published", None),
        ("edit", "done", -3),
    ]
    assert [(line["before"], line["after"]) for line in lines] == [
        (None, {"generation": 1, "ö": [None, True]}),
        ("x", [1]),
    ]
    assert lines[0]["at"] <= lines[1]["at"]
    assert stat.S_IMODE(os.stat(edits.path).st_mode) == 0o600


def test_the_history_of_some_geolocations_has_their_lines_only(edits: Edits) -> None:
    for locid in (-1, -2, None, -1, -3):
        edits.record("edit", "done", locid=locid)
    assert [line["id"] for line in edits.history([-1, -3])] == [1, 4, 5]
    assert edits.history([]) == edits.history([-(10**30), -7]) == []
    assert len(edits.history()) == 5


def test_a_line_of_the_history_that_is_no_json_is_damage(edits: Edits) -> None:
    edits.record("pull", "published", after=1)
    with sqlite3.connect(edits.path) as connection:
        connection.execute("UPDATE history SET after = '{'")
    connection.close()
    with pytest.raises(StateDamagedError, match=r"edits\.db: line 1"):
        edits.history()


# Transactions


def test_tables_that_another_process_makes_at_this_very_moment_are_ours(edits: Edits) -> None:
    Path(edits.path).touch()

    class Interrupted(sqlite3.Connection):
        """Before its second statement another process does all."""

        asked = 0

        def execute(self, *asked: Any) -> sqlite3.Cursor:
            self.asked += 1
            if self.asked == 2:
                edits.record("first", "done")
            return super().execute(*asked)

    with contextlib.closing(sqlite3.connect(edits.path, factory=Interrupted)) as connection:
        assert version_of(connection) is not None


def test_a_transaction_whose_body_raises_leaves_nothing(edits: Edits) -> None:
    edits.record("first", "done")
    before = Path(edits.path).read_bytes()
    row = {"at": "", "what": "second", "outcome": "done"}

    def fail() -> None:
        with edits.transaction() as database:
            insert(database, "history", row)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert Path(edits.path).read_bytes() == before
    with edits.transaction() as database:
        insert(database, "history", row)
    assert [line["what"] for line in edits.history()] == ["first", "second"]


def test_a_first_transaction_that_raises_takes_the_tables_with_it(edits: Edits) -> None:
    with pytest.raises(KeyError), edits.transaction():
        raise KeyError
    assert os.path.getsize(edits.path) == 0


def test_the_rollback_journal_and_full_synchronisation_are_set(edits: Edits) -> None:
    edits.record("first", "done")
    with edits.transaction() as database:
        settings = {
            name: database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
        insert(database, "history", {"at": "", "what": "x", "outcome": ""})
        # The very journal, while the transaction is open: a write-ahead log would be another file.
        assert sorted(os.listdir(os.path.dirname(edits.path))) == ["edits.db", "edits.db-journal"]
        assert stat.S_IMODE(os.stat(edits.path + "-journal").st_mode) == 0o600
    assert settings == {"journal_mode": "delete", "synchronous": 3, "foreign_keys": 1}


def test_a_file_left_in_wal_mode_is_brought_back_to_the_rollback_journal(edits: Edits) -> None:
    edits.record("first", "done")
    with sqlite3.connect(edits.path) as connection:
        connection.execute("PRAGMA journal_mode = wal")
    connection.close()
    edits.record("second", "done")
    assert Path(edits.path).read_bytes()[18:20] == b"\x01\x01", "the versions in the header say which journal it has"
    assert [line["what"] for line in edits.history()] == ["first", "second"]


# The schema


def record_once(home: str, name: str, ready: "multiprocessing.synchronize.Barrier") -> None:
    ready.wait(60)
    for _ in range(5):
        Edits(home).record(name, "done")


def test_processes_that_start_at_once_make_the_tables_once_and_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    processes = [context.Process(target=record_once, args=(str(tmp_path), f"p{n}", ready)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    edits = Edits(str(tmp_path))
    assert sorted(line["what"] for line in edits.history()) == ["p0"] * 5 + ["p1"] * 5 + ["p2"] * 5


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_schema_of_a_newer_release_is_refused_by_number_and_nothing_is_touched(edits: Edits, journal: str) -> None:
    edits.record("first", "done")
    with sqlite3.connect(edits.path) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.commit()
        connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.close()
    before = Path(edits.path).read_bytes()
    for attempt in (edits.history, edits.check, lambda: edits.record("second", "done")):
        with pytest.raises(StateTooNewError, match=r"edits\.db.*schema 999.*upgrade"):
            attempt()
    assert Path(edits.path).read_bytes() == before
    assert os.listdir(os.path.dirname(edits.path)) == ["edits.db"]


def test_the_schema_of_a_newer_release_that_comes_in_between_is_refused(
    edits: Edits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the file was looked at, and before it is this process's to write."""
    edits.record("pull", "published")
    look = Edits._version

    def looked(self: Edits, connection: sqlite3.Connection) -> int:
        monkeypatch.setattr(Edits, "_version", look)
        found = look(self, connection)
        with contextlib.closing(sqlite3.connect(edits.path)) as other:
            other.execute("PRAGMA user_version = 999")
        return found

    monkeypatch.setattr(Edits, "_version", looked)
    with pytest.raises(StateTooNewError, match="schema 999"):
        edits.record("pull", "published")


def test_the_database_of_another_program_is_refused_and_left_alone(edits: Edits) -> None:
    with contextlib.closing(sqlite3.connect(edits.path)) as connection:
        connection.execute("CREATE TABLE theirs (number INTEGER)")
    before = Path(edits.path).read_bytes()
    for attempt in (edits.history, edits.check, lambda: edits.record("pull", "published")):
        with pytest.raises(EditsDamagedError, match="another program's database"):
            attempt()
    assert not edits.is_ours()
    assert Path(edits.path).read_bytes() == before


def test_the_edits_of_an_unreleased_build_are_refused_and_left_alone(edits: Edits) -> None:
    with contextlib.closing(sqlite3.connect(edits.path)) as connection, connection:
        connection.execute("CREATE TABLE history (id INTEGER PRIMARY KEY, at TEXT, what TEXT)")
        connection.execute("CREATE TABLE _sqlite_migrations (migration_set TEXT, name TEXT, applied_at TEXT)")
        connection.execute("INSERT INTO _sqlite_migrations VALUES ('geolookup', 'm001_history', '')")
    before = Path(edits.path).read_bytes()
    for attempt in (edits.history, edits.check, edits.is_ours, lambda: edits.record("pull", "published")):
        with pytest.raises(StateTooNewError, match="made by an unreleased build: sync into a new directory"):
            attempt()
    assert Path(edits.path).read_bytes() == before


# Errors

SQLITE_CLASSES = [
    kind
    for kind in vars(sqlite3).values()
    if isinstance(kind, type) and issubclass(kind, (sqlite3.Error, sqlite3.Warning))
]


def test_every_error_class_of_sqlite_is_known_here() -> None:
    assert len(SQLITE_CLASSES) == 10


@pytest.mark.parametrize("kind", SQLITE_CLASSES)
def test_every_error_of_sqlite_comes_out_as_ours(kind: type[Exception], edits: Edits) -> None:
    error = kind("reason")
    with pytest.raises(StateError, match=r"^some\.db: its content cannot be used") as caught, sqlite_errors("some.db"):
        raise error
    assert caught.value.__cause__ is error
    with pytest.raises(StateError, match=r"edits\.db: its content cannot be used"), edits.transaction():
        raise kind("reason")


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (sqlite3.SQLITE_BUSY, StateBusyError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StateBusyError),
        (sqlite3.SQLITE_LOCKED, StateBusyError),
        (sqlite3.SQLITE_FULL, StateUnwritableError),
        (sqlite3.SQLITE_READONLY, StateUnwritableError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StateUnwritableError),
        (sqlite3.SQLITE_IOERR_FSYNC, StateUnwritableError),
        (sqlite3.SQLITE_CANTOPEN, StateUnwritableError),
        (sqlite3.SQLITE_PERM, StateUnwritableError),
        (sqlite3.SQLITE_CORRUPT, StateDamagedError),
        (sqlite3.SQLITE_NOTADB, StateDamagedError),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, StateDamagedError),
    ],
)
def test_sqlites_codes_say_which_of_ours_it_is(code: int, ours: type[StateError]) -> None:
    error = sqlite3.OperationalError("reason")
    error.sqlite_errorcode = code
    with pytest.raises(ours, match=r"^some\.db: "), sqlite_errors("some.db"):
        raise error


def test_a_full_disk_is_said_to_be_full_and_nothing_of_owners() -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(StateUnwritableError) as caught, sqlite_errors("some.db"):
        raise error
    assert str(caught.value) == "some.db: the disk is full: make room there"


def test_a_lock_that_is_held_too_long_is_busy(edits: Edits, monkeypatch: pytest.MonkeyPatch) -> None:
    edits.record("first", "done")
    holder = sqlite3.connect(edits.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: real(*given, **{**options, "timeout": 0.0}))
    try:
        with pytest.raises(StateBusyError, match=r"edits\.db"):
            edits.record("second", "done")
    finally:
        holder.close()
    edits.record("third", "done")
    assert [line["what"] for line in edits.history()] == ["first", "third"]


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_refused_with_what_to_do_and_left_as_it_is(edits: Edits, content: bytes) -> None:
    Path(edits.path).write_bytes(content)
    with pytest.raises(StateDamagedError, match=r"no backup.*outbox restore --empty"):
        edits.check()
    with pytest.raises(StateDamagedError, match=r"edits\.db"):
        edits.record("first", "done")
    assert Path(edits.path).read_bytes() == content


def test_a_damaged_page_is_found_by_the_check(edits: Edits) -> None:
    edits.record("first", "done")
    with edits.transaction() as database:
        for _ in range(200):
            insert(database, "history", {"at": "", "what": "x" * 200, "outcome": ""})
    edits.check()
    data = bytearray(Path(edits.path).read_bytes())
    data[-4096:] = b"\x11" * 4096
    Path(edits.path).write_bytes(data)
    with pytest.raises(StateDamagedError, match=r"edits\.db"):
        edits.check()


def test_a_directory_in_its_place_is_an_error_of_ours(edits: Edits) -> None:
    os.mkdir(edits.path)
    with pytest.raises(StateUnwritableError, match=r"edits\.db"):
        edits.record("first", "done")
