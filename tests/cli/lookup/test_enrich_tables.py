"""`enrich` of tables as people keep them: titles, their own names of columns, cp1252, sheets."""

from pathlib import Path

import pytest

from tests.cli.lookup.test_lookup import command
from tests.state.test_vrfs import state


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    geo = state(tmp_path / "state")
    geo.edit().create(name="Bonn", country="DE", city="K\xf6ln", blocks=["10.1.0.0/16"])
    monkeypatch.setenv("GEOLOOKUP_HOME", geo.home)


def test_titles_are_kept_and_the_column_is_found_by_likeness(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("Besuche im Oktober\n\nZeit;IP-Adresse\n1;10.1.2.3\n")
    done = command("enrich", str(table), "-", "--fields", "city")
    assert done.stdout.decode() == "Besuche im Oktober\n\nZeit;IP-Adresse;geo_city\n1;10.1.2.3;K\xf6ln\n"
    said = done.stderr.decode()
    assert "a.csv: line 3 names the columns; above it are titles: Besuche im Oktober" in said
    assert "a.csv: read as ip = 'IP-Adresse'" in said
    table.write_text("Besuche\n\nZeit;IP;IPs\n1;10.1.2.3;10.1.2.3\n")
    assert command("enrich", str(table), "-").returncode == 2, "which of the two is not said"
    assert command("enrich", str(table), "-", "--column", "IPs", "--fields", "city").returncode == 0


@pytest.mark.parametrize("to", ["csv", "ndjson"])
def test_rows_in_cp1252_become_utf8_and_that_is_said(tmp_path: Path, to: str) -> None:
    table = tmp_path / "a.csv"
    table.write_bytes("ort,ip\nN\xfcrnberg,10.1.2.3\nx,10.1.2.3\n".encode("cp1252"))
    done = command("enrich", str(table), "-", "--fields", "city", "--out-format", to)
    assert done.returncode == 0
    assert "N\xfcrnberg" in done.stdout.decode("utf-8")
    assert "is not UTF-8: 1 line read as cp1252 (Windows)" in done.stderr.decode()


def test_a_malformed_address_of_a_sheet_is_named_by_its_row(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Besuche"
    for row in (["Titel"], [], ["IP"], ["10.1.2.3"], ["10.1.2"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    done = command("enrich", str(tmp_path / "a.xlsx"), "-", "--fields", "city")
    assert "a.xlsx, sheet 'Besuche', row 5: '10.1.2'" in done.stderr.decode()
    assert done.stdout.decode().splitlines()[2:] == ["IP,geo_city", "10.1.2.3,K\xf6ln", "10.1.2,"]
