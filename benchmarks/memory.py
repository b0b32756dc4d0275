"""Memory private to each of eight processes that look addresses up, and what the bound on kept records costs.

Only the pure reader keeps records: what the accelerator's lookups leave is measured by `benchmarks.places`.
"""

import gc
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from typing import Any

import geolookup
from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import FULL, SIZES, SMALL, DataSet

_PROCESSES = 8
_ROWS = 1_000_000
_BATCH = 10_000
#: How many lookups are timed at a time.
_PART = 100_000
_PATIENCE_S = 300
_READERS = {"accelerator": "", "pure": "1"}
_OPENED = {"itself": "spawn", "before the fork": "fork", "nowhere: a loop that looks nothing up": "fork"}


def private_mib() -> float:
    """What no other process shares: Private_Clean and Private_Dirty (Linux: proc(5), smaps_rollup)."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


class _Texts:
    """A column of addresses in a few large objects, so that asking makes no lasting ones."""

    def __init__(self, folder: str) -> None:
        with open(os.path.join(folder, "data"), "rb") as file:
            self.data = file.read()
        self.offsets = array("i")
        with open(os.path.join(folder, "offsets"), "rb") as file:
            self.offsets.frombytes(file.read())

    def batches(self, begin: int) -> Iterator[int]:
        """Where each batch begins: all of them once, the one that contains row ``begin`` first."""
        first = begin - begin % _BATCH
        yield from (row % _ROWS for row in range(first, first + _ROWS, _BATCH))

    def each(self, begin: int) -> Iterator[str]:
        """The same rows as text."""
        for batch in self.batches(begin):
            for row in range(batch, batch + _BATCH):
                yield self.data[self.offsets[row] : self.offsets[row + 1]].decode()


def _write_texts(path: str, folder: str) -> None:
    import pyarrow as pa

    with pa.memory_map(path) as source:
        _, offsets, data = pa.ipc.open_file(source).read_all()["ip"].chunks[0].buffers()
        for name, buffer in (("data", data), ("offsets", offsets)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(memoryview(buffer)[: (_ROWS + 1) * 4] if name == "offsets" else memoryview(buffer))


def _search_all(geo: geolookup.GeoLookup, texts: _Texts, begin: int) -> None:
    """Slots for every row, by batches: no record is touched."""
    searcher = geo._follower.newest().fast
    if searcher is None:
        return  # the pure reader searches for one address at a time
    out = bytearray(4 * _BATCH)
    for row in texts.batches(begin):
        searcher.locate_strings(texts.data, texts.offsets, None, row, _BATCH, out)


def _look_up_all(lookup: Callable[[str], Any], texts: _Texts, begin: int) -> None:
    for text in texts.each(begin):
        lookup(text)


def _use(
    number: int, home: str | None, folder: str, barrier: Barrier, results: "SimpleQueue[list[float]]", geo: Any = None
) -> None:
    """One of the processes. It measures when all are as far as it is, so that what they share is seen to be shared."""
    begin = number * _ROWS // _PROCESSES
    texts = _Texts(folder)
    opening = geolookup.open  # imported now, and not counted
    gc.collect()
    barrier.wait(_PATIENCE_S)
    found = [private_mib()]
    barrier.wait(_PATIENCE_S)
    if geo is None and home is not None:
        geo = opening(home)
    if geo is not None:
        _search_all(geo, texts, begin)
    barrier.wait(_PATIENCE_S)
    found.append(private_mib())
    barrier.wait(_PATIENCE_S)
    _look_up_all(len if geo is None else geo.lookup, texts, begin)
    barrier.wait(_PATIENCE_S)
    found.append(private_mib())
    barrier.wait(_PATIENCE_S)
    results.put(found)


def _eight(data: DataSet, opened: str) -> dict[str, list[float]]:
    """MiB that each process has more than before it opened (or was forked): after the column, and after lookups."""
    context: Any = multiprocessing.get_context(_OPENED[opened])
    home = None if opened.startswith("nowhere") else data.home
    column = data.column4(_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        _write_in_child(data, column, folder)
        geo = geolookup.open(data.home) if opened == "before the fork" else None
        barrier, results = context.Barrier(_PROCESSES), context.SimpleQueue()
        processes = [
            context.Process(target=_use, args=(number, home, folder, barrier, results, geo), daemon=True)
            for number in range(_PROCESSES)
        ]
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(_PATIENCE_S)
                assert process.exitcode == 0, "one of the processes failed"
        finally:
            for process in processes:
                process.kill()
        found = [results.get() for _ in processes]
    return {
        "bare": [one[0] for one in found],
        "column": [one[1] - one[0] for one in found],
        "lookups": [one[2] - one[0] for one in found],
    }


def _write_in_child(data: DataSet, column: str, folder: str) -> None:
    """Arrow and numpy's memory shall not be there at a fork."""
    child("memory", "texts", column, folder, data=os.path.dirname(data.folder))


def _open_with(home: str, limit: int) -> geolookup.GeoLookup:
    """A GeoLookup whose layers keep ``limit`` records each; the pure reader asks for the limit each time."""
    import geolookup.lookup.snapshot

    geolookup.lookup.snapshot.MAX_RECORDS = limit
    return geolookup.open(home)


def _kept(data: DataSet, limit: int) -> dict[str, float]:
    """Records kept after a million lookups, and MiB that those lookups added."""
    with tempfile.TemporaryDirectory() as folder, _open_with(data.home, limit) as geo:
        _write_in_child(data, data.column4(_ROWS), folder)
        texts = _Texts(folder)
        _search_all(geo, texts, 0)
        gc.collect()
        before = private_mib()
        _look_up_all(geo.lookup, texts, 0)
        records: Any = geo._follower.newest().base._places
        return {"records": len(records), "mib": private_mib() - before}


