"""Building an index in bounded memory: byte for byte what is built in memory, and nothing left if it ends early."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.errors import IndexFileError
from geolookup.index import segments
from geolookup.index.builder import IndexBuilder
from geolookup.index.flatten import EMPTY, Flattener, flatten_v4, flatten_v6
from geolookup.index.reader import IndexReader
from geolookup.index.scratch import column, runs, seen, texts
from geolookup.index.scratch.column import Column
from geolookup.index.scratch.runs import Runs
from geolookup.index.scratch.seen import Seen
from geolookup.index.scratch.texts import Texts
from geolookup.index.segments import SegmentSections
from geolookup.index.stack import write_stack
from tests.index.building import blocks, fields
from tests.support.examples import examples

LOW64 = 2**64 - 1


@pytest.fixture
def tiny() -> Iterator[None]:
    """Limits so low that a handful of blocks goes to disk, in several runs."""
    with pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        yield


def _tiny(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(column, "_KEPT_BYTES", 16)
    patch.setattr(column, "_PART", 3)
    patch.setattr(runs, "_PIECE", 4)
    patch.setattr(runs, "_LEAST", 1)
    patch.setattr(segments, "_ZEROS", 2)
    patch.setattr(seen, "_LATE", 2)
    patch.setattr(texts, "_RECENT", 2)
    patch.setattr(texts, "_KEPT_OFFSETS", 2)


# Flattening in pieces


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("ranked", [True, False])
@given(data=st.data())
@examples(150)
def test_pieces_of_any_size_make_the_segments_of_the_whole(family: Any, ranked: bool, data: st.DataObject) -> None:
    content = data.draw(blocks(families=[family], most=20))
    rank = np.arange(9, dtype=np.int64) if ranked else None
    slot = np.array([block.locid for block in content], np.uint32)
    ends = [[block.first for block in content], [block.last for block in content]]
    whole: tuple[Any, ...]
    if family == 4:
        columns = [np.array(values, np.uint32) for values in ends]
        whole = flatten_v4(columns[0], columns[1], slot, rank)
    else:
        columns = [
            np.array([value >> 64 if upper else value & LOW64 for value in values], np.uint64)
            for values in ends
            for upper in (True, False)
        ]
        whole = flatten_v6(*columns, slot, rank)
    order = sorted(range(len(content)), key=lambda at: content[at].first)
    rows = [values[order] for values in (*columns, slot)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    flattener = Flattener(family, None if rank is None else rank.__getitem__)
    found = [
        flattener.add([row[begin:end] for row in rows], np.array(order, np.int64)[begin:end])
        for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True)
    ]
    found.append(flattener.finish())
    starts = [np.concatenate(halves).tolist() for halves in zip(*(each[0] for each in found), strict=True)]
    assert [*starts, np.concatenate([each[1] for each in found]).tolist()] == [part.tolist() for part in whole]


@pytest.mark.usefixtures("tiny")
def test_a_stack_with_a_folder_is_byte_for_byte_the_same(tmp_path: Path) -> None:
    chance = random.Random(9)
    layers = []
    for name in ("one", "two"):
        builder = IndexBuilder("default", source=name)
        slots = [builder.add_location(locid, *fields(locid).values()) for locid in range(1, 9)]
        for _ in range(200):
            first = chance.randrange(1 << 31)
            builder.add_block(chance.choice(slots), 4, first, first + chance.randrange(1 << 24))
            builder.add_block(chance.choice(slots), 6, first << 70, (first << 70) + chance.randrange(1 << 90))
        builder.write(tmp_path / name)
        layers.append((name, IndexReader.open(tmp_path / name)))
    write_stack(tmp_path / "plain", layers)
    write_stack(tmp_path / "scratch", layers, folder=str(tmp_path))
    assert (tmp_path / "scratch").read_bytes() == (tmp_path / "plain").read_bytes()


# The parts


@given(
    parts=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=9)), begin=st.integers(0, 40), count=st.integers(0, 40)
)
def test_a_column_reads_what_was_appended(parts: list[list[int]], begin: int, count: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(column, "_KEPT_BYTES", 20)
        for place in (None, folder):
            made = Column("u4", place)
            for part in parts:
                made.append(np.array(part, np.uint32))
            everything = [value for part in parts for value in part]
            assert len(made) == len(everything)
            assert made.nbytes == 4 * len(everything)
            begins = min(begin, len(everything))
            assert made.read(begins, begins + count).tolist() == everything[begins : begins + count]
            assert [value for part in made.parts(3) for value in part.tolist()] == everything
            made.close()


@pytest.mark.parametrize("halves", [1, 2])
@given(data=st.data())
def test_runs_come_out_as_one_sorted_whole(halves: int, data: st.DataObject) -> None:
    few = st.sampled_from((0, 1, 2, 2**31, 2**32 - 1))
    row = st.tuples(*[few] * halves, few)
    added = data.draw(st.lists(st.lists(row, max_size=7), max_size=7))
    kinds = ["u4", "u4"] if halves == 1 else ["u8", "u8", "u4"]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        made = Runs(kinds, halves, folder)
        for part in added:
            ordered = sorted(part, key=lambda each: each[:halves])
            made.add([np.array([each[at] for each in ordered], kind) for at, kind in enumerate(kinds)])
        rows = [each for piece in made.pieces() for each in zip(*(values.tolist() for values in piece), strict=True)]
        made.close()
    keys = [each[:halves] for each in rows]
    assert keys == sorted(keys)
    assert sorted(rows) == sorted(each for part in added for each in part)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("with_folder", [True, False])
@pytest.mark.parametrize("lower", [[0, 0, 0, 5, 0], [0] * 5, [0, 7, 0, 0, 1]])
def test_lower_halves_are_there_whole_or_not_at_all(tmp_path: Path, with_folder: bool, lower: list[int]) -> None:
    made = SegmentSections(1, str(tmp_path) if with_folder else None)
    made.add_v4(np.zeros(1, np.uint32), np.full(1, EMPTY, np.uint32))
    for number, half in enumerate(lower):
        slot = np.full(1, EMPTY if number % 2 else 0, np.uint32)
        made.add_v6(np.full(1, number, np.uint64), np.full(1, half, np.uint64), slot)
    section = made.finish({})[0].get("v6.lo")
    values = section.whole() if isinstance(section, Column) else section
    assert (None if values is None else values.tolist()) == (lower if any(lower) else None)


@given(numbers=st.lists(st.integers(-20, 20)))
def test_a_number_is_seen_once(numbers: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "_LATE", 3)
        made, plain = Seen(), set[int]()
        for number in numbers:
            assert made.add(number) == (number not in plain)
            plain.add(number)


@given(asked=st.lists(st.sampled_from(["", "a", "b", "ab", "Zürich", "東京", "c", "d", "e"])), recent=st.integers(1, 4))
@examples(200)
def test_a_text_has_one_number_however_long_ago_it_came(asked: list[str], recent: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        patch.setattr(texts, "_RECENT", recent)
        made, plain = Texts(folder), {"": 0}
        for text in asked:
            assert made.number(text) == plain.setdefault(text, len(plain))
        assert len(made) == len(plain)
        offsets, content = made.sections()
        ends, data = offsets.whole().tolist(), content.whole().tobytes()
    assert [data[begin:end].decode() for begin, end in itertools.pairwise(ends)] == list(plain)


def test_texts_whose_digests_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_RECENT", 2)
    monkeypatch.setattr(texts, "_digest", lambda encoded: bytes(8) + encoded.ljust(8))
    made = Texts()
    names = [f"text {number}" for number in range(20)]
    assert [made.number(name) for name in names * 3] == [*range(1, 21)] * 3


def test_too_much_text_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_LARGEST_I32", 9)
    monkeypatch.setattr(texts, "_KEPT_OFFSETS", 2)
    made = Texts()
    for name in ("four", "eight", "ten"):
        made.number(name)
    with pytest.raises(IndexFileError, match="the locations' distinct texts have 12 bytes: 2 GiB is the most"):
        made.sections()
