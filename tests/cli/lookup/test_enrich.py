"""``geolookup enrich``: every pair of formats, what is kept, what is named, what is published."""

import csv
import errno
import io
import json
import os
import resource
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from tests.columns.test_facts import state_of_files, state_of_networks_only
from tests.oracle.single_lookups import single_lookups
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(
        home,
        [
            place(1, "8.0.0.0/8", "2001:db8::/32", country="US", region="CA", latitude=37.5, longitude=-122.0),
            place(2, "9.0.0.0/8", country="DE", city='=1+1, "x"\x1b'),
            place(-1, "8.8.0.0/16", country="FR", city="Orléans"),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def enriched(tmp_path: Path, data: bytes, source: str, target: str, *options: str) -> tuple[int, bytes]:
    """Exit status and output of a run of files."""
    (tmp_path / source).write_bytes(data)
    code = run(["enrich", str(tmp_path / source), str(tmp_path / target), *options])
    out = tmp_path / target
    return code, out.read_bytes() if out.exists() else b""


def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*forked(), "-m", "geolookup", "enrich", *arguments],
        input=stdin, capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def test_csv_keeps_every_byte_of_utf8_and_appends_the_answers(tmp_path: Path) -> None:
    data = (
        b'\xef\xbb\xbfwhen,"ip",note\r\n'
        b'1,8.8.8.8,"two\nlines, ""quoted"""\r\n'
        b"2, \xff,\xff\xfe latin\n"
        b'"03",2001:db8::1,  kept  \r\n'
        b"\r\n"
        b"4,,=1+1\r\n"
        b"5,9.0.0.1,last"
    )
    code, found = enriched(tmp_path, data, "in.csv", "out.csv", "--fields", "country,city,latitude")
    assert code == 5, "what row 2 has is no address"
    assert found == (
        b'\xef\xbb\xbfwhen,"ip",note,geo_country,geo_city,geo_latitude\r\n'
        b'1,8.8.8.8,"two\nlines, ""quoted""",FR,Orl\xc3\xa9ans,\r\n'
        b"2, \xc3\xbf,\xc3\xbf\xc3\xbe latin,,,\n"  # which was cp1252: no file is of two encodings
        b'"03",2001:db8::1,  kept  ,US,city 1,37.5\r\n'
        b"\r\n"
        b"4,,=1+1,,,\r\n"
        b'5,9.0.0.1,last,DE,"=1+1, ""x""\x1b",'
    )


def test_bad_rows_are_named_with_their_line_and_pass_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = b'ip,note\n8.8.8.8,"a\nb"\nbad,c\n8.8.8.8\n9.0.0.1,d,e\n9.0.0.1,f\n'
    code, found = enriched(tmp_path, data, "in.csv", "out.csv", "--fields", "country")
    assert (code, found.splitlines()[3:]) == (5, [b"bad,c,", b"8.8.8.8", b"9.0.0.1,d,e", b"9.0.0.1,f,DE"])
    errors = capsys.readouterr().err
    assert [line.partition("in.csv, ")[2] for line in errors.splitlines()] == [
        "line 4: 'bad' is not an IP address",
        "line 5: has 1 value, and the header names 2 columns",
        "line 6: has 3 values, and the header names 2 columns",
        "",
    ]
    assert errors.endswith("geolookup: 5 addresses: 2 found, 0 not covered, 3 malformed\n")


def test_twenty_bad_rows_are_named_and_the_others_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = b"ip\n" + b"".join(b"bad %d\n" % n for n in range(2000)) + b"bad 3\n" * 50
    code, _ = enriched(tmp_path, data, "in.csv", "out.csv")
    *lines, question, repeated, rest, sums = capsys.readouterr().err.splitlines()
    assert code == 5
    assert question.endswith('in.csv: 0 of the first 2,050 values of column "ip" are addresses: is it the right one?')
    assert [line.partition("line ")[2].partition(":")[0] for line in lines] == [str(number) for number in range(2, 22)]
    assert repeated.startswith("geolookup: 'bad 3' is not an IP address: 51 times, the last in ")
    assert repeated.endswith("in.csv, line 2051")
    assert rest == "geolookup: and 1,980 more are malformed"
    assert sums == "geolookup: 2,050 addresses: 0 found, 0 not covered, 2,050 malformed"


@pytest.mark.parametrize(
    ("addresses", "code"), [(["8.8.8.8", ""], 0), (["8.8.8.8", "7.0.0.1"], 4), (["bad", "7.0.0.1", "8.8.8.8"], 5)]
)
def test_the_exit_status_tells_not_covered_from_malformed(tmp_path: Path, addresses: list[str], code: int) -> None:
    data = "".join(f"{address},x\n" for address in ["ip", *addresses]).encode()
    assert enriched(tmp_path, data, "in.csv", "out.csv")[0] == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0), (["--max-malformed", "0.5%"], 5), (["--max-malformed", "1%"], 0), (["--max-malformed", "3"], 5),
        (["--max-malformed", "4"], 0), (["--max-malformed", "0"], 5), (["--ok-malformed"], 0),
        *((["--max-malformed", wrong], 2) for wrong in ("", "-1", "few", "101%", "1%%", "nan%", "-1%", "1.5")),
    ],
)  # fmt: skip
def test_a_few_malformed_rows_of_many_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    data = b"ip\n" + b"8.8.8.8\n" * 396 + b"-x\n" * 4
    assert enriched(tmp_path, data, "in.csv", "out.csv", *options)[0] == code
    told = capsys.readouterr().err
    assert code == 2 or "line 398: '-x' is not an IP address" in told
    assert code == 2 or "'-x' is not an IP address: 4 times, the last in" in told
    assert ("396 found, 0 not covered, 4 malformed" in told) == (code != 2 and options != ["--ok-malformed"])


