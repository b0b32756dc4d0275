"""Four readers across hundreds of publishes: no mixture, nothing older after something newer, the last in the end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.state.publishing.directory import StateDirectory
from tests.state.generations.staged import stamped
from tests.support.data.states import place, publish

ROOT = Path(__file__).parents[3]
READERS = 4


def rows(number: int) -> list[object]:
    """Both layers; how many rows there are changes from one publish to the next, so that slots and offsets move."""
    stamp = {"city": str(number), "region": str(number), "postalcode": str(number)}
    more = [place(100 + extra, f"172.16.{extra}.0/24", **stamp) for extra in range(number % 7)]
    return [*stamped(number), place(-2, "fd00::/8", **stamp), *more]


@pytest.mark.parametrize(("keep", "publishes"), [(1, 60), (3, 40)])
def test_readers_never_see_a_mixture_nor_anything_older_than_before(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int, publishes: int, full_sweep: bool
) -> None:
    # Readers see what is written whether it was synced or not; hundreds of publishes shall not wait for the disk.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    last = publishes * 10 if full_sweep else publishes
    publish(home, rows(1), keep=keep)
    done = tmp_path / "done"
    readers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.readers.reader_process", home, str(last), str(done), "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(READERS)
    ]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "reading\n", reader.communicate()
        for number in range(2, last + 1):
            publish(home, rows(number), keep=keep)
            if number % 3 == 0:
                StateDirectory(home, keep_generations=keep).republish()
        done.touch()
        answers = [reader.communicate(timeout=120) for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    seen: set[int] = set()
    for reader, (output, errors) in zip(readers, answers, strict=True):
        assert reader.returncode == 0, errors
        found = json.loads(output)
        assert found["problems"] == []
        assert found["seen"] == sorted(set(found["seen"]))
        assert found["seen"][-1] == last
        seen |= {*found["seen"]}
    # They read while publishing went on, or this would have shown nothing; one alone may have had no processor.
    assert len(seen) > 3
