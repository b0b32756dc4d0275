"""``geolookup export``: the four formats, standard output, what is said, exit statuses."""

import gzip
import os
import signal
import subprocess
from pathlib import Path

import maxminddb
import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.exports.states import publish_sources
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked


@pytest.fixture(autouse=True)
def own_home(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


@pytest.fixture
def state(home: str) -> None:
    """A place of the service and one of ours."""
    publish(
        home,
        [
            place(1, "8.0.0.0/8", "::800:0/104", country="US", city="One"),
            place(-2, "9.0.0.0/8", country="DE", city="Zwei, zwei\x1b[31m"),
        ],
    )


@pytest.mark.usefixtures("state")
def test_an_mmdb_answers_and_what_was_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "corrected.mmdb"
    assert run(["export", "mmdb", str(path), "--type", "GeoLite2-City"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"wrote {path}: 3 ranges, ")
    assert err == "geolookup: 1 IPv6 range reaches into ::/96, where a MaxMind DB has IPv4: left out there\n"
    with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
        assert reader.metadata().database_type == "GeoLite2-City"
        assert reader.get("9.9.9.9")["country"]["iso_code"] == "DE"
    assert run(["export", "mmdb", str(path), "--fields", "country", "--layer", "custom"]) == 0
    with maxminddb.open_database(path, maxminddb.MODE_MEMORY) as reader:
        assert (reader.metadata().database_type, reader.get("8.8.8.8")) == ("geolookup-Country", None)


@pytest.mark.usefixtures("state")
def test_a_compressed_file_is_said_to_be_smaller_than_what_was_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ranges.csv.gz"
    assert run(["export", "csv", str(path)]) == 0
    size = len(gzip.decompress(path.read_bytes()))
    assert capsys.readouterr().out == f"wrote {path}: 3 ranges, {size} bytes before compression\n"


@pytest.mark.usefixtures("state")
def test_each_format_goes_to_standard_output() -> None:
    command = [*forked(), "-m", "geolookup", "export"]
    done = subprocess.run([*command, "geofeed", "-"], capture_output=True, check=True, timeout=60)
    assert done.stdout.splitlines()[1:] == [b"9.0.0.0/8,DE,,Zwei zwei [31m,"]
    assert done.stderr == (
        b"geolookup: 1 place has a city with a comma, # or quote: blanks are written in their place\n"
    )
    done = subprocess.run(
        [*command, "csv", "-", "--networks", "--fields", "country"], capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"network,country\n8.0.0.0/8,US\n9.0.0.0/8,DE\n::800:0/104,US\n"
    done = subprocess.run([*command, "parquet", "-"], capture_output=True, check=True, timeout=60)
    assert done.stdout[:4] == done.stdout[-4:] == b"PAR1"


@pytest.mark.usefixtures("state")
def test_a_terminal_gets_neither_commands_nor_bytes() -> None:
    import pty

    def shown(*words: str) -> tuple[int, bytes]:
        master, slave = pty.openpty()
        with subprocess.Popen(
            [*forked(), "-m", "geolookup", "export", *words], stdout=slave, stderr=subprocess.PIPE
        ) as process:
            os.close(slave)
            assert process.stderr is not None
            errors = process.stderr.read()
            text = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                text += part
        os.close(master)
        return process.returncode, text + errors

    code, text = shown("csv", "-", "--layer", "custom", "--fields", "city")
    assert code == 0
    assert b"\\x1b[31m" in text
    assert b"\x1b" not in text
    code, text = shown("mmdb", "-")
    assert (code, b"give the name of a file" in text) == (2, True)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["xml", "x"], 2),
        (["mmdb"], 2),
        (["csv", "x", "--fields", "no"], 2),
        (["csv", "x", "--source", "no"], 2),
        (["csv", "x", "--as-of", "77"], 2),
        (["geofeed", "x", "--layer", "both", "--networks"], 2),
        (["csv", "."], 1),
        (["csv", "none/x.csv"], 1),
        (["mmdb", "/dev/full"], 1),
    ],
)
def test_what_cannot_be_done_has_its_exit_status(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", *words]) == code
    assert capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("state", "home")] == []


def test_private_addresses_are_refused_in_a_geofeed(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, [place(1, "8.0.0.0/8"), place(-1, "10.0.0.0/8", "9.0.0.0/24", country="DE")])
    path = tmp_path / "feed.csv"
    assert run(["export", "geofeed", str(path)]) == 2
    assert "10.0.0.0 is private or reserved" in capsys.readouterr().err
    assert run(["export", "geofeed", str(path), "--public-only"]) == 0
    assert path.read_text().splitlines()[1:] == ["9.0.0.0/24,DE,,city -1,"]


