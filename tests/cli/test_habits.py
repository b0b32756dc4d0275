"""What people expect of any command line: -h, -V, --json, --field, and the command that was meant."""

import pytest

from geolookup.cli.app import run
from tests.support.states import place, publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.0.0.0/8", country="US", city="Köln"), place(-1, "9.0.0.0/8", country="DE")])


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
