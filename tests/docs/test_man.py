"""The page of man: it renders without a warning, and has every command in it."""

import shutil
import subprocess

import click
import pytest

from geolookup.cli.app import app
from tests.docs.pages import FOLDER


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_renders_the_page_without_a_warning() -> None:
    result = subprocess.run(
        ["man", "--warnings", "-l", str(FOLDER / "geolookup.1")],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LANG": "C.UTF-8", "MANPAGER": "cat"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert result.stderr == ""
    shown = " ".join(result.stdout.split())
    for name in app.list_commands(click.Context(app)):
        assert f" geolookup {name} " in shown, name
    assert "geolookup custom add-block [OPTIONS]" in shown
    assert "geolookup 8.8.8.8 2001:db8::1" in shown
    assert "EXIT STATUS" in shown
