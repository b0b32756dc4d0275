"""Matches that look into the mapped file, against those that the reference reader makes."""

import copy
import dataclasses
import gc
import os
import pickle
import random
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import mmdb
from geolookup.index.builder import IndexBuilder
from geolookup.index.native import OVERLAY, open_places, open_records, open_searcher
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.lookup.facts import open_facts
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.lookup.views import match_type, view_type
from geolookup.model.addresses import network_around, parse, to_text
from geolookup.model.errors import IndexDamagedError
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import MATCH_FACTS, Geolocation, Match
from tests.index.building import ADDRESSES, around
from tests.index.native.searchers import native, needs_native
from tests.oracle.pure_searcher import PureSearcher
from tests.support.examples import examples
from tests.support.memory import memory_kept

pytestmark = needs_native

MEMBERS = ("address", "ip", "geolocation", "locid", *FIELD_NAMES, "first", "last", "layer", "pending", "source")
MEMBERS += ("network", *MATCH_FACTS)
PLACES = [
    ("DE", "BE", "Berlin", "10115", 52.5, 13.4, "", "30"),
    ("us", "Ohio", "東京", "", None, None, "807", ""),
    ("Atlantis", "", "", "", 0.0, -0.0, "", ""),
]
TEXTS = st.sampled_from(["", "ENG", "Zürich", "x" * 300]).map(mmdb.text)
SCALARS = TEXTS | st.sampled_from(
    [
        *(mmdb.boolean(value) for value in (True, False)),
        *(mmdb.uint16(value) for value in (0, 7, 0xFFFF)),
        *(mmdb.uint32(value) for value in (20, 0x10000, 0xFFFF_FFFF)),
        *(mmdb.uint64(value) for value in (20, 2**63 + 5)),
        mmdb.double(1.5), mmdb.single(1.5),
        bytes((4, 1, 255, 255, 255, 254)), bytes((1, 1, 9)), bytes((16, 3)) + bytes(15) + b"\x09", b"\x83abc",
    ]
)  # fmt: skip


