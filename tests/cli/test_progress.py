"""The progress bar: on a terminal only, with the rate and the time that is left."""

import io
import sys

import pytest

from geolookup.cli import output


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_bar_shows_how_much_how_fast_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("pulled") as tell:
        for done in (1000, 2000, 3000):
            tell(done, 9000)
    shown = terminal.getvalue()
    assert "pulled" in shown
    assert "3000/9000" in shown
    assert "/s" in shown
    assert " left" in shown


def test_without_a_terminal_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("pulled") as tell:
        tell(1, None)
    assert capsys.readouterr().err == ""
