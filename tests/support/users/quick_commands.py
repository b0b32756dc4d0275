"""`geolookup` and `python` as processes of their own that have imported what they need before they begin.

Half of the time of most commands is imports, and a page has dozens of commands. One process imports everything once;
a command is a fork of it that gets its caller's arguments, folder, environment and open files, is sent the signals of
who wants to end it, and ends as its caller sees it end. A test whose subject is the start itself (what is imported, how
much memory is taken) starts a process as everybody does, with ``sys.executable``.
"""

import atexit
import contextlib
import gc
import importlib
import logging
import marshal
import multiprocessing.util
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
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from hypothesis import settings

from tests.support.examples import WHOLE

#: It imports what is built into Python alone: the rest would take twice as long as the whole of it does.
_CLIENT: Final = """\
import _signal, _socket, marshal, posix, select, sys
streams = []
for number in 0, 1, 2:
    try:
        posix.fstat(number)
        streams.append(number)
    except OSError:
        pass
while (number := posix.dup(streams[0])) < 3:
    pass  # what follows must not take the number of a closed one
signals, wakes = posix.pipe()
posix.set_blocking(wakes, False)
_signal.set_wakeup_fd(wakes)
for number in _signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM:
    if _signal.getsignal(number) != _signal.SIG_IGN:
        _signal.signal(number, lambda number, frame: None)
mask = posix.umask(0)
posix.umask(mask)
asked = {"argv": sys.argv[2:], "cwd": posix.getcwdb(), "environment": posix.environ, "umask": mask,
         "streams": streams}
to = _socket.socket(_socket.AF_UNIX)
to.connect(sys.argv[1])
sent = b"".join(stream.to_bytes(4, sys.byteorder) for stream in streams)
to.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
to.sendall(marshal.dumps(asked))
to.shutdown(_socket.SHUT_WR)
command = int(to.recv(16))
while to.fileno() not in select.select([to.fileno(), signals], [], [])[0]:
    try:
        posix.kill(command, ord(posix.read(signals, 1)))
    except ProcessLookupError:
        pass
status = int(to.recv(16) or 70)
if status < 0:
    if status != -_signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""
#: Half of what a fork costs is its table of pages, so they had better be few.
_HUGE_PAGES: Final = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
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
            env={**environment, **_HUGE_PAGES, "PYTHONWARNINGS": "ignore"},
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


def shared() -> QuickCommands:
    """One process of imports for all tests of this process."""
    if not _shared:
        _shared.append(QuickCommands({k: v for k, v in os.environ.items() if not k.startswith("GEOLOOKUP_")}))
    return _shared[0]


def forked() -> list[str]:
    """What a test begins its commands with instead of ``sys.executable``.

    With ``--full-sweep`` it is ``sys.executable``: each command begins from nothing.
    """
    return [sys.executable] if settings.get_current_profile_name() == WHOLE else shared().python


def end_shared() -> None:
    """End what `shared` began."""
    while _shared:
        _shared.pop().stop()


def _import_everything() -> None:
    for room in _ROOMS:
        package = importlib.import_module(f"geolookup.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of an engine that is not installed
                    importlib.import_module(module.name)
    # Engines clean up what nobody uses, which takes longer than most commands.
    atexit._clear()
    for end in (multiprocessing.util._exit_function, weakref.finalize._exitfunc, logging.shutdown):  # type: ignore[attr-defined]
        atexit.register(end)


@dataclass(frozen=True, slots=True)
class _Running:
    """A command: its process, what tells of its end, and who asked for it."""

    process: int
    end: int
    caller: socket.socket


def _serve(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        ready = select.poll()
        ready.register(sys.stdin)
        ready.register(listening, select.POLLIN)
        running: dict[int, _Running] = {}  # by both descriptors that tell of it
        while True:
            descriptor, _ = ready.poll()[0]  # one at a time: what another tells of may be gone after it
            if descriptor == sys.stdin.fileno():
                return
            if descriptor == listening.fileno():
                connection, _ = listening.accept()
                if (command := _begun(connection, listening, running)) is not None:
                    running.update({command.end: command, connection.fileno(): command})
                    ready.register(command.end, select.POLLIN)
                    ready.register(connection, 0)  # said to have hung up once its caller is gone
                continue
            command = running[descriptor]
            if descriptor != command.end:
                os.kill(command.process, signal.SIGKILL)  # what kills the caller is meant for it
            _, status = os.waitpid(command.process, 0)
            for each in (command.end, command.caller.fileno()):
                ready.unregister(each)
                del running[each]
            os.close(command.end)
            with command.caller, contextlib.suppress(OSError):
                command.caller.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _begun(caller: socket.socket, listening: socket.socket, others: Mapping[int, _Running]) -> _Running | None:
    """Begin what a caller asks for, in a process that has nothing of the others; None if the caller is gone."""
    _, files, _, _ = socket.recv_fds(caller, 1, 3)
    asked = b"".join(iter(lambda: caller.recv(65536), b""))
    process = os.fork() if files and asked else None
    if process == 0:
        for each in (caller, listening):
            each.close()
        for descriptor in others:
            os.close(descriptor)
        _become(marshal.loads(asked), files)
    for file in files:
        os.close(file)
    if process is None:
        caller.close()
        return None
    with contextlib.suppress(OSError):  # of a caller that is gone
        caller.sendall(f"{process:16}".encode())
    return _Running(process, os.pidfd_open(process), caller)


def _become(asked: dict[str, Any], files: list[int]) -> NoReturn:
    """Be the command, whose streams are these files: it ends as any other program does."""
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    os.environ.clear()
    os.environb.update(asked["environment"])
    encoding = os.environ.get("PYTHONIOENCODING") or None
    given = dict(zip(asked["streams"], files, strict=True))
    # Those of the process that was forked know where its own files were.
    for number, name, mode, more in (
        (0, "stdin", "r", {}),
        (1, "stdout", "w", {}),
        (2, "stderr", "w", {"buffering": 1, "errors": "backslashreplace"}),
    ):
        stream = None
        os.close(number)
        if number in given:
            os.dup2(given[number], number)
            os.close(given[number])
            stream = open(number, mode, closefd=False, encoding=encoding, **more)  # type: ignore[call-overload]  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
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
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        status = status or 120
    os._exit(status)


if __name__ == "__main__":
    _import_everything()
    gc.freeze()  # what is there before a fork is not looked through after it: that would copy it all
    _serve(sys.argv[1])
