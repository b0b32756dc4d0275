"""How commands end if the output cannot be written, or the settings are broken: the same on both paths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.settings.table import described
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

#: Plain addresses (the fast path), the same by the click application, and other commands.
PLAIN = ["8.8.8.8"]
LONG = ["lookup", "--format", "text", "8.8.8.8"]
COMMANDS = [PLAIN, LONG, ["status"], ["explain", "8.8.8.8"], ["--help"], ["status", "--help"], ["--version"]]


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="CH", city="Zürich 🏔")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def shell(redirection: str, arguments: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """The command with a redirection, by a shell.

    The shortest starts as for everybody, since that is when streams are opened.
    """
    python = [sys.executable] if arguments == PLAIN else forked()
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *python, "-m", "geolookup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environ},
    )


def ended(arguments: list[str], **environ: str) -> tuple[int, str, str]:
    """How a command with more in its environment ends, and what it wrote to its two streams."""
    done = subprocess.run(
        [*forked(), "-m", "geolookup", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "standard output is closed")]
)
def test_a_result_that_cannot_be_written_is_one_line_and_1(arguments: list[str], redirection: str, reason: str) -> None:
    done = shell(redirection, arguments)
    assert (done.returncode, done.stderr) == (1, f"geolookup: writing the result failed: {reason}\n")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_pipe_is_not_an_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*forked(), "-m", "geolookup", *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("redirection", ["2>&-", "<&-", "2>/dev/full"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [(PLAIN, 0), (LONG, 0), (["status"], 0), (["--no-such-option"], 2), (["8.8.8"], 5)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_other_streams_that_are_closed_do_no_harm(arguments: list[str], status: int, redirection: str) -> None:
    assert shell(redirection, arguments).returncode == status


@pytest.mark.parametrize("arguments", [PLAIN, LONG], ids=" ".join)
def test_a_city_that_the_encoding_does_not_have_is_escaped(arguments: list[str]) -> None:
    done = shell("", arguments, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Z\\u00fcrich \\ud83c\\udfd4, CH" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--format", "json", "8.8.8.8"], ["--format", "ndjson", "8.8.8.8"], ["explain", "--json", "8.8.8.8"]]
)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_stays_json_in_any_encoding(arguments: list[str], encoding: str) -> None:
    done = subprocess.run(
        [*forked(), "-m", "geolookup", *arguments],
        capture_output=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    found = json.loads(done.stdout.decode(encoding))
    assert "Zürich 🏔" in json.dumps(found, ensure_ascii=False)


BROKEN = ["attempts = -3\n", 'url = "https://x.example\n', "settel_s = 1\n", 'token = "secret"\n', "auth = 1\n"]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_settings_are_seen_on_both_paths_alike(tmp_path: Path, text: str) -> None:
    config = tmp_path / "geolookup.toml"
    config.write_text(text)
    plain, long = (ended(arguments, GEOLOOKUP_CONFIG=str(config)) for arguments in (PLAIN, LONG))
    status, out, error = plain
    assert (status, out) == (2, "")
    assert "geolookup.toml" in error
    assert plain == long


@pytest.mark.parametrize("value", ["-3", ""])
@pytest.mark.parametrize("name", ["GEOLOOKUP_ATTEMPTS", "GEOLOOKUP_SETTEL_S"])
def test_broken_variables_are_seen_on_both_paths_alike(name: str, value: str) -> None:
    plain, long = (ended(arguments, **{name: value}) for arguments in (PLAIN, LONG))
    assert plain == long
    assert plain[0] == (0 if (name, value) == ("GEOLOOKUP_ATTEMPTS", "") else 2)


def test_settings_that_change_lookups_count_on_both_paths(tmp_path: Path, home: str) -> None:
    config = tmp_path / "geolookup.toml"
    config.write_text('max_age = "1s"\nstale = "refuse"\n')
    current = Path(home) / "CURRENT"
    assert current.exists()
    subprocess.run(["sleep", "1.5"], check=True)
    plain, long = (ended(arguments, GEOLOOKUP_CONFIG=str(config)) for arguments in (PLAIN, LONG))
    assert plain[:2] == long[:2] == (1, "")
    assert "max_age allows" in plain[2]
    config.write_text(f'home = "{os.path.relpath(home, tmp_path)}"\nattempts = 3\n')
    plain, long = (ended(arguments, GEOLOOKUP_CONFIG=str(config), GEOLOOKUP_HOME="") for arguments in (PLAIN, LONG))
    assert "Zürich" in plain[1]
    assert plain == long
    assert {setting.name for setting in described() if setting.bears_on_lookups} == {"home", "max_age", "stale", "vrf"}
