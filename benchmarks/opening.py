"""Opening a state and the first answer, in process and after the imports, whatever the state's size.

Under 5 ms, and under 10 if its files have to be read from the disk.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.figures import record

_TARGET_MS, _COLD_TARGET_MS = 5, 10
_COLD = ", files not in memory"
#: Import, open and first answer in a fresh process; and the modules of ours that this may import.
_WHOLE_MS, _MODULES = 35, 30


# Without this benchmark's own imports, which would be counted out of it.
_WHOLE = """
import sys, time
began = time.perf_counter()
import geolookup
with geolookup.open(sys.argv[1]) as geo:
    found = geo.lookup(sys.argv[2])
    elapsed = time.perf_counter() - began
assert found is not None
print(1000 * elapsed, sum(name.partition(".")[0] == "geolookup" for name in sys.modules))
"""


def _whole(home: str, address: str) -> list[float]:
    """Milliseconds of import, open and first answer in a bare process; how many modules of ours that imported.

    And the milliseconds of a whole process that does nothing, just before: machines differ, and one with its load.
    """
    command = [sys.executable, "-c", _WHOLE, home, address]
    # No settings file: this is what most machines have.
    env = environment(XDG_CONFIG_HOME=home)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=env, check=True)
    nothing = 1000 * (time.perf_counter() - began)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return [*(float(word) for word in done.stdout.split()), nothing]


def _forget(home: str) -> None:
    """Ask the kernel to drop the state's files from its page cache, where it can be asked."""
    for folder, _, names in os.walk(home):
        for name in names:
            with contextlib.suppress(OSError, AttributeError):
                descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)


def _child(home: str, address: str) -> None:
    began = time.perf_counter()
    import geolookup

    opener = geolookup.open  # the public names load on first use: this is the rest of the import
    imported = time.perf_counter()
    geo = opener(home)
    opened = time.perf_counter()
    found = geo.lookup(address)
    first = time.perf_counter()
    assert found is not None
    geo.lookup(address)
    second = time.perf_counter()
    with opener(home) as again:
        again.lookup(address)
    warm = time.perf_counter()
    parts = (imported - began, opened - imported, first - opened, first - imported, second - first, warm - second)
    print(json.dumps([1000 * part for part in parts]))


def _column(runs: Sequence[Sequence[float]], index: int) -> float:
    return median(run[index] for run in runs)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="processes started for each row (default: 30)")
    options = parser.parse_args()
    if options.child:
        _child(*options.child)
        return
    sizes = (SMALL,) if options.small else (SMALL, FULL)
    cases: list[tuple[str, str, list[str], bool]] = []
    for size in sizes:
        data = DataSet(size, options.data)
        asked = data.covered4(options.rounds, np.random.default_rng(1))
        for name, cold in (("", False), (_COLD, True)):
            cases.append((f"{data.size.blocks:,} blocks{name}", data.home, asked, cold))
    found: dict[str, list[list[float]]] = {}
    wholes: dict[str, list[list[float]]] = {}
    for number in range(options.rounds):
        for name, home, asked, cold in cases:
            if cold:
                _forget(home)
            wholes.setdefault(name, []).append(_whole(home, asked[number]))
            if cold:
                _forget(home)
            found.setdefault(name, []).append(json.loads(child("opening", home, asked[number], data=options.data)))
    rows = []
    for name, runs in found.items():
        opened, first, both, second, warm = (_column(runs, index) for index in range(1, 6))
        record(f"opening/{name}/ms", both)
        least, worst = (choose(run[3] for run in runs) for choose in (min, max))
        target = _COLD_TARGET_MS if name.endswith(_COLD) else _TARGET_MS
        rows.append(
            (name, f"{opened:.2f}", f"{first:.3f}", f"{both:.2f}", f"< {target}", f"{least:.2f}", f"{worst:.2f}",
             f"{second:.4f}", f"{warm:.2f}")
        )  # fmt: skip
    print_table(
        "Opening and the first answer, a fresh process each (ms)",
        ("state", "open", "first answer", "both", "target", "least", "worst", "second answer", "opened again, answer"),
        rows,
        f"medians of {options.rounds} alternated processes; load average {load_average()}",
        f"importing geolookup took {_column([run for runs in found.values() for run in runs], 0):.0f} ms before that",
    )
    whole = [
        (
            *(name, f"{_column(runs, 0):.1f}", f"{min(run[0] for run in runs):.1f}", f"<= {_WHOLE_MS}"),
            f"{median(run[0] / run[2] for run in runs):.2f}",
            *(f"{max(run[1] for run in runs):.0f}", f"<= {_MODULES}"),
        )
        for name, runs in wholes.items()
    ]
    print_table(
        "Import, open and the first answer together, a fresh process each",
        ("state", "median ms", "least ms", "target", "to nothing", "modules of ours", "target"),
        whole,
        f"medians of {options.rounds} alternated processes; no settings file; load average {load_average()}",
        "to nothing: to the whole time of `python -c pass` just before",
    )


if __name__ == "__main__":
    main()
