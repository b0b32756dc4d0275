"""One command of geolookup under strace: in a forked child of this process, so that a run costs no start-up."""

import contextlib
import ctypes
import importlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE_S = 60
_PR_SET_PTRACER = 0x59616D61
_LINE = re.compile(r"(\d+) +(\w+)\((.*)$")
_TEMPORARY = re.compile(r"(\.candidate-|\.tmp-)[\w-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A system call that touched the state: the ``nth`` of its ``name`` in its process, and what it was, in words."""

    name: str
    nth: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of a traced command: its exit status, or minus the signal; None where it hung and had to be ended."""

    code: int | None
    calls: tuple[Call, ...]
    stderr: str


def why_not() -> str | None:
    """Why nothing can be traced here, or None where it can."""
    if shutil.which("strace") is None:
        return "there is no strace here (Debian: apt-get install strace)"
    tried = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"strace may not trace here: {tried.stderr.strip()}"
    return None


def traced(
    arguments: Sequence[str],
    *,
    home: str,
    work: str,
    trace: str = "%file,%desc",
    inject: str | None = None,
    options: Sequence[str] = ("-y",),
) -> Run:
    """Run ``geolookup`` with the arguments on the state ``home``; strace's log is in the file ``trace`` of ``work``.

    ``trace`` and ``inject`` are as strace takes them after ``-e``.
    """
    log = os.path.join(work, "trace")
    child = _waiting_child(arguments, home, work, note_modules=inject is None)
    command = ["strace", "-f", "-q", *options, "-o", log, "-e", f"trace={trace}", "-p", str(child)]
    if inject is not None:
        command += ["-e", f"inject={inject}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
        ended = os.pidfd_open(tracer.pid)
        try:
            _await_tracer(child, tracer)
            os.kill(child, signal.SIGUSR1)
            code = None
            # It ends with what it traces. `Popen.wait` would look for that only every now and then.
            if select.select([ended], [], [], PATIENCE_S)[0]:
                tracer.wait()
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                child = 0
        finally:
            os.close(ended)
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            tracer.kill()
    with open(os.path.join(work, "stderr"), encoding="utf-8", errors="replace") as file:
        return Run(code=code, calls=tuple(calls_in(log, home)), stderr=file.read())


def untraced(arguments: Sequence[str], *, home: str, work: str) -> Run:
    """The same without strace, and so without any calls."""
    child = _waiting_child(arguments, home, work)
    os.kill(child, signal.SIGUSR1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(os.path.join(work, "stderr"), encoding="utf-8", errors="replace") as file:
        return Run(code=code, calls=(), stderr=file.read())


def import_what_was_imported(work: str) -> None:
    """Import here what the last recorded run did, so that no later one does: their calls are the same each time."""
    with open(os.path.join(work, "modules"), encoding="utf-8") as file:
        for name in file.read().split("\n"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _waiting_child(arguments: Sequence[str], home: str, work: str, *, note_modules: bool = False) -> int:
    """A forked child that waits for SIGUSR1, and then is the command."""
    from geolookup.cli.app import run

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        # Any process may trace this one: where only ancestors may by default, strace is none.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(work, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
        os.environ["GEOLOOKUP_HOME"] = home
        signal.sigwait([signal.SIGUSR1])  # not a call that is counted
        code = run(list(arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if note_modules:
            with open(os.path.join(work, "modules"), "w", encoding="utf-8") as file:
                file.write("\n".join(sys.modules))
        os._exit(code)


def _await_tracer(child: int, tracer: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with open(f"/proc/{child}/status", encoding="ascii") as file:
            if "TracerPid:\t0\n" not in file.read():
                return
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            raise RuntimeError(f"strace: {tracer.stderr.read()}")
        time.sleep(0.001)
    raise RuntimeError("strace does not begin")


def calls_in(log: str, home: str) -> list[Call]:
    """The calls of a log that touch the state, in order."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    paths = re.compile(rf'["<]{re.escape(home)}(/[^">]*)?[">]')
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = _LINE.match(line)
            if match is None:
                continue
            process, name, rest = match.groups()
            counts[process, name] += 1
            touched = [_TEMPORARY.sub(r"\1*", path.strip("/")) or "." for path in paths.findall(rest)]
            if touched:
                # The result of an open is a path as well: it is the same one.
                label = " ".join([name, *dict.fromkeys(touched), *(["O_CREAT"] if "O_CREAT" in rest else [])])
                found.append(Call(name=name, nth=counts[process, name], label=label))
    return found
