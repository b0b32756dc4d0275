"""GeoLookup: open a state directory, look addresses up, explain answers, follow what is published."""

import os
from collections.abc import Callable, Iterable, Iterator
from math import inf
from threading import RLock
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
    StateDamagedError,
    StateError,
)
from geolookup.explaining import rank
from geolookup.index.native import accelerator
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.model import Explanation, Geolocation, Layer, Match, Segment, Status
from geolookup.snapshot import OpenLayer, Snapshot
from geolookup.state import notices
from geolookup.state.clock import age_s
from geolookup.state.custom import Laid
from geolookup.state.directory import StateDirectory
from geolookup.state.editor import Editor
from geolookup.state.recovery import open_newest_whole

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.addresses import AddressLike, Family
    from geolookup.index import _native

_T = TypeVar("_T")

#: How often a lookup looks whether something new was published.
LOOK_INTERVAL_S = 1.0


class GeoLookup:
    """Answers from one state directory, and follows what is published there.

    Threads and forked children may share an open one: nothing in it is changed in place but caches, and no thread or
    lock of its own is lost to a fork. At most once a second a lookup first looks whether CURRENT changed. Use it as a
    context manager, or `close` it.

    :raises NoStateError: where nothing has been published in ``home``
    :raises StateDamagedError: where nothing whole is left there
    """

    def __init__(self, home: str, *, temporary: bool = False) -> None:
        self._directory = StateDirectory(home)
        self._temporary = temporary
        self._current_path = os.path.join(home, "CURRENT")
        self._problem: tuple[str, float] | None = None
        # By process: one that another thread holds at a fork would stay held in the child for ever.
        self._looking: dict[int, RLock] = {}
        self._native = accelerator()
        self._finder: _native.Finder | None = None
        stamp = self._stamp()
        published = self._directory.open()
        self._serve(Snapshot(published, stamp, self._native))
        if published.current.recovered is not None:
            self._note(published.current.recovered)
        if self._native is not None and type(self).lookup is GeoLookup.lookup:
            # It stands before the method: one call in C answers what is at hand, and asks the method for the rest.
            self._finder = self._native.Finder(self.lookup)
            self.__dict__["lookup"] = self._finder.lookup
            self._serve(self._snapshot)
        self._look_next(monotonic() + LOOK_INTERVAL_S)
        notices.follow(self, home)

    def look_soon(self) -> None:
        """Have the next lookup look at CURRENT, whenever the last one did."""
        self._look_next(0.0)

    def edit(self) -> Editor:
        """An editor of the same state: what it edits, lookups here see at once."""
        return Editor(self._directory.home)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GeoLookup of {self._directory.home!r}>"

    def close(self) -> None:
        """Let go of the files. Later lookups raise StateError; lookups under way in other threads are unharmed."""
        self._serve(None)
        self.__dict__.pop("lookup", None)
        self._look_next(0.0)

    # Lookups

    def lookup(self, address: "AddressLike") -> Geolocation | None:
        """The geolocation of an address, or None where no block covers it.

        ``address`` is strict text (a dotted quad or RFC 4291), or an address object of ``ipaddress`` or ``netaddr``.

        :raises InvalidAddressError: for anything else
        """
        if monotonic() >= self._look_at:
            self._look()
        family, value = parse(address) if type(address) is str else parse_any(address)
        try:
            return self._find(family, value)
        except IndexDamagedError as error:
            self._fall_back(error)
            return self._find(family, value)

    def lookup_integer(self, value: int, *, family: Literal[4, 6]) -> Geolocation | None:
        """Like `lookup`, for an address given as an integer below 2**32 (``family`` 4) or 2**128 (6)."""
        return self.lookup_many_integers((value,), family=family)[0]

    def lookup_many_integers(self, values: Iterable[int], *, family: Literal[4, 6]) -> list[Geolocation | None]:
        """Like `lookup_many`, for integers of one family."""
        return self._many(values, lambda value: addresses.from_integer(family, value))

    def lookup_many(self, many: "Iterable[AddressLike]") -> list[Geolocation | None]:
        """One answer an address, in the same order.

        :raises InvalidAddressError: at the first malformed address, naming its position (from 0)
        """
        if self._native is None:
            return self._many(many, parse_any)
        if monotonic() >= self._look_at:
            self._look()
        many = list(many)
        snapshot = self._open_snapshot()
        try:
            return self._each(self._native, many, snapshot)
        except IndexDamagedError as error:
            self._fall_back(error)
            return self._each(self._native, many, self._open_snapshot())

    def _each(self, module: "ModuleType", many: "list[AddressLike]", snapshot: Snapshot) -> list[Geolocation | None]:
        # A finder of its own, that stays with this one snapshot.
        finder = module.Finder(lambda address: self._find(*parse_any(address), snapshot))
        finder.use(snapshot.fast)
        finder.look_at = inf
        lookup = finder.lookup
        found: list[Geolocation | None] = []
        try:
            for address in many:
                found.append(lookup(address))  # noqa: PERF401 - its length is the position of what is malformed
        except InvalidAddressError as error:
            raise InvalidAddressError(f"item {len(found)}: {error}") from error
        return found

    def _many(self, many: "Iterable[_T]", read: "Callable[[_T], tuple[Family, int]]") -> list[Geolocation | None]:
        if monotonic() >= self._look_at:
            self._look()
        parsed = []
        for position, address in enumerate(many):
            try:
                parsed.append(read(address))
            except InvalidAddressError as error:
                raise InvalidAddressError(f"item {position}: {error}") from error
        # Found in one snapshot: the answers of one call are never of two generations.
        snapshot = self._open_snapshot()
        try:
            return [self._find(family, value, snapshot) for family, value in parsed]
        except IndexDamagedError as error:
            self._fall_back(error)
            snapshot = self._open_snapshot()
            return [self._find(family, value, snapshot) for family, value in parsed]

    def with_readers(self, work: Callable[[IndexReader, IndexReader], _T]) -> _T:
        """What ``work`` makes of the default and the custom layer's index, for code that answers whole columns.

        The two belong together, and stay valid for as long as they are kept. Damage that ``work`` finds has it called
        again with the newest other generation that is whole, as a lookup would.
        """
        if monotonic() >= self._look_at:
            self._look()
        snapshot = self._open_snapshot()
        try:
            return work(snapshot.base.reader, snapshot.custom.reader)
        except IndexDamagedError as error:
            self._fall_back(error)
            snapshot = self._open_snapshot()
            return work(snapshot.base.reader, snapshot.custom.reader)

    def match(self, address: "AddressLike") -> Match | None:
        """What an address resolves to and by which range, or None where no block covers it.

        The range is the largest around the address in which every address has this same geolocation from this same
        layer.

        :raises InvalidAddressError: where the address is malformed
        """
        if monotonic() >= self._look_at:
            self._look()
        family, value = parse_any(address)
        try:
            return self._match(str(address), family, value)
        except IndexDamagedError as error:
            self._fall_back(error)
            return self._match(str(address), family, value)

    def explain(self, address: "AddressLike") -> Explanation:
        """Why an address resolves as it does: every covering block of both layers, and which wins by which rule.

        Reads the generation's cache.db from end to end (0.2 s a million blocks).

        :raises InvalidAddressError: where the address is malformed
        """
        if monotonic() >= self._look_at:
            self._look()
        snapshot = self._open_snapshot()
        family, value = parse_any(address)
        current = snapshot.current
        covering = [
            (block, Laid(place=place))
            for block, place in self._directory.cache(current.generation).covering(family, value)
            if place.locid > 0
        ]
        unreadable: tuple[str, ...] = ()
        try:
            layer = list(self._directory.custom_layer(current.generation, current.published).values())
        except StateDamagedError as error:
            # What was pulled can be explained all the same; an edit behind the answer cannot.
            layer = [Laid(place=place) for place in self._directory.cache(current.generation).custom()]
            unreadable = (f"the local edits cannot be read: {error}",)
        for laid in layer:
            covering += [
                (block, laid)
                for block in laid.place.ipblocks
                if block.family == family and block.first <= value <= block.last
            ]
        ranked = list(rank(covering))
        return Explanation(
            address=str(address),
            match=self._match(str(address), family, value),
            covering=tuple(item for item, _ in ranked),
            generation=current.generation,
            source=current.source,
            age_s=age_s(current.checked_at),
            edits=unreadable
            or tuple(f"{edit.describe()} ({edit.state})" for _, laid in ranked[:1] for edit in laid.edits),
        )

    def segments(self, family: Literal[4, 6], layer: Layer | None = None) -> Iterator[Segment]:
        """Walk the flattened ranges of one family, ascending and disjoint; what nothing covers is left out.

        With no ``layer``, each range has the answer that a lookup gives; else that layer's own. The walk stays with
        the generation that it began with.
        """
        snapshot = self._open_snapshot()
        if layer is not None:
            chosen = snapshot.custom if layer == "custom" else snapshot.base
            for first, last, slot in chosen.reader.segments(family, gaps=False):
                yield self._segment(first, last, chosen, slot, layer)
            return
        base = snapshot.base.reader.segments(family, gaps=True)
        first, last, slot = next(base)
        for over_first, over_last, over_slot in snapshot.custom.reader.segments(family, gaps=True):
            if over_slot != EMPTY:
                yield self._segment(over_first, over_last, snapshot.custom, over_slot, "custom")
                continue
            while last < over_first:
                first, last, slot = next(base)
            while True:
                if slot != EMPTY:
                    yield self._segment(max(first, over_first), min(last, over_last), snapshot.base, slot, "default")
                if last >= over_last:
                    break
                first, last, slot = next(base)

    def status(self) -> Status:
        """What is served, how old it is, and what stands in the way of anything newer."""
        if monotonic() >= self._look_at:
            self._look()
        snapshot = self._open_snapshot()
        current = snapshot.current
        rows = current.published["rows"]
        held = self._directory.held()
        pending: int | None = None
        try:
            pending = self._directory.local.pending()
        except StateDamagedError as error:
            self._note(str(error))
        problem, since = self._problem if self._problem is not None else (None, None)
        base, overlay = snapshot.base.reader, snapshot.custom.reader
        return Status(
            home=self._directory.home,
            sequence=current.sequence,
            generation=current.generation,
            overlay=current.overlay,
            source=current.source,
            url=current.published.get("url"),
            digest=current.digest,
            published_at=current.published_at,
            checked_at=current.checked_at,
            age_s=age_s(current.checked_at),
            geolocations=rows["geolocations"],
            custom_geolocations=overlay.location_count,
            blocks=rows["blocks"],
            segments=base.segment_count_v4 + base.segment_count_v6,
            overlay_segments=overlay.segment_count_v4 + overlay.segment_count_v6,
            pending_edits=pending,
            held=None if held is None else str(held.document()["published"]["digest"]),
            problem=problem,
            problem_since_s=None if since is None else monotonic() - since,
            temporary=self._temporary,
            reader="python" if snapshot.fast is None else "native",
        )

    # How it works

    def _serve(self, snapshot: Snapshot | None) -> None:
        # The accelerator lets go first, and `lookup` is asked meanwhile: else a thread could see the new one by one
        # method and then the old one by another.
        if self._finder is not None:
            self._finder.use(None)
        self._snapshot = snapshot
        if self._finder is not None and snapshot is not None:
            self._finder.use(snapshot.fast)

    def _look_next(self, at: float) -> None:
        self._look_at = at
        if self._finder is not None:
            self._finder.look_at = at

    def _find(self, family: "Family", value: int, snapshot: Snapshot | None = None) -> Geolocation | None:
        if snapshot is None:
            snapshot = self._snapshot
        if snapshot is None:
            raise StateError("this GeoLookup is closed")
        if family == 4:
            if snapshot.has_custom:
                slot = snapshot.custom.reader.find4(value)
                if slot != EMPTY:
                    return snapshot.custom.geolocation(slot)
            slot = snapshot.base.reader.find4(value)
        else:
            if snapshot.has_custom:
                slot = snapshot.custom.reader.find6(value)
                if slot != EMPTY:
                    return snapshot.custom.geolocation(slot)
            slot = snapshot.base.reader.find6(value)
        return None if slot == EMPTY else snapshot.base.geolocation(slot)

    def _match(self, address: str, family: "Family", value: int) -> Match | None:
        snapshot = self._open_snapshot()
        layer: Layer = "custom"
        found = snapshot.custom
        slot, first, last = found.reader.segment(family, value)
        if slot == EMPTY:
            layer, found = "default", snapshot.base
            slot, base_first, base_last = found.reader.segment(family, value)
            if slot == EMPTY:
                return None
            first, last = max(first, base_first), min(last, base_last)
        return Match(
            address=address,
            geolocation=found.geolocation(slot),
            first=addresses.to_text(family, first),
            last=addresses.to_text(family, last),
            layer=layer,
            pending=found.reader.pending(slot),
        )

    @staticmethod
    def _segment(first: int, last: int, source: OpenLayer, slot: int, layer: Layer) -> Segment:
        return Segment(
            first=first,
            last=last,
            geolocation=source.geolocation(slot),
            layer=layer,
            pending=source.reader.pending(slot),
        )

    def _open_snapshot(self) -> Snapshot:
        snapshot = self._snapshot
        if snapshot is None:
            raise StateError("this GeoLookup is closed")
        return snapshot

    def _stamp(self) -> tuple[int, ...] | None:
        """What tells one CURRENT from another without reading it; None where there is none."""
        try:
            found = os.stat(self._current_path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _look(self) -> None:
        """Swap in what CURRENT names if it changed. Whatever goes wrong, what was open goes on serving.

        One thread at a time: of two at once, the slower could put what it read back over what the faster read since.
        A thread that had to wait looks all the same, so that it sees what was published before it asked.
        """
        with self._looking.setdefault(os.getpid(), RLock()):
            self._look_alone()

    def _look_alone(self) -> None:
        self._look_next(monotonic() + LOOK_INTERVAL_S)
        snapshot = self._open_snapshot()
        stamp = self._stamp()
        if stamp == snapshot.stamp:
            self._serve(snapshot)  # a fork in the midst of another thread's swap left the accelerator without one
            if snapshot.current.recovered is None:
                self._problem = None
            return
        if stamp is None:
            self._note(f"{self._current_path}: is gone")
            return
        try:
            published = self._directory.open()
        except GeoLookupError as error:
            self._note(str(error))
            return
        if published.current.recovered is not None:
            # What is open was whole when it was opened, and is at least as new as what recovery finds.
            self._note(published.current.recovered)
            return
        if self._snapshot is not snapshot:  # closed meanwhile, or fallen back from damage
            published.close()
            self.look_soon()
            return
        self._serve(Snapshot(published, stamp, self._native))
        self._problem = None

    def _note(self, problem: str) -> None:
        if self._problem is None or self._problem[0] != problem:
            self._problem = (problem, monotonic())

    def _fall_back(self, damage: IndexDamagedError) -> None:
        """After damage that only a lookup could find: the newest other generation that is whole serves.

        :raises StateDamagedError: where there is none
        """
        snapshot = self._open_snapshot()
        try:
            published = open_newest_whole(
                self._directory.home, str(damage), skip=frozenset({snapshot.current.generation})
            )
        except NoStateError as error:
            raise damage from error
        self._serve(Snapshot(published, self._stamp(), self._native))
        self._note(str(damage))
