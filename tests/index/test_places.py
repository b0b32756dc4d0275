"""Answers that look into the mapped file, against objects made from what the reference reader says of each slot."""

import copy
import dataclasses
import os
import pickle
import random
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.builder import IndexBuilder
from geolookup.index.native import accelerator, open_places
from geolookup.index.reader import IndexReader
from geolookup.lookup.views import view_type
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import FIELD_NAMES, FIELDS, TEXT_NAMES
from geolookup.model.types import Geolocation, geolocation_of
from tests.support.examples import examples
from tests.support.memory import memory_kept

native: Any = accelerator()
pytestmark = pytest.mark.skipif(native is None, reason="the accelerator was not built here")

#: Few texts, so that places share them, and texts of each length of UTF-8.
TEXTS = st.sampled_from(["", "a", "Zürich", "東京", "🦜", "x" * 300, "\0", "A B"]) | st.text(max_size=3)
DEGREES = st.sampled_from([None, 0.0, -0.0, 52.5, -89.999]) | st.floats(-90, 90)
FIELD_VALUES = st.tuples(*(TEXTS if field.limit is None else DEGREES for field in FIELDS))
NINE = ("de", "BE", "Köln", "10115", 50.9, 6.9, "", "30")


def written(path: Path, rows: list[tuple[Any, ...]]) -> None:
    builder = IndexBuilder("default")
    for number, row in enumerate(rows, 1):
        builder.add_block(builder.add_location(number, *row), 4, number, number)
    builder.write(path)


def opened(path: Path) -> tuple[Any, list[Geolocation]]:
    """The places of a file that is closed again, and an object for each made from the reference reader."""
    with IndexReader.open(path) as reader:
        expected = [geolocation_of(reader.location(slot)) for slot in range(reader.location_count)]
        return open_places(native, view_type(native), reader), expected


def told(place: Geolocation) -> str:
    """Everything that can be asked of one."""
    return repr(
        [
            [getattr(place, name) for name in ("locid", *FIELD_NAMES, "ipblocks", "layer")],
            (place, hash(place), place.fields(), place.place_text()),
            (dataclasses.asdict(place), dataclasses.astuple(place), [each.name for each in dataclasses.fields(place)]),
            (dataclasses.is_dataclass(place), place.__match_args__, place.__class__, place.__doc__),
            (dataclasses.replace(place, city="else"), msgspec.to_builtins(place), hasattr(place, "__dict__")),
            (dir(place), isinstance(place, Geolocation), isinstance(place, str)),
        ]
    )


@given(rows=st.lists(FIELD_VALUES, min_size=1, max_size=6))
@examples(40)
def test_an_answer_tells_all_that_a_geolocation_tells(rows: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder, "index"), rows)
        places, expected = opened(Path(folder, "index"))
        os.unlink(Path(folder, "index"))
        assert len(places) == len(expected)
        for slot, right in enumerate(expected):
            view = places[slot]
            assert type(view) is not Geolocation
            assert told(view) == told(right)
            assert (view == right, right == view, view == places[slot], view != right) == (True, True, True, False)
            assert {right: 1}[view] == {view: 1}[right] == 1
            for other in (*expected, "else", None, 5):
                assert (view == other, other == view) == (right == other, other == right)


@pytest.fixture
def one(tmp_path: Path) -> Any:
    written(tmp_path / "index", [NINE])
    return opened(tmp_path / "index")[0][0]


