"""Late twins: what a delayed request made, after everything else, of a geolocation that was created here."""

from typing import Any

from geolookup.state.directory import StateDirectory
from geolookup.state.edits.outbox import Outbox
from geolookup.state.generations.cache import Cache
from geolookup.sync.push import reconcile


def late_twins(directory: StateDirectory, cache: Cache) -> list[dict[str, Any]]:
    """The custom geolocations in a pulled list that a create of this machine may have made besides its own.

    Only a create that was sent again can have one: new since its first attempt, equal in all eight fields, and without
    blocks. Each with its ``locid``, the ``twin_of`` (None where the create was given up) and the outbox's ``edit``.
    """
    if not directory.edits.exists():
        return []
    with directory.edits.reading() as database:
        outbox = Outbox(database)
        rows, aliases = outbox.resent_creates(), outbox.aliases()
        baselines = {row.id: outbox.baseline(row) for row in rows}
    if not rows:
        return []
    places = cache.custom()
    ours = frozenset(aliases.values())
    return [
        {"locid": locid, "twin_of": aliases.get(row.locid), "edit": row.id}
        for row in rows
        for locid in reconcile.twins(row, places, known=baselines[row.id] | ours)
    ]
