"""GeoLookup: open a state directory, look addresses up, explain answers, follow what is published."""

import os
from collections.abc import Callable, Iterable, Iterator
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, Self, TypeVar, overload

from geolookup.index.native import accelerator
from geolookup.index.reader import IndexReader
from geolookup.lookup.follow import NO_LIMIT, Follower, Freshness
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import addresses
from geolookup.model.addresses import parse, parse_any
from geolookup.model.errors import IndexDamagedError, InvalidAddressError, SettingsError, StateDamagedError
from geolookup.model.types import Geolocation, Layer, Match, Segment

if TYPE_CHECKING:
    from geolookup.index import _native
    from geolookup.lookup.network import Network
    from geolookup.lookup.record import Record
    from geolookup.model.reports import Explanation, StateCheck, Status
    from geolookup.model.types import AddressLike
    from geolookup.state.editor import Editor
    from geolookup.state.publishing.catalogue import Reference

_T = TypeVar("_T")
#: The methods that the accelerator answers for, in the order in which its finder takes them.
_FAST = ("lookup", "match", "network")


class GeoLookup:
    """Answers from one state directory, and follows what is published there.

    Threads and forked children may share an open one: only caches in it are changed in place, and it has no thread or
    lock that a fork could lose. At most once a second a lookup first looks whether CURRENT changed. Use it as a context
    manager, or `close` it.

    ``instead`` is a state that answers until something is published in ``home``.
    ``freshness`` limits the age of the data. With ``as_of`` (see `state.generations`) it stays with that kept
    generation, as it was served last, and follows nothing. With ``vrf`` all its answers are those in that routing
    domain: see `in_vrf`.

    :raises UnknownGenerationError: if ``as_of`` does not mean a kept generation
    :raises NoStateError: if nothing has been published in ``home``
    :raises StateDamagedError: if no undamaged generation is left there
    :raises UnknownVrfError: if ``vrf`` names none
    :raises SettingsError: if both ``vrf`` and ``as_of`` are given
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        instead: str | None = None,
        freshness: Freshness = NO_LIMIT,
        as_of: "Reference | None" = None,
        vrf: str | None = None,
    ) -> None:
        if vrf and as_of is not None:
            raise SettingsError(f"the VRF {vrf} has no past: as of another time ask without it (`--vrf ''`, vrf='')")
        self._home = home = os.path.abspath(home)
        #: Of one that was opened from a fleet's address: fetches what is new, and says whether there was something.
        self.fetch: Callable[[], bool] | None = None
        self._native = accelerator()
        self._instead, self._freshness, self._as_of = instead, freshness, as_of
        self.vrf = vrf or None
        self._in_vrfs: dict[str, GeoLookup] = {}
        self._fast_in_vrfs: dict[str, _native.Finder] = {}
        self._finder: _native.Finder | None = None
        self._follower = Follower(home, self._native, freshness=freshness, as_of=as_of, instead=instead, vrf=self.vrf)
        #: All that is served at this moment, for code that meets damage itself: see `with_snapshot`.
        self.snapshot: Callable[[], Snapshot] = self._follower.newest
        own = all(getattr(type(self), name) is getattr(GeoLookup, name) for name in _FAST)
        if self._native is not None and own:
            # It hides the methods: one call in C answers from the mapped file, and calls the method for the rest.
            finder = self._native.Finder(*(getattr(self, name) for name in _FAST), self._fast_in_vrfs)
            self._finder = finder
            self.__dict__.update({name: getattr(finder, name) for name in _FAST})
            self._follower.serve_by(finder)

    @property
    def home(self) -> str:
        """The state directory that it answers from."""
        return self._follower.served

    def look_soon(self) -> None:
        """Have the next lookup look at CURRENT, even if the last one did a moment ago."""
        self._follower.look_soon()

    def refresh(self) -> bool:
        """Fetch what the builder of a fleet has published since: true if something was new, and is served from now on.

        Only for what `geolookup.open` opened from an address; no lookup ever fetches anything.

        :raises SettingsError: if it was not
        :raises UpstreamError: if the fleet cannot be reached, or must not be believed: what is served goes on
        """
        if self.fetch is None:
            raise SettingsError(
                f"{self._home}: was not opened from an address: `geolookup sync` fetches what is new there"
            )
        found = self.fetch()
        self.look_soon()
        return found

    def edit(self) -> "Editor":
        """An editor of the same state: lookups here see its edits at once."""
        from geolookup.state.editor import Editor

        return Editor(self._home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GeoLookup of {self._home!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a GeoLookup is not copied, nor sent to other processes: open one there, geolookup.open({self._home!r})"
        )

    def close(self) -> None:
        """Release the files. Later lookups raise StateError; lookups under way in other threads still finish.

        Answers stay as they are: a file whose answers are kept stays mapped until the last of them is gone.
        """
        self._fast_in_vrfs.clear()
        for each in self._in_vrfs.values():
            each.close()
        self._follower.close()
        for name in _FAST:
            self.__dict__.pop(name, None)

    def in_vrf(self, vrf: str) -> "GeoLookup":
        """The lookups of a routing domain (VRF): its own blocks answer first, then all else as without it.

        Empty text stands for none: the global table. It is opened when it is first asked for, follows what is published
        and edited by itself, and is closed with this.

        :raises UnknownVrfError: if no VRF has this name; the message lists the names
        :raises SettingsError: if this stays with a kept generation
        """
        found = self if vrf == (self.vrf or "") else self._in_vrfs.get(vrf)
        if found is None:
            found = GeoLookup(self._home, instead=self._instead, freshness=self._freshness, as_of=self._as_of, vrf=vrf)
            self._in_vrfs[vrf] = found
            if found._finder is not None:
                self._fast_in_vrfs[vrf] = found._finder
        return found

    # Lookups

    def lookup(self, address: "AddressLike", *, vrf: str | None = None) -> Geolocation | None:
        """The geolocation of an address, or None if no block covers it.

        ``address`` is strict text (a dotted quad or RFC 4291), or an address object of ``ipaddress`` or ``netaddr``.
        With ``vrf`` it is that in a routing domain: see `in_vrf`.

        :raises InvalidAddressError: for anything else
        :raises UnknownVrfError: if ``vrf`` names none
        """
        if vrf is not None:
            return (self._in_vrfs.get(vrf) or self.in_vrf(vrf)).lookup(address)
        snapshot = self._follower.newest()
        family, value = parse(address) if type(address) is str else parse_any(address)
        try:
            return snapshot.find(family, value)
        except IndexDamagedError as error:
            return self._follower.instead_of(snapshot, error).find(family, value)

    def lookup_integer(self, value: int, *, family: Literal[4, 6]) -> Geolocation | None:
        """Like `lookup`, for an address given as an integer below 2**32 (``family`` 4) or 2**128 (6)."""
        return self.lookup_many_integers((value,), family=family)[0]

    def lookup_many_integers(
        self, values: Iterable[int], *, family: Literal[4, 6], errors: Literal["raise", "none"] = "raise"
    ) -> list[Geolocation | None]:
        """Like `lookup_many`, for integers of one family."""

        def finder(snapshot: Snapshot) -> Callable[[int], Geolocation | None]:
            return lambda value: snapshot.find(*addresses.from_integer(family, value))

        return self._each(values, finder, errors)

    @overload
    def lookup_many(
        self, many: "Iterable[AddressLike]", *, errors: Literal["raise"] = "raise"
    ) -> list[Geolocation | None]: ...
    @overload
    def lookup_many(self, many: Iterable[object], *, errors: Literal["none"]) -> list[Geolocation | None]: ...
    def lookup_many(
        self, many: "Iterable[AddressLike] | Iterable[object]", *, errors: Literal["raise", "none"] = "raise"
    ) -> list[Geolocation | None]:
        """One answer for each address, in the same order, all from one generation: as many as there are addresses.

        An answer is None if no block covers the address. With ``errors="none"`` it is None for all that is not an
        address too (None and NaN for example), so that one bad row does not lose the others.

        :raises InvalidAddressError: at the first malformed address, naming its position (from 0)
        :raises SettingsError: if ``errors`` is neither ``"raise"`` nor ``"none"``
        """
        native = self._native

        def finder(snapshot: Snapshot) -> Callable[[object], Geolocation | None]:
            def find(address: object) -> Geolocation | None:
                return snapshot.find(*parse_any(address))

            if native is None:
                return find
            # A finder of its own, which stays with this snapshot.
            fast: _native.Finder = native.Finder(find)
            fast.use(snapshot.fast)
            fast.look_at = inf
            return fast.lookup

        return self._each(many, finder, errors)

    def _each(
        self, many: Iterable[_T], finder: "Callable[[Snapshot], Callable[[_T], Geolocation | None]]", errors: str
    ) -> list[Geolocation | None]:
        if errors not in ("raise", "none"):
            raise SettingsError(f"errors = {errors!r:.40}: must be raise or none")
        if isinstance(many, str | bytes | bytearray):  # each of its characters would be an address, and malformed
            raise InvalidAddressError(f"a list of addresses, not one {type(many).__name__}: {many!r:.80}: use `lookup`")
        each = list(many)

        def answers(snapshot: Snapshot) -> list[Geolocation | None]:
            find, found = finder(snapshot), list[Geolocation | None]()
            for address in each:
                try:
                    found.append(find(address))
                except InvalidAddressError as error:
                    if errors == "raise":
                        raise InvalidAddressError(f"item {len(found)}: {error}") from error
                    found.append(None)
            return found

        # All in one snapshot: the answers of one call never come from two generations.
        return self.with_snapshot(answers)

    def with_readers(self, work: Callable[[IndexReader, IndexReader], _T]) -> _T:
        """The result of ``work`` on the default and the custom layer's index, for code that answers whole columns.

        The two belong together, and stay valid for as long as they are kept. Damage is met as in `with_snapshot`.
        """
        return self.with_snapshot(lambda snapshot: work(snapshot.base.reader, snapshot.custom.reader))

    def with_snapshot(self, work: Callable[[Snapshot], _T]) -> _T:
        """The result of ``work`` on all that is served at this moment, for code that answers for every address.

        Damage that ``work`` finds has it called again with the newest other generation that is whole, as a lookup
        would.
        """
        snapshot = self._follower.newest()
        try:
            return work(snapshot)
        except IndexDamagedError as error:
            return work(self._follower.instead_of(snapshot, error))

    def match(self, address: "AddressLike", *, vrf: str | None = None) -> Match | None:
        """The answer for an address and the range that gives it, or None if no block covers it.

        The range is the largest around the address in which every address has this same geolocation from this same
        layer. Its ends, the fields and the facts are read when they are asked for. With ``vrf`` it is the answer in a
        routing domain: see `in_vrf`.

        :raises InvalidAddressError: if the address is malformed
        :raises UnknownVrfError: if ``vrf`` names none
        """
        if vrf is not None:
            return (self._in_vrfs.get(vrf) or self.in_vrf(vrf)).match(address)
        return self.with_snapshot(lambda snapshot: snapshot.match(str(address), *parse_any(address)))

    def network(self, address: "AddressLike") -> "Network | None":
        """Who runs an address, and what it is: its facts, each with the source that said it; None if none says any.

        For each fact the first source counts that has it. Custom geolocations do not change it.

        :raises InvalidAddressError: if the address is malformed
        :raises StateDamagedError: if the index of networks is gone
        """
        family, value = parse_any(address)
        return self.with_networks(lambda snapshot: snapshot.network(str(address), family, value))

    def with_networks(self, work: Callable[[Snapshot], _T]) -> _T:
        """`with_snapshot` for work that opens the index of networks, which retention may have removed meanwhile.

        :raises StateDamagedError: if it is gone
        """
        try:
            return self.with_snapshot(work)
        except StateDamagedError:
            self._follower.look_soon()
            return self.with_snapshot(work)

    def record(self, address: "AddressLike") -> "Record | None":
        """All that is known of an address, in the shape of GeoIP2's Enterprise records; None if nothing is.

        It is a read-only mapping (``record["location"]["time_zone"]``), decoded where it is asked for: all that the
        source of its place says, with its types, and under ``traits`` what the sources say of its network, each fact by
        the first that has it. For a custom geolocation the place is what its fields say.

        :raises InvalidAddressError: if the address is malformed
        """
        family, value = parse_any(address)
        return self.with_networks(lambda snapshot: snapshot.record(family, value))

    def explain(self, address: "AddressLike") -> "Explanation":
        """Why an address resolves as it does: every covering block of both layers, and which wins by which rule.

        It also says since when that is so, as far as older generations are kept. Reads the generation's cache.db from
        end to end (0.2 s a million blocks). As of another time, of the custom layer only the block that won is known.

        In a VRF its own blocks are among them, before all others.

        :raises InvalidAddressError: if the address is malformed
        """
        from geolookup.lookup.explain import explain

        family, value = parse_any(address)
        return self.with_snapshot(
            lambda snapshot: explain(
                snapshot, self.home, str(address), family, value, is_past=self._follower.is_fixed, vrf=self.vrf or ""
            )
        )

    def segments(self, family: Literal[4, 6], layer: Layer | None = None) -> Iterator[Segment]:
        """Walk the flattened ranges of one family, ascending and disjoint; uncovered ranges are left out.

        Without ``layer``, each range has the answer of a lookup; else that layer's own. The walk stays with
        the generation that it began with, unless that turns out to be damaged: then it goes on, from where it is, in
        the newest other generation that is whole.
        """
        snapshot = self._follower.newest()
        reached = 0
        try:
            for segment in snapshot.segments(family, layer):
                yield segment
                reached = segment.last + 1
        except IndexDamagedError as error:
            yield from self._follower.instead_of(snapshot, error).segments(family, layer, reached)

    def fingerprint(self) -> str:
        """A fingerprint of all answers: equal on two machines if and only if every address has the same answer on both.

        In hexadecimal. Pending edits count like pushed ones, but a provisional locid differs from the later one. The
        first time after a publish or an edit it walks every segment, some seconds for millions of blocks; then it is
        kept in the state directory, if this user is its owner and can write it. It is that of what was published:
        `verify` says if the files are still that.
        """
        return self.with_snapshot(lambda snapshot: snapshot.fingerprint(self.home))

    @property
    def problem(self) -> str | None:
        """The problem that keeps newer data from being served, or None. Asking costs no more than a lookup."""
        self._follower.newest_however_old()
        return None if self._follower.problem is None else self._follower.problem[0]

    def status(self) -> "Status":
        """The served data, their age, and the reason why newer ones are not served, if there is a problem."""
        from geolookup.lookup.status import describe

        snapshot = self._follower.newest_however_old()
        return describe(
            snapshot,
            self.home,
            self._follower.freshness,
            self._follower.problem,
            temporary=self.home != self._home,
        )

    def checks(self) -> "tuple[StateCheck, ...]":
        """Try what the next sync needs: a durable write, room, edits.db, the lock, the ends of the last runs.

        `status` says how well the data are. Some milliseconds, more for a large edits.db, which is read through.
        """
        from geolookup.state.publishing.checks import checks
        from geolookup.state.publishing.directory import StateDirectory

        return checks(StateDirectory(self._home), self._follower.newest_however_old().current)
