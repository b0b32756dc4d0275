"""Kills and faults at system calls of a publish and of a sync: some in CI, all with ``--full-sweep``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.kills.traced import why_not

#: How many points of each command CI tries.
POINTS = 8


@pytest.mark.timeout(7200)
def test_a_kill_or_a_fault_leaves_a_folder_and_a_reader_as_before_or_after(full_sweep: bool) -> None:
    reason = why_not()
    if reason is not None:
        if os.environ.get("REQUIRE_STRACE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fleet.sweep", "--json", *([] if full_sweep else ["--points", str(POINTS)])],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    for what, found in json.loads(done.stdout).items():
        assert found["bad"] == [], what
        assert found["killed"] >= found["points"] // 4, what
        assert found["failed"] >= found["points"] // 8, what
        assert found["calls"] > 200, what
