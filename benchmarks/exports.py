"""`geolookup export`: seconds, memory and bytes of each format, wrong answers, and the reference writer's MMDB.

Run as ``python -m benchmarks.exports [FILE...]``: with files, those are the sources of the state that is exported.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.common import MIB, arguments, child, environment, load_average, peak_mib, print_table
from benchmarks.data import FULL, PEER, SMALL, DataSet

_FORMS = {
    "mmdb": {"form": "mmdb"},
    "mmdb, countries": {"form": "mmdb", "fields": "country"},
    "csv": {"form": "csv"},
    "parquet": {"form": "parquet"},
}
#: And of a state whose sources say who runs addresses.
_NETWORKS = {
    "mmdb, networks": {"form": "mmdb", "layer": "network"},
    "mmdb, both layers": {"form": "mmdb", "layer": "all"},
    "mmdb, both, countries": {"form": "mmdb", "layer": "all", "precision": "country"},
    "parquet, country and AS": {"form": "parquet", "fields": "country,asn,as_organization"},
}
_TARGET_S, _TARGET_MIB = 25, 1024
#: One in so many segments is read back unless all are asked for.
_SAMPLE = 10


def _export(home: str, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Write one file; what it took."""
    import geolookup

    began, cpu = time.perf_counter(), time.process_time()
    with geolookup.open(home, stale="serve") as geo:
        written = geolookup.export(geo, target=path, licence_allows=True, **options)
    return {
        "s": time.perf_counter() - began,
        "CPU s": time.process_time() - cpu,
        "MiB": peak_mib(),
        "bytes": written.size_bytes,
        "ranges": written.ranges,
        "warnings": written.warnings,
    }


def _stretches(geo: Any, family: int) -> Iterator[tuple[int, int, str | None]]:
    """Every segment and every gap, with the locid that answers."""
    at = 0
    for segment in geo.segments(family):
        if segment.first > at:
            yield at, segment.first - 1, None
        yield segment.first, segment.last, str(segment.geolocation.locid)
        at = segment.last + 1
    if at >> (32 if family == 4 else 128) == 0:
        yield at, (1 << (32 if family == 4 else 128)) - 1, None


def _check(home: str, path: str, every: int) -> dict[str, int]:
    """Read both ends of segments and gaps back by maxminddb: the ends of all are also the neighbours of all."""
    import maxminddb

    import geolookup
    from geolookup.model.addresses import to_text

    asked = wrong = 0
    with geolookup.open(home, stale="serve") as geo, maxminddb.open_database(path) as reader:
        for family in (4, 6):
            for number, (first, last, locid) in enumerate(_stretches(geo, family)):
                if number % every:
                    continue
                for address in {first, last}:
                    if family == 6 and (address >> 32 in (0, 0xFFFF) or address >> 112 == 0x2002):
                        continue  # IPv4 stands there
                    found: Any = reader.get(to_text(4 if family == 4 else 6, address))
                    asked += 1
                    wrong += (None if found is None else found["geolookup"]["locid"]) != locid
    return {"asked": asked, "wrong": wrong}


def _check_records(home: str, path: str, every: int) -> dict[str, int]:
    """Read both ends of the ranges of networks back from a file of both layers: it says what `geo.record` does."""
    import maxminddb

    import geolookup
    from geolookup.model.addresses import to_text

    asked = wrong = 0
    with geolookup.open(home, stale="serve") as geo, maxminddb.open_database(path) as reader:
        networks = geo.with_networks(lambda snapshot: snapshot.networks())
        assert networks is not None
        for family, limit in ((4, 1 << 32), (6, 1 << 128)):
            segments = networks.reader.segments(4 if family == 4 else 6, 0, gaps=False)
            for number, (first, last, _) in enumerate(segments):
                if number % every:
                    continue
                for value in {max(first - 1, 0), first, last, min(last + 1, limit - 1)}:
                    if family == 6 and (value >> 32 in (0, 0xFFFF) or value >> 96 == 0x20010000):
                        continue  # IPv4 stands there, and Teredo has no answer of ours
                    address = to_text(4 if family == 4 else 6, value)
                    found: Any = reader.get(address) or {}
                    found.pop("geolookup", None)
                    record = geo.record(address)
                    asked += 1
                    wrong += found != ({} if record is None else record.as_dict())
    return {"asked": asked, "wrong": wrong}


def _has_networks(home: str) -> bool:
    import geolookup

    with geolookup.open(home, stale="serve") as geo:
        return geo.with_networks(lambda snapshot: snapshot.networks()) is not None


def _reference(path: str, target: str) -> dict[str, Any]:
    """What is in an MMDB of ours, written again by the reference writer."""
    import maxminddb
    from mmdb_writer import MMDBWriter
    from netaddr import IPNetwork, IPSet

    writer = MMDBWriter(6, "geolookup-City", languages=["en"], description="reference", ipv4_compatible=True)
    with maxminddb.open_database(path) as reader:
        networks = [(str(network), record) for network, record in reader]
    began = time.process_time()
    for network, record in networks:
        writer.insert_network(IPSet([IPNetwork(network)]), record)
    writer.to_db_file(target)
    return {"CPU s": time.process_time() - began, "bytes": os.path.getsize(target), "networks": len(networks)}


