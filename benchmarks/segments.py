"""What a search costs as segments grow: whole numbers to slots, from mapped sections; and what building them costs."""

import argparse
import json
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import arguments, child, load_average, peak_mib, print_table
from benchmarks.figures import record
from benchmarks.generator import Array
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import TABLE_LENGTH
from geolookup.index.native import accelerator

MILLION = 1_000_000
SIZES = (1, 4, 16, 64)
LOCATIONS = 120_000
ROWS = 1_000_000
_TARGET = 1.4
#: Segments that are made at a time.
_CHUNK = 1 << 22
#: So many keys and slots, of five bytes together, fit into 64.
_IN_A_LINE = 12


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
    none: tuple[Any, ...] = (bytes(8), None, bytes(2), bytes(1), np.ones(TABLE_LENGTH, np.uint32), None)
    four = (_mapped(path), _mapped(f"{path}.slot"), _mapped(f"{path}.slot_high"), _mapped(f"{path}.table"))
    empty = (bytes(2), bytes(2), bytes(1), np.ones(TABLE_LENGTH, np.uint32))
    return module.Searcher(module.Layer((*four, *none), LOCATIONS), module.Layer((*empty, *none), 0))


def _fetches(path: str, positions: Array) -> Callable[[], None]:
    """Read an item of each section that a search ends in, at positions like a search's: what memory alone costs.

    numpy's loop does nothing else, and has as many reads under way at a time as the processor can.
    """
    sections = [
        np.fromfile(f"{path}{end}", kind)
        for end, kind in (("", np.uint16), (".slot", np.uint16), (".slot_high", np.uint8))
    ]
    outs = [np.empty(ROWS, section.dtype) for section in sections]

    def fetch() -> None:
        for section, out in zip(sections, outs, strict=True):
            np.take(section, positions, out=out, mode="clip")

    return fetch


