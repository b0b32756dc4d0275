"""Colours and tables are for terminals: pipes get the same bytes as ever."""

import re
import subprocess
import sys

import pytest

from geolookup.cli.app import run
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked
from tests.support.users.terminals import on_terminal

ESCAPE = "\x1b["


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.delenv("NO_COLOR", raising=False)
    publish(home, [place(1, "8.0.0.0/8", country="US"), place(1000, "9.0.0.0/8", country="DE", city="Köln")])


def piped(*arguments: str) -> tuple[str, str]:
    result = subprocess.run(
        [*forked(), "-m", "geolookup", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return result.stdout, result.stderr


def test_a_list_is_a_table_on_a_terminal_and_tabs_in_a_pipe() -> None:
    _, seen = on_terminal(["list"], environment={"NO_COLOR": "1"})
    lines = [line.rstrip() for line in seen.splitlines()]
    assert [line.split() for line in lines] == [
        ["locid", "place", "blocks"],
        ["1", "country", "US,", "city", "city", "1", "1", "block"],
        ["1000", "country", "DE,", "city", "Köln", "1", "block"],
    ]
    assert {lines[0].index("blocks"), *(line.rindex("1 block") for line in lines[1:])} == {lines[0].index("blocks")}
    assert piped("list")[0] == "1\tcountry US, city city 1\t1 block\n1000\tcountry DE, city Köln\t1 block\n"


def test_a_narrow_terminal_loses_nothing() -> None:
    _, seen = on_terminal(["list"], columns=24, environment={"NO_COLOR": "1"})
    assert max(map(len, seen.splitlines())) <= 24
    assert "Köln" in seen


def test_a_table_whose_words_do_not_fit_is_written_as_lines() -> None:
    """They were broken into columns of three letters."""
    _, seen = on_terminal(["generations", "list"], columns=40, environment={"NO_COLOR": "1"})
    assert re.match(r"1  served from \S+ \S+  2 geolocations  2 blocks  ", seen)
    assert len(seen.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [
        (["doctor", "--offline"], {}, True),
        (["doctor", "--offline"], {"NO_COLOR": "1"}, False),
        (["doctor", "--offline"], {"NO_COLOR": ""}, True),
        (["doctor", "--offline"], {"TERM": "dumb"}, False),
        (["doctor", "--offline", "--color", "never"], {}, False),
        (["--color", "never", "doctor", "--offline"], {}, False),
        (["doctor", "--offline", "--color", "always"], {"NO_COLOR": "1"}, True),
        (["list"], {}, True),
        (["list", "--color", "never"], {}, False),
        (["explain", "x"], {}, True),
        (["8.8.8.8"], {}, False),
    ],
)
def test_when_a_terminal_gets_colours(arguments: list[str], environment: dict[str, str], coloured: bool) -> None:
    _, seen = on_terminal(arguments, environment=environment)
    assert (ESCAPE in seen) == coloured, seen


@pytest.mark.parametrize("command", [["list"], ["doctor", "--offline"], ["generations", "list"], ["explain", "x"]])
def test_pipes_are_plain_unless_colours_are_asked_for(command: list[str]) -> None:
    out, err = piped(*command)
    assert ESCAPE not in out + err
    coloured_out, coloured_err = piped(*command, "--color", "always")
    if command[0] in ("doctor", "explain"):
        assert ESCAPE in coloured_out + coloured_err
        for code in ("31", "32", "33", "0"):
            coloured_out = coloured_out.replace(f"{ESCAPE}{code}m", "")
            coloured_err = coloured_err.replace(f"{ESCAPE}{code}m", "")
    assert coloured_err == err
    if command[0] != "doctor":  # whose lines tell the time
        assert coloured_out == out


def test_data_cannot_colour_a_terminal(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", city="\x1b[31mred [bold]x[/bold]")])
    _, seen = on_terminal(["list", "--color", "never"])
    assert ESCAPE not in seen
    assert "\\x1b[31mred [bold]x[/bold]" in seen


def test_a_choice_does_not_outlive_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--offline", "--color", "always"]) == 0
    assert ESCAPE in capsys.readouterr().out
    assert run(["doctor", "--offline"]) == 0
    assert ESCAPE not in capsys.readouterr().out


def test_an_address_on_a_terminal_imports_neither_rich_nor_click() -> None:
    code = (
        "import os, pty, sys\n"
        "pid, main = pty.fork()\n"
        "if pid == 0:\n"
        "    sys.argv = ['geolookup', '8.8.8.8']\n"
        "    from geolookup.__main__ import main as command\n"
        "    status = command()\n"
        "    print('imported:', *sorted({'rich', 'click', 'numpy', 'httpx'} & set(sys.modules)))\n"
        "    sys.stdout.flush(); os._exit(status)\n"
        "seen = b''\n"
        "try:\n"
        "    while data := os.read(main, 65536): seen += data\n"
        "except OSError: pass\n"
        "os.waitpid(pid, 0); print(seen.decode())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    answer, imported = result.stdout.split("imported:")
    assert answer.startswith("8.8.8.8")
    assert imported.strip() == ""
