"""The size of an index file against an MMDB file of the same data: one family and both, networks and mere ranges."""

import json
import os
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.common import MIB, arguments, child, print_table
from benchmarks.data import FULL, PEER, SIZES, SMALL, DataSet
from benchmarks.generator import SEED, Array

#: Of the neighbours that touch, how many have the border between them moved.
_MOVED = 0.3
_SHAPES = {
    "IPv4 alone, every range a network": (True, False),
    "both families, every range a network": (False, False),
    "both families, IPv4 ranges as they come": (False, True),
}


def _moved_borders(data: DataSet) -> tuple[Array, Array]:
    """The IPv4 ranges with some borders between neighbours moved: such a range is no network, it takes several."""
    rng = np.random.default_rng(SEED + 3)
    first, last = data.first4.astype(np.int64), data.last4.astype(np.int64)
    touching = np.flatnonzero((first[1:] == last[:-1] + 1) & (last[:-1] > first[:-1]))
    # By eighths of the left one, since ranges that people hand out end at round numbers too; at most by half of it, so
    # that none is used up, however many of its borders move.
    chosen = touching[rng.random(len(touching)) < _MOVED]
    eighth = np.maximum((last[chosen] - first[chosen] + 1) // 8, 1)
    taken = np.minimum(eighth * rng.integers(1, 5, len(chosen)), (last[chosen] - first[chosen] + 1) // 2)
    last[chosen] -= taken
    first[chosen + 1] -= taken
    return first.astype(np.uint32), last.astype(np.uint32)


def _measure(data: DataSet) -> dict[str, Any]:
    """Bytes of both files, and the networks that the IPv4 ranges take, for each shape."""
    import maxminddb

    found: dict[str, Any] = {}
    for shape, (only4, moved) in _SHAPES.items():
        first, last = _moved_borders(data) if moved else (data.first4, data.last4)
        assert bool((first[1:] > last[:-1]).all() and (first <= last).all()), "the ranges must stay disjoint"
        name = f"sizes-{'4' if only4 else 'both'}-{f'moved-{_MOVED}' if moved else 'networks'}"

        def write_mmdb(path: str, first: Array = first, last: Array = last, only4: bool = only4) -> None:
            os.mkdir(path)
            count = data.write_mmdb(os.path.join(path, "ranges.mmdb"), first, last, only4=only4)
            with open(os.path.join(path, "networks"), "w", encoding="ascii") as file:
                file.write(str(count))

        def write_index(path: str, first: Array = first, last: Array = last, only4: bool = only4) -> None:
            data.write_index(path, first, last, only4=only4)

        folder, index = data.made(f"{name}-mmdb", write_mmdb), data.made(f"{name}-index", write_index)
        with open(os.path.join(folder, "networks"), encoding="ascii") as file:
            networks = int(file.read())
        path = os.path.join(folder, "ranges.mmdb")
        with maxminddb.open_database(path) as peer:
            record_size = peer.metadata().record_size
        found[shape] = {
            "index": os.path.getsize(index),
            "mmdb": os.path.getsize(path),
            "networks": networks / len(first),
            "record_size": record_size,
        }
    return found


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--full-peer", action="store_true", help="on all 4.5 million blocks too (mmdb_writer takes many minutes)"
    )
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_measure(DataSet(SIZES[options.child[0]], options.data))))
        return
    missing = [package for package in ("maxminddb", "mmdb_writer") if find_spec(package) is None]
    if missing:
        print(f"left out: {', '.join(missing)} not installed (pip install 'geolookup[bench]')")
        return
    for size in (SMALL,) if options.small else (PEER, FULL) if options.full_peer else (PEER,):
        measured = json.loads(child("sizes", size.name, data=options.data))
        print_table(
            f"Size of the file (MiB), on: {DataSet(size, options.data).describe()}",
            ("what", "index", "MMDB", "index / MMDB", "target", "networks a range", "bits a record"),
            [
                (
                    shape,
                    *(f"{one['index'] / MIB:.2f}", f"{one['mmdb'] / MIB:.2f}", f"{one['index'] / one['mmdb']:.2f}"),
                    "< 1",
                    f"{one['networks']:.2f}",
                    one["record_size"],
                )
                for shape, one in measured.items()
            ],
            f"as they come: {_MOVED:.0%} of the borders between touching ranges moved, by eighths of the left one",
            "the index also finds a locid, and needs no networks made of ranges",
        )


if __name__ == "__main__":
    main()
