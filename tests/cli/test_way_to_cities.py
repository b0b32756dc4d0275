"""While only the bundled data answer, a person is told in one line how to get more; a program is told nothing."""

import os
import pty
import subprocess
from pathlib import Path

import msgspec
import pytest

from geolookup.cli.app import run
from geolookup.sources.bundled import MORE
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def home(default_home: str) -> str:
    """In place of the fixture of this name: the one directory that begins with the bundled data."""
    return default_home


def on_a_terminal(*arguments: str) -> tuple[str, str]:
    """What the command writes to standard output, and to a terminal as standard error."""
    ours, theirs = pty.openpty()
    try:
        result = subprocess.run(
            [*forked(), "-m", "geolookup", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=True,
            timeout=120,
        )
        os.set_blocking(ours, False)
        try:
            said = os.read(ours, 65536)
        except BlockingIOError:
            said = b""
    finally:
        os.close(ours)
        os.close(theirs)
    return result.stdout.decode(), said.decode().replace("\r\n", "\n")


def test_the_first_lookup_says_how_to_get_cities_and_so_does_each_on_a_terminal(
    home: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["lookup", "8.8.8.8"]) == 0
    first = capfd.readouterr()
    assert first.err.count(MORE) == 1  # in the notice, and not again as a note
    assert MORE not in first.out
    for arguments in (["8.8.8.8", "1.1.1.1"], ["lookup", "8.8.8.8", "1.1.1.1"]):
        out, said = on_a_terminal(*arguments)
        assert len(out.splitlines()) == 2
        assert said == f"{MORE}\n"
    quick = subprocess.run([*forked(), "-m", "geolookup", "8.8.8.8"], capture_output=True, check=True, timeout=120)
    assert quick.stderr == b""  # a program's
    assert on_a_terminal("lookup", "--format", "ndjson", "8.8.8.8")[1] == ""
    assert run(["lookup", "8.8.8.8"]) == 0
    assert capfd.readouterr().err == ""
    assert run(["status"]) == 0
    assert f"more:         {MORE}" in capfd.readouterr().out.splitlines()


def test_nothing_is_said_where_a_source_answers(home: str, capfd: pytest.CaptureFixture[str]) -> None:
    publish(home, [msgspec.structs.replace(place(1, "8.0.0.0/8", country="US"), city="")])
    for arguments in (["8.8.8.8"], ["lookup", "8.8.8.8"]):
        assert on_a_terminal(*arguments)[1] == ""
    assert run(["status"]) == 0
    assert MORE not in capfd.readouterr().out


def test_what_is_said_is_a_command_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    commands = [part for part in MORE.split("`")[1::2] if " add " in part]
    assert len(commands) == 2
    for command in commands:
        assert run(command.split()[1:]) == 0