def test_the_licence_of_sources_is_heeded_and_the_credit_said(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_sources(home, tmp_path, redistribute=False)
    path = str(tmp_path / "x.csv.gz")
    assert run(["export", "csv", path]) == 2
    assert "Test Licence" in capsys.readouterr().err
    assert run(["export", "csv", path, "--licence-allows"]) == 0
    assert "to be shown with the data: City data by Example (https://example.com)" in capsys.readouterr().err
    assert run(["export", "csv", path, "--source", "country"]) == 0


@pytest.mark.usefixtures("state")
def test_another_time_can_be_asked_for(home: str, tmp_path: Path) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="FR")])
    path = tmp_path / "x.csv"
    assert run(["export", "csv", str(path), "--as-of", "previous", "--fields", "country"]) == 0
    assert "8.0.0.0,8.255.255.255,US" in path.read_text()


@pytest.mark.usefixtures("state")
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """The signal comes when all is written under the temporary name."""
    folder = tmp_path / "out"
    folder.mkdir()
    code = (
        "import os, signal\n"
        "from geolookup.exports import target\n"
        "def interrupt(descriptor): os.kill(os.getpid(), signal.SIGINT)\n"
        "target.os.fsync = interrupt\n"
        "from geolookup.cli.app import run\n"
        f"raise SystemExit(run(['export', 'mmdb', {str(folder / 'x.mmdb')!r}]))\n"
    )
    done = subprocess.run([*forked(), "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, list(folder.iterdir())) == (128 + signal.SIGINT, [])
    assert b"x.mmdb was not written; run it again" in done.stderr


def test_help_names_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--help"]) == 0
    out = capsys.readouterr().out
    for form in geolookup.ExportForm.__args__:  # type: ignore[attr-defined]
        assert f"\n  {form} " in out


def test_who_runs_addresses_is_exported_by_layer_type_and_fields(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "own.csv", tmp_path / "out"
    path.write_text(
        "network,country,city,asn,is_vpn\n8.0.0.0/8,US,One,15169,yes\n9.0.0.0/8,,,3333,\n", encoding="utf-8"
    )
    pull(StateDirectory(home), Settings(sources=(SourceSettings(name="own", location=str(path)),)))
    for options, kind, nine in (
        (["--type", "GeoLite2-ASN"], "GeoLite2-ASN", {"autonomous_system_number": 3333}),
        (["--layer", "network"], "geolookup-Network", {"autonomous_system_number": 3333}),
        (["--layer", "all"], "geolookup-Enterprise", {"traits": {"autonomous_system_number": 3333}}),
        (["--type", "GeoIP2-Anonymous-IP"], "GeoIP2-Anonymous-IP", None),
    ):
        assert run(["export", "mmdb", str(out), *options]) == 0
        with maxminddb.open_database(out, maxminddb.MODE_MEMORY) as reader:
            found = reader.get("9.9.9.9")
            assert reader.metadata().database_type == kind
            assert found == (nine and {**nine, "geolookup": {"sources": {"autonomous_system_number": "own"}}})
    capsys.readouterr()
    assert run(["export", "csv", "-", "--fields", "country,asn,is_anonymous_vpn"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "first,last,country,asn,is_anonymous_vpn",
        "8.0.0.0,8.255.255.255,US,15169,true",
        "9.0.0.0,9.255.255.255,,3333,",
    ]
    assert run(["export", "csv", "-", "--fields", "city,asn", "--precision", "country", "--layer", "both"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["8.0.0.0,8.255.255.255,,15169"]
    for words, problem in (
        (["csv", str(out), "--fields", "country,as_nr"], "unknown field 'as_nr': the fields are locid, country"),
        (["mmdb", str(out), "--type", "GeoLite2-ASN", "--layer", "custom"], "its layer must be network"),
        (["geofeed", str(out), "--layer", "network"], "'network' is not one of 'custom', 'default', 'both'"),
        (["mmdb", str(out), "--layer", "network", "--precision", "city"], "the layer network has no places"),
    ):
        assert run(["export", *words]) == 2
        assert problem in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_networks_of_a_state_that_knows_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "mmdb", str(tmp_path / "out"), "--layer", "network"]) == 2
    assert "no source of this state says who runs addresses: add one with" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("name", ["Foo", "GeoLite2-Town", "Cityscape"])
def test_a_type_that_does_not_say_what_it_holds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(["export", "mmdb", str(tmp_path / "out"), "--type", name]) == 2
    assert f"unknown type '{name}': its name says what the file holds" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["export", "mmdb", str(tmp_path / "out"), "--type", "Acme-City"]) == 0


@pytest.mark.parametrize("form", ["mmdb", "csv", "geofeed"])
def test_places_of_a_state_that_knows_none_are_refused(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path, out = tmp_path / "asn.csv", tmp_path / "out"
    path.write_text("network,asn\n8.0.0.0/8,64500\n")
    pull(StateDirectory(home), Settings(sources=(SourceSettings(name="asn", location=str(path)),)))
    assert run(["export", form, str(out), "--layer", "both"]) == 2
    assert "no source of this state says where addresses are, only who runs them" in capsys.readouterr().err
    assert not out.exists()
    assert form == "geofeed" or run(["export", form, str(out), "--layer", "network"]) == 0
