"""Every kind of source, from a file through a sync to lookups: ``python -m tests.sources.kinds_table`` prints a table.

The files are made of the bundled registry ranges, with cities, by `tests.support.data.kind_files`; what must come of
them is known before they are written. Files that are named as arguments are tried too: MaxMind DBs against
maxminddb's own walk and records, ``first,last,country`` files as the standard library reads them. Addresses asked are
the first and last of each row, and their neighbours outside.
"""

import argparse
import contextlib
import csv
import heapq
import ipaddress
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import maxminddb

import geolookup
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer, answer
from tests.support.data.kind_files import WRITERS, Known, Place, listed, registry_rows, with_cities

_BITS = {4: 32, 6: 128}
_FORMS = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
#: Another's writer of MMDB files takes a millisecond a network.
_MOST_WRITTEN = 5000
#: The kinds whose files say nothing of places (`tests.oracle.merged_facts` is their oracle), or of regions alone.
OF_NETWORKS = {"asn-table", "pyasn", "cloud-ranges"}


def expected(rows: Iterable[Known], probes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, Place | None]]:
    """For each (family, address), ascending, the place of the narrowest row that covers it; of equal ones the later."""
    waiting = sorted(
        (row.family, row.first, row.last, -number, row)
        for number, row in enumerate(rows)
        if row.place is not None or row.mask
    )
    waiting.reverse()
    active: list[tuple[int, int, Known]] = []
    family_now = 0
    for family, address in sorted(set(probes)):
        if family != family_now:
            family_now, active = family, []
        while waiting and waiting[-1][:2] <= (family, address):
            _, first, last, rank, row = waiting.pop()
            if row.family == family:
                heapq.heappush(active, (last - first, rank, row))
        active = [each for each in active if each[2].last >= address]
        yield family, address, min(active, key=lambda each: each[:2])[2].place if active else None


def probes_of(rows: Iterable[Known]) -> set[tuple[int, int]]:
    """The ends of each row, and the addresses next to them outside."""
    found = set()
    for row in rows:
        for address in (row.first - 1, row.first, row.last, row.last + 1):
            if 0 <= address < 1 << _BITS[row.family] and not (row.family == 6 and address >> 32 == 0xFFFF):
                found.add((row.family, address))
    return found


def tried(rows: Sequence[Known], settings: Settings, *, step: int = 1) -> tuple[int, int]:
    """Pull, look up, and compare: how many addresses were asked for, and how many answers are wrong.

    With ``step`` only the ends of every so many rows are asked for.
    """
    asked = wrong = 0
    with tempfile.TemporaryDirectory() as home:
        report = pull(StateDirectory(home), settings)
        assert report.outcome == "published", report
        assert not report.rejected, report.rejected
        with geolookup.GeoLookup(home) as geo:
            for family, address, place in expected(rows, probes_of(rows[::step])):
                found = geo.lookup(str(_FORMS[family](address)))
                asked += 1
                wrong += (None if found is None else tuple(found.fields().values())) != (
                    None if place is None else tuple(place)
                )
    return asked, wrong


def _made(count: int) -> Iterator[tuple[str, str, int, int, int]]:
    registry = registry_rows(bundled_ranges_path(), count)
    for kind, writer in WRITERS.items():
        base = [row for row in registry if row.family == 4 or not writer.only_v4]
        if writer.networks:
            base = [network for row in base for network in row.networks()]
        if kind == "mmdb":
            base = base[:: max(1, len(base) // _MOST_WRITTEN)]
        rows = with_cities(base, *writer.fields, nowhere=writer.nowhere, mask=writer.mask)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "written"
            writer.write(rows, path)
            settings = Settings(sources=(SourceSettings(name="a", location=str(path)),))
            yield kind, "made of registry ranges", len(rows), *tried(rows, settings)
    rows = with_cities(registry, *Place._fields, nowhere=False)
    with RawServer(answer(json.dumps(listed(rows)).encode())) as server:
        yield "service", "made of registry ranges", len(rows), *tried(rows, Settings(url=server.url, attempts=1))
    rows = registry_rows(bundled_ranges_path(), 1 << 40)
    settings = Settings(sources=(SourceSettings(name="a", kind="registry"),))
    yield "registry", "the bundled file", len(rows), *tried(rows, settings, step=max(1, len(rows) // count))


def of_file(path: str) -> list[Known]:
    """A provider's file, by another's reader."""
    if path.endswith(".mmdb"):
        with maxminddb.open_database(path) as reader:
            return [_of_record(network, record) for network, record in reader]
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Known(low.version, int(low), int(ipaddress.ip_address(last)), None if code == "ZZ" else Place(code))
            for first, last, code in csv.reader(file)
            for low in [ipaddress.ip_address(first)]
        ]


def _of_record(network: Any, record: Any) -> Known:
    def at(*keys: Any) -> Any:
        value = record
        for key in keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    if "country_code" in record:
        degrees = [None if at(key) in (None, "") else float(at(key)) for key in ("latitude", "longitude")]
        place = Place(*(at(key) or "" for key in ("country_code", "state1", "city", "postcode")), *degrees)
    else:
        metro = at("location", "metro_code")
        place = Place(
            at("country", "iso_code") or "",
            at("subdivisions", 0, "iso_code") or at("subdivisions", 0, "names", "en") or "",
            at("city", "names", "en") or "",
            at("postal", "code") or "",
            at("location", "latitude"),
            at("location", "longitude"),
            "" if metro is None else str(metro),
        )
    covers = any(place[:4])
    # maxminddb names IPv4 networks of a tree of IPv6 as they lie there: below ::/96.
    low, high = int(network[0]), int(network[-1])
    family = 4 if network.version == 4 or high < 1 << 32 else 6
    return Known(family, low, high, place if covers else None)


def table(count: int, files: Sequence[str]) -> Iterator[tuple[str, str, int, int, int]]:
    """Kind, file, rows, addresses asked for and wrong answers."""
    yield from _made(count)
    for path in files:
        rows = of_file(path)
        settings = Settings(sources=(SourceSettings(name="a", location=os.path.abspath(path)),))
        kind = "mmdb" if path.endswith(".mmdb") else "dbip-csv"
        yield kind, os.path.basename(path), len(rows), *tried(rows, settings)


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--rows", type=int, default=20_000, help="how many registry ranges the files are made of")
    options = parser.parse_args()
    print("| kind | file | rows tried | addresses asked | wrong |\n| --- | --- | ---: | ---: | ---: |")
    with contextlib.suppress(BrokenPipeError):
        for kind, file, rows, asked, wrong in table(options.rows, options.files):
            print(f"| `{kind}` | {file} | {rows:,} | {asked:,} | {wrong} |", flush=True)


if __name__ == "__main__":
    main()
