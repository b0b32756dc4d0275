"""Secrets after a run of everything, every failure included: nowhere but in the requests that they are for."""

import base64
import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from geolookup.cli.app import run as run_command
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from tests.cli.edits.test_custom import CREATE
from tests.faults.fault_proxy import FaultProxy, after, instead
from tests.faults.raw_server import RawServer, Request, Script, answer
from tests.support.data.lists import listed, many
from tests.support.services.running_service import RunningService

ROOT = Path(__file__).parents[2]
TOKEN = "canary-9c41-token"
PING = "canary-9c41-ping-address"
USER = f"somebody:{TOKEN}"
ENCODED = base64.b64encode(USER.encode()).decode()
#: A service that repeats the request in its answer, as some do.
ECHO = f"{TOKEN} {USER} {ENCODED}"
PROBLEM = json.dumps(
    {"type": f"x/{ECHO}", "title": ECHO, "detail": ECHO, "errors": [{"pointer": ECHO, "detail": ECHO}]}
)

AUTHS = {
    "bearer": ({}, TOKEN, ("authorization", f"Bearer {TOKEN}")),
    "basic": ({"GEOLOOKUP_AUTH": "basic"}, USER, ("authorization", f"Basic {ENCODED}")),
    "header": ({"GEOLOOKUP_AUTH": "header", "GEOLOOKUP_AUTH_HEADER": "X-Key"}, TOKEN, ("x-key", TOKEN)),
}

#: What the service answers, and the least that a run must then say.
FAILURES: dict[str, bytes | Script] = {
    "refused": answer(PROBLEM.encode(), status="422 X"),
    "unauthorized": answer(PROBLEM.encode(), status="401 X"),
    "forbidden": answer(PROBLEM.encode(), status="403 X"),
    "overloaded": answer(PROBLEM.encode(), status="503 X", headers=["Retry-After: 9999"]),
    "redirect": answer(b"", status="302 X", headers=[f"Location: https://elsewhere.example/{ECHO}"]),
    "HTML": answer(f"<html>{ECHO}".encode()),
    "another list": answer(json.dumps({ECHO: ["x"], "b": [ECHO]}).encode()),
    "a bad row": listed([*many(40), {"locid": ECHO}, {"locid": 99, "ipblocks": [{"startip": ECHO}]}]),
    "no HTTP": f"{ECHO}\r\n\r\n".encode(),
    "a bad header": f"HTTP/1.1 200 OK\r\n{ECHO}\r\n\r\n".encode(),
    "a bad length": f"HTTP/1.1 200 OK\r\nContent-Length: {ECHO}\r\n\r\n".encode(),
    "a bad status": f"HTTP/1.1 2xx {ECHO}\r\n\r\n".encode(),
    "a reset": Script([], reset=True),
}  # fmt: skip

FEW = ("refused", "redirect", "a bad header")


class _Heard(logging.Handler):
    """Keeps every record of every logger, with its traceback."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(level=1)
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.append(self.format(record))


@dataclass
class Everything:
    """Runs commands, in this process or in one of their own, and keeps all that they print and log."""

    work: Path
    environment: dict[str, str]
    printed: list[str] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    def __call__(self, *arguments: str, **changes: str) -> int:
        """Run a command in this process, with the loggers of all libraries at their most talkative."""
        out = io.StringIO()
        heard = _Heard(self.printed)
        loggers = [logging.getLogger(name) for name in ("", "geolookup")]
        with pytest.MonkeyPatch.context() as patch:
            for name, text in {**self.environment, **changes}.items():
                patch.setenv(name, text)
            before = [(logger.level, logger.handlers[:]) for logger in loggers]
            # What an earlier test of this process had written to a stream that is closed by now would only fail.
            loggers[0].handlers[:] = []
            for logger in loggers:
                logger.addHandler(heard)
                logger.setLevel(1)
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                    code = run_command(list(arguments))
            finally:
                for logger, (level, _) in zip(loggers, before, strict=True):
                    logger.removeHandler(heard)
                    logger.setLevel(level)
                loggers[0].handlers[:] = before[0][1]
        self.printed.append(out.getvalue())
        self.codes.append(code)
        return code

    def apart(self, *arguments: str) -> int:
        """Run a command as people do, and look at it as everybody on the machine can."""
        process = subprocess.Popen(
            [sys.executable, "-m", "geolookup", *arguments],
            cwd=ROOT, env={**os.environ, **self.environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process.pid, over))
        watcher.start()
        try:
            self.printed.append(process.communicate(timeout=120)[0])
        finally:
            over.set()
            watcher.join(10)
            process.kill()
        return process.returncode

    def _watch(self, pid: int, over: threading.Event) -> None:
        """What everybody on the machine can see of a process and of those that it starts."""
        while True:
            for entry in [str(pid), *_children(pid)]:
                try:
                    self.command_lines.append(Path("/proc", entry, "cmdline").read_text(errors="replace"))
                except OSError:
                    continue
            if over.wait(0.05):
                return

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Everything in the state directory and beside it that the commands wrote."""
        for path in self.work.rglob("*"):
            if path.is_file() and path.name not in ("token", "ping", "service.db", "service.db-wal"):
                yield str(path), path.read_bytes()


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def _secret_file(path: Path, text: str) -> str:
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("auth", AUTHS)
def test_no_secret_is_anywhere_after_a_run_of_everything(tmp_path: Path, auth: str) -> None:
    settings, secret, (header, value) = AUTHS[auth]
    csv = tmp_path / "defaults.csv"
    rows = [f"{number},DE,,,,,,,,10.{number}.0.0,10.{number}.255.255" for number in range(1, 60)]
    csv.write_text(
        "\n".join(["locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip", *rows, ""])
    )
    with (
        RunningService(tmp_path / "service.db", load=[csv]) as service,
        FaultProxy(service.url) as proxy,
        RawServer(answer(b"OK")) as monitor,
    ):
        home = tmp_path / "state"
        run = Everything(
            tmp_path,
            {
                "GEOLOOKUP_HOME": str(home),
                "GEOLOOKUP_URL": proxy.url,
                "GEOLOOKUP_TOKEN_FILE": _secret_file(tmp_path / "token", secret),
                "GEOLOOKUP_PING_URL_FILE": _secret_file(tmp_path / "ping", f"{monitor.url}/{PING}"),
                "GEOLOOKUP_TEXTFILE": str(tmp_path / "geolookup.prom"),
                "GEOLOOKUP_ATTEMPTS": "1",
                "GEOLOOKUP_SETTLE_S": "0",
                "GEOLOOKUP_TOTAL_TIMEOUT_S": "20",
                **settings,
            },
        )
        _go_well(run, proxy, service)
        # Each way to fail once; what differs between the kinds of authentication shows in a few.
        _go_badly(run, proxy, home, FAILURES if auth == "bearer" else FEW)
        requests, pings = proxy.requests, monitor.requests
    assert all(request.headers.get(header) == value for request in requests), "it reached those that it is for"
    assert {request.target.split("/")[1] for request in pings} == {PING}
    assert not [request for request in pings if value in request.headers.values()]
    assert {0, 1, 2, 3} <= set(run.codes)
    assert any("[secret]" in text for text in run.printed), "somebody tried to show it"
    assert any("refresh" in line for line in run.command_lines)
    # Another kind of authentication knows nothing of the encoded form, which only the echoing service made.
    _look_for(run, pings, (TOKEN, PING, *((ENCODED,) if auth == "basic" else ())))


