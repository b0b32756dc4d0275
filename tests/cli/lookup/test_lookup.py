"""``geolookup ADDRESS …``: answers, formats, exit status, streams; by the real command in a process of its own."""

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.model.facts import NETWORK_FACTS
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

SRC = Path(__file__).parents[3] / "src"

#: What must stay out of the process that answers plain addresses, for each costs milliseconds.
HEAVY = {
    "bisect", "click", "dataclasses", "geolookup.lookup.engine", "geolookup.model.types", "geolookup.settings.table",
    "httpx", "json", "logging", "msgspec", "netaddr", "numpy", "pathlib", "platformdirs", "re", "rich", "socket",
    "sqlite3", "tomllib", "typing",
}  # fmt: skip


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(
        home,
        [
            place(
                1,
                "8.0.0.0/8",
                "2001:db8::/32",
                country="US",
                region="CA",
                postalcode="94103",
                latitude=37.5,
                longitude=-122.0,
            ),
            place(2, "9.0.0.0/8", country="X\x1b[31m", city="=1+1"),
            place(-1, "8.8.0.0/16", country="FR", city="Orléans"),
        ],
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command as a person runs it."""
    return subprocess.run(
        [*forked(), "-m", "geolookup", *arguments], input=stdin, capture_output=True, check=False, timeout=60
    )


def test_plain_addresses_are_answered_a_line_each() -> None:
    result = command("8.8.8.8", "2001:db8::1", "8.0.0.1")
    assert result.stdout.decode().splitlines() == [
        "8.8.8.8\tOrléans, FR\t8.8.0.0-8.8.255.255\tcustom -1",
        "2001:db8::1\tcity 1, CA, 94103, US\t2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff\tdefault 1",
        "8.0.0.1\tcity 1, CA, 94103, US\t8.0.0.0-8.7.255.255\tdefault 1",
    ]
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize(
    "addresses", [["8.8.8.8"], ["8.0.0.1", "9.9.9.9", "7.7.7.7"], ["::ffff:8.8.8.8"], ["2001:db8::5", "::"]]
)
def test_both_paths_print_the_same(addresses: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    quick = command(*addresses)
    code = run(["lookup", *addresses])
    assert (quick.stdout.decode(), quick.returncode) == (capfd.readouterr().out, code)


@pytest.mark.parametrize("asked", [[], ["lookup"]], ids=["plain", "lookup"])
def test_on_a_terminal_a_line_ends_with_its_origin_only_if_that_is_custom(asked: list[str]) -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [*forked(), "-m", "geolookup", *asked, "8.8.8.8", "8.0.0.1", "7.7.7.7"],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
        said = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert [line.split() for line in said.splitlines()] == [
        ["8.8.8.8", "Orléans,", "FR", "8.8.0.0-8.8.255.255", "custom"],
        ["8.0.0.1", "city", "1,", "CA,", "94103,", "US", "8.0.0.0-8.7.255.255"],
        ["7.7.7.7", "not", "covered"],
    ]


def test_nothing_heavy_is_imported_for_plain_addresses() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); before = set(sys.modules)\n"
        "from geolookup.__main__ import main\n"
        "code = main()\n"
        "print(code, *sorted(set(sys.modules) - before))"
    )
    # -S: site-packages' own start-up files import what they like, and are not ours to judge.
    result = subprocess.run(
        [sys.executable, "-S", "-c", program, str(SRC), "8.8.8.8", "2001:db8::1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    *answers, modules = result.stdout.splitlines()
    assert len(answers) == 2
    code, *imported = modules.split()
    assert code == "0"
    assert "geolookup.index.reader" in imported
    assert not HEAVY & set(imported)


@pytest.mark.parametrize(("nothing", "told"), [("", b"an address is missing"), (" ", b"there are blanks around it")])
def test_an_argument_without_an_address_is_malformed_and_a_line_without_one_is_blank(nothing: str, told: bytes) -> None:
    result = command(nothing, "8.8.8.8")
    assert (result.returncode, result.stdout.splitlines()[0]) == (5, f"{nothing}\tmalformed".encode())
    assert told in result.stderr
    assert command("-", stdin=f"{nothing}\n8.8.8.8\n".encode()).returncode == 0


def test_the_exit_status_tells_not_covered_from_malformed() -> None:
    assert command("8.8.8.8").returncode == 0
    not_covered = command("8.8.8.8", "7.7.7.7")
    assert not_covered.returncode == 4
    assert not_covered.stdout.decode().splitlines()[1] == "7.7.7.7\tnot covered"
    malformed = command("8.8.8.8", "7.7.7.7", "8.8.8", "8.8.8.9")
    assert malformed.returncode == 5
    assert malformed.stdout.decode().splitlines()[2] == "8.8.8\tmalformed"
    assert b"'8.8.8' is not an IP address" in malformed.stderr


def test_ndjson_has_one_object_an_address_in_their_order() -> None:
    result = command("--format", "ndjson", "8.0.0.1", "8.8.8", "7.7.7.7")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert list(found[0].items()) == [
        ("ip", "8.0.0.1"), ("locid", 1), ("country", "US"), ("region", "CA"), ("city", "city 1"),
        ("postalcode", "94103"), ("latitude", 37.5), ("longitude", -122.0), ("dmacode", ""), ("areacode", ""),
        ("first", "8.0.0.0"), ("last", "8.7.255.255"), ("layer", "default"), ("pending", False), ("source", "service"),
        ("network", "8.0.0.0/13"), ("site", None), ("vrf", None), ("country_name", "United States"),
        ("continent_code", "NA"), ("region_code", "CA"),
        ("region_name", None), ("time_zone", None), ("accuracy_radius", None), ("is_in_european_union", False),
        *((name, None) for name in NETWORK_FACTS),
    ]  # fmt: skip
    assert (found[1]["ip"], found[1]["locid"], set(found[1])) == ("8.8.8", None, {"ip", "locid", "error"})
    assert (found[2]["ip"], found[2]["locid"], set(found[2])) == ("7.7.7.7", None, set(found[0]))
    assert result.returncode == 5


@pytest.mark.parametrize("addresses", [["8.8.8.8", "7.7.7.7"], []])
def test_json_is_an_array_of_the_same_objects(addresses: list[str]) -> None:
    text = "\n".join(addresses).encode()
    as_array = json.loads(command("-", "--format", "json", stdin=text).stdout)
    assert as_array == [json.loads(line) for line in command("-", "--format", "ndjson", stdin=text).stdout.splitlines()]


def test_csv_neutralises_formulas_and_keeps_numbers() -> None:
    text = command("--format", "csv", "8.0.0.1", "9.9.9.9").stdout.decode()
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["longitude"], first["pending"], second["city"]) == ("-122.0", "false", "'=1+1")


@pytest.mark.parametrize("form", ["text", "json", "ndjson", "csv"])
def test_control_characters_from_the_data_never_come_out_raw(form: str) -> None:
    result = command("9.9.9.9", "\x1b]0;x\x07", "--format", form)
    assert result.returncode == 5
    assert b"\x1b" not in result.stdout + result.stderr
    assert b"[31m" in result.stdout


def test_a_stream_is_read_a_line_at_a_time_and_bad_lines_are_named() -> None:
    lines = b"8.8.8.8\r\n\n  7.7.7.7\nbad\n" + b"9" * 100_000 + b"\n8.0.0.1"
    result = command("-", stdin=lines)
    assert [line[:8].split(b"\t")[0] for line in result.stdout.splitlines()] == [
        b"8.8.8.8", b"", b"7.7.7.7", b"bad", b"99999999", b"8.0.0.1",
    ]  # fmt: skip
    assert b"standard input, line 4: 'bad'" in result.stderr
    assert b"line 5" in result.stderr
    assert len(result.stderr) < 1000
    assert result.returncode == 5


def test_files_and_arguments_combine(tmp_path: Path) -> None:
    path = tmp_path / "addresses"
    path.write_text("8.8.8.8\n")
    result = command("8.0.0.1", "--file", str(path), "--file", "-", stdin=b"9.9.9.9\n")
    assert [line.split(b"\t")[0] for line in result.stdout.splitlines()] == [b"8.0.0.1", b"8.8.8.8", b"9.9.9.9"]
    missing = command("--file", str(tmp_path / "none"))
    assert (missing.returncode, b"none" in missing.stderr) == (2, True)


def test_a_long_stream_needs_constant_memory() -> None:
    program = (
        "import resource, runpy, sys\n"
        "sys.argv = ['geolookup', '-', '--format', 'ndjson']\n"
        "try:\n    runpy.run_module('geolookup', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(lines: int) -> int:
        result = subprocess.run(
            [sys.executable, "-c", program], input=b"8.8.8.8\n" * lines, capture_output=True, check=True, timeout=120
        )
        assert result.stdout.count(b"\n") == lines
        return int(result.stderr)

    unit = 1 if sys.platform == "darwin" else 1024
    assert (peak(60_000) - peak(100)) * unit < 4 << 20


def test_a_closed_pipe_is_no_error() -> None:
    program = f"{shlex.join(forked())} -m geolookup --file {{}} | head -n 1"
    path = Path(os.environ["GEOLOOKUP_HOME"]).parent / "addresses"
    path.write_text("8.8.8.8\n" * 20_000)
    script = f"set -o pipefail; {program.format(path)}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stderr, len(result.stdout.splitlines())) == (0, b"", 1)


def test_a_full_output_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*forked(), "-m", "geolookup", "8.8.8.8", "--format", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (result.returncode, b"Traceback" in result.stderr) == (1, False)


@pytest.mark.parametrize("arguments", [[], ["--format", "xml", "8.8.8.8"], ["--nonsense"]])
def test_wrong_usage_is_exit_status_2_or_help(arguments: list[str]) -> None:
    result = command(*arguments)
    assert result.returncode == (2 if arguments else result.returncode)
    assert b"Usage" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("attempts = 3\n# home\n", 0),
        ("nonsense = 1\n", 2),
        ('home = "/nonexistent/x"\nurl = "http://127.0.0.1:9"\n', 0),
    ],
)
def test_a_settings_file_is_heeded_on_both_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, code: int
) -> None:
    path = tmp_path / "geolookup.toml"
    path.write_text(file)
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    assert command("8.8.8.8").returncode == code  # GEOLOOKUP_HOME beats the file's `home`


def test_the_file_names_the_state_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    path = tmp_path / "geolookup.toml"
    path.write_text(f'home = "{home}"\n')
    monkeypatch.delenv("GEOLOOKUP_HOME")
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    assert command("8.8.8.8").returncode == 0


def test_damage_is_answered_from_the_generation_before(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="DE")])
    Path(home, "CURRENT").write_bytes(b"\x00" * 100)
    os.truncate(Path(home, "generations", "000002", "index"), 64)
    result = command("8.8.8.8")
    assert (result.returncode, result.stdout.split(b"\t")[1]) == (0, "Orléans, FR".encode())
