"""From a builder through a file to answers."""

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given

import geolookup
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import COUNT_NAMES
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.verify import verify_index
from geolookup.model.errors import IndexFileError
from tests.index.building import V4_END, V6_END, around, blocks, build, fields, found
from tests.oracle.linear_scan import Block, narrowest_covering
from tests.support.examples import examples

SOURCE = Path(geolookup.__file__).parent.parent
slow_disk = examples(30)


def fresh(folder: Path) -> Path:
    """A path at which nothing is."""
    return folder / f"index-{len(os.listdir(folder))}"


@given(content=blocks(sign=-1, most=20))
@slow_disk
def test_lookups_agree_with_a_linear_scan(tmp_path: Path, content: list[Block]) -> None:
    path = fresh(tmp_path)
    build(path, content, layer="custom")
    with IndexReader.open(path) as reader:
        verify_index(reader)
        for family in (4, 6):
            for address in around(family):
                expected = narrowest_covering(content, family, address)
                assert found(reader, family, address) == expected
                slot, first, last = reader.segment(family, address)  # type: ignore[arg-type]
                assert (None if slot == EMPTY else reader.location(slot)[0]) == expected
                assert first <= address <= last
                for other in around(family):
                    if first <= other <= last:
                        assert narrowest_covering(content, family, other) == expected
                    elif other in (first - 1, last + 1):
                        assert narrowest_covering(content, family, other) != expected


@given(content=blocks(most=8))
@slow_disk
def test_walking_the_segments_gives_what_finding_gives(tmp_path: Path, content: list[Block]) -> None:
    path = fresh(tmp_path)
    summary = build(path, content)
    with IndexReader.open(path) as reader:
        for family, end in ((4, V4_END), (6, V6_END)):
            walked = list(reader.segments(family, gaps=True))  # type: ignore[arg-type]
            assert [first for first, _, _ in walked] == [0, *(last + 1 for _, last, _ in walked[:-1])]
            assert walked[-1][1] == end
            for first, last, slot in walked:
                assert reader.segment(family, first) == reader.segment(family, last) == (slot, first, last)  # type: ignore[arg-type]
            covered = [item for item in walked if item[2] != EMPTY]
            assert list(reader.segments(family)) == covered  # type: ignore[arg-type]
            assert len(covered) == (summary.segments_v4 if family == 4 else summary.segments_v6)
            total = sum(last - first + 1 for first, last, _ in covered)
            assert total == (summary.covered_v4 if family == 4 else summary.covered_v6)
            for address in around(family)[::5]:
                rest = [item for item in walked if item[1] >= address]
                assert list(reader.segments(family, address, gaps=True)) == rest  # type: ignore[arg-type]


def test_a_walk_of_many_segments_is_whole(tmp_path: Path) -> None:
    builder = IndexBuilder("default")
    slot = builder.add_location(1, *fields(1).values())
    firsts = list(range(0, 30_000, 3))
    builder.extend_v4(slot, firsts, firsts)
    for first in firsts:
        builder.add_block(slot, 6, first << 70, first << 70)
    builder.write(tmp_path / "index")
    with IndexReader.open(tmp_path / "index") as reader:
        assert list(reader.segments(4)) == [(first, first, 0) for first in firsts]
        assert list(reader.segments(6)) == [(first << 70, first << 70, 0) for first in firsts]


def test_ranges_added_together_are_those_added_one_by_one(tmp_path: Path) -> None:
    for path, together in ((tmp_path / "one by one", False), (tmp_path / "together", True)):
        builder = IndexBuilder("default")
        slots = [builder.add_location(locid, *fields(locid).values()) for locid in (1, 2)]
        for slot, shift in zip(slots, (0, 1 << 66), strict=True):
            firsts = [shift + (1 << 20), shift + (1 << 65), shift + (1 << 127)]
            lasts = [firsts[0] + 9, firsts[1] + (1 << 64) + 5, firsts[2] + 7]
            if together:
                builder.extend_v6(slot, firsts, lasts)
            else:
                for first, last in zip(firsts, lasts, strict=True):
                    builder.add_block(slot, 6, first, last)
        builder.write(path)
    assert (tmp_path / "together").read_bytes() == (tmp_path / "one by one").read_bytes()


def test_a_location_comes_back_as_it_was_given(tmp_path: Path) -> None:
    locids = [7, 3, 12, 2**63 - 1, 6, 1]
    build(tmp_path / "index", [Block(locid, 4, locid % 97, locid % 97) for locid in locids])
    with IndexReader.open(tmp_path / "index") as reader:
        assert reader.location_count == len(locids)
        for locid in locids:
            slot = reader.find4(locid % 97)
            expected = fields(locid)
            assert reader.location(slot) == (locid, *expected.values())
            assert reader.country(slot) == expected["country"]
            assert reader.slot_of(locid) == slot
            assert not reader.pending(slot)
        assert [reader.slot_of(locid) for locid in (0, 2, 13, -1, 2**70)] == [None] * 5


