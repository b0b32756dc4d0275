"""Questions of the state directory about its local edits; if none were ever made, they are asked of an empty file."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Begun
from geolookup.state.base.sqlite import QUESTION_WAIT_S, RUN_WAIT_S
from geolookup.state.edits.layer import ABOVE, Laid, laid
from geolookup.state.edits.names import SiteNames
from geolookup.state.edits.outbox.kept import UNPROVED
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import Newest
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.state.edits.store import Edits
from geolookup.state.edits.vrfs import VrfPlaces

#: What edits.db keeps by this name: what of the sites of a server waits for a person, in words; "" if nothing does.
SITES_WAIT = "sites_wait"

_T = TypeVar("_T")


class LocalEdits:
    """The local edits of one state directory, each answer from a transaction of its own."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits

    def ask(self, question: Callable[[Ledger], _T], *, wait_s: float = RUN_WAIT_S) -> _T:
        """The answer to a question.

        :raises StateBusyError: if another process holds edits.db exclusively for longer than ``wait_s`` seconds
        """
        with self.edits.reading(wait_s=wait_s) as database:
            return question(Ledger(database))

    def of_vrfs(self, question: Callable[[VrfPlaces], _T]) -> _T:
        """The answer to a question about the places of VRFs."""
        return self.ask(lambda ledger: question(VrfPlaces(ledger.database, ledger.outbox)), wait_s=QUESTION_WAIT_S)

    def laid_over(
        self, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[dict[int, Laid], Newest, dict[int, Mapping[str, str]]]:
        """A list's custom geolocations with the edits laid over them, the newest that is in it, and the names and time
        zones of sites by the locid of each.
        """
        return self.ask(
            lambda ledger: (
                laid(ledger, custom, begun),
                ledger.outbox.newest,
                SiteNames(ledger.database).of_numbers(),
            ),
            wait_s=wait_s,
        )

    def pending(self, *states: State, wait_s: float = RUN_WAIT_S) -> int:
        """The count of edits that have not reached the service, or of those in these states."""
        return self.ask(lambda ledger: ledger.outbox.count(*(states or PENDING_STATES)), wait_s=wait_s)

    def held(self, *, but: Collection[int]) -> list[dict[str, Any]]:
        """A notice of each place that waits for a person, except for these; see `Outbox.notice`."""
        rows = self.ask(lambda ledger: ledger.outbox.rows(*PERSON_STATES))
        first = {row.locid: row for row in reversed(rows) if row.locid not in but}
        return [
            {"edit": row.id, "locid": row.locid, "reason": row.problem or f"edit {row.id} is {row.state}"}
            for row in sorted(first.values(), key=lambda row: row.id)
        ]

    def in_doubt(self, begun: Begun) -> bool:
        """True if only a list that is asked for without conditions says how things are.

        Something was sent, or found there already, or a newer list than that has spoken of a place, or why one is held:
        that it is as it was proves nothing.
        """
        where = f"{UNPROVED} OR hold IS NOT NULL OR {ABOVE}"
        return self.ask(lambda ledger: ledger.has(where, (begun.counter,)))

    def sites_of(self, numbers: Collection[int | None]) -> list[str]:
        """The names of the sites that have these numbers at the service, sorted."""

        def ask(ledger: Ledger) -> list[str]:
            places = {place for number, place in ledger.outbox.numbers().items() if number in numbers}
            return sorted(name for name, place in SiteNames(ledger.database).locids().items() if place in places)

        return self.ask(ask)

    def numbers(self) -> Collection[int]:
        """The service's locids of our places."""
        return self.ask(lambda ledger: ledger.outbox.numbers())

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have, or is to delete."""
        return self.ask(Ledger.deleted_here)

    def behind(
        self, locid: int, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[list[Laid], list[OutboxRow]]:
        """The geolocations of `laid_over`, and the edits of one that were made on this machine.

        Finished edits too, but not the dropped ones.
        """
        among = "locid IN (SELECT id FROM places WHERE id = ? OR number = ?) AND state <> ?"
        of_one = (locid, locid, State.DROPPED)

        def ask(ledger: Ledger) -> tuple[list[Laid], list[OutboxRow]]:
            rows = ledger.outbox.where(among, of_one)
            return [*laid(ledger, custom, begun).values()], [replace(row, number=locid) for row in rows]

        return self.ask(ask, wait_s=wait_s)

    def setting(self, name: str, *, wait_s: float = RUN_WAIT_S) -> str | None:
        """Something kept by name, or None: the `UPSTREAM_URL` that edits were pushed to, or `SITES_WAIT`."""
        return self.ask(lambda ledger: ledger.outbox.setting(name), wait_s=wait_s)
