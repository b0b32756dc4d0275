"""The date of the data: what a file says of itself, and never when it was synced."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run
from tests.support.users.in_process import accept_digest, said

MMDB = Path(__file__).parents[2] / "data" / "mmdb"
FEED = "# {}\n8.8.8.0/24,US,US-CA,Mountain View,\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    path = tmp_path / "geolookup.toml"
    path.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def status(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(said(capsys, "status", "--json"))


def rir(serial: str, end: str) -> str:
    return f"2|ripencc|{serial}|1|19830705|{end}|+0200\nripencc|DE|ipv4|2.0.0.0|256|20240601|allocated\n"


@pytest.mark.parametrize(
    ("name", "text", "dated"),
    [
        ("feed.csv", FEED.format("updated: 2026-06-05"), "2026-06-05"),
        ("feed.csv", FEED.format("Generated 2026-06-05T10:00:00+02:00"), "2026-06-05T08:00:00Z"),
        ("feed.csv", "# Our feed\n" + FEED.format("last-modified: 2026-06-05 10:00:00"), "2026-06-05T10:00:00Z"),
        ("feed.csv", FEED.format("2026-06-05"), "2026-06-05"),
        ("feed.csv", FEED.format("we moved on 2026-06-05"), None),
        ("feed.csv", FEED.format("updated: 2026-13-05"), None),
        ("feed.csv", "8.8.8.0/24,US,US-CA,Mountain View,\n# updated: 2026-06-05\n", None),
        ("delegated", rir("20240601", "20240531"), "2024-05-31"),
        ("delegated", rir("1717199999", "20240531"), "2024-05-31"),
        ("delegated", rir("20240601", "00000000"), "2024-06-01"),
        ("own.csv", "network,country\n8.8.8.0/24,US\n", None),
    ],
)
def test_a_source_is_of_the_day_that_its_file_says(
    name: str, text: str, dated: str | None, tmp_path: Path, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    said(capsys, "sync", name)
    found = status(capsys)
    assert (found["dated"], found["sources"][0]["dated"]) == (dated, dated)
    with geolookup.open(home) as geo:
        assert (geo.status().dated, geo.status().sources[0].dated) == (dated, dated)
    told = said(capsys, "status") + said(capsys, "doctor")
    assert told.count(f"data of {dated[:10] if dated else 'unknown date'}") == 2
    (tmp_path / "log").write_text("8.8.8.8\n2.0.0.1\n")
    assert json.loads(said(capsys, "top", "log", "--json"))["dated"] == dated


def test_nothing_old_gets_young_by_being_synced_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "city.mmdb").write_bytes((MMDB / "GeoLite2-City-Test.mmdb").read_bytes())
    said(capsys, "sync", "city.mmdb")
    before = status(capsys)
    assert before["dated"].startswith("2026-02-04")
    said(capsys, "sync")
    os.utime(tmp_path / "city.mmdb", (2e9, 2e9))
    said(capsys, "sync")
    after = status(capsys)
    assert after["dated"] == before["dated"]
    assert after["checked_at"] > before["checked_at"]
    assert "2026-02-04" in said(capsys, "status")


def test_the_same_answers_with_a_newer_date_are_of_the_newer_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "feed.csv"
    for said_in_file, dated in (
        ("2026-06-05", "2026-06-05"),
        ("2026-07-05", "2026-07-05"),
        ("2026-05-05", "2026-07-05"),
    ):
        path.write_text(FEED.format(said_in_file))
        said(capsys, "sync", "feed.csv")
        found = status(capsys)
        assert (found["dated"], found["generation"]) == (dated, 1)


def test_an_older_file_is_held_and_accepting_it_takes_its_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "feed.csv"
    path.write_text(FEED.format("2026-06-05"))
    said(capsys, "sync", "feed.csv")
    path.write_text(FEED.format("2026-07-05"))
    said(capsys, "sync", "feed.csv")  # the same answers, with a date that the guard must know
    path.write_text(FEED.format("2026-06-15") + "8.8.4.0/24,US,US-CA,Mountain View,\n")
    told = said(capsys, "sync", "feed.csv", code=3)
    assert "2026-06-15, older than those that are served, of 2026-07-05" in told
    said(capsys, "sync", "--accept", accept_digest(told))
    assert status(capsys)["dated"] == "2026-06-15"


def test_the_oldest_file_of_a_folder_and_the_oldest_source_of_a_stack_say_the_date(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "feeds"
    folder.mkdir()
    (folder / "a.csv").write_text(FEED.format("2026-06-05"))
    (folder / "b.csv").write_text("# updated: 2026-03-05\n8.8.4.0/24,US,US-CA,Austin,\n")
    (tmp_path / "own.csv").write_text("network,country\n10.0.0.0/8,DE\n")
    (tmp_path / "old").write_text(rir("20240601", "20240531"))
    for name in ("feeds", "own.csv", "old"):
        assert run(["source", "add", name]) == 0
    said(capsys, "sync")
    found = status(capsys)
    assert found["dated"] == "2024-05-31"
    assert [each["dated"] for each in found["sources"]] == ["2026-03-05", None, "2024-05-31"]
    listed = json.loads(said(capsys, "source", "show", "feeds", "--json"))
    assert listed["dated"] == "2026-03-05"
    assert [line for line in said(capsys, "source", "list").splitlines() if "own" in line and "unknown" in line]


def test_the_bundled_data_are_of_their_own_day(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "sync", "--bundled")
    assert status(capsys)["dated"] == status(capsys)["sources"][0]["dated"] == "2026-02-01T00:00:00.000Z"
    assert "checked" not in said(capsys, "status")


def test_a_check_fails_if_the_date_in_the_file_is_too_long_ago(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "feed.csv").write_text(FEED.format("2020-06-05"))
    (tmp_path / "own.csv").write_text("network,country\n10.0.0.0/8,DE\n")
    own = '[[source]]\nname = "own"\nlocation = "own.csv"\n'
    feed = f'[[source]]\nname = "feed"\nlocation = "{tmp_path}/feed.csv"\n'
    config.write_text(own.replace("own.csv", f"{tmp_path}/own.csv") + feed)
    said(capsys, "sync")
    said(capsys, "status", "--check")
    config.write_text('max_data_age = "30d"\n' + config.read_text())
    told = said(capsys, "status", "--check", code=1)
    assert "the data of feed are of 2020-06-05" in told
    assert "more than max_data_age allows (30 days)" in told
    assert "data of own" not in told
    said(capsys, "8.8.8.8")
    config.write_text(config.read_text() + 'max_data_age = "5000d"\n')
    said(capsys, "sync")
    said(capsys, "status", "--check")
    config.write_text(config.read_text().replace("5000d", "soon"))
    assert "max_data_age: 'soon' is not a length of time" in said(capsys, "status", code=2)


def test_presets_have_the_age_that_their_data_may_have(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, days in (("dbip-city-lite", 45), ("rir", None)):
        said(capsys, "source", "add", name)
        limit = json.loads(said(capsys, "source", "show", name, "--json"))["max_data_age_s"]
        assert limit == (None if days is None else days * 86400)


def test_metrics_and_doctor_tell_the_date_that_the_file_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "feed.csv").write_text(FEED.format("updated: 2026-06-05"))
    (tmp_path / "own.csv").write_text("network,country\n9.9.9.0/24,CH\n")
    (tmp_path / "geolookup.toml").write_text(
        "".join(f'[[source]]\nname = "{name}"\nlocation = "{name}.csv"\n' for name in ("feed", "own"))
    )
    said(capsys, "refresh", "--textfile", "out.prom")
    found = [line for line in Path("out.prom").read_text().splitlines() if line.startswith("geolookup_data_timestamp")]
    assert found == ['geolookup_data_timestamp_seconds{source="feed"} 1780617600.0']
    assert "more than max_data_age" not in said(capsys, "doctor")
    monkeypatch.setenv("GEOLOOKUP_MAX_DATA_AGE", "1d")
    assert "the data of feed are of 2026-06-05" in said(capsys, "doctor")
    shown = json.loads(said(capsys, "source", "show", "feed", "--json"))
    assert (shown["dated"], shown["last_modified"]) == ("2026-06-05", None)
