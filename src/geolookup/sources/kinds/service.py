"""``service``: the list operation of a service, as batches. The request, its retries and its ETag are `upstream`'s."""

from collections.abc import Iterator

from geolookup.files.streams import Limits
from geolookup.sources.blocks import Batch
from geolookup.sources.elements import Elements
from geolookup.sources.kinds.list import batch_of, note_rejected
from geolookup.sources.places import Places
from geolookup.sources.protocol import Gathered
from geolookup.upstream.geolocations import Listing

NAME = "service"


class ServiceReading:
    """A listing as a `Reading`: custom geolocations come too, as places with locids below zero."""

    kind = NAME
    own_locids = True
    names: tuple[str, ...] = ()

    def __init__(self, name: str, listing: Listing, limits: Limits | None = None) -> None:
        """``name`` is the service's address for messages; the caller closes the listing."""
        self.name = name
        self.limits = limits or Limits()
        self.gathered = Gathered(places=Places(numbered=True))
        self._listing = listing

    def batches(self, *, lenient: bool = True, networks: bool = False) -> Iterator[Batch]:  # noqa: ARG002 - it has none
        """The blocks, in the order of the list. A service says nothing of networks.

        Unless ``lenient``, too many bad rows are an error; a sync, which knows geolocations and blocks apart, judges
        that itself.

        :raises UpstreamError: as iterating `Listing` does
        :raises PullError: if a locid comes twice
        """
        gathered, listing, elements = self.gathered, self._listing, Elements()
        for rows in listing.iter_batches():
            gathered.rows = listing.geolocations_seen
            batch = batch_of(self.name, rows, gathered, elements)
            gathered.blocks += len(batch)
            yield batch
        gathered.rows = listing.geolocations_seen
        gathered.keep(elements.kept())
        note_rejected(gathered, listing.rejected, lines=False)
        gathered.bad = listing.rejected_geolocations + listing.rejected_blocks
        if not lenient:
            gathered.check(self.name, self.limits)
