"""What it takes to run a page of the documentation as its reader does: block by block, in one folder and one state."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.users.quick_commands import QuickCommands

ROOT = Path(__file__).parents[3]
PATIENCE_S = 120

#: Languages whose blocks are run; `text` too, if it shows a session.
SHELL, PYTHON, SESSION = "sh", "python", "console"
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Above a block, as a paragraph of its own: why no test runs it.
_NOT_RUN = re.compile(r"\*Not run by a test(?: of this page| as it stands here)?: (.+?)\*\n\n\Z", re.DOTALL)
#: A file that the page has its reader write: its name is the first line, as a comment.
_NAMED = re.compile(r"\A(?:#|//|<!--) ([\w./-]+\.(?:py|toml|csv|ndjson|ini|conf|yml))(?: -->)?\n")
#: A command that goes on until it is ended.
_SERVER = re.compile(
    r"^(?:geolookup (?:serve|share)(?: |$)|uvicorn |gunicorn |celery .*worker|python3 -m http\.server )"
)
_SAYS_READY = re.compile(r"serving on|sharing on|Serving HTTP on|running on|Listening at|\[queues\]")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. ``not_run`` is the page's own word on why no test runs it, or None."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page.name}, line {self.line}"

    @property
    def runs(self) -> bool:
        """Whether it holds commands or a program, and not a file or something to look at."""
        return self.language in (SHELL, PYTHON, SESSION) or self.is_session

    @property
    def is_session(self) -> bool:
        """Whether it shows commands with what they answer."""
        return self.language == SESSION or (self.language == "text" and self.text.startswith("$ "))

    @property
    def file_name(self) -> str | None:
        """The name of the file that it is, if it says one."""
        found = _NAMED.match(self.text)
        return None if found is None else found[1]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        mark = _NOT_RUN.search(text, 0, fence.start())
        reason = None if mark is None else " ".join(mark[1].split())
        found.append(Block(page, text.count("\n", 0, fence.start()) + 1, fence[1], fence[2], reason))
    return found


def session(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a session, and what stands below it."""
    command, answer = "", ""
    for line in text.splitlines(keepends=True):
        if command.endswith("\\\n") or (command and not answer and line.startswith("> ")):
            command += line.removeprefix("> ")
        elif line.startswith("$ "):
            if command:
                yield command, answer
            command, answer = line[2:], ""
        else:
            answer += line
    if command:
        yield command, answer


def is_like(shown: str, said: str) -> bool:
    """Whether the page shows what was said: `…` stands for anything, on a line of its own for any lines.

    A comment behind what is shown is the page's own. A page may show tabs as blanks.
    """
    pattern = ""
    for line in shown.splitlines():
        line = re.sub(r"\s{2,}# .*", "", line).rstrip()
        if line == "…":
            pattern += r"(?:.*\n)*?"
        else:
            words = [r".*".join(map(re.escape, word.split("…"))) for word in line.split()]
            pattern += r"[ \t]*" + r"[ \t]+".join(words) + r"[ \t]*\n"
    return re.fullmatch(pattern, said if said.endswith("\n") or not said else f"{said}\n") is not None


