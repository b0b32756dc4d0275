"""The guard's comparison of two generations of eight million segments each: seconds, and memory above the files."""

import json
import os
import tempfile
import time
from statistics import median

import numpy as np

from benchmarks.common import arguments, child, forget_peak, load_average, peak_mib, print_table, resident_mib
from geolookup.index.builder import IndexBuilder
from geolookup.index.compare import changed_answers, changed_kinds
from geolookup.index.reader import IndexReader
from geolookup.index.segments import SegmentSections
from geolookup.index.writer import string_table, write_index

#: Segments of each family, of each of the two files.
_SEGMENTS = {"full": 4_000_000, "small": 100_000}
_PLACES = 200_000
_CASES = {"guard": "the guard: who loses what", "impact": "`diff` and `--preview`: whose answer differs"}


def _write(path: str, segments: int, *, changed: bool) -> None:
    """An index; with ``changed``, as it is a month later: 5 % of its segments have another place, 2 % have gone."""
    random = np.random.default_rng(1)
    first = np.unique(np.append(np.uint64(0), random.integers(0, 1 << 32, segments, dtype=np.uint64))).astype(np.uint32)
    hi = np.unique(
        np.append(np.uint64(0), random.integers(1 << 45, 1 << 46, segments, dtype=np.uint64) << np.uint64(16))
    )
    slots = [random.integers(0, _PLACES, len(starts)).astype(np.uint32) for starts in (first, hi)]
    if changed:
        other = np.random.default_rng(5)
        for own in slots:
            moved = other.random(len(own)) < 0.05
            own[moved] = other.integers(0, _PLACES, int(moved.sum()))
        kept = other.random(len(first)) > 0.02
        kept[0] = True
        first, slots[0] = first[kept], slots[0][kept]
    texts = {"": 0}
    countries = [chr(65 + at // 26) + chr(65 + at % 26) for at in range(240)]
    columns = {
        "country": [texts.setdefault(countries[at % 240], len(texts)) for at in range(_PLACES)],
        "region": [texts.setdefault(f"R{at % 3000}", len(texts)) for at in range(_PLACES)],
        "city": [texts.setdefault(f"City {at}", len(texts)) if at % 7 else 0 for at in range(_PLACES)],
    }
    none = [0] * _PLACES
    sections = {
        "loc.locid": np.arange(10**9, 10**9 + _PLACES, dtype=np.int64),
        "loc.latitude": random.random(_PLACES) * 90,
        "loc.longitude": random.random(_PLACES) * 180,
    }
    for name in ("country", "region", "city", "postalcode", "dmacode", "areacode"):
        sections[f"loc.{name}"] = np.array(columns.get(name, none), np.int32)
    sections["strings.offsets"], sections["strings.bytes"] = string_table(texts)
    found = SegmentSections(_PLACES, None)
    found.add_v4(first, slots[0])
    found.add_v6(hi, np.zeros(len(hi), np.uint64), slots[1])
    written, counts = found.finish({"blocks_v4": len(first), "blocks_v6": len(hi)})
    counts["locations"] = _PLACES
    write_index(path, {**sections, **written}, layer="default", counts=counts, sources=["cities"], extra={})


def _files(name: str, root: str) -> list[str]:
    os.makedirs(root, exist_ok=True)
    paths = [os.path.join(root, f"guard-{name}-{which}") for which in ("before", "after")]
    for changed, path in enumerate(paths):
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(dir=root) as folder:
                _write(os.path.join(folder, "index"), _SEGMENTS[name], changed=bool(changed))
                os.replace(os.path.join(folder, "index"), path)
    return paths


def _child(name: str, case: str, root: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        IndexBuilder("custom").write(os.path.join(folder, "custom"))
        old, new = (IndexReader.open(path) for path in _files(name, root))
        with IndexReader.open(os.path.join(folder, "custom")) as custom, old, new:
            segments = sum(reader.segment_count_v4 + reader.segment_count_v6 for reader in (old, new))
            forget_peak()
            before, began = resident_mib(), time.perf_counter()
            if case == "guard":
                changed_kinds([("cities", old)], [("cities", new)])
            else:
                changed_answers((old, custom), (new, custom))
            print(json.dumps([time.perf_counter() - began, peak_mib() - before, segments]))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes for each row (default: 3)")
    options = parser.parse_args()
    if options.child:
        name, case = options.child
        _child(name, case, options.data)
        return
    name = "small" if options.small else "full"
    _files(name, options.data)
    found: dict[str, list[list[float]]] = {}
    for _ in range(options.rounds):
        for case in _CASES:
            found.setdefault(case, []).append(json.loads(child("guard", name, case, data=options.data)))
    rows = []
    for case, runs in found.items():
        seconds, extra, segments = (median(run[index] for run in runs) for index in range(3))
        rows.append(
            (_CASES[case], f"{segments:,.0f}", f"{seconds:.2f}", f"{1e9 * seconds / segments:.0f}", f"{extra:.0f}")
        )
    print_table(
        f"Two generations side by side: {_PLACES:,} places, 5 % of the segments changed and 2 % of the IPv4 ones gone",
        ("comparison", "segments of both", "s", "ns a segment", "extra peak MiB"),
        rows,
        f"medians of {options.rounds} alternated processes; target: 1.5 s and 100 MiB at 8 million segments",
        f"extra: the peak above what was there before, pages of the files included; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
