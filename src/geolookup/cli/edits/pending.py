"""How commands write edits that have not reached the service."""

from typing import Any

from geolookup import words
from geolookup.cli import output
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow


def say_pending(editor: Editor) -> None:
    """Say how many edits have not reached the service, and what becomes of them."""
    pending = editor.pending()
    if not pending:
        output.done("nothing is pending")
        return
    count, waiting = len(pending), sum(row.state in PERSON_STATES for row in pending)
    text = f"{words.count(count, 'edit')} pending"
    if waiting < count:
        text += f": `geolookup push` sends {'it' if count == 1 else 'them'}"
    if waiting:
        text += f"{'; ' if waiting < count else ': '}{waiting} of them held or rejected: see `geolookup outbox list`"
    output.done(text)


def pending_objects(editor: Editor) -> list[dict[str, Any]]:
    """The edits that have not reached the service, for ``--json``."""
    return [edit_object(row) for row in editor.pending()]


def edit_object(row: OutboxRow) -> dict[str, Any]:
    """An edit of the outbox, for ``--json``."""
    return {**row.as_dict(), "state": str(row.state)}
