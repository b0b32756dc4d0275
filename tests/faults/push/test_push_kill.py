"""SIGKILL of `geolookup push` at every commit and request: the next push finishes it, and makes nothing twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running_service import RunningService
from tests.support.service_fixtures import DEFAULTS

ROOT = Path(__file__).parents[3]


# What CI tries of each; the points are spread evenly over all that a push passes.
@pytest.mark.parametrize(("keys", "points", "delays"), [("ignored", 26, 6), ("keys", 14, 0)])
def test_a_push_killed_anywhere_is_finished_by_the_next_and_makes_nothing_twice(
    tmp_path: Path, full_sweep: bool, keys: str, points: int, delays: int
) -> None:
    if full_sweep:
        points, delays = 10_000, 100
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(tmp_path / "s.db", load=[csv], ignore_idempotency_keys=keys == "ignored") as service:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.faults.push.push_sweep",
                str(tmp_path),
                service.url,
                str(points),
                str(delays),
                keys,
            ],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert found["points"] == min(points, found["calls"]) + delays
    # Each point is passed before the end, so each of these kills hit; a delay may come too late.
    assert found["killed"] >= min(points, found["calls"])
    assert found["calls"] > 100
