"""What seven similar nights keep on the disk, beside one; and how long packing takes, unpacking, and going back.

A night changes one block in a hundred: half of these belong to another place, a quarter goes, a quarter comes. Once as
a file's blocks, once as a list of a service; with ``--large`` as many as DB-IP City Lite has.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import MIB, arguments, child, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.figures import record
from benchmarks.generator import SEED, Size, locations
from geolookup.sources.blocks import Batch, BlocksV4, BlocksV6
from geolookup.sources.locids import Numbering
from geolookup.sources.places import PlaceFields, Places
from geolookup.state.base.candidate import CONTENT, Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import generation_path
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.generations import packing
from geolookup.state.packs.reading import readable
from geolookup.state.publishing.catalogue import Generations
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.staging import ColumnStaging, Staged, Staging, earlier_places

#: As many of each as DB-IP City Lite has.
_LARGE = Size(name="large", v4=3_678_154, v6=4_393_989, locations=566_833)
#: A file of some 10 MB, and a list of 20.
_SIZES = {"file": Size(name="10 MB", v4=775_000, v6=225_000, locations=27_000), "list": SMALL}
_NIGHTS = 7
_ARRAYS = ("first4", "last4", "bits4", "owner4", "first6", "last6", "bits6", "owner6")
_NUMBERS_BEGIN = 1_000_000_000
_PART = 1 << 18


def _nights(data: DataSet) -> Iterator[DataSet]:
    """The same data set again and again, changed from night to night."""
    rng = np.random.default_rng(SEED)
    whole = {name: np.asarray(getattr(data, name)).copy() for name in _ARRAYS}
    there = {family: rng.random(len(whole[f"first{family}"])) >= 0.02 for family in "46"}
    for _ in range(_NIGHTS):
        for name, column in whole.items():
            setattr(data, name, column[there[name[-1]]])
        yield data
        for family, present in there.items():
            owner = whole[f"owner{family}"]
            count = len(owner) // 100
            chosen = rng.choice(len(owner), count // 2, replace=False)
            owner[chosen] = rng.choice(owner, len(chosen))  # large places rather than small ones
            for now, share in ((True, 4), (False, 4)):
                some = np.flatnonzero(present == now)
                present[rng.choice(some, min(len(some), count // share), replace=False)] = not now


def _as_file(data: DataSet, candidate: Candidate, before: str | None) -> Staged:
    places = Places()
    numbers = np.array([places.add(PlaceFields(*fields)) for fields in locations(data.size.locations)], np.uint32)
    earlier = () if before is None else [earlier_places(before)]
    numbering = Numbering(earlier, following=_NUMBERS_BEGIN, taken=frozenset())
    full, none = np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.empty(0, np.uint32)
    nothing = BlocksV6(*(np.empty(0, np.uint64) for _ in range(4)), none)
    with ColumnStaging(candidate, "file", places, numbering) as staging:
        for begin in range(0, len(data.first4), _PART):
            own = slice(begin, begin + _PART)
            four = BlocksV4(data.first4[own], data.last4[own], numbers[data.owner4[own]])
            staging.add(Batch(four, nothing))
        for begin in range(0, len(data.first6), _PART):
            own = slice(begin, begin + _PART)
            first, last = data.first6[own], data.last6[own]
            six = BlocksV6(first, np.zeros_like(first), last, np.full_like(last, full), numbers[data.owner6[own]])
            staging.add(Batch(BlocksV4(none, none, none), six))
        return staging.finish({"source": "file", "kind": "mmdb"})


def _as_list(data: DataSet, candidate: Candidate) -> Staged:
    with Staging(candidate) as staging:
        for batch in data.batches():
            staging.add(batch)
        return staging.finish({})


def _publish(form: str, data: DataSet, home: str) -> None:
    directory = StateDirectory(home)
    with running(directory) as run, run.candidate() as candidate:
        current = run.current
        before = None
        if form == "file" and current is not None:
            before = os.path.join(snapshot_path(home, parts_of(current.published)[0].snapshot), "index")
        staged = _as_file(data, candidate, before) if form == "file" else _as_list(data, candidate)
        url = None if form == "file" else "http://127.0.0.1:9"
        source: dict[str, Any] = {"name": "file", "kind": "mmdb"} if form == "file" else {"began_at": now_text()}
        about = {"source": url or "file", "url": url, "etag": None, "pulled_at": now_text(), **source}
        candidate.seal({**about, "digest": staged.digest, "rows": staged.rows}, {})
        run.publish(candidate)


def _timed(home: str, what: str, number: int) -> dict[str, float]:
    """One step in a process of its own: its seconds, those of CPU, and its most memory."""
    directory = StateDirectory(home)
    before = time.perf_counter(), time.process_time()
    if what == "pack":
        with directory.locks.run():
            packing.pack(home, least_bytes=0)
    elif what == "open":
        Generations(directory).open(number).close()
    elif what == "rows":
        readable(os.path.join(generation_path(home, number), "cache.db"))
    else:
        directory.keeping.rollback(number)
    return {
        "s": time.perf_counter() - before[0],
        "cpu_s": time.process_time() - before[1],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _kept_bytes(home: str) -> int:
    """All files of a state; one with several names counts once."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            status = os.stat(os.path.join(folder, name))
            found[status.st_ino] = status.st_size
    return sum(found.values())


