"""The figures that the page begins with: what benchmarks record, for the table that sets it beside the goals.

A benchmark calls `record`; ``python -m benchmarks.run`` gathers what was recorded in ``figures.json`` (the newest of
each name, with its day), and writes from it the table at the head of RESULTS.md and the chart ``cost-and-size.svg``.
"""

import json
import os
from typing import Any

from benchmarks.common import ROOT

#: The variable that names the file to which a benchmark's process appends, a figure a line. Without it nothing is kept.
RECORDED = "BENCHMARKS_RECORD_TO"
FIGURES = os.path.join(ROOT, "benchmarks", "figures.json")


def record(name: str, value: float) -> None:
    """Keep a figure for the page: names are ``benchmark/what/size``, values are in the unit of their goal."""
    path = os.environ.get(RECORDED)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([name, value]) + "\n")


def gather(recorded: str, day: str) -> None:
    """Put what was recorded in the place of what ``figures.json`` has of the same names."""
    with open(recorded, encoding="utf-8") as file:
        new = {name: {"value": float(f"{value:.4g}"), "day": day} for name, value in map(json.loads, file)}
    kept = dict(sorted({**_kept(), **new}.items()))
    with open(FIGURES, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")


def figures() -> dict[str, float]:
    """The newest figure of each name."""
    return {name: figure["value"] for name, figure in _kept().items()}


def days() -> list[str]:
    """The days on which they were measured, the oldest first."""
    return sorted({figure["day"] for figure in _kept().values()})


def _kept() -> dict[str, dict[str, Any]]:
    try:
        with open(FIGURES, encoding="utf-8") as file:
            kept: dict[str, dict[str, Any]] = json.load(file)
            return kept
    except FileNotFoundError:
        return {}
