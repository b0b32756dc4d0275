"""The `url` of the settings is the service of the state that was synced with it, not of every state of this user."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.settings.load import load
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.belonging import settings_of
from tests.support.services.running_service import RunningService
from tests.support.users.running_console import RunningConsole

BERLIN = ["--country", "DE", "--city", "Berlin", "--latitude", "52.5", "--longitude", "13.4"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("service") / "service.db") as running:
        running.create(("10.0.0.0", "10.0.0.9"))
        yield running


@pytest.fixture
def office(tmp_path: Path) -> str:
    path = tmp_path / "office.csv"
    path.write_text("network,country,city\n192.0.2.0/24,DE,Ulm\n")
    return str(path)


@pytest.fixture
def settings_file(service: RunningService, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings with a service, whose state is synced; another one is named from now on."""
    path = tmp_path / "geolookup.toml"
    path.write_text(f'home = "{home}"\nurl = "{service.url}"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")
    assert run(["sync"]) == 0
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "another"))
    return path


def service_of(home: str) -> str | None:
    return settings_of(load(), StateDirectory(home)).url


def test_a_file_is_synced_into_another_state_and_followed_there(
    settings_file: Path,
    service: RunningService,
    home: str,
    office: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    assert run(["sync", office]) == 0
    assert run(["192.0.2.1"]) == 0
    assert "Ulm" in capsys.readouterr().out
    Path(office).write_text("network,country,city\n192.0.2.0/24,DE,Bonn\n")
    assert run(["sync"]) == 0
    assert f"so the service of the settings ({service.url}) is not asked" in capsys.readouterr().err
    assert run(["refresh"]) == 0
    assert run(["192.0.2.1"]) == 0
    assert "Bonn" in capsys.readouterr().out
    assert run(["10.0.0.1"]) == 4, "nothing of the service came here"
    # The edits of this state are not for that service either.
    assert run(["custom", "create", *BERLIN]) == 0
    assert run(["push"]) == 2
    assert service_of(str(tmp_path / "another")) is None
    assert service_of(home) == service.url


def test_the_state_of_the_service_still_takes_no_file_beside_it(
    settings_file: Path, home: str, office: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    assert run(["sync", office]) == 2
    assert "sources are configured, so FILE is not taken" in capsys.readouterr().err


def test_a_state_without_sources_is_synced_with_the_service_of_the_settings(
    settings_file: Path, tmp_path: Path
) -> None:
    assert service_of(str(tmp_path / "another")) is not None
    assert run(["sync"]) == 0
    assert run(["10.0.0.1"]) == 0


def test_a_service_that_is_named_for_this_run_is_asked(
    settings_file: Path, service: RunningService, office: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(["sync", office]) == 0
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    assert service_of(str(tmp_path / "another")) == service.url
    assert run(["sync", office]) == 0, "a file goes before it"
    monkeypatch.delenv("GEOLOOKUP_URL")
    assert run(["sync", office, "--url", service.url]) == 2


def test_the_consoles_sync_follows_the_files_of_its_state(settings_file: Path, office: str, tmp_path: Path) -> None:
    assert run(["sync", office]) == 0
    with RunningConsole(str(tmp_path / "another")) as console:
        assert console.console.settings_of_state().url is None
