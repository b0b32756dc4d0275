"""A file that was added without a preset has the licence terms of the provider that made it, from sync to export."""

import gzip
import json
import shutil
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import maxminddb
import pytest

import geolookup
from geolookup.state.base import clock
from tests.support.users.in_process import said

MMDB = Path(__file__).parents[2] / "data" / "mmdb"
CREDIT = "This product includes GeoLite2 data created by MaxMind, available from https://www.maxmind.com"
EULA = "GeoLite2 End User License Agreement"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    path = tmp_path / "geolookup.toml"
    path.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(MMDB / "GeoLite2-City-Test.mmdb", tmp_path / "city.mmdb")
    return path


def test_a_synced_geolite2_file_is_not_exported_unless_the_person_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "sync", "city.mmdb")
    told = said(capsys, "export", "mmdb", "out.mmdb", code=2)
    assert f"city ({EULA}) answers" in told
    assert "--licence-allows" in told
    assert not (tmp_path / "out.mmdb").exists()
    assert CREDIT in said(capsys, "status")
    assert CREDIT in said(capsys, "source", "list")
    (source,) = json.loads(said(capsys, "status", "--json"))["sources"]
    assert (source["licence"], source["keep_days"], source["redistribute"]) == (EULA, 30, False)
    said(capsys, "export", "mmdb", "out.mmdb", "--licence-allows")
    with maxminddb.open_database(str(tmp_path / "out.mmdb")) as written:
        assert CREDIT in written.metadata().description["en"]
    # What was exported is still their data.
    assert "does not let others have" in said(capsys, "check", "out.mmdb")


def test_an_unchanged_file_keeps_its_terms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "sync", "city.mmdb")
    for step in range(2):
        if step:
            (tmp_path / "city.mmdb").touch()  # read again, and found to have the same content
        said(capsys, "sync")
        assert EULA in said(capsys, "export", "csv", "out.csv", code=2)


def test_the_settings_go_before_what_is_recognised(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "source", "add", "city.mmdb")
    said(capsys, "sync")
    shown = json.loads(said(capsys, "source", "show", "city", "--json"))
    assert (shown["licence"], shown["keep_days"], shown["redistribute"]) == (EULA, 30, False)
    said(capsys, "export", "csv", "out.csv", code=2)
    config.write_text(config.read_text() + 'redistribute = true\nkeep_days = 7\nlicence = "by contract"\n')
    said(capsys, "sync")
    assert CREDIT in said(capsys, "export", "csv", "out.csv")
    shown = json.loads(said(capsys, "source", "show", "city", "--json"))
    assert (shown["licence"], shown["keep_days"], shown["redistribute"]) == ("by contract", 7, True)
    assert shown["attribution"] == CREDIT


def test_a_bare_file_of_another_provider_is_credited_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dbip-city-lite-2026-02.csv").write_text("8.0.0.0,8.0.0.255,NA,US,California,San Jose,37.5,-122\n")
    said(capsys, "sync", "dbip-city-lite-2026-02.csv")
    assert "to be shown with the data: IP Geolocation by DB-IP" in said(capsys, "export", "csv", "out.csv")


def test_the_names_in_an_archive_tell_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "download.zip", "w") as archive:
        archive.writestr(
            "ip-location/geolite2-city-ipv4.csv", "8.0.0.0,8.0.0.255,US,CA,,San Jose,,37.5,-122,America/Los_Angeles\n"
        )
    said(capsys, "sync", "download.zip")
    assert EULA in said(capsys, "export", "csv", "out.csv", code=2)


def test_a_file_of_ones_own_in_a_stack_is_exported_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "office.csv").write_text("first,last,country\n10.0.0.0,10.0.0.255,DE\n")
    with gzip.open(tmp_path / "geo.gz", "wb") as packed:
        packed.write((tmp_path / "city.mmdb").read_bytes())
    for name in ("office.csv", "./geo.gz"):
        said(capsys, "source", "add", name)
    said(capsys, "sync")
    assert EULA in said(capsys, "export", "csv", "out.csv", code=2)
    assert CREDIT not in said(capsys, "export", "csv", "out.csv", "--source", "office")


def test_superseded_versions_go_after_as_many_days_as_the_recognised_licence_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def day(number: int) -> None:
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
        monkeypatch.setattr(clock, "wall", lambda: moment)

    file = tmp_path / "geolite2-city-ipv4.csv"
    for number in range(2):
        day(number)
        file.write_text(f"8.0.0.0,8.0.0.255,US,CA,,San Jose {number},,37.5,-122,America/Los_Angeles\n")
        said(capsys, "sync", str(file))
    assert len(said(capsys, "generations", "list").splitlines()) == 2
    day(40)
    said(capsys, "sync")
    assert len(said(capsys, "generations", "list").splitlines()) == 1


def test_a_table_of_three_columns_is_nobodys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "office.csv").write_text("8.0.0.0,8.0.0.255,US\n8.0.1.0,8.0.1.255,DE\n")
    assert "unknown: yours to name" in said(capsys, "check", "office.csv")
    said(capsys, "sync", "office.csv")
    assert "licence unknown: yours to name" in said(capsys, "status")
    assert "DB-IP" not in said(capsys, "status") + said(capsys, "export", "mmdb", "out.mmdb")
    with maxminddb.open_database(str(tmp_path / "out.mmdb")) as written:
        said_of_it = written.metadata().description["en"]
    assert "office (of unknown date, licence unknown: yours to name)" in said_of_it


def test_a_renamed_file_of_a_provider_does_not_get_free(
    tmp_path: Path, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "8.0.0.0,8.0.0.255,US,CA,,San Jose,,37.5,-122,America/Los_Angeles\n"
    (tmp_path / "geolite2-city-ipv4.csv").write_text(row)
    said(capsys, "sync", "geolite2-city-ipv4.csv")
    (tmp_path / "city.csv").write_text(row.replace("San Jose", "Campbell"))
    told = said(capsys, "sync", "city.csv")
    assert f"the one before it was under {EULA}: its licence is unknown: yours to name" in told
    assert "does not let others have the data" in said(capsys, "export", "csv", "out.csv", code=2)
    (tmp_path / "city.csv").write_text(row.replace("San Jose", "Cupertino"))
    assert EULA not in said(capsys, "sync")  # once is enough
    said(capsys, "export", "csv", "out.csv", code=2)
    with geolookup.open(home) as geo:
        (source,) = geo.status().sources
    assert (source.licence, source.redistribute, source.keep_days) == ("", False, 30)


def test_our_export_is_of_the_day_of_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "sync", "city.mmdb")
    said(capsys, "export", "mmdb", "out.mmdb", "--licence-allows")
    assert json.loads(said(capsys, "check", "out.mmdb", "--json"))["dated"] == "2026-02-04"
    said(capsys, "export", "geofeed", "out.csv", "--layer", "default", "--public-only", "--licence-allows")
    assert json.loads(said(capsys, "check", "out.csv", "--json"))["dated"][:10] == "2026-02-04"
