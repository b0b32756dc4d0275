"""lookup() in pure Python against maxminddb's C extension, on the same ranges, in the same run: no slower."""

import json
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

import geolookup
from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import FULL, PEER, SIZES, SMALL, DataSet

_COUNT = 100_000


def per_call_us(call: Callable[[str], Any], asked: Sequence[str]) -> float:
    """Microseconds a call, over all of ``asked`` in order."""
    began = time.perf_counter()
    for address in asked:
        call(address)
    return (time.perf_counter() - began) / len(asked) * 1e6


def workloads(data: DataSet) -> dict[str, list[str]]:
    """Texts of covered addresses, by the name of what they are like."""
    rng = np.random.default_rng(7)
    return {
        "IPv4, uniform": data.covered4(_COUNT, rng),
        "IPv4, Zipf": data.covered4(_COUNT, rng, zipf=True),
        "IPv6, uniform": data.covered6(_COUNT, rng),
        "IPv6, Zipf": data.covered6(_COUNT, rng, zipf=True),
    }


def _compare(data: DataSet, rounds: int) -> dict[str, Any]:
    """Microseconds a call, and for each workload the ratios of the pairs."""
    import maxminddb

    # MODE_MMAP_EXT fails where the extension is missing; the automatic mode would go on in Python.
    peer = maxminddb.open_database(data.mmdb, maxminddb.MODE_MMAP_EXT)
    assert type(peer).__module__ == "maxminddb.extension", type(peer)
    found: dict[str, Any] = {}
    with geolookup.open(data.home) as geo:
        for name, asked in workloads(data).items():
            for address in asked[:2000]:
                place, record = geo.lookup(address), peer.get(address)
                assert isinstance(record, dict)
                assert place is not None
                assert {"locid": place.locid, **place.fields()} == record, address
            first = per_call_us(geo.lookup, asked), per_call_us(peer.get, asked)
            pairs = []
            for number in range(rounds):
                if number % 2:
                    theirs = per_call_us(peer.get, asked)
                    ours = per_call_us(geo.lookup, asked)
                else:
                    ours = per_call_us(geo.lookup, asked)
                    theirs = per_call_us(peer.get, asked)
                pairs.append((ours, theirs))
            found[name] = {"pairs": pairs, "first": first}
    return found


def _others(data: DataSet, rounds: int) -> dict[str, list[float]]:
    """Microseconds an address of what has no peer."""
    found: dict[str, list[float]] = {}
    with geolookup.open(data.home) as geo:
        for name, asked in (asked_of := workloads(data)).items():
            per_call_us(geo.lookup, asked)
            found[f"lookup, {name}"] = [per_call_us(geo.lookup, asked) for _ in range(rounds)]
        asked = asked_of["IPv4, uniform"]
        many = []
        for _ in range(rounds):
            began = time.perf_counter()
            geo.lookup_many(asked)
            many.append((time.perf_counter() - began) / len(asked) * 1e6)
        found["lookup_many, IPv4, uniform"] = many
        found["match, IPv4, uniform"] = [per_call_us(geo.match, asked) for _ in range(rounds)]
        chance = random.Random(3)
        anything = [f"{chance.getrandbits(8)}.{chance.getrandbits(8)}.9.{chance.getrandbits(8)}" for _ in range(_COUNT)]
        per_call_us(geo.lookup, anything)
        found["lookup, IPv4, any address, covered or not"] = [per_call_us(geo.lookup, anything) for _ in range(rounds)]
    return found


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="pairs for each row (default: 11)")
    parser.add_argument(
        "--full-peer",
        action="store_true",
        help="compare on all 4.5 million blocks (their MMDB file takes long to write)",
    )
    options = parser.parse_args()
    if options.child:
        kind, name, rounds = options.child
        measure = {"compare": _compare, "others": _others}[kind]
        print(json.dumps(measure(DataSet(SIZES[name], options.data), int(rounds))))
        return
    size = SMALL if options.small else FULL if options.full_peer else PEER
    data = DataSet(size, options.data)
    rows = []
    compared = json.loads(
        child(
            "lookup", "compare", size.name, str(options.rounds), data=options.data, env=environment(GEOLOOKUP_PURE="1")
        )
    )
    for name, measured in compared.items():
        ours, theirs = (median(pair[side] for pair in measured["pairs"]) for side in (0, 1))
        ratio = median(pair[0] / pair[1] for pair in measured["pairs"])
        first = measured["first"]
        rows.append(
            (name, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.2f}", "<= 1.00", f"{first[0]:.2f}", f"{first[1]:.2f}")
        )
    print_table(
        f"One lookup (us), both on: {data.describe()}",
        ("addresses", "geolookup", "maxminddb (C)", "ratio", "target", "first pass", "maxminddb (C)"),
        rows,
        f"medians of {options.rounds} alternated pairs over {_COUNT:,} texts; load average {load_average()}",
        "the first pass meets each location for the first time, and makes its object",
        *(() if size is FULL or options.small else ("500,000 blocks, since mmdb_writer takes long over 4.5 million",)),
    )
    whole = SMALL if options.small else FULL
    others = json.loads(
        child(
            "lookup", "others", whole.name, str(options.rounds), data=options.data, env=environment(GEOLOOKUP_PURE="1")
        )
    )
    print_table(
        f"geolookup alone (us an address), on: {DataSet(whole, options.data).describe()}",
        ("what", "us"),
        [(name, f"{median(times):.2f}") for name, times in others.items()],
        f"medians of {options.rounds} passes; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