class PageShell:
    """A reader's shell: what a block leaves behind (files, variables, folder, a running service), the next one has.

    ``folder`` is where it begins, empty but for what a test puts there. A service runs until the next one begins, or
    until the page ends; it gets a free port in the place of each that the page names in ``ports``. ``state`` is where
    geolookup's state is, once there is one. With ``quick``, commands begin with their imports done.
    """

    def __init__(
        self, folder: Path, *, environment: Mapping[str, str] | None = None, quick: QuickCommands | None = None
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._kept = folder.parent / f"{folder.name}.kept"
        self._kept.mkdir()
        commands = self._kept / "bin"
        commands.mkdir()
        self.ports = {port: _free_port() for port in (8000, 8080)}
        self._write(commands / "geolookup", 'exec {python} -m geolookup "$@"')
        for name in ("gunicorn", "uvicorn", "celery", "sqlite-utils", "datasette"):
            self._write(commands / name, f'exec {{python}} -m {name.replace("-", "_")} "$@"')
        for name in ("python", "python3"):
            self._write(commands / name, 'exec {python} "$@"')
        if quick is not None:
            quick.write(commands)
        home = self._kept / "home"
        home.mkdir()
        self.state = str(home / ".local" / "share" / "geolookup")
        private = ("GEOLOOKUP_", "XDG_", "PYTHON", "VIRTUAL_ENV")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        self.environment |= {
            "HOME": str(home),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",
            "COLUMNS": "120",
            **(environment or {}),
        }
        self._variables = self._kept / "variables"
        self._services: dict[int, subprocess.Popen[str]] = {}

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text.format(python=shlex.quote(sys.executable))}\n")
        path.chmod(0o755)

    def __enter__(self) -> "PageShell":
        return self

    def __exit__(self, *_: object) -> None:
        for service in list(self._services.values()):
            self._end(service)

    def run(self, block: Block) -> None:
        """Do what the block says, as it stands there.

        :raises AssertionError: if a command fails, or answers otherwise than the page shows
        """
        if (name := block.file_name) is not None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._moved(block.text), encoding="utf-8")
        elif block.is_session:
            for command, shown in session(block.text):
                said = self.answer(command, f"{block}: {command.strip()}")
                assert not shown or is_like(self._moved(shown), said), f"{block}: {command}it said:\n{said}"
        elif block.language == SHELL:
            for part in _parts(block.text):
                self.answer(part, str(block))
        elif block.language == PYTHON:
            program = self._kept / "block.py"
            program.write_text(self._moved(block.text), encoding="utf-8")
            self.answer(f"python {shlex.quote(str(program))}\n", str(block))

    def answer(self, script: str, where: str) -> str:
        """What a part of a shell's script writes to a terminal."""
        if _SERVER.match(script):
            return self._serve(script, where)
        script = self._moved(script)
        whole = (
            f"{{ [ ! -e {self._variables} ] || . {self._variables}; }} 2>/dev/null\n"
            f'trap \'(export -p; echo "cd \\"$PWD\\"; umask $(umask)") > {self._variables}\' EXIT\n'
            f"set -euo pipefail\n{script}"
        )
        done = subprocess.run(
            ["bash", "-c", whole],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        expected = {int(number) for number in re.findall(r"# exits with (\d+)", script)} or {0}
        assert done.returncode in expected, f"{where}: exit status {done.returncode}\n{script}\n{done.stdout}"
        return done.stdout

    def _moved(self, text: str) -> str:
        """The text with free ports in place of those that it names."""
        for port, free in self.ports.items():
            text = re.sub(rf"(?<=[\w\]]:){port}\b", str(free), text)
        return text

    def _serve(self, script: str, where: str) -> str:
        port = 8080 if script.startswith("geolookup") or "geolookup s" in script else 8000
        if port in self._services:
            self._end(self._services.pop(port))
        command = re.sub(r"\s+# .*", "", self._moved(script)).strip()
        if "http.server" in command:
            command = command.replace("python3", "python3 -u").replace(str(port), str(self.ports[port]))
        elif "celery" not in command:
            has_address = "--bind" in command
            command += f" --bind 127.0.0.1:{self.ports[port]}" if "gunicorn" in command and not has_address else ""
            command += f" --port {self.ports[port]}" if "gunicorn" not in command and "--port" not in command else ""
        kept = f"[ ! -e {self._variables} ] || . {self._variables} 2>/dev/null; "
        service = subprocess.Popen(
            ["bash", "-c", f"{kept}exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._services[port] = service
        assert service.stdout is not None
        said = ""
        os.set_blocking(service.stdout.fileno(), True)
        for line in service.stdout:
            said += line
            if _SAYS_READY.search(line.rstrip()):
                if "celery" not in command:
                    _wait_for(self.ports[port])
                return said
        raise AssertionError(f"{where}: it ended\n{command}\n{said}")

    @staticmethod
    def _end(service: "subprocess.Popen[str]") -> None:
        end(service)


def _parts(script: str) -> Iterator[str]:
    """A script, cut before and after each line that starts a service."""
    part = ""
    lines = re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", script)
    for line in lines:
        if _SERVER.match(line):
            if part.strip():
                yield part
            yield line
            part = ""
        else:
            part += line
    if part.strip():
        yield part


def _wait_for(port: int) -> None:
    """Wait until somebody listens: some servers say that they do before they do."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def end(service: "subprocess.Popen[str]") -> None:
    """Have a service end in order, within half a minute."""
    service.terminate()
    deadline = time.monotonic() + 30
    while service.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert service.wait(1) in (0, -signal.SIGTERM if "http.server" in str(service.args) else 0)
    for stream in (service.stdout, service.stderr):
        if stream is not None:
            stream.close()
