"""Options that several commands have, and the settings and the state directory that they lead to."""

import difflib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from geolookup.base.reasons import reason
from geolookup.cli import interrupt, streams
from geolookup.model.errors import ColumnError, SettingsError
from geolookup.settings import times
from geolookup.settings.load import load
from geolookup.settings.table import Settings
from geolookup.settings.times import seconds
from geolookup.state.base import clock
from geolookup.state.base.current import Current
from geolookup.state.base.parts import is_received
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.belonging import settings_of

json_option = click.option("--json", "as_json", is_flag=True, help="Answer with one JSON object.")
url_option = click.option("--url", metavar="URL", help="The service's base address, instead of the configured one.")
url_moved_option = click.option(
    "--url-moved", is_flag=True, help="The service that this state belongs to has moved to --url."
)
on_conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(["hold", "mine", "theirs"]),
    default="hold",
    show_default=True,
    help="What to do if the service has changed the same thing.",
)


def formats(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--format`` with these formats, text first; ``--json`` is short for the format json, as in other commands."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*arguments: Any, form: str | None, as_json: bool, **options: Any) -> Any:
            if as_json and form not in (None, "json"):
                raise click.UsageError(f"--json and --format {form} exclude each other")
            return function(*arguments, form="json" if as_json else form or names[0], **options)

        help = f"The format of the answer; {names[0]} if nothing is said."
        called = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")(called)
        return click.option("--format", "form", type=click.Choice(names), help=help)(called)

    return decorate


format_option = formats("text", "json", "ndjson")


def chosen_fields(names: Sequence[str], *, paths: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--field NAME`` and ``--fields A,B``, together ``only``: the chosen ones of ``names``, None if none is.

    With ``paths`` a name with a dot in it is one too: what stands there in the record.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*arguments: Any, field: tuple[str, ...], fields: str | None, **options: Any) -> Any:
            only = [*field, *(fields.split(",") if fields is not None else ())]
            only = [name.strip() for name in only]
            for name in only:
                if name not in names and not (paths and "." in name):
                    near = difflib.get_close_matches(name, names, n=1)
                    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
                    raise ColumnError(f"unknown field {name!r:.40}: {advice}")
            return function(*arguments, only=tuple(only) or None, **options)

        together = f"Answer with these fields only, separated by commas, from: {', '.join(names)}."
        if paths:
            together += " A path leads into the record: location.time_zone, subdivisions.0.names.en."
        called = click.option("--fields", metavar="NAMES", help=together)(called)
        return click.option("--field", multiple=True, metavar="NAME", help="Answer with this field only: one value.")(
            called
        )

    return decorate


class _Delimiter(click.ParamType[str]):
    name = "delimiter"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        value = {"tab": "\t", "\\t": "\t", "space": " "}.get(value.lower(), value)
        if len(value) != 1 or value in '"\r\n':
            self.fail("must be one character, or `tab` or `space`", param, ctx)
        return value


def delimiter_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option for the delimiter between the columns of a file."""
    return click.option("--delimiter", type=_Delimiter(), metavar="CHAR", help=help)


sheet_option = click.option(
    "--sheet", metavar="NAME", help="Which sheet of a workbook (.xlsx, .ods) is read, if several could be."
)
as_of_option = click.option(
    "--as-of",
    metavar="WHEN",
    help="As the kept generation WHEN answered: its number, `previous`, or when it was served: `yesterday`, `2d`, "
    "2026-02-01, 06:00 (local time, unless it has a zone).",
)
vrf_option = click.option(
    "--vrf",
    metavar="NAME",
    help="In the routing domain (VRF) NAME: its own blocks answer first, then all else. Without it, in that of the "
    "setting `vrf`, if there is one; empty text stands for none.",
)
kind_option = click.option("--kind", metavar="KIND", help="What kind of file it is, instead of what its content says.")
layer_option = click.option(
    "--layer",
    type=click.Choice(["place", "network"]),
    help="Use only what it says of where addresses are, or only what it says of who runs them. If not given, both.",
)
fields_option = click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="FIELD=KEY",
    help="Which key (a.b) or column holds a field, or a fact of networks (asn …), for files that name it otherwise; "
    "may be repeated. In tables also network, or first and last.",
)


def fields_of(given: "tuple[str, ...]") -> dict[str, str]:
    """The values of `fields_option`, by field.

    :raises SettingsError: if one is not of the form FIELD=KEY
    """
    found = {}
    for text in given:
        name, equals, key = text.partition("=")
        if not (name and equals and key):
            raise SettingsError(
                f"--field {text!r:.60}: must be of the form FIELD=KEY, for example country=geo.iso_code"
            )
        found[name.strip()] = key.strip()
    return found


class Moment(click.ParamType[str]):
    """A moment, as people write it: in UTC, as the state directory writes moments."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment that a text means."""
        try:
            return clock.text_of(times.moment(str(value), clock.wall()))
        except ValueError as error:
            self.fail(reason(error), param, ctx)


class MomentsCommand(click.Command):
    """A command whose arguments may be moments: -1h is one, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; a length of time before now means the same without its minus sign."""
        plain = [text.removeprefix("-") if times.is_ago(text) else text for text in args]
        return super().parse_args(ctx, plain)


def load_settings(**options: Any) -> Settings:
    """The settings with a command's options over them."""
    return load(options)


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds(value)
        except ValueError as error:
            self.fail(reason(error), param, ctx)


wait_option = click.option(
    "--wait",
    "wait_s",
    type=_Duration(),
    metavar="TIME",
    help="If another run is under way, wait so long for its end (90, 10m, 2h) before giving up with 75.",
)


def load_service_settings(
    url: str | None, *, pulls: bool = False, pushes: bool = False, says: bool = True, **options: Any
) -> Settings:
    """The settings of a command that asks the service: of an option, else of the settings, else remembered.

    Remembered is the address that this state was synced from; that it is used is said, unless ``says`` is false.
    ``pulls`` is for commands that pull every source: those of the settings are then all there are. For them, and for
    those that send edits (``pushes``), the service must be this state's (`settings_of`). A secret is never remembered.
    """
    settings = load(dict(options, url=url))
    if url is None and (pulls or pushes):
        named = settings.url
        settings = settings_of(settings, StateDirectory(settings.state_home()))
        if settings.url != named and says:
            streams.note(
                f"geolookup: {settings.state_home()} follows the files that it was synced from, so the service of the "
                f"settings ({named}) is not asked; to have it serve here: geolookup sync --url {named}"
            )
    if settings.url is not None or (pulls and settings.sources):
        return settings
    remembered = StateDirectory(settings.state_home()).service_url()
    if remembered is None:
        return settings
    if says:
        streams.note(
            f"geolookup: the service is {remembered}, from which this state was synced: no setting names another"
        )
    return msgspec.structs.replace(settings, url=remembered)


def state_directory(settings: Settings, *, wait_s: float | None = None) -> StateDirectory:
    """The state directory that the settings name; ``wait_s`` is how long to wait for another run."""
    return state_to_publish(settings, wait_s=wait_s)[0]


def counted(current: Current | None) -> str:
    """The unit in which a pull into a state counts how far it came."""
    return "row" if current is None or not is_received(current.published) else "byte"


def state_to_publish(settings: Settings, *, wait_s: float | None = None) -> tuple[StateDirectory, Current | None]:
    """`state_directory`, and what CURRENT says in it, for a command whose words at Ctrl-C need that anyway."""
    directory = StateDirectory(
        settings.state_home(), keep_generations=settings.keep_generations, run_wait_s=wait_s or 0.0
    )
    return directory, interrupt.working_on(directory)
