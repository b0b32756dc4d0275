"""What a search costs as segments grow: whole numbers to slots, from sections that are mapped as an index file is."""

import json
import mmap
import os
import statistics
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.common import arguments, child, load_average, print_table
from geolookup.index.layout import TABLE_LENGTH
from geolookup.index.native import accelerator

MILLION = 1_000_000
SIZES = (1, 4, 16, 64)
LOCATIONS = 120_000
ROWS = 1_000_000
_TARGET = 1.5
#: Segments that are made at a time.
_CHUNK = 1 << 22


def _write(path: str, segments: int) -> None:
    """The sections ``v4.low``, ``v4.slot``, ``v4.slot_high`` and ``v4.table``: segments that begin anywhere."""
    rng = np.random.default_rng(segments)
    table = np.zeros(TABLE_LENGTH, np.uint32)
    with open(path, "wb") as lows, open(f"{path}.slot", "wb") as slots, open(f"{path}.slot_high", "wb") as highs:
        # An equal share of the addresses for each chunk, so that it can be sorted by itself.
        chunks = -(-segments // _CHUNK)
        for number in range(chunks):
            begin, end = (2**32 * place // chunks for place in (number, number + 1))
            count = segments * (number + 1) // chunks - segments * number // chunks
            firsts = np.sort(rng.integers(begin, end, count, np.uint64).astype(np.uint32))
            if number == 0:
                firsts[0] = 0
            table[1:] += np.searchsorted(firsts, np.arange(1, TABLE_LENGTH, dtype=np.uint64) << np.uint64(16)).astype(
                np.uint32
            )
            slot = rng.integers(0, LOCATIONS, count, np.uint32)
            (firsts & np.uint32(0xFFFF)).astype(np.uint16).tofile(lows)
            (slot & np.uint32(0xFFFF)).astype(np.uint16).tofile(slots)
            (slot >> np.uint32(16)).astype(np.uint8).tofile(highs)
    table.tofile(f"{path}.table")


def _mapped(path: str) -> memoryview:
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def _searcher(path: str) -> Any:
    module = accelerator()
    assert module is not None, "the accelerator was not built: reinstall where there is a compiler"
    none: tuple[Any, ...] = (bytes(8), None, bytes(2), bytes(1), np.ones(TABLE_LENGTH, np.uint32))
    four = (_mapped(path), _mapped(f"{path}.slot"), _mapped(f"{path}.slot_high"), _mapped(f"{path}.table"))
    empty = (bytes(2), bytes(2), bytes(1), np.ones(TABLE_LENGTH, np.uint32))
    return module.Searcher(module.Layer((*four, *none), LOCATIONS, 1), module.Layer((*empty, *none), 0, 1))


def _measure(folder: str, sizes: list[int], rounds: int) -> list[list[float]]:
    """For each size the nanoseconds a row of each round; the rounds go through all sizes.

    They are of the processor's time: beside other work, the clock on the wall would count that too.
    """
    searchers = []
    for millions in sizes:
        path = os.path.join(folder, f"segments-{millions}")
        if not os.path.exists(f"{path}.table"):
            _write(path, millions * MILLION)
        searchers.append(_searcher(path))
    rng = np.random.default_rng(1)
    asked = rng.integers(0, 2**32, ROWS, np.uint32)
    out = np.empty(ROWS, np.uint32)
    times: list[list[float]] = [[] for _ in sizes]
    for number in range(rounds + 1):
        for place, searcher in enumerate(searchers):
            began = time.thread_time()
            searcher.locate_u32(asked, None, 0, ROWS, out)
            if number:  # the first maps the pages
                times[place].append((time.thread_time() - began) / ROWS * 1e9)
    return times


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="rounds for each size (default: 21)")
    options = parser.parse_args()
    sizes = list(SIZES[:2] if options.small else SIZES)
    if options.child:
        folder, rounds = options.child
        print(json.dumps(_measure(folder, sizes, int(rounds))))
        return
    words = ["--small"] if options.small else []
    with tempfile.TemporaryDirectory() as folder:
        times = json.loads(child("segments", folder, str(options.rounds), *words, data=options.data))
    rows = []
    for millions, measured in zip(sizes, times, strict=True):
        ratio = statistics.median(mine / least for mine, least in zip(measured, times[0], strict=True))
        target = f"<= {_TARGET}" if 1 < millions <= 16 else ""
        rows.append(
            (
                f"{millions},000,000",
                f"{statistics.median(measured):.0f}",
                f"{min(measured):.0f}",
                f"{ratio:.2f}",
                target,
            )
        )
    print_table(
        f"A column of {ROWS:,} whole numbers to slots by one thread, IPv4, anywhere in so many segments",
        ("segments", "ns a row", "least", "times that of the first", "target"),
        rows,
        f"medians of {options.rounds} rounds through all sizes, of processor time; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
