"""The address of ``sync --url`` is remembered with the state; options and settings go before it; no secret is kept."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.base.current import read_current
from tests.state.generations.staged import tree
from tests.support.services.running_service import RunningService

BERLIN = ["--country", "DE", "--city", "Berlin", "--latitude", "52.5", "--longitude", "13.4"]


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("service") / "service.db") as running:
        running.create(("10.0.0.0", "10.0.0.9"))
        yield running


def test_a_push_and_a_sync_after_sync_url_go_to_that_service(
    service: RunningService, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["push"]) == 2  # nothing is remembered yet
    assert "no upstream is configured" in capsys.readouterr().err
    assert run(["sync", "--url", service.url]) == 0
    assert f"{service.url} is remembered with the state: later commands need no --url" in capsys.readouterr().err
    assert run(["sync", "--url", service.url]) == 0
    assert "is remembered" not in capsys.readouterr().err
    assert run(["custom", "create", *BERLIN]) == 0
    capsys.readouterr()
    assert run(["push"]) == 0
    said = capsys.readouterr()
    assert "1 done in" in said.out
    assert f"the service is {service.url}, from which this state was synced: no setting names another" in said.err
    assert run(["sync"]) == 0
    assert run(["check", "--source", "service"]) == 0
    capsys.readouterr()
    assert run(["refresh"]) == 0
    assert capsys.readouterr().err == ""  # cron would send a mail
    assert run(["status"]) == 0
    assert (
        f"service:      {service.url} (remembered from the last sync: no setting names one)" in capsys.readouterr().out
    )


def test_a_service_that_is_not_in_the_settings_is_named_before_and_when_it_leaves(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "geolookup.toml"
    config.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    (tmp_path / "office.csv").write_text("network,country\n192.0.2.0/24,DE\n")
    (tmp_path / "vpn.csv").write_text("network,country\n198.51.100.0/24,DE\n")
    office, vpn = str(tmp_path / "office.csv"), str(tmp_path / "vpn.csv")
    keep = f"geolookup config init --url {service.url}"
    assert run(["sync", "--url", service.url]) == 0
    capsys.readouterr()
    assert run(["sync", office]) == 0
    told = capsys.readouterr().err
    assert f"this state was synced from {service.url}; from now on the file is its only source" in told
    assert f"{keep}; then geolookup source add {office}" in told
    assert run(["sync", office]) == 0
    assert run(["sync", vpn]) == 3
    told = capsys.readouterr().err
    assert "synced from" not in told, "it has left already"
    assert f"To have both: geolookup sync {vpn} {office}. If" in told
    assert run(["sync", vpn, office]) == 0

    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "another"))
    assert run(["sync", "--url", service.url]) == 0
    capsys.readouterr()
    assert run(["source", "add", office, "--first"]) == 0
    assert f"is not in the settings, and leaves with the next sync; to keep it: {keep}\n" in capsys.readouterr().err
    assert run(keep.split()[1:]) == 0
    assert run(["source", "add", vpn]) == 0
    assert "leaves" not in capsys.readouterr().err
    assert run(["sync"]) == 0
    assert run(["192.0.2.1", "10.0.0.1"]) == 0, capsys.readouterr()


def test_an_option_goes_before_the_settings_and_these_before_what_is_remembered(
    service: RunningService,
    home: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sync", "--url", service.url]) == 0
    config = tmp_path / "geolookup.toml"
    config.write_text('url = "http://127.0.0.1:9"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    assert run(["sync"]) == 1
    capsys.readouterr()
    assert run(["status"]) == 0
    named = f"http://127.0.0.1:9 (`url` in {config}); what is served is from {service.url}"
    assert f"service:      {named}" in capsys.readouterr().out
    monkeypatch.setenv("GEOLOOKUP_URL", "http://127.0.0.1:10")
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["service"] == {
        "url": "http://127.0.0.1:10",
        "from": "environment",
        "where": "GEOLOOKUP_URL",
        "synced_from": service.url,
    }
    assert run(["sync", "--url", service.url]) == 0
    assert "remembered" not in capsys.readouterr().err


def test_sources_of_the_settings_are_all_that_a_sync_pulls(
    service: RunningService, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["sync", "--url", service.url]) == 0
    (tmp_path / "office.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
    config = tmp_path / "geolookup.toml"
    config.write_text('[[source]]\nname = "office"\nlocation = "office.csv"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    monkeypatch.setenv("GEOLOOKUP_GUARD_ADDRESSES", "0")
    assert run(["sync"]) == 0
    assert [entry["name"] for entry in read_current(home).published["stack"]] == ["office"]


def test_a_file_replaces_a_remembered_service(service: RunningService, home: str, tmp_path: Path) -> None:
    assert run(["sync", "--url", service.url]) == 0
    (tmp_path / "office.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
    assert run(["sync", str(tmp_path / "office.csv")]) == 0
    assert run(["sync"]) == 0
    assert read_current(home).published["url"] is None


def test_no_secret_is_remembered(
    service: RunningService, home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GEOLOOKUP_TOKEN", "s3cr3t-of-nobody")
    assert run(["sync", "--url", service.url]) == 0
    for name in tree(home):
        path = os.path.join(home, name)
        assert not os.path.isfile(path) or b"s3cr3t-of-nobody" not in Path(path).read_bytes(), name
