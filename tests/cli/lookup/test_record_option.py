"""``geolookup ADDRESS --record``, and ``--field`` with a path into the record."""

import json
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.support.data.source_files import mmdb

BERLIN = {
    "country": {"iso_code": "DE", "names": {"de": "Deutschland"}},
    "subdivisions": [{"iso_code": "BE"}],
    "location": {"time_zone": "Europe/Berlin", "accuracy_radius": 20},
}


@pytest.fixture(autouse=True)
def state(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    path = tmp_path / "berlin.mmdb"
    path.write_bytes(mmdb({"10.0.0.0/8": BERLIN}, tmp_path, version=4))
    pull(StateDirectory(home), Settings(sources=(SourceSettings(name="berlin", location=str(path)),), attempts=1))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(words)) == code
    return capsys.readouterr().out


def test_the_whole_record_stands_below_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "10.1.1.1", "--record").splitlines()
    assert lines[0].startswith("10.1.1.1\t")
    assert set(lines[1:]) == {
        "  country.iso_code\tDE",
        "  country.names.de\tDeutschland",
        "  subdivisions.0.iso_code\tBE",
        "  location.time_zone\tEurope/Berlin",
        "  location.accuracy_radius\t20",
    }


def test_as_json_it_is_a_member_and_null_where_nothing_answers(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "10.1.1.1", "9.9.9.9", "--record", "--format", "ndjson", code=4).splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["record"] for each in found] == [BERLIN, None]
    (found,) = json.loads(said(capsys, "10.1.1.1", "--record", "--json"))
    assert found["record"] == BERLIN


def test_a_path_is_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "10.1.1.1", "--field", "location.time_zone") == "Europe/Berlin\n"
    assert said(capsys, "10.0.0.0/9", "--fields", "first,subdivisions.0.iso_code") == "10.0.0.0\tBE\n"
    out = said(capsys, "10.1.1.1", "9.9.9.9", "--fields", "ip,location.accuracy_radius", "--format", "csv", code=4)
    assert out == "ip,location.accuracy_radius,error\n10.1.1.1,20,\n9.9.9.9,,\n"


def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "10.1.1.1", "--record", "--format", "csv", code=2)
    said(capsys, "10.1.1.1", "--record", "--field", "ip", code=2)
    said(capsys, "10.1.1.1", "--field", "time_zones", code=2)
