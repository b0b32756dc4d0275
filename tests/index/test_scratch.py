"""Building an index in bounded memory: byte for byte what is built in memory, and nothing left if it ends early."""

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import builder as building
from geolookup.index import scratch, segments, walk
from geolookup.index.builder import IndexBuilder
from geolookup.index.flatten import EMPTY, Flattener, flatten_v4, flatten_v6
from geolookup.index.reader import IndexReader
from geolookup.index.scratch import Column, Runs, Seen, Texts
from geolookup.index.segments import SegmentSections
from geolookup.index.stack import write_stack
from geolookup.index.verify import verify_index
from geolookup.model.errors import IndexFileError, StateUnwritableError
from geolookup.state.base import files
from tests.index.building import V4_END, V6_END, blocks, fields, found
from tests.oracle.linear_scan import Block
from tests.support.examples import examples

LOW64 = 2**64 - 1


@pytest.fixture
def tiny() -> Iterator[None]:
    """Limits so low that a handful of blocks goes to disk, in several runs."""
    with pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        yield


def _tiny(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scratch, "_KEPT_BYTES", 16)
    patch.setattr(scratch, "_PART", 3)
    patch.setattr(scratch, "_PIECE", 4)
    patch.setattr(scratch, "_LEAST", 1)
    patch.setattr(building, "_BLOCKS", {4: 3, 6: 2})
    patch.setattr(building, "_LOCATIONS", 2)
    patch.setattr(building, "_PIECE", 3)
    patch.setattr(segments, "_ZEROS", 2)
    patch.setattr(scratch, "_LATE", 2)
    patch.setattr(scratch, "_RECENT", 2)
    patch.setattr(scratch, "_KEPT_OFFSETS", 2)


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


# An index that is built with a folder


def _built(
    folder: str, name: str, content: list[Block], *, scratch: bool, layer: Any, later_wins: bool, way: str, masked: bool
) -> bytes:
    builder = IndexBuilder(layer, later_wins=later_wins, folder=folder if scratch else None)
    slots: dict[int, int] = {}
    for block in content:
        if block.locid not in slots:
            slots[block.locid] = builder.add_location(block.locid, *fields(block.locid).values())
    mask = builder.add_mask() if masked and layer == "default" else None
    if way == "columns":
        for family in (4, 6):
            mine = [block for block in content if block.family == family]
            slot = np.array([slots[block.locid] for block in mine], np.uint32)
            if family == 4:
                ends = [np.array([getattr(b, end) for b in mine], np.uint32) for end in ("first", "last")]
                builder.extend_columns_v4(ends[0], ends[1], slot)
            else:
                halves = [
                    np.array([getattr(b, end) >> 64 if up else getattr(b, end) & LOW64 for b in mine], np.uint64)
                    for end in ("first", "last")
                    for up in (True, False)
                ]
                builder.extend_columns_v6(halves[0], halves[1], halves[2], halves[3], slot)
    else:
        for number, block in enumerate(content):
            slot_of = mask if mask is not None and not number % 5 else slots[block.locid]
            if way == "one by one":
                builder.add_block(slot_of, block.family, block.first, block.last)
            else:
                extend = builder.extend_v4 if block.family == 4 else builder.extend_v6
                extend(slot_of, [block.first], [block.last])
    path = Path(folder, name)
    builder.write(path)
    return path.read_bytes()


@given(
    data=st.data(),
    layer=st.sampled_from(("default", "custom")),
    later_wins=st.booleans(),
    way=st.sampled_from(("one by one", "extended", "columns")),
    masked=st.booleans(),
)
@examples(120)
def test_with_a_folder_the_file_is_byte_for_byte_the_same(
    data: st.DataObject, layer: Any, later_wins: bool, way: str, masked: bool
) -> None:
    content = data.draw(blocks(1 if layer == "default" else -1, most=25))
    given_ = {"layer": layer, "later_wins": later_wins, "way": way, "masked": masked}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        plain = _built(folder, "plain", content, scratch=False, **given_)
        _tiny(patch)
        assert _built(folder, "scratch", content, scratch=True, **given_) == plain
        verify_index(Path(folder, "scratch"))
        assert sorted(os.listdir(folder)) == ["plain", "scratch"]


@pytest.mark.usefixtures("tiny")
def test_many_runs_and_places_out_of_order_are_the_same_too(tmp_path: Path) -> None:
    chance = random.Random(3)
    locids = chance.sample(range(1, 4000), 300)
    content = []
    for number in range(1200):
        first = chance.randrange(V4_END - 300) if number % 3 else chance.randrange(V6_END - 2**70)
        width = chance.randrange(200) if number % 3 else chance.randrange(2**70)
        content.append(Block(chance.choice(locids), 4 if number % 3 else 6, first, first + width))
    given_: dict[str, Any] = {"layer": "default", "later_wins": False, "way": "one by one", "masked": False}
    plain = _built(str(tmp_path), "plain", content, scratch=False, **given_)
    assert _built(str(tmp_path), "scratch", content, scratch=True, **given_) == plain


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("later_wins", [True, False])
@pytest.mark.parametrize("layer", ["default", "custom"])
def test_of_equal_blocks_in_several_runs_the_right_one_wins(
    tmp_path: Path, family: Any, later_wins: bool, layer: Any
) -> None:
    sign = 1 if layer == "default" else -1
    locids = [sign * number for number in (3, 9, 1, 7, 2, 8, 4)]
    builder = IndexBuilder(layer, later_wins=later_wins, folder=str(tmp_path))
    for locid in locids:
        builder.add_block(builder.add_location(locid, *fields(locid).values()), family, 10, 19)
    builder.write(tmp_path / "index")
    with IndexReader.open(tmp_path / "index") as reader:
        assert found(reader, family, 15) == sign * (4 if later_wins else 9)


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


