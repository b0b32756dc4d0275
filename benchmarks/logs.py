"""`geolookup top` and `map` beside `annotate`, on one log: the same addresses are found and looked up."""

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.common import MIB, ROOT, arguments, environment, load_average, print_table, usage_mib
from benchmarks.data import FULL, SMALL, DataSet
from geolookup.model.addresses import to_text

_TARGET = 1.3
_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 Version/17.1 Mobile/15E148",
    "curl/8.5.0",
)
#: What is measured: the command, and where its result goes. The first one is what the others are compared with.
_COMMANDS = {
    "annotate": ("annotate", "--fields", "country,city", "--ok-uncovered"),
    "top": ("top", "--by", "city"),
    "top, each address once": ("top", "--by", "city", "--count", "addresses"),
    "map": ("map", "-o", "-", "--format", "html"),
}


def _lines(data: DataSet, lines: int) -> Iterator[str]:
    """A log as web servers write it, with visitors that come back."""
    rng = random.Random(1)
    blocks = np.random.default_rng(1).integers(0, len(data.first4), lines // 4)
    visitors = [to_text(4, int(address)) for address in data.first4[blocks]]
    for _ in range(lines):
        hour, minute, second = rng.randrange(24), rng.randrange(60), rng.randrange(60)
        yield (
            f"{rng.choice(visitors)} - - [21/Nov/2025:{hour:02}:{minute:02}:{second:02} +0000] "
            f'"GET /p/{rng.randrange(10**6)} HTTP/1.1" 200 {rng.randrange(10**5)} "-" "{rng.choice(_AGENTS)}"\n'
        )


def _log(data: DataSet, lines: int) -> str:
    path = os.path.join(data.folder, f"access-{lines}.log")
    if not os.path.exists(path):
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.writelines(_lines(data, lines))
        os.replace(f"{path}.new", path)
    return path


def _run(words: tuple[str, ...], log: str, home: str) -> tuple[float, float, float]:
    """Seconds, seconds of the processor, and MiB at most, of one run of the command."""
    began = time.perf_counter()
    with open(log, "rb") as source:
        process = subprocess.Popen(
            [sys.executable, "-m", "geolookup", *words],
            cwd=ROOT, env=environment(GEOLOOKUP_HOME=home), stdin=source, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (words, process.returncode)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage_mib(usage)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000, help="of the log (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    data = DataSet(SMALL if options.small else FULL, options.data)
    log, home = _log(data, options.lines), data.home
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in _COMMANDS}
    for number in range(options.rounds):
        for name in list(_COMMANDS)[:: -1 if number % 2 else 1]:
            found[name].append(_run(_COMMANDS[name], log, home))
    rows = []
    for name, runs in found.items():
        wall, processor, most = (statistics.median(each) for each in zip(*runs, strict=True))
        ratios = [
            statistics.median(ours[what] / theirs[what] for ours, theirs in zip(runs, found["annotate"], strict=True))
            for what in (0, 1)
        ]
        target = "" if name == "annotate" else f"<= {_TARGET}"
        rows.append(
            (name, f"{wall:.1f}", f"{processor:.1f}", *(f"{ratio:.2f}" for ratio in ratios), target, f"{most:.0f}")
        )
    print_table(
        f"A log of {options.lines:,} lines ({os.path.getsize(log) / MIB:.0f} MiB) on {data.size.v4:,} IPv4 ranges",
        ("command", "s", "CPU s", "times annotate's s", "times its CPU s", "target", "MiB at most"),
        rows,
        f"medians of {options.rounds} rounds, ratios of pairs; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
