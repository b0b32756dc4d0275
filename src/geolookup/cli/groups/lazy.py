"""A group of commands whose modules are imported when a command is asked for, and that knows what was meant.

One command needs few of the modules that all of them need together: importing those took most of the time of
``geolookup --help`` and of every short command.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from geolookup.cli import colour
from geolookup.cli.groups import mistyped

#: Words in what stands for a parameter in the help, if it is the name of a file or folder.
_OF_FILES = {"FILE", "IN", "OUT", "DIR", "LOCATION", "PLAN", "BACKUP"}


def _choose(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        colour.choose(value)


def colour_option(*, hidden: bool) -> click.Option:
    """``--color``: it is shown in the help of the whole, and understood after every command."""
    return click.Option(
        ["--color"],
        type=click.Choice(colour.CHOICES),
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
            raise mistyped.unknown(args[0], names, ctx.command_path)
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
