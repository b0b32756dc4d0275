"""Play many runs of each dial, alone and in pairs, and print a table: ``python -m tests.dials.table --runs 1000``."""

import argparse
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from random import Random
from typing import TextIO

from tests.dials.dials import MEANINGS
from tests.dials.judge import Verdict
from tests.dials.world import World

COLUMNS = ("twins", "lost", "vanished", "stuck", "covered", "busy", "raw", "held")
_NAMES = tuple(MEANINGS)


@dataclass(frozen=True, slots=True)
class Run:
    """One run to be played: its seed and the dials that are turned."""

    seed: int
    names: tuple[str, ...]


def runs_of(count: int, names: Iterable[str] = _NAMES, *, first_seed: int = 0) -> list[Run]:
    """At least ``count`` runs in which each dial is turned: half of them with it alone, half in pairs with others."""
    names = list(names)
    alone = [Run(first_seed + seed, (name,)) for name in names for seed in range(count - count // 2)]
    others = [name for name in names if name != "plain"]
    pairs = list(itertools.combinations(others, 2))
    if not pairs:
        return alone
    each = -(-(count // 2) // (len(others) - 1))
    runs = [*alone, *(Run(first_seed + seed, pair) for pair in pairs for seed in range(each))]
    Random(first_seed).shuffle(runs)  # so that what was played when somebody ends it has something of everything
    return runs


def play(run: Run) -> tuple[Run, Verdict]:
    """Play one run; an error of the run itself is a raw one."""
    try:
        return run, World(run.seed, frozenset(run.names)).play()
    except Exception as error:
        return run, Verdict(raw=1, story=[f"the run itself: {type(error).__name__}: {error}"])


def table(verdicts: Iterable[tuple[Run, Verdict]]) -> str:
    """A line for each dial alone, and for each in pairs with all others: in how many runs each column was not zero."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for run, verdict in verdicts:
        for name in run.names:
            line = sums.setdefault(
                (name, "alone" if len(run.names) == 1 else "in pairs"), dict.fromkeys(("runs", *COLUMNS, "lists"), 0)
            )
            line["runs"] += 1
            for column in COLUMNS:
                line[column] += bool(getattr(verdict, column))
            line["lists"] = max(line["lists"], verdict.most_lists)
    heads = ("dial", "", "runs", *COLUMNS, "lists a push")
    rows = [
        (name, how, *(str(sums[name, how][column]) for column in ("runs", *COLUMNS, "lists")))
        for name in _NAMES
        for how in ("alone", "in pairs")
        if (name, how) in sums
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, tuple("---" for _ in heads), *rows])


def _story(run: Run, verdict: Verdict) -> str:
    return "\n".join((f"\nseed {run.seed}, {' and '.join(run.names)}:", *verdict.story))


def write(file: TextIO, run: Run, verdict: Verdict) -> None:
    """Add a line to a log: what `read` makes the same run and verdict of; the story only if something went wrong."""
    found = asdict(verdict) | {"story": verdict.story if verdict.bad else []}
    print(json.dumps({"seed": run.seed, "names": run.names, "verdict": found}), file=file, flush=True)


def read(paths: Iterable[str]) -> Iterator[tuple[Run, Verdict]]:
    """The runs of logs."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                found = json.loads(line)
                yield Run(found["seed"], tuple(found["names"])), Verdict(**found["verdict"])


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="at least so many runs with each dial turned")
    parser.add_argument("--dials", nargs="*", default=list(_NAMES), choices=_NAMES, help="these dials alone")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stories", type=int, default=0, help="tell so many of the runs that went wrong")
    parser.add_argument("--column", choices=COLUMNS, help="tell those in which this column is not zero")
    parser.add_argument("--log", default=os.devnull, help="add a line for each run to this file")
    parser.add_argument("--read", nargs="+", metavar="LOG", help="play nothing: the table of what these logs have")
    given = parser.parse_args(arguments)
    if given.read:
        found = list(read(given.read))
        print(table(found))
        print(f"\n{len(found)} runs, {sum(verdict.bad for _, verdict in found)} of them bad")
        return 0
    began = time.monotonic()
    runs = runs_of(given.runs, given.dials, first_seed=given.first_seed)
    found = []
    with (
        contextlib.suppress(KeyboardInterrupt),
        open(given.log, "a", encoding="utf-8") as log,
        ProcessPoolExecutor(given.processes) as pool,
    ):
        try:
            for each in pool.map(play, runs):
                found.append(each)
                write(log, *each)
                if each[1].bad:  # at once: whoever plays for hours need not wait for the end
                    print(_story(*each), file=sys.stderr, flush=True)
                if len(found) % 100 == 0:
                    bad = sum(verdict.bad for _, verdict in found)
                    print(f"{len(found)} of {len(runs)} played, {bad} of them bad", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    print(table(found))
    bad = [
        (run, verdict) for run, verdict in found if (getattr(verdict, given.column) if given.column else verdict.bad)
    ]
    print(f"\n{len(found)} of {len(runs)} runs in {time.monotonic() - began:.0f} s, {len(bad)} of them bad")
    for run, verdict in bad[: given.stories]:
        print(_story(run, verdict))
    return 1 if bad or len(found) < len(runs) else 0


if __name__ == "__main__":
    sys.exit(main())
