"""The snapshot that one GeoLookup serves: it follows what is published, falls back from damage, and may get too old.

`Freshness` limits the age of the data, and says what happens to a lookup past it.
"""

import os
from _thread import RLock  # what `threading` hands on, without that module's own import
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from geolookup.base.stamp import stamp_of
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import GeoLookupError, IndexDamagedError, NoStateError, StaleDataError, StateError
from geolookup.model.types import StaleRule
from geolookup.state.generations.served import be_told, open_other, open_served

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.index import _native
    from geolookup.state.base.current import Current, Published
    from geolookup.state.publishing.catalogue import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """A limit to the age of the data: seconds since the service last confirmed them; None for no limit.

    The embedded default has no service that could confirm it: its age counts from its own date. ``rule`` says what
    happens to lookups past the limit: they are answered, answered with one warning, or refused.
    """

    max_age_s: float | None = None
    rule: StaleRule = "warn"

    def has_limits(self, current: "Current") -> bool:
        """True if there is any limit for what is published."""
        return self.max_age_s is not None or any(limit is not None for _, _, limit in self.limits(current))

    def is_stale(self, current: "Current") -> bool:
        """True if what is published is older than the limit, or one of its sources is older than its own limit."""
        return self._too_old(current) is not None

    def limits(self, current: "Current") -> "list[tuple[str, str, float | None]]":
        """Each source that answers: its name, the moment from which its age counts, and its limit in seconds."""
        entries = current.serving
        if len(entries) <= 1:
            name = str(entries[0]["name"]) if entries else ""
            own = entries[0].get("max_age_s") if entries else None
            return [(name, current.confirmed, self.max_age_s if own is None else own)]
        return [
            (
                str(entry["name"]),
                str(entry["checked_at"]),
                self.max_age_s if entry.get("max_age_s") is None else entry["max_age_s"],
            )
            for entry in entries
        ]

    def _too_old(self, current: "Current") -> "tuple[str, str, float] | None":
        """The source that is furthest past its limit."""
        limited = [(name, since, limit) for name, since, limit in self.limits(current) if limit is not None]
        if not limited:
            return None
        from geolookup.state.base.clock import age_s  # late: without a limit nobody asks how late it is

        past = [(age_s(since) - limit, name, since, limit) for name, since, limit in limited if age_s(since) > limit]
        return max(past)[1:] if past else None

    def warn(self, current: "Current") -> None:
        """Write in the log that stale data are served."""
        import logging  # late: its import takes longer than opening a state

        logging.getLogger("geolookup").warning("%s", self._describe(current))

    def error(self, current: "Current") -> StaleDataError:
        """The error that refuses a lookup."""
        from geolookup.state.base.clock import age_s

        return StaleDataError(
            f'{self._describe(current)}; or set stale = "warn" to get answers anyway', age_s=age_s(current.confirmed)
        )

    def _describe(self, current: "Current") -> str:
        from geolookup.settings import times
        from geolookup.state.base.clock import age_s

        found = self._too_old(current)
        assert found is not None
        name, moment, limit_s = found
        many = len(current.published.get("stack", ())) > 1
        what = f"the data of {name}" if many else "the data"
        confirmed = "last confirmed" if many else "last confirmed by the service"
        since = "dated" if current.is_embedded else confirmed
        return (
            f"{what} are {times.in_words(age_s(moment))} old ({since} {times.shown(moment)}), "
            f"more than max_age allows ({times.in_words(limit_s)}): run `geolookup sync`"
        )


NO_LIMIT = Freshness()


#: How often a lookup looks whether something new was published.
LOOK_INTERVAL_S = 1.0


