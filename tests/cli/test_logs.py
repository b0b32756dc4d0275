"""How log records read on standard error: text for people, JSON for what collects logs."""

import json
import logging
import sys

import pytest

from geolookup.cli import app
from geolookup.cli.logs import JsonFormatter, TextFormatter


def record(message: str, *, failed: bool) -> logging.LogRecord:
    """An error, of an exception whose text could pass for lines of its own if ``failed``."""
    found = None
    if failed:
        try:
            raise ValueError("first\ngeolookup: forged\r\x1b[2Kgeolookup: more\u2028geolookup: lines")
        except ValueError:
            found = sys.exc_info()
    return logging.LogRecord("geolookup", logging.ERROR, __file__, 1, message, (), found)


def test_as_text_a_traceback_stands_below_its_line_indented_and_harmless() -> None:
    first, *below = TextFormatter().format(record("it \x1bfailed", failed=True)).split("\n")
    assert first == r"geolookup: it \x1bfailed"
    assert below[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in below)
    assert below[-2:] == ["  ValueError: first", r"  geolookup: forged\r\x1b[2Kgeolookup: more\u2028geolookup: lines"]
    assert all(line.isprintable() for line in below)


def test_as_json_a_traceback_is_a_member_of_the_one_line() -> None:
    text = JsonFormatter().format(record("it failed", failed=True))
    assert text.isprintable()
    assert json.loads(text)["traceback"].startswith("Traceback (most recent call last):\n")


def test_a_record_without_an_exception_is_one_line() -> None:
    assert TextFormatter().format(record("it failed", failed=False)) == "geolookup: it failed"
    assert "traceback" not in json.loads(JsonFormatter().format(record("it failed", failed=False)))


def test_what_any_command_logs_is_harmless_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("geolookup")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", log.propagate)
    assert app.run(["--version"]) == 0
    log.warning("a place named \x1b[2J%s", "\u202egeolookup: forged")
    assert capsys.readouterr().err == "geolookup: a place named \\x1b[2J\\u202egeolookup: forged\n"
