"""The tables are made once; a database of a newer release, an unreleased build or another program is left alone."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, inspect

from geolookup.model.checked import MAX_TEXT
from geolookup.model.errors import ServiceError
from geolookup.service.geolocations import search, writes
from geolookup.service.store import schema
from geolookup.service.store.sqlite import SQLite
from geolookup.service.store.store import Store
from tests.support.services.postgres import PostgresServer
from tests.support.services.running_service import FIELDS

UNRELEASED = "made by an unreleased build: name a new database, and load its files again"


def changed(path: Path, statement: str) -> bytes:
    """The bytes of a new database after a change of its schema, without the log beside it."""
    Store.open(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def test_a_newer_file_is_refused_by_its_version_before_anything_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    before = changed(path, "UPDATE meta SET version = 99")
    with pytest.raises(ServiceError, match="schema version 99"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_file_of_an_unreleased_build_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    before = changed(path, "ALTER TABLE meta RENAME COLUMN version TO schema_version")
    with pytest.raises(ServiceError, match=UNRELEASED):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_postgresql_database_of_an_unreleased_build_is_refused(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        Store.open(url).close()
        rename = "ALTER TABLE meta RENAME COLUMN version TO schema_version"
        postgres_server.execute(rename, database=url.split("/")[3].split("?")[0])
        with pytest.raises(ServiceError, match=UNRELEASED):
            Store.open(url)


def test_a_creation_of_tables_that_fails_leaves_the_file_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: SQLite, _connection: Connection) -> None:
        raise ServiceError("no")

    path = tmp_path / "x.db"
    monkeypatch.setattr(SQLite, "create_own", fail)
    with pytest.raises(ServiceError, match="no"):
        Store.open(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_newer_postgresql_database_is_refused_by_its_version(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        Store.open(url).close()
        postgres_server.execute("UPDATE meta SET version = 99", database=url.split("/")[3].split("?")[0])
        with pytest.raises(ServiceError, match="schema version 99"):
            Store.open(url)


def test_a_database_that_has_other_tables_is_refused(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        postgres_server.execute("CREATE TABLE geolocations (locid bigint)", database=url.split("/")[3].split("?")[0])
        with pytest.raises(ServiceError, match="not a database of this service"):
            Store.open(url)


def test_services_that_start_at_once_create_the_tables_once(postgres_server: PostgresServer) -> None:
    uuids: list[str] = []
    together = threading.Barrier(6)

    def start(url: str) -> None:
        together.wait()
        with Store.open(url) as store:
            uuids.append(store.uuid)

    with postgres_server.database() as url:
        threads = [threading.Thread(target=start, args=(url,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Store.open(url) as store:
            assert uuids == [store.uuid] * 6


def test_every_table_of_the_service_is_created(db: str) -> None:
    with Store.open(db) as store, contextlib.closing(store.snapshot()) as snapshot:
        assert set(inspect(snapshot.connection).get_table_names()) == set(schema.metadata.tables)
    assert schema.hotels.name in schema.metadata.tables


def test_a_list_by_the_city_reads_no_other_geolocation(tmp_path: Path) -> None:
    path = tmp_path / "db"
    changed(path, "DROP INDEX geolocations_by_city")  # as a build had it that did not know of it
    wanted = search.Filter.parse(b"country=DE&city=Bonn")
    with Store.open(path) as store, contextlib.closing(store.snapshot()) as snapshot:
        asked: list[str] = []
        connection = snapshot.connection
        event.listen(connection, "before_cursor_execute", lambda *of: asked.append(of[2]))
        search.count(snapshot, wanted)
        list(search.encode(snapshot, wanted))
        plans = [
            [
                row[3]
                for row in snapshot.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", ("x",) * sql.count("?"))
            ]
            for sql in list(asked)
        ]
    assert len(plans) == 3
    assert all("SEARCH geolocations USING INDEX geolocations_by_city (city_key=?)" in plan for plan in plans), plans
    assert not any("SCAN ipblocks" in step or "SCAN geolocations" in step for plan in plans for step in plan), plans


def test_a_city_of_any_length_is_kept_and_found(db: str) -> None:
    city = "".join(map(chr, range(0x4E00, 0x4E00 + MAX_TEXT)))
    with Store.open(db) as store:
        with store.write() as transaction:
            locid = writes.create(transaction, {**FIELDS, "city": city})
        with contextlib.closing(store.snapshot()) as snapshot:
            wanted = search.Filter(texts=(("city", city),))
            assert snapshot.connection.execute(wanted.locids()).scalars().all() == [locid]
            assert inspect(snapshot.connection).get_indexes("geolocations")
