"""`geolookup` and `python` as processes of their own that have imported what they need before they begin.

Half of the time of most commands is imports, and a page has dozens of commands. One process imports everything once;
a command is a fork of it that gets its caller's arguments, folder, environment and open files, is sent the signals of
who wants to end it, and ends as its caller sees it end. A test whose subject is the start itself (what is imported,
streams that are closed, how much memory is taken) starts a process as everybody does, with ``sys.executable``.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from hypothesis import settings

from tests.support.examples import WHOLE

_CLIENT: Final = """\
import json, os, select, signal, socket, sys
signals, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)
for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, frame: None)
mask = os.umask(0)
os.umask(mask)
asked = {"argv": sys.argv[2:], "cwd": os.getcwd(), "environment": dict(os.environ), "umask": mask}
with socket.socket(socket.AF_UNIX) as to:
    to.connect(sys.argv[1])
    socket.send_fds(to, [b"."], [0, 1, 2])
    to.sendall(json.dumps(asked).encode())
    to.shutdown(socket.SHUT_WR)
    command = int(to.recv(16))
    while to not in select.select([to, signals], [], [])[0]:
        try:
            os.kill(command, ord(os.read(signals, 1)))
        except ProcessLookupError:
            pass
    status = int(to.recv(16) or 70)
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
#: Packages with everything that commands import when they run.
_ROOMS: Final = (
    "cli", "columns", "exports", "history", "http", "index", "lookup", "service", "sites", "sources", "state", "sync",
    "upstream",
)  # fmt: skip


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
            stdin=subprocess.PIPE,  # whose end is the end of who began it, however that came
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    @property
    def python(self) -> list[str]:
        """What a caller begins with instead of ``sys.executable``: ``-m``, ``-c`` or a file of Python follows."""
        return [sys.executable, "-I", "-S", str(self._client), str(self._socket)]

    def write(self, folder: Path) -> None:
        """Make ``geolookup``, ``python`` and ``python3`` in a folder."""
        python = shlex.quote(sys.executable)
        quick = f"exec {shlex.join(self.python)}"
        ours = f'{quick} -m geolookup "$@"'
        any_other = f'case "$#$1" in 1*.py) {quick} "$@";; esac\nexec {python} "$@"'
        for name, text in (("geolookup", ours), ("python", any_other), ("python3", any_other)):
            path = folder / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def stop(self) -> None:
        """End it; harmless when repeated."""
        self._process.terminate()
        self._process.wait(30)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "QuickCommands":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


_shared: list[QuickCommands] = []


def forked() -> list[str]:
    """What a test begins its commands with instead of ``sys.executable``: one process of imports does for all tests.

    With ``--full-sweep`` it is ``sys.executable``: each command begins from nothing.
    """
    if settings.get_current_profile_name() == WHOLE:
        return [sys.executable]
    if not _shared:
        _shared.append(QuickCommands({k: v for k, v in os.environ.items() if not k.startswith("GEOLOOKUP_")}))
    return _shared[0].python


def end_shared() -> None:
    """End what `forked` began."""
    while _shared:
        _shared.pop().stop()


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
        while True:
            if sys.stdin in select.select([listening, sys.stdin], [], [])[0]:
                return
            with contextlib.suppress(ChildProcessError):  # there are none yet, or no more
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # each waited for its command
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Run one command in a process of its own, and say how it ended."""
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
    with contextlib.suppress(OSError):  # of a caller that is gone
        connection.sendall(f"{command:16}".encode())
    ends = select.poll()
    ends.register(os.pidfd_open(command), select.POLLIN)
    ends.register(connection, 0)  # said to have hung up once its caller is gone
    if connection.fileno() in dict(ends.poll()):
        os.kill(command, signal.SIGKILL)  # what kills the caller is meant for it
    status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(str(status).encode())
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
        elif first == "-c":
            sys.path[0] = ""
            sys.argv = ["-c", *rest[1:]]
            main = types.ModuleType("__main__")
            sys.modules["__main__"] = main
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
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
