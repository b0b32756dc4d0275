"""Questions of the state directory about its local edits; if none were ever made, nothing is opened."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Begun
from geolookup.state.base.sqlite import QUESTION_WAIT_S, RUN_WAIT_S
from geolookup.state.edits.layer import ABOVE, Laid, laid
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import UPSTREAM_URL
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.state.edits.session import SiteNames, local_facts
from geolookup.state.edits.store import Edits
from geolookup.state.edits.vrfs import VrfPlaces

#: What edits.db keeps by this name: what of the sites of a server waits for a person, in words; "" if nothing does.
SITES_WAIT = "sites_wait"

_T = TypeVar("_T")


class LocalEdits:
    """The local edits of one state directory, each answer from a transaction of its own."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits

    def _ask(self, question: Callable[[Ledger], _T], otherwise: _T, *, wait_s: float = RUN_WAIT_S) -> _T:
        if not self._edits.exists():
            return otherwise
        with self._edits.reading(wait_s=wait_s) as database:
            return question(Ledger(database))

    def require_newest(self, *, edits: int, counter: int) -> None:
        """Refuse an edits.db that has gone back; see `Edits.require_newest`."""
        self._edits.require_newest(edits=edits, counter=counter)

    def laid_over(
        self, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[dict[int, Laid], int]:
        """A list's custom geolocations with the edits laid over them, and the newest edit's number."""
        layer, head, _ = self.named(custom, begun, wait_s=wait_s)
        return layer, head

    def named(
        self, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[dict[int, Laid], int, dict[int, Mapping[str, str]]]:
        """`laid_over`, and the names and time zones of sites by the locid of each."""

        def ask(ledger: Ledger) -> tuple[dict[int, Laid], int, dict[int, Mapping[str, str]]]:
            return laid(ledger, custom, begun), ledger.outbox.head, SiteNames(ledger.database).of_numbers()

        nothing: tuple[dict[int, Laid], int, dict[int, Mapping[str, str]]]
        nothing = {place.locid: Laid(place=place) for place in custom}, 0, {}
        return self._ask(ask, nothing, wait_s=wait_s)

    def head(self) -> int:
        """The number of the newest edit."""
        return self._ask(lambda ledger: ledger.outbox.head, 0)

    def pending(self, *, wait_s: float = RUN_WAIT_S) -> int:
        """The count of edits that have not reached the service.

        :raises StateBusyError: if another process holds edits.db exclusively for longer than ``wait_s`` seconds
        """
        return self._ask(lambda ledger: ledger.outbox.count(*PENDING_STATES), 0, wait_s=wait_s)

    def held(self, *, but: Collection[int]) -> list[dict[str, Any]]:
        """A notice of each place that waits for a person, except for these; see `Outbox.notice`."""
        none: list[OutboxRow] = []
        rows = self._ask(lambda ledger: ledger.outbox.rows(*PERSON_STATES), none)
        first = {row.locid: row for row in reversed(rows) if row.locid not in but}
        return [
            {"edit": row.id, "locid": row.locid, "reason": row.problem or f"edit {row.id} is {row.state}"}
            for row in sorted(first.values(), key=lambda row: row.id)
        ]

    def in_doubt(self, begun: Begun) -> bool:
        """True if only a list that is asked for without conditions says how things are.

        Something was sent, or a newer list than that has spoken of a place, or why one is held: that it is as it was
        proves nothing.
        """
        where = f"id IN (SELECT place FROM requests WHERE NOT over) OR hold IS NOT NULL OR {ABOVE}"  # noqa: S608 - our names
        return self._ask(lambda ledger: ledger.has(where, (begun.counter,)), otherwise=False)

    def deleted_here(self) -> set[int]:
        """The service's locids of the geolocations that this machine deleted there, or may have."""

        def ask(ledger: Ledger) -> set[int]:
            maybe = ledger.read("id IN (SELECT place FROM requests WHERE what = 'delete')")
            numbers = {kept.place.number for kept in maybe.values() if kept.place.number is not None}
            return numbers | set(ledger.outbox.deleted_here())

        return self._ask(ask, set())

    def behind(
        self, locid: int, custom: list[Geolocation], begun: Begun, *, wait_s: float = RUN_WAIT_S
    ) -> tuple[list[Laid], list[OutboxRow]]:
        """The geolocations of `laid_over`, and the edits of one that were made on this machine.

        Finished edits too, but not the dropped ones.
        """

        def ask(ledger: Ledger) -> tuple[list[Laid], list[OutboxRow]]:
            among = "locid IN (SELECT id FROM places WHERE id = ? OR number = ?) AND state <> ?"
            edits = ledger.outbox.where(among, (locid, locid, str(State.DROPPED)))
            return list(laid(ledger, custom, begun).values()), edits

        nothing: tuple[list[Laid], list[OutboxRow]] = [Laid(place=place) for place in custom], []
        return self._ask(ask, nothing, wait_s=wait_s)

    def vrf_revisions(self) -> dict[str, int]:
        """The VRFs, each with the counter of edits when it changed last."""
        none: dict[str, int] = {}
        return self._ask(
            lambda ledger: VrfPlaces(ledger.database, ledger.outbox).revisions(), none, wait_s=QUESTION_WAIT_S
        )

    def vrf_places(self, vrf: str) -> dict[str, Geolocation]:
        """The places of a VRF by their names."""
        none: dict[str, Geolocation] = {}
        return self._ask(
            lambda ledger: VrfPlaces(ledger.database, ledger.outbox).places(vrf), none, wait_s=QUESTION_WAIT_S
        )

    def vrf_facts(self, vrf: str) -> dict[int, Mapping[str, str]]:
        """What answers say of the places of a VRF besides their fields, by locid."""

        def ask(ledger: Ledger) -> dict[int, Mapping[str, str]]:
            vrfs = VrfPlaces(ledger.database, ledger.outbox)
            zones = vrfs.time_zones(vrf)
            return {
                place.locid: {**local_facts(name, zones.get(name, "")), "vrf": vrf}
                for name, place in vrfs.places(vrf).items()
            }

        nothing: dict[int, Mapping[str, str]] = {}
        return self._ask(ask, nothing, wait_s=QUESTION_WAIT_S)

    def sites_wait(self, *, wait_s: float = RUN_WAIT_S) -> str | None:
        """What of the sites of a server waits for a person, in words; None if nothing does."""
        return self._ask(lambda ledger: ledger.outbox.setting(SITES_WAIT), None, wait_s=wait_s) or None

    def upstream_url(self) -> str | None:
        """The upstream that edits were pushed to; None if none were."""
        return self._ask(lambda ledger: ledger.outbox.setting(UPSTREAM_URL), None)
