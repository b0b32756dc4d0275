"""The state as a command found it, and what became of it since: for the message after an interrupt."""

import contextlib
from collections import Counter

from geolookup.model.errors import GeoLookupError
from geolookup.state.base.current import Current
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, UNDER_WAY, State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import words

#: A person waits for no other process, neither before a command nor after Ctrl-C.
_WAIT_S = 0.2


class StateBefore:
    """Tells what is true when it is asked: a moment before Ctrl-C, a publish may have come through.

    ``asked`` are the names of the methods that will be asked; the others know nothing.
    """

    def __init__(self, directory: StateDirectory, asked: set[str]) -> None:
        self._directory = directory
        self.current = self._now() if "published" in asked else None
        self._pending: set[int] = set()
        self._head = 0
        with contextlib.suppress(GeoLookupError):  # the command itself says what is wrong
            if "sent" in asked:
                self._pending = {row for row, state in self._states().items() if state in PENDING_STATES}
            if "edited" in asked:
                self._head = self._newest()

    def _now(self) -> Current | None:
        with contextlib.suppress(GeoLookupError):
            return self._directory.named_current()
        return None

    def _states(self) -> dict[int, State]:
        if not self._directory.edits.exists():
            return {}
        with self._directory.edits.reading(wait_s=_WAIT_S) as database:
            return {row.id: row.state for row in Outbox(database).rows()}

    def _newest(self) -> int:
        newest = 0
        if self._directory.edits.exists():
            with self._directory.edits.reading(wait_s=_WAIT_S) as database:
                newest = Outbox(database).head
        return newest

    def published(self) -> str:
        """Say if another generation is served by now."""
        now = self._now()
        if now is None:
            return "nothing was published"
        if self.current is None or now.generation != self.current.generation:
            return f"generation {now.generation} is served now"
        return f"nothing was published, and generation {now.generation} goes on serving"

    def sent(self) -> str:
        """Say what became of the edits that waited."""
        if not self._pending:
            return "no edit waited to be sent"
        now = self._states()
        count = Counter(now.get(edit, State.DONE) for edit in self._pending)
        parts = [f"{count[State.DONE]} of {words.count(len(self._pending), 'edit')} reached the service"]
        if unknown := sum(count[state] for state in UNDER_WAY):
            parts.append(f"the next push asks the service what became of {unknown} before it sends anything again")
        if queued := count[State.QUEUED]:
            parts.append(f"{queued} {'waits' if queued == 1 else 'wait'}")
        if held := sum(count[state] for state in PERSON_STATES):
            parts.append(f"{held} {'waits' if held == 1 else 'wait'} for you (`geolookup outbox list`)")
        return ", ".join(parts)

    def edited(self) -> str:
        """Say if edits were made; those of one command are made together, or not at all."""
        if self._newest() == self._head:
            return "nothing was changed"
        return "the edits are made: `geolookup outbox list` shows them"
