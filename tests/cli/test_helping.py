"""Help on terminals of any width, and what the shell completes."""

import os
import subprocess

import click
import pytest

from geolookup.cli.app import app
from tests.cli.test_habits import commands
from tests.support.users.quick_commands import forked


@pytest.mark.parametrize("width", [60, 80, 100])
def test_prose_is_wrapped_to_the_terminal_and_examples_stay_whole(width: int) -> None:
    for path, command, context in commands(app, click.Context(app, info_name="geolookup", **app.context_settings)):
        context.terminal_width = width
        shown = command.get_help(context)
        kept = [line for line in (command.help or "").splitlines() if line.strip().startswith("geolookup ")]
        for line in kept:
            assert line.strip() in shown, path
        whole = {line.strip() for line in f"{command.help}\n{command.epilog}".splitlines()}
        for line in shown.splitlines():
            if len(line) > width and line.strip() not in whole:
                assert len(line.strip().split()) == 1 or line.startswith("  -"), (path, line)


def test_paragraphs_marked_for_examples_do_not_keep_prose_from_wrapping() -> None:
    @click.command()
    def command() -> None:
        """One.

        \b
        Some words here that stand on
        two lines.
        Example: geolookup 8.8.8.8
        Examples:
          geolookup one two three four five six seven eight
        """

    text = command.get_help(click.Context(command, info_name="x", terminal_width=80))
    assert "  Some words here that stand on two lines.\n  Example: geolookup 8.8.8.8\n  Examples:\n" in text
    text = command.get_help(click.Context(command, info_name="x", terminal_width=30))
    assert "  Some words here that stand\n  on two lines.\n" in text
    assert "    geolookup one two three four five six seven eight\n" in text


@pytest.mark.parametrize(
    "typed", ["enrich ", "sync ", "--file ", "custom apply ", "config init --home ", "export mmdb ", "check "]
)
def test_the_shell_completes_names_of_files(typed: str) -> None:
    position = str(len(typed.split()) + 1)
    environment = {**os.environ, "_GEOLOOKUP_COMPLETE": "bash_complete", "COMP_CWORD": position}
    result = subprocess.run(
        [*forked(), "-m", "geolookup"], env={**environment, "COMP_WORDS": f"geolookup {typed}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.stdout.split() == ["file,"], result


def test_what_is_not_a_file_is_not_completed_as_one() -> None:
    environment = {**os.environ, "_GEOLOOKUP_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    result = subprocess.run(
        [*forked(), "-m", "geolookup"], env={**environment, "COMP_WORDS": "geolookup enrich a.csv --column "},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.stdout.split() == [], result
