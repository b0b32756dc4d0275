"""``history``: what was done on this machine."""

import click

from geolookup.cli import output
from geolookup.cli.edits.options import WithLocids, locid_of, pass_editor
from geolookup.cli.options import Moment, chosen_fields, json_option
from geolookup.settings.times import shown
from geolookup.state.editor import Editor

_NAMES = ("id", "at", "what", "locid", "before", "after", "outcome", "step")


@click.command(cls=WithLocids)
@click.argument("locid", required=False, metavar="[LOCID|SITE]")
@click.option("--since", type=Moment(), metavar="WHEN", help="Only from then on: `yesterday`, `2d`, 2026-02-01.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N lines.")
@chosen_fields(_NAMES)
@json_option
@pass_editor
def history(
    editor: Editor,
    /,
    locid: str | None,
    since: str | None,
    limit: int | None,
    only: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    """List what was done on this machine: edits, pulls, pushes, accepted lists, rollbacks; oldest first.

    \b
    Examples:
      geolookup history -3
      geolookup history --limit 20
      geolookup history --since 2d
    """
    about = None if locid is None else locid_of(editor, locid)
    lines = [line for line in editor.history(about) if since is None or line["at"] >= since][-(limit or 0) :]
    if as_json or only is not None:
        output.chosen_results(lines, only or _NAMES, as_json=as_json)
        return
    with output.table("when", "what", "locid", "outcome") as row:
        for line in lines:
            row(shown(line["at"]), line["what"], "" if line["locid"] is None else str(line["locid"]), line["outcome"])
