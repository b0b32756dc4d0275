"""Tables of ranges as people keep them: the reader of sheets of sites, for sources."""

from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import DataFileError
from geolookup.sources.detect import open_source
from tests.cli.lookup.test_lookup import command
from tests.sources.test_kinds import read_all

TITLES = "Netze der Beispiel GmbH;;;;\r\nStand: 1.11.2026;;;;\r\n;;;;\r\n"
HEADER = "Standort;Netz 1;Netz 2;Land;Ort;Breitengrad;L\xe4ngengrad\r\n"
ROWS = (
    "Filiale 1;10.1.0.0/24;10.1.5.0 - 10.1.5.9;Deutschland;K\xf6ln;50,94;6,96\r\n"
    "Filiale 2;10.2.0.0/24, 10.2.2.0/24;;Frankreich;Paris;48\xb051'N;2,35\r\n"
    ";10.2.9.0/24;;;;;\r\n"
)


def sheet(path: Path, rows: Any = None) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Hinweise"
    book.active.append(["Bitte nicht \xe4ndern"])
    for name, network in (("2025", "10.9.0.0/24"), ("2026", "10.8.0.0/24")):
        page = book.create_sheet(name)
        for row in rows or (["Netze"], [], ["Netz", "Land", "Ort"], [network, "Italien", "Rom"], ["x", "DE", "Ulm"]):
            page.append(row)
    book.save(path)
    return path


def test_a_german_table_below_titles_in_cp1252_is_read_and_what_was_read_otherwise_is_said(tmp_path: Path) -> None:
    path = tmp_path / "netze.csv"
    path.write_bytes((TITLES.replace(";;;;", ";" * 6) + HEADER + ROWS).encode("cp1252"))
    blocks, gathered = read_all(path)
    assert gathered.bad_rows == []
    paris = ("FR", "Paris", 48.85, 2.35)
    cologne = ("DE", "K\xf6ln", 50.94, 6.96)
    found = {(first, last): (p.country, p.city, p.latitude, p.longitude) for first, last, p in blocks if p}
    assert found == {
        ("10.1.0.0", "10.1.0.255"): cologne,
        ("10.1.5.0", "10.1.5.9"): cologne,
        ("10.2.0.0", "10.2.0.255"): paris,
        ("10.2.2.0", "10.2.2.255"): paris,
        ("10.2.9.0", "10.2.9.255"): paris,
    }
    assert [told.removeprefix(f"{path}: ") for told in gathered.warnings] == [
        "line 4 names the columns; above it are titles: Netze der Beispiel GmbH; Stand: 1.11.2026",
        (
            "read as network = 'Netz 1', 'Netz 2'; country = 'Land'; city = 'Ort'; latitude = 'Breitengrad'; "
            "longitude = 'L\xe4ngengrad'"
        ),
        "is not UTF-8: 3 lines read as cp1252 (Windows): look at the names",
        "3 coordinates with a decimal comma (line 5: '50,94' is 50.94)",
        "2 countries in words (line 5: 'Deutschland' is DE)",
        '1 coordinate with degree signs or a side of the world (line 6: "48\xb051\'N" is 48.85)',
    ]


def test_a_pair_of_coordinates_and_a_likely_column_beside_our_own_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('network,Land,Koordinaten\n10.0.0.0/24,"Espa\xf1a","40.4, -3.7"\n')
    ((_, _, place),) = read_all(path)[0]
    assert place is not None
    assert (place.country, place.latitude, place.longitude) == ("ES", 40.4, -3.7)


def test_a_netmask_beside_a_network_is_a_bad_row_and_a_bad_part_costs_the_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Netz;Land\n10.0.0.0 255.255.255.0;DE\n10.1.0.0/24, x;DE\n10.2.0.0/24;DE\n")
    _, gathered = read_all(path)
    assert [(row.line, row.reason.partition(":")[0]) for row in gathered.bad_in_order()] == [
        (2, "255.255.255.0 is a netmask, not a block"),
        (3, "'x' is not an IP address"),
    ]


def test_a_row_of_a_sheet_is_called_by_the_sheet_and_its_own_number(tmp_path: Path) -> None:
    path = sheet(tmp_path / "netze.xlsx")
    blocks, gathered = read_all(path)
    assert [first for first, _, _ in blocks] == ["10.9.0.0", "10.8.0.0"]
    assert [str(row).partition(":")[0] for row in gathered.bad_in_order()] == ["2025, row 5", "2026, row 5"]
    assert gathered.warnings[0] == f"{path}, sheet '2025': row 3 names the columns; above it are titles: Netze"


def test_one_sheet_is_chosen_by_check_source_add_and_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    (tmp_path / "geolookup.toml").touch()
    good = (["Netz", "Land", "Ort"], ["10.8.0.0/24", "Italien", "Rom"])
    path = str(sheet(tmp_path / "netze.xlsx", good))
    for arguments in (("check", path), ("sync", path), ("source", "add", path)):
        wrong = command(*arguments, "--sheet", "2027")
        assert "has no sheet '2027'" in wrong.stderr.decode(), arguments
    assert "rows:         1\n" in command("check", path, "--sheet", "2026").stdout.decode()
    synced = command("sync", path, "--sheet", "2026")
    assert synced.returncode == 0
    assert "1 country in words" in synced.stderr.decode()
    assert b"Rom" in command("10.8.0.1").stdout
    assert command("sync").returncode == 0, "the sheet is remembered with the file"
    assert command("source", "add", path, "--sheet", "2026").returncode == 0
    assert 'sheet = "2026"' in (tmp_path / "geolookup.toml").read_text()
    assert command("sync").returncode == 0


def test_what_only_resembles_a_table_of_ranges_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Netz;Bemerkung\n10.0.0.0/24;x\n")
    with pytest.raises(DataFileError, match="no kind of source begins so"):
        open_source(path)
