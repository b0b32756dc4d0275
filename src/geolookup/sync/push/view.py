"""The service as it is now, as far as a push must know: complete lists, and single geolocations."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from geolookup.model.errors import UpstreamAnswerError
from geolookup.model.fields import FIELD_NAMES, FILTER_NAMES
from geolookup.model.types import Geolocation, IPBlock, field_values
from geolookup.settings.table import Settings
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Mark, Start, is_conclusive
from geolookup.state.publishing.directory import StateDirectory
from geolookup.upstream.decode import PulledGeolocation
from geolookup.upstream.geolocations import GeolocationsClient, Listing

#: A counter above those of all marks: what is read now.
NEWEST = 1 << 53
_MOST_LISTS = 2


class ServiceView:
    """Reads custom geolocations from the service. A complete list is kept for as long as it is new enough."""

    def __init__(
        self, directory: StateDirectory, settings: Settings, client: GeolocationsClient, *, to_look: bool = False
    ) -> None:
        """With ``to_look`` nothing is noted in edits.db: nothing will be sent."""
        self._directory = directory
        self._to_look = to_look
        self._settings = settings
        self._client = client
        self._complete: dict[int, Geolocation] | None = None
        #: The start of the newest complete list.
        self.start: Start | None = None
        self._assigned: set[int] = set()
        self._lists = 0
        #: When `find` began to read what it answered with.
        self.read = Mark.now(NEWEST)
        #: The start of the newest list that was answered with 304; None once anything was sent that may change it.
        self.unmodified: Start | None = None

    def assigned(self, locid: int) -> None:
        """Note that the service has just given this locid: a list from before cannot have it."""
        self._assigned.add(locid)

    def deleted(self, locid: int) -> None:
        """Note that the service has just deleted this: the number may be given again, and then is new."""
        if self._complete is not None:
            self._complete = {number: place for number, place in self._complete.items() if number != locid}
        self._assigned.discard(locid)

    @property
    def newest(self) -> dict[int, Geolocation] | None:
        """The newest complete list; None if none was read."""
        return self._complete

    def listed(self, locid: int) -> Geolocation | None:
        """The geolocation of a number in the kept complete list; None also if no such list is kept."""
        return None if self._complete is None else self._complete.get(locid)

    def complete(self, *, settled: Mark | None = None) -> dict[int, Geolocation]:
        """Every custom geolocation with its blocks, by locid, from one complete list.

        If ``settled`` is the mark of an attempt's end, the list was begun when that had settled; it must have by now.
        If the service still has what is published here (304), the cache answers.

        :raises UpstreamError: if the list could not be read whole, or cannot be believed
        """
        if self._complete is None or (settled is not None and not self._is_conclusive(settled)):
            self._complete = self._read_complete()
        return self._complete

    def _is_conclusive(self, ended: Mark) -> bool:
        return self.start is not None and is_conclusive(self.start.mark, ended, self._settings.settle_s)

    def _read_complete(self) -> dict[int, Geolocation]:
        self._lists += 1
        start = self._directory.edits.start_of_list(to_look=self._to_look)
        self.unmodified = None
        current = self._directory.current_or_none()
        if current is not None and current.published.get("url") != self._settings.url:
            current = None
        with self._client.list(etag=None if current is None else current.published.get("etag")) as listing:
            if listing.not_modified and current is not None:
                found = self._directory.cache(current.generation).custom()
                self.unmodified = start
            else:
                found = [geolocation(place) for batch in listing.iter_batches() for place in batch if place.locid < 0]
                self._refuse_what_drives_no_deletion(listing, len(found), current)
        self.start = start
        return {place.locid: place for place in found}

    def _refuse_what_drives_no_deletion(self, listing: Listing, custom: int, current: Current | None) -> None:
        """Refuse a capped or unreadable list: what it lacks is not gone, and would be created twice."""
        _refuse_unreadable(listing)
        if current is None:
            return
        rows = current.published.get("list_rows") or current.published["rows"]  # of the service alone
        expected = self._settings.guard_geolocations * (rows["geolocations"] - rows["custom_geolocations"])
        seen = listing.geolocations_seen - listing.rejected_geolocations - custom
        if seen < expected:
            raise UpstreamAnswerError(
                f"the service's list has {seen} default geolocations, but the published one has "
                f"{rows['geolocations'] - rows['custom_geolocations']}: it is not trusted; `geolookup sync` says more"
            )

    def find(self, locid: int, guesses: Iterable[Mapping[str, Any]]) -> Geolocation | None:
        """One geolocation as it is now; None only if a complete list lacks it.

        ``guesses`` are fields that it may have: a filtered list is much shorter, and can show that it is there, but
        never that it is not. A push reads at most two complete lists for this, and those answer what filters miss;
        `read` is when the answer was read.

        :raises UpstreamError: if a list could not be read whole, or cannot be believed
        """
        self.read = Mark.now(NEWEST)
        known = None if self._complete is None else self._complete.get(locid)
        tried = False
        for found in filtered(self._client, locid, (*guesses, *([known.fields()] if known else []))):
            if found is not None:
                return found
            tried = True
        if self._complete is None or (self._lists < _MOST_LISTS and (tried if known else locid in self._assigned)):
            # It was changed since the kept list began, or given since.
            self._complete = self._read_complete()
        assert self.start is not None
        self.read = self.start.mark
        return self._complete.get(locid)


def filtered(
    client: GeolocationsClient, locid: int, guesses: Iterable[Mapping[str, Any]]
) -> Iterator[Geolocation | None]:
    """One geolocation by lists that are filtered by each of these fields in turn: what each list has of it.

    Such a list is much shorter than a complete one, and can show that it is there, but never that it is not.

    :raises UpstreamError: if a list could not be read whole, or cannot be believed
    """
    tried = []
    for fields in guesses:
        filters = {name: str(fields[name]) for name in FILTER_NAMES if fields.get(name)}
        if not filters or filters in tried:
            continue
        tried.append(filters)
        with client.list(**filters) as listing:  # type: ignore[arg-type] # all are strings
            found = [place for batch in listing.iter_batches() for place in batch if place.locid == locid]
            _refuse_unreadable(listing)
        yield geolocation(found[0]) if found else None


def _refuse_unreadable(listing: Listing) -> None:
    if listing.rejected_geolocations + listing.rejected_blocks > len(listing.rejected):
        raise UpstreamAnswerError("too many rows of the service's list cannot be read: nothing was sent")
    for row in listing.rejected:
        if row.locid is None or row.locid <= 0:
            raise UpstreamAnswerError(
                f"a row of a custom geolocation cannot be read (locid {row.locid}: {row.reason}): "
                "what it holds would be lost"
            )


def geolocation(pulled: PulledGeolocation) -> Geolocation:
    """A pulled geolocation with its blocks."""
    blocks = {IPBlock(family=family, first=first, last=last) for family, first, last, _, _ in pulled.blocks}
    return Geolocation(
        locid=pulled.locid,
        **dict(zip(FIELD_NAMES, field_values(pulled), strict=True)),
        ipblocks=tuple(sorted(blocks)),
    )
