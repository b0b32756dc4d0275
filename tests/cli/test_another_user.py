"""A state of another user, or one that may not be written: whose it is and what to do, and reading goes on.

The commands run in processes of their own. Those of root are without the capabilities that let root read and write
everything, and the state belongs to another user; any other user has a state without the permissions of its own mode.
"""

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.state.editor import Editor
from tests.support.data.states import place, publish

_IS_ROOT = os.geteuid() == 0
_PLAIN = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if _IS_ROOT else []
#: A user whom every system has, and under whom no test runs.
_OWNER = 65534
READING = [
    ["10.0.0.1"],
    ["lookup", "10.0.0.1"],
    ["explain", "10.0.0.1"],
    ["list"],
    ["status"],
    ["verify"],
    ["custom", "list"],
    ["custom", "show", "-3"],
    ["custom", "check"],
    ["custom", "export", "-"],
    ["outbox", "list"],
    ["outbox", "show", "1"],
    ["history"],
    ["generations", "list"],
    ["generations", "diff", "1", "1"],
    ["export", "csv", "-"],
]
WRITING = [
    ["sync", "--bundled"],
    ["custom", "delete", "-3"],
    ["outbox", "drop", "1"],
    ["outbox", "restore"],
    ["generations", "rollback"],
    ["generations", "prune"],
]

#: Many commands in one process, since starting one takes longer than most of them.
PROGRAM = """
import contextlib, io, json, sys
from geolookup.__main__ import main
for words in json.load(sys.stdin):
    sys.argv = ["geolookup", *words]
    out, error = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main()
        out.flush()
    print(json.dumps([code, out.buffer.getvalue().decode(), error.getvalue()]))
"""

pytestmark = pytest.mark.skipif(bool(_PLAIN) and shutil.which("setpriv") is None, reason="root needs setpriv")


@pytest.fixture
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state of another user, with two generations and an edit."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    published = [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", latitude=1.0, longitude=2.0)]
    publish(home, published)
    publish(home, published)
    Editor(home).update(-3, city="Bonn")
    if _IS_ROOT:
        for each in [Path(home), *Path(home).rglob("*")]:
            os.chown(each, _OWNER, -1)
    return Path(home)


def _mode(path: Path, mode: int, *, under: bool = False) -> None:
    """Give this mode to a file or directory, ``under`` one to all in it too; its owner gets what others have here."""
    for each in [path, *(path.rglob("*") if under else ())]:
        wanted = mode & 0o666 if each.is_file() else mode
        each.chmod(wanted if _IS_ROOT else (wanted & 0o007) << 6)


def ran(*commands: list[str]) -> list[tuple[int, str, str]]:
    """The exit status, standard output and standard error of each command, run by a user without privileges."""
    done = subprocess.run(
        [*_PLAIN, sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def _is_said(error: str, path: Path, mode: str) -> None:
    me = getpass.getuser()
    owner = path.owner()
    assert f"this user ({me}) may not" in error
    assert f"{path} belongs to {owner} (mode {mode})" in error
    assert (f"`sudo -u {owner} geolookup`" if owner != me else f"chmod u+rwX {path}") in error
    assert "GEOLOOKUP_HOME" in error


def test_another_users_state_says_whose_it_is_and_what_to_do(state: Path) -> None:
    commands = [*READING, *WRITING, ["refresh"]]
    _mode(state, 0o700)
    try:
        answers = ran(*commands)
    finally:
        state.chmod(0o700)
    for words, (code, out, error) in zip(commands, answers, strict=True):
        assert code == 1, words
        if words != ["refresh"]:  # which logs
            _is_said(error, state, "0700" if _IS_ROOT else "0000")
        for wrong in ("nothing", "damaged", "remove"):
            assert wrong not in out + error, words


def test_doctor_says_once_that_a_state_is_another_users(state: Path) -> None:
    _mode(state, 0o700)
    try:
        ((code, out, _),) = ran(["doctor", "--offline"])
    finally:
        state.chmod(0o700)
    assert code == 1
    assert out.count("may not read it: ") == 1
    assert f"-> run geolookup as {state.owner()} (`sudo -u {state.owner()} geolookup`); or" in out


@pytest.mark.parametrize("part", ["CURRENT", "edits.db", "generations"])
def test_what_of_a_state_may_not_be_read_is_named_and_is_no_damage(state: Path, part: str) -> None:
    _mode(state, 0o755, under=True)
    _mode(state / part, 0o700)
    shown = f"{(state / part).stat().st_mode & 0o777:04o}"
    try:
        *refused, (code, out, _), (status, _, _) = ran(["verify"], ["custom", "list"], ["10.0.0.1"], ["status"])
    finally:
        (state / part).chmod(0o700)
    for exited, _, error in refused:
        assert exited == 1
        _is_said(error, state / part, shown)
        assert "damaged" not in error
    # Whoever may read what is published looks up, though not the edits.
    may = part == "edits.db"
    assert (code, bool(out), status) == ((0, True, 0) if may else (1, False, 1))


def test_all_that_only_reads_works_on_a_state_that_may_not_be_written(state: Path) -> None:
    _mode(state, 0o755, under=True)
    before = sorted(state.rglob("*"))
    try:
        answers = ran(*READING)
    finally:
        for each in [state, *state.rglob("*")]:
            each.chmod(0o700)
    for words, (code, out, error) in zip(READING, answers, strict=True):
        assert (code, error) == (0, ""), words
        assert out or words[:2] == ["outbox", "list"], words
    assert sorted(state.rglob("*")) == before


def test_what_writes_says_whose_state_it_is_and_a_refresh_what_goes_on_serving(state: Path) -> None:
    _mode(state, 0o755, under=True)
    try:
        *answers, refreshed = ran(*WRITING, ["refresh"])
    finally:
        for each in [state, *state.rglob("*")]:
            each.chmod(0o700)
    for words, (code, _, error) in zip(WRITING, answers, strict=True):
        lock = state / (
            "publish.lock" if words in (["custom", "delete", "-3"], ["outbox", "drop", "1"]) else "run.lock"
        )
        assert code == 1, words
        _is_said(error, lock, "0644" if _IS_ROOT else "0400")
    assert refreshed[:2] == (1, "failed: generation 2 goes on serving\n")
