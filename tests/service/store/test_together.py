"""Writes that come at the same time share a commit: each is durable before its `with` ends, and fails by itself."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event, select

from geolookup.model.errors import RequestRefusedError
from geolookup.model.types import IPBlock
from geolookup.service.geolocations import writes
from geolookup.service.store import store as store_module
from geolookup.service.store.schema import geolocations
from geolookup.service.store.store import Line, Store, Transaction
from tests.support.services.running_service import FIELDS

BLOCK = IPBlock.parse("10.0.0.0/24")


@pytest.fixture
def store(db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(store_module, "_MOST_S", 60.0)  # a machine under load is no reason for another commit
    with Store.open(db) as store:
        yield store


def there(store: Store) -> set[int]:
    """What everybody can see."""
    with contextlib.closing(store.snapshot()) as snapshot:
        return set(snapshot.connection.execute(select(geolocations.c.locid)).scalars())


def commits(store: Store) -> list[None]:
    found: list[None] = []
    event.listen(store._database.writer, "commit", lambda _connection: found.append(None))
    return found


def together(store: Store, *actions: Callable[[Transaction], Any]) -> list[Future[Any]]:
    """Have writes wait for each other in this order, so that they share what they can."""
    begun, go_on = threading.Event(), threading.Event()

    def write(action: Callable[[Transaction], Any]) -> Any:
        with store.write() as transaction:
            if action is actions[0]:
                begun.set()
                assert go_on.wait(30)
            return action(transaction)

    with ThreadPoolExecutor(len(actions)) as pool:
        results = [pool.submit(write, actions[0])]
        assert begun.wait(30)
        for number, action in enumerate(actions[1:], 1):
            results.append(pool.submit(write, action))
            while len(store._line._waiting) < number:
                time.sleep(0.001)
        go_on.set()
    return results


def create(transaction: Transaction) -> int:
    return writes.create(transaction, FIELDS)


def test_writes_that_wait_for_each_other_share_one_commit(store: Store) -> None:
    counted = commits(store)
    made = {result.result() for result in together(store, *[create] * 6)}
    assert len(counted) == 1
    assert there(store) == made
    assert len(made) == 6
    with store.write() as transaction:
        assert transaction.revision == 6


def test_each_sees_the_revision_that_the_one_before_it_left(store: Store) -> None:
    def note(transaction: Transaction) -> int:
        create(transaction)
        return transaction.revision

    def only_look(transaction: Transaction) -> int:
        return transaction.revision

    assert [result.result() for result in together(store, note, only_look, note, note)] == [0, 1, 1, 2]


def test_a_refusal_undoes_its_own_write_only(store: Store) -> None:
    def refused(transaction: Transaction) -> None:
        create(transaction)
        writes.require_custom(transaction, -99)

    def fails(transaction: Transaction) -> None:
        create(transaction)
        raise ZeroDivisionError

    counted = commits(store)
    results = together(store, create, refused, create, fails)
    assert len(counted) == 1
    assert there(store) == {results[0].result(), results[2].result()}
    with pytest.raises(RequestRefusedError, match="-99"):
        results[1].result()
    with pytest.raises(ZeroDivisionError):
        results[3].result()
    with store.write() as transaction:
        assert transaction.revision == 2


def test_if_the_first_fails_the_others_begin_anew(store: Store) -> None:
    def fails(transaction: Transaction) -> None:
        create(transaction)
        raise ZeroDivisionError

    results = together(store, fails, create, create)
    with pytest.raises(ZeroDivisionError):
        results[0].result()
    assert there(store) == {results[1].result(), results[2].result()}


def test_a_block_that_one_takes_is_taken_for_the_next(store: Store) -> None:
    def take(transaction: Transaction) -> int:
        locid = create(transaction)
        writes.create_block(transaction, locid, BLOCK)
        return locid

    results = together(store, take, take)
    assert there(store) == {results[0].result()}
    with pytest.raises(RequestRefusedError, match="belongs to"):
        results[1].result()


def test_if_the_commit_fails_nobody_is_told_that_it_went_well(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(transaction: Transaction) -> None:
        writes.require_custom(transaction, -99)

    def fail(_connection: object) -> None:
        raise RequestRefusedError("the disk is full", problem="storage-unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_commit", fail)
        results = together(store, create, create, refused, create)
    # Not even the refusal: it may have been caused by a write that is gone.
    for result in results:
        with pytest.raises(RequestRefusedError, match="the disk is full") as found:
            result.result()
        assert found.value.problem == "storage-unavailable"
    assert there(store) == set()
    with store.write() as transaction:
        create(transaction)
    assert len(there(store)) == 1


def test_if_the_database_fails_in_one_all_that_are_not_durable_fail(store: Store) -> None:
    def broken(transaction: Transaction) -> None:
        transaction.connection.exec_driver_sql("SELECT nonsense FROM nowhere")

    results = together(store, create, create, broken, create)
    for result in results[:3]:
        with pytest.raises(RequestRefusedError) as found:
            result.result()
        assert found.value.problem == "storage-unavailable"
    assert there(store) == {results[3].result()}


def test_no_more_than_so_many_wait_for_one_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MOST_TOGETHER", 2)
    counted = commits(store)
    results = together(store, *[create] * 5)
    assert len(counted) == 3
    assert there(store) == {result.result() for result in results}


def test_a_load_shares_with_nobody(store: Store) -> None:
    began, go_on, counted = threading.Event(), threading.Event(), commits(store)

    def load() -> None:
        with store.write(wait_s=60.0) as transaction:
            create(transaction)

    def write() -> set[int]:
        with store.write() as transaction:
            began.set()
            assert go_on.wait(30)
            made = create(transaction)
        return {made} & there(store)

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(write)
        assert began.wait(30)
        loading = pool.submit(load)
        while not store._line._waiting:
            time.sleep(0.001)
        last = pool.submit(write)
        while len(store._line._waiting) < 2:
            time.sleep(0.001)
        go_on.set()
        assert (len(first.result()), len(last.result()), loading.result()) == (1, 1, None)
    assert len(counted) == 3


def test_what_a_write_did_can_be_seen_by_everybody_once_it_has_ended(store: Store) -> None:
    def write(_number: int) -> bool:
        with store.write() as transaction:
            made = create(transaction)
        return made in there(store)

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(write, range(60)))


# The line


def test_the_line_lets_one_in_at_a_time_and_in_order() -> None:
    line, inside, order = Line(), threading.Lock(), []
    line.take(1.0, shares=True)

    def come(number: int) -> None:
        line.take(30.0, shares=True)
        assert inside.acquire(blocking=False)
        order.append(number)
        inside.release()
        line.leave()

    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            pool.submit(come, number)
            while len(line._waiting) <= number:
                time.sleep(0.001)
        line.leave()
    assert order == list(range(8))
    line.take(0.0, shares=False)


def test_who_waits_for_too_long_is_no_longer_in_the_line() -> None:
    line = Line()
    line.take(1.0, shares=True)
    with pytest.raises(TimeoutError):
        line.take(0.01, shares=True)
    assert not line.hand_over()
    line.leave()
    line.take(0.0, shares=True)


def test_who_is_let_in_at_the_moment_that_its_time_is_over_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    line.take(1.0, shares=True)
    turn = type("Turn", (), {})

    class Late:
        """A turn that comes right after its time was over."""

        shares = True

        def __init__(self, **_: object) -> None:
            self.turn = turn()
            self.turn.acquire = self.acquire
            self.turn.release = lambda: None

        def acquire(self, timeout: float) -> bool:
            del timeout
            assert line.hand_over()
            return False

    monkeypatch.setattr("geolookup.service.store.store._Waiting", Late)
    line.take(0.01, shares=True)


def test_only_who_shares_is_handed_what_is_not_finished() -> None:
    line = Line()
    line.take(1.0, shares=True)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(line.take, 30.0, shares=False)
        while not line._waiting:
            time.sleep(0.001)
        assert not line.hand_over()
        line.leave()
        waits.result()
