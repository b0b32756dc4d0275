"""Questions of the state directory about its local edits; if none were ever made, nothing is opened."""

from collections.abc import Callable
from typing import TypeVar

from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Begun
from geolookup.state.base.sqlite import RUN_WAIT_S
from geolookup.state.edits.layer import Laid, lay_over
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.store import Edits

_T = TypeVar("_T")


class LocalEdits:
    """The local edits of one state directory, each answer from a transaction of its own."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits

    def _ask(self, question: Callable[[Outbox], _T], otherwise: _T, *, wait_s: float = RUN_WAIT_S) -> _T:
        if not self._edits.exists():
            return otherwise
        with self._edits.reading(wait_s=wait_s) as database:
            return question(Outbox(database))

    def require_newest(self, *, edits: int, counter: int) -> None:
        """Refuse an edits.db that has gone back; see `Edits.require_newest`."""
        self._edits.require_newest(edits=edits, counter=counter)

    def laid_over(
        self, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[dict[int, Laid], int]:
        """A list's custom geolocations with the edits laid over them, and the newest edit's number."""
        nothing: tuple[tuple[list[OutboxRow], dict[int, int]], int] = (([], {}), 0)
        to_lay, head = self._ask(lambda outbox: (outbox.to_lay(begun), outbox.head), nothing, wait_s=wait_s)
        return lay_over(custom, *to_lay, listed=begun.counter), head

    def head(self) -> int:
        """The number of the newest edit."""
        return self._ask(lambda outbox: outbox.head, 0)

    def pending(self, *, wait_s: float = RUN_WAIT_S) -> int:
        """The count of edits that have not reached the service.

        :raises StateBusyError: if another process holds edits.db exclusively for longer than ``wait_s`` seconds
        """
        return self._ask(lambda outbox: len(outbox.rows(*PENDING_STATES)), 0, wait_s=wait_s)

    def acknowledged(self) -> bool:
        """True if the service acknowledged an edit that no list was conclusive for yet."""
        return self._ask(lambda outbox: bool(outbox.sent.acknowledged()), otherwise=False)

    def acknowledged_since(self, begun: Begun) -> bool:
        """True if an edit laid over a list begun then is one that the service has acknowledged."""
        return self._ask(lambda outbox: any(row.acknowledged_at for row in outbox.rows_to_lay(begun)), otherwise=False)

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have."""
        return self._ask(Outbox.deleted_here, set())

    def edits_of(self, locid: int, *, wait_s: float = RUN_WAIT_S) -> list[OutboxRow]:
        """The edits of a geolocation that were made on this machine, finished ones too; not the dropped ones."""

        def ask(outbox: Outbox) -> list[OutboxRow]:
            aliases = outbox.aliases()
            rows = (row for row in outbox.rows() if row.state != State.DROPPED)
            return [row for row in rows if locid in (row.locid, aliases.get(row.locid))]

        return self._ask(ask, [], wait_s=wait_s)

    def upstream_url(self) -> str | None:
        """The upstream that edits were pushed to; None if none were."""
        return self._ask(lambda outbox: outbox.setting("upstream_url"), None)
