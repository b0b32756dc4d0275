"""What the commands that edit have in common: the editor, and the options for the fields."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import click

from geolookup.errors import InvalidAddressError
from geolookup.fields import FIELDS
from geolookup.lookup.first import open_editor
from geolookup.state.edits.editor import Editor

P = ParamSpec("P")
R = TypeVar("R")

#: So that -3 is a locid and not an option.
NEGATIVE_LOCIDS = {"ignore_unknown_options": True}


def pass_editor(function: Callable[Concatenate[Editor, P], R]) -> Callable[P, R]:
    """Open the editor of the configured state for a command."""

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> R:
        with open_editor() as editor:
            try:
                return function(editor, *args, **kwargs)
            except InvalidAddressError as error:  # elsewhere that is one bad item of many, here it is a bad argument
                raise click.UsageError(str(error)) from error

    return command


def field_options(*, required: bool) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The options for the fields of a geolocation."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        for field in reversed(FIELDS):
            number = field.kind == "degrees"
            must = required and number and not field.later
            # Not even None, or click takes it for a value that satisfies `required`.
            default = {} if must or not required else {"default": field.unknown}
            option = click.option(
                f"--{field.name}",
                type=float if number else str,
                required=must,
                **default,  # type: ignore[arg-type] # click's own types take one kind of value for all options
                help=f"{field.name.capitalize()}{', degrees' if number else ''}.",
            )
            function = option(function)
        return function

    return decorate
