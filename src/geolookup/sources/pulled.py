"""From geolocations as the service lists them to batches: what the kinds ``service`` and ``list`` share."""

from collections.abc import Iterable

from geolookup.base.reasons import reason
from geolookup.errors import PullError
from geolookup.model.types import field_values
from geolookup.sources.blocks import Batch, from_ranges
from geolookup.sources.places import PlaceFields
from geolookup.sources.protocol import Gathered
from geolookup.upstream.decode import PulledGeolocation, RejectedRow


def batch_of(name: str, geolocations: Iterable[PulledGeolocation], gathered: Gathered) -> Batch:
    """The blocks of geolocations, whose places are added with their locids.

    :raises PullError: if a locid has come before
    """
    ranges: list[tuple[int, int, int, int]] = []
    for found in geolocations:
        place = PlaceFields._make(field_values(found))
        try:
            number = gathered.places.add_numbered(found.locid, place)
        except ValueError as error:
            raise PullError(f"{name}: {reason(error)} in the list: nothing was published") from error
        ranges += [(block[0], block[1], block[2], number) for block in found.blocks]
    return from_ranges(ranges)


def note_rejected(gathered: Gathered, rejected: Iterable[RejectedRow], *, lines: bool) -> None:
    """Note what the decoder left out; ``lines`` says that each geolocation stood in a line of its own."""
    for row in rejected:
        named = row.locid is None or row.reason.startswith("locid ")
        reason = row.reason if named else f"locid {row.locid}: {row.reason}"
        if row.block is not None:
            reason += f" in {row.block}"
        gathered.leave_out(row.position + 1, row.position + 1 if lines else None, reason)
