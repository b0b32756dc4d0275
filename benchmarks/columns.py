"""A column of addresses to country and city, one thread, against Polars, chdb, DuckDB; and two threads against one."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

import geolookup
from benchmarks.common import ROOT, arguments, child, environment, load_average, print_table
from benchmarks.contestants import CONTESTANTS, FIELDS
from benchmarks.data import FULL, SIZES, SMALL, DataSet
from benchmarks.figures import record

#: What can be counted, and what a table says of it.
_CLOCKS: dict[str, tuple[Callable[[], float], str]] = {
    "wall": (time.perf_counter, ""),
    "cpu": (time.process_time, ", of processor time"),
}


def _sorted_answers(table: Any) -> Any:
    """What can be compared whatever the order and types of the rows: equal addresses have equal answers."""
    order = pa.array(np.argsort(table["n"].cast(pa.uint32()).to_numpy()))
    plain = {"n": table["n"].cast(pa.uint32()), **{name: table[name].cast(pa.string()) for name in FIELDS}}
    return pa.table(plain).take(order).combine_chunks()


def _compete(name: str, data: DataSet, rows: int, kind: str, clock: Callable[[], float]) -> None:
    """A contestant's process: it does what each line of standard input says, and answers it by a line."""
    with pa.memory_map(data.column4(rows, zipf=kind == "zipf")) as source:
        batch = pa.ipc.open_file(source).read_all().combine_chunks().to_batches()[0]
        # Into memory of its own: what is mapped would be read from the file in the first round.
        column, numbers = (pa.concat_arrays([batch.column(place), batch.column(place)[:0]]) for place in (0, 1))
        one = CONTESTANTS[name]()
        one.prepare(data, column, numbers)
        one.answer()
        expected = None
        print("ready", flush=True)
        for line in sys.stdin:
            command, _, path = line.strip().partition(" ")
            if command == "answer":
                began = clock()
                found = one.answer()
                print(clock() - began, flush=True)
                del found
            elif command == "write":
                answered = one.answered()
                with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, answered.schema) as out:
                    out.write_table(answered)
                print("written", flush=True)
            else:
                with pa.memory_map(path) as theirs:
                    other = pa.ipc.open_file(theirs).read_all()
                    expected = _sorted_answers(one.answered()) if expected is None else expected
                    same = expected.equals(_sorted_answers(other))
                    print("same" if same and other.num_rows == rows else "DIFFERENT", flush=True)


