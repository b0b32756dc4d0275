"""The parts of every command that edits: the editor, the options for the fields, and arguments that name blocks."""

import difflib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from geolookup.base.text import harmless
from geolookup.cli import output
from geolookup.cli.options import load_settings, state_directory
from geolookup.model.addresses import of_mask_after, range_ends, split_blocks
from geolookup.model.countries import in_capitals
from geolookup.model.errors import InvalidAddressError, WideBlockError
from geolookup.model.fields import FIELDS
from geolookup.model.types import is_provisional
from geolookup.sources.outlines import misfits
from geolookup.state.editor import Editor
from geolookup.sync.opening import edit_or_build

P = ParamSpec("P")
R = TypeVar("R")

_NUMBER = re.compile(r"-\d")


class WithLocids(click.Command):
    """A command whose arguments may begin with a hyphen and a digit: -3 is a locid, --limit an option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "context_settings": {"ignore_unknown_options": True}})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, and refuse any other unknown option."""
        known = {name: option for option in self.get_params(ctx) for name in (*option.opts, *option.secondary_opts)}
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                break
            name, equals, _ = arg.partition("=")
            option = known.get(name) if arg.startswith("-") else None
            if isinstance(option, click.Option) and not option.is_flag and not equals:
                next(rest, None)  # its value
            elif arg.startswith("-") and arg != "-" and option is None and not _NUMBER.match(arg):
                similar = difflib.get_close_matches(name, known)
                raise click.NoSuchOption(name, possibilities=similar or None, ctx=ctx)
        return super().parse_args(ctx, args)


def locid_of(editor: Editor, text: str) -> int:
    """The locid that an argument means: the name of a site, which may be a number (``0815``), or a locid.

    :raises click.UsageError: if it is neither, or the locid of one and the name of another, or the name of several
    """
    try:
        number = int(text)
    except ValueError:
        number = None
    own = editor.sites().get(text)
    # A site has two numbers, its own here and the service's: the one that lookups show is enough.
    named = {locid for locid, name in editor.site_names().items() if name == text and not is_provisional(locid)}
    named |= set() if own is None else {own}
    if len(named) > 1:
        listed = ", ".join(map(str, sorted(named, reverse=True)))
        raise click.UsageError(f"{text!r} is the name of {len(named)} geolocations: {listed}. Give the locid of one")
    found = next(iter(named), None)
    if found is None and number is None:
        raise click.UsageError(f"{text!r} is neither a locid nor the name of a site: see `geolookup custom list`")
    if found is not None and number is not None and number < 0 and number != found:  # no locid above zero is a site's
        raise click.UsageError(f"{text!r} is the name of the site {found}, and a locid: rename the site, by {found}")
    return number if found is None else found  # type: ignore[return-value] # one of both is there


def ranges_of(words: Iterable[str], count: int) -> list[tuple[str, str | None]]:
    """The ends of so many blocks from arguments: networks, addresses, FIRST-LAST, FIRST - LAST, or FIRST LAST.

    :raises click.UsageError: if they are more or fewer
    """
    texts = split_blocks(" ".join(words))
    for first, last in itertools.pairwise(texts):
        if (network := of_mask_after(first, last)) is not None:
            raise click.UsageError(f"{last} is a netmask: write {network}")
    if len(texts) == count:
        return [range_ends(text) for text in texts]
    if len(texts) == 2 * count and not any("-" in text or "/" in text for text in texts):
        return [(texts[at], texts[at + 1]) for at in range(0, len(texts), 2)]
    what = "a block" if count == 1 else f"{count} blocks"
    raise click.UsageError(f"give {what}: a network, an address, FIRST-LAST or FIRST LAST")


def pass_editor(function: Callable[Concatenate[Editor, P], R]) -> Callable[P, R]:
    """Open the editor of the configured state for a command."""

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> R:
        state_directory(load_settings())  # notes what it is like before, for the message after an interrupt
        with edit_or_build() as editor:
            editor.sessions.catch_up()
            try:
                return function(editor, *args, **kwargs)
            except InvalidAddressError as error:  # elsewhere that is one bad item of many, here it is a bad argument
                raise click.UsageError(str(error)) from error

    return command


def field_options(function: Callable[P, R]) -> Callable[P, R]:
    """The options for the fields of a geolocation: each None if it is not given."""
    for field in reversed(FIELDS):
        number = field.kind == "degrees"
        option = click.option(
            f"--{field.name}",
            type=float if number else str,
            callback=_in_capitals if field.name == "country" else None,
            help=f"{field.name.capitalize()}{', degrees' if number else ''}.",
        )
        function = option(function)
    return function


def _in_capitals(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    return value and in_capitals(value)


preview_option = click.option("--preview", is_flag=True, help="Show whose answer would change, and change nothing.")


yes_option = click.option("--yes", is_flag=True, help="Do not ask, however many addresses the block has.")


def may_ask(*, as_json: bool) -> bool:
    """True if a person is there to answer a question."""
    return not as_json and sys.stdin.isatty() and sys.stdout.isatty()


def if_meant(make: Callable[[bool], R], *, yes: bool, as_json: bool) -> R | None:
    """Make an edit. If its block is very wide, a person is asked first; None if the answer is no.

    ``make`` is told whether a wide block is meant.

    :raises WideBlockError: if there is nobody to ask
    """
    try:
        return make(yes)
    except WideBlockError as error:
        if not may_ask(as_json=as_json):
            raise WideBlockError(error.told, "add --yes if that is meant") from error
        if click.confirm(harmless(f"{error.told}. Is that meant?", 1000)):
            return make(True)
        output.done("nothing was changed")
        return None


def require_fitting(fields: Mapping[str, Any]) -> None:
    """Refuse a country in words, and coordinates in the wrong order.

    :raises click.UsageError: says all that is wrong
    """
    wrong = [message for _, message in misfits(fields)]
    if wrong:
        raise click.UsageError("; ".join(wrong))
