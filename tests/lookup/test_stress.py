"""A GeoLookup opened before a fork, used by eight threads a process across many publishes: every answer is right."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from geolookup.index.native import accelerator
from geolookup.lookup.engine import GeoLookup
from geolookup.state.editor import Editor
from tests.lookup.stress_process import CHILDREN, Progress, rows, stamp
from tests.support.data.states import publish

ROOT = Path(__file__).parents[2]
#: How often at least each reader meets something newer.
ENOUGH = 5


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param("native", marks=pytest.mark.skipif(accelerator() is None, reason="it was not built here")),
        "python",
    ],
)
def test_every_answer_is_right_in_forks_and_threads_across_reloads(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, full_sweep: bool
) -> None:
    # Readers see what is written whether it was synced or not; hundreds of publishes shall not wait for the disk.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: None)
    least = 2_000 if full_sweep else 8
    path = tmp_path / "progress"
    path.write_bytes(bytes(Progress.BYTES))
    progress = Progress(str(path))
    edits = 0

    def edit(editor: Editor) -> None:
        nonlocal edits
        edits += 1
        progress.note("edit begun", edits)
        editor.update(-1, **stamp(edits))
        progress.note("edit", edits)

    def generation(number: int) -> None:
        progress.note("generation begun", number)
        publish(home, rows(number), keep=3)
        progress.note("generation", number)

    generation(1)
    with Editor(home) as editor:
        edit(editor)
        asking = subprocess.Popen(
            [sys.executable, "-m", "tests.lookup.stress_process", home, str(path)],
            cwd=ROOT,
            env={**os.environ, "GEOLOOKUP_PURE": "1" if reader == "python" else "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "asking\n", asking.communicate()
            last = 1
            # Every thread is there while publishing goes on, or this would show nothing.
            while last < least or progress.least_newer() <= ENOUGH:
                assert last < 10_000
                assert asking.poll() is None, asking.communicate()
                last += 1
                generation(last)
                edit(editor)
                if last % 3 == 0:
                    edit(editor)
            progress.note("over", 1)
            output, errors = asking.communicate(timeout=120)
        finally:
            progress.note("over", 1)
            asking.kill()
            asking.communicate()
    assert asking.returncode == 0, errors
    found = json.loads(output)
    assert [problem for one in found for problem in one["wrong"]] == []
    assert [(one["reader"], one["problem"]) for one in found] == [(reader, None)] * (1 + CHILDREN)
    assert min(one["newer"] for one in found) > ENOUGH
    checked = sum((Counter(one["checked"]) for one in found), Counter())
    assert set(checked) == {"single", "match", "many", "column"}
    print(f"\n{sum(checked.values()):,} answers right ({dict(checked)}) over {last} generations and {edits} edits")


def test_a_child_forked_while_another_thread_looks_follows_what_is_published(home: str) -> None:
    publish(home, rows(1))
    with GeoLookup(home) as geo:
        geo.look_soon()
        assert geo.lookup("11.1.1.1") is not None
        held, release = threading.Event(), threading.Event()
        (lock,) = geo._follower._looking.values()

        def look() -> None:
            with lock:
                held.set()
                release.wait(60)

        looking = threading.Thread(target=look)
        looking.start()
        assert held.wait(60)
        child = os.fork()
        if child == 0:  # pragma: no cover - runs in the child
            signal.alarm(60)  # rather than to wait for ever for a thread that is not there
            status = 1
            try:
                publish(home, rows(2))
                geo.look_soon()
                found = geo.lookup("11.1.1.1")
                status = 0 if found is not None and found.city == "2" else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        release.set()
        looking.join()
        assert status == 0
        geo.look_soon()
        found = geo.lookup("11.1.1.1")
        assert found is not None
        assert found.city == "2"