def test_copies_and_pickles_are_geolocations_that_need_no_file(one: Any) -> None:
    made = [pickle.loads(pickle.dumps(one, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    made += [pickle._loads(pickle._dumps(one)), copy.copy(one), copy.deepcopy(one)]  # type: ignore[attr-defined]
    made += [dataclasses.replace(one), type(one)(**{name: getattr(one, name) for name in ("locid", *FIELD_NAMES)})]
    for each in made:
        assert type(each) is Geolocation
        assert (each, told(each)) == (one, told(one))
    plain = copy.copy(one)
    assert pickle.dumps(one) == pickle.dumps(plain)  # so any release that reads the one reads the other


def test_it_is_frozen(one: Any) -> None:
    before = told(one)
    for name in ("city", "locid", "ipblocks"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, "else")
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(one, name)
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(one, name, "else")
    with pytest.raises((AttributeError, TypeError)):
        one.new = 1
    assert told(one) == before


def test_patterns_match_it(one: Any) -> None:
    match one:
        case Geolocation(country="fr"):
            found = "another"
        case Geolocation(country="de", city=city):
            found = city
    assert found == "Köln"


def test_one_that_no_places_made_stands_for_nothing(one: Any) -> None:
    empty = object.__new__(type(one))
    for name in ("locid", *FIELD_NAMES):
        with pytest.raises(TypeError, match="stands for no place"):
            getattr(empty, name)
    with pytest.raises(TypeError):
        type("More", (type(one),), {})


def test_places_that_do_not_fit_are_refused() -> None:
    view = view_type(native)
    right: dict[str, Any] = {
        "view": view,
        "count": 2,
        "locids": bytes(16),
        "fields": tuple((bytes(8 if field.limit is None else 16), field.limit is None) for field in FIELDS),
        "offsets": bytes(8),
        "texts": b"",
    }
    assert native.Places(**right)[1].locid == 0
    assert native.Places(**{**right, "fields": ((None, True), (None, False))})[1].region is None
    short = native.Places(**{**right, "fields": ((None, True),)})[0]
    assert short.country == ""
    with pytest.raises(TypeError, match="no place"):
        _ = short.region  # a field beyond those that the places have
    for wrong in (
        {"view": Geolocation}, {"count": -1}, {"count": 3}, {"count": 2**31}, {"locids": bytes(15)},
        {"fields": ((bytes(4), True),)}, {"fields": ((bytes(8), False),)}, {"offsets": bytes(3)},
        {"locids": memoryview(bytes(17))[1:]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"do not fit|less than"):
            native.Places(**{**right, **wrong})
    for odd in ({"fields": (5,)}, {"fields": [(None, True)]}, {"locids": None}, {"view": None}):
        with pytest.raises(TypeError):
            native.Places(**{**right, **odd})
    places = native.Places(**right)
    for missing in (2, 2**40):
        with pytest.raises(KeyError):
            places[missing]
    for odd_key in (-1, "0"):
        with pytest.raises((OverflowError, TypeError)):
            places[odd_key]


@given(data=st.binary(max_size=24) | st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")))
@examples(400)
def test_utf_8_is_what_python_takes_for_it(data: bytes) -> None:
    for begin in range(2):
        for end in (len(data), len(data) - 1):
            part = data[begin:end]
            try:
                part.decode("utf-8")
                right = True
            except UnicodeDecodeError:
                right = False
            assert native.is_utf8(part) == right


def test_utf_8_of_every_first_pair_and_of_every_length() -> None:
    for first in range(256):
        for second in range(256):
            for rest in (b"", b"\x80", b"\x80\x80", b"\x80\xc0", b"\xbf\xbf"):
                data = bytes((first, second)) + rest
                try:
                    data.decode()
                    right = True
                except UnicodeDecodeError:
                    right = False
                assert native.is_utf8(data) == right, data


@pytest.fixture
def many(tmp_path: Path) -> Path:
    chance = random.Random(3)
    rows = [
        tuple(
            (f"{field.name} é{chance.randrange(9)}" if chance.random() < 0.8 else "")
            if field.limit is None
            else (None if chance.random() < 0.2 else chance.uniform(-90, 90))
            for field in FIELDS
        )
        for _ in range(40)
    ]
    written(tmp_path / "index", rows)
    return tmp_path / "index"


def targets_of(path: Path) -> list[int]:
    """The places of all bytes of locations and texts."""
    with IndexReader.open(path) as reader:
        sections = reader.header.sections.items()
        return [
            at
            for name, found in sections
            if name.startswith(("loc.", "strings."))
            for at in range(found.begin, found.end)
        ]


def test_a_damaged_place_is_found_at_once_and_exactly_where_the_reference_finds_it(many: Path) -> None:
    whole, targets, chance = many.read_bytes(), targets_of(many), random.Random(11)
    outcomes = {"same": 0, "other": 0, "damaged": 0}
    _, before = opened(many)
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 1, 4, 64])):
            changed[chance.choice(targets)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        (many.parent / "changed").write_bytes(changed)
        os.replace(many.parent / "changed", many)
        try:
            reader = IndexReader.open(many)
        except IndexDamagedError:
            continue  # the ends of the texts' offsets
        with reader:
            places = open_places(native, view_type(native), reader)
            for slot, old in enumerate(before):
                try:
                    right = geolocation_of(reader.location(slot))
                except IndexDamagedError:
                    with pytest.raises(KeyError):
                        places[slot]
                    outcomes["damaged"] += 1
                else:
                    assert told(places[slot]) == told(right)
                    outcomes["same" if told(right) == told(old) else "other"] += 1
    assert min(outcomes.values()) > 200, outcomes  # so the sweep did reach what is read


def test_a_file_that_is_written_to_while_answers_look_into_it_does_not_lead_outside(many: Path) -> None:
    """Nobody may do that, and whoever does gets other texts or an error, never another program's memory."""
    whole, targets, chance = many.read_bytes(), targets_of(many), random.Random(5)
    places, expected = opened(many)
    views = [places[slot] for slot in range(len(places))]  # all were found to be sound
    damaged = 0
    with open(many, "r+b", buffering=0) as file:
        for _ in range(2000):
            at = chance.choice(targets)
            os.pwrite(file.fileno(), bytes([chance.choice([0, 0x7F, 0x80, 0xFF])]), at)
            for view in chance.sample(views, 3):
                for name in FIELD_NAMES:
                    try:
                        assert isinstance(getattr(view, name), str if name in TEXT_NAMES else float | None)
                    except IndexDamagedError:
                        damaged += 1
        os.pwrite(file.fileno(), whole, 0)
    assert damaged > 500
    # Texts that were read a short while ago may be remembered: a new look at the file has none.
    assert [told(view) for view in opened(many)[1]] == [told(right) for right in expected]


def test_answers_cost_no_memory_once_they_are_gone(tmp_path: Path) -> None:
    count = 20_000
    written(
        tmp_path / "index", [("de", "", f"city {number}", str(number), 1.5, None, "", "") for number in range(count)]
    )
    with IndexReader.open(tmp_path / "index") as reader:
        places = open_places(native, view_type(native), reader)
    references = sys.getrefcount(places), sys.getrefcount(view_type(native))

    def meet(slots: range) -> int:
        for slot in slots:
            view = places[slot]
            for name in ("locid", *FIELD_NAMES):
                getattr(view, name)
            assert (view.city, view.postalcode) == (f"city {slot}", str(slot))
        del view
        return memory_kept(__file__)

    tracemalloc.start()
    try:
        half = meet(range(count // 2))  # twice as many texts as are remembered
        whole = meet(range(count // 2, count))
        again = meet(range(count))
    finally:
        tracemalloc.stop()
    # A record of each would take some megabytes.
    assert whole - half < 100_000
    assert again - half < 100_000
    assert (sys.getrefcount(places), sys.getrefcount(view_type(native))) == references


def test_kept_answers_are_small_and_hold_on_to_their_places_alone(tmp_path: Path) -> None:
    written(tmp_path / "index", [NINE])
    places, _ = opened(tmp_path / "index")
    tracemalloc.start()
    try:
        kept = [places[0] for _ in range(10_000)]
        memory = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert memory / len(kept) < 50  # of it 8 for the list
    assert sys.getrefcount(places) > len(kept)
    del kept
    assert sys.getrefcount(places) == 2
