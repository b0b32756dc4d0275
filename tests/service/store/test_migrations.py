"""The tables of every released version become today's, in place; those of a later one are left alone."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, inspect

from geolookup.errors import ServiceError
from geolookup.service.store import schema
from geolookup.service.store.store import Store
from tests.support.services.postgres import PostgresServer
from tests.support.services.running_service import RunningService

#: As geolookup 0.1 created it, on SQLite alone; with a default and a custom geolocation, one more deleted.
VERSION_1 = """
CREATE TABLE meta (
    id INTEGER NOT NULL CONSTRAINT one_row CHECK (id = 1),
    schema_version INTEGER NOT NULL,
    uuid VARCHAR(32) NOT NULL,
    revision BIGINT NOT NULL,
    last_custom BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE geolocations (
    locid BIGINT NOT NULL,
    country TEXT NOT NULL,
    region TEXT NOT NULL,
    city TEXT NOT NULL,
    postalcode TEXT NOT NULL,
    latitude FLOAT,
    longitude FLOAT,
    dmacode TEXT NOT NULL,
    areacode TEXT NOT NULL,
    country_key TEXT NOT NULL,
    region_key TEXT NOT NULL,
    city_key TEXT NOT NULL,
    postalcode_key TEXT NOT NULL,
    PRIMARY KEY (locid)
);
CREATE TABLE idempotency (
    "key" VARCHAR(255) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    status SMALLINT NOT NULL,
    answer BLOB NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY ("key")
);
CREATE INDEX ix_idempotency_created ON idempotency (created);
CREATE TABLE ipblocks (
    locid BIGINT NOT NULL,
    family SMALLINT NOT NULL,
    startipnum VARCHAR(39) NOT NULL,
    endipnum VARCHAR(39) NOT NULL,
    startip VARCHAR(45) NOT NULL,
    endip VARCHAR(45) NOT NULL,
    PRIMARY KEY (locid, family, startipnum, endipnum),
    FOREIGN KEY(locid) REFERENCES geolocations (locid) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_custom_owner ON ipblocks (family, startipnum, endipnum) WHERE locid < 0;
PRAGMA journal_mode = WAL;
INSERT INTO meta VALUES (1, 1, '0123456789abcdef0123456789abcdef', 12, -2);
INSERT INTO geolocations VALUES (1, 'DE', '', '', '', NULL, NULL, '', '', 'de', '', '', '');
INSERT INTO geolocations VALUES (-1, 'US', 'TX', 'Austin', '78701', 30.25, -97.75, '635', '512',
    'us', 'tx', 'austin', '78701');
INSERT INTO ipblocks VALUES (-1, 4, '0167772160', '0167772161', '10.0.0.0', '10.0.0.1');
"""


def create(path: Path, script: str) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def shape(path: Path) -> object:
    """Every table, column, key and index, without the spelling and the order in which they were made."""
    engine = create_engine(f"sqlite:///{path}")
    found = MetaData()
    found.reflect(engine)
    columns = {
        (table.name, column.name, str(column.type), column.nullable, column.primary_key, str(column.server_default))
        if column.server_default is None
        else (table.name, column.name, str(column.type), column.nullable, str(column.server_default.arg))  # type: ignore[attr-defined]
        for table in found.tables.values()
        for column in table.c
    }
    indexes = {
        (table.name, index.name, tuple(index.columns.keys()))
        for table in found.tables.values()
        for index in table.indexes
    }
    keys = {(table.name, str(key.target_fullname)) for table in found.tables.values() for key in table.foreign_keys}
    engine.dispose()
    return columns, indexes, keys


def test_a_version_1_file_is_migrated_in_place_and_keeps_all_that_it_has(tmp_path: Path) -> None:
    path = create(tmp_path / "x.db", VERSION_1)
    with RunningService(path) as service, service.client() as client:
        custom, default = client.get("/geolocations").json()
        assert service.store.uuid == "0123456789abcdef0123456789abcdef"
        with contextlib.closing(service.store.snapshot()) as snapshot:
            assert (snapshot.revision, snapshot.default_revision) == (12, 0)
        assert (custom["locid"], custom["city"], default["country"]) == (-1, "Austin", "DE")
        assert custom["ipblocks"][0]["startip"] == "10.0.0.0"
        assert service.create() == -3


def test_a_migrated_file_has_the_shape_of_a_new_one(tmp_path: Path) -> None:
    path = create(tmp_path / "x.db", VERSION_1)
    for name in (path, tmp_path / "new.db"):
        Store.open(name).close()
    assert shape(path) == shape(tmp_path / "new.db")


def test_a_migration_that_fails_leaves_the_file_at_its_version(tmp_path: Path) -> None:
    path = create(tmp_path / "x.db", VERSION_1 + "CREATE TABLE rate_plans (in_the_way INTEGER);")
    with pytest.raises(ServiceError, match="rate_plans"):
        Store.open(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT schema_version FROM meta").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'hotel%'").fetchone() == (0,)


def test_a_newer_file_is_refused_by_its_version_before_anything_is_touched(tmp_path: Path) -> None:
    newer = VERSION_1.replace("(1, 1, '0123", "(1, 99, '0123").replace("journal_mode = WAL", "journal_mode = DELETE")
    path = create(tmp_path / "x.db", newer)
    before = path.read_bytes()
    with pytest.raises(ServiceError, match="schema version 99"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_newer_postgresql_database_is_refused_by_its_version(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        Store.open(url).close()
        postgres_server.execute("UPDATE meta SET schema_version = 99", database=url.split("/")[3].split("?")[0])
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
