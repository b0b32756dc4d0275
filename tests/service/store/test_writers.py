"""Fifty writers at once through two services on one database, which then has what the answers said, and no more."""

import collections
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from geolookup.model.errors import RequestRefusedError
from geolookup.model.types import IPBlock
from geolookup.service.geolocations import writes
from geolookup.service.store.store import Store
from tests.support.services.running_service import FIELDS, RunningService

WRITERS = 50
CONTENDED = 4
BLOCKS = "/geolocations/ipblocks"


def block(*parts: int) -> dict[str, str]:
    address = ".".join(map(str, parts))
    return {"startip": address, "endip": address}


def replacement(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    return {**old, **{f"new{name}": text for name, text in new.items()}}


class Model:
    """What the acknowledged answers imply: which geolocations there are, each with its blocks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks: dict[int, set[str]] = {}
        #: Acknowledged requests that changed something.
        self.changes = 0
        #: Which requests of those that only one writer can win were won, how often.
        self.won: collections.Counter[str] = collections.Counter()


class Writer:
    """One client with a geolocation of its own, and its part in what all of them want."""

    def __init__(self, number: int, client: httpx.Client, model: Model, shared: int, doomed: list[int]) -> None:
        self.number = number
        self.client = client
        self.model = model
        self.shared = shared
        self.doomed = doomed
        self.own = 0

    def run(self) -> None:
        self.own = self.expect(201, "POST", "/geolocations", 0, FIELDS)["locid"]
        with self.model.lock:
            assert self.own not in self.model.blocks, "a locid was given out twice"
            self.model.blocks[self.own] = set()
        mine = [block(10, self.number, part, 1) for part in range(3)]
        for one in mine[:2]:
            self.expect(201, "POST", BLOCKS, self.own, one)
            self.model.blocks[self.own].add(one["startip"])
        self.expect(200, "PUT", BLOCKS, self.own, replacement(mine[0], mine[2]))
        self.model.blocks[self.own] ^= {mine[0]["startip"], mine[2]["startip"]}
        for turn in range(CONTENDED):
            self.contend((self.number + turn) % CONTENDED)
        if self.number % 3 == 0:
            counts = self.expect(200, "DELETE", BLOCKS, self.own)
            assert counts["customerDefinedMatchingBlocks"] == len(self.model.blocks[self.own])
            self.model.blocks[self.own].clear()
        if self.number % 5 == 0:
            self.expect(200, "DELETE", "/geolocations", self.own)
            with self.model.lock:
                del self.model.blocks[self.own]

    def contend(self, which: int) -> None:
        """Try what only one writer can do."""
        wanted, there, mine = block(10, 200, which, 1), block(10, 201, which, 1), block(10, 202, which, self.number)
        if self.wins(f"create {which}", (201, 409), "POST", BLOCKS, self.own, wanted):
            self.model.blocks[self.own].add(wanted["startip"])
        if self.wins(f"replace {which}", (200, 404), "PUT", BLOCKS, self.shared, replacement(there, mine)):
            with self.model.lock:
                self.model.blocks[self.shared] ^= {there["startip"], mine["startip"]}
        if self.wins(f"delete {which}", (200, 404), "DELETE", "/geolocations", self.doomed[which]):
            with self.model.lock:
                del self.model.blocks[self.doomed[which]]

    def wins(self, what: str, statuses: tuple[int, int], *request: object) -> bool:
        answer = self.send(*request)
        assert answer.status_code in statuses, answer.text
        if answer.status_code == statuses[1]:
            return False
        with self.model.lock:
            self.model.changes += 1
            self.model.won[what] += 1
        return True

    def expect(self, status: int, *request: object) -> dict[str, int]:
        answer = self.send(*request)
        assert answer.status_code == status, answer.text
        with self.model.lock:
            self.model.changes += 1
        return dict(answer.json())

    def send(self, method: object, path: object, locid: object, body: object = None) -> httpx.Response:
        query = {"locid": str(locid)} if locid else {}
        return self.client.request(str(method), str(path), params=query, json=body)


def blocks_of(service: RunningService) -> dict[int, set[str]]:
    with service.client() as client:
        places = client.get("/geolocations").raise_for_status().json()
    assert all(one["startip"] == one["endip"] for place in places for one in place["ipblocks"])
    found = {place["locid"]: [one["startip"] for one in place["ipblocks"]] for place in places}
    assert all(len(blocks) == len(set(blocks)) for blocks in found.values())
    return {locid: set(blocks) for locid, blocks in found.items()}


def test_after_fifty_writers_the_database_is_what_the_answers_said(db: str) -> None:
    model = Model()
    with RunningService(db) as one, RunningService(db, worker=True) as two:
        contended = [block(10, 201, which, 1)["startip"] for which in range(CONTENDED)]
        shared = one.create(*((address, address) for address in contended))
        doomed = [two.create() for _ in range(CONTENDED)]
        model.blocks = {shared: set(contended), **{locid: set() for locid in doomed}}
        model.changes = 1 + len(contended) + len(doomed)

        def write(number: int) -> None:
            with (one, two)[number % 2].client() as client:
                Writer(number, client, model, shared, doomed).run()

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        assert blocks_of(one) == blocks_of(two) == model.blocks
        snapshot = one.store.snapshot()
        snapshot.close()
        assert snapshot.revision == model.changes
    contests = [f"{what} {which}" for what in ("replace", "delete") for which in range(CONTENDED)]
    assert {what: model.won[what] for what in contests} == dict.fromkeys(contests, 1)
    # A block that was created is free again once its owner deleted it, so these may be won more than once.
    assert all(model.won[f"create {which}"] >= 1 for which in range(CONTENDED))


def test_a_write_sees_what_another_service_was_about_to_keep_when_it_began(db: str) -> None:
    found: list[object] = []

    def create(store: Store) -> None:
        try:
            with store.write() as transaction:
                found.append(transaction.revision)
                writes.create_block(transaction, -1, IPBlock.parse("10.0.0.1"))
        except RequestRefusedError as error:
            found.append(error.problem)

    with Store.open(db) as one, Store.open(db, worker=True) as two:
        with one.write() as transaction:
            assert writes.create(transaction, FIELDS) == -1
            writes.create_block(transaction, -1, IPBlock.parse("10.0.0.1"))
            thread = threading.Thread(target=create, args=(two,))
            thread.start()
            thread.join(0.3)  # long enough for it to go wrong, were it not to wait
            assert not found
        thread.join()
    assert found == [1, "block-exists"]
