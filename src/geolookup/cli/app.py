"""The command line as a whole: its commands, and the message and exit status of an error."""

import contextlib
import sys
from typing import Any

import click
from click_default_group import DefaultGroup

from geolookup.base.version import __version__
from geolookup.cli import exit_codes, interrupt, streams
from geolookup.cli.groups import MAX_WIDTH, Announced, LazyGroup, Wrapping, colour_option, refuse_mistyped
from geolookup.cli.logs import StandardError, TextFormatter
from geolookup.model.errors import GeoLookupError
from geolookup.state.base.actor import acting
from geolookup.state.base.signals import Terminated

_COMMANDS = {
    "lookup": Announced("lookup.lookup", "lookup", "Look up addresses (the default command)."),
    "enrich": Announced("lookup.enrich", "enrich", "Add geolocations to a file of rows."),
    "annotate": Announced("lookup.annotate", "annotate", "Add geolocations to a log, after each address in it."),
    "top": Announced("lookup.counts", "top", "Show where the addresses of a log are, as a table."),
    "map": Announced("lookup.counts", "draw_map", "Draw where the addresses of a log are, as a picture."),
    "explain": Announced("lookup.explain", "explain", "Say why an address resolves as it does."),
    "list": Announced("lookup.list", "list_geolocations", "List geolocations of the local cache."),
    "export": Announced("data.export", "export", "Write the map as a file that other programs read."),
    "refresh": Announced("data.refresh", "refresh", "Push, pull and publish in one run, for every night."),
    "check": Announced("data.check", "check", "Say what a file is, and which of its rows are bad."),
    "source": Announced("data.source", "source", "Say where default geolocations come from."),
    "sync": Announced("data.sync", "sync", "Pull the service's geolocations and publish them."),
    "generations": Announced("data.generations", "generations", "List, compare and restore what was published."),
    "fleet": Announced("data.fleet", "fleet", "Publish to any number of readers, or be one of them."),
    "status": Announced("data.status", "status", "Show what is served, how old it is, and any problem."),
    "verify": Announced("data.status", "verify", "Check every byte of what is published."),
    "custom": Announced("edits.custom", "custom", "Create and change your own geolocations and blocks."),
    "outbox": Announced("edits.outbox", "outbox", "Show and decide edits that wait for the service."),
    "push": Announced("edits.push", "push", "Send pending edits to the service."),
    "history": Announced("edits.history", "history", "List what was done on this machine."),
    "hotel": Announced("service.hotels", "hotel", "Show hotels of the service, and those near an address."),
    "rate": Announced("service.hotels", "rate", "Send rates and group rates to the service."),
    "serve": Announced("service.serve", "serve", "Run the reference service."),
    "serve-token": Announced("service.serve", "serve_token", "Make a token for a client of the reference service."),
    "share": Announced("service.serve", "share", "Share what is answered here with other tools, by HTTP."),
    "config": Announced("setup.config", "config", "Show the settings, and write the first ones."),
    "state": Announced("setup.state", "state", "Back up the state, restore it, move it."),
    "doctor": Announced("setup.doctor", "doctor", "Say what is wrong on this machine, and what to do."),
    "console": Announced("service.serve", "console", "Open pages in the browser: look up, edit, push."),
}

_EPILOG = f"""\b
Settings come from geolookup.toml in the user's configuration directory (or GEOLOOKUP_CONFIG),
GEOLOOKUP_* variables over it, options over that. The most used: GEOLOOKUP_URL, GEOLOOKUP_TOKEN,
GEOLOOKUP_HOME.
{exit_codes.summary()}"""


class _App(DefaultGroup, LazyGroup):  # type: ignore[misc] # DefaultGroup has no types
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # DefaultGroup takes what is not in `commands` for an argument of the default command.
        self.load(cmd_name)
        found: click.Command | None = super().get_command(ctx, cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing:
            refuse_mistyped(args, self.list_commands(ctx))
        found: tuple[str | None, click.Command | None, list[str]] = super().resolve_command(ctx, args)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        # Here and not in `run`, since click would turn a closed pipe into exit status 1 on the way.
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            return streams.failed(error)
        except Terminated as error:
            raise click.Abort from error  # of any other interrupt click writes an empty line first, below the ^C
        return result

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            context: click.Context = super().make_context(*args, **kwargs)
        except BrokenPipeError as error:  # --help and --version write here
            raise click.exceptions.Exit(streams.failed(error)) from error
        return context


@click.group(
    cls=_App,
    announced=_COMMANDS,
    default="lookup",
    default_if_no_args=False,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MAX_WIDTH},
)
@click.version_option(__version__, "-V", "--version", prog_name="geolookup")
def app() -> None:
    """Where is this IP address? Answers offline, by a service's own data, custom blocks first.

    \b
    Example: geolookup 8.8.8.8 2001:db8::1
    """


click.Context.formatter_class = Wrapping  # of every command: contexts do not hand theirs on


app.params.append(colour_option(hidden=False))


@app.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example: geolookup completion bash > ~/.local/share/bash-completion/completions/geolookup
    """
    from click.shell_completion import get_completion_class  # late: no other command needs it

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "geolookup", "_GEOLOOKUP_COMPLETE").source())


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status. A closed pipe is not an error."""
    streams.prepare()
    streams.choose_colour("auto")
    _log_to_standard_error()
    interrupt.begin(sys.argv[1:] if arguments is None else arguments)
    with interrupt.at_sigterm(), acting("command"):
        code = _run(arguments)
        try:
            finished = streams.finished(code)
        except KeyboardInterrupt as error:
            return _interrupted(error)
    # Ctrl-C ends who reads the pipe, too.
    return code if code in (exit_codes.INTERRUPTED, exit_codes.TERMINATED) else finished


def _run(arguments: list[str] | None) -> int:
    try:
        result = app.main(args=arguments, prog_name="geolookup", standalone_mode=False)
    except GeoLookupError as error:
        first, *rest = error.lines
        streams.fail(first)
        for line in rest:
            streams.note(line)
        return exit_codes.of_error(error)
    except click.ClickException as error:
        streams.show_usage_error(error)
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt) as error:
        return _interrupted(error)
    except OSError as error:
        return streams.failed(error)
    return result if isinstance(result, int) else exit_codes.DONE


def _interrupted(error: BaseException) -> int:
    with contextlib.suppress(KeyboardInterrupt):  # the person is in a hurry
        streams.fail(interrupt.sentence(error))
    return interrupt.status(error)


def _log_to_standard_error() -> None:
    import logging

    # A retry that helps need not be reported; one that does not ends in an error.
    logging.getLogger("stamina").setLevel(logging.ERROR)

    handler = StandardError()
    # Not imported when the first record comes: that may be of files that cannot be opened.
    handler.setFormatter(TextFormatter(levels=False))
    log = logging.getLogger("geolookup")
    if not log.handlers:
        log.addHandler(handler)
        log.propagate = False
