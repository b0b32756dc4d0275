"""``geolookup config``: what is written, what is never overwritten, and where each value came from."""

import io
import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from geolookup.cli.app import run
from geolookup.settings.load import load
from geolookup.settings.secrets import read_secret
from tests.faults.raw_server import RawServer
from tests.support.data.lists import listed, many
from tests.support.users.terminals import on_terminal

SECRET = "canary-secret-41c9"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    return path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Puts bytes into standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))

    return put


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_writes_the_address_and_a_secret_that_only_its_owner_can_read(
    file: Path, typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(f"{SECRET}\n".encode())
    assert run(["config", "init", "--url", "https://geo.example.com/", "--token-from", "-"]) == 0
    assert tomllib.loads(file.read_text()) == {"url": "https://geo.example.com", "token_file": "token"}
    token = file.parent / "token"
    assert (token.read_text(), mode(token)) == (f"{SECRET}\n", 0o600)
    settings = load()
    assert (settings.url, read_secret(settings)) == ("https://geo.example.com", SECRET)
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert str(token) in captured.out


def test_init_keeps_what_else_stands_in_the_file_and_its_comments(file: Path) -> None:
    file.parent.mkdir()
    text = '# Ours.\nattempts = 2  # enough\n\n# the office\n[[source]]\nname = "office"\nlocation = "/srv/o.csv"\n'
    file.write_text(text)
    file.chmod(0o640)
    assert run(["config", "init", "--url", "https://geo.example.com"]) == 0
    written = file.read_text()
    assert written.replace('url = "https://geo.example.com"\n', "") == text
    assert mode(file) == 0o640
    assert [source.name for source in load().stack] == ["service", "office"]


def test_init_replaces_nothing_without_a_word(file: Path, typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed(SECRET.encode())
    assert run(["config", "init", "--url", "https://a.example", "--token-from", "-"]) == 0
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    typed(b"another")
    assert run(["config", "init", "--url", "https://b.example"]) == 2
    assert "url is 'https://a.example'" in capsys.readouterr().err
    assert run(["config", "init", "--token-from", "-"]) == 2
    error = capsys.readouterr().err
    assert str(file.parent / "token") in error
    assert "--replace" in error
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before
    typed(b"another")
    assert run(["config", "init", "--url", "https://b.example", "--token-from", "-", "--replace"]) == 0
    captured = capsys.readouterr()
    assert "https://a.example" in captured.err
    assert (load().url, read_secret(load())) == ("https://b.example", "another")
    assert mode(file.parent / "token") == 0o600
    assert run(["config", "init", "--url", "https://b.example"]) == 0
    assert "as it was" in capsys.readouterr().out


def test_init_asks_on_a_terminal_and_does_not_show_the_secret(file: Path) -> None:
    status, seen = on_terminal(
        ["config", "init"], [("address", "https://geo.example.com\n"), ("secret", f"{SECRET}\n")]
    )
    assert status == 0, seen
    assert SECRET not in seen
    assert (load().url, read_secret(load())) == ("https://geo.example.com", SECRET)
    status, seen = on_terminal(
        ["config", "init"], [("address", "https://b.example\n"), ("secret", "\n"), ("replace it", "n\n")]
    )
    assert status == 130, seen
    assert load().url == "https://geo.example.com"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "ftp://x"], "must begin with https://"),
        (["--token-from", "missing"], "missing: cannot be read"),
        (["--url", "http://geo.example.com", "--token-from", "SECRET"], "unencrypted"),
        ([], "nothing to write"),
    ],
)
def test_init_refuses_what_could_not_be_used_and_writes_nothing(
    file: Path, tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    given = [str(tmp_path / "secret") if argument == "SECRET" else argument for argument in arguments]
    assert run(["config", "init", *given]) == 2
    assert said in capsys.readouterr().err
    assert not file.parent.exists() or os.listdir(file.parent) == []


def test_init_says_if_a_variable_goes_before_what_it_writes(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_URL", "https://environment.example")
    assert run(["config", "init", "--url", "https://geo.example.com", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["written"] == {"url": "https://geo.example.com"}
    assert "GEOLOOKUP_URL is set" in captured.err


def test_show_says_where_each_value_came_from_and_hides_secrets(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir()
    file.write_text(
        'attempts = 2\nstale = "serve"\n[[source]]\nname = "feed"\nlocation = "https://x.example/f?token='
        + SECRET
        + '"\n'
    )
    monkeypatch.setenv("GEOLOOKUP_STALE", "refuse")
    monkeypatch.setenv("GEOLOOKUP_TOKEN", SECRET)
    assert run(["config", "show", "--url", "https://option.example", "--json"]) == 0
    text = capsys.readouterr().out
    assert SECRET not in text
    found = {row["name"]: row for row in json.loads(text)["values"]}
    assert (found["attempts"]["value"], found["attempts"]["from"], found["attempts"]["where"]) == (2, "file", str(file))
    assert (found["stale"]["value"], found["stale"]["from"], found["stale"]["where"]) == (
        "refuse", "environment", "GEOLOOKUP_STALE",
    )  # fmt: skip
    assert (found["url"]["value"], found["url"]["from"]) == ("https://option.example", "option")
    assert (found["max_wait_s"]["value"], found["max_wait_s"]["from"]) == (60.0, "default")
    assert (found["token"]["value"], found["token"]["hidden"], found["token"]["where"]) == (
        None,
        True,
        "GEOLOOKUP_TOKEN",
    )
    assert found["source.feed.location"]["value"] == "https://x.example/f?token=[secret]"
    assert run(["config", "show", "attempts", "token"]) == 0
    assert capsys.readouterr().out == f"attempts\t2\tfile {file}\ntoken\t(hidden)\tenvironment GEOLOOKUP_TOKEN\n"
    assert run(["config", "show", "atempts"]) == 2
    assert "did you mean attempts?" in capsys.readouterr().err


def test_path_names_the_file_whether_it_is_there_or_not(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    assert run(["config", "path", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"settings": str(file), "exists": False}


def test_show_tells_the_service_that_the_state_remembers(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    with RawServer(listed(many(40), count=40)) as server:
        assert run(["sync", "--url", server.url]) == 0
    capsys.readouterr()
    assert run(["config", "show", "url"]) == 0
    assert capsys.readouterr().out == f"url\t{server.url}\tremembered\n"
    monkeypatch.setenv("GEOLOOKUP_URL", "http://127.0.0.1:9")
    assert run(["config", "show", "url"]) == 0
    assert "environment" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["config", "init", "--home", "there"], ["source", "add", "dbip-city-lite"]], ids=str)
@pytest.mark.parametrize("umask", [0, 0o022], ids=oct)
def test_folders_of_the_settings_are_their_owners_alone_whatever_the_umask(
    words: list[str], umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me").mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        assert run([*words[:-1], str(tmp_path / words[-1])] if words[-1] == "there" else words) == 0
    finally:
        os.umask(before)
    made = [tmp_path / "me" / ".config", tmp_path / "me" / ".config" / "geolookup"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "me", *made]] == [0o755, 0o700, 0o700]
    made[0].chmod(0o755)  # one that exists stays as it is
    assert run(["source", "add", "rir"]) == 0
    assert stat.S_IMODE(made[0].stat().st_mode) == 0o755