def test_one_malformed_argument_is_a_failure_and_one_of_a_long_stream_is_none(tmp_path: Path) -> None:
    (tmp_path / "ips").write_text("8.8.8.8\n" * 99 + "bad\n")
    assert run(["lookup", "--file", str(tmp_path / "ips")]) == 0
    assert run(["lookup", "--file", str(tmp_path / "ips"), "--max-malformed", "0"]) == 5
    assert run(["lookup", *["8.8.8.8"] * 99, "bad"]) == 5
    assert run(["lookup", *["8.8.8.8"] * 99, "bad", "--max-malformed", "1"]) == 0


def test_ndjson_keeps_every_byte_and_appends_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        b'{"ip": "8.8.8.8", "n": 12345678901234567890.0, "ip2":[1,\t2] }  \r\n',
        b"\n",
        b'{"ip": null}\n',
        b"{}\n",
        b'{"ip": 134744072}\n',
        b'{"ip": "8.8.8"}\n',
        b'{"ip": ["8.8.8.8"]}\n',
        b"[1]\n",
        b"{bad\n",
        b'{"ip": "8.8.8.8", "geo_country": "XX"}\n',
        b'{"ip": "9.0.0.1"}',
    ]
    code, found = enriched(tmp_path, b"".join(lines), "in.ndjson", "out.jsonl", "--fields", "country,longitude")
    assert code == 5
    assert found.split(b"\n") == [
        b'{"ip": "8.8.8.8", "n": 12345678901234567890.0, "ip2":[1,\t2],"geo_country":"FR","geo_longitude":null}  \r',
        b"",
        b'{"ip": null,"geo_country":null,"geo_longitude":null}',
        b'{"geo_country":null,"geo_longitude":null}',
        b'{"ip": 134744072,"geo_country":"FR","geo_longitude":null}',
        b'{"ip": "8.8.8","geo_country":null,"geo_longitude":null}',
        b'{"ip": ["8.8.8.8"],"geo_country":null,"geo_longitude":null}',
        b"[1]",
        b"{bad",
        b'{"ip": "8.8.8.8", "geo_country": "XX"}',
        b'{"ip": "9.0.0.1","geo_country":"DE","geo_longitude":null}',
    ]
    named = [line.partition("line ")[2].partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert named == ["6", "7", "8", "9", "10", ""]


def test_parquet_keeps_types_and_metadata(tmp_path: Path) -> None:
    table = pa.table(
        {
            "ip": pa.array(["8.8.8.8", None, "9.0.0.1", "bad"]).dictionary_encode(),
            "at": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
            "deep": pa.array([[1], None, [], [2]]),
        }
    ).replace_schema_metadata({"kept": "yes"})
    parquet.write_table(table, tmp_path / "in.parquet")
    code = run(["enrich", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), "--fields", "country,locid"])
    found = parquet.read_table(tmp_path / "out.parquet")
    assert code == 5
    assert found.select(["ip", "at", "deep"]).equals(table)
    assert found.schema.metadata[b"kept"] == b"yes"
    assert found.schema.types[3:] == [pa.string(), pa.int64()]
    assert found.column("geo_country").to_pylist() == ["FR", None, "DE", None]


