"""Several sources laid over each other: held to a scan of all rows of all sources, in order."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import walk
from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.stack import write_stack
from geolookup.index.verify import verify_index
from geolookup.model.errors import IndexDamagedError
from tests.index.building import ADDRESSES, around, fields, rewritten
from tests.oracle.stacked_scan import Row, Source, answer
from tests.support.examples import examples


def rows(family: Any, numbered: bool) -> st.SearchStrategy[Row]:
    ends = st.sampled_from(ADDRESSES[family])
    locids = st.integers(1, 4) if numbered else st.integers(0, 4)  # masks come from sources without numbers
    return st.builds(lambda locid, one, other: Row(locid, family, min(one, other), max(one, other)), locids, ends, ends)


def sources(name: str) -> st.SearchStrategy[Source]:
    return st.booleans().flatmap(
        lambda numbered: st.builds(
            lambda found: Source(name, numbered, found),
            st.lists(st.sampled_from((4, 6)).flatmap(lambda family: rows(family, numbered)), max_size=8),
        )
    )


STACKS = st.integers(1, 4).flatmap(lambda count: st.tuples(*(sources(f"source-{each}") for each in range(count))))


def built(path: Path, source: Source) -> Path:
    builder = IndexBuilder("default", source=source.name, later_wins=not source.numbered)
    slots = {}
    for row in source.rows:
        if row.locid not in slots:
            slots[row.locid] = (
                builder.add_location(row.locid, *fields(row.locid).values()) if row.locid else builder.add_mask()
            )
        builder.add_block(slots[row.locid], row.family, row.first, row.last)
    builder.write(path)
    return path


def stacked(folder: Path, stack: Sequence[Source]) -> IndexReader:
    with ExitStack() as opened:
        layers = [
            (source.name, opened.enter_context(IndexReader.open(built(folder / source.name, source))))
            for source in stack
        ]
        write_stack(folder / "stack", layers)
    return IndexReader.open(folder / "stack")


def found(reader: IndexReader, family: Any, address: int) -> tuple[str, int] | None:
    slot, first, last = reader.segment(family, address)
    assert first <= address <= last
    return None if slot == EMPTY else (reader.source(slot), reader.location(slot)[0])


@given(stack=STACKS, chunk=st.sampled_from((3, 1 << 18)))
@examples(40)
def test_a_stack_answers_as_a_scan_of_all_rows_of_all_sources(stack: tuple[Source, ...], chunk: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_CHUNK", chunk)
        with stacked(Path(folder), stack) as reader:
            verify_index(reader)
            for family in (4, 6):
                for address in around(family):
                    assert found(reader, family, address) == answer(stack, family, address)


def test_each_location_keeps_its_fields_and_its_source(tmp_path: Path) -> None:
    stack = [Source("office", True, [Row(2, 4, 10, 19)]), Source("city", True, [Row(1, 4, 0, 99), Row(2, 6, 5, 9)])]
    with stacked(tmp_path, stack) as reader:
        assert reader.sources == ("office", "city")
        for slot, (source, locid) in enumerate((("city", 1), ("office", 2), ("city", 2))):
            assert (reader.source(slot), reader.location(slot)) == (source, (locid, *fields(locid).values()))


def test_one_source_has_no_section_of_sources(tmp_path: Path) -> None:
    with stacked(tmp_path, [Source("only", True, [Row(1, 4, 0, 9)])]) as reader:
        assert "loc.source" not in reader.header.sections
        assert reader.source(0) == "only"


def test_a_mask_hides_what_lower_sources_say_and_leaves_no_location(tmp_path: Path) -> None:
    stack = [Source("feed", False, [Row(0, 4, 4, 6)]), Source("city", True, [Row(1, 4, 0, 9)])]
    with stacked(tmp_path, stack) as reader:
        assert [found(reader, 4, address) is None for address in range(11)] == [
            *[False] * 4,
            *[True] * 3,
            *[False] * 3,
            True,
        ]
        assert reader.location_count == 1


def test_of_two_equal_ranges_the_later_row_wins_if_the_source_numbers_nothing(tmp_path: Path) -> None:
    again = Source("csv", False, [Row(5, 4, 0, 9), Row(3, 4, 0, 9), Row(5, 6, 0, 9), Row(3, 6, 0, 9)])
    with IndexReader.open(built(tmp_path / "index", again)) as reader:
        assert found(reader, 4, 5) == found(reader, 6, 5) == ("csv", 3)


def test_a_source_that_is_not_there_is_damage(tmp_path: Path) -> None:
    stack = [Source("a", True, [Row(1, 4, 0, 9)]), Source("b", True, [Row(2, 4, 5, 19)])]
    stacked(tmp_path, stack).close()
    damaged = rewritten(tmp_path / "stack", tmp_path / "damaged", loc__source=lambda numbers: numbers + 7)
    with IndexReader.open(damaged) as reader:
        with pytest.raises(IndexDamagedError, match=r"loc\.source"):
            reader.source(0)
        with pytest.raises(IndexDamagedError, match=r"loc\.source"):
            verify_index(reader)


def test_a_mask_is_damage_in_an_index_that_says_nothing_of_masks(tmp_path: Path) -> None:
    feed = built(tmp_path / "feed", Source("feed", False, [Row(0, 4, 4, 6), Row(1, 4, 8, 9)]))
    verify_index(feed)
    with pytest.raises(IndexDamagedError, match=r"loc\.locid"):
        verify_index(rewritten(feed, tmp_path / "damaged"))
