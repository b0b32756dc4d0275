"""The service as it is now, as far as a push must know: complete lists, and single geolocations."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from geolookup.model.errors import UpstreamAnswerError, UpstreamRefusedError
from geolookup.model.fields import FIELD_NAMES, FILTER_NAMES
from geolookup.model.types import Geolocation, IPBlock, field_values
from geolookup.settings.table import Settings
from geolookup.state.base.current import Current
from geolookup.state.base.marks import Start
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.guard import too_many_gone
from geolookup.upstream.decode import PulledGeolocation
from geolookup.upstream.geolocations import GeolocationsClient, Listing, is_round


class Seen(NamedTuple):
    """A complete list: every custom geolocation with its blocks, by locid.

    ``freely`` is true if it was read, and false if the service only said that it is as what is published here.
    """

    listed: Mapping[int, Geolocation]
    start: Start
    freely: bool


class ServiceView:
    """Reads custom geolocations from the service: complete lists, as few as can be."""

    def __init__(
        self,
        directory: StateDirectory,
        settings: Settings,
        client: GeolocationsClient,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._client = client

    def read(self, *, freely: bool, start: Start | None = None, surely: bool = False) -> Seen:
        """Read one complete list.

        Unless it is asked ``freely``, the service may answer that it still has what is published here (304). A list
        that is only looked at has a ``start``; else its start is marked in edits.db. ``surely`` it was not cut
        silently: what it lacks is created again.

        :raises UpstreamError: if the list could not be read whole, or cannot be believed
        """
        start = start or self._directory.edits.start_of_list()
        current = self._directory.current_or_none()
        if current is not None and current.published.get("url") != self._settings.url:
            current = None
        etag = None if current is None or freely else current.published.get("etag")
        with self._client.list(etag=etag) as listing:
            if freely := not listing.not_modified or current is None:
                found = [geolocation(place) for batch in listing.iter_batches() for place in batch if place.locid < 0]
                self._refuse_what_drives_no_deletion(listing, {place.locid for place in found}, current)
                if listing.total_count is None and (surely or current is None or is_round(listing.geolocations_seen)):
                    with contextlib.suppress(UpstreamRefusedError):  # which a sync tells
                        self._client.require_whole(listing.geolocations_seen)
            else:
                assert current is not None
                found = self._directory.cache(current.generation).custom()
        return Seen({place.locid: place for place in found}, start, freely)

    def _refuse_what_drives_no_deletion(self, listing: Listing, custom: set[int], current: Current | None) -> None:
        """Refuse a capped or unreadable list, or one that a sync holds: what it lacks is not gone."""
        _refuse_unreadable(listing)
        if current is None:
            return
        rows = current.published.get("list_rows") or current.published["rows"]  # of the service alone
        expected = self._settings.guard_geolocations * (rows["geolocations"] - rows["custom_geolocations"])
        seen = listing.geolocations_seen - listing.rejected_geolocations - len(custom)
        if seen < expected:
            raise UpstreamAnswerError(
                f"the service's list has {seen} default geolocations, but the published one has "
                f"{rows['geolocations'] - rows['custom_geolocations']}: it is not trusted; `geolookup sync` says more"
            )
        known = set(self._directory.cache(current.generation).custom_digests())
        if gone := known - custom:
            gone -= self._directory.local.deleted_here()
        if too_many_gone(self._settings, len(gone), len(known)):
            raise UpstreamAnswerError(
                f"the service's list lacks {len(gone)} of {len(known)} custom geolocations, and none was deleted from "
                "here: it is not trusted; `geolookup sync` says more"
            )


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
    if why := listing.unread_of_custom():
        raise UpstreamAnswerError(f"{why}: what needs the whole list waits until it can be read")


def geolocation(pulled: PulledGeolocation) -> Geolocation:
    """A pulled geolocation with its blocks."""
    blocks = {IPBlock(family=family, first=first, last=last) for family, first, last, _, _ in pulled.blocks}
    return Geolocation(
        locid=pulled.locid,
        **dict(zip(FIELD_NAMES, field_values(pulled), strict=True)),
        ipblocks=tuple(sorted(blocks)),
    )
