"""The custom layer as this machine sees it: a generation's custom geolocations with the local edits laid over them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from geolookup.model import Geolocation
from geolookup.state.edits.outbox import OutboxRow, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A custom geolocation with its blocks as lookups see it.

    ``pending`` is true while an edit of it has not reached the service; ``edits`` are those edits, oldest first.
    """

    place: Geolocation
    edits: tuple[OutboxRow, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether an edit of it has not reached the service."""
        return bool(self.edits)


def lay_over(
    places: Iterable[Geolocation], rows: Iterable[OutboxRow], aliases: Mapping[int, int], *, began_at: str
) -> dict[int, Laid]:
    """Lay edits, oldest first, over the custom geolocations of a list that began at ``began_at``.

    An edit that the service acknowledged before the list began is in the list already; one that it acknowledged later,
    or not at all, is laid over it. ``aliases`` maps provisional locids to the service's; the result has the service's
    where there is one.
    """
    layer = {place.locid: Laid(place=place) for place in places}
    for row in rows:
        if row.state == State.DROPPED or (row.acknowledged_at is not None and row.acknowledged_at < began_at):
            continue
        locid = aliases.get(row.locid, row.locid)
        before = layer.pop(locid, None)
        after = row.edit.laid_over(None if before is None else before.place, locid, row.base)
        if after is not None:
            pending = () if before is None else before.edits
            layer[locid] = Laid(place=after, edits=pending if row.state == State.DONE else (*pending, row))
    return layer
