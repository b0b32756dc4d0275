"""Damaged files and sections under the accelerator: an error, or an answer, but nothing outside."""

import os
import random
import struct
from pathlib import Path

import pytest

from geolookup.index.native import OVERLAY, open_searcher
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.lookup.views import view_type
from geolookup.model import addresses
from geolookup.model.errors import IndexDamagedError
from tests.index.building import ADDRESSES, build
from tests.index.native.searchers import CUSTOM, DEFAULT, native, needs_native, slots, strings
from tests.oracle.linear_scan import Block
from tests.oracle.pure_searcher import PureSearcher


def test_a_table_or_slot_that_leads_outside_is_damage(tmp_path: Path) -> None:
    cases = (("v4.table", 0x0800, "I"), ("v4.slot", 1, "H"), ("v6.table", 0x1001, "I"), ("v6.slot", 1, "H"))
    for name, entry, kind in cases:
        for value in (99, 0xFFFE, *((0xFFFF_FFFE, 0x7FFF_FFFF, 0x8000_0000) if kind == "I" else (0x7FFF, 0x8000))):
            for module in (None, native):
                path = tmp_path / f"{name}-{value}-{module is None}"
                build(path, DEFAULT)
                with IndexReader.open(path) as reader:
                    section = reader.header.sections[name]
                with open(path, "r+b") as file:
                    file.seek(section.begin + struct.calcsize(kind) * entry)
                    file.write(struct.pack(kind, value) * 2)
                build(tmp_path / f"{path.name}-overlay", [], layer="custom")
                with IndexReader.open(path) as base, IndexReader.open(tmp_path / f"{path.name}-overlay") as overlay:
                    searcher = PureSearcher(base, overlay) if module is None else open_searcher(module, base, overlay)
                    text = "8.0.0.1" if name.startswith("v4") else "1001::"
                    with pytest.raises(IndexDamagedError):
                        searcher.find(text)
                    with pytest.raises(IndexDamagedError):
                        searcher.range(text)
                    with pytest.raises(IndexDamagedError):
                        slots(searcher.locate_strings, *strings([text]), rows=range(1))
                    del searcher


@needs_native
def test_no_damage_leads_outside_and_each_answer_is_a_slot_or_an_error(tmp_path: Path) -> None:
    path, over = tmp_path / "base", tmp_path / "overlay"
    build(path, DEFAULT + [Block(4, 4, number * 77, number * 77 + 5) for number in range(900)])
    build(over, CUSTOM, layer="custom")
    texts = [addresses.to_text(family, value) for family in (4, 6) for value in (*ADDRESSES[family], 2**31, 900 * 40)]
    column = strings(texts)
    whole = path.read_bytes()
    chance = random.Random(11)
    outcomes = {"same": 0, "other": 0, "damaged": 0}

    def ask() -> list[int]:
        with IndexReader.open(path) as base, IndexReader.open(over) as overlay:
            searcher = open_searcher(native, base, overlay)
            found = slots(searcher.locate_strings, *column, rows=range(len(texts)))[0]
            assert [searcher.find(text) for text in texts] == found
            assert all(slot == EMPTY or slot & ~OVERLAY < base.location_count for slot in found)
            return found

    with IndexReader.open(path) as reader:
        sections = reader.header.sections
    # The tables are nearly all of so small a file: of them, only the entries that are asked for.
    targets = [
        place for name, found in sections.items() if "table" not in name for place in range(found.begin, found.end)
    ]
    for family, width in ((4, 32), (6, 128)):
        for value in ADDRESSES[family]:
            entry = sections[f"v{family}.table"].begin + 4 * (value >> width - 16)
            targets += range(entry, entry + 8)
    right = ask()
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 1, 4, 64])):
            changed[chance.choice(targets)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        # Under another name first: the map of the one before may still be there.
        (tmp_path / "changed").write_bytes(changed)
        os.replace(tmp_path / "changed", path)
        try:
            outcomes["same" if ask() == right else "other"] += 1
        except IndexDamagedError:
            outcomes["damaged"] += 1
    assert min(outcomes["same"], outcomes["damaged"]) > 50, outcomes  # so the sweep did reach what is read


@needs_native
def test_sections_that_do_not_fit_each_other_are_refused() -> None:
    assert native is not None
    table = bytes(4 * 65_537)
    right = (bytes(2), bytes(2), bytes(1), table, bytes(8), bytes(8), bytes(2), bytes(1), table, bytes(4))
    native.Layer(right, 1)
    native.Layer((*right[:2], None, *right[3:5], None, right[6], None, table, None), 1)
    for place in (0, 1, 3, 4, 6, 8):
        with pytest.raises(TypeError):
            native.Layer((*right[:place], None, *right[place + 1 :]), 1)
    for wrong in (b"", bytes(3), bytes(64)):
        for place in range(10):
            if (place, wrong) == (9, bytes(64)):
                continue  # sixteen records
            with pytest.raises(ValueError, match="do not fit"):
                native.Layer((*right[:place], wrong, *right[place + 1 :]), 1)
    for arguments in ((right[:9], 1), (right, -1), (right, 2**31)):
        with pytest.raises(ValueError, match="ten sections"):
            native.Layer(*arguments)
    places = native.Places(view_type(native), 2, bytes(16), (), bytes(8), b"")
    native.Layer(right, 2, places)
    with pytest.raises(ValueError, match="places of as many"):
        native.Layer(right, 1, places)
    with pytest.raises(TypeError, match="places, or None"):
        native.Layer(right, 1, "places")
    for wrong_type in (int, view_type(native), 5):
        with pytest.raises(TypeError, match="a type of `network_type`"):
            native.Layer(right, 1, None, None, wrong_type)
