"""Edits, pulls, rollbacks and acknowledgements in any order, against a plain dict; lookups by a linear scan of it."""

import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import to_text
from geolookup.model.errors import BlockError, UnknownGeolocationError
from geolookup.model.types import FIELD_NAMES, IPBlock
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.row import PENDING_STATES
from geolookup.state.generations.recovery import numbered
from geolookup.state.publishing.directory import StateDirectory
from tests.oracle.linear_scan import Block, winner
from tests.support.data.states import place, publish
from tests.support.data.stations import accept
from tests.support.examples import examples

FIRST = {4: 10 << 24, 6: 0x20010DB8 << 96}
COUNT = 12

pairs = st.lists(st.integers(0, COUNT - 1), min_size=2, max_size=2).map(sorted)
blocks = st.builds(
    lambda family, pair: IPBlock(family=family, first=FIRST[family] + pair[0], last=FIRST[family] + pair[1]),
    st.sampled_from((4, 4, 6)),
    pairs,
)
fields = st.builds(
    lambda country, region, latitude: {
        **dict.fromkeys(FIELD_NAMES, ""),
        "country": country,
        "region": region,
        "city": "x",  # the helper that publishes makes one up where it is empty
        "latitude": latitude,
        "longitude": 0.5,
    },
    st.sampled_from(("DE", "FR")),
    st.sampled_from(("", "ß\x00'")),
    st.sampled_from((-33.8, 0.0, 90.0)),
)


