"""Searching both layers: the accelerator and the reference reader answer as a linear scan does."""

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from geolookup.model import addresses
from tests.index.building import around, blocks
from tests.index.native.searchers import CUSTOM, each_reader, locid_of, native, needs_native, opened, slots, strings
from tests.oracle.linear_scan import Block, winner
from tests.support.examples import examples


@each_reader
@examples(50)
@given(custom=blocks(sign=-1, most=6), default=blocks(most=12))
def test_both_layers_agree_with_a_linear_scan(
    module: Any, tmp_path_factory: pytest.TempPathFactory, custom: list[Block], default: list[Block]
) -> None:
    searcher = opened(module, tmp_path_factory.mktemp("index"), custom, default)
    asked = [(family, value) for family in (4, 6) for value in around(family) if family == 4 or value >> 32 != 0xFFFF]
    texts = [addresses.to_text(family, value) for family, value in asked]
    expected = [winner(custom, default, family, value) for family, value in asked]
    assert [locid_of(searcher.find(text), custom, default) for text in texts] == expected
    found, bad = slots(searcher.locate_strings, *strings(texts), rows=range(len(texts)))
    assert ([locid_of(slot, custom, default) for slot in found], bad) == (expected, 0)


@needs_native
def test_samples_change_no_answer(tmp_path: Path) -> None:
    chance = random.Random(5)
    content = [Block(1 + number % 7, 4, *[0x08080000 + 9 * number + chance.randrange(5)] * 2) for number in range(9000)]
    for number in range(9000):
        # Some share their upper half, so that the lower decides.
        first = 0x2001 << 112 | (number // 3) << 64 | chance.getrandbits(62) + (number % 3 << 62)
        content.append(Block(1 + number % 7, 6, first, first))
    edges = [(block.family, value) for block in content for value in (block.first - 1, block.first, block.first + 1)]
    texts = [addresses.to_text(family, value) for family, value in edges]
    chance.shuffle(texts)
    searcher = opened(native, tmp_path, CUSTOM[1:], content)
    reference = opened(None, tmp_path, CUSTOM[1:], content)
    expected = [reference.find(text) for text in texts]
    assert len(set(expected)) > 7
    # Single lookups and small columns pass the number after which samples are built, in the midst of these.
    assert [searcher.find(text) for text in texts[:2000]] == expected[:2000]
    column = strings(texts)
    for begin in range(0, len(texts), 1000):
        rows = range(begin, min(begin + 1000, len(texts)))
        assert slots(searcher.locate_strings, *column, rows=rows)[0] == expected[rows.start : rows.stop]
    assert [searcher.find(text) for text in texts] == expected


@needs_native
def test_threads_share_a_searcher_while_its_samples_are_built(tmp_path: Path) -> None:
    content = [Block(1 + number % 50, 4, number << 14, (number << 14) + 99) for number in range(200_000)]
    texts = [addresses.to_text(4, (number % 200_000 << 14) + 50) for number in range(0, 1_200_000, 7)]
    column = strings(texts)
    reference = opened(None, tmp_path, [], content)
    expected = [reference.find(text) for text in texts]
    wrong: list[int] = []
    for _ in range(5):
        searcher = opened(native, tmp_path, [], content)
        gate = threading.Barrier(4)

        def ask(searcher: Any = searcher, gate: threading.Barrier = gate) -> None:
            gate.wait()
            for begin in (0, 3000, 0):
                rows = range(begin, len(texts))
                found = slots(searcher.locate_strings, *column, rows=rows)[0]
                if found != expected[begin:]:
                    wrong.append(begin)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
