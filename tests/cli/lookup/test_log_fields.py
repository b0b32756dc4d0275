"""Fields of logs in the files that lookup and enrich read; sums, and lines that keep their places."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from geolookup.cli.app import run
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", "2001:db8::/32", country="US"), place(2, "9.0.0.0/8", country="DE")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def looked_up(tmp_path: Path, text: str, *options: str) -> int:
    (tmp_path / "ips").write_text(text)
    return run(["lookup", "-f", str(tmp_path / "ips"), *options])


FIELDS = "8.8.8.8:5678\n[2001:db8::1]:443\n \"9.9.9.9, 8.8.8.8\" \n-\n\n9.0.0.1;x\n'8.8.8.8'\tx y\n"


def test_ports_brackets_quotes_and_lists_are_read_and_lines_keep_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pick, third in (("first", "9.9.9.9"), ("last", "8.8.8.8")):
        assert looked_up(tmp_path, FIELDS, "--pick", pick) == 0
        out, err = capsys.readouterr()
        found = [line.split("\t")[0] for line in out.split("\n")]
        assert found == ["8.8.8.8", "2001:db8::1", third, "", "", "9.0.0.1", "8.8.8.8", ""]
        assert err == ""
    looked_up(tmp_path, FIELDS, "--pick", "all")
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()][2:4] == ["9.9.9.9", "8.8.8.8"]


def test_every_format_has_one_answer_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "8.8.8.8\n\nbad\n7.7.7.7\n\n"
    for form, header in (("text", 0), ("ndjson", 0), ("csv", 1)):
        assert looked_up(tmp_path, text, "--format", form) == 5
        assert len(capsys.readouterr().out.splitlines()) == 5 + header
    assert looked_up(tmp_path, text, "--format", "json") == 5
    found = json.loads(capsys.readouterr().out)
    assert [each["ip"] for each in found] == ["8.8.8.8", "", "bad", "7.7.7.7", ""]
    assert found[1] == found[4] == {**dict.fromkeys(found[0]), "ip": ""}


def test_a_delimiter_takes_the_first_column_of_a_whole_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert looked_up(tmp_path, '8.8.8.8 - - [21/Nov/2025:00:00:00] "GET /"\n', "--delimiter", "space") == 0
    assert looked_up(tmp_path, "8.8.8.8|x\n", "--delimiter", "|") == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["8.8.8.8"] * 2
    assert looked_up(tmp_path, "8.8.8.8 - -\n") == 5
    assert looked_up(tmp_path, "", "--delimiter", "ab") == 2


def test_arguments_are_read_as_leniently(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "[2001:db8::1]:443", "8.8.8.8:1"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["2001:db8::1", "8.8.8.8"]


SUMS = "geolookup: 4 addresses: 1 found, 2 not covered, 1 malformed, 1 blank\n"


@pytest.mark.parametrize(
    ("options", "code", "is_told"),
    [
        ([], 5, True),
        (["--ok-malformed"], 4, True),
        (["--ok-uncovered"], 5, True),
        (["--ok-malformed", "--ok-uncovered"], 0, False),
    ],
)
def test_a_stream_ends_with_its_sums_unless_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, is_told: bool
) -> None:
    assert looked_up(tmp_path, "8.8.8.8\n7.7.7.7\n\n7.7.7.8\nbad\n", *options) == code
    assert capsys.readouterr().err.endswith(SUMS) == is_told


def test_arguments_have_no_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lookup", "7.7.7.7"]) == 4
    assert run(["lookup", "--ok-uncovered", "7.7.7.7"]) == 0
    assert capsys.readouterr().err == ""


def test_a_person_at_a_terminal_sees_the_sums_of_what_went_well() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*forked(), "-m", "geolookup", "annotate"],
        input=b"8.8.8.8\n\n", stdout=subprocess.PIPE, stderr=theirs, check=True,
    )  # fmt: skip
    os.close(theirs)
    assert done.stdout == b"8.8.8.8 [US, city 1]\n\n"
    assert os.read(ours, 1000) == b"geolookup: 1 address: 1 found, 0 not covered, 0 malformed\r\n"
    os.close(ours)


COLUMN = ["8.8.8.8:1", "[2001:db8::1]:443", "9.9.9.9, 8.8.8.8", " 8.8.8.8 ", "-", None, "bad:1", "7.7.7.7"]
COUNTRIES = ["US", "US", "DE", "US", None, None, None, None]
FIRSTS = ["8.0.0.0", "2001:db8::", "9.0.0.0", "8.0.0.0", None, None, None, None]


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet", "dictionary"])
def test_enrich_reads_the_same_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out.ndjson"
    if kind == "csv":
        source.write_text("n,ip\n" + "".join(f'1,"{text or ""}"\n' for text in COLUMN))
    elif kind == "ndjson":
        source.write_text("".join(json.dumps({"n": 1, "ip": text}) + "\n" for text in COLUMN))
    else:
        column = pa.array(COLUMN)
        parquet.write_table(pa.table({"ip": column.dictionary_encode() if kind == "dictionary" else column}), source)
    form = "parquet" if kind == "dictionary" else kind
    assert run(["enrich", str(source), str(target), "--in-format", form, "--fields", "country,first"]) == 5
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["geo_country"] for row in rows] == COUNTRIES
    assert [row["geo_first"] for row in rows] == FIRSTS
    assert [row["ip"] for row in rows] == COLUMN, "the column itself stays"
    where = {"parquet": "row 7", "csv": "line 8", "ndjson": "line 7"}[form]
    assert capsys.readouterr().err == (
        f"geolookup: {source}, {where}: 'bad:1' is not an IP address\n"
        "geolookup: 6 addresses: 4 found, 1 not covered, 1 malformed, 2 blank\n"
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_tells_the_delimiter_and_answers_follow_by_it(tmp_path: Path, delimiter: str) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = [["a,b", "ip", "c;d"], ["1", "8.8.8.8", "x|y\tz"]]
    source.write_text("\ufeff" + "".join(delimiter.join(f'"{cell}"' for cell in row) + "\r\n" for row in rows))
    assert run(["enrich", str(source), str(target), "--fields", "country"]) == 0
    lines = source.read_bytes().decode().split("\r\n")
    assert target.read_bytes().decode().split("\r\n") == [
        f"{lines[0]}{delimiter}geo_country", f"{lines[1]}{delimiter}US", "",
    ]  # fmt: skip


def test_a_delimiter_can_be_named_and_tsv_files_have_tabs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, tabs, commas = tmp_path / "in.csv", tmp_path / "out.tsv", tmp_path / "out.csv"
    source.write_text("ip^note\n8.8.8.8^a,b\n")
    assert run(["enrich", str(source), str(tabs), "--fields", "country", "--delimiter", "^"]) == 0
    assert tabs.read_text() == "ip\tnote\tgeo_country\n8.8.8.8\ta,b\tUS\n"
    assert run(["enrich", str(tabs), str(commas), "--fields", "country", "--prefix", "x_"]) == 0
    assert commas.read_text() == 'ip,note,geo_country,x_country\n8.8.8.8,"a,b",US,US\n'
    source.write_text("address;note\n8.8.8.8;x\n")
    assert run(["enrich", str(source), str(commas)]) == 2
    assert "unknown column 'ip': the columns are 'address', 'note'" in capsys.readouterr().err


def test_lists_of_addresses_elsewhere_are_read_alike(
    tmp_path: Path, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="FR")])
    (tmp_path / "ips").write_text("8.8.8.8:443\n\n-\n[8.8.8.9]\nbad\n")
    assert run(["generations", "diff", "1", "2", "--addresses", str(tmp_path / "ips"), "--json"]) == 5
    out, err = capsys.readouterr()
    assert [each["ip"] for each in json.loads(out)["addresses"]["changed"]] == ["8.8.8.8", "8.8.8.9"]
    assert "line 5: 'bad'" in err
