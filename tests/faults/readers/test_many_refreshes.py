"""Refreshes in a row on changing data, edits beside, four readers: no mixture, and nothing grows beyond retention."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.readers.many_refreshes import KEEP, READERS

ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(3600)
def test_many_refreshes_in_a_row_make_no_mixture_and_nothing_grows(full_sweep: bool) -> None:
    count = 200 if full_sweep else 16
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.readers.many_refreshes", str(count), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert len(found["readers"]) == READERS
    for reader in found["readers"]:
        assert reader["newest"] == count
        assert reader["seen"] > count // 3  # it read while they went on, or this would have shown nothing
        # What the first looks take (Python's own caches, too) is taken by then.
        first, *samples = reader["samples"][1:]
        for sample in samples:
            assert sample["descriptors"] == first["descriptors"]
            assert sample["maps"] <= first["maps"] + 4  # while one snapshot takes the place of another, both are open
            assert sample["memory_kib"] < first["memory_kib"] + 2048
    assert len(found["generations"]) == KEEP
    assert len(found["overlays"]) == KEEP
    sizes = [usage["bytes"] for usage in found["disk"]]
    files = [usage["files"] for usage in found["disk"]]
    assert max(sizes[KEEP:]) <= 1.02 * sizes[KEEP]
    assert max(files[KEEP:]) <= files[KEEP] + 3  # the copies of edits.db come one by one
    # The history is kept for good: it grows by its lines, and by no more.
    growth = [after["edits_bytes"] - before["edits_bytes"] for before, after in pairwise(found["disk"][10:])]
    assert sum(growth) < 4 * 4096 * len(growth)
