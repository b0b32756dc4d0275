"""``geolookup top``: what it reads, what it says of it, and that hostile names stay text."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from geolookup.cli.app import run
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

Command = Callable[..., tuple[int, str, str]]

LOG = """8.8.8.8 - - [21/Nov/2025:10:20:30 +0000] "GET / HTTP/1.1" 200 5 "-" "Chrome/120.0.0.0"
9.9.9.9 8.8.8.8 forwarded
2001:db8::1 and 9.9.9.9, not 1.2.3
8.8.8.8 again
"""


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/8", "2001:db8::/32", country="US", region="CA", city="Los Angeles"),
            place(2, "10.0.0.0/8", country="DE", city="=cmd|' /C calc'!A0"),
            place(-1, "8.8.4.0/24", country="FR", city="Orl\x1b[31m\u202eans<script>" + "x" * 5000),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def top(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(content: str | bytes, *options: str, name: str = "access.log") -> tuple[int, str, str]:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        code = run(["top", str(path), *options])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_the_table_counts_every_occurrence(top: Command) -> None:
    code, out, err = top(LOG)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["country", "requests", "share"],
        ["US", "United", "States", "4", "66.7%", "█" * 24],
        ["not", "covered", "2", "33.3%"],
        ["6", "requests;", "2", "not", "covered"],
    ]
    assert all(line == line.rstrip() for line in out.splitlines())


def test_addresses_are_counted_once(top: Command) -> None:
    assert top(LOG, "--count", "addresses")[1].splitlines()[-1] == "3 addresses; 1 not covered"
    assert top("8.8.8.8\n::ffff:8.8.8.8\n", "--count", "addresses")[1].splitlines()[-1] == "1 address; 0 not covered"


def test_the_rest_is_said_and_shown_if_asked_for(top: Command) -> None:
    log = "8.8.4.4\n" * 3 + "10.0.0.1\n" * 2 + "8.8.8.8\n"
    lines = top(log, "--top", "1")[1].splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [["FR", "France", "3", "50.0%"], ["and", "2", "more", "3"]]
    assert [line.split()[0] for line in top(log, "--top", "0")[1].splitlines()] == [
        "country", "FR", "DE", "US", "not", "6",
    ]  # fmt: skip


def test_json_has_the_totals_and_the_rows(top: Command) -> None:
    code, out, _ = top(LOG, "--json", "--by", "city")
    found = json.loads(out)
    assert code == 0
    assert found["rows"] == [{"country": "US", "region": "CA", "city": "Los Angeles", "count": 4, "share": 0.666667}]
    totals = {"counted": 6, "covered": 4, "not_covered": 2, "malformed": 0, "groups": 1, "generation": 1}
    assert {name: found[name] for name in totals} == totals


def test_names_of_a_place_stay_text(top: Command) -> None:
    log = "8.8.4.4\n8.8.4.4\n10.1.1.1\n"
    out = top(log, "--by", "city")[1]
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert max(map(len, out.splitlines())) <= 80
    rows = list(csv.reader(io.StringIO(top(log, "--by", "city", "--csv")[1])))
    assert rows[0] == ["country", "region", "city", "requests", "share"]
    assert rows[1][2].startswith("Orl\\x1b[31m\\u202eans<script>")
    assert rows[2] == ["DE", "", "'=cmd|' /C calc'!A0", "1", "0.333333"]
    assert json.loads(top(log, "--by", "city", "--json")[1])["rows"][0]["city"].endswith("x" * 5000)


def test_rows_are_counted_by_their_column(top: Command, tmp_path: Path) -> None:
    expected = "US  United States         2  66.7%"
    assert expected in top("who,client\na,8.8.8.8\nb,\nc,8.1.1.1\nd,9.9.9.9\n", "--column", "client", name="v.csv")[1]
    assert expected in top('{"ip": "8.8.8.8"}\n{"ip": 134744072}\n{"ip": "9.9.9.9"}\n', name="v.jsonl")[1]
    path = tmp_path / "made"
    parquet.write_table(pa.table({"x": [1, 2, 3], "ip": ["8.8.8.8", "8.8.8.8", "9.9.9.9"]}), path)
    assert expected in top(path.read_bytes(), name="v.parquet")[1]
    assert expected in top(path.read_bytes(), name="without-an-end")[1]
    code, _, err = top("a,b\n1,2\n", name="v.csv")
    assert (code, "unknown column 'ip': the columns are 'a', 'b'" in err) == (2, True)


def test_a_column_is_read_as_logs_write_it(top: Command) -> None:
    rows = 'when;client\n1;"8.8.8.8:443"\n2;[2001:db8::1]\n3;8.8.8.8, 10.0.0.1\n4;-\n5;08.8.8.8\n'
    code, out, err = top(rows, "--column", "client", "--json", name="v.csv")
    assert [(row["country"], row["count"]) for row in json.loads(out)["rows"]] == [("US", 3)]
    assert (code, err.count("line 6: '08.8.8.8' is not an IP address"), json.loads(out)["malformed"]) == (5, 1, 1)
    last = json.loads(top(rows, "--column", "client", "--pick", "last", "--json", name="v.csv")[1])
    assert [(row["country"], row["count"]) for row in last["rows"]] == [("US", 2), ("DE", 1)]
    once = json.loads(top(rows, "--column", "client", "--count", "addresses", "--json", name="v.csv")[1])
    assert once["rows"][0]["count"] == 2


def test_what_is_malformed_is_named_and_the_rest_counted(top: Command) -> None:
    code, out, err = top(
        "8.8.8.8\n08.8.8.8\n" + "x 8.8.8.256\n" * 30 + "".join(f"9.9.9.{n}\n" for n in range(300, 350))
    )
    assert (code, out.splitlines()[-1]) == (5, "1 request; 0 not covered; 81 malformed")
    lines = err.splitlines()
    assert len(lines) == 22
    assert "access.log, line 2: '08.8.8.8' is not an IP address" in lines[0]
    assert "access.log, line 3: '8.8.8.256' is not an IP address" in lines[1]
    assert lines[-2:] == [
        "geolookup: '8.8.8.256' is not an IP address: 30 times",
        "geolookup: and 32 more are malformed",
    ]
    assert top("8.8.8.8 08.8.8.8\n", "--ok-malformed")[0] == 0
    code, _, err = top("ip,a\n8.8.8.8,1\n8.8.8.8\nx,2\n", name="v.csv")
    assert code == 5
    assert [line.rpartition("v.csv, ")[2] for line in err.splitlines()] == [
        "line 3: has 1 value, and the header names 2 columns", "line 4: 'x' is not an IP address",
    ]  # fmt: skip


def test_compressed_logs_are_read_and_what_cannot_be_is_said(top: Command) -> None:
    packed = gzip.compress(LOG.encode())
    assert top(packed, name="access.log.1.gz")[1] == top(LOG)[1]
    assert top(gzip.compress(b"ip\n8.8.8.8\n"), name="v.csv.gz")[1].endswith("1 request; 0 not covered\n")
    code, _, err = top(packed[:-20])
    assert (code, "access.log: the file is damaged or was cut short" in err) == (1, True)
    code, _, err = top(gzip.compress(a_parquet_file()), name="v.parquet")
    assert (code, "Parquet is read from its end: give the name of a file that is not compressed" in err) == (1, True)


def a_parquet_file() -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"ip": ["8.8.8.8"]}), out)
    return out.getvalue()


def test_several_files_are_one_log_and_none_is_standard_input(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("8.8.8.8\n")
    command = [*forked(), "-m", "geolookup", "top"]
    found = [
        subprocess.run(
            [*command, *more], input=b"8.8.8.8\n9.9.9.9\n", capture_output=True, check=True, timeout=60
        ).stdout
        for more in ((), ("-",), (str(tmp_path / "one"), "-", str(tmp_path / "one")))
    ]
    assert [lines.decode().splitlines()[-1] for lines in found] == [
        *["2 requests; 1 not covered"] * 2, "4 requests; 1 not covered",
    ]  # fmt: skip


def test_a_log_without_addresses_is_worth_a_warning(top: Command) -> None:
    code, out, err = top("nothing\n")
    assert (code, out.splitlines()[-1]) == (0, "0 requests; 0 not covered")
    assert "warning: no address was found in" in err
    assert json.loads(top("", "--json")[1])["rows"] == []
    assert top("", "--csv")[1] == "country,requests,share\n"


def test_a_log_needs_no_pyarrow() -> None:
    program = "import sys\nsys.modules['pyarrow'] = None\nfrom geolookup.cli.app import run\nsys.exit(run(['top']))"
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"8.8.8.8\n", capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_on_a_narrow_terminal_the_numbers_stay_whole(top: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, row in (
        (60, ["US", "United", "States", "4", "66.7%", "█" * 22]),
        (44, ["US", "United", "States", "4", "66.7%", "█" * 6]),
        (38, ["US", "United", "States", "4", "66.7%"]),
        (28, ["US", "Unit…", "4", "66.7%"]),
    ):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = top(LOG)[1].splitlines()
        assert lines[1].split() == row, columns
        assert lines[0].split() == ["country", "requests", "share"]
        assert max(map(len, lines)) <= columns


def test_bars_are_of_what_the_terminal_can_show() -> None:
    done = subprocess.run(
        [*forked(), "-m", "geolookup", "top"], input=b"8.8.8.8\n", capture_output=True, check=True, timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert b"#" * 24 in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--json", "--csv"), "--json and --csv exclude each other"),
        (("--by", "planet"), "'planet' is not one of 'country'"),
        (("--top", "-1"), "-1 is not in the range"),
    ],
)
def test_wrong_usage_is_said(top: Command, options: tuple[str, ...], message: str) -> None:
    code, _, err = top(LOG, *options)
    assert (code, message in err) == (2, True)
