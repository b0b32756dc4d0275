"""What people expect of any command line: -h, -V, --json, --field, and the command that was meant."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from geolookup.base.version import __version__
from geolookup.cli.app import app, run
from tests.support.data.states import place, publish

#: Commands without --json: why.
WITHOUT_JSON = {
    "annotate": "what it prints is the log, with answers in it",
    "completion": "what it prints is a script for a shell",
    "console": "it runs until it is stopped",
    "custom export": "what it prints is a file of sites, which `custom apply` reads",
    "enrich": "what it prints are the rows, in --out-format",
    "map": "what it writes is a drawing",
    "serve": "it runs until it is stopped",
    "share": "it runs until it is stopped",
}
#: Commands that list or show records without --field and --fields: why.
WITHOUT_FIELDS = {
    "config show": "it shows where each setting comes from",
    "generations show": "it is a report of one generation, with its own parts",
    "hotel list": "the members are the service's own, and --include chooses them",
    "source show": "it is a report of one source; `source list` has its fields",
}


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.0.0.0/8", country="US", city="Köln"), place(-1, "9.0.0.0/8", country="DE")])


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from commands(command, own)
        else:
            yield own.command_path.removeprefix("geolookup "), command, own


def test_every_command_that_prints_answers_with_json_on_request() -> None:
    without = {
        path
        for path, command, _ in commands(app, click.Context(app, info_name="geolookup", **app.context_settings))
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == set(WITHOUT_JSON)
    assert all(WITHOUT_JSON.values())


@pytest.mark.parametrize(
    "arguments", [["8.8.8.8"], ["generations", "list"], ["list"], ["status"], ["explain", "8.8.8.8"]]
)
def test_what_is_printed_then_is_one_json_text(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_json_and_another_format_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["8.8.8.8", "--json", "--format", "csv"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert run(["8.8.8.8", "--json", "--format", "json"]) == 0


def test_h_is_help_of_every_command_and_v_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: geolookup ")
    assert run(["custom", "create", "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: geolookup custom create ")
    assert run(["-V"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("statsu", "geolookup status"),
        ("explian 8.8.8.8", "geolookup explain"),
        ("Status", "geolookup status"),
        ("serve_token x", "geolookup serve-token"),
        ("gen list", "geolookup generations"),
        ("update", "geolookup sync"),
        ("help", "geolookup --help"),
        ("version", "geolookup --version"),
        ("custom creat --country DE", "geolookup custom create"),
        ("generations rolback", "geolookup generations rollback"),
    ],
)
def test_a_command_that_is_nearly_one_is_never_a_bad_address(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed.split()) == 2
    captured = capsys.readouterr()
    assert f"did you mean `{meant}`?" in captured.err
    assert "IP address" not in captured.err
    assert captured.out == ""


def test_a_word_like_no_command_is_one_bad_address_among_others_and_alone_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["zzz"]) == 2
    assert "neither a command nor an IP address" in capsys.readouterr().err
    assert run(["zzz", "8.8.8.8"]) == 5
    captured = capsys.readouterr()
    assert "'zzz' is not an IP address" in captured.err
    assert "8.8.8.8\t" in captured.out
    assert run(["source", "zzz"]) == 2
    assert "there are add, list, move, remove, show" in capsys.readouterr().err


def test_chosen_fields_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["8.8.8.8", "--field", "city"]) == 0
    assert capsys.readouterr().out == "Köln\n"
    assert run(["8.8.8.8", "10.0.0.1", "9.9.9.9", "--fields", "country, locid"]) == 4
    assert capsys.readouterr().out == "US\t1\n\t\nDE\t-1\n"
    assert run(["8.8.8.8", "--fields", "ip,country", "--format", "ndjson"]) == 0
    assert capsys.readouterr().out == '{"ip":"8.8.8.8","country":"US"}\n'
    assert run(["8.8.8.8", "--fields", "ip,country", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "ip,country,error\n8.8.8.8,US,\n"
    assert run(["8.8.8.8", "--field", "contry"]) == 2
    assert "unknown field 'contry': did you mean country?" in capsys.readouterr().err


def test_chosen_fields_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--fields", "locid,city"]) == 0
    assert capsys.readouterr().out == "-1\tcity -1\n1\tKöln\n"
    assert run(["list", "--default", "--field", "country", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"country": "US"}]
    assert run(["list", "--field", "country", "--networks"]) == 2


def test_every_command_that_prints_records_takes_chosen_fields_and_knows_those_of_its_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(tmp_path / "geolookup.toml"))
    assert run(["source", "add", "registry"]) == 0
    assert run(["custom", "add-block", "-1", "9.0.0.0-9.0.0.9"]) == 0
    ends = {"custom show": ["-1"], "outbox show": ["1"], "lookup": ["8.8.8.8"]}
    without = set()
    for path, command, _ in commands(app, click.Context(app, info_name="geolookup", **app.context_settings)):
        if path.split()[-1] not in ("list", "show", "history", "lookup"):
            continue
        if not {"--field", "--fields"} <= {name for parameter in command.params for name in parameter.opts}:
            without.add(path)
            continue
        words = [*path.split(), *ends.get(path, [])]
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        found = found["sources"] if path == "source list" else found
        names = list((found[0] if isinstance(found, list) else found).keys())
        assert run([*words, "--fields", ",".join(names)]) == 0, path
        first = capsys.readouterr().out.splitlines()[0]
        assert len(first.split("\t")) == len(names)
        assert run([*words, "--field", "nothing"]) == 2
        more = ", " if path == "list" else "\n"  # of ranges (--asn, --fact) it takes facts, too
        assert f"there are {', '.join(names)}{more}" in capsys.readouterr().err
    assert without == set(WITHOUT_FIELDS)
    assert all(WITHOUT_FIELDS.values())


def test_chosen_fields_of_custom_geolocations(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["custom", "add-block", "-1", "10.0.0.1"]) == 0
    capsys.readouterr()
    assert run(["custom", "list", "--fields", "locid,ipblocks,pending"]) == 0
    # Any other command takes these blocks as they are.
    assert capsys.readouterr().out == "-1\t9.0.0.0-9.255.255.255 10.0.0.1\ttrue\n"
    assert run(["custom", "show", "-1", "--field", "country", "--field", "site"]) == 0
    assert capsys.readouterr().out == "DE\t\n"
    assert run(["custom", "show", "-1", "--field", "country", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"country": "DE"}
    assert run(["outbox", "list", "--fields", "id,operation,payload"]) == 0
    assert capsys.readouterr().out == '1\tadd_block\t{"block":["10.0.0.1","10.0.0.1"]}\n'
    assert run(["history", "--fields", "what,locid"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "add_block\t-1"


def test_a_value_for_a_terminal_is_harmless(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8", city="\x1b[31mred\ttab")])
    assert run(["8.8.8.8", "--fields", "city,country"]) == 0
    assert capsys.readouterr().out == "\\x1b[31mred\\ttab\t\n"
