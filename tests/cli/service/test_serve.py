"""``geolookup serve`` and ``serve-token``, and clients that meet a service with tokens."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.service.serve import EMPTY
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.web.auth import Scope, Tokens, line_for, new_token
from geolookup.web.options import Options
from tests.cli.edits.test_custom import CREATE, Command
from tests.support.data.states import publish
from tests.support.services.plain_http import PLAIN
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.users.page_commands import end
from tests.support.users.quick_commands import forked

READER, WRITER, STRANGER = new_token(), new_token(), new_token()


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*forked(), "-m", "geolookup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environ},
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A service that knows one token for reading and one for writing."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{line_for('r', Scope.READ, READER)}\n{line_for('w', Scope.WRITE, WRITER)}\n")
    with RunningService(tmp_path / "service.db", options=Options(tokens=str(tokens))) as running:
        yield running


@pytest.fixture
def command(
    home: str, service: RunningService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Two creates wait for that service."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    publish(home, [], url=service.url)
    command = Command(capsys)
    for _ in range(2):
        command(*CREATE)
    return command


def states(home: str) -> list[State]:
    with StateDirectory(home).edits.transaction() as database:
        return [row.state for row in Outbox(database).rows()]


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (None, ("401", "check the token")),
        (STRANGER, ("401", "check the token")),
        (READER, ("403", "this needs a token with the scope `write`", "the token lacks the permission for this")),
    ],
    ids=["none", "unknown", "read only"],
)
def test_a_push_without_the_right_pauses_whole_and_loses_nothing(
    command: Command,
    home: str,
    service: RunningService,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    said: tuple[str, ...],
) -> None:
    if token is not None:
        monkeypatch.setenv("GEOLOOKUP_TOKEN", token)
    command("push", exits=1)
    for text in said:
        assert text in command.error
    assert "the push is paused, and every edit is kept" in command.error
    assert token is None or token not in command.error
    assert states(home) == [State.QUEUED] * 2
    # The first refusal was the last request: nothing is tried that would fare no better.
    found = [entry for entry in service.server.metrics.exposition().decode().splitlines() if entry]
    posts = [
        float(line.split()[-1]) for line in found if line.startswith("geolookup_requests_total") and "POST" in line
    ]
    assert sum(posts) <= 1
    monkeypatch.setenv("GEOLOOKUP_TOKEN", WRITER)
    command("push")
    assert states(home) == [State.DONE] * 2
    with service.client() as client:
        listed = client.get("/geolocations", headers={"Authorization": f"Bearer {READER}"}).json()
    assert [place["locid"] for place in listed] == [-2, -1]


@pytest.mark.parametrize(("token", "status"), [(None, "401"), (READER, "403")], ids=["none", "read only"])
def test_a_rate_that_may_not_be_written_is_told_so(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, status: str
) -> None:
    if token is not None:
        monkeypatch.setenv("GEOLOOKUP_TOKEN", token)
    plans = tmp_path / "plan.json"
    plans.write_text(json.dumps({"hotelId": "H1", "ratePlanCode": "B", "type": "rate", "name": "n", "currency": "USD"}))
    command("rate", "put", str(plans), exits=1)
    assert status in command.error
    assert "token" in command.error


def test_hotels_and_sync_are_read_with_a_token_and_not_without(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (("hotel", "list", "--city", "Austin"), ("sync",)):
        command(*arguments, exits=1)
        assert "401" in command.error
        assert "check the token" in command.error
    monkeypatch.setenv("GEOLOOKUP_TOKEN", READER)
    command("hotel", "list", "--city", "Austin")


def test_a_token_is_printed_once_and_its_line_is_kept_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    first = run("serve-token", "desk", "--scope", "write", "--file", str(path))
    second = run("serve-token", "eye", "--scope", "read", "--file", str(path))
    assert (first.returncode, first.stderr, second.returncode, second.stderr) == (0, "", 0, "")
    assert path.stat().st_mode & 0o777 == 0o600
    assert first.stdout.strip() not in path.read_text()
    tokens = Tokens.load(path, environ={})
    assert tokens is not None
    for made, name, scope in ((first, "desk", Scope.WRITE), (second, "eye", Scope.READ)):
        found = tokens.find(f"Bearer {made.stdout.strip()}")
        assert found is not None
        assert (found.name, found.scope) == (name, scope)


def test_without_a_file_the_line_goes_to_standard_error() -> None:
    made = run("serve-token", "desk", "--scope", "read")
    tokens = Tokens.load(None, environ={"GEOLOOKUP_SERVE_TOKENS": made.stderr})
    assert tokens is not None
    assert tokens.find(f"Bearer {made.stdout.strip()}") is not None


def test_a_name_that_is_none_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = run("serve-token", "two words", "--scope", "read", "--file", str(path))
    assert (made.returncode, made.stdout) == (2, "")
    assert "two words" in made.stderr
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--host", "0.0.0.0"), 1, r"0\.0\.0\.0.*without tokens.*serve-token"),
        (("--tokens", "none"), 2, "none: the tokens cannot be read: No such file.*: `geolookup serve-token` makes one"),
        (("--trusted-proxy", "nginx"), 2, "trusted proxy 'nginx'"),
        (("--access-log", "none/log"), 2, "none/log: the access log cannot be written"),
        (("--workers", "0"), 2, "--workers"),
        (("--replace",), 2, "--replace needs the files"),
    ],
)
def test_a_service_that_cannot_run_so_says_why_and_does_not_start(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    found = run("serve", "--port", "0", *arguments)
    assert found.returncode == status
    assert re.search(said, found.stderr), found.stderr
    assert "Traceback" not in found.stderr


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[list[str], httpx.Client]]:
    """What the command said until it listened, the address last, and a client of it."""
    service = subprocess.Popen(
        [*forked(), "-m", "geolookup", "serve", "--port", "0", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert service.stderr is not None
    said: list[str] = []
    try:
        while not said or "serving on" not in said[-1]:
            said.append(service.stderr.readline().strip())
            assert said[-1], said
        with httpx.Client(base_url=said[-1].split()[-1], trust_env=False, verify=PLAIN, timeout=30) as client:
            for _ in range(300):
                if client.get("/readyz").status_code == 200:
                    break
                time.sleep(0.05)
            yield said, client
    finally:
        end(service)


def test_an_empty_database_is_called_empty_and_what_is_loaded_or_replaced_is_there(tmp_path: Path) -> None:
    db, first, second = str(tmp_path / "service.db"), tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("startip,endip,country\n10.0.0.0,10.0.0.9,US\n10.1.0.0,10.1.0.9,FR\n")
    second.write_text("startip,endip,country\n10.0.0.0,10.0.0.9,DE\n10.1.0.0,10.1.0.9,FR\n")
    with serving("--db", db) as (said, client):
        assert said[0] == f"geolookup: {EMPTY}"
        assert client.get("/readyz").json() == {"status": "ready", "remark": EMPTY}
        mine = client.post("/geolocations", json=FIELDS).raise_for_status().json()["locid"]
        time.sleep(0.6)  # the health is looked at twice a second
        assert client.get("/readyz").json() == {"status": "ready"}
    with serving("--db", db, "--load", str(first)) as (said, client):
        assert len(said) == 1
        assert client.get("/readyz").json() == {"status": "ready"}
    with serving("--db", db, "--load", str(second), "--replace") as (said, client):
        assert said[0] == "geolookup: replaced: geolocations +1 -1 ~0, blocks +1 -1"
        found = client.get("/geolocations").json()
        assert sorted(place["country"] for place in found if place["locid"] != mine) == ["DE", "FR"]
        assert client.get("/lookup/10.0.0.1").json()["country"] == "DE"


def test_with_tokens_it_listens_beyond_loopback_under_names_that_are_allowed(tmp_path: Path) -> None:
    program = (
        "import httpx, os, signal\n"
        "from geolookup.web.options import Options\n"
        "from geolookup.service.serve import serve\n"
        "import threading\n"
        "def ask(url):\n"
        "    port = url.rpartition(':')[2]\n"
        "    def work():\n"
        "        for host in ('127.0.0.1', 'geo.example', 'evil.example'):\n"
        "            answer = httpx.get(f'http://127.0.0.1:{port}/', headers={'Host': host}, trust_env=False)\n"
        "            print(host, answer.status_code, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    threading.Thread(target=work).start()\n"
        "serve(host='0.0.0.0', port=0, options=Options(allow_hosts=('geo.example',)), on_ready=ask)\n"
    )
    found = subprocess.run(
        [*forked(), "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "GEOLOOKUP_SERVE_TOKENS": line_for("r", Scope.READ, READER)},
    )
    assert found.stdout.splitlines() == ["127.0.0.1 401", "geo.example 401", "evil.example 421"], found.stderr
