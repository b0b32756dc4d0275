"""What one walk through the code asks for, counted in a process of its own: `tools/walk.py` counts, strace looks on."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kills.traced import why_not

ROOT = Path(__file__).parents[2]


def walked(home: str, *walk: str, under: tuple[str, ...] = ()) -> dict[str, Any]:
    """One walk, as `tools/walk.py` has it, whose audit hook cannot be taken back; ``under`` is a command to run it."""
    done = subprocess.run(
        [*under, sys.executable, "tools/walk.py", *walk],
        cwd=ROOT,
        env={**os.environ, "GEOLOOKUP_HOME": home},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def opened_by_the_system(home: str, log: Path, *walk: str) -> tuple[Counter[str], dict[str, Any]]:
    """How often one walk opens each file of a state, also those that SQLite and the C library open; and `walked`.

    Python's audit hooks do not see these. Skips the test where strace cannot trace.
    """
    reason = why_not()
    if reason is not None:
        if os.environ.get("REQUIRE_STRACE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    # Only the calls that are asked for stop the process: that takes a third of the time.
    strace = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=open,openat,openat2", "-o", str(log))
    found = walked(home, *walk, under=strace)
    trace = log.read_text().partition("/BEGINS")[2].partition("/ENDS")[0]
    files = re.findall(rf'"{re.escape(home)}/([^"]+)", (?!.*O_DIRECTORY).* = \d+$', trace, re.MULTILINE)
    return Counter(re.sub(r"\.(tmp|candidate)-[^/]*", r".\1", name) for name in files), found
