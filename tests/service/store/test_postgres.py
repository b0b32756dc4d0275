"""What only PostgreSQL has: a URL with secrets, several services at once, and a server that comes and goes."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from geolookup.model.errors import MissingExtraError, RequestRefusedError, ServiceError
from geolookup.service.geolocations import search, writes
from geolookup.service.geolocations.loader import load_files
from geolookup.service.geolocations.search import Filter
from geolookup.service.store.postgres import PostgreSQL
from geolookup.service.store.store import Store
from tests.support.services.postgres import PostgresServer, require
from tests.support.services.running_service import FIELDS, RunningService


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server for a test that kills it, which writes as one should that may be killed."""
    require()
    server = PostgresServer(careful=True)
    yield server
    server.stop()


def name_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("mysql://user:geheim@host/name", "mysql:// is neither"),
        ("postgresql+asyncpg://user:geheim@host/name", "is neither"),
        ("postgresql://user:geheim@host:port/name", "cannot be read"),
        ("postgresql://user:geheim@127.0.0.1:1/name", "postgresql://user@127.0.0.1:1/name: "),
        ("postgresql://user@127.0.0.1:1/name?password=geheim", "postgresql://user@127.0.0.1:1/name: "),
        ("postgresql://user@127.0.0.1:1/name?nonsense=geheim&password=geheim", "nonsense"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, what: str) -> None:
    require()
    with pytest.raises(ServiceError) as refused:
        Store.open(url)
    assert what in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_the_password_may_come_from_the_environment_and_shows_nowhere(
    postgres_server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PGPASSWORD", "geheim")
    with Store.open(url.replace("postgres@", "postgres:ganzgeheim@")) as store:
        assert "geheim" not in f"{store.name} {store!r} {vars(store)}"
        postgres_server.execute("DROP TABLE meta", database=name_of(url))
        with pytest.raises(RequestRefusedError) as refused:
            store.snapshot()
    assert "geheim" not in f"{refused.value} {caplog.text}"


def test_a_database_in_another_encoding_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with pytest.raises(ServiceError, match="encoding LATIN1"):
            Store.open(postgres_server.url("latin"))
    finally:
        postgres_server.execute("DROP DATABASE latin WITH (FORCE)")


def test_a_schema_that_is_not_there_is_named_with_what_to_do(url: str, postgres_server: PostgresServer) -> None:
    in_schema = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dours"
    with pytest.raises(ServiceError, match=r"the schema ours is missing, or this user may not use it: .*CREATE SCHEMA"):
        Store.open(in_schema)
    postgres_server.execute("CREATE SCHEMA ours", database=name_of(url))
    Store.open(in_schema).close()


def test_a_message_that_quotes_the_password_is_told_without_it() -> None:
    for url in ("postgresql://user:geheim@127.0.0.1/name", "postgresql://user@127.0.0.1/name?password=geheim"):
        with contextlib.closing(PostgreSQL(url)) as database:
            told = str(database.failure(ValueError("cannot use password='geheim'")))
            assert told == "postgresql://user@127.0.0.1/name: cannot use password='***'"


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as Python itself says that a package is not there
    with pytest.raises(MissingExtraError, match=r"geolookup\[postgres\]"):
        Store.open("postgresql://user@127.0.0.1:1/name")


def test_more_lists_at_once_than_a_process_may_have_connections_are_503(url: str) -> None:
    with Store.open(url) as store, contextlib.ExitStack() as stack:
        store._database.reader.pool._timeout = 0.05  # type: ignore[attr-defined]
        for _ in range(20):
            stack.enter_context(contextlib.closing(store.snapshot()))
        with pytest.raises(RequestRefusedError) as refused:
            store.snapshot()
        assert refused.value.problem == "storage-unavailable"


def test_locids_come_from_a_sequence_that_no_rollback_turns_back(url: str) -> None:
    def create_and_fail(store: Store) -> None:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
            raise ZeroDivisionError

    with Store.open(url) as one, Store.open(url) as two:
        with one.write() as transaction:
            assert writes.create(transaction, FIELDS) == -1
        with pytest.raises(ZeroDivisionError):
            create_and_fail(two)
        with one.write() as transaction:
            assert writes.create(transaction, FIELDS) == -3


def test_a_precondition_holds_across_services(url: str) -> None:
    with RunningService(url) as one, RunningService(url) as two, one.client() as first, two.client() as second:
        tag = first.get("/geolocations").headers["etag"]
        assert second.get("/geolocations", headers={"If-None-Match": tag}).status_code == 304
        locid = two.create()
        assert first.get("/geolocations", headers={"If-None-Match": tag}).status_code == 200
        stale = first.delete(f"/geolocations?locid={locid}", headers={"If-Match": tag})
        assert stale.status_code == 412
        now = second.get("/geolocations").headers["etag"]
        assert first.delete(f"/geolocations?locid={locid}", headers={"If-Match": now}).status_code == 200


def test_equal_etags_mean_equal_lists_while_two_services_write(url: str) -> None:
    seen: dict[str, bytes] = {}
    doubtful: list[str] = []
    done = threading.Event()

    def read(store: Store) -> None:
        while not done.is_set():
            with contextlib.closing(store.snapshot()) as snapshot:
                tag = search.etag(store, snapshot.revision, Filter())
                body = b"".join(search.encode(snapshot, Filter()))
            if seen.setdefault(tag, body) != body:
                doubtful.append(tag)

    def write(store: Store) -> None:
        for _ in range(40):
            with store.write() as transaction:
                writes.create(transaction, FIELDS)

    with Store.open(url) as one, Store.open(url) as two:
        readers = [threading.Thread(target=read, args=(store,)) for store in (one, two)]
        writers = [threading.Thread(target=write, args=(store,)) for store in (one, two)]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
        with contextlib.closing(one.snapshot()) as snapshot:
            assert snapshot.revision == 80
    assert not doubtful
    assert len(seen) > 2
    for tag, body in seen.items():
        assert len(json.loads(body)) == int(tag.split("-")[2])  # each transaction made one more


def test_services_that_load_at_once_load_once(url: str, tmp_path: Path) -> None:
    csv = tmp_path / "x.csv"
    csv.write_text("startip,endip,country\n10.0.0.0,10.0.0.1,US\n10.1.0.0,10.1.0.1,DE\n")
    added: list[int] = []
    together = threading.Barrier(4)

    def start() -> None:
        with Store.open(url) as store:
            together.wait()
            added.append(load_files(store, [csv]).geolocations_added)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [0, 0, 0, 2]


def test_connections_that_were_lost_are_replaced_without_a_failure(postgres_server: PostgresServer, url: str) -> None:
    with Store.open(url) as store:
        for _ in range(2):
            with store.write() as transaction:
                locid = writes.create(transaction, FIELDS)
            store.snapshot().close()
            postgres_server.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(url)}'"
            )
        assert locid == -2