def test_parquet_of_many_row_groups_does_not_carry_the_whole_string_table(home: str, tmp_path: Path) -> None:
    publish(
        home, [place(n, f"20.{n >> 8}.{n & 255}.0/24", city=f"a city of a long name {n:060}") for n in range(1, 9000)]
    )
    parquet.write_table(pa.table({"ip": ["20.0.1.1"] * 100_000}), tmp_path / "in.parquet")
    assert run(["enrich", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), "--fields", "city"]) == 0
    assert (tmp_path / "out.parquet").stat().st_size < 20_000


@pytest.mark.parametrize("source", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("target", ["csv", "ndjson", "parquet"])
def test_every_format_is_made_from_every_other(tmp_path: Path, source: str, target: str) -> None:
    rows = [{"n": "1", "ip": "8.8.8.8"}, {"n": "2", "ip": "2001:db8::1"}, {"n": "3", "ip": None}]
    path, out = tmp_path / f"in.{source}", tmp_path / f"out.{target}"
    if source == "csv":
        path.write_text("n,ip\n" + "".join(f"{row['n']},{row['ip'] or ''}\n" for row in rows))
    elif source == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    assert run(["enrich", str(path), str(out), "--fields", "country,latitude,pending"]) == 0
    if target == "csv":
        found = list(csv.DictReader(io.StringIO(out.read_text())))
        assert [row["geo_latitude"] for row in found] == ["", "37.5", ""]
        assert [row["geo_pending"] for row in found] == ["false", "false", ""]
    elif target == "ndjson":
        found = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["geo_latitude"] for row in found] == [None, 37.5, None]
    else:
        found = parquet.read_table(out).to_pylist()
        assert [row["geo_pending"] for row in found] == [False, False, None]
    assert [row["n"] for row in found] == ["1", "2", "3"]
    assert [row["geo_country"] or "" for row in found] == ["FR", "US", ""]


def test_conversion_leaves_bad_rows_out_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = enriched(tmp_path, b"n,ip\n1,8.8.8.8\n2\n3,bad\n", "in.csv", "out.ndjson", "--fields", "country")
    assert [json.loads(line) for line in found.splitlines()] == [
        {"n": "1", "ip": "8.8.8.8", "geo_country": "FR"},
        {"n": "3", "ip": "bad", "geo_country": None},
    ]
    assert code == 5
    told = capsys.readouterr().err.splitlines()
    assert ["line 3: has 1" in line or "line 4: 'bad'" in line for line in told] == [True, True, False]
    assert told[2] == "geolookup: 3 addresses: 1 found, 0 not covered, 2 malformed"


def test_more_than_one_chunk_keeps_order_and_line_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = [f"8.{n % 256}.{n // 256 % 256}.1" for n in range(60_000)]
    addresses[50_000] = "bad"
    data = "".join(f"{n},{address}\n" for n, address in enumerate(addresses)).encode()
    code, found = enriched(tmp_path, b"n,ip\n" + data, "in.csv", "out.csv", "--fields", "country", "--threads", "2")
    rows = list(csv.reader(io.StringIO(found.decode())))
    assert (code, [row[0] for row in rows[1:]]) == (0, [str(n) for n in range(60_000)])
    expected = ["FR" if address.startswith("8.8.") else "" if address == "bad" else "US" for address in addresses]
    assert [row[2] for row in rows[1:]] == expected
    assert "line 50002:" in capsys.readouterr().err


def test_streams_of_any_length_need_constant_memory() -> None:
    program = (
        "import resource, runpy, sys\n"
        "sys.argv = ['geolookup', 'enrich', '-', '-', '--in-format', sys.argv[1], '--threads', '2']\n"
        "try:\n    runpy.run_module('geolookup', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(rows: int) -> int:
        line = b"8.8.8.8," + b"x" * 200 + b"\n"
        result = subprocess.run(
            [sys.executable, "-c", program, "csv"],
            input=b"ip,filler\n" + line * rows, capture_output=True, check=True, timeout=120,
        )  # fmt: skip
        assert result.stdout.count(b"\n") == rows + 1
        return int(result.stderr)

    unit = 1 if sys.platform == "darwin" else 1024
    assert (peak(300_000) - peak(100_000)) * unit < 16 << 20  # 42 MB more go through


def test_standard_input_and_output_are_streams_of_the_same_format(tmp_path: Path) -> None:
    result = command("-", "-", "--in-format", "csv", "--column", "client", stdin=b"client\n8.8.8.8\n")
    assert (result.returncode, result.stdout) == (
        0,
        "client,geo_country,geo_region,geo_city\n8.8.8.8,FR,,Orléans\n".encode(),
    )
    assert command("-", "-", stdin=b"").returncode == 2
    assert command("-", "-", "--in-format", "parquet", stdin=b"PAR1").returncode == 2
    out = command("-", "-", "--in-format", "ndjson", "--out-format", "parquet", stdin=b'{"ip":"8.8.8.8"}\n')
    assert parquet.read_table(pa.BufferReader(out.stdout)).column("geo_country").to_pylist() == ["FR"]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("ip\n" + "8.8.8.8\n" * 50_000)
    script = f"set -o pipefail; {shlex.join(forked())} -m geolookup enrich {path} - | head -n 1"
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stderr, result.stdout.count(b"\n")) == (0, b"", 1)