class Follower:
    """The snapshot that is served, and what takes its place.

    Threads and forked children may share one. At most once a second `newest` first looks whether CURRENT changed. With
    ``as_of`` it stays with that kept generation. ``instead`` is a state that serves until something is published in
    ``home``. In a ``vrf`` the blocks of that routing domain answer first.

    :raises NoStateError: if nothing has been published in ``home``
    :raises UnknownVrfError: if there is no such VRF
    """

    def __init__(
        self,
        home: str,
        native: "ModuleType | None",
        *,
        freshness: Freshness,
        as_of: "Reference | None",
        instead: str | None = None,
        vrf: str | None = None,
    ) -> None:
        self._home = home
        self._vrf = vrf
        #: The state directory that is served.
        self.served = instead or home
        self._native = native
        self.freshness = freshness if as_of is None else NO_LIMIT
        self.is_fixed = as_of is not None
        #: What keeps newer data from being served, and since when.
        self.problem: tuple[str, float] | None = None
        self._warned = False
        self._current_path = os.path.join(home, "CURRENT")
        # By process: a lock that another thread holds at a fork would stay locked in the child for ever.
        self._looking: dict[int, RLock] = {}
        self._finder: _native.Finder | None = None
        stamp = stamp_of(self._current_path)
        published = open_served(self.served) if as_of is None else _open_kept(home, as_of)
        current = published.current
        self._snapshot: Snapshot | None = self._opened(published, stamp)
        if current.recovered is not None:
            self._note(current.recovered)
        # The first lookup says if the data are too old.
        self._look_at = 0.0 if self.freshness.has_limits(current) else monotonic() + LOOK_INTERVAL_S
        be_told(self, home)

    def serve_by(self, finder: "_native.Finder") -> None:
        """Have the accelerator answer from what is served too."""
        self._finder = finder
        self._serve(self._snapshot)
        self._look_next(self._look_at)

    def close(self) -> None:
        """Let go of the files."""
        self._serve(None)
        self._look_next(0.0)

    def look_soon(self) -> None:
        """Have the next lookup look at CURRENT, even if the last one did a moment ago."""
        self._look_next(0.0)

    def newest(self) -> Snapshot:
        """The served data; at most once a second this first swaps in what was published.

        :raises StaleDataError: if the data are too old, and the settings refuse such data
        :raises StateError: if it is closed
        """
        if monotonic() >= self._look_at:
            self._follow()
            self._check_age()
        # Not by another call: a lookup without the accelerator takes half a microsecond.
        return self._snapshot or self._open()

    def newest_however_old(self) -> Snapshot:
        """The same for those who say how old the data are: they are never too old.

        :raises StateError: if it is closed
        """
        if monotonic() >= self._look_at:
            self._follow()
            if self.freshness.has_limits(self._open().current):
                self._look_next(0.0)  # the next lookup must still find out whether the data are too old
        return self._open()

    def instead_of(self, snapshot: Snapshot, damage: IndexDamagedError) -> Snapshot:
        """After damage that only a lookup could find: the newest other undamaged generation, served from now on.

        :raises StateDamagedError: if there is none
        """
        if self._snapshot is snapshot:
            self._fall_back(snapshot, damage)
        return self._open()

    def _open(self) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None:
            raise StateError("this GeoLookup is closed")
        return snapshot

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

    def _check_age(self) -> None:
        current = self._open().current
        if self.is_fixed or not self.freshness.is_stale(current):
            self._warned = False
        elif self.freshness.rule == "refuse":
            self._look_next(0.0)  # so that the next lookup comes here too
            raise self.freshness.error(current)
        elif self.freshness.rule == "warn" and not self._warned:
            self._warned = True
            self.freshness.warn(current)

    def _follow(self) -> None:
        """Swap in what CURRENT names if it changed. If anything fails, the open snapshot continues to serve.

        One thread at a time: else the slower of two could replace what the faster one read later. A thread that had to
        wait still looks, so that it sees what was published before it asked.
        """
        if self.is_fixed:
            self._open()
            self._look_next(inf)
            return
        with self._looking.setdefault(os.getpid(), RLock()):
            self._follow_alone()

    def _follow_alone(self) -> None:
        self._look_next(monotonic() + LOOK_INTERVAL_S)
        snapshot = self._open()
        stamp = stamp_of(self._current_path)
        if stamp == snapshot.stamp:
            self._serve(snapshot)  # a fork during another thread's swap left the accelerator without one
            snapshot.go_on()
            if snapshot.current.recovered is None:
                self.problem = None
            return
        if stamp is None:
            self._note(f"{self._current_path}: is gone")
            return
        try:
            published = open_served(self._home)
            found = self._opened(published, stamp)
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
        if published.current.sequence < snapshot.current.sequence and self.served == self._home:
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
        self._serve(found)
        self.served = self._home
        self.problem = None

    def _opened(self, published: "Published", stamp: tuple[int, ...] | None) -> Snapshot:
        """What was opened as lookups ask it: in a VRF, with its blocks above the custom layer."""
        if self._vrf is not None:
            from geolookup.state.base.vrfs import in_vrf  # late: without a VRF nothing of them is needed

            published = in_vrf(self.served, published, self._vrf)
        return Snapshot(published, stamp, self._native)

    def _note(self, problem: str) -> None:
        if self.problem is None or self.problem[0] != problem:
            self.problem = (problem, monotonic())

    def _fall_back(self, snapshot: Snapshot, damage: IndexDamagedError) -> None:
        if self.is_fixed:
            raise damage
        try:
            published = open_other(self.served, str(damage), skip=frozenset({snapshot.current.generation}))
        except NoStateError as error:
            raise damage from error
        self._serve(self._opened(published, stamp_of(self._current_path)))
        self._note(str(damage))


def _open_kept(home: str, reference: "Reference") -> "Published":
    from geolookup.state.publishing.catalogue import Generations
    from geolookup.state.publishing.directory import StateDirectory

    return Generations(StateDirectory(home)).open(reference)
