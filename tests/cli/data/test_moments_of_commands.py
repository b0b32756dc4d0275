"""Moments on the command line: every option and argument that takes one, and what is printed."""

from datetime import UTC, datetime, timedelta

import pytest

from geolookup.cli.app import run
from geolookup.state.base import clock
from tests.support.data.states import place, publish
from tests.support.users.in_process import asked
from tests.support.zones import local_zone


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def test_every_command_takes_moments_as_people_write_them(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = datetime(2026, 3, 1, 6, tzinfo=UTC)
    monkeypatch.setattr(clock, "wall", lambda: moment)
    for number in range(1, 4):
        publish(home, [place(number, "10.0.0.0/8")])
        moment += timedelta(days=1)
    moment -= timedelta(hours=18)
    for when in ("yesterday", "26h", "-26h", "1 day 2 hours ago", "2026-03-02", "2026-03-02 12:00"):
        assert asked(capsys, "lookup", "--as-of", when, "10.0.0.1").strip().split("\t")[3] == "default 2", when
        assert asked(capsys, "generations", "diff", when, "served").startswith("from generation 2 to 3\n")
        assert ",city 2," in asked(capsys, "export", "csv", "-", "--as-of", when)
    assert "served from 2026-03-02 06:00:00Z" in asked(capsys, "generations", "list")
    assert asked(capsys, "lookup", "--as-of", "2026-03-02 06:00:00Z", "10.0.0.1").strip().split("\t")[3] == "default 2"
    asked(capsys, "generations", "pin", "-26h")
    asked(capsys, "generations", "unpin", "26h")
    assert [line.split("\t")[1] for line in asked(capsys, "history", "--since", "-1h").splitlines()] == ["pin", "unpin"]
    assert asked(capsys, "history", "--since", "yesterday") == asked(capsys, "history")
    assert run(["history", "--since", "tomorrow"]) == 2
    assert "is not a moment: write yesterday, 2d," in capsys.readouterr().err
    assert run(["lookup", "--as-of", "1w", "10.0.0.1"]) == 2
    assert "since the record begins at 2026-03-01 06:00:00Z: kept are 1 (served" in capsys.readouterr().err


def test_times_are_printed_and_read_in_the_zone_of_the_person(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
    monkeypatch.setattr(clock, "wall", lambda: moment)
    publish(home, [place(1, "10.0.0.0/8")])
    moment += timedelta(hours=3)
    publish(home, [place(2, "10.0.0.0/8")])
    with local_zone("Europe/Berlin"):
        assert "served from 2026-07-02 00:30:00+02:00" in asked(capsys, "generations", "list")
        assert "published:    2026-07-02 03:30:00+02:00" in asked(capsys, "status")
        assert asked(capsys, "lookup", "--as-of", "2026-07-02 00:30", "10.0.0.1").strip().split("\t")[3] == "default 1"
    with local_zone("America/New_York"):
        assert "served from 2026-07-01 18:30:00-04:00" in asked(capsys, "generations", "list")
