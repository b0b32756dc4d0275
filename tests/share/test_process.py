"""The command as processes: several workers, an orderly end, a restart, and what is left behind."""

import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.service.test_operating import samples
from tests.support.data.two_sources import state
from tests.support.services.running_share import ShareCommand
from tests.support.services.server_thread import PATIENCE_S

CITY = "/databases/geolookup-City.mmdb"


def ready(share: ShareCommand, client: httpx.Client) -> None:
    share.wait_until(lambda: client.get("/readyz").status_code == 200, "the first build")


def test_two_workers_give_one_etag_and_so_does_a_restart(tmp_path: Path) -> None:
    home = state(tmp_path)
    seen = set()
    for _ in range(2):
        with ShareCommand(home, "--workers", "2") as share, share.client() as client:
            ready(share, client)
            for _ in range(20):  # each on a connection of its own, so that both workers answer
                with share.client() as one:
                    answer = one.get(CITY)
                    seen.add((answer.headers["etag"], answer.headers["last-modified"], answer.content))
            workers = samples(client)
            assert sum(value for name, value in workers.items() if name[0] == "geolookup_workers") == 2
            assert share.stop() == 0
    assert len(seen) == 1
    assert sorted(os.listdir(Path(home) / "share")) == ["catalog.json", "files", "lock", "named"]


def test_both_workers_follow_an_edit(tmp_path: Path) -> None:
    with ShareCommand(state(tmp_path), "--workers", "2") as share, share.client() as client:
        ready(share, client)
        before = client.get(CITY).headers["etag"]
        locid = client.get("/lookup/10.20.0.1").json()["locid"]
        share.run("custom", "update", str(locid), "--city", "Potsdam")
        share.wait_until(lambda: client.get(CITY).headers["etag"] != before, "the edit")
        after = client.get(CITY).headers["etag"]

        def both() -> bool:
            found = set()
            for _ in range(10):
                with share.client() as one:
                    found.add((one.get(CITY).headers["etag"], one.get("/lookup/10.20.0.1").json()["city"]))
            return found == {(after, "Potsdam")}

        share.wait_until(both, "both workers")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_lets_a_download_end_and_nothing_is_left_running(tmp_path: Path, workers: str) -> None:
    home = state(tmp_path)
    with ShareCommand(home, "--workers", workers, "--grace", "30") as share, share.client() as client:
        ready(share, client)
        name = client.get(CITY).headers["etag"].strip('"')
        large = os.urandom(1 << 20) * 16
        (Path(home) / "share" / "files" / name).write_bytes(large)
        with client.stream("GET", CITY) as answer:
            pieces = answer.iter_raw()
            got = [next(pieces)]
            share.process.send_signal(signal.SIGTERM)
            time.sleep(1.0)
            assert share.process.poll() is None
            got += pieces
        assert b"".join(got) == large
        assert share.process.wait(PATIENCE_S) == 0  # of the one signal: a second could meet a process that has ended
    assert not any("Traceback" in line for line in share.said), share.said


def test_sigterm_during_a_build_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    home = state(tmp_path)
    with ShareCommand(home) as share:
        began = time.monotonic()
        assert share.stop() == 0
        assert time.monotonic() - began < 20
    files = Path(home) / "share" / "files"
    with ShareCommand(home) as share, share.client() as client:
        ready(share, client)
        assert not [name for name in os.listdir(files) if name.startswith(".new-")]


def test_a_killed_share_leaves_a_state_that_the_next_one_serves(tmp_path: Path) -> None:
    home = state(tmp_path)
    with ShareCommand(home, "--workers", "2") as share, share.client() as client:
        ready(share, client)
        before = client.get(CITY).headers["etag"]
        share.process.kill()
        share.process.wait()
    with ShareCommand(home) as share, share.client() as client:
        assert client.get(CITY).headers["etag"] == before  # at once: nothing has to be built again