class Edited(RuleBasedStateMachine):
    """``places`` is the model: by the locid that lookups show, the eight fields and the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.mkdtemp()
        self.places: dict[int, tuple[dict[str, Any], set[IPBlock]]] = {}
        self.aliases: dict[int, int] = {}
        self.pending: set[int] = set()
        self.default = [Block(1, 4, FIRST[4], FIRST[4] + 7), Block(2, 4, FIRST[4] + 4, FIRST[4] + 5)]
        self.service: list[Any] = []

    def teardown(self) -> None:
        self.geo.close()
        shutil.rmtree(self.home)

    @initialize(own=st.lists(blocks, max_size=2, unique=True), values=fields)
    def begin(self, own: list[IPBlock], values: dict[str, Any]) -> None:
        self.places[-1] = values, set(own)
        self.places[-2] = {**values, "city": "two"}, set()
        self.pull_what_the_service_has()
        self.geo = GeoLookup(self.home)
        self.editor = Editor(self.home)

    def pull_what_the_service_has(self) -> None:
        """Publish the model as it is now: only called where nothing is pending."""
        self.service = [
            place(1, f"{to_text(4, FIRST[4])}-{to_text(4, FIRST[4] + 7)}"),
            place(2, f"{to_text(4, FIRST[4] + 4)}-{to_text(4, FIRST[4] + 5)}"),
            *(
                place(locid, *(f"{block.startip}-{block.endip}" for block in sorted(own)), **values)
                for locid, (values, own) in self.places.items()
            ),
        ]
        publish(self.home, self.service)

    def number(self, data: st.DataObject) -> tuple[int, int]:
        """(a locid as a person may give it, the one that lookups show)."""
        shown = data.draw(st.sampled_from(sorted(self.places)))
        old = [alias for alias, service in self.aliases.items() if service == shown]
        return data.draw(st.sampled_from([shown, *old])), shown

    def taken(self, block: IPBlock) -> bool:
        return any(block in own for _, own in self.places.values())

    @rule(values=fields)
    def create(self, values: dict[str, Any]) -> None:
        locid = self.editor.create(**values)
        assert locid not in self.places
        assert locid not in self.aliases
        self.places[locid] = values, set()
        self.pending.add(locid)

    @precondition(lambda self: self.places)
    @rule(data=st.data(), values=fields)
    def update(self, data: st.DataObject, values: dict[str, Any]) -> None:
        given, shown = self.number(data)
        before, own = self.places[shown]
        if {**before, **values} != before:
            self.editor.update(given, **values)
            self.places[shown] = {**before, **values}, own
            self.pending.add(shown)

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        given, shown = self.number(data)
        self.editor.delete(given)
        del self.places[shown]
        with pytest.raises(UnknownGeolocationError):
            self.editor.clear_blocks(given)

    @precondition(lambda self: self.places)
    @rule(data=st.data(), block=blocks)
    def add_block(self, data: st.DataObject, block: IPBlock) -> None:
        given, shown = self.number(data)
        if self.taken(block):
            with pytest.raises(BlockError):
                self.editor.add_block(given, block.startip, block.endip)
            return
        self.editor.add_block(given, block.startip, block.endip)
        self.places[shown][1].add(block)
        self.pending.add(shown)

    @precondition(lambda self: any(own for _, own in self.places.values()))
    @rule(data=st.data(), new=blocks)
    def replace_or_remove_block(self, data: st.DataObject, new: IPBlock) -> None:
        given, shown = self.number(data)
        own = self.places[shown][1]
        if not own:
            return
        old = data.draw(st.sampled_from(sorted(own)))
        if self.taken(new):
            self.editor.remove_block(given, old.startip, old.endip)
        else:
            self.editor.replace_block(given, old.startip, old.endip, new.startip, new.endip)
            own.add(new)
        own.discard(old)
        self.pending.add(shown)

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        given, shown = self.number(data)
        own = self.places[shown][1]
        assert self.editor.clear_blocks(given) == len(own)
        if own:
            own.clear()
            self.pending.add(shown)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """A transaction that raises: the model stays."""

        def edit() -> None:
            with self.editor.transaction():
                self.editor.create(**dict.fromkeys(FIELD_NAMES, "") | {"latitude": 1, "longitude": 1})
                if self.places:
                    self.editor.delete(self.number(data)[0])
                raise KeyError

        with pytest.raises(KeyError):
            edit()

    @rule()
    def another_process(self) -> None:
        self.editor = Editor(self.home)

    @rule()
    def pull(self) -> None:
        """The service still has what it had: every pending edit lies over it."""
        publish(self.home, self.service)

    @rule()
    def rollback(self) -> None:
        directory = StateDirectory(self.home)
        current = directory.current()
        assert current is not None
        # Back to the same service content under an older number, and forth again: edits lie over any of them.
        publish(self.home, self.service)
        # After many of these the old number is past retention; then to the one before.
        kept = numbered(directory.path("generations"))
        directory.keeping.rollback(current.generation if current.generation in kept else None)

    @rule()
    def the_service_takes_everything(self) -> None:
        with StateDirectory(self.home).edits.transaction() as database:
            ledger = Ledger(database)
            numbers = {
                row.locid: -100 - row.id for row in ledger.outbox.rows(*PENDING_STATES) if row.operation == "create"
            }
            accept(ledger, numbers)
            for locid, service in numbers.items():
                self.aliases[locid] = service
                if locid in self.places:
                    self.places[service] = self.places.pop(locid)
        self.pending.clear()
        with self.editor.transaction():
            pass  # publishes what was changed behind its back, as each push does
        self.agrees()
        self.pull_what_the_service_has()

    @invariant()
    def agrees(self) -> None:
        found = {laid.place.locid: laid for laid in self.editor.custom()}
        assert {locid: (laid.place.fields(), set(laid.place.ipblocks)) for locid, laid in found.items()} == self.places
        assert {locid for locid, laid in found.items() if laid.pending} == self.pending & self.places.keys()
        custom = [
            Block(locid, block.family, block.first, block.last)
            for locid, (_, own) in self.places.items()
            for block in own
        ]
        for family in (4, 6):
            for address in range(FIRST[family], FIRST[family] + COUNT):
                expected = winner(custom, self.default, family, address)
                match = self.geo.match(to_text(family, address))
                assert (None if match is None else match.geolocation.locid) == expected
                if match is not None and expected is not None and expected < 0:
                    assert match.geolocation.fields() == self.places[expected][0]
                    assert match.pending == (expected in self.pending)


TestEdited = Edited.TestCase
TestEdited.settings = examples(15, stateful_step_count=15)
