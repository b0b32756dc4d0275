"""Groups of commands: each command is imported when it is asked for, a mistyped word is named, help fits the terminal.

One command needs few of the modules that all of them need together: importing those took most of the time of
``geolookup --help`` and of every short command.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from geolookup.cli import streams

#: Words in what stands for a parameter in the help, if it is the name of a file or folder.
_OF_FILES = {"FILE", "IN", "OUT", "DIR", "LOCATION", "PLAN", "BACKUP"}
#: Lines of more are hard to read, however wide a terminal is.
MAX_WIDTH = 100
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]+")
#: What other tools call it.
_ELSEWHERE = {
    "help": "--help",
    "version": "--version",
    "update": "sync",
    "upgrade": "sync",
    "pull": "sync",
    "fetch": "sync",
    "download": "sync",
    "why": "explain",
    "info": "status",
    "search": "list",
    "settings": "config",
    "setup": "config init",
    "login": "config init",
    "rollback": "generations rollback",
    "undo": "custom undo",
}


def _choose(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        streams.choose_colour(value)


def colour_option(*, hidden: bool) -> click.Option:
    """``--color``: it is shown in the help of the whole, and understood after every command."""
    return click.Option(
        ["--color"],
        type=click.Choice(streams.COLOURS),
        expose_value=False,
        is_eager=True,
        hidden=hidden,
        callback=_choose,
        help="Whether to colour what is printed; auto is if it is a terminal and NO_COLOR is not set.",
    )


_COLOUR = colour_option(hidden=True)


@dataclass(frozen=True, slots=True)
class Announced:
    """A command that is not imported yet.

    ``module`` is the module of `geolookup.cli` that has it, under the name ``name``; ``summary`` is its line in the
    group's help, short enough for a terminal of 80 columns.
    """

    module: str
    name: str
    summary: str


class LazyGroup(click.Group):
    """A group that lists announced commands by name and summary, and imports one when it is asked for."""

    def __init__(self, *args: Any, announced: Mapping[str, Announced] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.announced = dict(announced or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in alphabetical order."""
        return sorted({*super().list_commands(ctx), *self.announced})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported if it was not yet; None if the command is unknown."""
        self.load(cmd_name)
        command = super().get_command(ctx, cmd_name)
        if command is not None and _COLOUR not in command.params:
            command.params.append(_COLOUR)  # after a command, too: `geolookup list --color never`
        if command is not None and ctx.resilient_parsing:
            _complete_files(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, and its arguments.

        :raises click.UsageError: if it is unknown, naming the one that was meant
        """
        names = self.list_commands(ctx)
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise unknown_command(args[0], names, ctx.command_path)
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Import an announced command and add it to the group; do nothing for any other name."""
        found = self.announced.get(name)
        if found is not None and name not in self.commands:
            command: click.Command = getattr(import_module(f"geolookup.cli.{found.module}"), found.name)
            command.short_help = found.summary
            self.add_command(command, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and their summaries, without importing those that are announced."""
        shown = {
            name: self.commands.get(name) or click.Command(name, help=self.announced[name].summary)
            for name in self.list_commands(ctx)
        }
        width = formatter.width - 6 - max(map(len, shown))
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(width)) for name, command in shown.items()])


def _complete_files(command: click.Command) -> None:
    """Have the shell complete names of files wherever a parameter says that it is one."""
    for parameter in command.params:
        shown = parameter.metavar or (parameter.name or "" if isinstance(parameter, click.Argument) else "").upper()
        words = re.findall(r"[A-Z]+", shown)
        if isinstance(parameter.type, click.types.StringParamType) and _OF_FILES & set(words):
            parameter.type = click.Path()


# Mistyped words


def refuse_mistyped(arguments: Sequence[str], commands: Sequence[str]) -> None:
    """Refuse a command line whose first argument is a word that was meant to be one of ``commands``.

    A word that is like none of them stands for a bad address if there are addresses, or a file of them, beside it.

    :raises click.UsageError: naming the command that was meant, or how to list them
    """
    word, *others = arguments
    if word in commands or not _WORD.fullmatch(word):
        return
    if (meant := _meant(word, commands) or _ELSEWHERE.get(word.lower())) is not None:
        raise click.UsageError(f"unknown command {word:.40}: did you mean `geolookup {meant}`?")
    if not any(other.startswith("-") or "." in other or ":" in other for other in others):
        raise click.UsageError(
            f"{word:.40} is neither a command nor an IP address: `geolookup --help` lists the commands"
        )


def unknown_command(word: str, commands: Sequence[str], path: str) -> click.UsageError:
    """The refusal of a word that is no command of the group ``path``."""
    meant = _meant(word, commands)
    advice = f"did you mean `{path} {meant}`?" if meant else f"there are {', '.join(commands)}"
    return click.UsageError(f"unknown command {word:.40}: {advice}")


def _meant(word: str, commands: Sequence[str]) -> str | None:
    plain = word.lower().replace("_", "-")
    if plain in commands:
        return plain
    begins = [name for name in commands if len(plain) > 2 and name.startswith(plain)]
    if len(begins) == 1:
        return begins[0]
    near = difflib.get_close_matches(plain, commands, n=1, cutoff=0.7)
    return near[0] if near else None


# The layout of help


class Wrapping(click.HelpFormatter):
    """Wraps what follows a ``\\b`` too, except examples, lists and what is indented.

    click leaves such paragraphs as they are in the source: on a narrow terminal each of their lines would break twice.
    """

    def write_text(self, text: str) -> None:
        """Write some paragraphs."""
        width = max(self.width - self.current_indent, 11)
        indent = " " * self.current_indent
        for number, paragraph in enumerate(text.split("\n\n")):
            if number:
                self.write_paragraph()
            lines = [line for line in paragraph.split("\n") if line.strip() != "\b"]
            for kept, joined in _pieces(lines):
                if kept:
                    self.write(f"{indent}{joined}\n" if joined else "\n")
                else:
                    self.write(click.formatting.wrap_text(joined, width, indent, indent) + "\n")


def _pieces(lines: list[str]) -> list[tuple[bool, str]]:
    """Lines that stay as they are (true), and prose as one line (false)."""
    found: list[tuple[bool, str]] = []
    for line in lines:
        kept = line.startswith((" ", "Example"))
        begins = line.startswith(("Exit status:", "Settings come from"))
        if not kept and not begins and found and not found[-1][0]:
            found[-1] = (False, f"{found[-1][1]} {line.strip()}")
        else:
            found.append((kept, line.rstrip()))
    return found
