"""Sync of the whole data over loopback: the client's seconds and peak memory, beside decoding and inserting alone.

And of lists that grow in blocks and places, one of which is DB-IP City Lite if that is in the folder ``dbip`` of
``--data`` (as for `benchmarks.sources`).
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks.common import (
    ROOT,
    arguments,
    child,
    environment,
    load_average,
    peak_mib,
    print_table,
    usage_mib,
)
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.figures import record
from benchmarks.generator import Size
from benchmarks.lists import sent, write_generated, write_of_source
from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.state.generations.cache import BlockRow, stored_number
from geolookup.upstream.geolocations import GeolocationsClient

_PAGE_CACHE = -32768
#: As many of each as DB-IP City Lite has.
_PLACES = {"v4": 3_678_154, "v6": 4_393_989, "locations": 566_833}
_LOOK_S = 0.1


@contextlib.contextmanager
def service(database: str, spent_s: list[float]) -> Iterator[str]:
    """The reference service in a process of its own: its base address. In the end its CPU time joins ``spent_s``."""
    command = [sys.executable, "-m", "geolookup", "serve", "--db", database, "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "serving on" in line:
                    yield line.split()[-1]
                    break
            else:
                raise SystemExit("the service did not start")
        finally:
            process.send_signal(signal.SIGINT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            spent_s.append(usage.ru_utime + usage.ru_stime)


def sync(url: str) -> tuple[float, float, float, dict[str, object], float]:
    """One `geolookup sync` into an empty state: seconds, seconds of CPU, peak MiB, the command's report, and the most
    MiB of anonymous memory at any look (0 if the system does not tell).
    """
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "geolookup", "sync", "--url", url, "--json"]
        began = time.perf_counter()
        with subprocess.Popen(command, cwd=ROOT, env=environment(GEOLOOKUP_HOME=home), stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            anonymous: list[float] = []
            watcher = threading.Thread(target=_watch, args=(run, anonymous))
            watcher.start()
            report = json.loads(run.stdout.read())
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            watcher.join()
        if run.returncode:
            raise SystemExit(f"sync failed: exit {run.returncode}")
        elapsed = time.perf_counter() - began
    return elapsed, usage.ru_utime + usage.ru_stime, usage_mib(usage), report, anonymous[0]


def _watch(process: "subprocess.Popen[bytes]", anonymous: list[float]) -> None:
    """Add the most private, unnamed memory that a process had at any look (Linux: proc(5), smaps_rollup)."""
    most = 0.0
    while process.returncode is None:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
            most = max([most, *(int(line.split()[1]) / 1024 for line in file if line.startswith("Anonymous:"))])
        time.sleep(_LOOK_S)
    anonymous.append(most)


def _lists(options: argparse.Namespace) -> list[tuple[str, DataSet | None, str]]:
    """Lists that grow in blocks and places alike: a name, the generated data set if it is one, and the file."""
    real = os.path.join(options.data, "dbip")
    found: list[tuple[str, DataSet | None, str]] = []
    for name, times in (("places-quarter", 0.25), ("places", 1.0), ("places-double", 2.0)):
        if options.times and times not in options.times:
            continue
        share = times * (0.02 if options.small else 1.0)
        size = Size(name=name + "-small" * options.small, **{key: int(share * n) for key, n in _PLACES.items()})
        data = DataSet(size, options.data)
        if times == 1.0 and os.path.isdir(real) and not options.small:
            found.append(("DB-IP City Lite", None, data.made("dbip.json", lambda path: write_of_source(path, real))))
        else:
            found.append(("generated", data, data.made("list.json", partial(write_generated, data=data))))
    return found


def _grow(options: argparse.Namespace) -> None:
    """Print what a sync takes as the list grows."""
    rows = []
    for name, data, path in _lists(options):
        with sent(path) as url:
            elapsed, cpu, peak, report, anonymous = sync(url)
        counted = report["rows"]
        assert isinstance(counted, dict)
        with open(path, "rb") as file:
            largest = max(map(len, file))
        if data is None or (data.size.name == "places" and not options.small):
            record("sync/places/peak MiB", peak)
            record("sync/places/s", elapsed)
            record("sync/places/CPU s", cpu)
        rows.append(
            (
                name,
                *(f"{counted['blocks']:,}", f"{counted['geolocations']:,}"),
                *(f"{os.path.getsize(path) / 1e6:,.0f}", f"{largest / 1e6:.1f}"),
                *(f"{elapsed:.1f}", f"{cpu:.1f}", f"{peak:.0f}", f"{anonymous:.0f}", "400"),
            )
        )
    print_table(
        "Sync of lists that grow in blocks and places, from a server that only sends a file",
        ("list", "blocks", "places", "MB", "largest element MB", "s", "CPU s", "peak MiB", "anonymous MiB", "target"),
        rows,
        "peak: of resident memory, the pages of libraries among them (pandas too, if it is installed); anonymous: the",
        f"most at {1 / _LOOK_S:.0f} looks a second; one sync each, into an empty state; load average {load_average()}",
    )


def _receive(url: str) -> None:
    with Transport(Settings(url=url)) as transport, contextlib.closing(transport.stream("/geolocations")) as body:
        for _ in body:
            pass


def _decode(url: str) -> None:
    with Transport(Settings(url=url)) as transport, GeolocationsClient(transport).list() as listing:
        for _ in listing.iter_batches():
            pass


def _insert(size: str, root: str) -> float:
    """Seconds in SQLite alone; the rows are made between its calls, and that is not counted."""
    data = DataSet(SMALL if size == SMALL.name else FULL, root)
    places = "locid, country, region, city, postalcode, latitude, longitude, dmacode, areacode, blocks, digest"
    spent = 0.0
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(os.path.join(folder, "cache.db"), isolation_level=None)
        for pragma in (
            "journal_mode = off",
            "synchronous = off",
            "locking_mode = exclusive",
            f"cache_size = {_PAGE_CACHE}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        connection.executescript(
            """
            CREATE TABLE geolocations (locid INTEGER PRIMARY KEY, country TEXT NOT NULL, region TEXT NOT NULL,
                city TEXT NOT NULL, postalcode TEXT NOT NULL, latitude FLOAT, longitude FLOAT, dmacode TEXT NOT NULL,
                areacode TEXT NOT NULL, blocks INTEGER NOT NULL, digest TEXT NOT NULL);
            CREATE TABLE ipblocks (locid INTEGER NOT NULL REFERENCES geolocations(locid), family INTEGER NOT NULL,
                startip TEXT NOT NULL, endip TEXT NOT NULL, startipnum BLOB NOT NULL, endipnum BLOB NOT NULL);
            """
        )
        connection.execute("BEGIN")
        for batch in data.batches():
            rows = [
                (
                    *(place.locid, place.country, place.region, place.city, place.postalcode),
                    *(place.latitude, place.longitude, place.dmacode, place.areacode),
                    *(len(place.blocks), "0" * 32),
                )
                for place in batch
            ]
            blocks: list[BlockRow] = [
                (place.locid, family, start, end, stored_number(family, first), stored_number(family, last))
                for place in batch
                for family, first, last, start, end in place.blocks
            ]
            began = time.perf_counter()
            connection.executemany(f"INSERT INTO geolocations ({places}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
            connection.executemany("INSERT INTO ipblocks VALUES (?,?,?,?,?,?)", blocks)
            spent += time.perf_counter() - began
        began = time.perf_counter()
        connection.execute("COMMIT")
        connection.execute("CREATE INDEX idx_ipblocks_locid ON ipblocks (locid)")
        connection.close()
        descriptor = os.open(os.path.join(folder, "cache.db"), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        spent += time.perf_counter() - began
    return spent


def _child(words: list[str], root: str) -> None:
    began = time.perf_counter()
    if words[0] == "insert":
        elapsed = _insert(words[1], root)
    else:
        {"receive": _receive, "decode": _decode}[words[0]](words[1])
        elapsed = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([elapsed, usage.ru_utime + usage.ru_stime, peak_mib()]))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many times each is measured (default: 3)")
    parser.add_argument("--lists", action="store_true", help="the lists that grow, and nothing else")
    parser.add_argument(
        "--times",
        type=float,
        action="append",
        choices=(0.25, 1.0, 2.0),
        help="only the one of so many times the places",
    )
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.data)
        return
    if options.lists:
        _grow(options)
        return
    size = SMALL if options.small else FULL
    data = DataSet(size, options.data)
    found: dict[str, list[tuple[float, float, float]]] = {}
    parts: dict[str, list[float]] = {}
    served: list[float] = []
    with service(data.service_db, served) as url:
        for _ in range(options.rounds):
            elapsed, cpu, memory, report, _ = sync(url)
            found.setdefault("geolookup sync, all included", []).append((elapsed, cpu, memory))
            durations = report["durations_s"]
            assert isinstance(durations, dict)
            for name, seconds in durations.items():
                parts.setdefault(name, []).append(seconds)
            for name, words in (
                ("receiving alone (bytes, not looked at)", ("receive", url)),
                ("floor: receiving and decoding alone", ("decode", url)),
                ("floor: inserting alone", ("insert", size.name)),
            ):
                found.setdefault(name, []).append(tuple(json.loads(child("sync", *words, data=options.data))))
    rows: list[tuple[str, ...]] = []
    for name, runs in found.items():
        times, cpus, memories = zip(*runs, strict=True)
        target = ("60 s", "400 MiB") if name.startswith("geolookup") else ("", "")
        if name.endswith("inserting alone"):
            cpus, memories = (float("nan"),), (float("nan"),)
        rows.append((name, _number(median(times)), target[0], _number(median(cpus)), _number(max(memories)), target[1]))
    floors = sum(median(run[0] for run in runs) for name, runs in found.items() if name.startswith("floor"))
    whole = median(run[0] for run in found["geolookup sync, all included"])
    print_table(
        f"Sync over loopback: {data.describe()}",
        ("what", "seconds", "target", "CPU s", "peak MiB", "target"),
        rows,
        f"medians of {options.rounds} alternated rounds (peak: the greatest); load average {load_average()}",
        f"the two floors together: {floors:.1f} s; sync took {whole / floors:.2f} times that",
        f"within sync, by its report: {', '.join(f'{name} {median(took):.1f} s' for name, took in parts.items())}",
        f"the service beside it spent {served[0] / (3 * options.rounds):.1f} s of CPU for each list that it sent",
    )
    _grow(options)


def _number(value: float) -> str:
    return "" if value != value else f"{value:.1f}"


if __name__ == "__main__":
    main()
