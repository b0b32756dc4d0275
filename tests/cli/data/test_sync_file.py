"""``sync FILE``: a file or an address that becomes the only source, and what a person hears if it cannot."""

import json
import os
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import pytest

from geolookup.cli.app import run
from geolookup.state.publishing.directory import StateDirectory
from tests.faults.raw_server import RawServer, answer
from tests.support.data.states import URL, place, publish
from tests.support.users.in_process import accept_digest, said


@pytest.fixture(autouse=True)
def config(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    path = tmp_path / "geolookup.toml"
    path.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def test_an_error_names_the_address_and_not_the_temporary_file(capsys: pytest.CaptureFixture[str]) -> None:
    bad = b"first,last,city\n10.0.0.9,10.0.0.2,x\n"
    with RawServer(answer(b"<!DOCTYPE html>\n<title>Log in</title>"), answer(bad)) as server:
        address = f"{server.url}/office.csv"
        told = said(capsys, "sync", address, code=1)
        assert told.startswith(f"geolookup: {address}: it is a web page")
        told = said(capsys, "sync", address, code=1)
        assert told.startswith(f"geolookup: {address}: there is not one good row")


def test_the_kind_and_the_fields_can_be_given_and_are_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("network,land\n10.0.0.0/8,DE\n")
    said(capsys, "sync", "x.csv", "--kind", "ranges-csv", "--field", "country=land")
    path.write_text("network,land\n10.0.0.0/8,FR\n")
    said(capsys, "sync", "--accept", accept_digest(said(capsys, "sync", code=3)))
    assert "FR" in said(capsys, "10.1.1.1")
    (source,) = json.loads(said(capsys, "status", "--json"))["sources"]
    assert source["kind"] == "ranges-csv"
    said(capsys, "sync", "--kind", "ranges-csv", code=2)
    said(capsys, "sync", "x.csv", "--kind", "csv", code=2)
    said(capsys, "sync", "x.csv", "--kind", "rir", code=1)


@pytest.mark.parametrize(("file", "reason"), [("", "is empty"), ("ftp://geo.example/x", "ftp:// cannot be fetched")])
def test_what_cannot_be_a_file_is_refused(file: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert reason in said(capsys, "sync", file, code=2)
    assert reason in said(capsys, "check", file, code=2)


def test_a_pipe_is_refused_before_anything_waits_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", "pipe", "/dev/null"):
        for command in ("sync", "check"):
            assert f"'{name}': a pipe or device cannot be a source" in said(capsys, command, name, code=2)


def test_if_sources_are_configured_the_command_that_is_meant_is_said(
    config: Path, home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my file.csv").write_text("network,country\n10.0.0.0/8,DE\n")
    publish(home, [place(1, "8.0.0.0/8")], url=URL)  # so the service of the settings is this state's
    for settings in (f'url = "{URL}"\n', '[[source]]\nname = "a"\nlocation = "a.csv"\n'):
        config.write_text(settings)
        assert "geolookup source add 'my file.csv'" in said(capsys, "sync", "my file.csv", code=2)


def test_a_later_file_takes_the_place_of_the_earlier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, country in (("a", "DE"), ("b", "FR")):
        (tmp_path / f"{name}.csv").write_text(f"network,country\n10.0.0.0/8,{country}\n")
        told = said(capsys, "sync", f"{name}.csv", code=3 if name == "b" else 0)
        if name == "b":
            said(capsys, "sync", "--accept", accept_digest(told))
        assert country in said(capsys, "10.1.1.1")
    assert [each["name"] for each in json.loads(said(capsys, "status", "--json"))["sources"]] == ["b"]


def test_another_run_is_waited_for_if_asked_to(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    (tmp_path / "r.csv").write_text("network,country\n8.0.0.0/8,US\n")
    command = ["sync", str(tmp_path / "r.csv")]
    assert run(command) == 0
    with StateDirectory(home).locks.run():
        assert run(command) == 75
        assert run([*command, "--wait", "0.1s"]) == 75
        assert "another sync, push or refresh is running" in capsys.readouterr().err
    ends = Event()

    def other_run() -> None:
        with StateDirectory(home).locks.run():
            begun.set()
            ends.wait(60)

    begun = Event()
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(other_run)
        assert begun.wait(60)
        waiting = pool.submit(run, [*command, "--wait", "60"])
        assert not wait([waiting], 0.3).done
        ends.set()
        assert waiting.result(60) == 0
        other.result(60)
    assert run([*command, "--wait", "soon"]) == 2


def test_a_sync_says_that_custom_places_stay_above_what_it_publishes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.csv"
    file.write_text("first,last,country\n" + "".join(f"10.0.{n}.0,10.0.{n}.255,DE\n" for n in range(100)))
    assert "published generation 1: 1 geolocation, 100 blocks\n" in said(capsys, "sync", str(file))
    said(capsys, "custom", "create", "Here", "--block", "10.20.0.0/16", "--country", "DE")
    with file.open("a") as more:
        more.write("10.1.0.0,10.1.0.255,FR\n")
    told = said(capsys, "sync", "--json")
    assert json.loads(told)["custom_places"] == 1
    with file.open("a") as more:
        more.write("10.2.0.0,10.2.0.255,IT\n")
    assert "3 geolocations, 102 blocks; your 1 custom place stays above them; " in said(capsys, "sync")
