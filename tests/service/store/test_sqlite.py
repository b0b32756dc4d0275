"""What only SQLite has: one file that belongs to one service, its permissions, and workers that take turns."""

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from geolookup.model.errors import RequestRefusedError, ServiceError
from geolookup.service.geolocations import writes
from geolookup.service.store.sqlite import SQLite
from geolookup.service.store.store import Store
from tests.support.services.running_service import FIELDS


def test_two_services_cannot_use_one_file_at_the_same_time(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db"), pytest.raises(ServiceError, match=r"x\.db: another service"):
        Store.open(tmp_path / "x.db")
    Store.open(tmp_path / "x.db").close()


def test_a_worker_neither_creates_nor_migrates(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="has not been prepared"):
        Store.open(tmp_path / "x.db", worker=True)


def test_the_database_and_what_lies_beside_it_are_private(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
        names = sorted(os.listdir(tmp_path))
        assert "x.db" in names
        assert "x.db-wal" in names
        assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names if name.startswith("x")} == {0o600}


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("locid,country\n" * 1000)
    before = path.read_bytes()
    with pytest.raises(ServiceError, match=r"x\.db: not an SQLite file: .* give it as --load"):
        Store.open(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.db"]


def test_another_programs_database_is_refused_and_kept(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as other:
        other.execute("CREATE TABLE geolocations (locid INTEGER)")
    other.close()
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(ServiceError, match="not a database of this service"):
        Store.open(tmp_path / "x.db")
    assert (tmp_path / "x.db").read_bytes() == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="nowhere"):
        Store.open(tmp_path / "nowhere" / "x.db")


def test_a_write_waits_for_the_one_of_another_process_and_not_for_ever(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store, Store.open(tmp_path / "x.db", worker=True) as worker:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
            with pytest.raises(RequestRefusedError, match="writing for too long") as refused, worker.write(wait_s=0.05):
                pass
        assert refused.value.problem == "storage-unavailable"
        with worker.write() as transaction:
            assert writes.create(transaction, FIELDS) == -2


def test_processes_that_write_without_pause_take_turns(tmp_path: Path) -> None:
    SQLite(str(tmp_path / "x.db")).close()
    holder, other = (SQLite(str(tmp_path / "x.db"), worker=True) for _ in range(2))
    waiting, done = threading.Event(), threading.Event()
    turns = 0

    def wait_for_a_turn() -> None:
        waiting.set()
        with other.exclusive(10):
            done.set()

    thread = threading.Thread(target=wait_for_a_turn)
    with holder.exclusive(10):
        thread.start()
        waiting.wait()
        time.sleep(0.05)  # it holds the next turn by now
    while not done.is_set() and turns < 1000:
        with holder.exclusive(10):
            turns += 1
    thread.join()
    for one in (holder, other):
        one.close()
    assert turns <= 2  # with a single lock, hundreds