def _speed(data: DataSet, limits: list[int], rounds: int) -> dict[str, Any]:
    """Microseconds a lookup for each limit, alternated, and how many locations the texts are of: uniform, and Zipf."""
    import geolookup.lookup.snapshot
    from benchmarks.lookup import per_call_us

    found = {}
    open_ones = {limit: _open_with(data.home, limit) for limit in limits}
    for name in ("uniform", "zipf"):
        with tempfile.TemporaryDirectory() as folder:
            _write_in_child(data, data.column4(_ROWS, zipf=name == "zipf"), folder)
            asked = list(_Texts(folder).each(0))
        # Other texts in each round, all of which were asked for once before: what is kept is what a million ask for.
        parts = [asked[begin : begin + _PART] for begin in range(0, _ROWS, _PART)]
        geolookup.lookup.snapshot.MAX_RECORDS = max(limits)
        locations = {place.locid for place in open_ones[max(limits)].lookup_many(asked) if place is not None}
        times: dict[int, list[float]] = {limit: [] for limit in limits}
        for limit in limits:
            geolookup.lookup.snapshot.MAX_RECORDS = limit
            for text in asked if limit > _PART // 10 else ():
                open_ones[limit].lookup(text)
        for number in range(rounds):
            for limit in limits if number % 2 else limits[::-1]:
                geolookup.lookup.snapshot.MAX_RECORDS = limit
                times[limit].append(per_call_us(open_ones[limit].lookup, parts[number % len(parts)]))
        found[name] = {"us": [statistics.median(times[limit]) for limit in limits], "locations": len(locations)}
    return found


def _print_eight(data: DataSet, run: Callable[..., Any]) -> None:
    rows = []
    for reader, pure in _READERS.items():
        for opened in _OPENED:
            if opened.startswith("nowhere") and pure:
                continue
            measured = run("eight", opened, pure=pure)
            column, lookups = measured["column"], measured["lookups"]
            rows.append(
                (
                    f"{'' if opened.startswith('nowhere') else f'{reader}, '}opened {opened}",
                    *(f"{statistics.median(column):.1f}", f"{max(column):.1f}"),
                    "" if opened.startswith("nowhere") else "< 8",
                    *(f"{statistics.median(lookups):.1f}", f"{max(lookups):.1f}"),
                    f"{statistics.median(measured['bare']):.1f}",
                )
            )
    print_table(
        f"Memory private to each of {_PROCESSES} processes (MiB), on: {data.describe()}",
        ("reader", "column of 1 M", "most", "target", "and 1 M lookups", "most", "before"),
        rows,
        "Private_Clean and Private_Dirty of smaps_rollup while all eight run, beyond what the same process had before",
        f"(package imported, the texts held); columns in batches of {_BATCH:,}: no record before the lookups;",
        "after a fork, that includes the interpreter's own pages that counting references copies (see the last row)",
    )


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="passes for each limit (default: 5)")
    options = parser.parse_args()
    if options.child:
        task, *words = options.child
        if task == "texts":
            _write_texts(*words)
            return
        data = DataSet(SIZES[words[0]], options.data)
        if task == "eight":
            print(json.dumps(_eight(data, words[1])))
        elif task == "kept":
            print(json.dumps(_kept(data, int(words[1]))))
        else:
            print(json.dumps(_speed(data, json.loads(words[1]), int(words[2]))))
        return
    if sys.platform != "linux":
        print("left out: only Linux tells a process's private memory (smaps_rollup)")
        return
    from geolookup.lookup.snapshot import MAX_RECORDS

    data = DataSet(SMALL if options.small else FULL, options.data)
    assert os.path.exists(data.home)
    assert os.path.exists(data.column4(_ROWS))
    assert os.path.exists(data.column4(_ROWS, zipf=True))

    def run(task: str, *words: str, pure: str = "") -> Any:
        env = environment(GEOLOOKUP_PURE=pure)
        return json.loads(child("memory", task, data.size.name, *words, data=options.data, env=env))

    _print_eight(data, run)
    limits = [1, 1 << 10, 1 << 14, 1 << 15, 1 << 16, MAX_RECORDS]
    kept = [run("kept", str(limit), pure="1") for limit in limits]
    speed = run("speed", json.dumps(limits), str(options.rounds), pure="1")
    uniform, zipf = speed["uniform"]["us"], speed["zipf"]["us"]
    print_table(
        f"The bound on records that one reader keeps, pure, {data.size.locations:,} locations",
        ("at most", "kept", "MiB", "IPv4 uniform, us", "to the default", "IPv4 Zipf, us", "to the default"),
        [
            (
                f"{limit:,}{' (default)' if limit == MAX_RECORDS else ''}",
                *(f"{one['records']:,}", f"{one['mib']:.1f}"),
                *(f"{uniform[at]:.2f}", f"{uniform[at] / uniform[-1]:.1f}"),
                *(f"{zipf[at]:.2f}", f"{zipf[at] / zipf[-1]:.1f}"),
            )
            for at, (limit, one) in enumerate(zip(limits, kept, strict=True))
        ],
        f"kept and MiB after {_ROWS:,} uniform lookups, mapped pages of the file among them; medians of"
        f" {options.rounds} alternated passes over {_PART:,} texts; load average {load_average()}",
        f"all texts together are of {speed['uniform']['locations']:,} locations, by Zipf's law of"
        f" {speed['zipf']['locations']:,}",
        f"the default bounds a reader's records to {MAX_RECORDS:,} a layer, whatever the number of locations;"
        " one more, and all are let go",
    )


if __name__ == "__main__":
    main()
