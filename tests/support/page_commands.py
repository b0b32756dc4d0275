"""What it takes to run a page's commands as they stand there."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest


def offer_command(folder: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """Make `geolookup` a command with a state of its own, and ``folder`` the working directory."""
    command = folder / "bin" / "geolookup"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m geolookup "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.chdir(folder)


def end(service: "subprocess.Popen[str]") -> None:
    """Have a service end in order, within half a minute."""
    service.terminate()
    deadline = time.monotonic() + 30
    while service.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert service.wait(1) == 0
    for stream in (service.stdout, service.stderr):
        if stream is not None:
            stream.close()