@pytest.mark.usefixtures("tiny")
def test_a_full_disk_is_the_same_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def seek(self, _place: int) -> None: ...

        def write(self, _data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(scratch.tempfile, "TemporaryFile", lambda **_options: Full())
    monkeypatch.setattr(scratch, "_KEPT_BYTES", 60)
    builder = IndexBuilder("default", folder=str(tmp_path))
    slot = builder.add_location(1, *fields(1).values())
    with pytest.raises(IndexFileError, match=f"{tmp_path}: cannot be written: No space left"):
        builder.extend_v4(slot, range(0, 90, 3), range(1, 91, 3))
    again = IndexBuilder("default", folder=str(tmp_path))
    slot = again.add_location(1, *fields(1).values())
    monkeypatch.setattr(building, "_BLOCKS", {4: 1000, 6: 1000})
    again.extend_v4(slot, range(0, 90, 3), range(1, 91, 3))
    with pytest.raises(StateUnwritableError, match="index: the disk is full: make room there"):
        _write(again, tmp_path / "index")
    assert os.listdir(tmp_path) == []


def _write(builder: IndexBuilder, path: Path) -> None:
    with files.file_errors(str(path)):
        builder.write(path)


def test_a_builder_that_is_killed_leaves_nothing_in_its_folder(tmp_path: Path) -> None:
    program = f"""
import os, signal
from geolookup.index import builder
from geolookup.index import scratch
builder._BLOCKS, scratch._KEPT_BYTES = {{4: 100, 6: 100}}, 64
made = builder.IndexBuilder("default", folder={str(tmp_path)!r})
slot = made.add_location(1, "DE", "", "", "", None, None, "", "")
made.extend_v4(slot, range(0, 9000, 3), range(1, 9001, 3))
named = [os.readlink(f"/proc/self/fd/{{each}}") for each in os.listdir("/proc/self/fd") if int(each) > 2
         and os.path.lexists(f"/proc/self/fd/{{each}}")]
assert any({str(tmp_path)!r} in name for name in named), named
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is resident of a map")
def test_a_walk_keeps_neither_file_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_CHUNK", 1 << 14)
    builder = IndexBuilder("default")
    slots = np.array([builder.add_location(locid, *fields(locid).values()) for locid in (1, 2)], np.uint32)
    first = np.arange(400_000, dtype=np.uint32) * np.uint32(10_000)
    builder.extend_columns_v4(first, first + np.uint32(9_999), slots[np.arange(len(first)) % 2])
    builder.write(tmp_path / "index")

    def resident() -> int:
        maps = Path("/proc/self/smaps").read_text(encoding="utf-8")
        part = maps.partition(f"{tmp_path / 'index'}\n")[2]
        return int(part.partition("\nRss:")[2].split()[0]) << 10

    with IndexReader.open(tmp_path / "index") as reader:
        size = (tmp_path / "index").stat().st_size
        assert reader.arrays()["v4.low"].sum()
        assert reader.arrays()["v4.slot"].sum()
        assert resident() > size // 2
        seen_slots = sum(len(stretch.slots[0]) for stretch in walk.walk([reader], 4))
        assert seen_slots > 400_000
        assert resident() < size // 4


# The parts


@given(
    parts=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=9)), begin=st.integers(0, 40), count=st.integers(0, 40)
)
def test_a_column_reads_what_was_appended(parts: list[list[int]], begin: int, count: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "_KEPT_BYTES", 20)
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
        patch.setattr(scratch, "_LATE", 3)
        made, plain = Seen(), set[int]()
        for number in numbers:
            assert made.add(number) == (number not in plain)
            plain.add(number)


@given(asked=st.lists(st.sampled_from(["", "a", "b", "ab", "Zürich", "東京", "c", "d", "e"])), recent=st.integers(1, 4))
@examples(200)
def test_a_text_has_one_number_however_long_ago_it_came(asked: list[str], recent: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        patch.setattr(scratch, "_RECENT", recent)
        made, plain = Texts(folder), {"": 0}
        for text in asked:
            assert made.number(text) == plain.setdefault(text, len(plain))
        assert len(made) == len(plain)
        offsets, content = made.sections()
        ends, data = offsets.whole().tolist(), content.whole().tobytes()
    assert [data[begin:end].decode() for begin, end in itertools.pairwise(ends)] == list(plain)


def test_texts_whose_digests_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_RECENT", 2)
    monkeypatch.setattr(scratch, "_digest", lambda encoded: bytes(8) + encoded.ljust(8))
    made = Texts()
    names = [f"text {number}" for number in range(20)]
    assert [made.number(name) for name in names * 3] == [*range(1, 21)] * 3


def test_too_much_text_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_LARGEST_I32", 9)
    monkeypatch.setattr(scratch, "_KEPT_OFFSETS", 2)
    made = Texts()
    for name in ("four", "eight", "ten"):
        made.number(name)
    with pytest.raises(IndexFileError, match="distinct texts, or parts of records, have 12 bytes: 2 GiB is the most"):
        made.sections()


def test_locids_that_come_twice_are_refused_however_late(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _tiny(patch)
        builder = IndexBuilder("default", folder=str(tmp_path))
        for locid in (9, 3, 7, 5, 1, 8):
            builder.add_location(locid, *fields(locid).values())
        for locid in (9, 3, 7, 5, 1, 8):
            with pytest.raises(IndexFileError, match=f"locid {locid} is there twice"):
                builder.add_location(locid, *fields(locid).values())
