"""The log of a process cannot steer a terminal, and what a client sent cannot pass for a line of it."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from geolookup.web.logs import LineFormatter

EVIL = "\x1b[2Jred\x07\u202egeolookup\nall is well\rgeolookup: \x9b31m"


def formatted(message: str, error: BaseException | None = None) -> str:
    info = None if error is None else (type(error), error, error.__traceback__)
    return LineFormatter().format(logging.LogRecord("geolookup", logging.ERROR, "", 0, "%s", (message,), info))


def test_a_message_is_one_printable_line() -> None:
    line = formatted(EVIL)
    assert line.isprintable()
    assert line.startswith("geolookup: \\x1b[2Jred")


def test_a_traceback_is_indented_and_printable() -> None:
    try:
        raise ValueError(f"{EVIL}\ngeolookup: forged")
    except ValueError as error:
        first, *rest = formatted("it failed", error).split("\n")
    assert first == "geolookup: it failed"
    assert any("test_log.py" in line for line in rest)
    assert any("geolookup: forged" in line for line in rest)
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


PROGRAM = """
import contextlib, json, sys
from litestar import get
from geolookup.web.routing import routed
from geolookup.web.application import Application
from geolookup.web.launch import launch
from geolookup.web.options import Options

@get("/fail", sync_to_thread=False)
def fail() -> str:
    raise RuntimeError("\\x1b[2J\\nforged: line")

@contextlib.contextmanager
def opened(folder):
    yield Application(asgi=routed([fail], {}, title="failing"))

if __name__ == "__main__":
    launch(
        contextlib.nullcontext(opened), host="127.0.0.1", port=0, options=Options(workers=2),
        on_ready=lambda url: print(url, flush=True),
    )
"""


def test_a_worker_writes_a_traceback_that_cannot_steer_the_terminal(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        answer = httpx.get(f"{process.stdout.readline().strip()}/fail", trust_env=False, timeout=60)
        process.send_signal(signal.SIGTERM)
        _, written = process.communicate(timeout=60)
    assert (answer.status_code, answer.json()["title"]) == (500, "The service failed")
    lines = written.splitlines()
    assert lines[0] == "geolookup: GET /fail failed"
    assert any("\\x1b[2J" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert all(line.startswith("  ") for line in lines[1:]), written
