"""The state behind one process of the service: lookups, and whether its data may be given out."""

from typing import TYPE_CHECKING

from geolookup.exports import licences
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import GeoLookupError, IndexDamagedError, RequestRefusedError, StaleDataError
from geolookup.model.types import Match

if TYPE_CHECKING:
    from geolookup.model.addresses import Family


class State:
    """The answers of an open state; `geolookup.web.lookups.Lookups` for the routes."""

    def __init__(self, geo: GeoLookup, *, licence_allows: bool = False) -> None:
        self._geo = geo
        self._licence_allows = licence_allows
        self._forbidden: tuple[object, frozenset[str]] = (None, frozenset())

    async def layers(self) -> "Moment":
        """The published snapshot.

        :raises RequestRefusedError: ``stale-data`` if it is older than the settings allow, ``index-not-ready`` if it
            cannot be read
        """
        return self.layers_at_once()

    def layers_at_once(self) -> "Moment":
        """The same: nothing is waited for."""
        snapshot = self.fresh()
        return Moment(self, snapshot, self.forbidden(snapshot))

    def fresh(self) -> Snapshot:
        """The published snapshot; the errors are those of `layers`."""
        return self._taken(None)

    def instead_of(self, damaged: Snapshot) -> Snapshot:
        """The newest other generation that is whole; the errors are those of `layers`."""
        return self._taken(damaged)

    def _taken(self, damaged: Snapshot | None) -> Snapshot:
        def take(snapshot: Snapshot) -> Snapshot:
            if snapshot is damaged:
                raise IndexDamagedError(f"{self._geo.home}: the index is damaged")
            return snapshot

        try:
            return self._geo.with_snapshot(take)
        except StaleDataError as error:
            raise RequestRefusedError("wait until newer data are here", problem="stale-data") from error
        except GeoLookupError as error:
            raise RequestRefusedError("the state cannot be read", problem="index-not-ready") from error

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        """The sources whose answers may not be given out."""
        if self._licence_allows:
            return frozenset()
        current, names = self._forbidden
        if current is not snapshot.current:
            names = licences.forbidden(self._geo.home, snapshot.current)
            self._forbidden = snapshot.current, names
        return names


class Moment:
    """The answers of one moment."""

    __slots__ = ("_forbidden", "_snapshot", "_state", "_used")

    def __init__(self, state: State, snapshot: Snapshot, forbidden: frozenset[str]) -> None:
        self._state = state
        self._snapshot = snapshot
        self._forbidden = forbidden
        self._used = False

    def match(self, address: str, family: "Family", value: int) -> Match | None:
        """The match of an address, or None; the match repeats ``address``.

        :raises RequestRefusedError: ``licence-forbids`` if its source does not let others have the answer,
            ``index-not-ready`` if the files are damaged
        """
        try:
            found = self._snapshot.match(address, family, value)
        except IndexDamagedError as error:
            self._snapshot = self._state.instead_of(self._snapshot)
            if self._used:  # else one answer would come from two generations
                raise RequestRefusedError("a file was damaged: ask again", problem="index-not-ready") from error
            self._forbidden = self._state.forbidden(self._snapshot)
            found = self._snapshot.match(address, family, value)
        self._used = True
        if found is not None and found.source in self._forbidden:
            raise RequestRefusedError(f"it comes from the source {found.source}", problem="licence-forbids")
        return found
