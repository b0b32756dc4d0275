"""Files dropped on the console: how far they may expand, and when the work on one ends without an answer."""

import gzip
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.columns.batches import Batch
from geolookup.console import forms
from geolookup.files.opened import content_of
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError
from tests.support.data.states import place, publish
from tests.support.data.two_sources import state
from tests.support.services.plain_http import PLAIN
from tests.support.users.running_console import RunningConsole, hidden

PATIENCE_S = 60
PATHS = ("/map", "/count", "/generations/diff?old=1&new=1")
LINES = b"8.8.8.8 GET /\n" * (1 << 13)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with RunningConsole(state(tmp_path_factory.mktemp("dropped"))) as running:
        yield running


def sent(console: RunningConsole, path: str, data: bytes, name: str = "access.log.gz") -> httpx.Response:
    with console.client() as visitor:
        fields = hidden(visitor.get("/map").text)
        return visitor.post(path, data=fields, files={"file": (name, data)})


@pytest.mark.parametrize("path", PATHS)
def test_a_file_that_expands_too_far_is_refused(
    console: RunningConsole, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "MAX_EXPANDED_BYTES", len(LINES) - 1)
    answer = sent(console, path, gzip.compress(LINES))
    assert answer.status_code == 422
    assert f"access.log.gz: expands to more than {len(LINES) - 1} bytes: it was not read" in answer.text
    assert re.search("geolookup top(`|</code>) reads files of any length", answer.text)
    monkeypatch.setattr(forms, "MAX_EXPANDED_BYTES", len(LINES))
    assert sent(console, path, gzip.compress(LINES)).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_file_in_too_many_layers_is_refused(console: RunningConsole, path: str) -> None:
    data = LINES
    for _ in range(4):
        data = gzip.compress(data)
    answer = sent(console, path, data)
    assert (answer.status_code, "is compressed more than 3 times over" in answer.text) == (422, True)


def test_no_layer_expands_without_a_bound() -> None:
    # Members without content: of the outer layer comes much, of the inner one nothing.
    data = gzip.compress(gzip.compress(b"") * 10_000)
    with pytest.raises(DataFileError, match="expands to more than 100000 bytes"):
        content_of("x.gz", io.BytesIO(data), Limits(expanded_bytes=100_000)).read()


def test_a_layer_without_content_can_be_left() -> None:
    class LeftError(Exception):
        pass

    def leave() -> None:
        left.append(1)
        if len(left) > 5:
            raise LeftError

    left: list[int] = []
    data = gzip.compress(gzip.compress(b"") * 200_000)
    with pytest.raises(LeftError):
        content_of("x.gz", io.BytesIO(data), before_read=leave).read()


class Endless:
    """Batches without end, until ``given_up``; ``begun`` and ``ended`` say where the reading is."""

    def __init__(self) -> None:
        self.begun, self.ended, self.given_up = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, _name: str, _stream: Any) -> Iterator[Batch]:
        try:
            while not self.given_up.wait(0.01):
                self.begun.set()
                yield Batch(found=Counter({b"8.8.8.8": 1}), where=lambda _: iter(()))
        finally:
            self.ended.set()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endless]:
    endless = Endless()
    monkeypatch.setattr(forms, "batches_of", endless)
    yield endless
    endless.given_up.set()
    assert endless.ended.wait(PATIENCE_S)


def posted(url: str, path: str, cookie: tuple[str, str], fields: dict[str, str], data: bytes) -> socket.socket:
    """A connection that has sent a form with a file, and waits for its answer."""
    host = httpx.URL(url)
    request = httpx.Request("POST", f"{url}{path}", data=fields, files={"file": ("access.log", data)})
    head = f"POST {path} HTTP/1.1\r\nHost: {host.netloc.decode()}\r\nCookie: {cookie[0]}={cookie[1]}\r\n"
    head += f"Origin: {url}\r\nContent-Type: {request.headers['content-type']}\r\n"
    body = request.read()
    connection = socket.create_connection((host.host, host.port or 80))
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("path", ["/map", "/count"])
def test_the_work_ends_when_the_client_leaves(console: RunningConsole, endless: Endless, path: str) -> None:
    with console.client() as visitor:
        fields = hidden(visitor.get("/map").text)
    with posted(console.url, path, console.cookie, fields, LINES):
        assert endless.begun.wait(PATIENCE_S)
    assert endless.ended.wait(PATIENCE_S)
    assert not endless.given_up.is_set()


def test_sigterm_ends_a_console_that_reads_a_file(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    command = [sys.executable, "-m", "geolookup", "console", "--no-browser"]
    # Some 15 GiB, which take minutes.
    data = gzip.compress(LINES * 512) * 256
    environment = {"GEOLOOKUP_HOME": home, "PATH": os.defpath}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1]
            url = address.partition("/?")[0]
            with httpx.Client(follow_redirects=True, trust_env=False, timeout=PATIENCE_S, verify=PLAIN) as client:
                fields = hidden(client.get(f"{client.get(address).url}map").text)
                ((name, value),) = client.cookies.items()
                with posted(url, "/map", (name, value), fields, data):
                    # It reads once it holds the whole file open.
                    while not any(re.search(r"\(deleted\)|/#", each) for each in open_files(process.pid)):
                        assert process.poll() is None
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def open_files(pid: int) -> list[str]:
    found = []
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{each}"))
        except OSError:
            continue
    return found