@pytest.mark.parametrize(
    ("name", "data", "code", "message"),
    [
        ("in.csv", b"", 1, "is empty"),
        ("in.csv", b"a,b\n1,2\n", 2, "unknown column 'ip': the columns are 'a', 'b'"),
        ("in.csv", b"ip,ip\n1,2\n", 2, "more than one column is named 'ip'"),
        ("in.csv", b"ip,geo_city\n1,2\n", 2, "a column 'geo_city' exists already"),
        ("in.csv", b'ip,b\n8.8.8.8,"' + b"x\n" * 100_000, 1, "line 2: is not CSV: a cell has more than"),
        ("in.ndjson", b'{"a":1}\n', 2, "no row has a member 'ip'"),
        ("in.parquet", b"no", 1, "cannot be read as Parquet"),
    ],
)
def test_what_fails_leaves_the_target_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, code: int, message: str
) -> None:
    target = tmp_path / f"out{os.path.splitext(name)[1]}"
    target.write_bytes(b"before")
    found, left = enriched(tmp_path, data, name, target.name)
    assert (found, left) == (code, b"before")
    assert message in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == sorted({name, target.name, "state"}), "no temporary is left behind"


def test_parquet_that_is_cut_within_its_rows_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"ip": [f"8.{n % 250}.{n // 250 % 250}.7" for n in range(100_000)]}), path)
    data = bytearray(path.read_bytes())
    data[1000 : len(data) // 2] = b"\xff" * (len(data) // 2 - 1000)
    (tmp_path / "out.parquet").write_bytes(b"before")
    assert enriched(tmp_path, bytes(data), "in.parquet", "out.parquet") == (1, b"before")


def test_a_file_can_be_enriched_in_place_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"ip\n8.8.8.8\n")
    path.chmod(0o640)
    assert run(["enrich", str(path), str(path), "--fields", "country"]) == 0
    assert path.read_bytes() == b"ip,geo_country\n8.8.8.8,FR\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_the_mask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        enriched(tmp_path, b"ip\n8.8.8.8\n", "in.csv", "out.csv")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="sizes of files cannot be limited here")
def test_a_target_that_cannot_be_written_whole_is_not_published(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("ip\n" + "8.8.8.8\n" * 50_000)
    program = (
        "import resource, signal, sys\nfrom geolookup.cli.app import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\n"
        "sys.exit(run(['enrich', *sys.argv[1:]]))"
    )
    result = subprocess.run(
        [*forked(), "-c", program, str(path), str(out)], capture_output=True, check=False, timeout=60
    )
    assert (result.returncode, result.stderr.decode()) == (1, f"geolookup: {out}: writing failed: File too large\n")
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "state"]


@pytest.mark.parametrize("arguments", [["in.txt", "out.csv"], ["in.csv", "out.txt"], ["none.csv", "out.csv"],
                                       ["in.csv", "out.csv", "--fields", "land"]])  # fmt: skip
def test_wrong_usage_is_exit_status_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.csv", "in.txt"):
        Path(name).write_text("ip\n8.8.8.8\n")
    assert run(["enrich", *arguments]) == 2
    assert not Path(arguments[1]).exists()


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("ip\n8.8.8.8\n")
    program = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom geolookup.cli.app import run\nsys.exit(run(sys.argv[1:]))"
    )
    arguments = ["enrich", str(tmp_path / "in.csv"), str(tmp_path / "out.csv")]
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False, timeout=60)
    assert (result.returncode, b"pip install 'geolookup[arrow]'" in result.stderr) == (2, True)
    assert b"Traceback" not in result.stderr
    lookup = subprocess.run([sys.executable, "-c", program, "lookup", "8.8.8.8"], capture_output=True, check=False)
    assert lookup.returncode == 0, "nothing else needs it"


