"""A machine that edits and pushes, a service, a foreign client and faults, held against a plain model at each step."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlite_utils import Database

from geolookup.addresses import parse
from geolookup.errors import EditError
from geolookup.lookup.engine import GeoLookup
from geolookup.settings.table import Settings
from geolookup.state import clock as clock_module
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.store import Edits
from geolookup.sync.pull import pull as pull_module
from geolookup.sync.pull.source import service as service_module
from geolookup.sync.push import push as push_module
from tests.oracle.outbox_model import Clock, Crash, Ends, FakeService, Faults, laid_over, winner
from tests.support.interleaved import interleave

URL = "http://127.0.0.1:9"
SETTLE_S = 30.0
BLOCKS: list[Ends] = [
    ("10.0.0.0", "10.0.0.255"),
    ("10.0.0.0", "10.0.0.127"),
    ("10.0.0.64", "10.0.0.191"),
    ("10.0.0.10", "10.0.0.10"),
]
PROBES = [f"10.0.0.{last}" for last in (0, 10, 40, 70, 130, 200)]
#: Few, so that equal ones meet; one that no filter can find.
CITIES = ["", "Berlin", "Bonn"]
ANSWERS = [
    "",
    "lost",
    "dropped",
    "error",
    "failed",
    "nonsense",
    "wrong",
    "unsent",
    "denied",
    "busy:1",
    "busy:90",
    "killed",
    "killed-after",
    f"killed-late:{SETTLE_S / 2}",
    f"late:{SETTLE_S / 2}",
    f"late:{SETTLE_S * 3}",
]

#: Whether each kind of upstream honours keys.
KINDS_OF_UPSTREAMS = {"keys ignored": False, "keys honoured": True}
#: The most steps of one example.
STEPS = 40

cities = st.sampled_from(CITIES)
blocks = st.sampled_from(BLOCKS)
indexes = st.integers(0, 5)
#: A point of a short action, or of a push, whose first request comes after some thirty others.
crashes = st.one_of(st.none(), st.none(), st.integers(0, 12))
push_crashes = st.one_of(st.none(), st.integers(0, 30), st.integers(25, 120))
answers = st.lists(st.sampled_from(ANSWERS), max_size=4)


def fields_of(city: str) -> dict[str, Any]:
    texts = {"country": "DE" if city else "", "region": "", "city": city, "postalcode": ""}
    return {**texts, "latitude": 1.0, "longitude": 2.0, "dmacode": "", "areacode": ""}


#: What each edit may ask the service to do.
REQUESTS = {
    "create": (),
    "update": ("update",),
    "delete": ("delete",),
    "add_block": ("create_block",),
    "replace_block": ("replace_block",),
    "remove_block": ("delete_blocks", "replace_block"),
    "clear_blocks": ("delete_blocks",),
}


@dataclass(frozen=True)
class Kind:
    """An upstream: whether it honours keys, and whether the client is told so."""

    honours_keys: bool


class NoTransport:
    def __init__(self, _settings: Settings) -> None:
        pass

    def __enter__(self) -> "NoTransport":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class PushMachine(RuleBasedStateMachine):
    """One machine that edits, one service, one foreign client."""

    kind = Kind(honours_keys=False)

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.faults = Clock(), Faults()
        self.service = FakeService(self.clock, self.faults, honours_keys=self.kind.honours_keys, settle_s=SETTLE_S)
        self.patch = pytest.MonkeyPatch()
        # In memory if there is such a place: SQLite waits for the disk at each commit, and nobody pulls the plug here.
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.home = os.path.join(self.folder.name, "state")
        self.settings = Settings(
            url=URL,
            settle_s=SETTLE_S,
            idempotency_keys=self.kind.honours_keys,
            max_wait_s=60.0,
            attempts=3,
        )
        self.patch.setattr(clock_module, "wall", self.clock.wall)
        self.patch.setattr(clock_module, "steady_s", self.clock.steady_s)
        self.patch.setattr(clock_module, "boot_s", self.clock.steady_s)
        self.patch.setattr(clock_module, "boot_id", lambda: "the one boot")
        # Not time.sleep: a thread of another test in this process would spin, and move the clock.
        self.patch.setattr(clock_module, "sleep", self.clock.sleep)
        self.patch.setattr(os, "fsync", lambda _descriptor: None)  # nobody pulls the plug here
        for module in (push_module, pull_module):
            self.patch.setattr(module, "Transport", NoTransport)
        for module in (push_module, service_module):
            self.patch.setattr(module, "GeolocationsClient", lambda _transport: self.service)
        self.patch.setattr(Edits, "transaction", self._watched(Edits.transaction))
        self.patch.setattr(self.service, "_request", self._with_its_mark(self.service._request))
        #: The service's custom geolocations as last pulled, and the edits that were over by then.
        self.pulled: dict[int, Any] = {}
        self.in_list: set[int] = set()
        #: When each edit that is done was first seen to be.
        self.done_at: dict[int, float] = {}
        #: What each geolocation edited here should be in the end, by its number here.
        self.intended: dict[int, tuple[tuple[Any, ...], frozenset[Ends]] | None] = {}
        self.decided: set[int] = set()
        self.adopted_by_person: set[int] = set()
        #: The keys that each edit ever had, and those of creates whose geolocation a person took for another's.
        self.keys: dict[int, set[str]] = {}
        self.taken_by_person: set[str | None] = set()
        self.foreign_deleted: set[int] = set()
        #: Creates of ours that the foreign client changed before we knew of them: nobody can tell that they arrived.
        self.touched_before_it_was_known: set[str] = set()
        #: Creates of ours that the foreign client deleted, or made unlike, before a list had them, with their numbers.
        self.spoilt_before_it_was_listed: dict[int, int] = {}
        #: Those that it spoilt before anybody here knew of them: a service that honours keys may name them yet.
        self.spoilt_before_it_was_known: dict[int, int] = {}
        self.rows_seen = 0
        #: The last number of the service's that each geolocation created here was known by.
        self.numbers: dict[int, int] = {}

    def _watched(self, real: Any) -> Any:
        faults = self.faults

        @contextlib.contextmanager
        def transaction(edits: Edits, **options: Any) -> Iterator[Any]:
            faults.point()
            with real(edits, **options) as database:
                yield database
                faults.point()
            faults.commits += 1
            faults.point()

        return transaction

    def _with_its_mark(self, real: Any) -> Any:
        """A request, of an edit that is durably under way, beside none that it could be taken for."""

        def request(what: str, locid: int, apply: Any, key: str | None = None) -> Any:
            under_way = [row for row in self._rows() if row.state == State.SENDING]
            number = {row.locid: self._aliases().get(row.locid, row.locid) for row in under_way}
            if key is not None:  # that of a restored block begins with its edit's
                assert any(key.startswith(row.key) for row in under_way)
            else:
                assert locid in number.values()
            assert len(set(number.values())) == len(under_way), "two edits of one geolocation are under way"
            creates = [row.edit for row in under_way if row.operation == "create"]
            assert all(creates.count(create) == 1 for create in creates), "equal creates are under way"
            return real(what, locid, apply, key)

        return request

    # What the machine under test does

    def _may_crash(self, crash_in: int | None, action: Callable[[], Any]) -> tuple[bool, Any]:
        """(whether it came to its end, what it returned); afterwards a new process looks."""
        self.faults.clear()
        self.faults.crash_in = crash_in
        try:
            return True, action()
        except Crash:
            return False, None
        finally:
            commits = self.faults.commits
            self.faults.clear()
            self.faults.commits = commits

    def _editor(self) -> Editor:
        return Editor(self.home)

    def _rows(self) -> list[OutboxRow]:
        with self._looking() as outbox:
            return outbox.rows() if outbox else []

    def _aliases(self) -> dict[int, int]:
        with self._looking() as outbox:
            if not outbox:
                return {}
            # What is deleted has its number no longer, but here none is given twice.
            deleted = {row.locid: row.number for row in outbox.rows(State.DONE) if row.number is not None}
            return deleted | outbox.aliases()

    @contextlib.contextmanager
    def _looking(self) -> Iterator[Outbox | None]:
        path = StateDirectory(self.home).edits.path
        if not os.path.exists(path):
            yield None
            return
        with contextlib.closing(sqlite3.connect(path)) as connection:
            yield Outbox(Database(connection, execute_plugins=False))

    def _shown(self, index: int) -> Laid | None:
        places = self._editor().custom()
        return places[index % len(places)] if places else None

    def _edit(self, crash_in: int | None, action: Callable[[Editor], Any]) -> bool:
        """Make an edit; whether it is acknowledged or at least durable. What failed must have changed nothing."""
        before = self._rows()
        try:
            self._may_crash(crash_in, lambda: action(self._editor()))
        except EditError:
            assert self._rows() == before
            return False
        if not self.faults.commits:
            assert self._rows() == before
            return False
        after = self._rows()
        assert [row.id for row in after[: len(before)]] == [row.id for row in before]
        self.rows_seen = len(after)
        return True

    def _local(self, shown: int) -> int:
        return next((local for local, service in self._aliases().items() if service == shown), shown)

    @initialize(connections=st.sampled_from([1, 2, 4]), seed=st.integers(0, 9))
    def first_pull(self, connections: int = 1, seed: int = 0) -> None:
        interleave(self.patch, Random(seed), connections)
        self.pull(None)

    @rule(city=cities, crash_in=crashes)
    def create(self, city: str, crash_in: int | None) -> None:
        fields = fields_of(city)
        if self._edit(crash_in, lambda editor: editor.create(**fields)):
            self.intended[self._rows()[-1].locid] = tuple(fields.values()), frozenset()

    @rule(index=indexes, city=cities, crash_in=crashes)
    def update(self, index: int, city: str, crash_in: int | None) -> None:
        if (laid := self._shown(index)) is None:
            return
        local = self._local(laid.place.locid)
        if self._edit(crash_in, lambda editor: editor.update(laid.place.locid, **fields_of(city))):
            self.intended[local] = tuple(fields_of(city).values()), _ends(laid)

    @rule(index=indexes, crash_in=crashes)
    def delete(self, index: int, crash_in: int | None) -> None:
        if (laid := self._shown(index)) is None:
            return
        local = self._local(laid.place.locid)
        if self._edit(crash_in, lambda editor: editor.delete(laid.place.locid)):
            self.intended[local] = None

    @rule(index=indexes, block=blocks, crash_in=crashes)
    def add_block(self, index: int, block: Ends, crash_in: int | None) -> None:
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.add_block(locid, *block), set(), {block})

    @rule(index=indexes, block=blocks, new=blocks, crash_in=crashes)
    def replace_block(self, index: int, block: Ends, new: Ends, crash_in: int | None) -> None:
        self._edit_blocks(
            index, crash_in, lambda editor, locid: editor.replace_block(locid, *block, *new), {block}, {new}
        )

    @rule(index=indexes, which=indexes, crash_in=crashes)
    def remove_block(self, index: int, which: int, crash_in: int | None) -> None:
        laid = self._shown(index)
        if laid is None or not laid.place.ipblocks:
            return
        block = sorted(_ends(laid))[which % len(laid.place.ipblocks)]
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.remove_block(locid, *block), {block}, set())

    @rule(index=indexes, crash_in=crashes)
    def clear_blocks(self, index: int, crash_in: int | None) -> None:
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.clear_blocks(locid), set(BLOCKS), set())

    def _edit_blocks(
        self, index: int, crash_in: int | None, action: Callable[[Editor, int], Any], gone: set[Ends], new: set[Ends]
    ) -> None:
        if (laid := self._shown(index)) is None:
            return
        local = self._local(laid.place.locid)
        if self._edit(crash_in, lambda editor: action(editor, laid.place.locid)):
            after = (_ends(laid) - gone) | new
            self.intended[local] = tuple(laid.place.fields().values()), frozenset(after)

    @rule(crash_in=push_crashes, what=answers, on_conflict=st.sampled_from(["hold", "hold", "theirs", "mine"]))
    def push(self, crash_in: int | None, what: list[str], on_conflict: Any) -> None:
        known = {row.id: row for row in self._rows()}
        self.service.destroyed.clear()

        def act() -> Any:
            self.faults.answers = list(what)
            return push_module.push(StateDirectory(self.home), self.settings, on_conflict=on_conflict)

        self._may_crash(crash_in, act)
        self._note_what_is_done()
        self._note_what_was_named_late()
        if on_conflict != "hold":
            self.decided |= {row.locid for row in known.values() if row.state in PENDING_STATES}
        else:
            self._nothing_of_theirs_was_destroyed()

    def _nothing_of_theirs_was_destroyed(self) -> None:
        aliases = self._aliases()
        for locid, ends in self.service.destroyed:
            rows = [row for row in self._rows() if aliases.get(row.locid, row.locid) == locid]
            seen = {tuple(block) for row in rows for block in (row.base or {"blocks": []})["blocks"]}
            let_be = {tuple(block) for row in rows for block in (row.journal or {}).get("accepted", [])}
            assert ends in seen | let_be, f"{ends} of {locid} was the foreign client's, and nobody here had seen it"

    @rule(crash_in=st.one_of(st.none(), st.none(), st.integers(0, 30)))
    def pull(self, crash_in: int | None) -> None:
        self._note_what_was_named_late()
        self.service.land()
        whole, report = self._may_crash(crash_in, lambda: pull_module.pull(StateDirectory(self.home), self.settings))
        current = StateDirectory(self.home).current()
        if not whole:
            # Killed anywhere, it was published or it was not: the next pull says which.
            whole, report = self._may_crash(None, lambda: pull_module.pull(StateDirectory(self.home), self.settings))
        assert whole
        assert current is None or report.generation >= current.generation
        self.pulled = {locid: place.state() for locid, place in self.service.places.items()}
        self._note_what_is_done()
        self.in_list |= {edit for edit, at in self.done_at.items() if self.clock.seconds - at >= SETTLE_S}
        self._later_twins_are_reported(report)

    def _note_what_is_done(self) -> None:
        done = {row.id for row in self._rows() if row.state == State.DONE}
        self.done_at = {edit: self.done_at.get(edit, self.clock.seconds) for edit in done}

    def _note_what_was_named_late(self) -> None:
        """Note what was sent again, and answered with the number of what was spoilt before anybody here knew of it."""
        aliases = self._aliases()
        for local, number in self.spoilt_before_it_was_known.items():
            if aliases.get(local) == number and number not in self.adopted_by_person:
                self.spoilt_before_it_was_listed.setdefault(local, number)

    def _later_twins_are_reported(self, report: Any) -> None:
        reported = {twin["locid"] for twin in report.twins}
        ours = set(self._aliases().values())
        for row in self._rows():
            if row.operation != "create" or row.state != State.DONE:
                continue
            for locid, place in self.service.places.items():
                if (
                    place.key == row.key
                    and locid not in ours
                    and not place.blocks
                    and place.fields == row.payload["fields"]
                ):
                    assert locid in reported, f"{locid} is a second {self._aliases()[row.locid]}, silently"

    @rule(seconds=st.sampled_from([1.0, SETTLE_S / 2, SETTLE_S + 1, SETTLE_S + 1, 90000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    @rule(city=cities, answer=st.sampled_from(ANSWERS))
    def a_create_meets_a_fault(self, city: str, answer: str) -> None:
        self.create(city, None)
        known = [row for row in self._rows() if row.state in PENDING_STATES]
        self.push(None, [""] * (len(known) - 1) + [answer], "hold")

    @rule(what=st.lists(st.sampled_from(ANSWERS), max_size=1))
    def what_is_unknown_settles_and_is_pushed(self, what: list[str]) -> None:
        self.clock.sleep(SETTLE_S + 1)
        self.push(None, what, "hold")

    @rule(number=indexes, action=st.sampled_from(["retry", "drop", "adopt"]), which=indexes)
    def person_decides(self, number: int, action: str, which: int) -> None:
        waiting = [row for row in self._rows() if row.state in (State.HELD, State.REJECTED)]
        if not waiting:
            return
        row = waiting[number % len(waiting)]
        self.decided.add(row.locid)
        if action == "adopt":
            candidates = sorted(self.service.places) or [-1]
            locid = candidates[which % len(candidates)]
            with contextlib.suppress(EditError):
                self._editor().adopt(row.id, locid)
                self.adopted_by_person.add(locid)
                made_by = self.service.made[locid].key if locid in self.service.made else None
                self.taken_by_person |= {made_by} - self.keys[row.id]
        elif action == "retry":
            self._editor().retry(row.id)
        else:
            self._editor().drop(row.id)

    # What the foreign client does

    @rule(city=cities, equal=st.booleans())
    def foreign_create(self, city: str, equal: bool) -> None:
        fields = fields_of(city)
        window_open = self.service.in_flight or any(
            row.operation == "create" and row.state in (State.SENDING, State.UNKNOWN) for row in self._rows()
        )
        if window_open or not equal:
            fields["areacode"] = "foreign"
        self.service.foreign_create(fields)

    @rule(index=indexes, block=blocks)
    def foreign_adds_a_block(self, index: int, block: Ends) -> None:
        if (locid := self._touched(index)) is not None:
            self.service.foreign_block(locid, block)

    @rule(index=indexes)
    def foreign_update(self, index: int) -> None:
        if (locid := self._touched(index)) is not None:
            self._spoils(locid, fields_of("Bonn")["country"])
            self.service.foreign_update(locid, {**fields_of("Bonn"), "region": "foreign"})

    @rule(index=indexes)
    def foreign_delete(self, index: int) -> None:
        if (locid := self._touched(index)) is not None:
            self._spoils(locid, None)
            self.service.foreign_delete(locid)
            self.foreign_deleted.add(locid)

    def _touched(self, index: int) -> int | None:
        """One of the service's geolocations, which the foreign client is about to change."""
        if not self.service.places:
            return None
        locid = sorted(self.service.places)[index % len(self.service.places)]
        aliases = self._aliases()
        # An edit of its own number says nothing of which create made it.
        known = {aliases.get(row.locid) for row in self._rows() if row.operation == "create"}
        if locid not in known and (key := self.service.places[locid].key):
            self.touched_before_it_was_known.add(key)
        return locid

    def _spoils(self, locid: int, country: str | None) -> None:
        """Note that the foreign client is about to delete it, or to change it into something in that country."""
        aliases, made_by = self._aliases(), self.service.places[locid].key
        for row in self._rows():
            if row.operation != "create" or row.key != made_by or not row.seen is row.concluded is None:
                continue
            if row.payload["fields"]["country"] == country:
                continue  # all here are at one place, so only another country makes them unlike
            if row.state == State.DONE:
                self.spoilt_before_it_was_listed[row.locid] = aliases[row.locid]
            else:
                self.spoilt_before_it_was_known[row.locid] = locid

    def _renumbered(self) -> set[int]:
        """Creates of ours of which nothing was left before a list had shown it, and that have another number by now.

        If the foreign client makes an equal one, all lists are those of a service that answered a create with a wrong
        number. That is corrected, and a person is told that what was sent under the first number may be elsewhere.
        """
        aliases = self._aliases()
        spoilt = self.spoilt_before_it_was_listed.items()
        return {local for local, number in spoilt if aliases.get(local, number) != number}

    def _went_elsewhere(self, row: OutboxRow) -> bool:
        """Whether an edit may have been sent to the number that its geolocation had before it was renumbered."""
        if row.locid not in self._renumbered():
            return False
        first = self.spoilt_before_it_was_listed[row.locid]
        return any((what, first) in self.service.writes for what in REQUESTS[row.operation])

    def _was_told_of(self, locid: int) -> bool:
        with contextlib.closing(sqlite3.connect(StateDirectory(self.home).edits.path)) as connection:
            sql = "SELECT 1 FROM history WHERE what = 'notice' AND locid = ?"
            return connection.execute(sql, (locid,)).fetchone() is not None

    # What must hold

    @invariant()
    def lookups_say_what_the_model_says(self) -> None:
        if StateDirectory(self.home).current() is None:
            return
        with self._editor().transaction():
            pass  # whoever edits next makes visible what a crash kept from it
        aliases = self._aliases()
        rows = self._rows()
        laid = [row for row in rows if row.state != State.DROPPED and row.id not in self.in_list]
        # What comes after a deletion is not of the number that was deleted: the service may give that to others.
        deletions = {row.locid: row.id for row in rows if row.number is not None}
        shown = {
            row.id: row.locid if row.id > deletions.get(row.locid, row.id) else aliases.get(row.locid, row.locid)
            for row in laid
        }
        layer = laid_over(self.pulled, [(r.operation, shown[r.id], r.payload, r.base, r.journal) for r in laid])
        pending = {shown[row.id] for row in laid if row.state != State.DONE}
        with GeoLookup(self.home) as geo:
            for address in PROBES:
                found = geo.match(address)
                assert found is not None
                expected = winner(layer, parse(address)[1])
                assert found.geolocation.locid == (expected or 1), address
                if expected is not None:
                    assert tuple(found.geolocation.fields().values()) == layer[expected].fields
                    assert found.pending == (expected in pending)

    @invariant()
    def a_create_made_at_most_one_geolocation(self) -> None:
        keys = [place.key for place in self.service.made.values() if place.key is not None]
        for row in self._rows():
            self.keys.setdefault(row.id, set()).add(row.key)
        for key in set(keys) - self.service.too_late - self.touched_before_it_was_known - self.taken_by_person:
            assert keys.count(key) == 1

    @invariant()
    def nothing_of_the_foreign_clients_is_adopted_or_deleted(self) -> None:
        rows, aliases, renumbered = self._rows(), self._aliases(), self._renumbered()
        for row in rows:
            if row.operation != "create" or row.locid not in aliases:
                continue
            locid = aliases[row.locid]
            made_by = self.service.made[locid].key
            if row.key in self.service.lied and row.seen is row.concluded is None:
                continue  # what was made since the first attempt is no older one's for sure: the next list tells
            if made_by is None and row.locid in renumbered and locid not in self.adopted_by_person:
                # Only what is equal can be taken for it.
                assert any(fields == tuple(row.payload["fields"].values()) for fields, _ in self.service.states[locid])
                continue
            assert made_by == row.key or made_by in self.service.too_late or locid in self.adopted_by_person
        deleted_here = {aliases.get(row.locid, row.locid) for row in rows if row.operation == "delete"}
        for locid in set(self.service.made) - set(self.service.places):
            assert locid in deleted_here | self.foreign_deleted

    @invariant()
    def no_acknowledged_edit_is_lost(self) -> None:
        assert len(self._rows()) >= self.rows_seen
        # What was acknowledged of something that was taken for lost later was done under the number that it had.
        self.numbers |= self._aliases()
        aliases = self.numbers
        for row in self._rows():
            if row.state != State.DONE or row.locid in self.decided:
                continue
            if self._went_elsewhere(row):
                assert self._was_told_of(row.locid)
                continue
            locid = aliases.get(row.locid, row.locid)
            states = self.service.states.get(locid, [])
            if row.operation == "create":
                assert states
            if row.operation == "update":
                assert any(fields == tuple(row.payload["fields"].values()) for fields, _ in states)
            if row.operation == "delete":
                assert locid not in self.service.places
            if row.operation in ("add_block", "replace_block"):
                new = tuple(row.payload.get("new_block", row.payload["block"]))
                assert any(new in there for _, there in states)
            if row.operation == "remove_block":
                assert any(tuple(row.payload["block"]) not in there for _, there in states)

    def teardown(self) -> None:
        try:
            self._everything_converges()
        finally:
            self.patch.undo()
            self.folder.cleanup()

    def _everything_converges(self) -> None:
        self.faults.clear()
        if StateDirectory(self.home).current() is None:
            return
        self.clock.sleep(10 * SETTLE_S)
        self.service.land(everything=True)
        troubled = set(self.decided)
        for _ in range(60):
            self.clock.sleep(SETTLE_S + 1)
            push_module.push(StateDirectory(self.home), self.settings)
            self.clock.sleep(SETTLE_S + 1)
            self.pull(None)  # which may find that something acknowledged is not there
            pending = self._editor().pending()
            for row in pending:
                if row.state in (State.HELD, State.REJECTED):
                    troubled.add(row.locid)
                    if self._editor().edit(row.id).state in (State.HELD, State.REJECTED):
                        self._editor().drop(row.id)
            if not pending:
                break
        else:
            raise AssertionError([(row.describe(), row.state, row.problem) for row in self._editor().pending()])
        self.clock.sleep(SETTLE_S + 1)
        self.pull(None)
        there = {locid: place.state() for locid, place in self.service.places.items()}
        shown = {
            laid.place.locid: (tuple(laid.place.fields().values()), _ends(laid)) for laid in self._editor().custom()
        }
        assert shown == there
        aliases = self._aliases()
        rows = self._rows()
        troubled |= {row.locid for row in rows if self._went_elsewhere(row)}
        troubled |= {
            row.locid for row in rows if row.state == State.DROPPED and not (row.problem or "").startswith("done")
        }
        for local in self.intended:
            locid = aliases.get(local, local)
            # What was edited under two numbers, before anybody knew that they are one, is in no single plan.
            if local != locid and locid in self.intended:
                troubled |= {local, locid}
        for local, wanted in self.intended.items():
            locid = aliases.get(local, local)
            if local not in troubled and locid not in self.service.disturbed:
                assert there.get(locid) == wanted
        self.lookups_say_what_the_model_says()


def _ends(laid: Laid) -> frozenset[Ends]:
    return frozenset((block.startip, block.endip) for block in laid.place.ipblocks)
