"""GeoLookup: open a state directory, look addresses up, explain answers, follow what is published."""

import os
from _thread import RLock  # what `threading` hands on, without that module's own import
from collections.abc import Callable, Iterable, Iterator
from math import inf
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from geolookup import addresses
from geolookup.addresses import parse, parse_any
from geolookup.errors import (
    GeoLookupError,
    IndexDamagedError,
    InvalidAddressError,
    NoStateError,
    SettingsError,
    StateError,
)
from geolookup.index.native import accelerator
from geolookup.index.reader import IndexReader
from geolookup.lookup.freshness import NO_LIMIT, Freshness
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import Geolocation, Layer, Match, Segment
from geolookup.state import notices
from geolookup.state.current import Published
from geolookup.state.served import open_other, open_served

if TYPE_CHECKING:
    from geolookup.addresses import AddressLike
    from geolookup.index import _native
    from geolookup.reports import Explanation, Status
    from geolookup.state.edits.editor import Editor
    from geolookup.state.generations.kept import Reference

_T = TypeVar("_T")

#: How often a lookup looks whether something new was published.
LOOK_INTERVAL_S = 1.0


class GeoLookup:
    """Answers from one state directory, and follows what is published there.

    Threads and forked children may share an open one: only caches in it are changed in place, and it has no thread or
    lock that a fork could lose. At most once a second a lookup first looks whether CURRENT changed. Use it as a context
    manager, or `close` it.

    ``freshness`` limits the age of the data. With ``as_of`` (see `state.generations`) it stays with that kept
    generation, as it was served last, and follows nothing.

    :raises UnknownGenerationError: if ``as_of`` does not mean a kept generation
    :raises NoStateError: if nothing has been published in ``home``
    :raises StateDamagedError: if no undamaged generation is left there
    """

    def __init__(
        self,
        home: str,
        *,
        temporary: bool = False,
        freshness: Freshness = NO_LIMIT,
        as_of: "Reference | None" = None,
    ) -> None:
        self._home = home
        self._freshness = freshness if as_of is None else NO_LIMIT
        self._warned = False
        self._fixed = as_of is not None
        self._temporary = temporary
        self._current_path = os.path.join(home, "CURRENT")
        self._problem: tuple[str, float] | None = None
        # By process: a lock that another thread holds at a fork would stay locked in the child for ever.
        self._looking: dict[int, RLock] = {}
        self._native = accelerator()
        self._finder: _native.Finder | None = None
        stamp = self._stamp()
        published = open_served(home) if as_of is None else _open_kept(home, as_of)
        self._serve(Snapshot(published, stamp, self._native))
        if published.current.recovered is not None:
            self._note(published.current.recovered)
        if self._native is not None and type(self).lookup is GeoLookup.lookup:
            # It hides the method: one call in C answers from its cache, and calls the method for the rest.
            self._finder = self._native.Finder(self.lookup)
            self.__dict__["lookup"] = self._finder.lookup
            self._serve(self._snapshot)
        # The first lookup says if the data are too old.
        self._look_next(0.0 if self._freshness.has_limits(published.current) else monotonic() + LOOK_INTERVAL_S)
        notices.follow(self, home)

    @property
    def home(self) -> str:
        """The state directory that it answers from."""
        return self._home

    def look_soon(self) -> None:
        """Have the next lookup look at CURRENT, even if the last one did a moment ago."""
        self._look_next(0.0)

    def edit(self) -> "Editor":
        """An editor of the same state: lookups here see its edits at once."""
        from geolookup.state.edits.editor import Editor

        return Editor(self._home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GeoLookup of {self._home!r}>"

    def close(self) -> None:
        """Release the files. Later lookups raise StateError; lookups under way in other threads still finish."""
        self._serve(None)
        self.__dict__.pop("lookup", None)
        self._look_next(0.0)

    # Lookups

    def lookup(self, address: "AddressLike") -> Geolocation | None:
        """The geolocation of an address, or None if no block covers it.

        ``address`` is strict text (a dotted quad or RFC 4291), or an address object of ``ipaddress`` or ``netaddr``.

        :raises InvalidAddressError: for anything else
        """
        if monotonic() >= self._look_at:
            self._look()
        family, value = parse(address) if type(address) is str else parse_any(address)
        try:
            return self._open_snapshot().find(family, value)
        except IndexDamagedError as error:
            self._fall_back(error)
            return self._open_snapshot().find(family, value)

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

    def lookup_many(
        self, many: "Iterable[AddressLike]", *, errors: Literal["raise", "none"] = "raise"
    ) -> list[Geolocation | None]:
        """One answer for each address, in the same order, all from one generation: as many as there are addresses.

        An answer is None if no block covers the address. With ``errors="none"`` it is None for whatever is not an
        address too (None and NaN for example), so that one bad row does not lose the others.

        :raises InvalidAddressError: at the first malformed address, naming its position (from 0)
        :raises SettingsError: if ``errors`` is neither ``"raise"`` nor ``"none"``
        """
        native = self._native

        def finder(snapshot: Snapshot) -> "Callable[[AddressLike], Geolocation | None]":
            def find(address: "AddressLike") -> Geolocation | None:
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
        """What ``work`` makes of the default and the custom layer's index, for code that answers whole columns.

        The two belong together, and stay valid for as long as they are kept. Damage is met as in `with_snapshot`.
        """
        return self.with_snapshot(lambda snapshot: work(snapshot.base.reader, snapshot.custom.reader))

    def with_snapshot(self, work: Callable[[Snapshot], _T]) -> _T:
        """What ``work`` makes of all that is served at this moment, for code that answers for every address.

        Damage that ``work`` finds has it called again with the newest other generation that is whole, as a lookup
        would.
        """
        if monotonic() >= self._look_at:
            self._look()
        snapshot = self._open_snapshot()
        try:
            return work(snapshot)
        except IndexDamagedError as error:
            self._fall_back(error)
            return work(self._open_snapshot())

    def match(self, address: "AddressLike") -> Match | None:
        """What an address resolves to and by which range, or None if no block covers it.

        The range is the largest around the address in which every address has this same geolocation from this same
        layer.

        :raises InvalidAddressError: if the address is malformed
        """
        return self.with_snapshot(lambda snapshot: snapshot.match(str(address), *parse_any(address)))

    def explain(self, address: "AddressLike") -> "Explanation":
        """Why an address resolves as it does: every covering block of both layers, and which wins by which rule.

        It also says since when that is so, as far as older generations are kept. Reads the generation's cache.db from
        end to end (0.2 s a million blocks). As of another time, of the custom layer only the block that won is known.

        :raises InvalidAddressError: if the address is malformed
        """
        from geolookup.lookup.explain import explain

        family, value = parse_any(address)
        return self.with_snapshot(
            lambda snapshot: explain(snapshot, self._home, str(address), family, value, is_past=self._fixed)
        )

    def segments(self, family: Literal[4, 6], layer: Layer | None = None) -> Iterator[Segment]:
        """Walk the flattened ranges of one family, ascending and disjoint; uncovered ranges are left out.

        Without ``layer``, each range has the answer of a lookup; else that layer's own. The walk stays with
        the generation that it began with, unless that turns out to be damaged: then it goes on, from where it is, in
        the newest other generation that is whole.
        """
        if monotonic() >= self._look_at:
            self._look()
        snapshot = self._open_snapshot()
        reached = 0
        try:
            for segment in snapshot.segments(family, layer):
                yield segment
                reached = segment.last + 1
        except IndexDamagedError as error:
            if self._snapshot is snapshot:
                self._fall_back(error)
            yield from self._open_snapshot().segments(family, layer, reached)

    def fingerprint(self) -> str:
        """A fingerprint of all answers: equal on two machines if and only if every address has the same answer on both.

        In hexadecimal. Pending edits count like pushed ones, but a provisional locid differs from the later one. Walks
        every segment: some seconds for millions of blocks.
        """
        from geolookup.index.fingerprint import fingerprint

        return self.with_readers(lambda base, overlay: fingerprint((base, overlay)))

    @property
    def problem(self) -> str | None:
        """What keeps newer data from being served, or None. Asking costs no more than a lookup."""
        if monotonic() >= self._look_at:
            self._follow()
            if self._freshness.has_limits(self._open_snapshot().current):
                self._look_next(0.0)  # the next lookup must still find out whether the data are too old
        return None if self._problem is None else self._problem[0]

    def status(self) -> "Status":
        """What is served, how old it is, and why newer data are not served, if there is a problem."""
        if monotonic() >= self._look_at:
            self._follow()  # not _look: the status itself says that the data are too old
            if self._freshness.has_limits(self._open_snapshot().current):
                self._look_next(0.0)  # the next lookup must still find that out
        from geolookup.lookup.status import describe

        return describe(self._open_snapshot(), self._home, self._freshness, self._problem, temporary=self._temporary)

    # How it works

    def _serve(self, snapshot: Snapshot | None) -> None:
        # The accelerator lets go first, and calls `lookup` meanwhile: else a thread could see the new snapshot through
        # one method and then the old one through another.
        if self._finder is not None:
            self._finder.use(None)
        self._snapshot = snapshot
        if self._finder is not None and snapshot is not None:
            self._finder.use(snapshot.fast)

    def _look_next(self, at: float) -> None:
        self._look_at = at
        if self._finder is not None:
            self._finder.look_at = at

    def _open_snapshot(self) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None:
            raise StateError("this GeoLookup is closed")
        return snapshot

    def _stamp(self) -> tuple[int, ...] | None:
        """What distinguishes one CURRENT from another without reading it; None if there is none."""
        try:
            found = os.stat(self._current_path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _look(self) -> None:
        """Before a lookup: swap in what was published, and check that the data are not too old.

        :raises StaleDataError: if they are too old, and the settings refuse such data
        """
        self._follow()
        current = self._open_snapshot().current
        if self._fixed or not self._freshness.is_stale(current):
            self._warned = False
        elif self._freshness.rule == "refuse":
            self._look_next(0.0)  # so that the next lookup comes here too
            raise self._freshness.error(current)
        elif self._freshness.rule == "warn" and not self._warned:
            self._warned = True
            self._freshness.warn(current)

    def _follow(self) -> None:
        """Swap in what CURRENT names if it changed. If anything fails, the open snapshot continues to serve.

        One thread at a time: else the slower of two could replace what the faster one read later. A thread that had to
        wait still looks, so that it sees what was published before it asked.
        """
        if self._fixed:
            self._open_snapshot()
            self._look_next(inf)
            return
        with self._looking.setdefault(os.getpid(), RLock()):
            self._follow_alone()

    def _follow_alone(self) -> None:
        self._look_next(monotonic() + LOOK_INTERVAL_S)
        snapshot = self._open_snapshot()
        stamp = self._stamp()
        if stamp == snapshot.stamp:
            self._serve(snapshot)  # a fork during another thread's swap left the accelerator without one
            if snapshot.current.recovered is None:
                self._problem = None
            return
        if stamp is None:
            self._note(f"{self._current_path}: is gone")
            return
        try:
            published = open_served(self._home)
        except GeoLookupError as error:
            self._note(str(error))
            return
        if published.current.recovered is not None:
            # The open snapshot was undamaged when it was opened, and is at least as new as what recovery finds.
            self._note(published.current.recovered)
            return
        if self._snapshot is not snapshot:  # closed meanwhile, or fallen back from damage
            published.close()
            self.look_soon()
            return
        if published.current.sequence < snapshot.current.sequence:
            # An older state was restored. If this process stayed with the newer one, its answers would differ from
            # those of all processes that start from now on.
            import logging  # late: its import takes longer than opening a state

            logging.getLogger("geolookup").warning(
                "%s went back from sequence %d to %d: following it, to generation %d",
                self._current_path,
                snapshot.current.sequence,
                published.current.sequence,
                published.current.generation,
            )
        self._serve(Snapshot(published, stamp, self._native))
        self._problem = None

    def _note(self, problem: str) -> None:
        if self._problem is None or self._problem[0] != problem:
            self._problem = (problem, monotonic())

    def _fall_back(self, damage: IndexDamagedError) -> None:
        """After damage that only a lookup could find: serve the newest other undamaged generation.

        :raises StateDamagedError: if there is none
        """
        if self._fixed:
            raise damage
        snapshot = self._open_snapshot()
        try:
            published = open_other(self._home, str(damage), skip=frozenset({snapshot.current.generation}))
        except NoStateError as error:
            raise damage from error
        self._serve(Snapshot(published, self._stamp(), self._native))
        self._note(str(damage))


def _open_kept(home: str, reference: "Reference") -> Published:
    from geolookup.state.directory import StateDirectory
    from geolookup.state.generations.kept import Generations

    return Generations(StateDirectory(home)).open(reference)
