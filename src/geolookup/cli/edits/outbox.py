"""``outbox …``: edits on their way to the service, and those that wait for a person."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from geolookup.cli import output
from geolookup.cli.edits.options import (
    WithLocids,
    field_options,
    if_meant,
    may_ask,
    pass_editor,
    require_fitting,
    yes_option,
)
from geolookup.cli.edits.showing import edit_object, edit_text, pending_objects, say_pending
from geolookup.cli.exit_codes import DONE, HELD
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import chosen_fields, json_option, load_settings, state_directory
from geolookup.model.addresses import range_ends
from geolookup.model.fields import DEGREES, UNKNOWN
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, SHOWN, OutboxRow, State
from geolookup.state.publishing.restore import restore as restore_edits
from geolookup.sync import words

_NAMES = (*SHOWN, "description", "site")
_DROPPED_STATES = (State.QUEUED, *PERSON_STATES)


@click.group(cls=LazyGroup)
def outbox() -> None:
    """Show and decide edits on their way to the service.

    \b
    Example: geolookup outbox list
    """


@outbox.command("list")
@click.option("--all", "everything", is_flag=True, help="Also list finished edits.")
@chosen_fields(_NAMES)
@json_option
@pass_editor
def list_edits(editor: Editor, /, everything: bool, only: tuple[str, ...] | None, as_json: bool) -> None:
    """List the edits that have not reached the service, oldest first.

    \b
    Example: geolookup outbox list --json
    """
    rows = editor.outbox() if everything else _waiting(editor)
    names = editor.site_names()
    if as_json or only is not None:
        output.chosen_results((edit_object(row, names) for row in rows), only or _NAMES, as_json=as_json)
        return
    with output.table("edit", "state", "what", "problem") as write:
        for row in rows:
            write(str(row.id), str(row.state), edit_text(row, names), row.problem or "")


@outbox.command()
@click.argument("number", type=int, metavar="EDIT")
@chosen_fields(_NAMES)
@json_option
@pass_editor
def show(editor: Editor, /, number: int, only: tuple[str, ...] | None, as_json: bool) -> None:
    """Show one edit: what it changes, what it was based on, and its problem, if any.

    \b
    Example: geolookup outbox show 5
    """
    row = editor.edit(number)
    names = editor.site_names()
    if only is None:
        output.emit(as_json, lambda: edit_object(row, names), lambda: _say_edit(editor, row, names))
    else:
        output.chosen_result(edit_object(row, names), only, as_json=as_json)


@outbox.command()
@click.argument("number", type=int, metavar="EDIT")
@json_option
@pass_editor
def retry(editor: Editor, /, number: int, as_json: bool) -> None:
    """Queue a held or rejected edit again. An edit held for a conflict then overwrites the service's version.

    \b
    Example: geolookup outbox retry 5
    """
    _decided(editor, editor.retry(number), as_json)


@outbox.command()
@click.argument("number", type=int, metavar="EDIT")
@click.option("--block", metavar="FIRST[-LAST]", help="The block to add instead: a network, an address or a range.")
@field_options
@yes_option
@json_option
@pass_editor
def edit(editor: Editor, /, number: int, block: str | None, yes: bool, as_json: bool, **fields: Any) -> None:
    """Change what a waiting edit says, and queue it again.

    \b
    A very wide block draws the question of `custom add-block`; without a terminal it needs --yes.
    Example: geolookup outbox edit 5 --city Potsdam
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if not given and block is None:
        raise click.UsageError("give a field or --block to change")
    if given.keys() & {"country", *DEGREES}:
        require_fitting({**UNKNOWN, **editor.edit(number).payload.get("fields", {}), **given})
    ends = range_ends(block) if block is not None else None
    amended = if_meant(lambda wide: editor.amend(number, fields=given, block=ends, wide=wide), yes=yes, as_json=as_json)
    if amended is not None:
        _decided(editor, amended, as_json)


