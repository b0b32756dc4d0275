"""Kills and faults at real system calls, by strace: the old state or the new one, whole, and a true exit status.

What CI tries of each command is spread over all of its calls, and over all kinds of calls that can fail;
``--full-sweep`` tries all, as does ``python -m tests.faults.kills.strace_sweep``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.kills.scenarios import SCENARIOS
from tests.faults.kills.traced import calls_in, why_not

ROOT = Path(__file__).parents[3]
#: How many points of each command CI tries. Those of a group are tried by one process.
POINTS = 18
GROUPS = [tuple(name for name, each in SCENARIOS.items() if each.pushes == pushes) for pushes in (False, True)]


@pytest.fixture
def strace() -> None:
    """Where nothing can be traced, nothing of this runs, and says why; REQUIRE_STRACE=1 makes that a failure."""
    reason = why_not()
    if reason is None:
        return
    if os.environ.get("REQUIRE_STRACE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", GROUPS, ids=", ".join)
def test_a_kill_or_a_fault_at_any_system_call_leaves_the_old_state_or_the_new_one(
    strace: None, full_sweep: bool, group: tuple[str, ...]
) -> None:
    budget = [] if full_sweep else ["--points", str(POINTS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.kills.strace_sweep", *group, "--json", *budget],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    for scenario, found in json.loads(done.stdout).items():
        assert found["bad"] == [], scenario
        assert found["points"] == (found["all"] if full_sweep else POINTS), scenario
        # So the kills did hit, and faults were felt.
        assert found["killed"] >= found["points"] // 4, scenario
        assert found["failed"] >= found["points"] // 8, scenario
        assert found["calls"] > 200, scenario


def test_a_call_is_counted_in_its_own_process_and_known_by_the_names_in_the_state(tmp_path: Path) -> None:
    log = tmp_path / "trace"
    log.write_text(
        '7 openat(AT_FDCWD</x>, "/elsewhere", O_RDONLY) = 3</elsewhere>\n'
        '8 openat(AT_FDCWD</x>, "/s/CURRENT.tmp-8-ab", O_WRONLY|O_CREAT, 0600) = 4</s/CURRENT.tmp-8-ab>\n'
        '7 openat(AT_FDCWD</x>, "/s", O_RDONLY) = 3</s>\n'
        '8 write(4</s/CURRENT.tmp-8-ab>, "x", 1) = 1\n'
        '8 rename("/s/CURRENT.tmp-8-ab", "/s/CURRENT") = 0\n'
        '8 openat(AT_FDCWD</x>, "/s2/CURRENT", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
    )
    found = [(call.name, call.nth, call.label) for call in calls_in(str(log), "/s")]
    assert found == [
        ("openat", 1, "openat CURRENT.tmp-* O_CREAT"),
        ("openat", 2, "openat ."),
        ("write", 1, "write CURRENT.tmp-*"),
        ("rename", 1, "rename CURRENT.tmp-* CURRENT"),
    ]
