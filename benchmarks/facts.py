"""A column of addresses to facts of places and networks, on records in eight languages: nanoseconds a row.

The first answer of each also reads the fact of every record, once for a file; it stands beside the others.
"""

import json
import statistics
import time
from typing import Any

import pyarrow as pa

from benchmarks.common import arguments, child, load_average, print_table
from benchmarks.data import FULL, SIZES, SMALL, DataSet
from benchmarks.figures import record
from benchmarks.matches import files
from geolookup.columns.arrow import locate_with
from geolookup.columns.arrow_index import ArrowIndex
from geolookup.index.reader import IndexReader

ROWS = 1_000_000
ASKED = (
    ("country", "city"),
    ("asn",),
    ("asn", "as_organization"),
    ("time_zone",),
    ("accuracy_radius", "is_in_european_union"),
    ("country", "city", "asn"),
)
_TARGETS_NS = {("asn",): 40}
_CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def _measured(data: DataSet, rounds: int, clock: str) -> list[dict[str, Any]]:
    """Of each of `ASKED` the seconds of the first answer, and of those in so many rounds, by turns."""
    base, overlay, network = files(data)
    networks = IndexReader.open(network)
    with pa.memory_map(data.column4(ROWS)) as source:
        column = pa.ipc.open_file(source).read_all()["ip"].chunks[0]
        column = pa.concat_arrays([column, column[:0]])  # into memory of its own
    now = _CLOCKS[clock]

    def answer(index: ArrowIndex, fields: tuple[str, ...]) -> float:
        began = now()
        found = locate_with(index, column, fields)
        took = now() - began
        assert (len(found.malformed), found.absent, found.not_covered) == (0, 0, 0)
        return took

    index = ArrowIndex(IndexReader.open(base), IndexReader.open(overlay), lambda: networks)
    firsts = [answer(index, fields) for fields in ASKED]
    times: list[list[float]] = [[] for _ in ASKED]
    for number in range(rounds):
        for at in range(len(ASKED)) if number % 2 else range(len(ASKED) - 1, -1, -1):
            times[at].append(answer(index, ASKED[at]))
    return [{"first": first, "times": each} for first, each in zip(firsts, times, strict=True)]


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--cpu", action="store_true", help="count processor time: for a machine that is busy")
    options = parser.parse_args()
    if options.child:
        size, rounds, clock = options.child
        print(json.dumps(_measured(DataSet(SIZES[size], options.data), int(rounds), clock)))
        return
    data = DataSet(SMALL if options.small else FULL, options.data)
    base, _, network = files(data)  # made before anything is measured
    data.column4(ROWS)
    clock = "cpu" if options.cpu else "wall"
    found = json.loads(child("facts", data.size.name, str(options.rounds), clock, data=options.data))
    lines = []
    for fields, measured in zip(ASKED, found, strict=True):
        ns = statistics.median(measured["times"]) / ROWS * 1e9
        record(f"facts/{','.join(fields)}", ns)
        target = _TARGETS_NS.get(fields)
        lines.append((", ".join(fields), f"{ns:.0f}", f"{measured['first']:.2f}", f"<= {target}" if target else ""))
    counts = [(reader.segment_count_v4, reader.record_count) for reader in map(IndexReader.open, (base, network))]
    places, networks = (f"{segments:,} IPv4 ranges with {records:,} records" for segments, records in counts)
    print_table(
        f"A column of {ROWS:,} IPv4 strings to facts, one thread, of places on {places}, of networks on {networks}",
        ("fields", "ns a row", "first answer, s", "target"),
        lines,
        f"medians of {options.rounds} rounds by turns{', processor time' if options.cpu else ''}; "
        f"load average {load_average()}",
    )


if __name__ == "__main__":
    main()
