"""Flattening 4.5 million blocks: seconds and extra memory, for disjoint data, some nested, and one /0 below it all."""

import json
import time
from statistics import median

import numpy as np

from benchmarks.common import (
    arguments,
    child,
    forget_peak,
    load_average,
    peak_mib,
    print_table,
    resident_mib,
)
from benchmarks.data import FULL, SIZES, SMALL, Array, DataSet
from geolookup.index import flatten

_CASES = {
    "disjoint": "disjoint, by ascending address",
    "shuffled": "disjoint, in any order",
    "nested": "1 % more, each inside another",
    "zero": "a /0 below everything",
}


def _inputs(data: DataSet, case: str) -> tuple[list[Array], list[Array]]:
    v4 = [data.first4, data.last4, data.owner4]
    ones = np.full(len(data.first6), 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
    v6 = [data.first6, np.zeros_like(data.first6), data.last6, ones, data.owner6]
    rng = np.random.default_rng(5)
    if case == "shuffled":
        for columns in (v4, v6):
            order = rng.permutation(len(columns[0]))
            columns[:] = [column[order] for column in columns]
    elif case == "nested":
        # The last quarter of a block of four addresses or more, in another location.
        where = np.flatnonzero(data.bits4 <= 30)
        where = rng.permutation(where)[: len(data.first4) // 100]
        part = (data.last4[where] - data.first4[where]) // np.uint32(4)
        added = [data.last4[where] - part, data.last4[where], (data.owner4[where] + 1) % data.size.locations]
        v4 = [np.concatenate([column, more]) for column, more in zip(v4, added, strict=True)]
        where = rng.permutation(len(data.first6))[: len(data.first6) // 100]
        part6 = (data.last6[where] - data.first6[where]) // np.uint64(4)
        added6 = [
            *(data.last6[where] - part6, np.zeros(len(where), np.uint64), data.last6[where], ones[: len(where)]),
            (data.owner6[where] + 1) % data.size.locations,
        ]
        v6 = [np.concatenate([column, more]) for column, more in zip(v6, added6, strict=True)]
    elif case == "zero":
        top = np.array([0xFFFF_FFFF_FFFF_FFFF], np.uint64)
        none = np.zeros(1, np.uint64)
        v4 = [
            np.append(column, value).astype(column.dtype) for column, value in zip(v4, (0, 0xFFFF_FFFF, 7), strict=True)
        ]
        v6 = [
            np.concatenate([column, more.astype(column.dtype)])
            for column, more in zip(v6, (none, none, top, top, none), strict=True)
        ]
    return v4, v6


def _child(name: str, case: str, root: str) -> None:
    data = DataSet(SIZES[name], root)
    v4, v6 = _inputs(data, case)
    rank = np.arange(1, data.size.locations + 1, dtype=np.int64)
    del data
    forget_peak()
    before = resident_mib()
    began = time.perf_counter()
    first, slot = flatten.flatten_v4(v4[0], v4[1], v4[2], rank)
    between = time.perf_counter()
    hi, _, slot6 = flatten.flatten_v6(v6[0], v6[1], v6[2], v6[3], v6[4], rank)
    ended = time.perf_counter()
    extra = peak_mib() - before
    print(json.dumps([between - began, ended - between, extra, len(v4[0]) + len(v6[0]), len(first) + len(hi)]))
    assert len(slot) == len(first)
    assert len(slot6) == len(hi)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes for each row (default: 3)")
    options = parser.parse_args()
    if options.child:
        name, case = options.child
        _child(name, case, options.data)
        return
    size = SMALL if options.small else FULL
    data = DataSet(size, options.data)
    found: dict[str, list[list[float]]] = {}
    for _ in range(options.rounds):
        for case in _CASES:
            found.setdefault(case, []).append(json.loads(child("flatten", size.name, case, data=options.data)))
    rows = []
    for case, runs in found.items():
        v4, v6, extra, blocks, segments = (median(run[index] for run in runs) for index in range(5))
        rows.append(
            (
                _CASES[case],
                f"{blocks:,.0f}",
                f"{segments:,.0f}",
                f"{v4:.2f}",
                f"{v6:.2f}",
                f"{v4 + v6:.2f}",
                f"{extra:.0f}",
            )
        )
    print_table(
        f"Flattening: {data.describe()}",
        ("blocks", "in", "segments", "IPv4 s", "IPv6 s", "both s", "extra peak MiB"),
        rows,
        f"medians of {options.rounds} alternated processes; target: seconds, in bounded memory",
        f"segments count gaps; extra: the peak above what the input itself takes; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