def _go_well(run: Everything, proxy: FaultProxy, service: RunningService) -> None:
    """Each command once, and each kind of answer to a write."""
    assert run.apart("refresh", "--json") == 0
    run(*CREATE)
    assert run("custom", "add-block", "--", "-1000000000000001", "203.0.113.0/24") == 0
    assert run("push", "--dry-run", "--json") == 0
    assert run("push", "--plan-out", str(run.work / "plan.json")) == 0
    assert run("push", "--json") == 0
    assert run("sync", "--json") == 0
    run(*CREATE)
    proxy.faults = [after(b"")]
    assert run("push") == 1
    assert run("refresh", "--log-format", "json") == 0
    for command in (
        ("203.0.113.7",), ("explain", "203.0.113.7"), ("status", "--json"), ("verify",), ("history", "--json"),
        ("outbox", "list", "--all", "--json"), ("custom", "list"), ("list", "--top", "3"), ("custom", "check"),
        ("custom", "export", str(run.work / "sites.toml")), ("refresh", "--print-systemd"), ("refresh", "--print-cron"),
    ):  # fmt: skip
        assert run(*command) == 0, command
    # A secret that came from the environment is none of the printed ones either.
    environment = {"GEOLOOKUP_TOKEN": USER, "GEOLOOKUP_TOKEN_FILE": "", "GEOLOOKUP_PING_URL_FILE": ""}
    assert run("refresh", "--print-systemd", **environment, GEOLOOKUP_PING_URL=f"https://x.example/{PING}") == 0
    assert run("refresh", "--print-cron", **environment, GEOLOOKUP_PING_URL=f"https://x.example/{PING}") == 0


def _go_badly(run: Everything, proxy: FaultProxy, home: Path, failures: Iterable[str]) -> None:
    """Each way in which a service can fail, to a list and to a write; then wrong settings."""
    run(*CREATE)
    pending = [row.id for row in Editor(str(home)).pending()]
    for name in failures:
        proxy.read_fault, proxy.faults = instead(FAILURES[name]), []
        assert run("sync", "--json") == (3 if name == "a bad row" else 1), name
        if name not in FEW:
            continue
        proxy.read_fault, proxy.faults = None, [instead(FAILURES[name])]
        assert run("refresh", "--json", "--log-format", "json") in (1, 3), name
        with StateDirectory(str(home)).edits.transaction() as database:
            for number in pending:
                Outbox(database).change(number, state=State.QUEUED)
    proxy.read_fault, proxy.faults = instead(listed(many(3))), []
    assert run("sync", "--json") == 3
    proxy.read_fault = instead(FAILURES["unauthorized"])
    assert run.apart("refresh", "--json") == 1
    proxy.read_fault = None
    assert run("refresh", GEOLOOKUP_URL=proxy.url.replace("http:", "https:")) == 2, "its edits belong to another"
    for url in (proxy.url.replace("http:", "https:"), "http://127.0.0.1:9"):
        assert run("refresh", "--json", "--url-moved", "--url", url) == 1
    assert run("refresh", GEOLOOKUP_URL="http://10.0.0.1:9", GEOLOOKUP_HOME=str(run.work / "other")) == 2
    assert run("refresh", GEOLOOKUP_PING_URL_FILE="", GEOLOOKUP_PING_URL=f"no-address/{PING}") == 2
    os.chmod(run.work / "token", 0o644)
    assert run("refresh", "--json") == 2


def _look_for(run: Everything, pings: list[Request], secrets: tuple[str, ...]) -> None:
    found = []
    for secret in secrets:
        found += [f"printed: {text[:2000]}" for text in run.printed if secret in text]
        found += [f"command line: {text}" for text in run.command_lines if secret in text]
        found += [f"file: {name}" for name, data in run.files() if secret.encode() in data]
        found += [f"ping: {ping.body!r}" for ping in pings if secret.encode() in ping.body]
    assert found == []
