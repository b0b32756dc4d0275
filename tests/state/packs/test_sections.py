"""Patches of stacks, records and networks: made again byte for byte, and small if little changed."""

import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.fleet.manifest import pack_file
from geolookup.index.builder import IndexBuilder
from geolookup.index.merging import write_merged
from geolookup.index.reader import IndexReader
from geolookup.index.stack import write_stack
from geolookup.state.packs.patch import apply_patch, read_patch, whole_file, write_patch
from tests.index import test_merging, test_records, test_stack
from tests.support.examples import examples


def _came_back(folder: str) -> int:
    """Make the new file from the old one and a patch, and compare; the size of the patch."""
    old, new, patch, again = (os.path.join(folder, name) for name in ("old", "new", "patch", "again"))
    write_patch(patch, new, old, file=whole_file(new), base_name="", base_file=whole_file(old), is_index=True)
    apply_patch(read_patch(patch), old, again)
    assert Path(again).read_bytes() == Path(new).read_bytes()
    return os.path.getsize(patch)


@examples(25)
@given(old=test_stack.STACKS, new=test_stack.STACKS)
def test_a_stack_comes_back_though_its_sources_have_the_same_locids(
    old: tuple[test_stack.Source, ...], new: tuple[test_stack.Source, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, stack in (("old", old), ("new", new)):
            own = Path(folder, f"of-{name}")
            own.mkdir()
            test_stack.stacked(own, stack).close()
            (own / "stack").rename(Path(folder, name))
        _came_back(folder)


_ROWS = st.lists(st.sampled_from((4, 6)).flatmap(test_records.rows), max_size=12)


@examples(25)
@given(old=_ROWS, new=_ROWS, common=_ROWS)
def test_records_come_back(
    old: list[test_records.Row], new: list[test_records.Row], common: list[test_records.Row]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        test_records.write(Path(folder, "old"), common + old)
        test_records.write(Path(folder, "new"), common + new)
        _came_back(folder)


_FACTS = st.lists(st.sampled_from((4, 6)).flatmap(test_merging.rows), max_size=10)


@examples(25)
@given(old=st.lists(_FACTS, min_size=1, max_size=3), new=st.lists(_FACTS, min_size=1, max_size=3))
def test_networks_come_back(old: list[list[test_merging.Row]], new: list[list[test_merging.Row]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, sources in (("old", old), ("new", new)):
            readers = []
            for number, rows in enumerate(sources):
                path = Path(folder, f"{name}-{number}")
                test_merging.write(path, f"s{number}", rows)
                readers.append((f"s{number}", IndexReader.open(path)))
            write_merged(os.path.join(folder, name), readers)
            for _, reader in readers:
                reader.close()
        _came_back(folder)


def test_a_place_that_left_one_source_of_a_stack_leaves_the_numbers_of_all_others(tmp_path: Path) -> None:
    rng = random.Random(7)
    towns = [(locid, rng.randrange(1 << 30)) for locid in range(1, 4001)]
    for name, gone in (("old", 0), ("new", 10)):
        readers = []
        for source in ("one", "two"):
            builder = IndexBuilder("default", source=source)
            for at, (locid, begin) in enumerate(sorted(towns, key=lambda town: town[1])):
                if source == "one" and locid == gone:
                    continue
                slot = builder.add_location(locid, "SE", "", f"{source} {locid}", "", 1.0, 2.0, "", "")
                first = (at << 10) + (begin & 255)
                builder.add_block(slot, 4, first + (source == "two") * 256, first + 255 + (source == "two") * 256)
            builder.write(tmp_path / f"{name}-{source}")
            readers.append((source, IndexReader.open(tmp_path / f"{name}-{source}")))
        write_stack(str(tmp_path / name), readers)
        for _, reader in readers:
            reader.close()
    assert _came_back(str(tmp_path)) < 8_000


def test_slots_of_many_parts_come_back_before_between_and_behind_those_of_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geolookup.state.packs.sections._COUNTED_BYTES", 1 << 18)
    rng = random.Random(11)
    for name, low, high in (("old", 400, 600), ("new", 0, 1000)):
        builder = IndexBuilder("default", source="one")
        slots = [builder.add_location(1 + at, "SE", "", f"{at}", "", 1.0, 2.0, "", "") for at in range(9)]
        for at in rng.sample(range(low, high), 150):
            builder.add_block(rng.choice(slots), 4, at << 12, (at << 12) + 255)
            begin = (at // 3 << 64) + (at % 3 << 20)  # some in one network of 64 bits, whose upper halves are equal
            builder.add_block(rng.choice(slots), 6, begin, begin + 255)
        builder.write(tmp_path / name)
    _came_back(str(tmp_path))
    for name in ("patch", "again"):
        (tmp_path / name).unlink()
    (tmp_path / "old").rename(tmp_path / "aside")
    (tmp_path / "new").rename(tmp_path / "old")
    (tmp_path / "aside").rename(tmp_path / "new")
    _came_back(str(tmp_path))


def test_a_night_takes_at_most_three_hundredths_of_the_index(tmp_path: Path) -> None:
    """One block in a hundred has another place, or begins elsewhere; one place in ten has other texts and degrees."""
    rng = np.random.default_rng(20260201)
    blocks, count = 200_000, 8_000
    first = np.sort(rng.choice(1 << 24, blocks, replace=False)).astype(np.uint32) << np.uint32(8)
    owner, said = rng.integers(0, count, blocks).astype(np.uint32), rng.integers(0, 1 << 30, count)
    for name in ("old", "new"):
        builder = IndexBuilder("default", source="nights")
        for number, each in enumerate(said.tolist()):
            texts = (
                "DEFRITSENO"[each % 5 * 2 :][:2],
                f"region {each % 90}",
                f"town {each % 6000}",
                f"{each % 9999:04}",
            )
            builder.add_location(1 + number, *texts, each % 170 / 7, each % 340 / 7, "", "")
        lasts = np.append(first[1:] - np.uint32(1), np.uint32(0xFFFF_FFFF))
        builder.extend_columns_v4(first, lasts, owner)
        builder.write(tmp_path / name)
        some = rng.choice(blocks, blocks // 100, replace=False)
        owner[some] = rng.choice(owner, len(some))
        first[some[::2]] += rng.integers(0, 255, len(some[::2])).astype(np.uint32)
        said[rng.choice(count, count // 10, replace=False)] = rng.integers(0, 1 << 30, count // 10)
    assert _came_back(str(tmp_path)) < pack_file(str(tmp_path / "new"), str(tmp_path / "whole")).bytes * 0.03
