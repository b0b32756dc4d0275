"""The state behind one process of the service: lookups, and whether its data may be given out."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from geolookup.exports import licences
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.members import all_of
from geolookup.lookup.network import key_of
from geolookup.lookup.record import TRAITS
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import parse
from geolookup.model.errors import (
    GeoLookupError,
    IndexDamagedError,
    RequestRefusedError,
    StaleDataError,
    StateDamagedError,
    UnknownVrfError,
)
from geolookup.model.facts import NETWORK_FACTS

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

_T = TypeVar("_T")
#: GeoIP2's keys of the facts that answers have as members.
_KEYS = tuple(map(key_of, NETWORK_FACTS.values()))


class State:
    """The answers of an open state; `geolookup.web.lookups.Lookups` for the routes."""

    def __init__(self, geo: GeoLookup, *, licence_allows: bool = False) -> None:
        self._geo = geo
        self._licence_allows = licence_allows
        self._forbidden: tuple[object, frozenset[str]] = (None, frozenset())
        self._in_vrfs: dict[str, State] = {}

    def in_vrf(self, name: str) -> "State":
        """The answers in a routing domain.

        :raises RequestRefusedError: ``invalid-parameter`` if there is none of this name, ``index-not-ready`` if it
            cannot be read
        """
        found = self._in_vrfs.get(name)
        if found is None:
            try:
                found = State(self._geo.in_vrf(name), licence_allows=self._licence_allows)
            except UnknownVrfError as error:
                # Clients are not told which there are.
                raise RequestRefusedError(f"no VRF is named {name!r:.60}", problem="invalid-parameter") from error
            except GeoLookupError as error:
                raise RequestRefusedError("the state cannot be read", problem="index-not-ready") from error
            self._in_vrfs[name] = found
        return found

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

    def instead_of(self, snapshot: Snapshot, problem: GeoLookupError) -> Snapshot:
        """The newest other generation that is whole; the errors are those of `layers`.

        If the problem is that an index of this one is gone, it is what took its place.
        """
        if isinstance(problem, StateDamagedError):
            self._geo.look_soon()
            return self._taken(None)
        return self._taken(snapshot)

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

    def answer(self, address: str, *, record: bool) -> dict[str, Any]:
        """The object that ``geolookup ADDRESS --json`` prints; with ``record``, all that is known as its last member.

        The errors are those of `ask`.
        """

        def of(snapshot: Snapshot) -> dict[str, Any]:
            found, network = snapshot.match_text(address), snapshot.network_text(address)
            if self._forbidden:
                said = {} if network is None else network.sources
                place = () if found is None else (found.source,)
                self.require_leave((*place, *(said[key] for key in _KEYS if key in said)))
            members = all_of(address, found, network)
            return {**members, "record": self.record(snapshot, *parse(address))} if record else members

        return self.ask(of)

    def record(
        self, snapshot: Snapshot, family: "Family", value: int, wants: Callable[[str], bool] = bool
    ) -> dict[str, Any] | None:
        """All that is known of an address, in the shape of GeoIP2's records, or None if nothing is.

        Of the facts of its network it has those whose keys ``wants`` says it wants.

        :raises RequestRefusedError: ``licence-forbids`` if a source of it does not let others have its data
        """
        found = snapshot.record(family, value)
        if found is None:
            return None
        if self._forbidden:
            network = snapshot.network("", family, value)
            said = {} if network is None else network.sources
            place = snapshot.place_source(family, value)
            self.require_leave((place or "", *(name for key, name in said.items() if wants(key))))
        whole = found.as_dict()
        if TRAITS in whole:
            whole[TRAITS] = {key: fact for key, fact in whole[TRAITS].items() if wants(key)}
        return whole

    def ask(self, work: Callable[[Snapshot], _T]) -> _T:
        """The result of ``work`` on the files of this moment, or, if it finds damage, on those that are whole.

        :raises RequestRefusedError: ``licence-forbids`` if a source of the answer does not let others have it,
            ``index-not-ready`` if the files are damaged or gone
        """
        try:
            found = work(self._snapshot)
        except (IndexDamagedError, StateDamagedError) as error:
            self._snapshot = self._state.instead_of(self._snapshot, error)
            if self._used:  # else one answer would come from two generations
                raise RequestRefusedError("a file was damaged: ask again", problem="index-not-ready") from error
            self._forbidden = self._state.forbidden(self._snapshot)
            found = work(self._snapshot)
        self._used = True
        return found

    def require_leave(self, sources: Iterable[str]) -> None:
        """:raises RequestRefusedError: ``licence-forbids`` if one of the sources does not let others have its data"""
        for name in sources:
            if name in self._forbidden:
                raise RequestRefusedError(f"it comes from the source {name}", problem="licence-forbids")
