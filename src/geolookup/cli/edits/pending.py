"""How commands write edits that have not reached the service."""

from collections.abc import Mapping
from typing import Any

from geolookup import words
from geolookup.cli import output
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.outbox.row import OutboxRow


def say_pending(editor: Editor) -> None:
    """Say how many edits have not reached the service, and what becomes of them."""
    output.done(words.pending(editor.pending(), "`geolookup push`", "`geolookup outbox list`"))


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
