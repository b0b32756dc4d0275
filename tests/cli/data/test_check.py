"""``check``: what a file is, what is in it, and which rows are bad."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from geolookup.cli.app import run
from tests.faults.raw_server import RawServer, answer
from tests.support.data.source_files import examples, mmdb

MMDB = Path(__file__).parents[2] / "data" / "mmdb"


def checked(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[list[str], list[str]]:
    """The lines that `check` prints, and those on standard error."""
    capsys.readouterr()
    assert run(["check", *map(str, arguments)]) == code
    found = capsys.readouterr()
    return found.out.splitlines(), found.err.splitlines()


def checked_json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    return json.loads("\n".join(checked(capsys, *arguments, "--json", code=code)[0]))


def test_a_file_of_a_provider_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    lines, errors = checked(capsys, MMDB / "GeoLite2-City-Test.mmdb")
    found = dict(line.split(":", 1) for line in lines[: lines.index("")])
    assert errors == []
    assert found["kind"].strip() == "mmdb"
    assert found["type"].strip() == "GeoLite2-City"
    assert found["licence"].strip() == "GeoLite2 End User License Agreement"
    assert "created by MaxMind" in found["attribution"]
    assert found["dated"].strip()[:10] == "2026-02-04"
    found = checked_json(capsys, MMDB / "GeoLite2-City-Test.mmdb")
    assert (found["rows"], found["places"], len(found["countries"])) == (242, 52, 46)
    assert found["blocks_v4"] + found["blocks_v6"] > 200
    assert (found["bad"], found["bad_rows"], found["refused"]) == (0, [], None)


def test_each_key_of_records_is_named_with_where_it_is_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flat = {"country": "DE", "timezone": "Europe/Berlin", "hosting": 1, "geolookup": "x"}
    networks = {"10.0.0.0/8": flat, "11.0.0.0/8": {"country": "Germany", "country_code": "DE"}}
    (tmp_path / "flat.mmdb").write_bytes(mmdb(networks, tmp_path, version=4))
    found = checked_json(capsys, tmp_path / "flat.mmdb")
    assert {(each["key"], each["kept_as"], each["records"]) for each in found["keys"]} == {
        ("country", "country.iso_code", 1),
        ("country", "country.names.en", 1),
        ("country_code", "country.iso_code", 1),
        ("timezone", "location.time_zone", 1),
        ("hosting", "traits.is_hosting_provider", 1),
        ("geolookup", "extra.geolookup", 1),
    }
    ours = {"country": {"iso_code": "DE"}, "geolookup": {"layer": "default", "source": "a"}}
    (tmp_path / "ours.mmdb").write_bytes(mmdb({"10.0.0.0/8": ours}, tmp_path, version=4))
    lines, _ = checked(capsys, tmp_path / "ours.mmdb")
    assert lines[-2].split() == ["country", "country", "1"]
    assert lines[-1].startswith("geolookup  not kept: our own exports add it: ")
    assert lines[-3].split() == ["key", "kept", "as", "records"]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("asn.csv", "8.8.8.0,8.8.8.255,15169,Google LLC\n9.9.9.0,9.9.9.255,19281,\n", {"3": 2, "4": 1}),
        (
            "iptoasn.tsv",
            "8.8.8.0\t8.8.8.255\t15169\tUS\tGOOGLE\n9.0.0.0\t9.0.0.9\t0\tNone\tNot routed\n",
            {"3": 1, "4": 1, "5": 1},
        ),
        ("pyasn.dat", "; a dump\n8.8.8.0/24\t15169\n9.9.9.0/24\t15169\n", {"2": 1}),
    ],
)
def test_each_column_of_a_table_of_as_numbers_is_named_with_where_it_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, rows: dict[str, int]
) -> None:
    """Such tables have no header: a column has its number from 1. Rows of the same facts are one record."""
    (tmp_path / name).write_text(text)
    keys = checked_json(capsys, tmp_path / name)["keys"]
    assert {each["key"]: each["records"] for each in keys} == {f"column {at}": n for at, n in rows.items()}
    assert "traits.autonomous_system_number" in {each["kept_as"] for each in keys}


def test_every_example_is_as_it_should_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number, example in enumerate(examples(tmp_path_factory.mktemp("examples"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = checked_json(capsys, example.write(folder))
        assert found["kind"] == example.kind
        placed = [block for block in example.blocks if not isinstance(block[2], dict)]
        networks = [block[2] for block in example.blocks if isinstance(block[2], dict)]
        assert found["blocks_v4"] + found["blocks_v6"] == len(placed)
        assert found["blocks_v6"] == sum(":" in first for first, _, _ in placed)
        assert found["network_blocks"] == len(networks)
        assert set(found["facts"]) == set().union(*networks)
        assert found["countries"] == sorted({place.country for _, _, place in placed if place} - {""})
        if example.kind == "list":  # the custom one is left out
            assert (found["places"], found["custom_left_out"]) == (2, 1)
        else:
            assert found["places"] == len({place for _, _, place in placed if place})


def test_bad_rows_are_named_up_to_twenty_and_all_are_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "office.csv.gz"
    rows = ["first,last,city", *(f"10.0.{at}.9,10.0.{at}.1,y" for at in range(8)), "10.1.0.0,10.1.0.9,\x1bx"]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    lines, errors = checked(capsys, path, code=1)
    assert "rows:         9" in lines
    assert "places:       1" in lines
    assert errors[:8] == [
        f"geolookup: line {at + 2}: 10.0.{at}.9 comes after 10.0.{at}.1: give the first address of the range first"
        for at in range(8)
    ]
    assert errors[8:] == ["geolookup: 8 of 9 rows are bad: a sync would leave them out"]
    rows += [f"10.0.0.0/8,{at},x" for at in range(30)]
    path.write_bytes("\n".join(rows).encode())
    lines, errors = checked(capsys, path, code=1)
    assert len(errors) == 22
    assert errors[20] == "geolookup: and 18 more bad rows"
    assert "38 of 39 rows are bad, more than 10; the first: line 2: " in errors[21]
    found = checked_json(capsys, path, code=1)
    assert len(found["bad_rows"]) == found["bad"] == 38
    assert found["bad_rows"][0]["line"] == 2
    assert "nothing was published" in found["refused"]


def test_a_damaged_file_says_what_was_read_and_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"first,last,city\n" + b"10.0.0.1,10.0.0.2,x\n" * 9000)[:-9])
    _, errors = checked(capsys, path, "--kind", "ranges-csv", code=1)
    assert "damaged or was cut short" in errors[-1]
    path.write_bytes(b"Dear Madam,\n")
    lines, errors = checked(capsys, path, code=1)
    assert lines == []
    assert 'its first line is "Dear Madam,"' in errors[0]


def test_fields_can_be_mapped_and_wrong_use_is_status_two(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("cidr,gc\n10.0.0.0/8,DE\n")
    assert "there are gc. Rename them, or say" in checked_json(capsys, path, code=1)["refused"]
    path.write_text("cidr,gc,city\n10.0.0.0/8,DE,Ulm\n")
    assert "no field:     the columns gc; --field FIELD=COLUMN makes one a field" in checked(capsys, path)[0]
    assert checked_json(capsys, path, "--field", "country=gc")["countries"] == ["DE"]
    for wrong in (["--field", "country"], ["--field", "colour=gc"], ["--kind", "csv"]):
        checked(capsys, path, *wrong, code=2)


def test_the_date_of_delegations_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "delegated"
    path.write_text("2|ripencc|20260101|1|19830705|20260101|+0100\nripencc|FR|ipv4|2.0.0.0|256|20100712|allocated\n")
    found = checked_json(capsys, path)
    assert (found["dated"], found["kind"]) == ("2026-01-01", "rir")
    assert "Delegation statistics" in found["attribution"]


def test_the_files_of_a_folder_that_are_not_read_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "README.md").write_text("# Read me\n")
    (folder / "GeoLite2.mmdb").write_bytes((MMDB / "GeoLite2-Country-Test.mmdb").read_bytes())
    lines, errors = checked(capsys, folder)
    assert errors == []
    assert lines[1:4] == [
        "kind:         mmdb",
        "files:        GeoLite2.mmdb",
        "not read:     README.md, package.json",
    ]
    (folder / "GeoLite2.mmdb").unlink()
    _, errors = checked(capsys, folder, code=1)
    assert "package.json: it is JSON without a geolocation at its beginning" in errors[0]


def test_a_source_of_the_stack_is_checked_as_a_sync_reads_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    config, token = tmp_path / "geolookup.toml", tmp_path / "token"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    token.write_text("s3cret")
    token.chmod(0o600)
    rows = b"cidr,land\n10.0.0.0/24,DE\n10.0.9.9/24,DE\n"
    listed = [
        {"locid": 5, "country": "DE", "ipblocks": [{"startip": "10.0.0.0", "endip": "10.0.0.9"}]},
        {"locid": 0, "country": "FR"},
    ]
    with RawServer(answer(rows)) as server, RawServer(answer(json.dumps(listed).encode())) as service:
        config.write_text(
            f'url = "{service.url}"\n[[source]]\nname = "office"\ntoken_file = "{token}"\n'
            f'location = "{server.url}/{{YYYY}}/x?token={{token}}"\nfields = {{country = "land"}}\n'
        )
        assert run(["sync"]) == 0
        told = capsys.readouterr().err
        assert "office: 1 of 2 rows were left out: `geolookup check --source office` names them" in told
        assert "1 of 2 geolocations were left out: `geolookup check --source service` names them" in told
        lines, errors = checked(capsys, "--source", "office", code=1)
        assert "countries:    DE" in lines
        assert errors[0].startswith("geolookup: line 3: '10.0.9.9/24' has host bits set")
        assert "s3cret" not in "".join(lines + errors)
        found = checked_json(capsys, "--source", "service", code=1)
        assert (found["kind"], found["name"], found["rows"], found["blocks_v4"]) == ("service", service.url, 2, 1)
        assert found["bad_rows"] == [
            {"number": 2, "line": None, "reason": "locid 0 is out of range", "file": "", "word": "line"}
        ]
    _, errors = checked(capsys, "--source", "nobody", code=2)
    assert "unknown source 'nobody': the sources are service, office" in errors[0]
    checked(capsys, "--source", "office", "x.csv", code=2)
    checked(capsys, "--source", "office", "--kind", "mmdb", code=2)
    checked(capsys, code=2)


def test_what_is_at_an_address_is_fetched_checked_and_not_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    good, bad = b"first,last,city\n10.0.0.1,10.0.0.2,x\n", b"first,last,city\n10.0.0.9,10.0.0.2,x\n"
    with RawServer(answer(good), answer(bad), answer(b"Dear Madam,\n"), answer(b"", status="404 Not Found")) as server:
        address = f"{server.url}/office.csv"
        lines, errors = checked(capsys, address)
        assert (lines[0], errors) == (f"file:         {address}", [])
        _, errors = checked(capsys, address, code=1)
        assert errors[-1].startswith(f"geolookup: {address}: there is not one good row")
        _, errors = checked(capsys, address, code=1)
        assert errors[0].startswith(f'geolookup: {address}: its first line is "Dear Madam,"')
        checked(capsys, address, code=1)
        assert [(request.method, request.target) for request in server.requests] == [("GET", "/office.csv")] * 4
    checked(capsys, "http://geo.example/office.csv", code=2)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("header", "row", "named"),
    [
        ("Prefix,Country", "10.0.0.0/24,DE", ["network=Prefix"]),  # else like a geofeed
        ("Von,Bis,Land", "10.0.0.0,10.0.0.255,DE", ["first=von", "last=Bis", "country=Land"]),  # else like DB-IP's
        ("startip,Ende,country", "10.0.0.0,10.0.0.255,DE", ["first=startip", "last=Ende"]),
        ("network,Prefix,country", "old,10.0.0.0/24,DE", ["network=Prefix"]),
        ("name,Prefix,Land", "x,10.0.0.0/24,DE", ["network=Prefix", "country=Land"]),
    ],
)
def test_the_columns_of_the_range_can_be_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, header: str, row: str, named: list[str], separator: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"{header}\n{row}\n".replace(",", separator))
    options = [part for name in named for part in ("--field", name)]
    found = checked_json(capsys, path, *options)
    assert (found["kind"], found["rows"], found["blocks_v4"], found["bad"]) == ("ranges-csv", 1, 1, 0)
    assert found["countries"] == {"DE": 1} or "DE" in found["countries"]


def test_a_column_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("Prefix,Country\n10.0.0.0/24,DE\n")
    (error,) = checked(capsys, path, "--field", "network=Praefix", code=1)[1]
    assert error.endswith("line 1: no column network=Praefix: there are prefix, country")
    errors = checked(capsys, MMDB / "GeoLite2-City-Test.mmdb", "--field", "network=Prefix", code=2)[1]
    assert "unknown field 'network'" in errors[0]
