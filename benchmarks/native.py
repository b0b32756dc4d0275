"""The accelerator against maxminddb's C extension on the same ranges, against the pure reader, and on whole columns."""

import json
import statistics
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import geolookup
from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import FULL, PEER, SIZES, SMALL, DataSet
from benchmarks.lookup import per_call_us, workloads

_ROWS = 1_000_000
_TARGETS = {"IPv4, uniform": ">= 5", "IPv6, uniform": ">= 4"}


def _one(data: DataSet, rounds: int) -> dict[str, Any]:
    """For each workload the medians in microseconds a call, and the median ratio of the pairs."""
    peer: Callable[[str], Any] | None = None
    if data.size is not FULL:
        import maxminddb

        # MODE_MMAP_EXT fails where the extension is missing; the automatic mode would go on in Python.
        peer = maxminddb.open_database(data.mmdb, maxminddb.MODE_MMAP_EXT).get
    found = {}
    with geolookup.open(data.home) as geo:
        assert geo.status().reader == "native", "the accelerator was not built: reinstall where there is a compiler"
        for name, asked in workloads(data).items():
            # The class's own method is what serves where there is no accelerator.
            calls: list[Callable[[str], Any]] = [geo.lookup, lambda text: geolookup.GeoLookup.lookup(geo, text)]
            calls += [peer] if peer is not None else []
            for call in calls:
                per_call_us(call, asked)
            rows = []
            for number in range(rounds):
                order = calls if number % 2 else calls[::-1]
                times = {id(call): per_call_us(call, asked) for call in order}
                rows.append([times[id(call)] for call in calls])
            found[name] = {
                "us": [statistics.median(column) for column in zip(*rows, strict=True)],
                "ratios": [statistics.median(row[place] / row[0] for row in rows) for place in range(len(calls))],
            }
    return found


def _column(texts: Sequence[str]) -> tuple[bytes, bytes]:
    """Arrow's data and 32-bit offsets."""
    ends = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=ends[1:])
    return "".join(texts).encode("ascii"), ends.tobytes()


def _rows_ns(searcher: Any, column: tuple[bytes, bytes], rows: int, threads: int) -> float:
    """Nanoseconds a row, over the whole column, by so many threads with a part each."""
    share = rows // threads
    outs = [bytearray(4 * share) for _ in range(threads)]
    gate = threading.Barrier(threads + 1)

    def work(number: int) -> None:
        gate.wait()
        searcher.locate_strings(*column, None, number * share, share, outs[number])

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    gate.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - began) / (share * threads) * 1e9


def _many(data: DataSet, rounds: int) -> dict[str, Any]:
    """Nanoseconds a row by one thread and by two, and the median ratio of the pairs."""
    rng = np.random.default_rng(7)
    chance = rng.integers(0, 2**32, _ROWS, dtype=np.uint64).tolist()
    columns = {
        "IPv4, uniform": data.covered4(_ROWS, rng),
        "IPv4, Zipf": data.covered4(_ROWS, rng, zipf=True),
        "IPv4, any address, covered or not": [".".join(map(str, struct.pack(">I", value))) for value in chance],
        "IPv6, uniform": data.covered6(_ROWS, rng),
        "IPv6, Zipf": data.covered6(_ROWS, rng, zipf=True),
    }
    found = {}
    with geolookup.open(data.home) as geo:
        searcher = geo._follower.newest().fast
        for name, texts in columns.items():
            column = _column(texts)
            _rows_ns(searcher, column, _ROWS, 1)
            pairs = [
                (_rows_ns(searcher, column, _ROWS, 1), _rows_ns(searcher, column, _ROWS, 2)) for _ in range(rounds)
            ]
            found[name] = {
                "ns": [statistics.median(side) for side in zip(*pairs, strict=True)],
                "ratio": statistics.median(one / two for one, two in pairs),
            }
    return found


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="pairs for each row (default: 11)")
    options = parser.parse_args()
    if options.child:
        kind, name, rounds = options.child
        data = DataSet(SIZES[name], options.data)
        measured = {"one": _one, "many": _many}[kind](data, int(rounds))
        print(json.dumps(measured))
        return

    def run(kind: str, size: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(
            child("native", kind, size, str(options.rounds), data=options.data, env=environment())
        )
        return result

    whole = SMALL if options.small else FULL
    for size in (SMALL,) if options.small else (PEER, FULL):
        rows = []
        for name, measured in run("one", size.name).items():
            us = [f"{value:.2f}" for value in measured["us"]]
            ratios = [f"{value:.1f}" for value in measured["ratios"]]
            with_peer = len(us) > 2
            peer = (us[2], ratios[2], _TARGETS.get(name, "")) if with_peer else ("", "", "")
            rows.append((name, us[0], us[1], ratios[1], *peer))
        print_table(
            f"One lookup (us), on: {DataSet(size, options.data).describe()}",
            ("addresses", "accelerator", "pure", "times", "maxminddb (C)", "times as fast", "target"),
            rows,
            f"medians of {options.rounds} alternated rounds over 100,000 texts; load average {load_average()}",
        )
    found = run("many", whole.name)
    print_table(
        f"A column of {_ROWS:,} strings to slots (ns a row), on: {DataSet(whole, options.data).describe()}",
        ("addresses", "one thread", "target", "two threads", "times as fast", "target"),
        [
            (
                name,
                *(f"{measured['ns'][0]:.0f}", "<= 120", f"{measured['ns'][1]:.0f}", f"{measured['ratio']:.2f}"),
                ">= 1.7",
            )
            for name, measured in found.items()
        ],
        f"medians of {options.rounds} pairs; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
