"""The store on either database: transactions, revisions, snapshots, and what fails."""

import contextlib
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from geolookup.model.errors import RequestRefusedError
from geolookup.service.geolocations import writes
from geolookup.service.geolocations.loader import load_files
from geolookup.service.store.schema import geolocations, ipblocks
from geolookup.service.store.store import Store
from tests.support.services.running_service import FIELDS, RunningService


def test_the_uuid_stays_and_differs_between_databases(tmp_path: Path, db: str) -> None:
    uuids = []
    for name in (db, db, tmp_path / "other.db"):
        with Store.open(name) as store:
            uuids.append(store.uuid)
    assert uuids[0] == uuids[1] != uuids[2]


def test_closing_twice_is_harmless(db: str) -> None:
    store = Store.open(db)
    store.close()
    with Store.open(db) as again:
        store.close()
        with again.write() as transaction:
            writes.create(transaction, FIELDS)


def test_an_exception_leaves_no_trace_of_a_transaction(db: str) -> None:
    def create_and_fail(store: Store) -> None:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
            raise ZeroDivisionError

    with Store.open(db) as store:
        with pytest.raises(ZeroDivisionError):
            create_and_fail(store)
        with store.write() as transaction:
            assert transaction.revision == 0
            # A sequence leaves a gap, and no number comes twice in any case.
            assert writes.create(transaction, FIELDS) in (-1, -2)
        with contextlib.closing(store.snapshot()) as snapshot:
            assert snapshot.connection.execute(select(func.count()).select_from(geolocations)).scalar() == 1


def test_the_revision_counts_transactions_that_changed_something(db: str) -> None:
    with Store.open(db) as store:
        for _ in range(3):
            with store.write() as transaction:
                locid = writes.create(transaction, FIELDS)
                writes.change(transaction, locid, {**FIELDS, "city": "x"})
        with store.write() as transaction:
            writes.change(transaction, locid, {**FIELDS, "city": "x"})
        with store.write() as transaction:
            assert transaction.revision == 3


def test_a_snapshot_keeps_the_moment_in_which_it_was_taken(db: str) -> None:
    with Store.open(db) as store:
        snapshot = store.snapshot()
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
        assert snapshot.connection.exec_driver_sql("SELECT count(*) FROM geolocations").scalar() == 0
        assert snapshot.connection.exec_driver_sql("SELECT revision FROM meta").scalar() == snapshot.revision == 0
        snapshot.close()


def test_a_reader_cannot_write(db: str) -> None:
    with Store.open(db) as store:
        snapshot = store.snapshot()
        with pytest.raises(RequestRefusedError, match=r"read-?only"):
            snapshot.connection.exec_driver_sql("DELETE FROM meta")
        snapshot.close()


def test_the_database_itself_refuses_a_second_owner_of_a_custom_block(db: str) -> None:
    row = {"family": 4, "startipnum": "0000000001", "endipnum": "0000000002", "startip": "0.0.0.1", "endip": "0.0.0.2"}

    def give_to_two(store: Store) -> None:
        with store.write() as transaction:
            for locid in (writes.create(transaction, FIELDS), writes.create(transaction, FIELDS)):
                transaction.connection.execute(insert(ipblocks).values(locid=locid, **row))

    with Store.open(db) as store:
        with pytest.raises(RequestRefusedError) as refused:
            give_to_two(store)
        assert refused.value.problem == "storage-unavailable"


def test_many_writers_at_once_each_get_a_locid_of_their_own(db: str) -> None:
    with RunningService(db) as service:
        locids: list[int] = []
        threads = [threading.Thread(target=lambda: locids.extend(service.create() for _ in range(5))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with service.client() as client:
            there = [place["locid"] for place in client.get("/geolocations").json()]
    assert sorted(locids) == there == list(range(-40, 0))


def test_both_revisions_follow_what_a_load_changes(db: str, tmp_path: Path) -> None:
    def revisions(store: Store) -> tuple[int, int]:
        with contextlib.closing(store.snapshot()) as snapshot:
            return snapshot.revision, snapshot.default_revision

    custom = tmp_path / "custom.csv"
    custom.write_text(
        "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip\n-7,,,,,1,2,,,,\n"
    )
    default = tmp_path / "default.csv"
    default.write_text("startip,endip,country\n10.0.0.0,10.0.0.1,US\n")
    with Store.open(db) as store:
        found = [revisions(store)]
        for path in (custom, default, default):
            load_files(store, [path])
            found.append(revisions(store))
        with store.write() as transaction:
            assert writes.create(transaction, FIELDS) == -8
        found.append(revisions(store))
    assert found == [(0, 0), (1, 0), (2, 1), (2, 1), (3, 1)]


def test_a_database_that_fails_is_503_and_says_nothing_of_the_inside(db: str, caplog: pytest.LogCaptureFixture) -> None:
    with RunningService(db) as service, service.client() as client:
        with service.store.write() as transaction:
            transaction.connection.exec_driver_sql("DROP TABLE idempotency")
        answer = client.post("/geolocations", json=FIELDS, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["type"].endswith(":storage-unavailable")
        assert '"idempotency"' not in answer.text
        assert db not in answer.text
        assert client.get("/geolocations").json() == []
    assert "idempotency" in caplog.text
