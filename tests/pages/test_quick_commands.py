"""A command whose imports are done does what it does from nothing: its streams, its folder, its end."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.users.quick_commands import QuickCommands

PROGRAMS = {
    "all that a caller gives": """
        import os, sys
        print(sys.argv[1:], os.getcwd(), os.environ["OWN"], os.umask(0), sys.stdin.read(), __name__)
        print("é", file=sys.stderr)
    """,
    "a status": "raise SystemExit(3)",
    "a text": "raise SystemExit('why')",
    "nothing": "import sys; sys.exit()",
    "an error": "1 / 0",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "a thread and a last word": """
        import atexit, threading, time
        atexit.register(print, "last")
        threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
    """,
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_does_the_same(quick: QuickCommands, tmp_path: Path, text: str) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    quick.write(commands)
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    (folder / "program.py").write_text("\n".join(line[indent:] for line in lines))

    def ended(python: str) -> tuple[str, str]:
        done = subprocess.run(
            ["bash", "-c", f"umask 027; echo in | {python} program.py; echo ${{PIPESTATUS[1]}}"],
            cwd=folder,
            env={**os.environ, "OWN": "own"},
            capture_output=True,
            text=True,
            check=True,
        )
        # The lines of a traceback between the first and the last name the file that runs the program.
        return done.stdout, (done.stderr.splitlines() or [""])[-1].replace("bash: line 1: ", "")

    begun, usual = ended(shlex.quote(str(commands / "python"))), ended(shlex.quote(sys.executable))
    if text == PROGRAMS["a signal"]:  # which the shell tells with the path of what it started
        assert begun[0] == usual[0] == "137\n"
    else:
        assert begun == usual


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- 2>&-"])
def test_closed_streams_and_their_encoding_are_those_of_the_caller(
    quick: QuickCommands, tmp_path: Path, redirection: str
) -> None:
    told = tmp_path / "told"
    text = f"""
import os, sys
streams = [getattr(each, "encoding", None) for each in (sys.stdin, sys.stdout, sys.stderr)]
print("é" if sys.stdin is None else "e")
first = os.open({str(told)!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(first, repr((streams, first if first < 3 else None)).encode())
"""
    ended = []
    for python in (quick.python, [sys.executable]):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *python, "-c", text],
            env={**os.environ, "PYTHONIOENCODING": "iso8859-1"},
            capture_output=True,
            check=False,
        )
        ended.append((done.returncode, done.stdout, done.stderr.splitlines()[-1:], told.read_bytes()))
    assert ended[0] == ended[1]


def test_our_command_has_its_own_name_and_status(quick: QuickCommands, tmp_path: Path) -> None:
    quick.write(tmp_path)
    done = subprocess.run([str(tmp_path / "geolookup"), "hotle"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hotel" in done.stderr


def test_a_text_of_python_does_the_same(quick: QuickCommands) -> None:
    text = "import sys, pickle\nclass A: pass\nprint(sys.argv, __name__, pickle.loads(pickle.dumps(A())).__class__)"
    begun, usual = (
        subprocess.run([*python, "-c", text, "x"], capture_output=True, text=True, check=False)
        for python in (quick.python, [sys.executable])
    )
    assert (begun.returncode, begun.stdout, begun.stderr) == (usual.returncode, usual.stdout, usual.stderr)
    assert begun.returncode == 0


#: Blocked from the first, so that none can come between two lines.
HEARS = """
import signal, sys
ends = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, ends)
print("ready", flush=True)
print(signal.Signals(signal.sigwait(ends)).name)
sys.exit(5)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command(quick: QuickCommands, number: signal.Signals) -> None:
    with subprocess.Popen([*quick.python, "-c", HEARS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            process.send_signal(number)
            assert process.stdout.read() == f"{number.name}\n"
            assert process.wait(60) == 5
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_a_signal_ends_is_seen_to_end_by_it(quick: QuickCommands, number: signal.Signals) -> None:
    text = f"""
import contextlib, os, signal
with contextlib.suppress(OSError):  # SIGKILL cannot be asked for
    signal.signal({int(number)}, signal.SIG_DFL)
os.kill(os.getpid(), {int(number)})
"""
    assert subprocess.run([*quick.python, "-c", text], check=False).returncode == -number


def test_a_command_does_not_outlive_a_caller_that_is_killed(quick: QuickCommands) -> None:
    with subprocess.Popen([*quick.python, "-c", HEARS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        assert process.stdout.read() == ""  # which ends with the last process that may write to it
