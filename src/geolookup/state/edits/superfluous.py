"""Which edits that were never sent need not be sent at all, given what their geolocations shall be.

A push sends what leads to the target alone, so others cost no request. But a delete and a create in place of nothing
give a place another number, and an outbox with edits that undo each other is hard to read.
"""

from collections.abc import Mapping, Sequence

from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.place import Content

_ANY = Content(())


def superfluous(rows: Sequence[OutboxRow], wanted: Mapping[int, Content | None]) -> list[OutboxRow]:
    """The edits among ``rows`` (all that are pending, oldest first) that can be taken back, oldest first.

    ``wanted`` says by the number on this machine what a geolocation shall be, None if it shall go. The others are left
    alone. Of each they are its newest ones: those before can still be made at the service as they are.
    """
    unsent: dict[int, list[OutboxRow]] = {locid: [] for locid in wanted}
    for row in rows:
        if row.locid in unsent:
            unsent[row.locid] = [*unsent[row.locid], row] if row.never_applied else []
    cuts = {locid: _since(unsent[locid], content) for locid, content in wanted.items()}
    # What no service has heard of is forgotten as it is deleted, with all of its edits.
    unheard = {row.locid for row in rows if row.intent.what == "create" and row.never_sent}
    rows = [row for row in rows if row.locid not in unheard or wanted.get(row.locid, _ANY) is not None]
    gone = {row.id for cut in cuts.values() for row in cut}
    return [row for row in rows if row.id in gone]


def _since(unsent: list[OutboxRow], content: Content | None) -> list[OutboxRow]:
    """The edits of a geolocation since it was as it shall be, or the one that deleted it."""
    if content is None:
        # One that no service has heard of is forgotten, and one that is deleted already stays so.
        whole = not unsent or unsent[0].intent.what == "create" or unsent[-1].intent.what == "delete"
        return [] if whole else unsent
    first, now = 0, unsent[0].intent.base if unsent else None
    for row in unsent:
        if now == content:
            break
        first, now = first + 1, row.intent.applied(now)
    return unsent[first:] or [row for row in unsent[-1:] if row.intent.what == "delete"]
