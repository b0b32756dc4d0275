"""The compiled index follows its database: what other processes write, what fails, what workers share."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from geolookup.lookup.snapshot import match_in
from geolookup.model.addresses import parse
from geolookup.model.errors import RequestRefusedError
from geolookup.model.types import IPBlock
from geolookup.service import lookup_index
from geolookup.service.geolocations import writes
from geolookup.service.geolocations.loader import load_files
from geolookup.service.lookup_index import Layers, LookupIndex, _Job
from geolookup.service.store.store import Store
from geolookup.state.base.files import lock
from tests.support.services.postgres import PostgresServer
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS


@pytest.fixture(autouse=True)
def soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups follow ten times as fast as they do, but where a test says ``usual``."""
    if "usual" not in request.fixturenames:
        for name in ("LOOK_INTERVAL_S", "_OLDEST_S"):
            monkeypatch.setattr(lookup_index, name, getattr(lookup_index, name) / 10)


@pytest.fixture
def usual() -> None:
    """Lookups follow as they do."""


@pytest.fixture
def store(db: str, tmp_path: Path) -> Iterator[Store]:
    """A database with two default geolocations."""
    (tmp_path / "defaults.csv").write_text(DEFAULTS)
    with Store.open(db) as store:
        load_files(store, [tmp_path / "defaults.csv"])
        yield store


@pytest.fixture
def index(store: Store) -> Iterator[LookupIndex]:
    with contextlib.closing(LookupIndex(store)) as index:
        yield index


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir()
    return str(tmp_path / "shared")


def create(store: Store, *ranges: str) -> int:
    """A custom geolocation with blocks, written as an operation would."""
    with store.write() as transaction:
        locid = writes.create(transaction, FIELDS)
        for one in ranges:
            writes.create_block(transaction, locid, IPBlock.parse(*one.split("-")))
    return locid


def load(store: Store, tmp_path: Path, country: str, *ranges: tuple[str, str]) -> None:
    path = tmp_path / f"{country}.csv"
    rows = [f"{first},{last},{country}" for first, last in ranges]
    path.write_text("\n".join(["startip,endip,country", *rows]) + "\n")
    load_files(store, [path])


def a_while(index: LookupIndex) -> None:
    """Wait as long as lookups may be behind, here where `soon` makes that a tenth of the second that is promised.

    On a busy machine, where a look takes long, that is longer.
    """
    time.sleep(0.1)
    while time.monotonic() < max(index._look_at, index._as_of + lookup_index._OLDEST_S):
        time.sleep(0.01)


def found(layers: Layers, address: str) -> tuple[int, str] | None:
    """Locid and country of an address."""
    one = match_in(layers.base, layers.custom, address, *parse(address))
    return None if one is None else (one.geolocation.locid, one.geolocation.country)


def ask(index: LookupIndex, address: str) -> tuple[int, str] | None:
    return found(asyncio.run(index.layers()), address)


def until(index: LookupIndex, address: str, country: str, locid: int | None = None) -> Layers:
    """The layers in which the address has the country, and the locid if one is given: for what no lookup waits for."""
    for _ in range(1000):
        layers = asyncio.run(index.layers())
        now = found(layers, address)
        if now is not None and now == (now[0] if locid is None else locid, country):
            return layers
        time.sleep(0.02)
    raise AssertionError(f"{address} is {now} for good")


def start_until_ready(index: LookupIndex) -> None:
    for _ in range(1000):
        index.start()
        if index.is_ready:
            return
        time.sleep(0.02)
    raise AssertionError("it never was ready")


def test_the_first_lookup_waits_for_a_small_database_to_be_compiled(index: LookupIndex) -> None:
    assert not index.is_ready
    assert ask(index, "192.0.2.1") == (1, "US")
    assert index.is_ready


def test_what_another_process_committed_a_second_ago_is_seen_by_the_first_lookup(
    store: Store, index: LookupIndex, usual: None
) -> None:
    assert ask(index, "192.0.2.1") == (1, "US")
    # Not by way of anything that this index could be told by.
    locid = create(store, "192.0.2.0-192.0.2.1")
    time.sleep(1)
    assert ask(index, "192.0.2.1") == (locid, "US")
    with store.write() as transaction:
        writes.remove(transaction, locid)
    time.sleep(1)
    assert ask(index, "192.0.2.1") == (1, "US")


