"""``status --check``, `GeoLookup.checks`, doctor and the console try what the next night needs."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.share.needs import Needs
from geolookup.state.base import failures, files
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.web.probes import Metrics
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24")])


def check(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = run(["status", "--check"])
    lines = capsys.readouterr().out.splitlines()
    return code, "\n".join(line for line in lines if line.startswith(("WRONG:", "check:")))


def verdicts(home: str) -> dict[str, str]:
    with geolookup.open(home) as geo:
        return {each.name: each.verdict for each in geo.checks()}


def test_all_is_well_names_what_was_tried_and_nothing_is_left(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir(home))
    code, said = check(capsys)
    assert (code, said.split()[1:]) == (0, ["all", "is", "well"])
    assert verdicts(home) == dict.fromkeys(("write", "disk", "edits", "lock", "runs"), "ok")
    assert sorted(os.listdir(home)) == before
    run(["status", "--check", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["checks"]] == ["write", "disk", "edits", "lock", "runs"]


def test_a_write_that_fails_is_wrong(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_path: str, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geolookup.base.disk.write_new", full)
    code, said = check(capsys)
    assert code == 1
    assert "nothing can be written" in said
    assert "disk is full" in said
    assert run(["doctor", "--offline", "--json"]) == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert found["write"]["verdict"] == "wrong"


def test_a_disk_without_room_for_one_more_generation_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _path: 1 << 20)
    code, said = check(capsys)
    assert code == 1
    assert "1 MiB free" in said


def test_a_damaged_edits_db_is_wrong(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Editor(home) as editor:
        editor.create(**BERLIN)
    path = os.path.join(home, "edits.db")
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    code, said = check(capsys)
    assert code == 1
    assert "edits.db" in said
    assert verdicts(home)["edits"] == "wrong"


_RUN = """
import sys
from geolookup.state.base import failures
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
directory = StateDirectory(sys.argv[1])
with running(directory), failures.noted(directory.home, "sync", "pull"):
    print("begun", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def begun(home: str):  # type: ignore[no-untyped-def]
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def test_a_living_run_is_no_failure_and_a_killed_one_is_until_one_succeeds(
    home: str, begun: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(capsys)[0] == 0
    with geolookup.open(home) as geo:
        (lock,) = (each for each in geo.checks() if each.name == "lock")
    assert f"sync, process {begun.pid}" in lock.what
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    code, said = check(capsys)
    assert code == 1
    assert "the last sync failed: it began and did not end" in said
    directory = StateDirectory(home)
    with running(directory), failures.noted(home, "sync", "pull"):
        pass
    assert check(capsys)[0] == 0


def test_a_failure_that_could_not_be_recorded_is_known_by_the_missing_end(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = StateDirectory(home)

    def full(_path: str, _data: bytes, **_mode: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("geolookup.base.disk.replace", full)
        with (
            pytest.raises(geolookup.PullError),
            running(directory),
            failures.noted(home, "sync", "pull"),
        ):
            raise geolookup.PullError("nothing came")
    assert check(capsys)[0] == 1


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="takes another user")
def test_a_user_who_may_only_read_is_told_what_was_not_tried(home: str) -> None:
    for folder, _, names in os.walk(home):
        os.chmod(folder, 0o755)
        os.chown(folder, 65534, 65534)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o600 if name == "run.lock" else 0o644)
            os.chown(os.path.join(folder, name), 65534, 65534)
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
    command = [*plain, sys.executable, "-m", "geolookup", "status", "--check"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked
    assert "all is well" not in asked.stdout
    assert "not tried: write, lock, runs" in asked.stdout


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="mounts")
def test_on_a_full_disk_the_check_says_it(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = f"{home}-small"
    os.mkdir(small)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", small], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        shutil.copytree(home, os.path.join(small, "state"))
        monkeypatch.setenv("GEOLOOKUP_HOME", os.path.join(small, "state"))
        assert check(capsys)[0] == 0
        with open(os.path.join(small, "ballast"), "wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))
        code, said = check(capsys)
        assert code == 1
        assert "the disk is full" in said
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        code, said = check(capsys)
        assert code == 1
        assert "read-only" in said
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_the_metrics_say_it_and_the_last_success_is_there_from_the_start(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    textfile = tmp_path / "refresh.prom"
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    run(["refresh", "--textfile", str(textfile), "--url", "http://127.0.0.1:1"])
    lines = textfile.read_text().splitlines()
    assert "geolookup_refresh_last_success_timestamp_seconds 0.0" in lines
    assert 'geolookup_state_check{check="write"} 1.0' in lines
    assert any(line.startswith("geolookup_disk_free_bytes ") for line in lines)
    assert any(line.startswith("geolookup_disk_needed_bytes ") for line in lines)


def test_share_has_the_same_as_metrics(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    with geolookup.open(home) as geo:
        needs = Needs(geo, metrics)
        metrics.before_each(needs.read)
        text = metrics.exposition().decode()
    assert 'geolookup_state_check{check="write"} 1.0' in text
    assert "geolookup_disk_free_bytes " in text
