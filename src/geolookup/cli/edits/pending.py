"""How commands write edits that have not reached the service."""

from collections.abc import Iterable, Mapping
from typing import Any

from geolookup import words
from geolookup.cli import output
from geolookup.model.types import IPBlock
from geolookup.sites.changes import Change, Kind
from geolookup.sites.site import blocks_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import OutboxRow


def say_pending(editor: Editor) -> None:
    """Say how many edits have not reached the service, and what becomes of them."""
    output.done(words.pending(editor.pending(), "`geolookup push`", "`geolookup outbox list`"))


def say_changes(changes: Iterable[Change]) -> None:
    """Say the steps of a plan, one a line; the blocks of what is created stand with it."""
    changes = list(changes)
    given: dict[str | None, list[IPBlock]] = {change.site: [] for change in changes if change.kind is Kind.CREATE}
    for change in changes:
        if change.kind is Kind.ADD_BLOCK and change.site in given and change.block is not None:
            given[change.site].append(change.block)
    for change in changes:
        if change.kind is Kind.CREATE:
            blocks = blocks_text(given[change.site])
            output.done(f"{change.describe()}; {blocks or 'no blocks'}")
        elif change.kind is not Kind.ADD_BLOCK or change.site not in given:
            output.done(change.describe())


def pending_objects(editor: Editor) -> list[dict[str, Any]]:
    """The edits that have not reached the service, for ``--json``."""
    names = editor.site_names()
    return [edit_object(row, names) for row in editor.pending()]


def edit_object(row: OutboxRow, names: Mapping[int, str]) -> dict[str, Any]:
    """An edit of the outbox, for ``--json``; ``names`` are those of sites."""
    return {**row.as_dict(), "state": str(row.state), "site": names.get(row.locid)}


def edit_text(row: OutboxRow, names: Mapping[int, str]) -> str:
    """An edit in words, with the name of its site."""
    return row.describe() + (f" ({names[row.locid]})" if row.locid in names else "")