def test_a_snapshot_that_was_lost_fails_the_request_as_503(postgres_server: PostgresServer, url: str) -> None:
    with Store.open(url) as store, contextlib.closing(store.snapshot()) as snapshot:
        (pid,) = snapshot.connection.exec_driver_sql("SELECT pg_backend_pid()").one()
        postgres_server.execute(f"SELECT pg_terminate_backend({pid}, 10000)")
        with pytest.raises(RequestRefusedError) as refused:
            search.count(snapshot, Filter())
        assert refused.value.problem == "storage-unavailable"
        store.snapshot().close()


def test_a_connection_lost_while_a_transaction_waits_to_begin_is_replaced(url: str) -> None:
    found: list[int] = []

    def write(store: Store) -> None:
        with store.write() as transaction:
            found.append(writes.create(transaction, FIELDS))

    def waiting(watching: psycopg.Connection[Any], but: int | None) -> int:
        """The process of the server that waits for a lock, once there is one; not ``but``."""
        for _ in range(1000):
            row = watching.execute(
                "SELECT pid FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND datname = current_database() AND pid IS DISTINCT FROM %s",
                (but,),
            ).fetchone()
            if row is not None:
                return int(row[0])
            time.sleep(0.01)
        pytest.fail("nobody waits")

    with (
        Store.open(url) as store,
        psycopg.connect(url, autocommit=True) as watching,
        psycopg.connect(url) as other,
    ):
        other.execute("SELECT revision FROM meta FOR UPDATE")
        thread = threading.Thread(target=write, args=(store,))
        thread.start()
        victim = waiting(watching, None)
        watching.execute("SELECT pg_terminate_backend(%s)", (victim,))
        waiting(watching, victim)
        other.rollback()
        thread.join()
    assert found == [-1]


