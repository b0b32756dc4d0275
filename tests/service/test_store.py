"""Opening, sharing and losing the database."""

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from sqlalchemy import insert

from geolookup.errors import RequestRefusedError, ServiceError
from geolookup.service import writes
from geolookup.service.schema import ipblocks
from geolookup.service.store import Store
from tests.support.running_service import FIELDS, RunningService


def test_two_services_cannot_use_one_database_at_the_same_time(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db"), pytest.raises(ServiceError, match=r"x\.db: another service"):
        Store.open(tmp_path / "x.db")
    Store.open(tmp_path / "x.db").close()


def test_the_database_and_what_lies_beside_it_are_private(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
        names = sorted(os.listdir(tmp_path))
        assert "x.db" in names
        assert "x.db-wal" in names
        assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names if name.startswith("x")} == {0o600}


def test_the_uuid_stays_and_differs_between_databases(tmp_path: Path) -> None:
    uuids = []
    for name in ("x.db", "x.db", "y.db"):
        with Store.open(tmp_path / name) as store:
            uuids.append(store.uuid)
    assert uuids[0] == uuids[1] != uuids[2]


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("locid,country\n" * 1000)
    before = path.read_bytes()
    with pytest.raises(ServiceError, match=r"x\.db"):
        Store.open(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as other:
        other.execute("CREATE TABLE geolocations (locid INTEGER)")
    other.close()
    with pytest.raises(ServiceError, match="not a database of this service"):
        Store.open(tmp_path / "x.db")


def test_a_newer_schema_is_refused_by_its_version(tmp_path: Path) -> None:
    Store.open(tmp_path / "x.db").close()
    with sqlite3.connect(tmp_path / "x.db") as newer:
        newer.execute("UPDATE meta SET schema_version = 99")
    newer.close()
    with pytest.raises(ServiceError, match="schema version 99"):
        Store.open(tmp_path / "x.db")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="nowhere"):
        Store.open(tmp_path / "nowhere" / "x.db")


def test_an_exception_leaves_no_trace_of_a_transaction(tmp_path: Path) -> None:
    def create_and_fail(store: Store) -> None:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
            raise ZeroDivisionError

    with Store.open(tmp_path / "x.db") as store:
        with pytest.raises(ZeroDivisionError):
            create_and_fail(store)
        with store.write() as transaction:
            assert transaction.revision == 0
            assert writes.create(transaction, FIELDS) == -1


def test_the_revision_counts_transactions_that_changed_something(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        for _ in range(3):
            with store.write() as transaction:
                locid = writes.create(transaction, FIELDS)
                writes.change(transaction, locid, {**FIELDS, "city": "x"})
        with store.write() as transaction:
            writes.change(transaction, locid, {**FIELDS, "city": "x"})
        with store.write() as transaction:
            assert transaction.revision == 3


def test_a_snapshot_keeps_the_moment_in_which_it_was_taken(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        snapshot = store.snapshot()
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
        assert snapshot.connection.exec_driver_sql("SELECT count(*) FROM geolocations").scalar() == 0
        assert snapshot.connection.exec_driver_sql("SELECT revision FROM meta").scalar() == snapshot.revision == 0
        snapshot.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    with Store.open(tmp_path / "x.db") as store:
        snapshot = store.snapshot()
        with pytest.raises(Exception, match="readonly"):
            snapshot.connection.exec_driver_sql("DELETE FROM meta")
        snapshot.close()


def test_the_database_itself_refuses_a_second_owner_of_a_custom_block(tmp_path: Path) -> None:
    row = {"family": 4, "startipnum": "0000000001", "endipnum": "0000000002", "startip": "0.0.0.1", "endip": "0.0.0.2"}

    def give_to_two(store: Store) -> None:
        with store.write() as transaction:
            for locid in (writes.create(transaction, FIELDS), writes.create(transaction, FIELDS)):
                transaction.connection.execute(insert(ipblocks).values(locid=locid, **row))

    with Store.open(tmp_path / "x.db") as store:
        with pytest.raises(RequestRefusedError) as refused:
            give_to_two(store)
        assert refused.value.problem == "storage-unavailable"


def test_many_writers_at_once_each_get_a_locid_of_their_own(tmp_path: Path) -> None:
    with RunningService(tmp_path / "x.db") as service:
        locids: list[int] = []
        threads = [threading.Thread(target=lambda: locids.extend(service.create() for _ in range(5))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with service.client() as client:
            there = [place["locid"] for place in client.get("/geolocations").json()]
    assert sorted(locids) == there == list(range(-40, 0))


def test_a_database_that_fails_is_503_and_says_nothing_of_the_inside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningService(tmp_path / "x.db") as service, service.client() as client:
        with service.store.write() as transaction:
            transaction.connection.exec_driver_sql("DROP TABLE idempotency")
        answer = client.post("/geolocations", json=FIELDS, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["type"].endswith(":storage-unavailable")
        assert "idempotency" not in answer.text
        assert str(tmp_path) not in answer.text
        assert client.get("/geolocations").json() == []
    assert "no such table" in caplog.text
