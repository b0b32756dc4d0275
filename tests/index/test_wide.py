"""Layers of so many locations that a slot needs more than 16 bits: every edge, by both readers."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geolookup.index import builder as fileformat
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import EMPTY, NARROW_EMPTY, WIDE_EMPTY
from geolookup.index.native import accelerator, open_searcher
from geolookup.index.reader import IndexReader
from geolookup.index.segments import segments_v4, segments_v6
from geolookup.index.verify import verify_index
from geolookup.model import addresses
from geolookup.model.errors import IndexDamagedError, IndexFileError
from tests.index.building import rewritten

#: A block of six addresses for each location, then one that none has: across many values of the upper 16 bits.
_STEP = 7
_UPPER = 1 << 64


def write(path: Path, locations: int) -> None:
    builder = IndexBuilder("default")
    for locid in range(1, locations + 1):
        slot = builder.add_location(locid, "", "", "", "", None, None, "", "")
        builder.add_block(slot, 4, slot * _STEP, slot * _STEP + 5)
        builder.add_block(slot, 6, slot * _STEP * _UPPER, (slot * _STEP + 6) * _UPPER - 1)
    builder.write(path)


@pytest.fixture(scope="module", params=[NARROW_EMPTY - 1, NARROW_EMPTY, NARROW_EMPTY + 1, 70_000])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    path = tmp_path_factory.mktemp("wide") / "index"
    write(path, request.param)
    return path, request.param


def expected(place: int, locations: int) -> int:
    slot, inside = divmod(place, _STEP)
    return slot if slot < locations and inside < 6 else EMPTY


def asked(locations: int) -> list[int]:
    edges = (0, 1, 5, 6, 7, 0xFFFF, 0x10000, *range((locations - 2) * _STEP, (locations + 2) * _STEP))
    return sorted({*edges, *range((NARROW_EMPTY - 2) * _STEP, (NARROW_EMPTY + 2) * _STEP), *range(0, 500_000, 997)})


def test_upper_bits_are_there_just_where_they_are_needed(index: tuple[Path, int]) -> None:
    path, locations = index
    with IndexReader.open(path) as reader:
        wide = [name for name in reader.header.sections if name.endswith("slot_high")]
        assert wide == (["v4.slot_high", "v6.slot_high"] if locations > NARROW_EMPTY else [])
        assert "v6.lo" not in reader.header.sections
    verify_index(path)


def test_every_slot_is_found_and_every_gap_is_one(index: tuple[Path, int]) -> None:
    path, locations = index
    with IndexReader.open(path) as reader:
        for place in asked(locations):
            slot = expected(place, locations)
            assert reader.find4(place) == slot
            assert reader.find6(place * _UPPER) == reader.find6(place * _UPPER + 99) == slot
            assert reader.segment4(place)[0] == reader.segment6(place * _UPPER)[0] == slot
            if slot != EMPTY:
                assert reader.segment4(place)[1:] == (slot * _STEP, slot * _STEP + 5)
        walked = list(reader.segments(4))
        assert walked == [(slot * _STEP, slot * _STEP + 5, slot) for slot in range(locations)]
        first, slots = segments_v4(reader)
        assert [slot for slot in slots.tolist() if slot != EMPTY] == list(range(locations))
        assert first[slots != EMPTY].tolist() == [slot * _STEP for slot in range(locations)]
        hi, lo, slots6 = segments_v6(reader)
        assert slots6.tolist() == slots.tolist()
        assert (hi.tolist(), lo.any()) == (first.tolist(), False)
        part = slice(1000, 70_123)
        assert [array.tolist() for array in segments_v4(reader, 1000, 70_123)] == [
            first[part].tolist(),
            slots[part].tolist(),
        ]


@pytest.mark.skipif(accelerator() is None, reason="the accelerator was not built")
def test_the_accelerator_finds_the_same(index: tuple[Path, int], tmp_path: Path) -> None:
    path, locations = index
    IndexBuilder("custom").write(tmp_path / "overlay")
    with IndexReader.open(path) as base, IndexReader.open(tmp_path / "overlay") as overlay:
        searcher = open_searcher(accelerator(), base, overlay)
        places = asked(locations)
        right = [expected(place, locations) for place in places]
        assert [searcher.find(addresses.to_text(4, place)) for place in places] == right
        assert [searcher.find(addresses.to_text(6, place * _UPPER)) for place in places] == right
        out = bytearray(4 * len(places))
        for _ in range(8):  # on both sides of where samples are built
            searcher.locate_u32(struct.pack(f"{len(places)}I", *places), None, 0, len(places), out)
            assert np.frombuffer(out, np.uint32).tolist() == right


def test_upper_bits_that_name_no_location_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "index"
    write(path, NARROW_EMPTY + 1)

    def wild(high: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.full_like(high, 0x7F)

    changed = rewritten(path, tmp_path / "changed", v4__slot_high=wild)
    with pytest.raises(IndexDamagedError, match=r"v4\.slot: entry 0"):
        verify_index(changed)
    with IndexReader.open(changed) as reader, pytest.raises(IndexDamagedError, match="slot"):
        reader.location(reader.find4(0))


def test_a_layer_with_too_many_locations_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fileformat, "WIDE_EMPTY", 3)
    builder = IndexBuilder("default")
    for locid in (1, 2, 3):
        builder.add_location(locid, "", "", "", "", None, None, "", "")
    with pytest.raises(IndexFileError, match="locid 4: a layer has room for 3 locations"):
        builder.add_location(4, "", "", "", "", None, None, "", "")
    assert WIDE_EMPTY == 16_777_215