@outbox.command()
@click.argument("numbers", type=int, nargs=-1, metavar="[EDIT]...")
@click.option("--all", "everything", is_flag=True, help="Drop every edit that waits or was not sent yet.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_editor
def drop(editor: Editor, /, numbers: tuple[int, ...], everything: bool, yes: bool, as_json: bool) -> None:
    """Drop edits: all of them, or none if one cannot be dropped.

    \b
    Dropping a create also drops the later edits of that geolocation. On a terminal it asks first;
    elsewhere --all needs --yes.

    \b
    Examples:
      geolookup outbox drop 5
      geolookup outbox drop 3 4 5 --yes
      geolookup outbox drop --all
    """
    if everything == bool(numbers):
        raise click.UsageError("give EDIT or --all")
    asked_for = _waiting(editor) if everything else [row for row in editor.outbox() if row.id in numbers]
    rows = [row for row in asked_for if row.state in _DROPPED_STATES]
    left = [row for row in asked_for if row.state not in _DROPPED_STATES] if everything else []
    made = {row.locid for row in left if row.operation == "create"}
    rows = [row for row in rows if row.locid not in made]  # of what may have been made, half would be left
    names = editor.site_names()
    asks = not yes and may_ask(as_json=as_json)
    if everything and rows and not yes and not asks:
        raise click.UsageError(f"--all would drop {words.count(len(rows), 'edit')}: add --yes")
    if asks and rows:
        for row in rows:
            output.done(f"{row.id}  {row.state}  {edit_text(row, names)}")
        if not click.confirm(f"Drop {words.count(len(rows), 'edit')}?"):
            output.done("nothing was changed")
            return
    dropped: dict[int, OutboxRow] = {}
    with editor.transaction():
        for number in dict.fromkeys([row.id for row in rows] if everything else numbers):
            if number not in dropped:  # else a create has taken it along
                dropped |= {row.id: row for row in editor.drop(number)}
    if as_json:
        found = [edit_object(row, names) for row in dropped.values()]
        first = next(iter(dropped.values()), None)
        locid = None if first is None else first.locid
        output.json_result({"locid": locid, "dropped": found, "pending": pending_objects(editor)})
        return
    for row in dropped.values():
        output.done(words.dropped(row))
    for row in left:
        output.warn(f"edit {row.id} ({edit_text(row, names)}) is {row.state}: push first, and drop it if it waits then")
    say_pending(editor)


@outbox.command(cls=WithLocids)
@click.argument("number", type=int, metavar="EDIT")
@click.argument("locid", type=int)
@json_option
@pass_editor
def adopt(editor: Editor, /, number: int, locid: int, as_json: bool) -> None:
    """Say that LOCID is the geolocation of a held edit.

    A create, or an edit that the service does not show, counts as done, as the service has it. Other edits that wait
    are sent to LOCID. A half-done removal puts its other blocks back there.

    \b
    Example: geolookup outbox adopt 5 -17
    """
    _decided(editor, editor.adopt(number, locid), as_json)


@outbox.command(cls=WithLocids)
@click.argument("locid", type=int)
@json_option
@pass_editor
def keep(editor: Editor, /, locid: int, as_json: bool) -> None:
    """Keep the geolocation LOCID, which a sync reported as made twice: it is not reported again.

    \b
    Example: geolookup outbox keep -18
    """
    editor.keep_twin(locid)
    output.emit(as_json, {"locid": locid, "kept": True}, f"geolocation {locid} is kept, and not reported again")


@outbox.command()
@click.argument("backup", required=False, metavar="[BACKUP]")
@click.option("--empty", is_flag=True, help="Start with an empty file, without the edits that are pending here.")
@json_option
def restore(backup: str | None, empty: bool, as_json: bool) -> int:
    """Put the newest backup of edits.db (or BACKUP) in its place, and say what lookups lose by that.

    \b
    Never copy a backup there by hand: what was sent since would be sent again. This looks for it at
    the service first. The file that was there is kept as edits.replaced.db, and each
    later one as edits.replaced.2.db and so on. Exit status: 3 if lookups lost anything, an edit is
    not in the backup, or a half-done removal is not finished.

    \b
    Example: geolookup outbox restore
    """
    if backup is not None and empty:
        raise click.UsageError("give BACKUP or --empty, not both")
    restored = restore_edits(state_directory(load_settings()), backup, empty=empty)
    code = HELD if restored.lost or restored.owed or restored.given_up else DONE
    if as_json:
        output.json_result(asdict(restored))
        return code
    for told in restored.given_up:
        output.note(f"{'given up' if empty else 'not in the backup'}: {told}")
    for first, last, place in restored.lost:
        output.note(f"{first}-{last}: lookups no longer have {place}")
    for first, last, place in restored.owed:
        output.note(f"{first}-{last}: a removal took it from {place}, and nothing here puts it back: give it again")
    output.done(f"edits.db is now {'new and empty' if restored.source is None else f'a copy of {restored.source}'}")
    if restored.replaced is not None:
        output.done(f"the file that was there is {restored.replaced}")
    if restored.unfinished:
        edits = words.count(restored.unfinished, "edit")
        output.done(f"the next push looks at the service for {edits} that may have been sent")
    return code


def _waiting(editor: Editor) -> list[OutboxRow]:
    """The edits that wait for the service: without one, edits are the state's own, and none waits."""
    return editor.pending() if load_settings().url is None else editor.outbox(*PENDING_STATES)


def _decided(editor: Editor, row: OutboxRow, as_json: bool) -> None:
    """Show an edit as a decision left it, and what is still pending."""
    names = editor.site_names()

    def say() -> None:
        _say_edit(editor, row, names)
        say_pending(editor)

    output.emit(as_json, lambda: {**edit_object(row, names), "pending": pending_objects(editor)}, say)


def _say_edit(editor: Editor, row: OutboxRow, names: Mapping[int, str]) -> None:
    output.done(words.decided(row))
    if row.locid in names:
        output.done(f"  site: {names[row.locid]}")
    if row.problem:
        output.done(f"  {row.problem}")
    for name, value in row.payload.items():
        output.done(f"  {name}: {_words(value)}")
    if row.base is not None:
        output.done(f"  based on: {_words(row.base)}")
    if row.state in PERSON_STATES and (hold := editor.hold(row.id)) is not None and hold.theirs is not None:
        output.done(f"  the service has: {_words(described(hold.theirs))}")
    sent = row.payload.get("fields", {})
    other = {name: value for name, value in (row.stored or {}).items() if value != sent.get(name)}
    if other:
        instead = (f"{name} {'empty' if value in ('', None) else value}" for name, value in other.items())
        output.done(f"  the service has instead: {', '.join(instead)}")
    sys.stdout.flush()


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items() if item not in ("", None, []))
    if isinstance(value, list):
        return " ".join("-".join(item) if isinstance(item, list) else str(item) for item in value)
    return str(value)
