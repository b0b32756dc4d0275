"""``geolookup doctor``: each thing that can be wrong is found, named, and nothing is changed."""

import json
import os
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.settings.paths import default_home
from geolookup.state.base import clock
from geolookup.state.publishing.directory import StateDirectory
from tests.faults.raw_server import RawServer, answer
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish
from tests.support.small_disk import small as small  # a fixture
from tests.support.users.as_nobody import NOBODY, as_root


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "geolookup.toml"
    path.parent.mkdir()
    path.write_text("")
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    return path


@pytest.fixture(autouse=True)
def state(home: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


@pytest.fixture
def examined(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs the doctor: its exit status, and the lines by name (the worst of each name)."""

    def examine(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
        capsys.readouterr()
        status = run(["doctor", "--json", *options])
        order = ["ok", "warning", "wrong"]
        lines = json.loads(capsys.readouterr().out)["checks"]
        return status, {line["name"]: line for line in sorted(lines, key=lambda line: order.index(line["verdict"]))}

    return examine


def everything(folder: str) -> dict[str, tuple[int, int]]:
    """Each file and folder; of the state itself only the names, since a file is written there and removed."""
    found = {}
    for directory, _, names in os.walk(folder):
        for name in [*([] if directory == folder else ["."]), *names]:
            status = os.lstat(os.path.join(directory, name))
            found[os.path.join(directory, name)] = (status.st_mtime_ns, status.st_mode)
    return found


def test_a_sound_state_is_ok_in_every_line_and_nothing_is_touched(home: str, examined) -> None:
    with RawServer(listed(many(40), count=40), listed(many(1), count=40)) as server:
        assert run(["sync", "--url", server.url]) == 0
        before = everything(home)
        status, found = examined("--url", server.url)
    assert (status, {name: line for name, line in found.items() if line["verdict"] != "ok"}) == (0, {})
    assert {"versions", "accelerator", "settings", "secrets", "clock", "state", "data", "age", "lock", "disk"} < set(
        found
    )
    assert "answers" in found["service"]["what"]
    assert everything(home) == before


def test_without_a_state_none_is_made(home: str, examined) -> None:
    status, found = examined()
    assert (status, found["data"]["verdict"]) == (0, "warning")
    assert "geolookup source add" in found["data"]["advice"]
    assert not os.path.exists(home)
    status, found = examined("--offline", "--url", "http://127.0.0.1:9")
    assert (status, found["data"]["verdict"]) == (1, "wrong")
    assert "service" not in found


def test_settings_and_secrets_that_cannot_be_used_are_named(file: Path, examined) -> None:
    file.write_text('urll = "https://x.example"\n')
    status, found = examined()
    assert (status, found["settings"]["verdict"]) == (1, "wrong")
    assert "did you mean url?" in found["settings"]["what"]
    file.write_text('token_file = "token"\n')
    (file.parent / "token").write_text("secret")
    (file.parent / "token").chmod(0o644)
    status, found = examined()
    assert (status, found["secrets"]["verdict"]) == (1, "wrong")
    assert "chmod 600" in found["secrets"]["what"]
    file.write_text("")
    file.chmod(0o666)
    assert examined()[1]["settings"]["advice"] == f"chmod o-w {file}"


def test_permissions_and_owners_of_the_state(home: str, examined) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    os.chmod(home, 0o777)
    status, found = examined()
    assert (status, found["state"]["verdict"]) == (1, "wrong")
    assert found["state"]["advice"] == f"chmod 700 {home}"
    os.chmod(home, 0o700)
    assert examined()[1]["state"]["verdict"] == "ok"
    if os.geteuid() == 0:
        os.chown(os.path.join(home, "CURRENT"), 65534, -1)
        status, found = examined()
        assert (status, found["state"]["verdict"]) == (1, "wrong")
        assert "CURRENT" in found["state"]["what"]


@as_root
def test_root_on_a_state_of_another_user_is_told_to_run_as_that_user(home: str, examined) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    for each in [Path(home), *Path(home).rglob("*")]:
        os.chown(each, NOBODY, -1)
    status, found = examined("--offline")
    assert (status, found["state"]["verdict"]) == (1, "wrong")
    owner = Path(home).owner()
    assert f"{home} belongs to {owner}" in found["state"]["what"]
    assert f"sudo -u {owner} geolookup" in found["state"]["advice"]


def test_a_read_only_mount_is_named(small: str, monkeypatch: pytest.MonkeyPatch, examined) -> None:
    home = os.path.join(small, "state")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.0.0.0/8")])
    assert examined("--offline")[1]["state"]["verdict"] == "ok"
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    found = examined("--offline")[1]["state"]
    assert found["verdict"] == "warning"
    assert "its file system is mounted read-only" in found["what"]
    assert "remount,rw" in found["advice"]
    monkeypatch.setenv("GEOLOOKUP_HOME", os.path.join(small, "other"))
    found = examined("--offline")[1]["state"]
    assert (found["verdict"], found["advice"]) == ("warning", "name a state with GEOLOOKUP_HOME")


@pytest.mark.parametrize("variable", [None, "/nonexistent"])
def test_a_home_in_which_nothing_can_be_made_is_named(
    variable: str | None, monkeypatch: pytest.MonkeyPatch, examined
) -> None:
    for name in ("GEOLOOKUP_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv("HOME", variable)
    elif os.path.exists(default_home()):
        pytest.skip("this user has a state")
    found = examined("--offline")[1]["state"]
    assert (found["verdict"], found["advice"]) == ("warning", "name a state with GEOLOOKUP_HOME")
    assert "cannot make it" in found["what"]


def test_damage_is_wrong_and_said_to_be_served_around(home: str, examined) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    publish(home, [place(2, "8.0.0.0/8")])
    with open(os.path.join(home, "generations", "000002", "index"), "r+b") as index:
        index.truncate(100)
    status, found = examined()
    assert (status, found["data"]["verdict"]) == (1, "wrong")
    assert "000002" in found["data"]["what"]
    assert "generation 1" in found["data"]["what"]


def test_age_lock_and_disk(home: str, file: Path, monkeypatch: pytest.MonkeyPatch, examined) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    later = datetime.now(UTC) + timedelta(days=40)
    monkeypatch.setattr(clock, "wall", lambda: later)
    status, found = examined("--offline")
    assert (status, found["age"]["verdict"]) == (0, "warning")
    file.write_text('max_age = "36h"\nstale = "refuse"\n')
    status, found = examined("--offline")
    assert (status, found["age"]["verdict"]) == (1, "wrong")
    with StateDirectory(home).locks.run():
        assert examined("--offline")[1]["lock"]["verdict"] == "warning"
    assert examined("--offline")[1]["lock"]["verdict"] == "ok"

    class Full:
        f_bavail, f_frsize = 4, 4096

    monkeypatch.setattr(os, "statvfs", lambda _path: Full)
    status, found = examined("--offline")
    assert (status, found["disk"]["verdict"]) == (1, "wrong")


def test_a_service_that_refuses_the_token_is_silent_or_has_another_time(examined) -> None:
    with RawServer(answer(b"", status="401 Unauthorized")) as server:
        status, found = examined("--url", server.url)
        assert (status, found["service"]["verdict"]) == (1, "wrong")
        assert "--token-from" in found["service"]["advice"]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        status, found = examined("--url", f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert (status, found["service"]["verdict"]) == (1, "wrong")
    assert "geolookup config show url" in found["service"]["advice"]
    with RawServer(listed([], count=0, headers=["Date: Sun, 06 Nov 1994 08:49:37 GMT"])) as server:
        status, found = examined("--url", server.url)
    assert (found["service"]["verdict"], found["clock"]["verdict"]) == ("ok", "warning")
    assert "ahead of the service's" in found["clock"]["what"]


def test_a_file_of_a_source_that_is_gone(file: Path, examined) -> None:
    file.write_text('[[source]]\nname = "office"\nlocation = "office.csv"\n')
    status, found = examined()
    assert (status, found["source office"]["verdict"]) == (1, "wrong")
    assert str(file.parent / "office.csv") in found["source office"]["what"]


def test_the_text_names_each_line_its_verdict_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "versions:"]
    at = next(number for number, line in enumerate(lines) if line.startswith("warning  data:"))
    assert "->" in lines[at + 1]
    assert lines[-1] == "0 wrong, 1 warning"


def test_the_remembered_service_and_a_run_that_failed(home: str, examined) -> None:
    with RawServer(listed(many(40), count=40), listed(many(1), count=40)) as server:
        assert run(["sync", "--url", server.url]) == 0
        assert examined()[1]["service"]["what"].startswith(server.url)
    assert run(["sync"]) != 0
    status, found = examined("--offline")
    assert status == 1
    assert "the last sync failed" in found["runs"]["what"]
    assert "geolookup sync" in found["runs"]["advice"]


def test_who_makes_a_state_that_is_not_there(monkeypatch: pytest.MonkeyPatch, examined) -> None:
    assert "`geolookup sync` makes it" in examined("--offline")[1]["state"]["what"]
    monkeypatch.delenv("GEOLOOKUP_HOME")
    assert "the first lookup or sync makes it" in examined("--offline")[1]["state"]["what"]


def test_edits_wait_for_nobody_if_no_service_is_in_the_stack(tmp_path: Path, examined) -> None:
    assert run(["sync", "--bundled"]) == 0
    assert (
        run(["custom", "create", "--country", "DE", "--city", "Berlin", "--latitude", "52.5", "--longitude", "13.4"])
        == 0
    )
    assert examined("--offline")[1]["edits"]["what"] == "0 edits not sent yet"