def maps(keys: list[str], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    pairs = st.dictionaries(st.sampled_from([*keys, "other"]), values, max_size=4)
    return pairs.map(lambda found: mmdb.map_of((mmdb.text(key), value) for key, value in found.items()))


NAMES = maps(["en", "de"], SCALARS) | SCALARS
THINGS = maps(["iso_code", "code", "names", "is_in_european_union", "time_zone", "accuracy_radius"], NAMES) | SCALARS
PARTS = st.fixed_dictionaries(
    {}, optional={"country": THINGS, "continent": THINGS, "location": THINGS, "a key of nobody": THINGS,
                  "subdivisions": st.lists(THINGS, max_size=3).map(mmdb.array_of) | THINGS},
)  # fmt: skip


class Row(NamedTuple):
    """A block, its place, None if its record is weak, and the record's parts, None in a file without records."""

    family: int
    first: int
    last: int
    place: int | None
    parts: dict[str, bytes] | None


def rows(*, records: bool) -> st.SearchStrategy[list[Row]]:
    def of_family(family: int) -> st.SearchStrategy[Row]:
        ends = st.sampled_from(ADDRESSES[family])
        place = st.sampled_from([0, 1, 2, None] if records else [0, 1, 2])
        return st.builds(
            lambda one, other, number, parts: Row(family, min(one, other), max(one, other), number, parts),
            ends, ends, place, PARTS if records else st.none(),
        )  # fmt: skip

    return st.lists(of_family(4) | of_family(6), max_size=8)


def write(path: Path, blocks: list[Row], layer: Any) -> None:
    records = any(row.parts is not None for row in blocks)
    builder = IndexBuilder(layer, later_wins=True, records=records, source="here" if layer == "default" else "")
    sign = -1 if layer == "custom" else 1
    slots: dict[int | None, int | None] = {None: None}
    for row in blocks:
        if row.place not in slots:
            pending = row.place == 1 and layer == "custom"
            slots[row.place] = builder.add_location(
                sign * (1 + (row.place or 0)), *PLACES[row.place or 0], pending=pending
            )
        number = slots[row.place]
        if row.parts is not None:
            number = builder.add_record(number, row.parts)
        assert number is not None
        builder.add_block(number, row.family, row.first, row.last)  # type: ignore[arg-type]
    builder.write(path)


class Both:
    """The same two files as the accelerator answers from them, and as the reference does."""

    def __init__(self, folder: Path) -> None:
        self.readers = [IndexReader.open(folder / name) for name in ("base", "overlay")]
        self.layers = [OpenLayer(reader) for reader in self.readers]
        view = view_type(native)  # type: ignore[arg-type]
        places = [open_places(native, view, reader) for reader in self.readers]  # type: ignore[arg-type]
        facts = [open_facts(native, reader, PLACE_FACTS) for reader in self.readers]  # type: ignore[arg-type]
        self.searcher = open_searcher(native, *self.readers, (*places,), (*facts,), match_type(native))  # type: ignore[arg-type]
        #: What the accelerator does not answer.
        self.slow: list[object] = []
        self.finder = native.Finder(self.slow.append, self.slow.append)  # type: ignore[union-attr]
        self.finder.look_at = float("inf")
        self.finder.use(self.searcher)

    def right(self, text: str) -> Match | None:
        return match_in(*self.layers, text, *parse(text))

    def close(self) -> None:
        for reader in self.readers:
            reader.close()


def outcome(match: Any, name: str) -> Any:
    try:
        found = getattr(match, name)
    except IndexDamagedError:
        return IndexDamagedError
    return type(found) if name == "geolocation" and not isinstance(found, Geolocation) else (found, found.__class__)


def told(match: Any) -> str:
    """All that can be asked of one."""
    return repr(
        [
            [outcome(match, name) for name in MEMBERS],
            (match, hash(match), match.flat(), msgspec.to_builtins(match), match.__class__, match.__doc__),
            (dataclasses.asdict(match), [each.name for each in dataclasses.fields(match)], match.__match_args__),
            (isinstance(match, Match), isinstance(match, str), hasattr(match, "__dict__"), dir(match)),
            dataclasses.replace(match, address="else"),
        ]
    )


def record_and_piece(readers: list[IndexReader], family: Any, value: int) -> tuple[str, int, int, int]:
    """The layer and the number of an address's record, which may be weak, and the range that has it."""
    base, overlay = readers
    number, first, last = overlay.piece(family, value)
    if number != EMPTY:
        return "custom", number, first, last
    number, low, high = base.piece(family, value)
    return "default", number, max(first, low), min(last, high)


def length_around(text: str, first: str, last: str) -> int:
    return int(network_around(text, first, last).rpartition("/")[2])


@given(base=rows(records=True) | rows(records=False), overlay=rows(records=False) | rows(records=True))
@examples(60)
def test_a_match_tells_all_that_the_references_tells(base: list[Row], overlay: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "base"), base, "default")
        write(Path(folder, "overlay"), overlay, "custom")
        both = Both(Path(folder))
        held = [f"2002:{value >> 16:x}:{value & 0xFFFF:x}::5" for value in around(4)]
        texts = [*(to_text(family, value) for family in (4, 6) for value in around(family)), *held]
        right = {text: both.right(text) for text in texts}
        found = {text: both.finder.match(text) for text in texts}
        ranges = {text: both.searcher.range(text) for text in texts}
        reference = PureSearcher(*both.readers)
        assert ranges == {text: reference.range(text) for text in texts}
        by_record = open_records(native, *both.readers, weak=True)  # type: ignore[arg-type]
        for family, value in [(of, value) for of in (4, 6) for value in around(of)]:
            layer, number, *ends = record_and_piece(both.readers, family, value)
            text = to_text(family, value)
            found_number = by_record.find(text)
            if number != EMPTY:
                assert (found_number >= OVERLAY, found_number & ~OVERLAY) == (layer == "custom", number)
                first, last = (to_text(family, end) for end in ends)
                assert by_record.range(text) == (first, last, length_around(text, first, last))
            elif family == 4 or value >> 112 != 0x2002:
                assert (found_number, by_record.range(text)) == (EMPTY, None)
        both.close()  # answers stay as they are
        assert not both.slow
        for text in texts:
            if right[text] is None:
                assert found[text] is None
            else:
                assert type(found[text]) is not Match
                assert told(found[text]) == told(right[text]), text
                assert found[text] == right[text] == found[text]


ENDS = st.lists(st.sampled_from([0, 0, 0, 1, 0xFFFF, 0xABC]), min_size=8, max_size=8)


