"""What becomes of a path that holds no state: an error that says what is there and what to do; nothing is made."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.columns.common import default_geo
from geolookup.model.errors import NoStateError
from tests.support.data.states import place, publish

CITY = Path(__file__).parents[1] / "data" / "mmdb" / "GeoLite2-City-Test.mmdb"
#: What reads a state, each in a process that names one.
READERS = (
    ["8.8.8.8"],
    ["lookup", "8.8.8.8"],
    ["explain", "8.8.8.8"],
    ["status"],
    ["list"],
    ["verify"],
    ["generations", "list"],
    ["export", "csv", "out.csv"],
    ["outbox", "list"],
    ["custom", "list"],
    ["custom", "create", "--country", "DE", "--latitude", "1", "--longitude", "2"],
)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("opened", [geolookup.open, geolookup.open_editor])
def test_a_database_of_a_provider_is_told_apart_from_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., object]
) -> None:
    file = tmp_path / "GeoLite2-City.mmdb"
    file.write_bytes(CITY.read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        NoStateError, match=r"is a file, not a state directory.*`geolookup sync \S+/GeoLite2-City.mmdb`"
    ):
        opened("GeoLite2-City.mmdb")
    assert tree(tmp_path) == {"GeoLite2-City.mmdb"}


@pytest.mark.parametrize("opened", [geolookup.open, geolookup.open_editor])
def test_a_mistyped_path_is_an_error_and_is_not_made(tmp_path: Path, opened: Callable[..., object]) -> None:
    with pytest.raises(NoStateError, match=r"/mistyped/state: does not exist.*check the path.* geolookup sync"):
        opened(tmp_path / "mistyped" / "state")
    assert tree(tmp_path) == set()


def test_an_empty_folder_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "empty folder").mkdir()
    with pytest.raises(
        NoStateError, match=r"nothing has been published here yet.*GEOLOOKUP_HOME='\S+ folder' geolookup sync"
    ):
        geolookup.open(tmp_path / "empty folder")
    assert tree(tmp_path) == {"empty folder"}


def test_the_state_that_is_probably_meant_is_named(tmp_path: Path) -> None:
    state = tmp_path / "geo" / "production"
    publish(str(state), [place(1, "8.0.0.0/8")])
    for path in (tmp_path / "geo" / "produktion", state / "generations", tmp_path / "geo"):
        with pytest.raises(NoStateError, match=rf"did you mean {state}\?$"):
            geolookup.open(path)
    with pytest.raises(NoStateError, match=rf"name the directory, {state}$"):
        geolookup.open(state / "CURRENT")


@pytest.mark.parametrize("arguments", READERS, ids=lambda arguments: " ".join(arguments[:2]))
def test_no_command_that_reads_makes_the_state_that_is_named(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "typo"))
    assert run(arguments) == 1
    assert f"{tmp_path}/typo: does not exist, so it holds no state: check the path" in capsys.readouterr().err
    assert tree(tmp_path) == set()


def test_the_home_of_the_settings_file_is_a_path_that_somebody_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "geolookup.toml").write_text('home = "typo"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    assert run(["8.8.8.8"]) == 1
    assert f"{tmp_path}/typo: does not exist" in capsys.readouterr().err
    with pytest.raises(NoStateError):
        default_geo()


def test_the_bundled_data_are_published_where_somebody_asks_for_them(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    assert run(["sync", "--bundled", "--url", "http://127.0.0.1:9"]) == 2
    assert run(["sync", "--bundled"]) == 0
    assert "published generation 1: 237 geolocations" in capsys.readouterr().out
    assert run(["8.8.8.8"]) == 0
    assert "\tUS\t" in capsys.readouterr().out
    assert run(["sync", "--bundled"]) == 2
    assert "something is published here already" in capsys.readouterr().err


def test_the_default_directory_answers_from_the_bundled_data_by_every_name(
    default_home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", os.path.join(default_home, "..", "geolookup"))
    assert run(["8.8.8.8"]) == 0
    assert "\tUS\t" in capsys.readouterr().out
    with geolookup.open(default_home) as geo:
        assert geo.status().source == "bundled"


def test_a_sync_into_a_file_says_that_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "GeoLite2-City.mmdb"
    file.write_bytes(CITY.read_bytes())
    monkeypatch.setenv("GEOLOOKUP_HOME", str(file))
    assert run(["sync", str(CITY)]) == 1
    assert f"{file}: there is a file instead of a directory" in capsys.readouterr().err
    assert run(["8.8.8.8"]) == 1
    assert "unset GEOLOOKUP_HOME, which names it, and sync it into a state first" in capsys.readouterr().err
