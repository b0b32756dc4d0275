"""Several processes on one address: all serve, a dead one is replaced, and none outlives the first."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.service.serve import EMPTY
from tests.service.test_operating import samples
from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import FIELDS

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux tells which processes there are")

PATIENCE_S = 60

PROGRAM = """
import json, sys
from geolookup.web.options import Options
from geolookup.service.serve import serve
if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    serve(port=0, db=given["db"], options=Options(**given["options"]), on_ready=lambda url: print(url, flush=True))
    print("ended", flush=True)
"""


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    pytest.fail(what)


def workers_of(process: int) -> list[int]:
    """The processes that serve for it (its other child is Python's resource tracker)."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def is_gone(process: int) -> bool:
    """Whether it ended; one that nobody has waited for counts as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Service:
    """A service of several processes, under a program of its own."""

    def __init__(self, tmp_path: Path, db: str, **options: object) -> None:
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        given = json.dumps({"db": db, "options": {"workers": 2, **options}})
        self.process = subprocess.Popen(
            [sys.executable, str(program), given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def workers(self) -> list[int]:
        return workers_of(self.process.pid)


@contextlib.contextmanager
def running(tmp_path: Path, **options: object) -> Iterator[Service]:
    service = Service(tmp_path, str(tmp_path / "x.db"), **options)
    known = service.workers()
    try:
        assert service.url.startswith("http"), service.process.stderr.read() if service.process.stderr else ""
        yield service
    finally:
        known += service.workers() if service.process.poll() is None else []
        service.process.kill()
        service.process.communicate(timeout=PATIENCE_S)
        for worker in known:
            with contextlib.suppress(OSError):
                if not is_gone(worker):
                    os.kill(worker, signal.SIGKILL)


def create(url: str) -> int:
    with httpx.Client(base_url=url, trust_env=False, timeout=30, verify=PLAIN) as client:
        return int(client.post("/geolocations", json=FIELDS).raise_for_status().json()["locid"])


def test_both_serve_from_one_database_and_their_counts_are_added_up(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert len(service.workers()) == 2
        assert [create(service.url) for _ in range(20)] == [-number for number in range(1, 21)]
        with httpx.Client(base_url=service.url, trust_env=False, timeout=30, verify=PLAIN) as client:
            found = samples(client)
            assert len(client.get("/geolocations").json()) == 20
        assert found["geolookup_requests_total", "POST", "createGeolocation", "201"] == 20
        assert sum(value for key, value in found.items() if key[0] == "geolookup_workers") == 2
        assert found["geolookup_geolocations", "custom"] == 20
        assert found["geolookup_requests_in_flight",] == 1


def test_a_worker_that_dies_is_replaced_and_the_others_serve_meanwhile(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        create(service.url)
        for _ in range(2):
            before = service.workers()
            os.kill(before[0], signal.SIGKILL)
            until(lambda: len(set(service.workers()) - {before[0]}) == 2, "no other took its place")  # noqa: B023
            assert create(service.url) < 0
        assert service.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_in_order(tmp_path: Path, number: int) -> None:
    with running(tmp_path) as service:
        create(service.url)
        workers = service.workers()
        service.process.send_signal(number)
        out, err = service.process.communicate(timeout=PATIENCE_S)
        assert (service.process.returncode, out, err) == (0, "ended\n", f"{EMPTY}\n")
        assert all(map(is_gone, workers))
        assert not list(tmp_path.glob("geolookup-*"))


def test_no_worker_outlives_a_killed_parent(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        locid = create(service.url)
        workers = service.workers()
        service.process.kill()
        until(lambda: all(map(is_gone, workers)), "a worker lives on")
        with pytest.raises(httpx.TransportError):
            httpx.get(service.url, trust_env=False, verify=PLAIN)
    with running(tmp_path) as again:
        assert create(again.url) == locid - 1


def test_a_worker_that_cannot_start_ends_the_service_with_its_reason(tmp_path: Path) -> None:
    # The folder is there when the service starts, and has no place for a worker's file: each names one of its own.
    service = Service(tmp_path, str(tmp_path / "x.db"), access_log=str(tmp_path / "none" / "log"))
    out, err = service.process.communicate(timeout=PATIENCE_S)
    assert service.process.returncode != 0
    assert "the access log cannot be written" in err
    assert "before it could serve" in err
    assert "ended" not in out
