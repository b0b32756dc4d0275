"""``status --check``: what failed in the last runs until one succeeds, and how old data may be for a monitor."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.settings.table import Settings
from geolookup.state.base import failures
from geolookup.state.base.clock import wall
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.push import push
from tests.faults.raw_server import RawServer, answer
from tests.state.edits.editing import BERLIN
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit status of a check, and what it says is wrong."""
    capsys.readouterr()
    code = run(["status", "--check", *arguments])
    return code, [
        line.partition(":")[2].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("WRONG:")
    ]


@pytest.mark.parametrize("command", ["sync", "refresh"])
def test_a_run_that_failed_shows_until_one_succeeds(
    home: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = listed(many(40), count=40)
    with RawServer(good, answer(b"<html>"), answer(b"<html>"), good) as server:
        monkeypatch.setenv("GEOLOOKUP_URL", server.url)
        assert run([command]) == 0
        assert check(capsys) == (0, [])
        assert run([command]) == 1
        code, (wrong, *more) = check(capsys)
        assert (code, more) == (1, [])
        assert wrong.startswith(f"the last {command} failed: ")
        assert run([command]) == 1
        run(["status", "--json"])
        with geolookup.open(home) as geo:
            (failure,) = geo.status().failures
        assert (failure.stage, failure.run) == ("pull", command)
        assert failure.since < failure.at
        capsys.readouterr()
        run(["status", "--json"])
        assert json.loads(capsys.readouterr().out)["failures"] == [failure.as_dict()]
        run(["status"])
        assert f"{command} FAILED: " in capsys.readouterr().out
        assert run([command]) == 0
    assert check(capsys) == (0, [])
    assert not os.path.exists(os.path.join(home, "failures.json"))


def test_a_push_that_failed_shows_until_a_push_or_refresh_succeeds(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(listed(many(40), count=40), answer(b"", status="401 X"), listed(many(40), count=40)) as server:
        monkeypatch.setenv("GEOLOOKUP_URL", server.url)
        assert run(["sync"]) == 0
        with Editor(home) as editor:
            number = editor.create(**BERLIN)
        assert run(["push"]) == 1
        code, (wrong,) = check(capsys)
        assert code == 1
        assert wrong.startswith("the last push failed: ")
        assert run(["sync"]) == 0  # which says nothing of pushing
        assert check(capsys)[0] == 1
    with Editor(home) as editor:
        for row in editor.outbox():
            editor.drop(row.id)
    assert number
    assert run(["push"]) == 0
    assert check(capsys) == (0, [])


def test_settings_that_no_refresh_can_use_show_and_a_run_that_is_busy_does_not(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    assert run(["sync", "--url", "http://127.0.0.1:9", "--preview"]) == 1
    with StateDirectory(home).locks.run():
        assert run(["sync", "--url", "http://127.0.0.1:9"]) == 75
    assert check(capsys) == (0, [])


def test_what_is_held_is_not_a_failure(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(number, f"10.0.{number}.0/24") for number in range(1, 50)])
    with RawServer(answer(b"<html>"), listed(many(2), count=2)) as server:
        monkeypatch.setenv("GEOLOOKUP_URL", server.url)
        assert run(["sync"]) == 1
        assert check(capsys)[0] == 1
        assert run(["sync"]) == 3
    assert check(capsys) == (3, [])


def test_a_note_that_cannot_be_written_or_read_fails_nothing(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    Path(home, "failures.json").write_text('[{"stage": ')
    assert failures.failures(home) == ()
    assert check(capsys) == (0, [])
    Path(home, "failures.json").unlink()
    Path(home, "failures.json").mkdir()
    with RawServer(answer(b"<html>")) as server:
        assert run(["sync", "--url", server.url]) == 1
    assert check(capsys)[0] in (0, 1)


def test_a_push_from_a_program_that_stops_by_itself_is_a_failure(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8")], url="http://127.0.0.1:9")
    with Editor(home) as editor:
        editor.create(**BERLIN)
    report = push(StateDirectory(home), Settings(url="http://127.0.0.1:9", attempts=1))
    assert report.stopped is not None
    assert [each.message for each in failures.failures(home)] == [report.stopped]


@pytest.mark.parametrize(
    ("age", "settings", "arguments", "wrong"),
    [
        (timedelta(days=7), {}, [], False),
        (timedelta(days=9), {}, [], True),
        (timedelta(days=9), {"CHECK_MAX_AGE": "10d"}, [], False),
        (timedelta(days=9), {"CHECK_MAX_AGE": "none"}, [], False),
        (timedelta(days=9), {"MAX_AGE": "30d"}, [], False),
        (timedelta(hours=40), {"MAX_AGE": "36h"}, [], True),
        (timedelta(hours=40), {"MAX_AGE": "36h"}, ["--max-age", "2d"], False),
        (timedelta(hours=40), {"MAX_AGE": "36h", "CHECK_MAX_AGE": "none"}, [], True),
        (timedelta(days=9), {}, ["--max-age", "none"], False),
        (timedelta(hours=2), {}, ["--max-age", "1h"], True),
    ],
)
def test_how_old_data_may_be_for_a_check(
    home: str,
    age: timedelta,
    settings: dict[str, str],
    arguments: list[str],
    wrong: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(home, [place(1, "8.0.0.0/8")])
    moment = wall() + age
    monkeypatch.setattr("geolookup.state.base.clock.wall", lambda: moment)
    for name, value in settings.items():
        monkeypatch.setenv(f"GEOLOOKUP_{name}", value)
    code, told = check(capsys, *arguments)
    assert code == (1 if wrong else 0)
    assert all("old, and should not be older than" in line and "geolookup sync" in line for line in told)
    assert len(told) == wrong


def test_bundled_data_are_too_old_for_a_check_and_what_helps_is_said(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = wall().replace(year=2030)
    monkeypatch.setattr("geolookup.state.base.clock.wall", lambda: moment)
    assert run(["sync", "--bundled"]) == 0
    code, (wrong,) = check(capsys)
    assert code == 1
    assert "no sync renews the bundled data: for cities: `geolookup source add" in wrong
    assert check(capsys, "--max-age", "none") == (0, [])
    assert run(["explain", "8.8.8.8"]) == 0
    out = capsys.readouterr().out
    assert "confirmed" not in out
    assert out.splitlines()[-1].endswith("days old (nobody confirms these data)")
    assert run(["status", "--check", "--max-age", "soon"]) == 2
    assert "check_max_age: 'soon' is not a length of time: write 90, 36h or 2d; or none" in capsys.readouterr().err
    assert run(["status", "--max-age", "2d"]) == 2


def test_a_failure_of_many_lines_is_shown_in_one(home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.txt").write_text("neither this\nnor that\n")
    assert run(["sync", "--bundled"]) == 0
    assert run(["sync", str(tmp_path / "odd.txt")]) == 1
    assert len(capsys.readouterr().err.splitlines()) > 2
    for arguments in (["status"], ["status", "--check"]):
        run(arguments)
        out = capsys.readouterr().out
        assert "odd.txt" in out
        assert "\\n" not in out
        assert "There are:" not in out
