"""The history says who did what, and from where: a command, a file, the console, a program."""

import json
import os
import pwd
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.state.base.actor import acting
from geolookup.state.editor import Editor
from tests.state.edits.editing import BERLIN
from tests.support.data.states import place, publish

ME = pwd.getpwuid(os.geteuid()).pw_name
SITES = """
[[site]]
name = "berlin"
country = "DE"
region = "BE"
city = "Potsdam"
postalcode = ""
dmacode = ""
areacode = ""
latitude = 52.4
longitude = 13.1
blocks = ["10.1.0.0/16"]
"""


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.8.8.0/24")])


def test_each_line_says_who_and_from_where(home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Editor(home) as editor:
        locid = editor.create(**BERLIN)
    assert run(["custom", "add-block", str(locid), "10.9.0.0/16"]) == 0
    file = tmp_path / "sites.toml"
    file.write_text(SITES)
    assert run(["custom", "apply", str(file)]) == 0
    with acting("console"), Editor(home) as editor:
        editor.update(locid, city="Bonn")
    capsys.readouterr()
    assert run(["history", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert {line["who"] for line in lines} == {ME}
    assert [line["via"] for line in lines[:2]] == ["library", "command"]
    assert lines[-1]["via"] == "console"
    assert {line["via"] for line in lines[2:-1]} == {f"apply {file}"}
    assert run(["history"]) == 0
    assert f"apply {file}" in capsys.readouterr().out
