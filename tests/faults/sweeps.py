"""Sweeps of kills, each in a process of its own: the kills hit children of that one, never the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def swept(module: str, *arguments: str) -> Any:
    """What the sweep of a module found."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(found: dict[str, Any], *, points: int, delays: int) -> None:
    """Nothing was wrong, and every kill that was asked for was tried."""
    assert found["problems"] == []
    assert found["points"] == min(points, found["calls"]) + delays
    # Each point is passed before the end, so each of these kills hit; a delay may come too late.
    assert found["killed"] >= min(points, found["calls"])
