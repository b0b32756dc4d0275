"""Readers in other processes: forked workers of a real gunicorn, and a state directory that goes away or back."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.follow import LOOK_INTERVAL_S
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import BERLIN
from tests.state.generations.staged import stamped
from tests.support.data.states import publish
from tests.support.services.plain_http import PLAIN

PATIENCE_S = 60
WORKERS = 3

#: Opened, and asked, before gunicorn forks.
APPLICATION = """
import json, os
import geolookup

geo = geolookup.open(os.environ["STATE"])
assert geo.lookup("10.1.1.1") is not None


def app(environ, start_response):
    places = geo.lookup_many(["10.1.1.1", "11.1.1.1", "2001:db8::1", "192.168.1.1"])
    single = geo.lookup("10.1.1.1")
    status = geo.status()
    body = {
        "pid": os.getpid(),
        "stamps": sorted({text for place in places for text in (place.city, place.region)}),
        "single": single.city,
        "problem": status.problem,
        "edited": getattr(geo.lookup("172.16.0.1"), "city", None),
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(body).encode()]
"""


@contextmanager
def gunicorn(folder: Path, home: str) -> Iterator[str]:
    """The application under gunicorn, loaded once and forked: its URL."""
    (folder / "application.py").write_text(APPLICATION)
    command = [sys.executable, "-m", "gunicorn", "application:app", "--preload", "--bind", "127.0.0.1:0"]
    command += ["--workers", str(WORKERS), "--worker-class", "gthread", "--threads", "2", "--no-control-socket"]
    environment = {**os.environ, "STATE": home, "GEOLOOKUP_HOME": home}
    with open(folder / "gunicorn.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield listening(process, folder / "gunicorn.log")
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def listening(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"Listening at: (http://127\.0\.0\.1:[1-9]\d*)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def ask(url: str) -> dict[str, Any]:
    """One answer, over a connection of its own so that any worker may take it."""
    answer = httpx.get(url, trust_env=False, timeout=PATIENCE_S, headers={"Connection": "close"}, verify=PLAIN)
    return dict(answer.raise_for_status().json())


def all_workers(url: str, seen: dict[int, Any], *, last_change: float, member: str, expected: object) -> None:
    """Ask until every worker has been heard after the change was seen by all; fill ``seen`` by process id."""
    heard: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(heard) < WORKERS and time.monotonic() < deadline:
        began = time.monotonic()
        found = ask(url)
        assert found["problem"] is None
        assert found["stamps"] == [found["single"]]
        # Whoever asks later than this must be answered by what was published, however slow the machine is.
        if began > last_change + LOOK_INTERVAL_S:
            assert found[member] == expected
            heard.add(found["pid"])
            seen[found["pid"]] = found
        else:
            time.sleep(0.01)
    assert len(heard) == WORKERS


def test_forked_workers_follow_what_is_published_within_a_second_of_it(home: str, tmp_path: Path) -> None:
    publish(home, stamped(1))
    seen: dict[int, Any] = {}
    with gunicorn(tmp_path, home) as url:
        all_workers(url, seen, last_change=time.monotonic() - 2, member="single", expected="1")
        first = set(seen)
        publish(home, stamped(2))
        all_workers(url, seen, last_change=time.monotonic(), member="single", expected="2")
        with Editor(home) as editor:
            editor.add_block(editor.create(**BERLIN), "172.16.0.0/12")
        all_workers(url, seen, last_change=time.monotonic(), member="edited", expected="Berlin")
        assert set(seen) == first
        # A worker that takes a dead one's place is forked from what was opened before all that.
        victim = min(first)
        os.kill(victim, signal.SIGKILL)
        StateDirectory(home).keeping.rollback()
        published = time.monotonic()
        deadline = published + PATIENCE_S
        while set(seen) == first and time.monotonic() < deadline:
            began = time.monotonic()
            try:
                found = ask(url)
            except httpx.TransportError:
                continue  # the one that was killed took the connection with it
            if began > published + LOOK_INTERVAL_S:
                assert (found["single"], found["edited"]) == ("1", "Berlin")
                seen[found["pid"]] = found
        assert set(seen) > first


# A state directory that goes away, back, or bad under an open reader


@pytest.fixture
def geo(home: str) -> Iterator[GeoLookup]:
    for number in (1, 2, 3):
        publish(home, stamped(number))
    with GeoLookup(home) as opened:
        yield opened


def city(geo: GeoLookup) -> str:
    geo.look_soon()  # as if a second had passed
    found = geo.lookup("10.1.1.1")
    assert found is not None
    return found.city


def test_a_vanished_directory_is_served_from_and_followed_when_it_comes_back(
    geo: GeoLookup, home: str, tmp_path: Path
) -> None:
    os.rename(home, tmp_path / "elsewhere")
    assert city(geo) == "3"
    problem = geo.status().problem
    assert problem is not None
    assert "is gone" in problem
    assert not os.path.exists(home)
    os.rename(tmp_path / "elsewhere", home)
    assert (city(geo), geo.status().problem) == ("3", None)
    shutil.rmtree(home)
    assert city(geo) == "3"
    assert geo.match("192.168.1.1") is not None
    publish(home, stamped(9))
    assert (city(geo), geo.status().problem, geo.status().generation) == ("9", None, 1)


def test_a_current_from_a_backup_is_followed_and_said_to_have_gone_back(
    geo: GeoLookup, home: str, caplog: pytest.LogCaptureFixture
) -> None:
    backup = Path(home, "CURRENT").read_bytes()
    publish(home, stamped(4))
    assert city(geo) == "4"
    path = Path(home, "CURRENT")
    path.write_bytes(backup)
    with caplog.at_level(logging.WARNING, "geolookup"):
        assert city(geo) == "3"
    assert "went back from sequence 4 to 3" in caplog.text
    assert geo.status().problem is None
    # Whoever opens it now answers alike, and the next publish counts on from the highest number ever given.
    with GeoLookup(home) as other:
        assert city(other) == "3"
    assert StateDirectory(home).republish().sequence == 5
    assert city(geo) == "3"


def test_a_whole_state_from_a_backup_is_followed(geo: GeoLookup, home: str, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "backup")
    for number in (4, 5):
        publish(home, stamped(number), keep=1)
    assert city(geo) == "5"
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "backup", home)
    assert (city(geo), geo.status().problem) == ("3", None)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": "3.0"}', b"\xff" * 100])
def test_a_damaged_or_too_new_current_leaves_what_is_open_serving_until_it_is_mended(
    geo: GeoLookup, home: str, damage: bytes
) -> None:
    path = Path(home, "CURRENT")
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert city(geo) == "3"
    assert geo.status().problem is not None
    path.write_bytes(whole)
    assert (city(geo), geo.status().problem) == ("3", None)


def test_threads_keep_their_answers_while_the_directory_comes_and_goes(
    geo: GeoLookup, home: str, tmp_path: Path
) -> None:
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            geo.look_soon()
            places = geo.lookup_many(["10.1.1.1", "11.1.1.1", "192.168.1.1"])
            if len({place.city if place else None for place in places}) != 1:
                wrong.append(places)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(4, 24):
            os.rename(home, tmp_path / "elsewhere")
            os.rename(tmp_path / "elsewhere", home)
            publish(home, stamped(number), keep=2)
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert wrong == []
    assert (city(geo), geo.status().problem) == ("23", None)
