"""Every byte flipped and every truncation of CURRENT and the index files, opened as a whole state by both readers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.index.native import accelerator
from tests.faults.disk.byte_flips import FILES

ROOT = Path(__file__).parents[3]


# CI flips and cuts at each byte of an index beside its header and its tables, and at some of what has a checksum:
# test_recovery.py tries every byte of CURRENT, and index/test_damage.py of headers. The readers take turns: what one of
# them leaves out, the other one has. --full-sweep tries each with both.
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("reader", ["python", "native"])
def test_a_damaged_file_is_refused_or_recovered_from_or_found_by_verify(reader: str, full_sweep: bool) -> None:
    if reader == "native" and accelerator() is None:
        pytest.skip("the accelerator was not built")
    start = "0" if reader == "python" else "1"
    extent = ["--every", "--masks"] if full_sweep else ["--step", "2", "--start", start, "--text-step", "13"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.disk.byte_flips", *FILES, "--json", *extent],
        cwd=ROOT,
        env={**os.environ, "GEOLOOKUP_PURE": "1" if reader == "python" else ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), (done.returncode, done.stderr)  # below zero: a crash
    for name, found in json.loads(done.stdout).items():
        assert found["bad"] == []
        assert found["tried"] > (140 if name == "CURRENT" else 300)
        # So the damage was met in more than one way.
        outcomes = found["outcomes"]
        assert outcomes.get("recovered", 0) + outcomes.get("previous generation", 0) > 140
        if name != "CURRENT":
            assert outcomes.get("wrong, and verify finds it", 0) > 10
