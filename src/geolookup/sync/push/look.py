"""Looking at a geolocation before something is written to it: what is read, and what this machine knows better."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from geolookup.model.errors import UpstreamError
from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Mark, is_conclusive
from geolookup.state.edits.layer import blocks_had
from geolookup.state.edits.outbox.operations import Create, Overwriting, SettingFields
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push import reconcile
from geolookup.sync.push.acknowledged import is_another
from geolookup.state.edits.places.likeness import Forms, may_be_stored
from geolookup.sync.push.reconcile import Decision, OnConflict, Own
from geolookup.sync.push.view import NEWEST, filtered
from geolookup.upstream.geolocations import GeolocationsClient


def guesses(row: OutboxRow) -> list[dict[str, Any]]:
    """Fields that an edit's geolocation may have at the service."""
    return [fields for fields in (row.payload.get("fields"), (row.base or {}).get("fields")) if fields]


def own_of(outbox: Outbox, row: OutboxRow, forms: Forms) -> Own:
    """The forms in which the service may have what was sent for an edit's geolocation."""
    stored = [
        (each.edit.fields, each.stored)
        for each in outbox.rows(State.DONE, locid=row.locid)
        if isinstance(each.edit, SettingFields) and each.stored is not None
    ]
    return Own(stored=tuple(stored), forms=forms)


def given_away(base: dict[str, Any], number: int, place: Geolocation) -> Decision | None:
    """The reason to write nothing to a number that something else has by now; None if it is what it was."""
    if not is_another(base, place):
        return None
    reason = f"the service has given the number {number} to something else, by its fields and blocks: nothing was sent"
    return Decision(what="hold", reason=reason, theirs=described(place))


def with_ours(
    found: Geolocation | None, locid: int, recent: Sequence[OutboxRow], forms: Forms, read: Mark, settle_s: float
) -> Geolocation | None:
    """The geolocation found, with what the service acknowledged a moment ago: a replica may not have it yet."""
    for each in recent:
        settled = each.acknowledged is None or is_conclusive(read, each.acknowledged, settle_s)
        if not settled and _may_be_from_before(each, found, forms):
            found = each.laid_over(found, locid)
    return found


@dataclass(slots=True, kw_only=True)
class Look:
    """The look of one edit right before its request, on whatever connection sends that.

    It reads lists that are filtered, and short; if none has the geolocation, this look cannot tell. ``recent`` are the
    edits of the geolocation that were acknowledged lately, ``first`` says that nothing was written to it by this push.
    ``found`` is what was read at the moment ``read``, ``requests`` how many lists were; ``failed`` says that one could
    not be.
    """

    row: OutboxRow
    number: int
    first: bool
    recent: Sequence[OutboxRow]
    own: Own
    on_conflict: OnConflict
    settle_s: float
    found: Geolocation | None = None
    read: Mark = field(default_factory=lambda: Mark.now(NEWEST))
    requests: int = 0
    failed: bool = False

    def decision(self, client: GeolocationsClient) -> Decision | None:
        """The decision on the request; None if it cannot be told, or the service not be read."""
        self.read = Mark.now(NEWEST)
        try:
            for listed in filtered(client, self.number, guesses(self.row)):
                self.requests += 1
                if listed is not None:
                    self.found = listed
                    break
        except UpstreamError:
            self.requests += 1
            self.failed = True
            return None
        if self.found is None:
            return None
        if self.first and self.row.base is not None:
            against = given_away(self.row.base, self.number, self.found)
            if against is not None:
                return against
        if not isinstance(self.row.edit, Overwriting):
            return Decision(what="send", reason="edited here")
        theirs = with_ours(self.found, self.number, self.recent, self.own.forms, self.read, self.settle_s)
        shown = first_shown(self.row, self.recent, self.found, self.read, self.settle_s)
        own = self.own if shown is None else self.own.with_stored(shown.payload["fields"], self.found.fields())
        return reconcile.before_sending(self.row, theirs, on_conflict=self.on_conflict, own=own)


def first_shown(
    row: OutboxRow, recent: Sequence[OutboxRow], found: Geolocation | None, read: Mark, settle_s: float
) -> OutboxRow | None:
    """The newest edit of the fields that the service acknowledged, if this is the first to show what it made of them.

    ``recent`` are the edits before ``row`` that no list is conclusive for. What is as it was before that edit may be a
    replica's that does not have it yet. If it must have it, this is how the service stores the edit: it may have
    rounded it away. With blocks that nobody here knows, it may be somebody else's who was given our number.
    """
    if found is not None and not set(found.ipblocks) <= blocks_had([*recent, row]):
        return None
    newest = next((row for row in reversed(recent) if isinstance(row.edit, SettingFields)), None)
    if newest is None or found is None or newest.stored is not None:
        return None
    must_be_there = newest.acknowledged is not None and is_conclusive(read, newest.acknowledged, settle_s)
    if found.fields() == (newest.base or {}).get("fields") and not must_be_there:
        return None
    return newest if may_be_stored(newest.payload["fields"], found.fields()) else None


def learn(
    outbox: Outbox, row: OutboxRow, recent: Sequence[OutboxRow], found: Geolocation | None, read: Mark, settle_s: float
) -> None:
    """Keep what the service made of the newest fields that it acknowledged, if this shows them first."""
    shown = first_shown(row, recent, found, read, settle_s)
    if shown is not None and found is not None:
        outbox.change(shown.id, stored=found.fields())


def _may_be_from_before(row: OutboxRow, found: Geolocation | None, forms: Forms) -> bool:
    """True if this can be what a replica has that does not know our edit: fields of somebody else's cannot."""
    if found is None:
        return True
    if isinstance(row.edit, Create):
        return False
    return not isinstance(row.edit, SettingFields) or forms.same((row.base or {})["fields"], found.fields())
