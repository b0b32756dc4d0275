"""Files at the edge of their formats: what is empty, begins with a byte order mark, or is not text at all."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.model.errors import DataFileError
from geolookup.sites.file import read_sites
from geolookup.sources.country_ranges import CsvRows
from tests.support.data.states import place, publish

BOM = b"\xef\xbb\xbf"
ODD = {
    "nothing": b"",
    "a mark": BOM,
    "a newline": b"\n",
    "newlines": b"\r\n\n\r\n",
    "a mark and a newline": BOM + b"\n",
    "a carriage return": b"\r",
    "a NUL": b"\0",
    "NULs and a newline": b"\0\0\n\0\n",
    "an empty first line": b"\nip,note\n8.8.8.8,x\n",
    "blanks": b"   \n  ",
    "a header": b"ip,note\n",
    "a header without an end": b"ip,note",
    "a mark and a header": BOM + b"ip,note\r\n",
    "a NUL in a value": b"ip,note\n8.8.8.8,a\0b\n",
    "a NUL in an address": b"ip\n8.8.8.8\0\n",
    "an open quotation mark": b'ip,note\n"8.8.8.8,x\n',
    "an open quotation mark in the header": b'"ip,note',
    "UTF-16": "ip\n8.8.8.8\n".encode("utf-16"),
    "JSON with a NUL": b'{"ip":"8.8.8.8\0"}\n',
    "an empty object": b"{}\n",
    "blank lines around JSON": b'\n\n{"ip":"8.8.8.8"}\n\n',
    "a mark and JSON": BOM + b'{"ip":"8.8.8.8"}\n',
    "a mark and no object": BOM + b"[]\n",
    "half of a number": b"1e",
}
FORMS = ("csv", "ndjson", "parquet")


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def test_enrich_ends_every_odd_file_with_an_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    for (name, data), (read_as, write_as) in itertools.product(ODD.items(), itertools.product(FORMS, FORMS)):
        source.write_bytes(data)
        code = run(["enrich", str(source), str(target), "--in-format", read_as, "--out-format", write_as])
        told = capsys.readouterr().err
        assert code in (0, 1, 2, 5), (name, read_as, write_as)
        assert bool(code) == bool(told), (name, read_as, write_as, told)
        assert target.exists() == (code in (0, 5)), (name, read_as, write_as)
        target.unlink(missing_ok=True)


def test_empty_lines_before_the_header_of_a_csv_are_passed_over(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    for beginning in (b"\n", b"\r\n\n", BOM + b"\n"):
        source.write_bytes(beginning + b"ip\n8.8.8.8\n")
        assert run(["enrich", str(source), str(out), "--fields", "country"]) == 0
        assert out.read_bytes() == beginning + b"ip,geo_country\n8.8.8.8,US\n", "every byte is kept"
        assert run(["enrich", str(source), str(tmp_path / "out.ndjson"), "--fields", "country"]) == 0
        assert json.loads((tmp_path / "out.ndjson").read_bytes()) == {"ip": "8.8.8.8", "geo_country": "US"}


@pytest.mark.parametrize("above", [b"sep=;\r\n", BOM + b"sep=;\n", b'"SEP=;"\r\n', b"\nsep=;\n"])
def test_a_line_by_which_excel_says_the_delimiter_is_no_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], above: bytes
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(above + b"n,m;ip\r\n1;8.8.8.8\r\n2;bad\r\n")
    assert run(["enrich", str(source), str(out), "--fields", "country", "--ok-malformed"]) == 0
    assert out.read_bytes() == above + b"n,m;ip;geo_country\r\n1;8.8.8.8;US\r\n2;bad;\r\n", "every byte is kept"
    assert f"line {4 + above.startswith(bytes([10]))}: 'bad'" in capsys.readouterr().err
    assert run(["enrich", str(source), str(tmp_path / "out.ndjson"), "--fields", "country", "--ok-malformed"]) == 0
    first = (tmp_path / "out.ndjson").read_bytes().splitlines()[0]
    assert json.loads(first) == {"n,m": "1", "ip": "8.8.8.8", "geo_country": "US"}


@pytest.mark.parametrize("target", ["ndjson", "csv", "parquet"])
def test_ndjson_may_begin_with_a_byte_order_mark(tmp_path: Path, target: str) -> None:
    source, out = tmp_path / "in.ndjson", tmp_path / f"out.{target}"
    source.write_bytes(BOM + b'{"ip":"8.8.8.8"}\n')
    assert run(["enrich", str(source), str(out), "--fields", "country"]) == 0
    if target == "ndjson":
        found = out.read_bytes()
        assert found.startswith(BOM), "every byte is kept"
        assert json.loads(found.removeprefix(BOM)) == {"ip": "8.8.8.8", "geo_country": "US"}


def test_a_byte_order_mark_inside_of_an_ndjson_file_is_malformed(tmp_path: Path) -> None:
    source = tmp_path / "in.ndjson"
    source.write_bytes(b'{"ip":"8.8.8.8"}\n' + BOM + b'{"ip":"8.8.8.8"}\n')
    assert run(["enrich", str(source), str(tmp_path / "out.ndjson")]) == 5


def test_blank_lines_alone_are_an_ndjson_file_without_rows(tmp_path: Path) -> None:
    for data in (b"\n  \n", BOM, BOM + b"\n\n"):
        (tmp_path / "in.ndjson").write_bytes(data)
        assert run(["enrich", str(tmp_path / "in.ndjson"), str(tmp_path / "out.ndjson")]) == 0
        assert (tmp_path / "out.ndjson").read_bytes() == data


def test_a_list_of_addresses_may_begin_with_a_byte_order_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ips").write_bytes(BOM + b"8.8.8.8\r\n8.8.4.4\n")
    assert run(["lookup", "--file", str(tmp_path / "ips")]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["8.8.8.8", "8.8.4.4"]


def test_a_list_of_addresses_survives_every_odd_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, data in ODD.items():
        (tmp_path / "ips").write_bytes(data)
        code = run(["lookup", "--file", str(tmp_path / "ips"), "--format", "ndjson"])
        assert code in (0, 5), name
        assert all(json.loads(line) for line in capsys.readouterr().out.splitlines())


def refusal(read: Callable[[], object]) -> str | None:
    """What a reader says against a file, or None if it reads it."""
    try:
        read()
    except DataFileError as error:
        return str(error)
    return None


def test_a_file_of_sites_is_read_or_refused_with_its_name(tmp_path: Path) -> None:
    for (name, data), form in itertools.product(ODD.items(), ("csv", "toml")):
        path = tmp_path / f"sites.{form}"
        path.write_bytes(data)
        said = refusal(lambda: read_sites(str(path)))  # noqa: B023 - called at once
        assert said is None or said.startswith(str(path)), (name, form, said)
        assert said is not None or form == "toml", name


def test_rows_of_a_source_are_read_or_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"

    def read() -> list[list[str]]:
        with CsvRows(str(path)) as rows:
            return list(rows)

    for name, data in ODD.items():
        path.write_bytes(data)
        said = refusal(read)
        assert said is None or said.startswith(str(path)), (name, said)
