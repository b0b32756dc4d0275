"""Ctrl-C while a push is under way: the console waits for its end, or says what was cut off and how to go on."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.sync.opening import open_editor
from tests.support.data.states import place, publish
from tests.support.data.two_sources import NOTHING
from tests.support.services.plain_http import PLAIN
from tests.support.users.running_console import hidden

PATIENCE_S = 60


class Slow:
    """A service that answers, with a failure, only once it may. ``asked`` is set by the first request."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()
        slow = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                slow.asked.set()
                slow.may.wait(PATIENCE_S)
                with contextlib.suppress(ConnectionError):  # whoever asked may have been cut off
                    self.send_error(500)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.may.set()
    slow.server.shutdown()
    slow.server.server_close()


@pytest.fixture
def pushing(tmp_path: Path, slow: Slow) -> Iterator["subprocess.Popen[str]"]:
    """A console as a process of its own, in which a push is under way that waits for the service."""
    home = str(tmp_path / "home")
    publish(home, [place(1, "11.0.0.0/8")], url=slow.url)
    with open_editor(home) as editor:
        editor.create(**NOTHING)
    environment = {"GEOLOOKUP_HOME": home, "GEOLOOKUP_URL": slow.url, "GEOLOOKUP_ATTEMPTS": "1", "PATH": os.defpath}
    command = [sys.executable, "-m", "geolookup", "console", "--no-browser"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        with httpx.Client(follow_redirects=True, trust_env=False, timeout=PATIENCE_S, verify=PLAIN) as client:
            page = client.get(address)
            client.post(f"{page.url.scheme}://{page.url.netloc.decode()}/outbox/push", data=hidden(page.text))
            assert slow.asked.wait(PATIENCE_S)
        yield process
        process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline().strip()


def test_it_waits_for_the_end_of_a_push_and_says_so(pushing: "subprocess.Popen[str]", slow: Slow) -> None:
    pushing.send_signal(signal.SIGINT)
    assert re.fullmatch(
        r"geolookup: a push is under way \(0( of 1)? edits?\): the console ends once it has ended; "
        "Ctrl-C again cuts it off",
        line(pushing),
    )
    slow.may.set()
    assert re.match(r"geolookup: the push (failed: .*500|ended after \d)", line(pushing))
    assert pushing.wait(PATIENCE_S) == 0


def test_a_second_ctrl_c_says_what_was_cut_off_and_how_to_go_on(pushing: "subprocess.Popen[str]") -> None:
    pushing.send_signal(signal.SIGINT)
    assert "a push is under way" in line(pushing)
    pushing.send_signal(signal.SIGINT)
    assert pushing.wait(PATIENCE_S) == 130
    assert pushing.stderr is not None
    assert re.search(
        r"interrupted: the push was cut off after 0( of 1)? edits?: what was sent is known, and nothing is sent twice; "
        "`geolookup push` goes on from there$",
        pushing.stderr.read().strip(),
    )