def _publish(home: str, files: list[str]) -> None:
    from geolookup.settings.source import SourceSettings
    from geolookup.settings.table import Settings
    from geolookup.state.publishing.directory import StateDirectory
    from geolookup.sync.pull.pull import pull

    sources = tuple(SourceSettings(name=f"source-{at}", location=path) for at, path in enumerate(files))
    pull(StateDirectory(home), Settings(sources=sources, attempts=1))


def _of_children() -> float:
    """The processor time of all children so far; `os.times` counts it in hundredths of a second."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start_s() -> float:
    """The processor time of ``python -c pass``, the least of ten: what the machine's speed is told by."""
    best = float("inf")
    for _ in range(10):
        before = _of_children()
        subprocess.run([sys.executable, "-c", "pass"], check=True, env=environment())
        taken = _of_children() - before
        best = min(best, taken)
    return best


def _child(words: list[str]) -> None:
    what, *rest = words
    found: Any = None
    if what == "export":
        found = _export(rest[0], rest[1], json.loads(rest[2]))
    elif what == "networks":
        found = _has_networks(rest[0])
    elif what == "check records":
        found = _check_records(rest[0], rest[1], int(rest[2]))
    elif what == "check":
        found = _check(rest[0], rest[1], int(rest[2]))
    elif what == "reference":
        found = _reference(rest[0], rest[1])
    else:
        _publish(rest[0], rest[1:])
    print(json.dumps(found))


def main() -> None:
    """Export the data set, or real files, and print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="export these sources in place of generated data")
    parser.add_argument("--check", action="store_true", help="read back every segment, not one in ten")
    options = parser.parse_args()
    if options.child:
        _child(options.child)
        return
    with tempfile.TemporaryDirectory() as folder:

        def run(*words: str) -> Any:
            return json.loads(child("exports", *words, data=options.data))

        if options.files:
            home = os.path.join(folder, "state")
            run("publish", home, *(os.path.abspath(path) for path in options.files))
            small = None
        else:
            home = DataSet(SMALL if options.small else FULL, options.data).home
            small = DataSet(SMALL if options.small else PEER, options.data).home
        start_s = _start_s()
        rows = []
        has_networks = run("networks", home)
        for name, given in {**_FORMS, **(_NETWORKS if has_networks else {})}.items():
            found = run("export", home, os.path.join(folder, name), json.dumps(given))
            rows.append(
                [
                    *(name, f"{found['s']:.1f}", f"{found['CPU s']:.1f}", f"{found['CPU s'] / start_s:.0f}"),
                    *(f"{found['MiB']:.0f}", f"{found['bytes'] / MIB:.1f}", f"{found['ranges']:,}"),
                ]
            )
        print_table(
            "Exports of one state",
            ["format", "s", "CPU s", "CPU / start", "peak MiB", "file MiB", "ranges"],
            rows,
            f"start: `python -c pass`, {start_s * 1000:.0f} ms of processor time here; load {load_average()}",
            f"target of the MMDB: {_TARGET_S} s and {_TARGET_MIB} MiB for 3.5 M IPv4 and 1 M IPv6 segments, where "
            "`python -c pass` takes 11 ms",
        )
        every = 1 if options.check else _SAMPLE
        found = run("check", home, os.path.join(folder, "mmdb"), str(every))
        print_table(
            "Answers of maxminddb at both ends of segments and gaps",
            ["segments", "asked", "wrong"],
            [["all" if every == 1 else f"one in {every}", f"{found['asked']:,}", found["wrong"]]],
        )
        if has_networks:
            found = run("check records", home, os.path.join(folder, "mmdb, both layers"), str(every))
            print_table(
                "Records of the file of both layers, beside those of lookups, around the ranges of networks",
                ["ranges", "asked", "wrong"],
                [["all" if every == 1 else f"one in {every}", f"{found['asked']:,}", found["wrong"]]],
            )
        if small is not None:
            ours = run("export", small, os.path.join(folder, "small"), json.dumps({"form": "mmdb"}))
            theirs = run("reference", os.path.join(folder, "small"), os.path.join(folder, "reference"))
            print_table(
                "The same networks and records by the reference writer (mmdb_writer)",
                ["writer", "CPU s", "file MiB", "networks"],
                [
                    ["geolookup", f"{ours['CPU s']:.1f}", f"{ours['bytes'] / MIB:.1f}", f"{theirs['networks']:,}"],
                    [
                        "mmdb_writer",
                        f"{theirs['CPU s']:.1f}",
                        f"{theirs['bytes'] / MIB:.1f}",
                        f"{theirs['networks']:,}",
                    ],
                ],
                "ours has aliases for ::ffff:0:0/96 and 2002::/16; the reference's has none",
            )


if __name__ == "__main__":
    main()
