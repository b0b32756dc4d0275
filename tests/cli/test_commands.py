"""The other commands, in this process; and what they print."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from geolookup.base.version import __version__
from geolookup.cli import exit_codes
from geolookup.cli.app import app, run
from geolookup.model.errors import GeoLookupError, StateBusyError
from geolookup.state.publishing.directory import StateDirectory
from tests.faults.raw_server import RawServer, answer
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def test_sync_publishes_and_says_what(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(listed(many(40), count=40, etag='"a"'), answer(b"", status="304 Not Modified")) as server:
        assert run(["sync", "--url", server.url]) == 0
        assert capsys.readouterr().out == "published generation 1: 40 geolocations, 80 blocks\n"
        assert run(["sync", "--url", server.url]) == 0
        assert capsys.readouterr().out == "nothing new: generation 1 goes on serving\n"


def test_sync_reports_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(listed(many(40), count=40), listed(many(41), count=41)) as server:
        assert run(["sync", "--url", server.url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["difference"] is None
        assert run(["sync", "--url", server.url, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["outcome"], report["generation"]) == ("published", 2)
    assert report["difference"]["geolocations"] == {"added": 1, "removed": 0, "changed": 0}


def test_sync_exit_status_tells_failed_held_and_busy(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(number, f"10.0.{number}.0/24") for number in range(1, 50)])
    with RawServer(answer(b"<html>"), listed(many(2), count=2)) as server:
        assert run(["sync", "--url", server.url]) == 1
        assert run(["sync", "--url", server.url]) == 3
        error = capsys.readouterr().err
        assert "--accept" in error
        with StateDirectory(home).locks.run():
            assert run(["sync", "--url", server.url]) == 75
    assert run(["sync", "--url", "ftp://x"]) == 2
    assert run(["sync"]) == 1  # the service that this state was synced from is gone
    digest = error.split("--accept ")[1].split()[0]
    assert run(["sync", "--accept", digest]) == 0
    assert "generation 2" in capsys.readouterr().out


def test_status_as_text_and_json(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8"), place(-1, "8.8.0.0/16")])
    assert run(["status"]) == 0
    assert "1 (sequence 1, overlay 1)" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["generation"], found["geolocations"], found["custom_geolocations"], found["problem"]) == (
        1,
        2,
        1,
        None,
    )


def test_verify_names_what_is_damaged(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    assert run(["verify"]) == 0
    path = os.path.join(home, "generations", "000001", "index")
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    assert run(["verify"]) == 1
    captured = capsys.readouterr()
    assert path in captured.err
    assert run(["verify", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_list_filters_and_ignores_case(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="DE", city="Köln"), place(2, country="DE"), place(-3, country="US")])
    assert run(["list", "--country", "de", "--json"]) == 0
    assert [row["locid"] for row in json.loads(capsys.readouterr().out)] == [1, 2]
    assert run(["list", "--city", "KÖLN"]) == 0
    assert capsys.readouterr().out == "1\tcountry DE, city Köln\t1 block\n"
    assert run(["list", "--custom", "--json"]) == 0
    assert [row["locid"] for row in json.loads(capsys.readouterr().out)] == [-3]
    assert run(["list", "--default", "--top", "1", "--json"]) == 0
    assert [row["locid"] for row in json.loads(capsys.readouterr().out)] == [1]


def test_explain_as_text_and_json(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8"), place(-1, "8.8.0.0/16")])
    assert run(["explain", "8.8.8.8"]) == 0
    text = capsys.readouterr().out
    assert "wins  8.8.0.0-8.8.255.255" in text
    assert "loses 8.0.0.0-8.255.255.255" in text
    assert run(["explain", "8.8.8.8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["wins"] for item in found["covering"]] == [True, False]
    assert run(["explain", "9.9.9.9"]) == 4
    assert run(["explain", "9.9.9"]) == 5


def test_the_first_lookup_builds_the_state_from_the_bundled_data(
    default_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEOLOOKUP_HOME")
    command = [*forked(), "-m", "geolookup", "8.8.8.8"]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    results = [process.communicate(timeout=120) for process in several]
    assert {out for out, _ in results} == {"8.8.8.8\tUS\t6.0.0.0-8.127.255.255\tdefault 221\n"}
    told = [err for _, err in results if err]
    assert len(told) == 1, "one builds, the others wait"
    assert told[0].count("\n") == 1
    assert "bundled" in told[0]
    assert os.listdir(os.path.join(default_home, "generations")) == ["000001"]


def test_with_an_upstream_configured_nothing_is_made_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_URL", "http://127.0.0.1:9")
    assert run(["8.8.8.8"]) == 1
    assert "geolookup sync" in capsys.readouterr().err


def test_the_version_and_the_completion_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        assert "_GEOLOOKUP_COMPLETE" in capsys.readouterr().out


def test_completion_offers_the_commands() -> None:
    environment = {**os.environ, "_GEOLOOKUP_COMPLETE": "bash_complete", "COMP_WORDS": "geolookup s", "COMP_CWORD": "1"}
    result = subprocess.run(
        [*forked(), "-c", "from geolookup.cli.app import run; run()"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    commands = {line.partition(",")[2] for line in result.stdout.split()}
    assert commands == {"serve", "serve-token", "share", "source", "state", "status", "sync"}


def test_every_command_has_an_example_in_its_help() -> None:
    for name in app.list_commands(context := click.Context(app, **app.context_settings)):
        command = app.get_command(context, name)
        assert command is not None
        assert "Example" in (command.help or ""), name
        assert "geolookup" in (command.help or ""), name


def all_commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        own = click.Context(command, info_name=name, parent=context)
        yield own, command
        if isinstance(command, click.Group):
            yield from all_commands(command, own)


def test_every_announced_command_is_there_under_its_name_and_fits_the_help() -> None:
    seen = []
    for context, command in all_commands(app, click.Context(app, info_name="geolookup", **app.context_settings)):
        assert command.name == context.info_name
        seen.append(context.command_path)
        for name, announced in getattr(command, "announced", {}).items():
            assert len(announced.summary) <= 56, name
    assert {"geolookup lookup", "geolookup custom plan", "geolookup serve-token"} <= set(seen)
    assert all(len(announced.summary) <= 56 for announced in app.announced.values())


def test_the_help_imports_no_command() -> None:
    code = (
        "import sys; from geolookup.cli.app import run; run(['--help'])\n"
        "print(*(name for name in sys.modules if name.startswith('geolookup.cli.')), *sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "Look up addresses" in result.stdout
    loaded = set(result.stderr.split())
    assert "geolookup.cli.app" in loaded
    assert not {"httpx", "numpy", "stamina", "geolookup.lookup", "geolookup.cli.data", "geolookup.sync"} & loaded


def test_only_the_table_decides_exit_statuses() -> None:
    literal = re.compile(r"\breturn \d+$|\bexit(?:_code)?\(?\d|code = [1-9]", re.MULTILINE)
    here = Path(exit_codes.__file__)
    for path in sorted(here.parent.rglob("*.py")):
        found = [] if path == here else literal.findall(path.read_text(encoding="utf-8"))
        assert found == [], path


def test_every_error_has_an_exit_status_of_the_table() -> None:
    def all_of(kind: type[GeoLookupError]) -> list[type[GeoLookupError]]:
        return [kind, *(deeper for child in kind.__subclasses__() for deeper in all_of(child))]

    for kind in all_of(GeoLookupError):
        error = kind.__new__(kind)
        assert exit_codes.of_error(error) in exit_codes.TABLE
    assert exit_codes.of_error(StateBusyError("")) == 75


def test_the_working_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", os.path.relpath(home, tmp_path))
    assert run(["8.8.8.8"]) == 0
    result = subprocess.run([*forked(), "-m", "geolookup", "8.8.8.8"], check=False, timeout=60, capture_output=True)
    assert result.returncode == 0


def test_list_shows_degrees_of_32_bits_as_the_shortest_that_reads_back(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(1, "10.0.0.0/8", country="DE", latitude=50.11090087890625, longitude=8.682129859924316)])
    assert run(["list", "--country", "DE"]) == 0
    assert "latitude 50.1109, longitude 8.68213," in capsys.readouterr().out.replace("\t", ",")
    assert run(["list", "--country", "DE", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["latitude"], found["longitude"]) == (50.1109, 8.68213)
