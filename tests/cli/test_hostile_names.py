"""Names of files with line breaks and control characters: no command lets them reach the terminal as they are."""

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from geolookup.cli.app import run
from tests.support.data.states import place, publish

FORGED = "geolookup: all is well"
NAME = f"a\n{FORGED}\r\x1b[2J\x9b31m\u202eb"


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of hostile names: good and bad ones, alone, in a folder and in archives."""
    path = tmp_path / "files"
    path.mkdir()
    (path / f"{NAME}.csv").write_text("1.0.0.0,1.0.0.255,US\nbad,row,here\n" * 30)
    (path / f"{NAME}.log").write_text("999.1.1.1 8.8.8.8\n")
    (path / f"{NAME}.bin").write_bytes(b"\0\1\2" * 100)
    (path / f"{NAME}.toml").write_text("[[site]]\nnmae = 3\n")
    (path / f"{NAME}.gz").write_bytes(b"\x1f\x8b\x08damaged")
    with zipfile.ZipFile(path / f"{NAME}.zip", "w") as archive:
        archive.writestr(f"{NAME}.csv", "what,is,this\n1,2,3\n")
        archive.writestr(f"x{NAME}.csv", "what,is,this\n1,2,3\n")
    with tarfile.open(path / f"{NAME}.tar", "w") as tar:
        tar.add(path / f"{NAME}.bin", arcname=f"{NAME}.csv")
    inside = path / f"{NAME}folder"
    inside.mkdir()
    shutil.copy(path / f"{NAME}.csv", inside / f"{NAME}.csv")
    shutil.copy(path / f"{NAME}.bin", inside / f"{NAME}.bin")
    return path


ENDS = ("csv", "log", "bin", "toml", "gz", "zip", "tar", "folder", "missing")
COMMANDS = [
    ["check", "{}"],
    ["check", "{}", "--json"],
    ["sync", "{}"],
    ["source", "add", "{}"],
    ["lookup", "-f", "{}"],
    ["annotate", "{}"],
    ["top", "{}"],
    ["top", "{}", "--in-format", "csv"],
    ["map", "{}", "-o", "{}.svg"],
    ["map", "{}", "-o", "{}"],
    ["enrich", "{}", "{}.out.csv", "--in-format", "csv"],
    ["enrich", "{}", "{}"],
    ["export", "csv", "{}/nowhere/out.csv"],
    ["export", "mmdb", "{}"],
    ["custom", "plan", "{}"],
    ["custom", "apply", "{}"],
    ["custom", "export", "{}/nowhere.toml"],
    ["outbox", "restore", "{}"],
    ["custom", "show", "{}"],
    ["explain", "{}"],
    ["{}"],
    ["generations", "show", "{}"],
    ["source", "remove", "{}"],
    ["config", "set", "{}", "1"],
    ["doctor", "{}"],
    ["--{}"],
    ["top", "--by", "{}"],
    ["hotel", "{}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_a_name_as_it_is(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    names_file = any("{" in word for word in command[1:2])
    for end in ENDS if names_file else ENDS[:1]:
        name = f"{NAME}{'' if end == 'folder' else '.'}{end}"
        assert end == "missing" or not names_file or Path(name).exists()
        run([word.format(name) for word in command])
        said = capsys.readouterr()
        for text in (said.err,) if command[0] == "annotate" else (said.out, said.err):  # it hands bytes on
            assert FORGED not in text.splitlines(), text
            bad = {each for each in text if not each.isprintable() and each not in "\n\t"}
            assert not bad, (command, end, bad, text)