def test_pending_is_kept_for_each_custom_location(tmp_path: Path) -> None:
    builder = IndexBuilder("custom")
    for locid, pending in ((-3, True), (-(10**15), False), (-1, True)):
        builder.add_location(locid, *fields(locid).values(), pending=pending)
    builder.write(tmp_path / "index")
    with IndexReader.open(tmp_path / "index") as reader:
        by_locid = {reader.location(slot)[0]: reader.pending(slot) for slot in range(3)}
    assert by_locid == {-3: True, -(10**15): False, -1: True}


def test_the_order_in_which_locations_and_blocks_came_does_not_matter(tmp_path: Path) -> None:
    content = [Block(locid, 4, locid * 10, locid * 12) for locid in (5, 1, 9, 3)]
    build(tmp_path / "one", content, locids=[1, 3, 5, 9])
    build(tmp_path / "two", content[::-1], locids=[9, 5, 3, 1])
    with IndexReader.open(tmp_path / "one") as one, IndexReader.open(tmp_path / "two") as two:
        for name in ("v4.low", "v4.slot", "loc.locid", "loc.latitude"):
            assert np.array_equal(one.arrays()[name], two.arrays()[name], equal_nan=name == "loc.latitude")
        assert [one.location(slot) for slot in range(4)] == [two.location(slot) for slot in range(4)]


def test_the_same_input_writes_the_same_bytes(tmp_path: Path) -> None:
    content = [Block(2, 4, 5, 9), Block(1, 6, 3, 4)]
    summaries = [build(tmp_path / name, content, digest="abc") for name in ("one", "two")]
    assert summaries[0] == summaries[1]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_summary_and_the_header_say_what_is_there(tmp_path: Path) -> None:
    content = [Block(1, 4, 0, 9), Block(2, 4, 3, 3), Block(1, 4, 10, 10), Block(2, 6, 2**64, V6_END)]
    summary = build(tmp_path / "index", content, digest="sha256:abc", generation="42")
    data = (tmp_path / "index").read_bytes()
    assert (summary.locations, summary.blocks_v4, summary.blocks_v6) == (2, 3, 1)
    assert (summary.segments_v4, summary.segments_v6) == (3, 1)
    assert (summary.covered_v4, summary.covered_v6) == (11, 2**128 - 2**64)
    assert summary.bytes == len(data)
    assert summary.sha256 == hashlib.sha256(data).hexdigest()
    with IndexReader.open(tmp_path / "index") as reader:
        assert reader.layer == "default"
        assert reader.path == str(tmp_path / "index")
        assert reader.size_bytes == len(data)
        assert (reader.metadata["digest"], reader.metadata["generation"]) == ("sha256:abc", "42")
        assert reader.counts == {name: getattr(summary, name) for name in COUNT_NAMES}
        assert (reader.segment_count_v4, reader.segment_count_v6) == (3, 1)


@pytest.mark.parametrize("layer", ["custom", "default"])
def test_an_empty_layer_covers_nothing(tmp_path: Path, layer: Any) -> None:
    build(tmp_path / "index", [], layer=layer)
    with IndexReader.open(tmp_path / "index") as reader:
        verify_index(reader)
        assert reader.location_count == 0
        assert reader.segment4(5) == (EMPTY, 0, V4_END)
        assert reader.segment6(5) == (EMPTY, 0, V6_END)
        assert list(reader.segments(4)) == list(reader.segments(6)) == []
        assert reader.slot_of(1) is None


def test_an_independent_reader_sees_the_same_arrays(tmp_path: Path) -> None:
    build(tmp_path / "index", [Block(-1, 4, 5, 9), Block(-2, 6, 2**64, 2**65), Block(-3, 4, 7, 7)], layer="custom")
    loaded = safetensors.numpy.load_file(tmp_path / "index")
    with IndexReader.open(tmp_path / "index") as reader:
        own = reader.arrays()
        assert set(own) == set(loaded)
        for name, array in own.items():
            assert array.dtype == loaded[name].dtype
            assert np.array_equal(array, loaded[name], equal_nan=array.dtype.kind == "f"), name
        with safetensors.safe_open(tmp_path / "index", framework="numpy") as opened:
            assert opened.metadata() == reader.metadata


def test_sections_stand_aligned_largest_items_first_from_a_multiple_of_64(tmp_path: Path) -> None:
    build(tmp_path / "index", [Block(1, 4, 5, 9)])
    with IndexReader.open(tmp_path / "index") as reader:
        arrays = reader.arrays()
        sections = reader.header.sections
        assert min(section.begin for section in sections.values()) % 64 == 0
        sizes = [arrays[name].itemsize for name in sections]
        assert sizes == sorted(sizes, reverse=True)
        assert all(section.begin % arrays[name].itemsize == 0 for name, section in sections.items())


