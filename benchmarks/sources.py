"""A source's file, read by its kind and built into an index: seconds, memory, and every answer against maxminddb.

Run as ``python -m benchmarks.sources FILE...``: each file, or folder of files, is a source.
"""

import ipaddress
import json
import mmap
import os
import tempfile
import time
from typing import Any

import maxminddb
import numpy as np

from benchmarks.common import arguments, child, load_average, peak_mib, print_table
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader
from geolookup.sources.blocks import MASKED, Batch
from geolookup.sources.detect import open_source
from geolookup.sources.files.limits import Limits
from geolookup.sources.locids import Numbering
from geolookup.sources.mmdb.metadata import read_metadata
from geolookup.sources.mmdb.shapes import Recogniser
from geolookup.sources.mmdb.tree import Tree, last_addresses
from geolookup.sources.places import PlaceFields


def build(path: str, index: str) -> dict[str, Any]:
    """Read a file and write its index; what it took."""
    began, cpu = time.perf_counter(), time.process_time()
    batches: list[Batch] = []
    with open_source(path) as reading:
        for batch in reading.batches():
            if batch.masks():
                batch = _without_masks(batch)
            batches.append(batch)
        gathered = reading.gathered
        places = gathered.places
        places.seal()
        read_s = time.perf_counter() - began
        numbers = places.locids if places.locids is not None else Numbering().numbers(places).tolist()
        builder = IndexBuilder("default")
        slots = np.fromiter(
            (builder.add_location(locid, *place) for locid, place in zip(numbers, places, strict=True)),
            np.uint32,
            len(places),
        )
        batches.reverse()
        while batches:
            batch = batches.pop()
            builder.extend_columns_v4(batch.v4.first, batch.v4.last, slots[batch.v4.place])
            six = batch.v6
            builder.extend_columns_v6(six.first_hi, six.first_lo, six.last_hi, six.last_lo, slots[six.place])
        summary = builder.write(index)
    return {
        "kind": reading.kind,
        "rows": gathered.rows,
        "blocks": gathered.blocks,
        "places": len(places),
        "bad rows": gathered.bad,
        "read s": read_s,
        "all s": time.perf_counter() - began,
        "CPU s": time.process_time() - cpu,
        "peak MiB": peak_mib(),
        "index MB": summary.bytes / 1e6,
        "file MB": _size(path) / 1e6,
    }


def _size(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def _without_masks(batch: Batch) -> Batch:
    four, six = batch.v4.place != MASKED, batch.v6.place != MASKED
    return Batch(
        batch.v4._make(column[four] for column in batch.v4), batch.v6._make(column[six] for column in batch.v6)
    )


def compare(path: str, index: str, every: int) -> tuple[int, int]:
    """Look up the first and last address of every n-th network of an MMDB in the index, and in maxminddb.

    :returns: how many addresses were asked for, and how many answers are wrong
    """
    asked = wrong = 0
    recogniser = Recogniser(path, {})
    with open(path, "rb") as file, IndexReader.open(index) as reader, maxminddb.open_database(path) as oracle:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        tree = Tree(path, buffer, read_metadata(path, buffer), Limits())
        known: dict[int, PlaceFields | None] = {EMPTY: None}
        for family, networks in tree.networks():
            find = reader.find4 if family == 4 else reader.find6
            form = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
            last_hi, last_lo = last_addresses(networks)
            for hi, lo in ((networks.hi, networks.lo), (last_hi, last_lo)):
                for high, low in zip(hi[::every].tolist(), lo[::every].tolist(), strict=True):
                    value = high << 64 | low
                    slot = find(value)
                    if slot not in known:
                        known[slot] = PlaceFields(*reader.location(slot)[1:])
                    record = oracle.get(form(value))
                    asked += 1
                    wrong += known[slot] != (None if record is None else recogniser.place(record))
    return asked, wrong


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or folders, each a source")
    parser.add_argument("--every", type=int, default=50, help="compare every n-th network; 1: all (default: 50)")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(build(*options.child)))
        return
    columns = (
        "file",
        "kind",
        "rows",
        "blocks",
        "places",
        "read s",
        "all s",
        "CPU s",
        "peak MiB",
        "file MB",
        "index MB",
    )
    rows = []
    notes = []
    for path in options.files:
        with tempfile.TemporaryDirectory() as folder:
            index = os.path.join(folder, "index")
            took = json.loads(child("sources", os.path.abspath(path), index, data=options.data))
            rows.append((os.path.basename(path), *(_shown(took[name]) for name in columns[1:])))
            if took["kind"] == "mmdb" and os.path.isfile(path) and options.every:
                asked, wrong = compare(path, index, options.every)
                notes.append(f"{os.path.basename(path)}: {wrong} of {asked:,} answers differ from maxminddb's")
    print_table("Sources: from a file to its index", columns, rows, *notes, f"load average {load_average()}")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