def _measure(form: str, size: Size, folder: str) -> list[str]:
    data = DataSet(size, folder)

    def step(what: str, number: int = 0) -> dict[str, float]:
        found: dict[str, float] = json.loads(child("disk", home, what, str(number), data=folder))
        return found

    with tempfile.TemporaryDirectory(dir=folder) as home:
        packs = []
        for night in _nights(data):
            _publish(form, night, home)
            print(f"{form}: night {len(packs) + 1}", file=sys.stderr, flush=True)
            packs.append(step("pack"))
        paths = (os.path.join(generation_path(home, _NIGHTS), name) for name in CONTENT)
        one = sum(os.path.getsize(path) for path in paths if os.path.exists(path))
        index = os.path.getsize(os.path.join(generation_path(home, _NIGHTS), "index"))
        kept = _kept_bytes(home)
        last = packs[-1]
        opened, rows = step("open", _NIGHTS - 2), step("rows", _NIGHTS - 2)
        back = step("rollback", _NIGHTS - 1)
    record(f"disk/nights/{form} {size.name}/times", kept / one)
    if form == "list" and size is FULL:
        record("disk/nights/times", kept / one)
    return [
        f"{form}, {size.blocks / 1e6:.1f} M",
        *(f"{number / MIB:.0f}" for number in (one, index, kept)),
        f"{kept / one:.2f}",
        *(f"{last['s']:.1f}", f"{last['cpu_s']:.1f}", f"{max(each['peak_mib'] for each in packs):.0f}"),
        *(f"{each['cpu_s']:.1f}" for each in (opened, rows, back)),
    ]


def main() -> None:
    """Print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--large", action="store_true", help="as many blocks as DB-IP City Lite has")
    parser.add_argument("--full", action="store_true", help="4.5 million blocks")
    parser.add_argument("--form", choices=("file", "list"), action="append", help="only this one")
    options = parser.parse_args()
    if options.child:
        home, what, number = options.child
        print(json.dumps(_timed(home, what, int(number))))
        return
    forms = options.form or tuple(_SIZES)
    given = _LARGE if options.large else SMALL if options.small else FULL if options.full else None
    os.makedirs(options.data, exist_ok=True)
    print_table(
        f"Seven nights, 1 % of the blocks changed in each (target: kept at most 1.5 times one; seed {SEED})",
        (
            *("blocks", "one MiB", "index", "kept MiB", "times one"),
            *("pack s", "CPU s", "peak MiB", "open CPU s", "rows CPU s", "back CPU s"),
        ),
        [_measure(form, given or _SIZES[form], options.data) for form in forms],
        "pack: of the last night, after its publish; peak: the greatest of all nights, each in a process of its own;",
        "open: an older generation for lookups; rows: its rows as well; back: to the generation before",
        f"load average {load_average()}",
    )


if __name__ == "__main__":
    main()
