"""The streamed list: bounded memory, one moment, and a snapshot that is always given back."""

import contextlib
import json
import socket
import time
import tracemalloc
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from geolookup.service.geolocations import search
from geolookup.service.geolocations.loader import load_files
from geolookup.service.geolocations.search import Filter
from geolookup.service.store.store import ReadTransaction, Store
from geolookup.web.stream import SnapshotStream
from tests.support.services.long_lists import LONG, many
from tests.support.services.postgres import PostgresServer
from tests.support.services.running_service import RunningService


def wait_until_none_is_open(store: Store) -> None:
    for _ in range(500):
        if store.open_snapshots == 0:
            return
        time.sleep(0.02)
    pytest.fail("a snapshot stayed open")


def peak(store: Store) -> tuple[int, int]:
    """Bytes of the whole list, and the most that Python held while making it."""
    snapshot = store.snapshot()
    tracemalloc.start()
    try:
        size = sum(map(len, search.encode(snapshot, Filter())))
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        snapshot.close()


@pytest.mark.parametrize("shape", [(6000, 10), (1, 60000)], ids=["many geolocations", "one with many blocks"])
def test_the_memory_of_a_list_does_not_grow_with_it(db: str, tmp_path: Path, shape: tuple[int, int]) -> None:
    geolocations, blocks = shape
    with Store.open(db) as store:
        load_files(store, [many(tmp_path / "x.csv", geolocations=geolocations, blocks=blocks)])
        size, most = peak(store)
    assert size > 5_000_000
    assert most < 3_000_000


def test_pieces_are_of_one_size_whatever_the_size_of_a_geolocation(db: str, tmp_path: Path) -> None:
    with Store.open(db) as store:
        load_files(store, [many(tmp_path / "x.csv", geolocations=3, blocks=9000)])
        snapshot = store.snapshot()
        pieces = list(search.encode(snapshot, Filter()))
        snapshot.close()
    assert len(pieces) > 10
    assert max(map(len, pieces)) < 2 * search.CHUNK_BYTES
    assert [len(place["ipblocks"]) for place in json.loads(b"".join(pieces))] == [9000] * 3


def test_postgresql_sends_the_list_from_cursors_as_it_is_taken(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with postgres_server.database() as url, Store.open(url) as store:
        load_files(store, [many(tmp_path / "x.csv", geolocations=3, blocks=9000)])
        with contextlib.closing(store.snapshot()) as snapshot:
            pieces = search.encode(snapshot, Filter())
            next(pieces)
            # Without them the driver would hold all rows in memory that Python's accounts do not show.
            ours = "SELECT count(*) FROM pg_cursors WHERE statement NOT LIKE '%%pg_cursors%%'"
            assert snapshot.connection.exec_driver_sql(ours).scalar() == 2
            assert len(list(pieces)) > 10


def test_a_write_during_a_slow_stream_does_not_show_in_it(db: str, tmp_path: Path) -> None:
    csv = many(tmp_path / "x.csv", geolocations=200, blocks=200)
    with RunningService(db, load=[csv]) as service, service.client() as client:
        with client.stream("GET", "/geolocations") as slow:
            pieces = slow.iter_raw(65536)
            body = next(pieces)
            locid = service.create(("10.0.0.0", "10.0.0.1"))
            load_files(service.store, [many(tmp_path / "y.csv", geolocations=201, blocks=1)])
            body += b"".join(pieces)
        places = json.loads(body)
        assert len(places) == 200 == int(slow.headers["x-total-count"])
        assert all(len(place["ipblocks"]) == 200 for place in places)
        after = client.get("/geolocations")
        assert after.headers["etag"] != slow.headers["etag"]
        assert {locid, 201} < {place["locid"] for place in after.json()}
        wait_until_none_is_open(service.store)


def test_a_client_that_leaves_gives_its_snapshot_back(db: str, tmp_path: Path) -> None:
    csv = many(tmp_path / "x.csv", geolocations=2, blocks=LONG)
    with RunningService(db, load=[csv]) as service:
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
            assert service.store.open_snapshots >= 1
        wait_until_none_is_open(service.store)


def test_a_client_that_takes_nothing_is_dropped_in_the_end(db: str) -> None:
    sent = []

    async def take_only_the_head(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await anyio.sleep_forever()

    async def say_nothing() -> Any:
        await anyio.sleep_forever()

    with Store.open(db) as store:
        snapshot = store.snapshot()
        answer = SnapshotStream(iter([b"[", b"]"]), snapshot, headers={}, stall_s=0.01)
        anyio.run(answer.__call__, {"type": "http"}, say_nothing, take_only_the_head)
        assert store.open_snapshots == 0
    assert sent == ["http.response.start", "http.response.body"]  # and no end: a client must not think it whole


@pytest.mark.parametrize("query", ["", "?top=1", "?top=0"])
def test_no_answer_leaves_a_snapshot_open(service: RunningService, query: str) -> None:
    with service.client() as client:
        tag = client.get(f"/geolocations{query}").headers.get("etag", '"none"')
        client.get(f"/geolocations{query}", headers={"If-None-Match": tag})
        client.head(f"/geolocations{query}")
    wait_until_none_is_open(service.store)


def test_a_304_reads_no_rows(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("rows were read")

    with service.client() as client:
        tag = client.get("/geolocations").headers["etag"]
        monkeypatch.setattr(search, "count", read)
        monkeypatch.setattr(search, "encode", read)
        assert client.get("/geolocations", headers={"If-None-Match": tag}).status_code == 304


def test_a_failure_in_mid_stream_cuts_the_answer_short(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_snapshot: ReadTransaction, _wanted: Filter) -> object:
        yield b"["
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(search, "encode", fail)
    with service.client() as client, pytest.raises(httpx.RemoteProtocolError):
        client.get("/geolocations")
    wait_until_none_is_open(service.store)
