"""The command line as a whole: its commands, and what becomes of errors."""

import io
import os
import sys
from typing import Any

import click
from click.shell_completion import get_completion_class
from click_default_group import DefaultGroup

from geolookup._version import __version__
from geolookup.cli import exit_codes, output
from geolookup.cli.data.generations import generations
from geolookup.cli.data.refresh import refresh
from geolookup.cli.data.status import status
from geolookup.cli.data.sync import sync
from geolookup.cli.data.verify import verify
from geolookup.cli.edits.custom import custom
from geolookup.cli.edits.history import history
from geolookup.cli.edits.outbox import outbox
from geolookup.cli.edits.push import push
from geolookup.cli.edits.sites import apply, export, plan
from geolookup.cli.lookup.annotate import annotate
from geolookup.cli.lookup.enrich import enrich
from geolookup.cli.lookup.explain import explain
from geolookup.cli.lookup.list import list_geolocations
from geolookup.cli.lookup.lookup import lookup
from geolookup.cli.service.hotel import hotel
from geolookup.cli.service.rate import rate
from geolookup.cli.service.serve import serve, serve_token
from geolookup.errors import GeoLookupError

_EPILOG = """\b
Settings come from geolookup.toml in the user's configuration directory (or GEOLOOKUP_CONFIG),
GEOLOOKUP_* variables over it, options over that. The most used: GEOLOOKUP_URL, GEOLOOKUP_TOKEN,
GEOLOOKUP_HOME. Exit status: 0 done, 1 failed, 2 wrong usage, 3 held for a person, 4 not covered,
5 malformed, 75 another run is under way."""


class _App(DefaultGroup):  # type: ignore[misc] # it has no types
    def invoke(self, ctx: click.Context) -> Any:
        # Here and not in `run`, since click would turn a closed pipe into exit status 1 on the way.
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read has had enough. Python would complain once more when it flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return exit_codes.DONE
        return result


@click.group(cls=_App, default="lookup", default_if_no_args=False, epilog=_EPILOG)
@click.version_option(__version__, prog_name="geolookup")
def app() -> None:
    """Where is this IP address? Answers offline, by a service's own data, custom blocks first.

    \b
    Example: geolookup 8.8.8.8 2001:db8::1
    """


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example: geolookup completion bash > ~/.local/share/bash-completion/completions/geolookup
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(app, {}, "geolookup", "_GEOLOOKUP_COMPLETE").source())


for command in (
    lookup,
    enrich,
    annotate,
    explain,
    refresh,
    sync,
    push,
    custom,
    outbox,
    history,
    generations,
    status,
    list_geolocations,
    verify,
    hotel,
    rate,
    serve,
    serve_token,
    completion,
):
    app.add_command(command)


for command in (plan, apply, export):
    custom.add_command(command)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status. A closed pipe is no error."""
    _log_to_standard_error()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal's encoding may lack what the data have
    try:
        result = app.main(args=arguments, prog_name="geolookup", standalone_mode=False)
    except GeoLookupError as error:
        output.fail(str(error))
        return exit_codes.exit_code(error)
    except click.ClickException as error:
        error.show()
        return exit_codes.USAGE
    except (click.Abort, KeyboardInterrupt):
        output.fail("interrupted")
        return 130
    except OSError as error:
        output.fail(f"cannot write the result: {error.strerror or error}")
        return exit_codes.FAILED
    return result if isinstance(result, int) else exit_codes.DONE


def _log_to_standard_error() -> None:
    import logging

    # Retries are no news: what could not be mended by them is an error, and says so.
    logging.getLogger("stamina").setLevel(logging.ERROR)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("geolookup: %(message)s"))
    log = logging.getLogger("geolookup")
    if not log.handlers:
        log.addHandler(handler)
        log.propagate = False
