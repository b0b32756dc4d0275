"""Edits that go out over several connections at the same time: how many, their threads, and what a failure leaves."""

import _thread
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import UpstreamRefusedError, UpstreamUnavailableError
from geolookup.state.base import clock
from geolookup.sync.push import courier
from geolookup.sync.push import push as push_module
from geolookup.upstream import connections as connections_module
from geolookup.upstream.connections import Batch, Connections, Request
from geolookup.upstream.geolocations import GeolocationsClient
from tests.support.interleaved import interleave
from tests.sync.push.machine import A, Machine

WRITES = ("create", "update", "delete", "create_block", "replace_block", "delete_blocks")


class Watched:
    """The requests of pushes, as they reach the client: what for, and how many are under way together.

    ``meanwhile`` is called in each with its number, counted from 1.
    """

    def __init__(self, patch: pytest.MonkeyPatch, meanwhile: Callable[[int], None] = lambda _number: None) -> None:
        self.order: list[tuple[str, Any]] = []
        self.together: list[int] = []
        self._under_way: Counter[Any] = Counter()
        self._lock = threading.Lock()
        self._meanwhile = meanwhile
        for name in WRITES:
            patch.setattr(GeolocationsClient, name, self._watching(name, getattr(GeolocationsClient, name)))

    def _watching(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def request(client: GeolocationsClient, first: Any, *more: Any, **named: Any) -> Any:
            about = first["city"] if name == "create" else first
            with self._lock:
                self.order.append((name, about))
                number = len(self.order)
                self._under_way[about] += 1
                assert self._under_way[about] == 1, f"two requests for {about} are under way together"
                self.together.append(self._under_way.total())
            try:
                self._meanwhile(number)
                return real(client, first, *more, **named)
            finally:
                with self._lock:
                    self._under_way[about] -= 1

        return request


def offices(machine: Machine, count: int, *blocks: str) -> list[int]:
    with machine.editor.transaction() as editor:
        made = [editor.create(**_fields(number)) for number in range(count)]
        for number, locid in enumerate(made):
            for block in blocks:
                editor.add_block(locid, block.format(number))
    return made


def _fields(number: int) -> dict[str, Any]:
    texts = {"country": "DE", "region": "", "city": f"Office {number}", "postalcode": "", "dmacode": "", "areacode": ""}
    return {**texts, "latitude": 52.5, "longitude": 13.4}


def test_more_are_under_way_together_only_once_the_service_answers_soon(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "_MOST_S", 60.0)
    monkeypatch.setattr(connections_module, "_SOON_S", 60.0)
    machine.settings = replace(machine.settings, push_connections=4)
    offices(machine, 80)
    watched = Watched(monkeypatch, lambda _number: time.sleep(0.005))
    assert of_push(machine.push()) == 0
    assert watched.together[:8] == [1] * 8
    assert 1 < max(watched.together) <= 4
    assert len(machine.there()) == 80


def test_a_slow_service_is_asked_over_all_connections_though_a_lot_begins_nothing_after_the_first_answers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.settings = replace(machine.settings, push_connections=4)
    offices(machine, 16)
    watched = Watched(monkeypatch, lambda _number: time.sleep(1.2 * courier._MOST_S))
    assert of_push(machine.push()) == 0
    assert max(watched.together) == 4
    assert len(machine.there()) == 16


def test_one_connection_if_that_is_all_that_is_allowed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.settings = replace(machine.settings, push_connections=1)
    offices(machine, 40)
    threads: set[int] = set()
    watched = Watched(monkeypatch, lambda _number: threads.add(threading.get_ident()))
    assert of_push(machine.push()) == 0
    assert len(threads) == 1
    assert set(watched.together) == {1}


def test_edits_of_one_geolocation_keep_their_order_over_many_connections(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_FIRST", 8)
    monkeypatch.setattr(connections_module, "_EACH", 1)
    made = offices(machine, 24, "10.0.{}.0/24", "10.1.{}.0/24")
    with machine.editor.transaction() as editor:
        for number, locid in enumerate(made):
            editor.replace_block(locid, f"10.1.{number}.0/24", None, f"10.2.{number}.0/24")
            editor.update(locid, areacode="030")
    random = Random(1)
    watched = Watched(monkeypatch, lambda _number: time.sleep(random.random() / 200))
    report = machine.push()
    assert (of_push(report), report.done) == (0, 24 * 5)
    assert max(watched.together) > 1
    of_each: dict[int, list[str]] = {}
    for name, about in watched.order:
        if name != "create":
            of_each.setdefault(about, []).append(name)
    # What a place shall be is sent, not how the person came to that: the area code goes with the create.
    assert set(map(tuple, of_each.values())) == {("create_block", "create_block")}
    wanted = sorted([f"10.0.{number}.0", f"10.2.{number}.0"] for number in range(24))
    assert sorted(machine.there().values()) == wanted
    lines = [line["edit"] for line in report.edits]
    for locid in made:
        own = [row.id for row in machine.editor.outbox() if row.locid == locid and row.intent.new is not None]
        assert lines.index(own[0]) < lines.index(own[-1])


def test_updates_and_deletes_share_a_durable_mark(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_MOST_S", 60.0)  # also on a machine that has more to do
    made = offices(machine, 3)
    assert of_push(machine.push()) == 0
    with machine.editor.transaction() as editor:
        for locid in made:
            editor.update(locid, areacode="030")
    states: list[list[str]] = []
    with monkeypatch.context() as patch:
        Watched(patch, lambda _number: states.append(machine.states()[3:]))
        assert of_push(machine.push()) == 0
    assert states[0] == ["sending"] * 3
    for locid in made:
        machine.editor.delete(locid)
    states.clear()
    Watched(monkeypatch, lambda _number: states.append(machine.states()[6:]))
    assert of_push(machine.push()) == 0
    assert states[0] == ["sending"] * 3
    assert machine.there() == {}


def test_of_updates_together_the_one_that_a_colleague_was_faster_with_is_held(
    machine: Machine, foreign: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = offices(machine, 4)
    assert of_push(machine.push()) == 0
    theirs = sorted(machine.there(), reverse=True)[1]
    foreign.put(f"/geolocations?locid={theirs}", json={**_fields(1), "areacode": "040"}).raise_for_status()
    with machine.editor.transaction() as editor:
        for locid in made:
            editor.update(locid, areacode="030")
        editor.add_block(made[1], A)
    watched = Watched(monkeypatch)
    report = machine.push()
    assert [name for name, _ in watched.order] == ["update"] * 3
    assert machine.states()[4:] == ["done", "held", "done", "done", "queued"]
    held = machine.editor.outbox()[5]
    assert held.attempts == 0
    hold = machine.editor.hold(held.id)
    assert hold is not None
    assert hold.theirs is not None
    assert "040" in hold.theirs.values
    assert [line["state"] for line in report.edits][:4] == ["done", "held", "done", "done"]


def test_what_a_look_cannot_tell_goes_alone(machine: Machine, foreign: Any) -> None:
    made = offices(machine, 4)
    assert of_push(machine.push()) == 0
    gone = sorted(machine.there(), reverse=True)[2]
    foreign.delete(f"/geolocations?locid={gone}").raise_for_status()
    with machine.editor.transaction() as editor:
        for locid in made:
            editor.delete(locid)
    report = machine.push()
    assert (of_push(report), report.done) == (0, 4)
    assert "it is gone already" in [line["reason"] for line in report.edits]
    assert machine.there() == {}


def test_after_an_answer_that_it_is_too_much_there_is_one_at_a_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "_MOST_S", 60.0)
    monkeypatch.setattr(connections_module, "_FIRST", 8)
    monkeypatch.setattr(connections_module, "_SOON_S", 60.0)
    slept: list[float] = []
    monkeypatch.setattr(clock, "sleep", slept.append)

    def busy(number: int) -> None:
        time.sleep(0.01)
        if number in range(30, 33):
            raise UpstreamUnavailableError("busy", status=429, retry_after_s=3.0)

    offices(machine, 70)
    watched = Watched(monkeypatch, busy)
    report = machine.push()
    assert (of_push(report), report.done, len(machine.there())) == (0, 70, 70)
    assert max(watched.together[:30]) > 1
    assert 3.0 in slept
    # Once for all that were refused together; and nothing was sent while it waited.
    assert len(slept) < 4
    most = 29 + 8 + 3  # what was under way, and those of them that are sent again
    first = next(at for at in range(30, most) if watched.together[at] == 1)
    assert watched.together[first : first + 8] == [1] * 8


def test_a_service_that_becomes_slow_under_many_requests_is_asked_for_fewer(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "steady_s", lambda: now[0])
    used: list[int] = []

    class OneAfterTheOther(Connections):
        """Answers one request in 0.1 s, and several after each other."""

        def ask_all(self, requests: Sequence[Request], longest_s: float) -> bool:
            used.append(at_most := min(self._at_most, len(requests)))
            batch = Batch(requests, longest_s)
            while (request := batch.take()) is not None:
                request.ask(self._client)
                request.took_s = 0.1 * at_most
                now[0] += 0.1
            self._adapt([request for request in requests if request.begun], at_most)
            return batch.in_time

    monkeypatch.setattr(push_module, "Connections", OneAfterTheOther)
    monkeypatch.setattr(connections_module, "_EACH", 1)
    offices(machine, 60)
    assert of_push(machine.push()) == 0
    assert max(used) == 4
    assert used.count(4) < len(used) / 2


@pytest.mark.parametrize("seed", range(4))
def test_of_creates_together_that_get_one_number_neither_is_believed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    interleave(monkeypatch, Random(seed), 4)
    offices(machine, 4)
    real = GeolocationsClient.create

    def create(client: GeolocationsClient, fields: Any, **named: Any) -> int:
        made = real(client, fields, **named)
        return -77 if fields["city"] in ("Office 0", "Office 3") else made

    with monkeypatch.context() as patch:
        patch.setattr(GeolocationsClient, "create", create)
        report = machine.push()
    states = machine.states()
    assert (states[0], states[3], report.unknown) == ("unknown", "unknown", 2)
    assert of_push(machine.push()) == 0
    assert len(machine.there()) == 4
    places = {laid.place.locid: laid.place.city for laid in machine.editor.custom()}
    assert sorted(places.values()) == [f"Office {number}" for number in range(4)]


def test_several_lost_answers_are_each_unknown_and_none_is_made_twice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    interleave(monkeypatch, Random(5), 4)
    offices(machine, 12)
    real = GeolocationsClient.create

    def create(client: GeolocationsClient, fields: Any, **named: Any) -> int:
        real(client, fields, **named)
        raise UpstreamUnavailableError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(GeolocationsClient, "create", create)
        report = machine.push()
    assert (report.unknown, report.queued, report.stopped is not None) == (4, 8, True)
    report = machine.push()
    assert (of_push(report), report.done, len(machine.there())) == (0, 12, 12)


def test_a_refusal_beside_others_stops_none_of_them(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_FIRST", 8)

    def refuse(number: int) -> None:
        if number in (3, 20, 21, 40):
            raise UpstreamRefusedError("no", status=422, problem_type="invalid-body")

    offices(machine, 60)
    Watched(monkeypatch, refuse)
    report = machine.push()
    assert (of_push(report), report.done, report.rejected, len(machine.there())) == (3, 56, 4, 56)


@pytest.fixture
def quiet_callbacks() -> None:
    """SQLite tells of no signal inside a callback, as in a program; the import of Datasette switches that on."""
    sqlite3.enable_callback_tracebacks(False)


@pytest.mark.usefixtures("quiet_callbacks")
def test_ctrl_c_cuts_what_is_under_way_and_keeps_what_was_answered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "_FIRST", 8)
    offices(machine, 60)
    endless = threading.Event()

    def interrupt(number: int) -> None:
        if number == 21:
            _thread.interrupt_main()
        if number > 20:
            endless.wait(0.05)

    with monkeypatch.context() as patch:
        watched = Watched(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            machine.push()
        sent = len(watched.order)
        time.sleep(0.2)
        assert len(watched.order) == sent, "something was sent after the push had ended"
    counted = Counter(machine.states())
    assert counted["done"] >= 12
    assert counted["unknown"] <= 8
    assert counted["queued"] == 60 - counted["done"] - counted["unknown"]
    assert of_push(machine.push()) == 0
    assert len(machine.there()) == 60


class Client:
    """What a thread sends over; `cut` ends what it is at."""

    def __init__(self) -> None:
        self.is_cut, self.is_closed = threading.Event(), False
        self.others: list[Client] = []

    def another(self) -> "Client":
        self.others.append(Client())
        return self.others[-1]

    def cut(self) -> None:
        self.is_cut.set()

    def close(self) -> None:
        self.is_closed = True


class Asked:
    """A request that is answered as it is told."""

    took_s: float | None = None

    def __init__(self, answer: Callable[[Client], None] = lambda _client: None, *, ends: bool = False) -> None:
        self.begun, self.ended, self.ends_batch, self._answer = False, False, ends, answer

    def ask(self, client: Any) -> None:
        self._answer(client)
        self.ended = True


def test_what_fails_in_a_thread_fails_where_it_was_asked_for() -> None:
    client = Client()

    def fail(by: Client) -> None:
        if by is not client:
            raise ZeroDivisionError
        by.is_cut.wait(0.1)

    several = Connections(client, 4)  # type: ignore[arg-type]
    several._at_most = 3
    with pytest.raises(ZeroDivisionError):
        several.ask_all([Asked(fail) for _ in range(20)], 9.0)
    several.close()
    assert [other.is_closed for other in client.others] == [True, True]


def test_an_interruption_cuts_the_others_and_does_not_wait_for_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_module, "_END_S", 0.05)
    client, hanging = Client(), threading.Event()

    def ask(by: Client) -> None:
        if by is client:
            while len(client.others) < 2 or not begun[1].begun or not begun[2].begun:
                time.sleep(0.001)
            _thread.interrupt_main()
        (hanging if by is client.others[0] else by.is_cut).wait(10)

    begun = [Asked(ask) for _ in range(12)]
    several = Connections(client, 3)  # type: ignore[arg-type]
    several._at_most = 3
    try:
        with pytest.raises(KeyboardInterrupt):
            several.ask_all(begun, 9.0)
        assert [other.is_cut.is_set() for other in client.others] == [True, True]
        assert sum(each.begun for each in begun) == 3
    finally:
        hanging.set()
        several.close()


def test_the_first_is_taken_however_late_it_is_and_nothing_after_the_end() -> None:
    late = Batch([first := Asked(), Asked()], -1.0)
    assert (late.take(), late.take(), late.in_time) == (first, None, False)
    over = Batch([Asked(), Asked()], 9.0)
    over.end()
    assert (over.take(), over.in_time) == (None, True)
