"""``history`` and ``custom undo``: what was done on this machine, and taking it back.

Edits that were not sent are taken back; of edits that were sent, the reverse is made.
"""

import click

from geolookup.cli import output
from geolookup.cli.edits.options import WithLocids, locid_of, pass_editor
from geolookup.cli.edits.showing import pending_objects, say_changes, say_pending
from geolookup.cli.options import Moment, chosen_fields, json_option
from geolookup.settings.times import shown
from geolookup.sites.changes import Kind
from geolookup.sites.undo import Undone, plan_undo
from geolookup.sites.undo import undo as undo_edits
from geolookup.state.editor import Editor
from geolookup.state.edits.steps import Step, vrf_place
from geolookup.sync import words

_NAMES = ("id", "at", "what", "locid", "before", "after", "outcome", "step", "who", "via")


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

    With each line stand the user of the system who did it, and where: a command, `apply FILE`, the
    console, or a program that uses the library.

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
    names = editor.site_names()
    with output.table("when", "what", "locid", "outcome", "who", "from", "site") as row:
        for line in lines:
            place = line["locid"] if line["place"] is None else line["place"]  # its number may be another one's by now
            site = vrf_place(line) or names.get(place, "")
            who = (line["outcome"], line["who"] or "", line["via"] or "", site)
            row(shown(line["at"]), line["what"], "" if line["locid"] is None else str(line["locid"]), *who)


@click.command()
@click.argument("edits", type=int, nargs=-1, metavar="[EDIT]...")
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="The last N steps; one command is one step.  [default: 1]"
)
@click.option("--step", type=int, metavar="N", help="The step of this number (`history --field step`).")
@click.option("--site", metavar="LOCID|SITE", help="With --step: only what it did to this site.")
@click.option("--run", is_flag=True, help="Carry it out. Without it, only the plan is shown.")
@json_option
@pass_editor
def undo(
    editor: Editor,
    /,
    edits: tuple[int, ...],
    last: int | None,
    step: int | None,
    site: str | None,
    run: bool,
    as_json: bool,
) -> None:
    """Undo the last step, the last N steps, any one step, or single edits of the outbox.

    \b
    A step is all that one command did: `custom apply` with all its edits is one step. Edits that
    were not sent yet are taken back. For edits that were sent, the reverse is made as new edits, which
    the next push sends: a deleted geolocation is created again, and gets a new number.
    Fields that were changed again since stay as they are, and are named. What `outbox` decided is not
    undone, and neither is an undo, unless --step names it: a second one undoes the step before.
    Without --run nothing is changed: the plan says what would be.

    \b
    Examples:
      geolookup custom undo              # what undoing the last step would do
      geolookup custom undo --run        # do it
      geolookup custom undo --last 3
      geolookup custom undo --step 31 --site "Berlin office"
      geolookup custom undo 17 --run     # the edit 17 of `geolookup outbox list --all`
    """
    if sum((bool(edits), last is not None, step is not None)) > 1:
        raise click.UsageError("give one of EDIT, --last and --step")
    if site is not None and step is None:
        raise click.UsageError("--site goes with --step")
    act, of = (undo_edits if run else plan_undo), None if site is None else locid_of(editor, site)
    undone = act(editor, edits=edits, last=last or 1, step=step, site=of)
    if as_json:
        output.json_result(
            {
                "done": run,
                "edits": list(undone.edits),
                "steps": [{"step": step.number, "at": step.at} for step in undone.steps],
                "changes": [change.as_dict() for change in undone.changes],
                "elsewhere": undone.elsewhere.as_dict(),
                "put_back": list(undone.put_back),
                "notes": list(undone.notes),
                "pending": pending_objects(editor),
            }
        )
        return
    for each in undone.steps:
        output.done(_step(each))
    say_changes(undone.changes)
    for told in undone.put_back:
        output.done(told)
    for told in undone.elsewhere.describe():
        output.done(told)
    for told in undone.notes:
        output.note(told)
    if not run:
        output.done(_plan_ends(undone))
        return
    made = len(undone.changes) + len(undone.put_back)
    output.done(f"{words.count(made, 'change')} made" if made else "nothing to undo")
    say_pending(editor)


def _step(step: Step) -> str:
    """One step that is undone; its names are shown as what is put back."""
    number = len(step.changes) + len(step.vrfs)
    return f"step of {step.at}: {words.count(number, 'change') if number else 'names of sites'}"


def _plan_ends(undone: Undone) -> str:
    if not undone.changes and not undone.put_back:
        return "nothing to undo"
    unsent = sum(change.kind is Kind.TAKE_BACK for change in undone.changes)
    parts = [
        f"{words.count(unsent, 'edit')} to take back",
        words.count(len(undone.changes) - unsent, "new edit"),
        *([words.count(len(undone.put_back), "other change")] if undone.put_back else []),
    ]
    return f"{', '.join(parts)}: add --run to carry it out. Nothing was changed"
