"""``state …``: the whole state as one file, put back, and moved to another directory."""

import os
import shlex
from dataclasses import asdict

import click

from geolookup.cli import interrupt, output
from geolookup.cli.exit_codes import DONE, HELD
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import json_option, load_settings, state_directory
from geolookup.settings.times import shown
from geolookup.state.publishing import archive
from geolookup.sync import words


@click.group(cls=LazyGroup)
def state() -> None:
    """Back up the state, restore it, move it.

    \b
    Example: geolookup state backup /backups/geolookup.tar.gz
    """


@state.command()
@click.argument("file", metavar="FILE")
@json_option
def backup(file: str, as_json: bool) -> None:
    """Write what is published and your edits to FILE, readable by you only, while everything runs.

    \b
    The file is complete, and was read back, before it takes that name. Kept older generations and the
    settings are not in it. Try `geolookup state restore` on it with another GEOLOOKUP_HOME.
    Example: geolookup state backup /backups/geolookup.tar.gz
    """
    interrupt.writing_to(file)
    made = archive.backup(state_directory(load_settings()), file)
    text = f"wrote generation {made.generation} and the edits to {file}: {words.count(made.files, 'file')}, verified"
    output.emit(as_json, asdict(made), text)


@state.command()
@click.argument("file", metavar="FILE")
@click.option("--replace", is_flag=True, help="Take the place of a state that is there, which is kept beside it.")
@json_option
def restore(file: str, replace: bool, as_json: bool) -> int:
    """Put a backup that `state backup` wrote in the place of the state (GEOLOOKUP_HOME, or `home`).

    \b
    Every byte is verified before anything is replaced, and then one rename does it. Edits that were
    unfinished may have been sent since: the next push looks for them at the service. Exit status: 3 if
    the state that was there had edits, names of sites or places of VRFs that no service has and FILE
    lacks; each is named.
    Example: geolookup state restore /backups/geolookup.tar.gz
    """
    home = load_settings().state_home()
    made = archive.restore(file, home, replace=replace)
    code = HELD if made.given_up else DONE
    if as_json:
        output.json_result(asdict(made))
        return code
    for told in made.given_up:
        output.note(f"not in the backup: {told}")
    output.done(f"{home} is the backup of {shown(made.at)}: generation {made.generation}, verified")
    if made.replaced is not None:
        output.done(f"the state that was there is {made.replaced}")
    if made.unfinished:
        output.done(f"the next push looks at the service for {words.count(made.unfinished, 'edit')} not known as sent")
    return code


@state.command()
@click.argument("directory", metavar="DIRECTORY")
@json_option
def move(directory: str, as_json: bool) -> None:
    """Move the state to DIRECTORY, which is new or empty, also on another disk.

    \b
    On another disk it is copied and verified there first, then removed here. It is refused while a
    sync, push or refresh runs. Stop `share` and `console` before, and start them again after.
    Example: geolookup state move /var/lib/geolookup
    """
    settings = load_settings()
    before = settings.state_home()
    home = archive.move(state_directory(settings), directory)
    value = {"from": before, "home": home}
    quoted = shlex.quote(home)
    lines = [f"moved {before} to {home}"]
    if os.environ.get("GEOLOOKUP_HOME"):
        lines.append(f"now set: export GEOLOOKUP_HOME={quoted}")
    else:
        lines.append(f"now set: geolookup config init --home {quoted}   (or GEOLOOKUP_HOME={quoted})")
    lines.append("units and crontab lines name the old place: print them again (`geolookup refresh --print-systemd`)")
    output.emit(as_json, value, lines)
