"""``geolookup console``: pages in the browser for this state."""

import threading
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from geolookup.cli import interrupt, output
from geolookup.cli.service.run_options import missing_packages

if TYPE_CHECKING:
    from geolookup.console.runs import Run, Runs


@click.command()
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; without it, any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
@click.option("--read-only", is_flag=True, help="Show everything, and change nothing.")
def console(port: int, no_browser: bool, read_only: bool) -> None:
    """Open pages in the browser that look up, explain and edit what is here.

    \b
    It listens on this machine only. The address that it prints opens it once, in one browser; Ctrl-C
    ends it, after a push or sync that is under way. Whatever the pages do, a command does too.

    \b
    Example: geolookup console --read-only
    """
    try:
        from geolookup.console import app
        from geolookup.web.logs import log_to_standard_error
    except ImportError as error:
        raise missing_packages(error) from error

    def ready(address: str, runs: "Runs") -> None:
        interrupt.saying("runs", runs.left)
        output.note(f"geolookup: open {address}")
        if not no_browser:
            threading.Thread(target=_open, args=(address,), daemon=True).start()

    log_to_standard_error()
    app.console(port=port, read_only=read_only, on_ready=ready, on_wait=_waits, on_end=_ended)


def _waits(run: "Run") -> None:
    output.note(
        f"geolookup: a {run.kind} is under way ({run.reached()}): the console ends once it has ended; "
        "Ctrl-C again cuts it off"
    )


def _ended(run: "Run") -> None:
    what = f"failed: {run.error}" if run.error is not None else f"ended after {run.reached()}"
    output.note(f"geolookup: the {run.kind} {what}")


def _open(address: str) -> None:
    with suppress(webbrowser.Error):
        webbrowser.open(address)
