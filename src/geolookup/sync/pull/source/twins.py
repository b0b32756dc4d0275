"""Twins: what a request made in addition to what was meant, because it was applied twice or came late."""

from typing import Any

from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.matching.likeness import Forms
from geolookup.sync.push.matching.wanted import note_twins


def late_twins(directory: StateDirectory, cache: Cache) -> list[dict[str, Any]]:
    """The custom geolocations in a pulled list that a create of this machine may have made in addition to its own.

    A create that was sent once is looked for until a list was conclusive for it; one that was sent again always, and in
    any form that the service may have stored. What was found is told until it is gone, has blocks, is known to be
    another create's, or was dismissed by a person. Each with its ``locid``, the ``twin_of`` (None if the create was
    given up) and the outbox's ``edit``.
    """
    if not directory.edits.exists():
        return []
    with directory.edits.transaction() as database:
        outbox = Outbox(database)
        watched, known = outbox.sent.watched_creates(), outbox.twins.known()
        if not watched and not known:
            return []
        places = {place.locid: place for place in cache.custom()}
        note_twins(outbox, watched, places, Forms(outbox.sent.stored_forms()))
        known = outbox.twins.known()
        ours = outbox.created_here()  # another create may have turned out to have made it since
        for locid in [locid for locid in known if locid not in places or places[locid].ipblocks or locid in ours]:
            outbox.twins.forget(locid)
            del known[locid]
        dismissed, aliases = outbox.twins.dismissed(), outbox.aliases()
        return [
            {"locid": locid, "twin_of": aliases.get(outbox.row(edit).locid), "edit": edit}
            for locid, edit in sorted(known.items(), reverse=True)
            if locid not in dismissed
        ]
