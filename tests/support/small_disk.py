"""A file system that is small, and can be mounted read-only."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small(tmp_path: Path) -> Iterator[str]:
    """A file system of 40 MiB of its own, for this test."""
    path = str(tmp_path / "small")
    os.mkdir(path)
    command = ["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", path]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
