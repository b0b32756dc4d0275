"""What is held, looked at before anybody accepts it: why, and what would change; nothing is published by that."""

import json
import re
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.index.reader import IndexReader
from geolookup.state.base.current import read_current
from geolookup.state.editor import Editor
from tests.faults.raw_server import RawServer
from tests.state.edits.editing import BERLIN
from tests.state.generations.staged import tree
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish
from tests.support.users.in_process import asked

HALF = listed(many(40)[:20], count=20)


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


@pytest.fixture
def held(home: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a sync whose list lost half of its rows."""
    with RawServer(listed(many(40), count=40), HALF) as server:
        assert run(["sync", "--url", server.url]) == 0
        with Editor(home) as editor:  # ours stays in what would be served
            editor.add_block(editor.create(**BERLIN), "192.168.0.0/16")
        capsys.readouterr()
        assert run(["sync", "--url", server.url]) == 3
    return capsys.readouterr().err


def test_the_message_names_a_command_that_looks_and_publishes_nothing(
    home: str, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = re.search(r"Look at it: geolookup (generations diff served held)\. If", held)
    assert command is not None, held
    before = {name: Path(home, name).read_bytes() for name in tree(home) if Path(home, name).is_file()}
    out = asked(capsys, *command[1].split())
    assert out.startswith("from generation 1 to what is held\ngeolocations: 0 added, 20 removed, 0 changed\n")
    found = json.loads(asked(capsys, *command[1].split(), "--json", "--blocks", "--top", "0"))
    assert (found["from"], found["to"]) == (1, "held")
    assert len(found["blocks"]["removed"]) == 40
    assert {name: Path(home, name).read_bytes() for name in tree(home) if Path(home, name).is_file()} == before


def test_show_says_why_and_what_to_do(home: str, held: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = asked(capsys, "generations", "show", "held")
    digest = re.search(r"--accept (\w+)", held)[1]  # type: ignore[index]
    assert re.search(r"^held: +source service, pulled \S+ \S+Z from http://127", out, re.MULTILINE)
    assert "why:         geolocations: 20 instead of 40, fewer than 95%\n" in out
    assert "why:         blocks: 40 instead of 80, fewer than 95%\n" in out
    assert "served:      generation 1: 40 geolocations" in out
    assert "difference:  geolocations +0 -20 ~0, blocks +0 -40 ~0," in out
    assert f"publish:     geolookup sync --accept {digest}\n" in out
    found = json.loads(asked(capsys, "generations", "show", "held:service", "--json"))
    assert found["digest"].startswith(digest)
    assert len(found["reasons"]) >= 2
    asked(capsys, "sync", "--accept", digest)
    assert run(["generations", "show", "held"]) == 2
    assert "nothing is held" in capsys.readouterr().err


def test_what_was_withdrawn_is_held_no_more(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    with RawServer(listed(many(40), count=40), HALF, listed(many(40), count=40)) as server:
        asked(capsys, "sync", "--url", server.url)
        asked(capsys, "sync", "--url", server.url, code=3)
        asked(capsys, "generations", "show", "held")
        assert "nothing new" in asked(capsys, "sync", "--url", server.url)
    assert run(["generations", "show", "held"]) == 2
    assert "nothing is held" in capsys.readouterr().err
    assert not Path(home, "held").exists()


def test_what_would_be_answered_is_what_is_answered_once_it_is_accepted(
    home: str, held: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = [*(f"10.0.{number}.1" for number in range(0, 60, 7)), "192.168.3.4", "8.8.8.8"]
    (tmp_path / "addresses").write_text("\n".join(names))
    arguments = ["--addresses", str(tmp_path / "addresses"), "--json"]
    planned = json.loads(asked(capsys, "generations", "diff", "served", "held", *arguments))
    asked(capsys, "sync", "--accept", re.search(r"--accept (\w+)", held)[1])  # type: ignore[index]
    done = json.loads(asked(capsys, "generations", "diff", "1", "2", *arguments))
    assert planned["addresses"] == done["addresses"]
    assert planned["answers"] == done["answers"]
    assert planned["counts"] == done["counts"]
    assert planned["answers"]["ipv4"] > 0


def test_of_several_things_that_are_held_one_must_be_named_and_a_change_of_the_stack_is_one(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))

    def rows(name: str, first: int, count: int) -> None:
        lines = [f"{first}.0.{at}.0,{first}.0.{at}.255,City {at}" for at in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["first,last,city", *lines, ""]))

    def stack(*names: str) -> None:
        config.write_text("".join(f'[[source]]\nname = "{name}"\nlocation = "{name}.csv"\n' for name in names))

    rows("one", 11, 60)
    rows("two", 12, 60)
    stack("one", "two")
    asked(capsys, "sync")
    rows("one", 11, 20)
    asked(capsys, "sync", code=3)
    out = asked(capsys, "generations", "diff", "served", "held")
    assert "source one:\ngeolocations: 0 added, 40 removed" in out
    rows("two", 12, 20)
    stack("one")
    asked(capsys, "sync", code=3)
    assert run(["generations", "show", "held"]) == 2
    assert "several things are held: name one: held:one, held:stack" in capsys.readouterr().err
    assert "source two left the stack: 60 geolocations" in asked(capsys, "generations", "diff", "served", "held:stack")
    out = asked(capsys, "generations", "show", "held:stack")
    assert "held:        a change of the stack to one\n" in out
    assert "why:         50.0% of the IPv4 addresses that have an answer would have none (15,360 addresses)\n" in out
    assert run(["generations", "diff", "served", "held:two"]) == 2
    assert "'held:two' is not held: name one: held:one, held:stack" in capsys.readouterr().err


def test_show_says_what_a_generation_is_made_of(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "10.0.0.0/8")])
    publish(home, [place(2, "11.0.0.0/8"), place(3, "12.0.0.0/8")])
    out = asked(capsys, "generations", "show", "previous")
    assert out.startswith("generation:  1 (kept)\nserved from: ")
    assert "content:     1 geolocation, 1 block\n" in out
    assert "source:      service (service), snapshot 1, answers 16,777,216 IPv4" in out
    assert asked(capsys, "generations", "show").startswith("generation:  2 (served)\n")
    assert json.loads(asked(capsys, "generations", "show", "1", "--json"))["number"] == 1
    assert run(["lookup", "--as-of", "held", "10.0.0.1"]) == 2
    assert "was never served: `geolookup generations diff served held` compares it" in capsys.readouterr().err


def test_looking_at_what_is_held_leaves_nothing_open_or_behind(
    home: str, held: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    opened: list[IndexReader] = []
    real = IndexReader.open.__func__  # type: ignore[attr-defined]

    def remember(kind: type[IndexReader], path: str) -> IndexReader:
        opened.append(real(kind, path))
        return opened[-1]

    monkeypatch.setattr(IndexReader, "open", classmethod(remember))
    asked(capsys, "generations", "diff", "held", "served")
    assert opened
    assert list((tmp_path / "temporary").iterdir()) == []
    assert read_current(home).generation == 1
