"""Commands that run in the process of a test, and what they print."""

import json
import re
from typing import Any

import pytest

from geolookup.cli.app import run


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints on standard output, checked to end with ``code``."""
    return _printed(capsys, words, code)[0]


def asked_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The JSON document that a command prints."""
    return json.loads(asked(capsys, *words, code=code))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """All that a command prints: standard output, then standard error."""
    return "".join(_printed(capsys, words, code))


def _printed(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int) -> tuple[str, str]:
    capsys.readouterr()
    ended = run([*words])
    out, err = capsys.readouterr()
    assert ended == code, out + err
    return out, err


def accept_digest(told: str) -> str:
    """The digest in the command that a message about something held ends with."""
    found = re.search(r"geolookup sync --accept ([0-9a-f]+)", told)
    assert found is not None, told
    return found[1]
