"""``geolookup share``: its unit for systemd, and what it refuses to start with."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.data.test_schedule import systemd
from tests.cli.edits.test_custom import Command, command

__all__ = ["command", "systemd"]


def verified(tool: str, unit: str, folder: Path) -> str:
    path = folder / "geolookup-share.service"
    path.write_text(unit)
    done = subprocess.run([tool, "verify", path], capture_output=True, text=True, check=False, timeout=60)
    return done.stderr


def test_systemd_finds_nothing_wrong_with_the_unit(command: Command, systemd: str, tmp_path: Path) -> None:
    unit = command("share", "--print-systemd", "--host", "0.0.0.0", "--tokens", str(tmp_path / "tok ens"))
    assert verified(systemd, unit, tmp_path) == ""


def test_the_unit_runs_the_same_command_with_absolute_paths(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unit = command(
        "share", "--print-systemd", "--edition", "GeoLite2-City", "--edition", "X-Country", "--port", "443",
        "--tokens", "tokens", "--tls-cert", "c", "--tls-key", "k", "--workers", "2", "--access-log", "-",
        "--licence-allows", "--drain", "15",
    )  # fmt: skip
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.removeprefix("ExecStart="))
    words = words[words.index("share") :]
    assert words[0] == "share"
    for wanted in (
        ["--edition", "GeoLite2-City", "--edition", "X-Country"],
        ["--port", "443"],
        ["--tokens", str(tmp_path / "tokens")],
        ["--tls-cert", str(tmp_path / "c")],
        ["--tls-key", str(tmp_path / "k")],
        ["--workers", "2"],
        ["--access-log", "-"],
        ["--licence-allows"],
        ["--drain", "15.0"],
    ):
        at = words.index(wanted[0])
        assert words[at : at + len(wanted)] == wanted
    assert "--host" not in words
    assert "--print-systemd" not in words
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in unit
    assert "TimeoutStopSec=45" in unit
    assert "must be able to read them" in command.error


def test_a_unit_for_a_port_that_anyone_may_take_has_no_capability(command: Command) -> None:
    unit = command("share", "--print-systemd")
    assert "\nAmbientCapabilities=\n" in unit
    assert "\nPrivateUsers=yes\n" in unit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--edition", "GeoLite2-Weather"), "edition"),
        (("--tls-cert", "x"), "--tls-key"),
        (("--tls-cert", "x", "--tls-key", "y"), "reading failed"),
        (("--tokens", "missing"), "cannot be read"),
        (("--host", "0.0.0.0"), "loopback"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_serves(
    command: Command, arguments: tuple[str, ...], said: str
) -> None:
    command("share", "--port", "0", *arguments, exits=2 if said != "loopback" else 1)
    assert said in command.error
