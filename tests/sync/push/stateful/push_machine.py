"""A machine that edits and pushes, a service, a foreign client and faults, held against a plain model at each step."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from geolookup.model.errors import EditError
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.row import PENDING_STATES, State
from tests.oracle.outbox_model import Ends
from tests.support.interleaved import interleave
from tests.sync.push.stateful import draws
from tests.sync.push.stateful.draws import BLOCKS, fields_of
from tests.sync.push.stateful.judge import Judge
from tests.sync.push.stateful.memory import Memory
from tests.sync.push.stateful.world import SETTLE_S, World, ends_of

#: Whether each kind of upstream honours keys.
KINDS_OF_UPSTREAMS = {"keys ignored": False, "keys honoured": True}
#: The most steps of one example.
STEPS = 40


@dataclass(frozen=True)
class Kind:
    """An upstream: whether it honours keys, and whether the client is told so."""

    honours_keys: bool


class PushMachine(RuleBasedStateMachine):
    """One machine that edits, one service, one foreign client."""

    kind = Kind(honours_keys=False)

    def __init__(self) -> None:
        super().__init__()
        self.world = World(honours_keys=self.kind.honours_keys)
        self.memory = Memory(self.world)
        self.judge = Judge(self.world, self.memory)

    @initialize(connections=st.sampled_from([1, 2, 4]), seed=st.integers(0, 9))
    def first_pull(self, connections: int = 1, seed: int = 0) -> None:
        interleave(self.world.patch, Random(seed), connections)
        self.pull(None)

    # What the machine under test does

    @rule(city=draws.cities, crash_in=draws.crashes)
    def create(self, city: str, crash_in: int | None) -> None:
        fields = fields_of(city)
        self._edit(crash_in, lambda editor: editor.create(**fields), (tuple(fields.values()), frozenset()))

    @rule(index=draws.indexes, city=draws.cities, crash_in=draws.crashes)
    def update(self, index: int, city: str, crash_in: int | None) -> None:
        if (laid := self._shown(index)) is None:
            return
        wanted = tuple(fields_of(city).values()), ends_of(laid)
        self._edit(crash_in, lambda editor: editor.update(laid.place.locid, **fields_of(city)), wanted)

    @rule(index=draws.indexes, crash_in=draws.crashes)
    def delete(self, index: int, crash_in: int | None) -> None:
        if (laid := self._shown(index)) is None:
            return
        self._edit(crash_in, lambda editor: editor.delete(laid.place.locid), None)

    @rule(index=draws.indexes, block=draws.blocks, crash_in=draws.crashes)
    def add_block(self, index: int, block: Ends, crash_in: int | None) -> None:
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.add_block(locid, *block), set(), {block})

    @rule(index=draws.indexes, block=draws.blocks, new=draws.blocks, crash_in=draws.crashes)
    def replace_block(self, index: int, block: Ends, new: Ends, crash_in: int | None) -> None:
        self._edit_blocks(
            index, crash_in, lambda editor, locid: editor.replace_block(locid, *block, *new), {block}, {new}
        )

    @rule(index=draws.indexes, which=draws.indexes, crash_in=draws.crashes)
    def remove_block(self, index: int, which: int, crash_in: int | None) -> None:
        laid = self._shown(index)
        if laid is None or not laid.place.ipblocks:
            return
        block = sorted(ends_of(laid))[which % len(laid.place.ipblocks)]
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.remove_block(locid, *block), {block}, set())

    @rule(index=draws.indexes, crash_in=draws.crashes)
    def clear_blocks(self, index: int, crash_in: int | None) -> None:
        self._edit_blocks(index, crash_in, lambda editor, locid: editor.clear_blocks(locid), set(BLOCKS), set())

    def _edit_blocks(
        self, index: int, crash_in: int | None, action: Callable[[Editor, int], Any], gone: set[Ends], new: set[Ends]
    ) -> None:
        if (laid := self._shown(index)) is None:
            return
        wanted = tuple(laid.place.fields().values()), frozenset((ends_of(laid) - gone) | new)
        self._edit(crash_in, lambda editor: action(editor, laid.place.locid), wanted)

    def _shown(self, index: int) -> Laid | None:
        places = self.world.editor.custom()
        return places[index % len(places)] if places else None

    def _edit(self, crash_in: int | None, action: Callable[[Editor], Any], wanted: Any) -> None:
        """Make an edit, after which its geolocation should be so. What failed must have changed nothing."""
        before = self.world.rows()
        try:
            self.world.may_crash(crash_in, lambda: action(self.world.editor))
        except EditError:
            assert self.world.rows() == before
            return
        if not self.world.faults.commits:
            assert self.world.rows() == before
            return
        after = self.world.rows()
        assert [row.id for row in after[: len(before)]] == [row.id for row in before]
        self.memory.rows_seen = len(after)
        if len(after) > len(before):
            self.memory.intended[after[-1].id] = wanted

    @rule(crash_in=draws.push_crashes, what=draws.answers, on_conflict=draws.decisions_on_conflicts)
    def push(self, crash_in: int | None, what: list[str], on_conflict: Any) -> None:
        known = {row.id: row for row in self.world.rows()}
        self.world.service.destroyed.clear()
        self.world.may_crash(crash_in, lambda: self.world.push(what, on_conflict))
        self.memory.note_what_is_done()
        self.memory.note_what_was_named_late()
        if on_conflict != "hold":
            self.memory.decided |= {row.id for row in known.values() if row.state in PENDING_STATES}
        else:
            self.judge.nothing_of_theirs_was_destroyed()

    @rule(crash_in=draws.pull_crashes)
    def pull(self, crash_in: int | None) -> None:
        self.memory.note_what_was_named_late()
        self.world.service.land()
        whole, report = self.world.may_crash(crash_in, self.world.pull)
        current = self.world.directory.current()
        if not whole:
            # Killed anywhere, it was published or it was not: the next pull says which.
            whole, report = self.world.may_crash(None, self.world.pull)
        assert whole
        assert current is None or report.generation >= current.generation
        self.memory.note_a_list()
        self.judge.later_twins_are_reported(report)

    @rule(seconds=draws.seconds)
    def time_passes(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    @rule(city=draws.cities, answer=draws.answer)
    def a_create_meets_a_fault(self, city: str, answer: str) -> None:
        self.create(city, None)
        known = [row for row in self.world.rows() if row.state in PENDING_STATES]
        self.push(None, [""] * (len(known) - 1) + [answer], "hold")

    @rule(what=st.lists(draws.answer, max_size=1))
    def what_is_unknown_settles_and_is_pushed(self, what: list[str]) -> None:
        self.world.clock.sleep(SETTLE_S + 1)
        self.push(None, what, "hold")

    @rule(index=draws.indexes, block=draws.blocks, answer=st.sampled_from(["killed", "killed-after", "lost"]))
    def a_block_is_taken_back_whatever_became_of_its_push(self, index: int, block: Ends, answer: str) -> None:
        self.add_block(index, block, None)
        known = [row for row in self.world.rows() if row.state in PENDING_STATES]
        self.push(None, [""] * (len(known) - 1) + [answer], "hold")
        self._edit_blocks(index, None, lambda editor, locid: editor.remove_block(locid, *block), {block}, set())
        self.push(None, [], "hold")

    @rule(number=draws.indexes, action=st.sampled_from(["retry", "drop", "adopt"]), which=draws.indexes)
    def person_decides(self, number: int, action: str, which: int) -> None:
        may_be = (State.HELD, State.REJECTED, *([State.QUEUED] if action == "drop" else []))
        waiting = [row for row in self.world.rows() if row.state in may_be]
        if not waiting:
            return
        row = waiting[number % len(waiting)]
        self.memory.decided.add(row.id)
        if action == "adopt":
            candidates = sorted(self.world.service.places) or [-1]
            locid = candidates[which % len(candidates)]
            with contextlib.suppress(EditError):
                self.world.editor.adopt(row.id, locid)
                self.memory.note_an_adoption(row.id, locid)
        elif action == "retry":
            self.world.editor.retry(row.id)
        else:
            self.world.editor.drop(row.id)

    # What the foreign client does

    @rule(city=draws.cities, equal=st.booleans())
    def foreign_create(self, city: str, equal: bool) -> None:
        fields = fields_of(city)
        window_open = self.world.service.in_flight or any(
            row.operation == "create"
            and (
                row.state in (State.SENDING, State.UNKNOWN)
                or (row.state in (State.QUEUED, State.HELD) and row.attempts)
            )
            for row in self.world.rows()
        )
        if window_open or not equal:
            fields["areacode"] = "foreign"
        self.world.service.foreign_create(fields)

    @rule(index=draws.indexes, block=draws.blocks)
    def foreign_adds_a_block(self, index: int, block: Ends) -> None:
        if (locid := self._touched(index)) is not None:
            self.world.service.foreign_block(locid, block)

    @rule(index=draws.indexes)
    def foreign_update(self, index: int) -> None:
        if (locid := self._touched(index)) is not None:
            self.memory.note_a_spoiling(locid, "Bonn")
            self.world.service.foreign_update(locid, {**fields_of("Bonn"), "region": "foreign"})

    @rule(index=draws.indexes)
    def foreign_delete(self, index: int) -> None:
        if (locid := self._touched(index)) is not None:
            self.memory.note_a_spoiling(locid, None)
            self.world.service.foreign_delete(locid)
            self.memory.foreign_deleted.add(locid)

    def _touched(self, index: int) -> int | None:
        """One of the service's geolocations, which the foreign client is about to change."""
        places = self.world.service.places
        if not places:
            return None
        locid = sorted(places)[index % len(places)]
        self.memory.note_a_touch(locid)
        return locid

    # What must hold

    @invariant()
    def lookups_say_what_the_model_says(self) -> None:
        self.judge.lookups_say_what_the_model_says()

    @invariant()
    def a_create_made_at_most_one_geolocation(self) -> None:
        self.judge.a_create_made_at_most_one_geolocation()

    @invariant()
    def nothing_of_the_foreign_clients_is_adopted_or_deleted(self) -> None:
        self.judge.nothing_of_the_foreign_clients_is_adopted_or_deleted()

    @invariant()
    def no_acknowledged_edit_is_lost(self) -> None:
        self.judge.no_acknowledged_edit_is_lost()

    @invariant()
    def what_nobody_knows_the_outcome_of_is_pending(self) -> None:
        self.judge.what_nobody_knows_the_outcome_of_is_pending()

    def teardown(self) -> None:
        try:
            self._everything_converges()
        finally:
            self.world.close()

    def _everything_converges(self) -> None:
        world = self.world
        world.faults.clear()
        if world.directory.current() is None:
            return
        world.clock.sleep(10 * SETTLE_S)
        world.service.land(everything=True)
        troubled = set(self.memory.decided)
        for _ in range(60):
            world.clock.sleep(SETTLE_S + 1)
            world.push([], "hold")
            world.clock.sleep(SETTLE_S + 1)
            self.pull(None)  # which may find that something acknowledged is not there
            pending = world.editor.pending()
            for row in pending:
                if row.state in (State.HELD, State.REJECTED):
                    troubled.add(row.id)
                    if world.editor.edit(row.id).state in (State.HELD, State.REJECTED):
                        world.editor.drop(row.id)
            if not pending:
                break
        else:
            raise AssertionError([(row.describe(), row.state, row.problem) for row in world.editor.pending()])
        world.clock.sleep(SETTLE_S + 1)
        self.pull(None)
        self.judge.both_sides_are_equal_and_as_intended(self.memory.places_of(troubled))