def _line_fetches(segments: int, positions: Array) -> Callable[[], None]:
    """Read from lines of 64 bytes, as many as keys and slots of all segments would fill if they stood together."""
    lines = np.ones((segments // _IN_A_LINE + 1) * 8, np.uint64)
    at, out = positions // _IN_A_LINE * 8, np.empty(ROWS, np.uint64)

    def fetch() -> None:
        lines.take(at, out=out, mode="clip")

    return fetch


def _measure(folder: str, sizes: list[int], rounds: int) -> dict[str, list[list[float]]]:
    """For each size the nanoseconds a row of each round, of searches and of mere reads, all sizes in each round.

    They are of the processor's time: beside other work, the clock on the wall would count that too.
    """
    tasks: dict[str, list[Callable[[], object]]] = {"search": [], "reads": [], "lines": []}
    rng = np.random.default_rng(1)
    asked = rng.integers(0, 2**32, ROWS, np.uint32)
    for millions in sizes:
        path = os.path.join(folder, f"segments-{millions}")
        if not os.path.exists(f"{path}.table"):
            _write(path, millions * MILLION)
        out = np.empty(ROWS, np.uint32)
        tasks["search"].append(partial(_searcher(path).locate_u32, asked, None, 0, ROWS, out))
        positions = rng.integers(0, millions * MILLION, ROWS)
        tasks["reads"].append(_fetches(path, positions))
        tasks["lines"].append(_line_fetches(millions * MILLION, positions))
    times: dict[str, list[list[float]]] = {name: [[] for _ in sizes] for name in tasks}
    for number in range(rounds + 1):
        for name, each in tasks.items():
            for place, task in enumerate(each):
                began = time.thread_time()
                task()
                if number:  # the first maps the pages
                    times[name][place].append((time.thread_time() - began) / ROWS * 1e9)
    return times


def _build(folder: str, millions: int, order: str, scratch: str) -> list[float]:
    """Build an index of so many IPv4 blocks: seconds, seconds of the processor, and the peak MiB of this process.

    Blocks come a million at a time, as a source hands them out; making them is not counted, but their memory is.
    """
    builder = IndexBuilder("default", folder=folder if scratch == "scratch" else None)
    for number in range(LOCATIONS):
        builder.add_location(number + 1, "DE", "", str(number % 5000), "", 1.5, 2.5, "", "")
    spent, used = 0.0, 0.0
    width = 2**32 // (millions * MILLION)
    rng = np.random.default_rng(millions)
    for number in range(millions):
        place = np.arange(MILLION, dtype=np.uint64)
        # Each million in its own part of the addresses, or all over them, in any order.
        place = (
            place + np.uint64(number * MILLION) if order == "ascending" else rng.permutation(place * millions + number)
        )
        first = (place * np.uint64(width)).astype(np.uint32)
        slot = rng.integers(0, LOCATIONS, MILLION, np.uint32)
        began, cpu = time.perf_counter(), time.process_time()
        builder.extend_columns_v4(first, first + np.uint32(width - 1), slot)
        spent, used = spent + time.perf_counter() - began, used + time.process_time() - cpu
    began, cpu = time.perf_counter(), time.process_time()
    builder.write(os.path.join(folder, "index"))
    return [spent + time.perf_counter() - began, used + time.process_time() - cpu, peak_mib()]


def _print_builds(options: argparse.Namespace, sizes: list[int]) -> None:
    rows = []
    for millions in sizes:
        row = [f"{millions},000,000"]
        for order, scratch in (("ascending", "scratch"), ("any", "scratch"), ("any", "memory")):
            runs = []
            for _ in range(max(1, options.builds)):
                with tempfile.TemporaryDirectory() as folder:
                    words = ("build", folder, str(millions), order, scratch)
                    runs.append(json.loads(child("segments", *words, data=options.data)))
            spent, used, peak = (statistics.median(values) for values in zip(*runs, strict=True))
            row += [f"{spent:.2f}", f"{used:.2f}", f"{peak:.0f}"]
            if (order, scratch) == ("any", "scratch"):
                record(f"segments/build s/{millions}", spent)
                record(f"segments/build MiB/{millions}", peak)
        rows.append((*row, "1024"))
    each = ("s", "CPU s", "peak MiB")
    print_table(
        "Building an index of so many IPv4 blocks of as many segments, from columns of a million",
        ("blocks", *(f"{name}: {what}" for name in ("ascending", "any order", "in memory") for what in each), "target"),
        rows,
        "peak: of resident memory (VmHWM), numpy's and the input's among it; in memory: any order, without a folder",
        f"for sorted runs; medians of {options.builds} processes; load average {load_average()}",
    )


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="rounds for each size (default: 21)")
    parser.add_argument("--builds", type=int, default=3, help="processes for each build (default: 3)")
    options = parser.parse_args()
    sizes = list(SIZES[:2] if options.small else SIZES)
    if options.child and options.child[0] == "build":
        folder, millions, order, scratch = options.child[1:]
        print(json.dumps(_build(folder, int(millions), order, scratch)))
        return
    if options.child:
        folder, rounds = options.child
        print(json.dumps(_measure(folder, sizes, int(rounds))))
        return
    words = ["--small"] if options.small else []
    with tempfile.TemporaryDirectory() as folder:
        times = json.loads(child("segments", folder, str(options.rounds), *words, data=options.data))
    rows = []
    for millions, measured, reads, lines in zip(
        sizes, *(times[name] for name in ("search", "reads", "lines")), strict=True
    ):
        ratio = statistics.median(mine / least for mine, least in zip(measured, times["search"][0], strict=True))
        record(f"segments/search/{millions}", statistics.median(measured))
        record(f"segments/search/{millions} times", ratio)
        target = f"<= {_TARGET}" if 1 < millions <= 16 else ""
        rows.append(
            (
                f"{millions},000,000",
                f"{statistics.median(measured):.0f}",
                f"{min(measured):.0f}",
                f"{statistics.median(reads):.0f}",
                f"{statistics.median(lines):.0f}",
                f"{ratio:.2f}",
                target,
            )
        )
    print_table(
        f"A column of {ROWS:,} whole numbers to slots by one thread, IPv4, anywhere in so many segments",
        ("segments", "ns a row", "least", "three reads alone", "one alone", "times that of the first", "target"),
        rows,
        "three reads alone: what a search fetches at the least, a key and both parts of a slot, from anywhere; one",
        "alone: what it would if both stood in one line of 64 bytes, which the file has not",
        f"medians of {options.rounds} rounds through all sizes, of processor time; load average {load_average()}",
    )
    _print_builds(options, sizes)


if __name__ == "__main__":
    main()