@given(st.lists(ENDS.map(lambda groups: int("".join(f"{group:04x}" for group in groups), 16)), min_size=1))
@examples(60)
def test_ends_and_networks_are_written_as_the_reference_writes_them(values: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blocks = [Row(6, value, value, at % 2, None) for at, value in enumerate(values)]
        blocks += [Row(4, value >> 96, value >> 96 | 0xFF, 2, None) for value in values]
        write(Path(folder, "base"), [Row(6, 0, 2**128 - 1, 2, None), *blocks], "default")
        write(Path(folder, "overlay"), [], "custom")
        both = Both(Path(folder))
        for value in {each for near in values for each in (near - 1, near, near + 1, near >> 96) if each >= 0}:
            text = to_text(4 if value < 2**32 else 6, value)
            right, found = both.right(text), both.finder.match(text)
            if right is not None:
                assert (found.first, found.last, found.network) == (right.first, right.last, right.network)
        both.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    berlin = {
        "country": mmdb.map_of([(mmdb.text("names"), mmdb.map_of([(mmdb.text("en"), mmdb.text("Germany"))]))]),
        "location": mmdb.map_of([(mmdb.text("time_zone"), mmdb.text("Europe/Berlin"))]),
    }
    write(tmp_path / "base", [Row(4, 0x08000000, 0x08FFFFFF, 0, berlin)], "default")
    write(tmp_path / "overlay", [Row(4, 0x08080000, 0x0808FFFF, 1, None)], "custom")
    opened = Both(tmp_path)
    yield opened
    opened.close()


def test_copies_and_pickles_are_matches_that_need_no_file_and_have_every_fact(both: Both) -> None:
    one, right = both.finder.match("8.8.0.1"), both.right("8.8.0.1")
    two = both.finder.match("8.9.0.1")
    assert (one.region_name, one.country_name, one.is_in_european_union) == ("Ohio", "United States", False)
    assert (two.time_zone, two.country_name, two.continent_code) == ("Europe/Berlin", "Germany", "EU")
    for match in (one, two):
        made = [pickle.loads(pickle.dumps(match, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        made += [copy.copy(match), copy.deepcopy(match), copy.copy(copy.copy(match))]
        for each in made:
            assert type(each) is Match
            assert type(each.geolocation) is Geolocation
            assert (each, told(each)) == (match, told(match))
        assert pickle.dumps(match) == pickle.dumps(copy.copy(match))
    assert told(pickle.loads(pickle.dumps(right))) == told(right) == told(one)
    by_hand = type(one)(**{name: getattr(one, name) for name in Match.__dataclass_fields__})
    assert type(by_hand) is Match
    assert (by_hand, by_hand.network, by_hand.country_name) == (one, one.network, None)
    assert pickle.loads(pickle.dumps(by_hand)).country_name is None


def test_it_is_frozen_and_one_that_no_search_made_stands_for_nothing(both: Both) -> None:
    one = both.finder.match("8.8.0.1")
    before = told(one)
    for name in MEMBERS:
        for change in (lambda name=name: setattr(one, name, "else"), lambda name=name: delattr(one, name)):
            with pytest.raises((AttributeError, TypeError)):
                change()
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(one, name, "else")
    assert told(one) == before
    empty = object.__new__(type(one))
    for name in MEMBERS:
        with pytest.raises(TypeError, match="stands for no match"):
            getattr(empty, name)
    with pytest.raises(TypeError):
        type("More", (type(one),), {})


def test_matches_are_small_and_cost_no_memory_once_they_are_gone(both: Both) -> None:
    both.finder.match("8.8.0.1")
    gc.collect()
    counted = both.searcher, match_type(native)  # type: ignore[arg-type]
    references = [sys.getrefcount(each) for each in counted]
    texts = [f"8.8.{number >> 8}.{number & 255}" for number in range(5000)]
    tracemalloc.start()
    try:
        kept = [both.finder.match(text) for text in texts]
        memory = tracemalloc.get_traced_memory()[0]
        for match in kept:
            for name in MEMBERS:
                getattr(match, name)
        del kept, match
        after = memory_kept(__file__)
    finally:
        tracemalloc.stop()
    assert memory / len(texts) < 60  # of it 8 for the list
    assert after < 20_000
    assert [sys.getrefcount(each) for each in counted] == references


def test_facts_that_do_not_fit_are_refused() -> None:
    assert native is not None
    right = (bytes(4), 2, ("names", 0, "en"), -1, 1, {}, True)
    native.Facts(2, (right, (None, 0, (), 0, 0, None, False)), bytes(8), b"")
    for number, wrong in ((0, bytes(3)), (0, bytes(5)), (0, memoryview(bytes(5))[1:]), (1, 3), (1, 1), (1, 8)):
        with pytest.raises(ValueError, match="do not fit"):
            native.Facts(2, ((*right[:number], wrong, *right[number + 1 :]),), bytes(8), b"")
    for odd in ((5,), (right[:6],), ([right],), ((*right[:2], [], *right[3:]),), ((*right[:2], (None,), *right[3:]),)):
        with pytest.raises(TypeError):
            native.Facts(2, odd, bytes(8), b"")  # type: ignore[arg-type]
    for arguments in ((-1, (), bytes(8), b""), (2**31, (), bytes(8), b""), (2, (), bytes(7), b"")):
        with pytest.raises((ValueError, OverflowError), match=r"less than|do not fit"):
            native.Facts(*arguments)
    with pytest.raises(TypeError):
        native.Facts(2, (right,), None, b"")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        native.Facts(2, ((*right[:2], (-1,), *right[3:]),), bytes(8), b"")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Files whose places and records differ much, the overlay of one block."""
    chance = random.Random(3)

    def value(depth: int) -> bytes:
        if depth == 0 or chance.random() < 0.4:
            return chance.choice(
                [mmdb.text("Zürich" * chance.randrange(9)), mmdb.uint16(chance.randrange(999)), mmdb.boolean(True)]
            )
        if chance.random() < 0.2:
            return mmdb.array_of([value(depth - 1) for _ in range(2)])
        keys = ("names", "en", "code", "iso_code", "time_zone", "accuracy_radius", "is_in_european_union")
        return mmdb.map_of([(mmdb.text(key), value(depth - 1)) for key in chance.sample(keys, 5)])

    keys = ("country", "continent", "location", "subdivisions")
    blocks = [
        Row(4, number * 77, number * 77 + 50, number % 3, {key: value(3) for key in chance.sample(keys, 3)})
        for number in range(60)
    ]
    write(tmp_path / "base", [*blocks, Row(6, 2**100, 2**101, 0, {})], "default")
    write(tmp_path / "overlay", [Row(4, 77, 80, 1, None)], "custom")
    return tmp_path


def test_no_damage_leads_outside_and_each_answer_is_right_or_an_error(many: Path) -> None:
    whole, chance = (many / "base").read_bytes(), random.Random(7)
    texts = [*(to_text(4, number * 77 + 3) for number in range(60)), to_text(6, 2**100 + 1)]
    with IndexReader.open(many / "base") as reader:
        sections = reader.header.sections
    targets = [
        at
        for name, section in sections.items()
        if "table" not in name
        for at in range(section.begin, section.end)
        for _ in range(1 if name == "parts.bytes" else 3)
    ]
    keys = sections["v4.low"], sections["v6.hi"]
    outcomes = {"same": 0, "damaged": 0, "slow": 0, "beside": 0, "keys": 0}
    for _ in range(400):
        changed = bytearray(whole)
        places = chance.sample(targets, chance.choice([1, 4, 64]))
        for at in places:
            changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xE3, 0xFF, chance.randrange(256)])
        (many / "changed").write_bytes(changed)
        os.replace(many / "changed", many / "base")
        try:
            both = Both(many)
        except IndexDamagedError:
            continue  # what is seen at once
        # Where keys are out of order, two searches may end at two places, and each is right.
        is_ordered = not any(section.begin <= at < section.end for at in places for section in keys)
        for text in texts:
            slow = len(both.slow)
            match = both.finder.match(text)
            if len(both.slow) > slow:
                outcomes["slow"] += 1
            elif match is not None and not is_ordered:
                outcomes["keys"] += 1
                assert all(outcome(match, name) for name in MEMBERS)
            elif is_ordered:
                right = both.right(text)  # so what the reference takes for damage, the accelerator did not answer
                assert (match is None) == (right is None)
                for name in MEMBERS if match is not None else ():
                    found, wanted = outcome(match, name), outcome(right, name)
                    # The reference decodes a whole part, and sees damage beside the fact too.
                    assert found == wanted or wanted is IndexDamagedError, (text, name)
                    outcomes["beside" if found != wanted else "damaged" if found is IndexDamagedError else "same"] += 1
        both.close()
    assert min(outcomes.values()) > 20, outcomes  # so the sweep did reach what is read