class _Process:
    """A contestant in a process of its own, idle between what it is told to do."""

    def __init__(self, name: str, data: DataSet, root: str, rows: int, kind: str, clock: str) -> None:
        command = [sys.executable, "-m", "benchmarks.columns", "--data", root]
        self._process = subprocess.Popen(
            [*command, "--child", "compete", name, data.size.name, str(rows), kind, clock],
            cwd=ROOT,
            env=environment(POLARS_MAX_THREADS="1", OMP_NUM_THREADS="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == "ready"

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "a contestant's process ended early"
        return line

    def tell(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._read()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def _started(
    names: Sequence[str], data: DataSet, root: str, rows: int, kind: str, clock: str
) -> Iterator[dict[str, _Process]]:
    running: dict[str, _Process] = {}
    try:
        for name in names:
            running[name] = _Process(name, data, root, rows, kind, clock)
        yield running
    finally:
        for process in running.values():
            process.end()


def _present(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those whose packages are installed, and a line about each that is left out."""
    missing = {name: [package for package in CONTESTANTS[name].needs if find_spec(package) is None] for name in names}
    skipped = [
        f"left out: {CONTESTANTS[name].name}: {', '.join(packages)} not installed (pip install 'geolookup[bench]')"
        for name, packages in missing.items()
        if packages
    ]
    return [name for name in names if not missing[name]], skipped


def _compare(names: Sequence[str], data: DataSet, root: str, rows: int, kind: str, rounds: int, clock: str) -> None:
    """Print one table: every contestant in each round, forth and back, beside ours of the same round."""
    names, notes = _present(names)
    with _started(names, data, root, rows, kind, clock) as running, tempfile.TemporaryDirectory() as folder:
        checked = {"Ours": ""}
        for name in names[1:]:
            path = os.path.join(folder, name)
            running[name].tell(f"write {path}")
            checked[name] = running["Ours"].tell(f"compare {path}")
            os.unlink(path)
        times: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            for name in names if number % 2 else names[::-1]:
                times[name].append(float(running[name].tell("answer")))
    lines = []
    for name in names:
        one = CONTESTANTS[name]
        ratio = statistics.median(theirs / ours for theirs, ours in zip(times[name], times["Ours"], strict=True))
        target = "" if one.times is None or kind == "zipf" else f">= {one.times:g}"
        measured = f"{statistics.median(times[name]) / rows * 1e9:.0f}"
        record(f"columns/{rows} {kind}/{name}", statistics.median(times[name]) / rows * 1e9)
        lines.append((one.name, measured, "" if name == "Ours" else f"{ratio:.2f}", target, checked[name]))
    label = "" if kind == "uniform" else ", few addresses over and over (Zipf)"
    print_table(
        f"A column of {rows:,} IPv4 strings{label} to country and city, one thread, on {data.size.v4:,} IPv4 ranges",
        ("what", "ns a row", "ours is times as fast", "target", "all answers"),
        lines,
        f"medians of {rounds} alternated rounds, a process each{_CLOCKS[clock][1]}; load average {load_average()}",
        *notes,
    )
    wrong = [name for name in names if checked[name] == "DIFFERENT"]
    assert not wrong, f"the answers differ from ours: {wrong}"


def _threads(data: DataSet, rounds: int) -> dict[str, Any]:
    """Nanoseconds a row of `enrich` with one thread and with two, and the median ratio of the pairs."""
    from geolookup.columns import arrow

    rows = 1_000_000
    with pa.memory_map(data.column4(rows)) as source:
        table = pa.ipc.open_file(source).read_all()
        table = pa.table({"ip": pa.concat_arrays([*table["ip"].chunks, table["ip"].chunks[0][:0]])})
    found = {}
    with geolookup.open(data.home) as geo:
        for size in (65_536, 131_072):
            batches = table.to_batches(max_chunksize=size)

            def ns(threads: int, batches: Sequence[Any] = batches) -> float:
                began = time.perf_counter()
                count = sum(
                    batch.num_rows for batch in arrow.enrich(geo, batches, column="ip", fields=FIELDS, threads=threads)
                )
                assert count == rows
                return (time.perf_counter() - began) / rows * 1e9

            ns(1)
            pairs = [(ns(1), ns(2)) for _ in range(rounds)]
            found[f"{size:,}"] = {
                "ns": [statistics.median(side) for side in zip(*pairs, strict=True)],
                "ratio": statistics.median(one / two for one, two in pairs),
            }
    return found


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="for a million rows; ten: a third (default: 11)")
    parser.add_argument("--cpu", action="store_true", help="count processor time: for a machine that is busy")
    options = parser.parse_args()
    if options.child:
        task, *words = options.child
        if task == "compete":
            name, size, rows, kind, clock = words
            _compete(name, DataSet(SIZES[size], options.data), int(rows), kind, _CLOCKS[clock][0])
        else:
            print(json.dumps(_threads(DataSet(SIZES[words[0]], options.data), int(words[1]))))
        return
    data = DataSet(SMALL if options.small else FULL, options.data)
    everyone = list(CONTESTANTS)
    runs: list[tuple[list[str], int, str, int]] = [
        (everyone, 1_000_000, "uniform", options.rounds),
        (
            [name for name in everyone if name not in ("OursDictionary", "ChdbAsof")],
            10_000_000,
            "uniform",
            max(options.rounds // 3, 1),
        ),
        (everyone, 1_000_000, "zipf", max(options.rounds // 2, 1)),
    ]
    if options.small:
        runs[1] = (runs[1][0], 2_000_000, "uniform", runs[1][3])
    made: list[Callable[[], str]] = [lambda: data.home, *(lambda run=run: _column_of(data, run) for run in runs)]
    for make in made:  # before anything is measured
        make()
    for names, rows, kind, rounds in runs:
        _compare(names, data, options.data, rows, kind, rounds, "cpu" if options.cpu else "wall")
    threads = json.loads(child("columns", "threads", data.size.name, str(options.rounds), data=options.data))
    print_table(
        f"enrich: a million IPv4 strings in record batches to country and city, on {data.size.v4:,} IPv4 ranges",
        ("rows a batch", "one thread, ns a row", "two threads", "times as fast", "target"),
        [
            (size, *(f"{value:.0f}" for value in measured["ns"]), f"{measured['ratio']:.2f}", ">= 1.7")
            for size, measured in threads.items()
        ],
        f"medians of {options.rounds} pairs; load average {load_average()}",
    )


def _column_of(data: DataSet, run: tuple[list[str], int, str, int]) -> str:
    return data.column4(run[1], zipf=run[2] == "zipf")


if __name__ == "__main__":
    main()
