"""`geolookup` and `python` as processes of their own that have imported what they need before they begin.

Half of the time of most commands is imports, and a page has dozens of commands. One process imports everything once;
a command is a fork of it that gets its caller's arguments, folder, environment and open files. What starts a
service, or another program than ours, starts as it does for everybody.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

_CLIENT: Final = """\
import json, os, socket, sys
mask = os.umask(0)
os.umask(mask)
asked = {"argv": sys.argv[2:], "cwd": os.getcwd(), "environment": dict(os.environ), "umask": mask}
with socket.socket(socket.AF_UNIX) as to:
    to.connect(sys.argv[1])
    socket.send_fds(to, [b"."], [0, 1, 2])
    to.sendall(json.dumps(asked).encode())
    to.shutdown(socket.SHUT_WR)
    said = to.recv(16)
os._exit(int(said or 70))
"""
#: Packages with everything that commands import when they run.
_ROOMS: Final = (
    "cli", "columns", "exports", "history", "http", "index", "lookup", "sites", "sources", "state", "sync", "upstream",
)  # fmt: skip
#: These go on until they are ended by a signal, which must reach the command itself.
_SERVICES: Final = ("serve", "share", "console")


class QuickCommands:
    """The process that has imported everything, and what asks it: `write` makes the two commands in a folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="geolookup-quick-"))
        self._socket = self._folder / "socket"
        self._client = self._folder / "client.py"
        self._client.write_text(_CLIENT)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.users.quick_commands", str(self._socket)],
            cwd=Path(__file__).parents[3],
            env={**environment, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def write(self, folder: Path) -> None:
        """Make ``geolookup``, ``python`` and ``python3`` in a folder."""
        python = shlex.quote(sys.executable)
        quick = f"exec {python} -I -S {self._client} {self._socket}"
        services = "|".join(_SERVICES)
        ours = f'case "$1" in {services}) exec {python} -m geolookup "$@";; esac\n{quick} -m geolookup "$@"'
        any_other = f'case "$#$1" in 1*.py) {quick} "$@";; esac\nexec {python} "$@"'
        for name, text in (("geolookup", ours), ("python", any_other), ("python3", any_other)):
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def stop(self) -> None:
        """End it; harmless when repeated."""
        self._process.terminate()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "QuickCommands":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _import_everything() -> None:
    for room in _ROOMS:
        package = importlib.import_module(f"geolookup.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of an engine that is not installed
                    importlib.import_module(module.name)


def _serve(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        # Children are never waited for here, and leave nothing: each waits for its command.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Run one command in a process of its own, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    command = os.fork()
    if command == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        _become(asked)
        return
    for file in files:
        os.close(file)
    status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    connection.sendall(str(status if status >= 0 else 128 - status).encode())
    os._exit(0)


def _become(asked: dict[str, Any]) -> None:
    """Be the command: it ends as any other program does."""
    # Those of the process that was forked know where its own files were.
    for name, number, mode, more in (
        ("stdin", 0, "r", {}),
        ("stdout", 1, "w", {}),
        ("stderr", 2, "w", {"buffering": 1, "errors": "backslashreplace"}),
    ):
        stream = open(number, mode, closefd=False, **more)  # type: ignore[call-overload]  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    first, *rest = asked["argv"]
    try:
        if first == "-m":
            sys.path[0] = os.getcwd()
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(first))
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    _end(status)


def _end(status: int) -> NoReturn:
    """End as the interpreter does, but for freeing everything that was imported one by one."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 120
    os._exit(status)


if __name__ == "__main__":
    _import_everything()
    gc.freeze()  # what is there before a fork is not looked through after it: that would copy it all
    _serve(sys.argv[1])
