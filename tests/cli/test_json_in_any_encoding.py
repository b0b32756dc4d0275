"""Every command that prints JSON prints JSON whatever the encoding of standard output; a full one is told in one line.

The commands run in this process, on a standard output of their own.
"""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from geolookup.cli.app import app, run
from tests.support.data.states import place, publish

CITY = "Zürich 🏔"
CREATED = "-1000000000000001"
#: Commands that print what is in this state, in an order in which each finds what it needs.
COMMANDS = (
    ("custom create", "--country", "CH", "--city", CITY, "--latitude", "47", "--longitude", "8"),
    ("custom add-block", CREATED, "10.0.0.0/8"),
    ("custom replace-block", CREATED, "10.0.0.0/8", "10.0.0.0/9"),
    ("custom remove-block", CREATED, "10.0.0.0/9"),
    ("custom update", CREATED, "--city", CITY + "!"),
    ("custom rename", CREATED, "Zürich office"),
    ("custom list",),
    ("custom show", CREATED),
    ("custom check",),
    ("custom plan", "sites.toml"),
    ("custom apply", "sites.toml"),
    ("outbox list",),
    ("outbox show", "1"),
    ("history",),
    ("list",),
    ("list", "--blocks"),
    ("lookup", "8.8.8.8", "8.0.0.0/9"),
    ("explain", "8.8.8.8"),
    ("top", "log"),
    ("check", "Zürich.csv"),
    ("generations list",),
    ("generations pin", "1"),
    ("generations unpin", "1"),
    ("generations prune",),
    ("status",),
    ("verify",),
    ("doctor",),
    ("source list",),
    ("config path",),
    ("config show",),
    ("custom clear-blocks", CREATED),
    ("custom delete", CREATED),
)
#: Those that need a service, a second generation, a person, a file, or an edit that waits: they print as the others do.
ELSEWHERE = {
    "config init", "custom undo", "export csv", "export geofeed", "export mmdb", "export parquet",
    "generations diff", "generations rollback", "generations show", "hotel details", "hotel list", "hotel near",
    "outbox adopt", "outbox drop", "outbox edit", "outbox keep", "outbox restore", "outbox retry", "push",
    "fleet follow", "fleet init", "fleet join", "fleet publish", "fleet root rotate", "fleet root sign", "fleet status",
    "rate put", "refresh", "serve-token", "source add", "source move", "source remove", "source show",
    "state backup", "state move", "state restore", "sync",
}  # fmt: skip


@pytest.fixture(autouse=True)
def state(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="CH", city=CITY)])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    Path("log").write_text("8.8.8.8\n")
    Path("Zürich.csv").write_text(f"network,country,city\n8.0.0.0/8,CH,{CITY}\nbad,CH,{CITY}\n")
    texts = "".join(f'{name} = ""\n' for name in ("region", "postalcode", "dmacode", "areacode"))
    site = f'[[site]]\nname = "s"\ncountry = "CH"\ncity = "{CITY}"\nlatitude = 47\nlongitude = 8\n{texts}'
    Path("sites.toml").write_text(f'{site}blocks = ["10.0.0.0/8"]\n')


def json_commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Every command that can print JSON, with the option for it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from json_commands(command, (*words, name))
            continue
        for parameter in command.params:
            if "--json" in parameter.opts:
                yield " ".join((*words, name)), ["--json"]
                break
            if "--format" in parameter.opts and "json" in getattr(parameter.type, "choices", ()):
                yield " ".join((*words, name)), ["--format", "json"]
                break


OPTIONS = dict(json_commands(app))


@contextlib.contextmanager
def output_of(encoding: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """A standard output of its own, as PYTHONIOENCODING makes it."""
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        out = io.TextIOWrapper(written, encoding=encoding, newline="\n")
        patch.setattr(sys, "stdout", out)
        yield written
        out.flush()
        out.detach()


def test_every_command_that_prints_json_is_here_or_named_as_one_that_cannot_be() -> None:
    assert set(OPTIONS) == {name for name, *_ in COMMANDS} | ELSEWHERE


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_json_in_any_encoding(
    encoding: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    shown = 0
    for name, *rest in COMMANDS:
        with output_of(encoding, monkeypatch) as written:
            code = run([*name.split(), *rest, *OPTIONS[name]])
        try:
            found = json.loads(written.getvalue().decode(encoding))
        except ValueError as error:
            wrong.append((name, code, str(error), written.getvalue()[:200], capsys.readouterr().err))
        else:
            shown += CITY in json.dumps(found, ensure_ascii=False)
    assert not wrong
    assert shown >= 8, "the city is in what most of them print"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_output_is_one_line_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, *rest in COMMANDS:
        with monkeypatch.context() as patch:
            full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - closing it must not fail a second time
            patch.setattr(sys, "stdout", full)
            code = run([*name.split(), *rest, *OPTIONS[name]])
            full.close()
        told = capsys.readouterr().err.splitlines()
        assert (code, told[-1:]) == (1, ["geolookup: writing the result failed: No space left on device"]), name
