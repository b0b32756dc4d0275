"""Any ASGI application, without a database: it gets the guard, tokens, metrics, workers and the end in order."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from tests.service.test_operating import samples

TOKEN = new_token()
PROGRAM = """
import contextlib, json, sys
from litestar import get, post
from geolookup.web.probes import Metrics
from geolookup.web.probes import Health
from geolookup.web.application import Paths
from geolookup.web.routing import routed
from geolookup.web.application import Application
from geolookup.web.launch import launch
from geolookup.web.options import Options

@get("/guests/{name:str}", sync_to_thread=False)
def guest(name: str) -> str:
    return name

@post("/ask", sync_to_thread=False)
def ask() -> str:
    return "asked"

@post("/change", sync_to_thread=False)
def change() -> str:
    return "changed"

@get("/modules", sync_to_thread=False)
def modules() -> list[str]:
    return sorted(sys.modules)

def say(text):
    with open(sys.argv[2], "a") as told:
        told.write(text + "\\n")

@contextlib.contextmanager
def opened(folder):
    health, metrics = Health(), Metrics()
    yield Application(
        asgi=routed([guest, ask, change, modules], {}, title="another", health=health, metrics=metrics),
        paths=Paths(reading_posts=frozenset({"/ask"}), private={"/guests/": "/guests/{name}"}),
        health=health, metrics=metrics, start=lambda: say("started"), close=lambda: say("closed"),
    )
    say("left")

if __name__ == "__main__":
    launch(
        contextlib.nullcontext(opened), host="127.0.0.1", port=0, options=Options(**json.loads(sys.argv[1])),
        on_ready=lambda url: print(url, flush=True),
    )
    print("ended", flush=True)
"""


class Launched:
    """The program above; ``told`` is what its processes wrote, ``log`` their access log."""

    def __init__(self, folder: Path, workers: int) -> None:
        program, self.told, self.log = folder / "program.py", folder / "told", folder / "log"
        program.write_text(PROGRAM)
        options = json.dumps({"workers": workers, "access_log": str(self.log)})
        self.process = subprocess.Popen(
            [sys.executable, str(program), options, str(self.told)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GEOLOOKUP_SERVE_TOKENS": line_for("r", Scope.READ, TOKEN), "TMPDIR": str(folder)},
        )
        assert self.process.stdout is not None
        self.stdout: IO[str] = self.process.stdout
        self.client = httpx.Client(
            base_url=self.stdout.readline().strip(),
            headers={"Authorization": f"Bearer {TOKEN}"},
            trust_env=False,
            timeout=60,
        )


@pytest.fixture(params=[1, 2])
def launched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launched]:
    running = Launched(tmp_path, request.param)
    try:
        with running.client:
            yield running
    finally:
        running.process.kill()
        running.process.communicate()


def test_another_application_runs_under_the_same_guard_metrics_and_end(
    launched: Launched, request: pytest.FixtureRequest
) -> None:
    client = launched.client
    assert client.get("/guests/ann").text == "ann"
    assert client.get("/guests/ann", headers={"Authorization": ""}).status_code == 401
    assert client.get("/guests/ann", headers={"Host": "evil.example"}).status_code == 421
    assert client.post("/ask").text == "asked"
    assert client.post("/change").json()["type"] == "urn:geolookup:problem:insufficient-scope"
    assert client.get("/readyz").status_code == 200
    assert client.get("/schema/openapi.json").json()["info"]["title"] == "another"
    assert samples(client)["geolookup_requests_total", "GET", "guest", "200"] == 1
    loaded = set(client.get("/modules").json())
    assert "geolookup.web.launch" in loaded
    assert not loaded & {"sqlalchemy", "sqlite3", "psycopg", "geolookup.service.store"}
    logged = [json.loads(line) for line in launched.log.read_text().splitlines()]
    assert {entry["path"] for entry in logged if "guests" in entry["path"]} == {"/guests/{name}"}
    launched.process.send_signal(signal.SIGTERM)
    rest, _ = launched.process.communicate(timeout=60)
    workers = request.node.callspec.params["launched"]
    assert (launched.process.returncode, rest) == (0, "ended\n")
    assert sorted(launched.told.read_text().split()) == sorted(["started", "closed", "left"] * workers)