def test_a_lock_that_somebody_holds_for_too_long_is_503(url: str) -> None:
    with Store.open(url) as store, psycopg.connect(url) as other:
        with store.write():
            pass
        with store._database.writer.connect() as connection:
            connection.exec_driver_sql("SET lock_timeout = 50")
            connection.commit()
        other.execute("SELECT revision FROM meta FOR UPDATE")
        with pytest.raises(RequestRefusedError, match="lock timeout") as refused, store.write():
            pass
        assert refused.value.problem == "storage-unavailable"


def test_a_connection_lost_at_the_commit_leaves_the_outcome_unknown(postgres_server: PostgresServer, url: str) -> None:
    def write_and_lose(store: Store) -> None:
        with store.write() as transaction:
            writes.create(transaction, FIELDS)
            transaction.changed = False  # so that nothing is left to do but to commit
            (pid,) = transaction.connection.exec_driver_sql("SELECT pg_backend_pid()").one()
            postgres_server.execute(f"SELECT pg_terminate_backend({pid}, 10000)")

    with Store.open(url) as store:
        with pytest.raises(RequestRefusedError) as refused:
            write_and_lose(store)
        assert refused.value.problem == "outcome-unknown"
        with store.write() as transaction:
            assert transaction.revision == 0


def test_a_service_outlives_its_server_and_loses_nothing_acknowledged(own_server: PostgresServer) -> None:
    with own_server.database() as url, RunningService(url) as service, service.client() as client:
        acknowledged: list[int] = []
        stop = threading.Event()

        def write() -> None:
            with service.client() as own:
                while not stop.is_set():
                    answer = own.post("/geolocations", json=FIELDS)
                    if answer.status_code == 201:
                        acknowledged.append(answer.json()["locid"])
                    else:
                        assert answer.status_code == 503
                        assert answer.headers["content-type"] == "application/problem+json"

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 40:
            assert any(thread.is_alive() for thread in threads)
        own_server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        for method, path in (("GET", "/geolocations"), ("HEAD", "/geolocations"), ("DELETE", "/geolocations?locid=-1")):
            answer = client.request(method, path)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
        own_server.start()
        there = {place["locid"] for place in client.get("/geolocations").raise_for_status().json()}
        assert there >= set(acknowledged)
        assert service.create() < min(there)


# The tests' own server


def test_the_next_test_finds_a_database_empty_and_nobody_connected(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first:
        left = psycopg.connect(first, autocommit=True)
        left.execute("CREATE TABLE meta (revision int)")
        left.execute("SELECT pg_advisory_lock(1)")
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
    with postgres_server.database() as again, psycopg.connect(again) as connection:
        assert again == first
        assert connection.execute("SELECT relname FROM pg_class WHERE relname = 'meta'").fetchall() == []
        assert connection.execute("SELECT pg_try_advisory_lock(1)").fetchall() == [(True,)]


@pytest.mark.parametrize(
    "change", ["CREATE SCHEMA another", "ALTER DATABASE {name} SET default_transaction_read_only = on"]
)
def test_a_database_that_cannot_be_made_as_new_is_not_used_again(postgres_server: PostgresServer, change: str) -> None:
    with postgres_server.database() as first:
        postgres_server.execute(change.format(name=name_of(first)), database=name_of(first))
    with postgres_server.database() as other:
        assert other != first