def test_arrays_outlive_the_reader_and_cannot_be_written_to(tmp_path: Path) -> None:
    build(tmp_path / "index", [Block(1, 4, 5, 9)])
    reader = IndexReader.open(tmp_path / "index")
    arrays = reader.arrays()
    raw = reader.section_bytes("v4.low")
    reader.close()
    reader.close()
    assert arrays["v4.low"].tolist() == [0, 5, 10]
    assert len(raw) == 6
    with pytest.raises(ValueError, match="read-only"):
        arrays["v4.low"][0] = 1


def test_a_closed_reader_says_so(tmp_path: Path) -> None:
    build(tmp_path / "index", [Block(1, 4, 5, 9)])
    reader = IndexReader.open(tmp_path / "index")
    reader.close()
    for call in (
        lambda: reader.find4(5),
        lambda: reader.find6(5),
        lambda: reader.segment4(5),
        lambda: reader.segment6(5),
        lambda: list(reader.segments(4)),
        lambda: reader.location(0),
        lambda: reader.slot_of(1),
        reader.arrays,
        lambda: verify_index(reader),
    ):
        with pytest.raises(IndexFileError, match="closed"):
            call()


def test_the_file_is_private_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "index"
    build(path, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(IndexFileError, match="index"):
        build(path, [Block(1, 4, 5, 9)])
    assert path.read_bytes() == before


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(IndexFileError, match="No space left") as caught:
        build(tmp_path / "index", [])
    assert isinstance(caught.value.__cause__, OSError)
    assert os.listdir(tmp_path) == []


def test_the_builder_refuses_what_cannot_be(tmp_path: Path) -> None:
    builder = IndexBuilder("default")
    slot = builder.add_location(1, *fields(1).values())
    for locid in (1, 0, -1, 2**63):
        with pytest.raises(IndexFileError, match=str(locid)):
            builder.add_location(locid, *fields(1).values())
    for bad in ({"latitude": float("inf")}, {"longitude": float("nan")}, {"city": "\ud800"}):
        with pytest.raises(IndexFileError, match="locid 2"):
            builder.add_location(2, *{**fields(2), **bad}.values())
    with pytest.raises(IndexFileError, match="pending"):
        builder.add_location(2, *fields(2).values(), pending=True)
    for first, last, family in ((5, 4, 4), (0, 2**32, 4), (-1, 4, 6), (0, 2**128, 6), (9, 8, 6)):
        with pytest.raises(IndexFileError, match="not a range"):
            builder.add_block(slot, family, first, last)  # type: ignore[arg-type]
    with pytest.raises(IndexFileError, match="slot 1"):
        builder.add_block(1, 4, 5, 5)
    for firsts, lasts in (([5], [4]), ([5], []), ([5], [2**32]), ([-1], [4])):
        with pytest.raises(IndexFileError, match="slot 0"):
            builder.extend_v4(slot, firsts, lasts)
    for firsts, lasts in (([5], [4]), ([5], []), ([5], [2**128]), ([-1], [4])):
        with pytest.raises(IndexFileError, match="slot 0"):
            builder.extend_v6(slot, firsts, lasts)
    for key, text in (("format", "x"), ("crc32:v4.low", "x"), ("locations", "9"), ("mine", 5)):
        with pytest.raises(IndexFileError, match=key):
            build(tmp_path / "index", [], **{key: text})  # type: ignore[arg-type]
    # None of the refusals left a trace.
    summary = builder.write(tmp_path / "index")
    assert (summary.locations, summary.blocks_v4, summary.blocks_v6) == (1, 0, 0)
    verify_index(IndexReader.open(tmp_path / "index"))
    for call in (builder.write, lambda path: builder.add_location(3, *fields(3).values())):
        with pytest.raises(IndexFileError, match="was written"):
            call(tmp_path / "other")


def test_reading_imports_only_what_costs_nothing(tmp_path: Path) -> None:
    build(tmp_path / "index", [Block(1, 4, 5, 9), Block(3, 6, 5, 9)])
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        f"sys.path.insert(0, {str(SOURCE)!r})\n"
        "from geolookup.index.reader import IndexReader\n"
        f"reader = IndexReader.open({str(tmp_path / 'index')!r})\n"
        "place = reader.location(reader.find4(7)), reader.location(reader.find6(7)), reader.segment4(7)\n"
        "print(place[0][0], place[1][0], *sorted(set(sys.modules) - before))\n"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    first, second, *loaded = result.stdout.split()
    assert (first, second) == ("1", "3")
    assert "geolookup.index.reader" in loaded
    heavy = "json re typing dataclasses pathlib numpy struct socket bisect zlib binascii contextlib collections enum"
    assert not set(heavy.split()) & set(loaded)
