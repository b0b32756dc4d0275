"""``history``: what was done on this machine."""

import click

from geolookup.cli import output
from geolookup.cli.edits.editing import NEGATIVE_LOCIDS, pass_editor
from geolookup.cli.options import Moment, json_option
from geolookup.settings.moments import shown
from geolookup.state.edits.editor import Editor


@click.command(context_settings=NEGATIVE_LOCIDS)
@click.argument("locid", type=int, required=False)
@click.option("--since", type=Moment(), metavar="WHEN", help="Only from then on: `yesterday`, `2d`, 2026-02-01.")
@json_option
@pass_editor
def history(editor: Editor, /, locid: int | None, since: str | None, as_json: bool) -> None:
    """List what was done on this machine: edits, pulls, pushes, accepted lists, rollbacks; oldest first.

    \b
    Examples:
      geolookup history -3
      geolookup history --since 2d
    """
    lines = [line for line in editor.history(locid) if since is None or line["at"] >= since]
    if as_json:
        output.json_result(lines)
        return
    for line in lines:
        output.row(
            shown(line["at"]), line["what"], "" if line["locid"] is None else str(line["locid"]), line["outcome"]
        )
