"""``verify``: every byte of what is published."""

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.options import json_option, load_settings
from geolookup.state.publishing.verify import verify as verify_state


@click.command()
@json_option
def verify(as_json: bool) -> int:
    """Check every byte and every invariant of what is published.

    \b
    Exit status: 0 undamaged, 1 damaged (each problem is named).
    Example: geolookup verify
    """
    settings = load_settings()
    home = settings.state_home()
    with output.progress("verifying", "%") as progress:
        problems = verify_state(home, progress=progress)
    if as_json:
        output.json_result({"home": home, "ok": not problems, "problems": problems})
    elif not problems:
        output.done(f"{home}: whole")
    for problem in problems:
        output.fail(problem)
    # What is wrong with edits.db no sync replaces: its message names the command that helps.
    if any("geolookup outbox restore" not in problem for problem in problems):
        output.note("geolookup: `geolookup sync` replaces what is damaged")
    return exit_codes.FAILED if problems else exit_codes.DONE