def test_plain_lookups_load_nothing_of_columns() -> None:
    program = (
        "import sys\nfrom geolookup.__main__ import main\ncode = main()\n"
        "print(code, [name for name in sys.modules if name.startswith(('geolookup.columns', 'pyarrow', 'numpy'))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, "8.8.8.8"], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_an_error_from_writing_names_the_file(tmp_path: Path, form: str) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"ip\n8.8.8.8\n")
    done = command(str(source), "/dev/full", "--out-format", form)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"geolookup: /dev/full: writing failed: No space left on device\n"


def test_an_error_from_putting_the_file_in_its_place_names_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rename(_source: str, _target: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "rename", rename)
    assert enriched(tmp_path, b"ip\n8.8.8.8\n", "in.csv", "out.csv") == (1, b"")
    assert capsys.readouterr().err == f"geolookup: {tmp_path / 'out.csv'}: writing failed: Input/output error\n"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "state"]


def test_a_reader_of_a_pipe_may_leave_early(tmp_path: Path) -> None:
    pipe, source = tmp_path / "pipe", tmp_path / "in.csv"
    os.mkfifo(pipe)
    source.write_bytes(b"ip\n" + b"8.8.8.8\n" * 100_000)
    running = subprocess.Popen(
        [*forked(), "-m", "geolookup", "enrich", str(source), str(pipe), "--out-format", "csv"],
        stderr=subprocess.PIPE,
    )
    with open(pipe, "rb") as reader:
        reader.readline()
    _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (0, b"")


FACTS = "country,time_zone,accuracy_radius,asn,as_organization,is_in_european_union,is_anonymous,network"


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_facts_are_added_with_their_types_and_their_names(tmp_path: Path, home: str, form: str) -> None:
    other = str(tmp_path / "facts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_HOME", other)
        state_of_files(other)
        texts = ["81.2.69.160", "1.128.0.0", "2002:180:1::1", "9.9.9.9"]
        path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
        if form == "csv":
            path.write_text("ip\n" + "".join(f"{text}\n" for text in texts))
        elif form == "ndjson":
            path.write_text("".join(json.dumps({"ip": text}) + "\n" for text in texts))
        else:
            parquet.write_table(pa.table({"ip": texts}), path)
        assert run(["enrich", str(path), str(out), "--fields", FACTS]) == 4
        assert run(["enrich", str(path), str(tmp_path / "x.csv"), "--fields", "asn", "--ok-uncovered"]) == 0
    names = FACTS.split(",")
    with GeoLookup(other) as geo:
        right = [[row[name] for name in names] for row in single_lookups(geo, texts)]
    assert right[1][3] == right[2][3] == 1221
    if form == "parquet":
        table = parquet.read_table(out)
        assert table.schema.types[1:] == [
            pa.string(), pa.string(), pa.uint16(), pa.uint32(), pa.string(), pa.bool_(), pa.bool_(), pa.string(),
        ]  # fmt: skip
        found = table.to_pylist()
    elif form == "ndjson":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(out.read_text())))
        right = [
            ["" if v is None else str(v).lower() if v is True or v is False else str(v) for v in row] for row in right
        ]
    assert [[row[f"geo_{name}"] for name in names] for row in found] == right


def test_an_address_with_a_network_and_no_place_is_covered_if_its_network_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "networks")
    state_of_networks_only(home)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    code, out = enriched(tmp_path, b"ip\n1.128.0.0\n", "in.csv", "out.csv", "--fields", "asn,country")
    assert (code, out) == (0, b"ip,geo_asn,geo_country\n1.128.0.0,1221,\n")
    code, out = enriched(tmp_path, b"ip\n1.128.0.0\n", "in.csv", "out.csv", "--fields", "country")
    assert (code, out) == (4, b"ip,geo_country\n1.128.0.0,\n")
    assert "no source says" not in capsys.readouterr().err


def test_facts_that_no_source_can_say_draw_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = enriched(tmp_path, b"ip\n8.8.8.8\n", "in.csv", "out.csv", "--fields", "city,asn")
    assert (code, out.decode()) == (0, "ip,geo_city,geo_asn\n8.8.8.8,Orléans,\n")
    assert "no source says who runs addresses, so asn will be empty" in capsys.readouterr().err


def test_a_workbook_is_read_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["who", "ip"])
    book.active.append(["a, b", "8.8.8.8"])
    out = io.BytesIO()
    book.save(out)
    code, found = enriched(tmp_path, out.getvalue(), "in.xlsx", "out.csv", "--fields", "country")
    assert (code, found) == (0, b'who,ip,geo_country\n"a, b",8.8.8.8,FR\n')
    assert enriched(tmp_path, out.getvalue(), "in.xlsx", "out.xlsx") == (2, b"")
    assert "out.xlsx: say with --out-format which format to write" in capsys.readouterr().err