def test_a_look_that_ends_before_it_is_waited_for_answers(
    store: Store, index: LookupIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(index, "192.0.2.1")
    locid = create(store, "192.0.2.0-192.0.2.1")
    a_while(index)
    begin = index._begin

    def begin_and_end(work: Callable[[], None]) -> _Job | None:
        if (job := begin(work)) is not None:
            job.thread.join()
        return job

    monkeypatch.setattr(index, "_begin", begin_and_end)
    assert ask(index, "192.0.2.1") == (locid, "US")


def test_two_services_on_one_database_see_what_the_other_one_wrote(postgres_server: PostgresServer) -> None:
    with (
        postgres_server.database() as url,
        RunningService(url) as one,
        RunningService(url) as other,
        other.client() as client,
    ):
        assert client.get("/lookup/10.0.0.1").json()["locid"] is None
        locid = one.create(("10.0.0.0", "10.0.0.9"))
        for _ in range(200):
            if (seen := client.get("/lookup/10.0.0.1").json()["locid"]) == locid:
                break
            time.sleep(0.05)
        assert seen == locid


def test_lookups_at_the_same_time_start_one_look_and_are_answered_by_it(store: Store, index: LookupIndex) -> None:
    ask(index, "192.0.2.1")
    locid = create(store, "192.0.2.0-192.0.2.1")
    a_while(index)

    async def together() -> tuple[int, list[Layers]]:
        with index._looking:  # so that the look lasts until all have come
            asked = [asyncio.create_task(index.layers()) for _ in range(50)]
            await asyncio.sleep(0.1)
            looks = [thread for thread in threading.enumerate() if thread.name == "geolookup-index"]
        return len(looks), await asyncio.gather(*asked)

    looks, layers = asyncio.run(together())
    assert looks == 1
    assert {id(one) for one in layers} == {id(layers[0])}
    assert found(layers[0], "192.0.2.1") == (locid, "US")


def test_a_look_that_takes_long_holds_nobody_up_for_good(store: Store, index: LookupIndex) -> None:
    ask(index, "192.0.2.1")
    create(store, "192.0.2.0-192.0.2.1")
    a_while(index)
    with index._looking:
        assert ask(index, "192.0.2.1") == (1, "US")  # what was there answers


def test_nothing_is_compiled_again_while_nothing_changes(
    store: Store, index: LookupIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_index, "LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(lookup_index, "_OLDEST_S", 0.0)
    monkeypatch.setattr(lookup_index, "_REST", 0.0)
    before = asyncio.run(index.layers())
    for _ in range(5):
        assert asyncio.run(index.layers()) is before
    create(store)
    after = asyncio.run(index.layers())
    assert after.custom is not before.custom
    assert after.base is before.base


def test_a_default_layer_that_changed_is_compiled_beside_and_custom_edits_are_seen_meanwhile(
    store: Store, folder: str, tmp_path: Path
) -> None:
    with contextlib.closing(LookupIndex(store, folder)) as index:
        assert ask(index, "203.0.113.1") is None
        load(store, tmp_path, "FR", ("203.0.113.0", "203.0.113.255"))
        with lock(os.path.join(folder, "compile.lock"), wait_s=30, busy=""):  # the default layer has to wait
            locid = create(store, "192.0.2.0-192.0.2.1")
            a_while(index)
            assert ask(index, "192.0.2.1") == (locid, "US")
            assert ask(index, "203.0.113.1") is None
        assert found(until(index, "203.0.113.1", "FR"), "192.0.2.1") == (locid, "US")


def test_until_the_first_compilation_ends_lookups_are_refused_and_told_to_come_again(store: Store, folder: str) -> None:
    with contextlib.closing(LookupIndex(store, folder)) as index:
        with lock(os.path.join(folder, "compile.lock"), wait_s=30, busy=""):
            index.start()
            for _ in range(2):
                with pytest.raises(RequestRefusedError) as refused:
                    asyncio.run(index.layers())
                assert refused.value.problem == "index-not-ready"
            assert not index.is_ready
        start_until_ready(index)
        assert ask(index, "192.0.2.1") == (1, "US")


def test_workers_share_one_file_and_the_older_one_goes_but_still_serves_who_has_it(
    store: Store, folder: str, tmp_path: Path
) -> None:
    with contextlib.closing(LookupIndex(store, folder)) as one, contextlib.closing(LookupIndex(store, folder)) as two:
        first = asyncio.run(one.layers())
        (name,) = [name for name in os.listdir(folder) if name.startswith("default-")]
        inode = os.stat(os.path.join(folder, name)).st_ino
        assert found(asyncio.run(two.layers()), "192.0.2.1") == (1, "US")
        assert os.stat(os.path.join(folder, name)).st_ino == inode  # the second did not compile it again
        Path(folder, "tmp-of-one-that-was-killed").write_bytes(b"half an index")
        load(store, tmp_path, "FR", ("203.0.113.0", "203.0.113.255"))
        until(one, "203.0.113.1", "FR")
        until(two, "203.0.113.1", "FR")
        (newer,) = [name for name in os.listdir(folder) if name != "compile.lock"]
        assert newer != name
        assert found(first, "192.0.2.1") == (1, "US")


def test_without_a_shared_folder_nothing_is_left_among_the_temporary_files(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with contextlib.closing(LookupIndex(store)) as index:
        create(store, "192.0.2.0-192.0.2.1")
        assert ask(index, "192.0.2.1") is not None
        assert os.listdir(tmp_path / "temporary") == []


def test_while_the_database_cannot_be_read_what_was_there_answers_and_then_it_follows_again(
    store: Store, index: LookupIndex, caplog: pytest.LogCaptureFixture
) -> None:
    ask(index, "192.0.2.1")
    with store.write() as transaction:
        transaction.connection.execute(text("ALTER TABLE meta RENAME TO elsewhere"))
    for _ in range(3):
        a_while(index)
        assert ask(index, "192.0.2.1") == (1, "US")
    assert index.problem
    assert len([record for record in caplog.records if "do not follow" in record.message]) == 1
    _rename_back(store)
    locid = create(store, "192.0.2.0-192.0.2.1")
    for _ in range(200):
        if ask(index, "192.0.2.1") == (locid, "US"):
            break
        time.sleep(0.05)
    assert ask(index, "192.0.2.1") == (locid, "US")
    assert index.problem is None


def _rename_back(store: Store) -> None:
    with store._database.writer.begin() as connection:  # `write` reads the table that is not there
        connection.execute(text("ALTER TABLE elsewhere RENAME TO meta"))


def test_a_folder_that_cannot_be_written_is_said_and_compiling_is_tried_again(store: Store, folder: str) -> None:
    nowhere = os.path.join(folder, "gone")
    with contextlib.closing(LookupIndex(store, nowhere)) as index:
        with pytest.raises(RequestRefusedError, match="log says why"):
            asyncio.run(index.layers())
        assert index.problem is not None
        assert "gone" in index.problem
        os.mkdir(nowhere)
        start_until_ready(index)
        assert ask(index, "192.0.2.1") == (1, "US")


def test_a_default_layer_that_cannot_be_compiled_does_not_stop_custom_edits_and_is_tried_again(
    store: Store, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(LookupIndex(store, folder)) as index:
        ask(index, "192.0.2.1")
        os.rename(folder, f"{folder}-elsewhere")
        load(store, tmp_path, "FR", ("203.0.113.0", "203.0.113.255"))
        for address in ("192.0.2.1", "192.0.2.2"):  # the second after the compilation failed
            locid = create(store, address)
            until(index, address, "US", locid)  # on a busy machine a lookup does not wait for so long
        assert ask(index, "203.0.113.1") is None
        os.rename(f"{folder}-elsewhere", folder)
        monkeypatch.setattr(index, "_compile_at", 0.0)  # as it will be in some seconds
        until(index, "203.0.113.1", "FR")


def test_closing_ends_what_is_under_way_and_gives_every_connection_back(store: Store, folder: str) -> None:
    index = LookupIndex(store, folder)
    with lock(os.path.join(folder, "compile.lock"), wait_s=30, busy=""):
        index.start()
        index.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "geolookup-index"]
    assert store.open_snapshots == 0
    index.start()
    assert not index.is_ready
