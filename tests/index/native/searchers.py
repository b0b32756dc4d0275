"""Searchers over two layers, by the accelerator and by the reference, and columns to ask them about."""

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from geolookup.index.native import OVERLAY, accelerator, open_searcher
from geolookup.index.reader import EMPTY, IndexReader
from tests.index.building import build
from tests.oracle.linear_scan import Block
from tests.oracle.pure_searcher import PureSearcher

native = accelerator()
needs_native = pytest.mark.skipif(native is None, reason="the accelerator was not built here")
each_reader = pytest.mark.parametrize(
    "module", [None, pytest.param(native, marks=needs_native)], ids=["pure", "native"]
)

CUSTOM = [Block(-1, 4, 0x08080000, 0x0808FFFF), Block(-2, 6, 2**125, 2**126)]
DEFAULT = [Block(1, 4, 0x08000000, 0x08FFFFFF), Block(2, 4, 0x09000000, 0x090000FF), Block(3, 6, 2**124, 2**127)]


def opened(module: Any, folder: Path, custom: Iterable[Block], default: Iterable[Block]) -> Any:
    """A searcher over both layers, whose readers are closed: what it needs, it holds on to."""
    place = folder / str(len(os.listdir(folder)))
    place.mkdir()
    build(place / "base", default)
    build(place / "overlay", custom, layer="custom")
    base, overlay = IndexReader.open(place / "base"), IndexReader.open(place / "overlay")
    if module is None:
        return PureSearcher(base, overlay)
    searcher = open_searcher(module, base, overlay)
    base.close()
    overlay.close()
    return searcher


def locid_of(slot: int, custom: Iterable[Block], default: Iterable[Block]) -> int | None:
    """Slots ascend by locid."""
    if slot == EMPTY:
        return None
    layer = custom if slot & OVERLAY else default
    return sorted({block.locid for block in layer})[slot & ~OVERLAY]


def strings(texts: Sequence[str | bytes | None], width: str = "i") -> tuple[bytes, bytes, bytes]:
    """Arrow's data, offsets and validity of texts."""
    encoded = [b"" if text is None else text if isinstance(text, bytes) else text.encode() for text in texts]
    ends = [0]
    for text in encoded:
        ends.append(ends[-1] + len(text))
    return b"".join(encoded), struct.pack(f"{len(ends)}{width}", *ends), valid(texts)


def valid(values: Sequence[object]) -> bytes:
    bits = bytearray(-(-len(values) // 8))
    for row, value in enumerate(values):
        bits[row >> 3] |= (value is not None) << (row & 7)
    return bytes(bits)


def slots(locate: Callable[..., int], *buffers: Any, rows: range) -> tuple[list[int], int]:
    """What a method writes for some rows of a column, and what it counts."""
    out = bytearray(4 * len(rows))
    bad = locate(*buffers, rows.start, len(rows), out)
    return list(struct.unpack(f"{len(rows)}I", out)), bad
