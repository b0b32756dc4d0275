"""``history``: what was done on this machine."""

import click

from geolookup.cli import output
from geolookup.cli.edits.editing import NEGATIVE_LOCIDS, pass_editor
from geolookup.cli.options import json_option
from geolookup.state.edits.editor import Editor


@click.command(context_settings=NEGATIVE_LOCIDS)
@click.argument("locid", type=int, required=False)
@json_option
@pass_editor
def history(editor: Editor, /, locid: int | None, as_json: bool) -> None:
    """List what was done on this machine: edits, pulls, pushes, accepted lists, rollbacks; oldest first.

    \b
    Example: geolookup history -3
    """
    lines = editor.history(locid)
    if as_json:
        output.json_result(lines)
        return
    for line in lines:
        output.row(line["at"], line["what"], "" if line["locid"] is None else str(line["locid"]), line["outcome"])
