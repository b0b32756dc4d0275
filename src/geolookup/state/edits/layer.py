"""The custom layer as this machine sees it: a generation's custom geolocations with the local edits laid over them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.payload import blocks_of
from geolookup.state.edits.outbox.row import OutboxRow, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A custom geolocation with its blocks as lookups see it.

    ``pending`` is true while an edit of it has not reached the service; ``edits`` are those edits, oldest first.
    """

    place: Geolocation
    edits: tuple[OutboxRow, ...] = ()

    @property
    def pending(self) -> bool:
        """True while an edit of it has not reached the service."""
        return bool(self.edits)


def lay_over(
    places: Iterable[Geolocation], rows: Iterable[OutboxRow], aliases: Mapping[int, int], *, listed: int | None = None
) -> dict[int, Laid]:
    """Lay edits, oldest first, over the custom geolocations of a list.

    ``rows`` are those that the list may lack (`Outbox.rows_to_lay`): any other is in the list already.
    ``aliases`` maps provisional locids to the service's; the result has the service's
    if there is one. ``listed`` is the counter of the mark of that list, None if it is not known.
    """
    layer = {place.locid: Laid(place=place) for place in places}
    laid = list(rows)
    deleted = {row.locid: row.id for row in laid if row.number is not None}
    # First what the service has deleted: a number that it gave again since is not what is meant, even if it has become
    # that of an older create, which went out later.
    for row in sorted(laid, key=lambda each: each.number is None):
        if row.number is None and row.id < deleted.get(row.locid, 0):
            continue  # the service has deleted it, and its number may be another geolocation's
        locid = row.number or aliases.get(row.locid, row.locid)
        if row.number is not None and locid in layer and not _is_from_before(listed, row):
            blocks = blocks_had([each for each in laid if each.locid == row.locid and each.id <= row.id])
            if layer[locid].place.ipblocks and not blocks & set(layer[locid].place.ipblocks):
                continue  # the number has been given to something else by now
        before = layer.pop(locid, None)
        after = row.laid_over(None if before is None else before.place, locid)
        if after is not None:
            pending = () if before is None else before.edits
            layer[locid] = Laid(place=after, edits=pending if row.state == State.DONE else (*pending, row))
    return layer


def _is_from_before(listed: int | None, deletion: OutboxRow) -> bool:
    """Tell whether a list was begun before a deletion was sent, or before it was found that there is nothing to delete.

    Its blocks are gone then, even those that others had given it.
    """
    mark = deletion.attempted or deletion.acknowledged
    return listed is not None and mark is not None and listed < mark.counter


def blocks_had(rows: Iterable[OutboxRow]) -> set[IPBlock]:
    """Every block that a geolocation had at some time, as far as these edits of it tell."""
    had = {block for row in rows if row.base is not None for block in blocks_of(row.base["blocks"])}
    return had | {block for row in rows if (block := row.edit.takes) is not None}
