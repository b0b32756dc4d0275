"""What the service has now, as far as a push needs to know: complete lists, and single geolocations."""

from collections.abc import Iterable, Mapping
from typing import Any

from geolookup.errors import UpstreamAnswerError
from geolookup.fields import FIELD_NAMES, FILTER_NAMES
from geolookup.model import Geolocation, IPBlock, field_values
from geolookup.settings.table import Settings
from geolookup.state import clock
from geolookup.state.current import Current
from geolookup.state.directory import StateDirectory
from geolookup.upstream.decode import PulledGeolocation
from geolookup.upstream.geolocations import GeolocationsClient, Listing


class ServiceView:
    """Reads custom geolocations from the service. A complete list is kept for as long as it is new enough."""

    def __init__(self, directory: StateDirectory, settings: Settings, client: GeolocationsClient) -> None:
        self._directory = directory
        self._settings = settings
        self._client = client
        self._complete: dict[int, Geolocation] | None = None
        self._began_s = 0.0
        self._assigned: set[int] = set()
        #: When the newest list began that was answered with 304; None once anything was sent that may change the list.
        self.unmodified_since: str | None = None

    def forget(self) -> None:
        """The kept list was begun before something whose outcome nobody knows."""
        self._complete = None

    def assigned(self, locid: int) -> None:
        """Note that the service has just given this locid: a list from before cannot have it."""
        self._assigned.add(locid)

    def complete(self, *, settled: str | None = None) -> dict[int, Geolocation]:
        """Every custom geolocation with its blocks, by locid, from one complete list.

        Where ``settled`` is the moment at which an attempt ended, the list was begun when that had settled; it must
        have by now. Where the service still has what is published here (304), the cache answers.

        :raises UpstreamError: where the list could not be read whole, or cannot be believed
        """
        if self._complete is None or (settled is not None and not self._begun_after_settling(settled)):
            self._complete = self._read_complete()
        return self._complete

    def _begun_after_settling(self, ended_at: str) -> bool:
        list_age_s = clock.steady_s() - self._began_s
        return clock.age_s(ended_at) - list_age_s >= self._settings.settle_s

    def _read_complete(self) -> dict[int, Geolocation]:
        self._began_s = clock.steady_s()
        began_at = clock.now_text()
        self.unmodified_since = None
        current = self._directory.current_or_none()
        if current is not None and current.published.get("url") != self._settings.url:
            current = None
        with self._client.list(etag=None if current is None else current.published.get("etag")) as listing:
            if listing.not_modified and current is not None:
                found = self._directory.cache(current.generation).custom()
                self.unmodified_since = began_at
            else:
                found = [geolocation(place) for batch in listing.iter_batches() for place in batch if place.locid < 0]
                self._refuse_what_drives_no_deletion(listing, len(found), current)
        return {place.locid: place for place in found}

    def _refuse_what_drives_no_deletion(self, listing: Listing, custom: int, current: Current | None) -> None:
        """What a capped or unreadable list lacks is not gone, and what it lacks would be created twice."""
        _refuse_unreadable(listing)
        if current is None:
            return
        rows = current.published["rows"]
        expected = self._settings.guard_geolocations * (rows["geolocations"] - rows["custom_geolocations"])
        seen = listing.geolocations_seen - listing.rejected_geolocations - custom
        if seen < expected:
            raise UpstreamAnswerError(
                f"the service's list has {seen} default geolocations where the published one has "
                f"{rows['geolocations'] - rows['custom_geolocations']}: it is not believed; `geolookup sync` says more"
            )

    def find(self, locid: int, guesses: Iterable[Mapping[str, Any]]) -> Geolocation | None:
        """One geolocation as it is now; None only where a complete list lacks it.

        ``guesses`` are fields that it may have: a filtered list is much shorter, and can show that it is there, but
        never that it is not.

        :raises UpstreamError: where a list could not be read whole, or cannot be believed
        """
        known = None if self._complete is None else self._complete.get(locid)
        tried = []
        for fields in (*guesses, *([known.fields()] if known else [])):
            filters = {name: str(fields[name]) for name in FILTER_NAMES if fields.get(name)}
            if not filters or filters in tried:
                continue
            tried.append(filters)
            with self._client.list(**filters) as listing:  # type: ignore[arg-type] # all are strings
                found = [place for batch in listing.iter_batches() for place in batch if place.locid == locid]
                _refuse_unreadable(listing)
            if found:
                return geolocation(found[0])
        if self._complete is not None and known is None and locid not in self._assigned:
            return None  # a locid is never given twice, so what one list lacked is gone for good
        self._complete = self._read_complete()
        return self._complete.get(locid)


def _refuse_unreadable(listing: Listing) -> None:
    if listing.rejected_geolocations + listing.rejected_blocks > len(listing.rejected):
        raise UpstreamAnswerError("more rows of the service's list cannot be read than can be named: nothing was sent")
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
