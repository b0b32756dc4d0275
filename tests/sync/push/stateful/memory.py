"""What happened in a play of the push machine, and is written nowhere in the state or the service afterwards."""

from typing import Any

from geolookup.state.edits.outbox.row import OutboxRow, State
from tests.oracle.outbox_model import Ends
from tests.sync.push.stateful.world import SETTLE_S, World

#: What each edit may ask the service to do.
REQUESTS = {
    "create": (),
    "update": ("update",),
    "delete": ("delete",),
    "add_block": ("create_block",),
    "replace_block": ("replace_block",),
    "remove_block": ("delete_blocks", "replace_block"),
    "clear_blocks": ("delete_blocks",),
}


class Memory:
    """What the judge has to know beside what it sees."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: The service's custom geolocations as last pulled, and the edits that were over by then.
        self.pulled: dict[int, Any] = {}
        self.in_list: set[int] = set()
        #: Those of each complete list, by the counter that it began at.
        self.listed: dict[int, dict[int, Any]] = {}
        #: The counter of the newest list when each place was first known here: lists before were not kept for it.
        self.known_since: dict[int, int] = {}
        #: When each edit that is done was first seen to be.
        self.done_at: dict[int, float] = {}
        #: What the geolocation of each edit should be in the end, as far as that edit knows.
        self.intended: dict[int, tuple[tuple[Any, ...], frozenset[Ends]] | None] = {}
        self.decided: set[int] = set()
        self.adopted_by_person: set[int] = set()
        #: The create that each key was sent for, and the keys of those whose geolocation a person took for another's.
        self.sent_for: dict[str | None, int] = {}
        #: The fields that each create was about to be sent with.
        self.created: dict[int, set[tuple[Any, ...]]] = {}
        self.taken_by_person: set[str | None] = set()
        self.foreign_deleted: set[int] = set()
        #: Creates of ours that the foreign client changed before we knew of them: nobody can tell that they arrived.
        self.touched_before_it_was_known: set[str] = set()
        #: Creates of ours that the foreign client deleted, or made unlike, before a list had them, with their numbers.
        self.spoilt_before_it_was_listed: dict[int, int] = {}
        #: Those that it spoilt before anybody here knew of them: a service that honours keys may name them yet.
        self.spoilt_before_it_was_known: dict[int, int] = {}
        self.rows_seen = 0
        #: The last number of the service's that each geolocation created here was known by.
        self.numbers: dict[int, int] = {}
        #: The last number of the service's under which each edit was made.
        self.number_of: dict[int, int] = {}

    def edit_of(self, key: str | None) -> int | None:
        """The create that a request with this key was sent for, None if none was."""
        return self.sent_for.get(key)

    def places_of(self, edits: set[int]) -> set[int]:
        """The numbers here, by now, of what these edits edit."""
        return {row.locid for row in self._world.rows() if row.id in edits}

    def note_what_is_known(self) -> None:
        """Note since when each place is known here."""
        newest = max(self.listed, default=0)
        for kept in self._world.places():
            self.known_since.setdefault(kept.place.id, newest)

    def note_what_is_done(self) -> None:
        """Note when each edit that is done was first seen to be."""
        done = {row.id for row in self._world.rows() if row.state == State.DONE}
        self.done_at = {edit: self.done_at.get(edit, self._world.clock.seconds) for edit in done}

    def note_a_list(self) -> None:
        """Note what the list that was just pulled says, and which edits it must have."""
        self.pulled = {locid: place.state() for locid, place in self._world.service.places.items()}
        self.note_what_is_done()
        now = self._world.clock.seconds
        held = {row.id for kept in self._world.places() if kept.hold is not None for row in kept.rows.values()}
        self.in_list |= {edit for edit, at in self.done_at.items() if now - at >= SETTLE_S} - held
        # What a push concluded by a list that it read before: this one is newer.
        self.in_list |= {row.id for row in self._world.rows() if row.concluded is not None}

    def note_what_was_named_late(self) -> None:
        """Note what was sent again, and answered with the number of what was spoilt before anybody here knew of it."""
        numbers = self._numbers()
        for edit, number in self.spoilt_before_it_was_known.items():
            if numbers.get(edit) == number and number not in self.adopted_by_person:
                self.spoilt_before_it_was_listed.setdefault(edit, number)

    def note_an_adoption(self, edit: int, locid: int) -> None:
        """Note that a person took a geolocation of the service's for what an edit made."""
        self.adopted_by_person.add(locid)
        made = self._world.service.made
        made_by = made[locid].key if locid in made else None
        if self.edit_of(made_by) != edit:
            self.taken_by_person.add(made_by)

    def note_a_touch(self, locid: int) -> None:
        """Note that the foreign client is about to change it."""
        aliases = self._world.aliases()
        # An edit of its own number says nothing of which create made it.
        known = {aliases.get(row.locid) for row in self._world.rows() if row.operation == "create"}
        if locid not in known and (key := self._world.service.places[locid].key):
            self.touched_before_it_was_known.add(key)

    def note_a_spoiling(self, locid: int, city: str | None) -> None:
        """Note that the foreign client is about to delete it, or to change it into something in that city."""
        aliases, made_by = self._world.aliases(), self._world.service.places[locid].key
        for row in self._world.rows():
            if row.operation != "create" or row.id != self.edit_of(made_by) or row.concluded is not None:
                continue
            if row.payload["fields"]["city"] == city:
                continue  # all here are at one place, so only another city makes them unlike
            if row.locid in aliases:
                self.spoilt_before_it_was_listed[row.id] = aliases[row.locid]
            else:
                self.spoilt_before_it_was_known[row.id] = locid

    def renumbered(self) -> set[int]:
        """Creates of ours of which nothing was left before a list had shown it, and that have another number by now.

        If the foreign client makes an equal one, all lists are those of a service that answered a create with a wrong
        number. That is corrected, and a person is told that what was sent under the first number may be elsewhere.
        """
        numbers = self._numbers()
        spoilt = self.spoilt_before_it_was_listed.items()
        return {edit for edit, number in spoilt if numbers.get(edit, number) != number}

    def _numbers(self) -> dict[int, int]:
        """The service's numbers, as far as they are known, of what each edit edits."""
        aliases = self._world.aliases()
        return {row.id: aliases[row.locid] for row in self._world.rows() if row.locid in aliases}

    def went_elsewhere(self, row: OutboxRow) -> bool:
        """Whether an edit may have been sent to the number that its geolocation had before it was renumbered."""
        creates = {each.id for each in self._world.rows() if each.locid == row.locid}
        first = next((self.spoilt_before_it_was_listed[edit] for edit in self.renumbered() & creates), None)
        if first is None:
            return False
        return any((what, first) in self._world.service.writes for what in REQUESTS[row.operation])
