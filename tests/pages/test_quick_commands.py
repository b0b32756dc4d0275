"""A command whose imports are done does what it does from nothing: its streams, its folder, its end."""

import os
import shlex
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
    if text == PROGRAMS["a signal"]:  # which the shell tells of the process that it started
        assert begun[0] == usual[0] == "137\n"
    else:
        assert begun == usual


def test_our_command_has_its_own_name_and_status(quick: QuickCommands, tmp_path: Path) -> None:
    quick.write(tmp_path)
    done = subprocess.run([str(tmp_path / "geolookup"), "hotle"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hotel" in done.stderr
