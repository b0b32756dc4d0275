"""What a run that died had found and could tell nobody: the next run tells it."""

import contextlib
from collections.abc import Iterator
from typing import Any

from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.run import Run


@contextlib.contextmanager
def told_at_the_end(run: Run) -> Iterator[list[dict[str, Any]]]:
    """The notices that an earlier run left, as reports have them; if this one ends well, its report tells all.

    :raises EditsDamagedError: if what is left of them cannot be read
    """
    directory = run.directory
    yield _left(directory)
    if _left(directory):
        with directory.edits.transaction() as database:
            Outbox(database).untold.forget()


def _left(directory: StateDirectory) -> list[dict[str, Any]]:
    if not directory.edits.exists():
        return []
    with directory.edits.reading() as database:
        return Outbox(database).untold.all()
