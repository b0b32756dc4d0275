"""The service in memory, with faults on demand, and the plain custom layer: the oracle of pushes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from geolookup.model.errors import (
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.model.types import IPBlock
from geolookup.upstream.decode import PulledGeolocation

Ends = tuple[str, str]


class Crash(BaseException):
    """The process died here; a BaseException, since no handler of errors may take it."""


class Clock:
    """Time that passes only when told, and a millisecond whenever somebody looks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wall(self) -> datetime:
        self.seconds += 0.001
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def steady_s(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Faults:
    """What goes wrong next. ``crash_in`` counts the points (commits and requests, before and after) until a crash."""

    def __init__(self) -> None:
        self.crash_in: int | None = None
        self.dead = False
        self.commits = 0
        self.answers: list[str] = []

    def point(self) -> None:
        if self.dead:
            raise Crash
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.dead = True
                raise Crash

    def clear(self) -> None:
        self.crash_in, self.dead, self.commits, self.answers = None, False, 0, []


@dataclass
class Place:
    """A custom geolocation on the service; ``key`` is that of the request that made it, None for the foreign client."""

    fields: dict[str, Any]
    blocks: dict[Ends, bool] = field(default_factory=dict)  # whether the foreign client put it there
    key: str | None = None

    def state(self) -> tuple[Any, ...]:
        return tuple(self.fields.values()), frozenset(self.blocks)


#: The one default geolocation, behind everything.
DEFAULT = Place(
    {
        **dict.fromkeys(("country", "region", "city", "postalcode", "dmacode", "areacode"), ""),
        **dict.fromkeys(("latitude", "longitude")),
    },
    {("0.0.0.0", "255.255.255.255"): True},
)


class FakeListing:
    """One answer to a list; has what `geolookup.upstream.geolocations.Listing` has."""

    def __init__(self, rows: list[PulledGeolocation] | None, etag: str | None) -> None:
        self._rows = rows
        self.not_modified = rows is None
        self.etag = etag
        self.geolocations_seen = self.total_count = len(rows or ())
        self.blocks_seen = self.rejected_geolocations = self.rejected_blocks = 0
        self.number_disagreements = self.bytes_read = 0
        self.rejected: list[Any] = []

    def __enter__(self) -> "FakeListing":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def iter_batches(self) -> Iterator[list[PulledGeolocation]]:
        yield list(self._rows or ())

    def unread_of_custom(self) -> None:
        pass


class FakeService:
    """The interface's semantics, plainly; has the methods of `GeolocationsClient` and raises the same errors.

    ``made`` has every geolocation that was ever there, ``states`` every state that each was in. A request whose fault
    is ``late:S`` is applied S seconds after its answer was lost. ``disturbed`` are locids to which something came too
    late, or that the foreign client touched; ``too_late`` the keys of which a create landed later than ``settle_s``.
    """

    def __init__(self, clock: Clock, faults: Faults, *, honours_keys: bool, settle_s: float) -> None:
        self.clock, self.faults, self.honours_keys, self.settle_s = clock, faults, honours_keys, settle_s
        self.places: dict[int, Place] = {}
        self.made: dict[int, Place] = {}
        self.states: dict[int, list[tuple[Any, ...]]] = {}
        self.keys: dict[str, tuple[int, float]] = {}
        self.disturbed: set[int] = set()
        self.too_late: set[str] = set()
        self.destroyed: list[tuple[int, Ends]] = []
        self.writes: list[tuple[Any, ...]] = []
        #: The keys of creates that were answered with another's number.
        self.lied: set[str | None] = set()
        self._late: list[tuple[float, float, int, str | None, Callable[[], Any]]] = []
        self._last = 0
        self._revision = 0
        #: When the request that is being applied reached the service, if that was before anybody looked.
        self._at: float | None = None

    # What the client calls

    def list(self, *, etag: str | None = None, top: int | None = None, **filters: str) -> FakeListing:
        self.faults.point()
        self.land()
        now = f'"{self._revision}"'
        if etag == now and not filters:
            return FakeListing(None, now)
        rows = [_pulled(1, DEFAULT)]
        rows += [_pulled(locid, place) for locid, place in self.places.items()]
        rows = [
            row
            for row in rows
            if all(getattr(row, name).casefold() == text.casefold() for name, text in filters.items())
        ]
        self.faults.point()
        return FakeListing(rows, None if filters else now)

    def create(self, fields: Mapping[str, Any], *, idempotency_key: str) -> int:
        def apply() -> int:
            if replayed := self._replay(idempotency_key):
                return replayed
            self._last -= 1
            self.places[self._last] = self.made[self._last] = Place(dict(fields), key=idempotency_key)
            self._remember(idempotency_key, self._last)
            return self._last

        answered = self._request("create", 0, apply, idempotency_key)
        return int(answered)

    def update(self, locid: int, fields: Mapping[str, Any]) -> int:
        def apply() -> int:
            self._custom(locid).fields = dict(fields)
            return locid

        return int(self._request("update", locid, apply))

    def delete(self, locid: int) -> int:
        def apply() -> int:
            self._destroy(locid)
            self._custom(locid)
            del self.places[locid]
            return locid

        return int(self._request("delete", locid, apply))

    def delete_blocks(self, locid: int) -> tuple[int, int]:
        def apply() -> tuple[int, int]:
            place = self._custom(locid)
            self._destroy(locid)
            count = len(place.blocks)
            place.blocks = {}
            return count, count

        count, _ = self._request("delete_blocks", locid, apply)
        return count, count

    def create_block(self, locid: int, startip: str, endip: str, *, idempotency_key: str) -> int:
        def apply() -> int:
            if replayed := self._replay(idempotency_key):
                return replayed
            self._add(locid, (startip, endip), foreign=False)
            self._remember(idempotency_key, locid)
            return locid

        return int(self._request("create_block", locid, apply))

    def replace_block(self, locid: int, startip: str, endip: str, newstartip: str, newendip: str) -> int:
        def apply() -> int:
            place = self._custom(locid)
            if (startip, endip) not in place.blocks:
                raise UpstreamRefusedError("no such block", status=404, problem_type="unknown-block")
            if (startip, endip) != (newstartip, newendip):
                self._add(locid, (newstartip, newendip), foreign=False)
                del place.blocks[startip, endip]
            return locid

        return int(self._request("replace_block", locid, apply))

    # What the foreign client does

    def foreign_create(self, fields: dict[str, Any]) -> int:
        self.land()
        self._last -= 1
        self.places[self._last] = self.made[self._last] = Place(dict(fields))
        self._changed(self._last)
        return self._last

    def foreign_update(self, locid: int, fields: dict[str, Any]) -> None:
        self.land()
        self.disturbed.add(locid)
        self.places[locid].fields = dict(fields)
        self._changed(locid)

    def foreign_block(self, locid: int, ends: Ends) -> None:
        self.land()
        self.disturbed.add(locid)
        try:
            self._add(locid, ends, foreign=True)
        except UpstreamRefusedError:
            return
        self._changed(locid)

    def foreign_delete(self, locid: int) -> None:
        self.land()
        self.disturbed.add(locid)
        del self.places[locid]
        self._changed(locid)

    # How it works

    def land(self, *, everything: bool = False) -> None:
        """Apply the delayed requests that are due."""
        due = [late for late in self._late if everything or late[0] <= self.clock.seconds]
        self._late = [late for late in self._late if late not in due]
        for at, sent_at, locid, key, apply in sorted(due, key=lambda late: late[0]):
            late = at - sent_at > self.settle_s
            if late:
                self.disturbed.add(locid)
            destroyed = len(self.destroyed)
            before = self._last
            self._at = at
            try:
                apply()
            except UpstreamRefusedError:
                continue
            finally:
                self._at = None
            if late and key is not None and self._last < before:
                self.too_late.add(key)
            del self.destroyed[destroyed:]  # nobody can look before what lands by itself
            self._changed(locid or self._last)

    @property
    def in_flight(self) -> bool:
        """Whether a delayed request has not landed yet."""
        return bool(self._late)

    def _request(self, what: str, locid: int, apply: Callable[[], Any], key: str | None = None) -> Any:
        self.faults.point()
        self.land()
        fault = self.faults.answers.pop(0) if self.faults.answers else ""
        kind, _, detail = fault.partition(":")
        if kind == "unsent":
            raise UpstreamUnavailableError("connection refused", sent=False)
        if kind == "busy":
            raise UpstreamUnavailableError("429", status=429, retry_after_s=float(detail))
        if kind == "denied":
            raise UpstreamAuthError("401", status=401)
        if kind == "killed":
            self._die()
        if kind in ("late", "killed-late"):
            now = self.clock.seconds
            self._late.append((now + float(detail), now, locid, key, apply))
            if kind == "killed-late":
                self._die()
            raise UpstreamUnavailableError("timeout")
        if kind == "dropped":
            raise UpstreamUnavailableError("the connection broke")
        if kind == "failed":
            raise UpstreamUnavailableError("500", status=500)
        self.writes.append((what, locid))
        answer = apply()
        self._changed(locid or self._last)
        self.faults.point()
        if kind == "killed-after":
            self._die()
        if kind == "lost":
            raise UpstreamUnavailableError("the answer was cut")
        if kind == "error":
            raise UpstreamUnavailableError("500 after doing the work", status=500)
        if kind == "nonsense":
            raise UpstreamAnswerError("HTML")
        if kind == "wrong" and what == "create" and len(self.places) > 1:
            self.lied.add(key)
            return next(iter(self.places))
        return answer

    def _die(self) -> None:
        self.faults.dead = True
        raise Crash

    def _changed(self, locid: int) -> None:
        self._revision += 1
        if locid in self.places:
            self.states.setdefault(locid, []).append(self.places[locid].state())

    def _custom(self, locid: int) -> Place:
        if locid not in self.places:
            raise UpstreamRefusedError(f"geolocation {locid} does not exist", status=404, problem_type="unknown")
        return self.places[locid]

    def _add(self, locid: int, ends: Ends, *, foreign: bool) -> None:
        place = self._custom(locid)
        if ends in place.blocks:
            raise UpstreamRefusedError("there already", status=409, problem_type="block-exists")
        if any(ends in other.blocks for other in self.places.values()):
            raise UpstreamRefusedError("another's", status=409, problem_type="block-taken")
        place.blocks[ends] = foreign

    def _destroy(self, locid: int) -> None:
        if locid in self.places:
            self.destroyed += [(locid, ends) for ends, foreign in self.places[locid].blocks.items() if foreign]

    def _replay(self, key: str) -> int | None:
        locid, at = self.keys.get(key, (0, 0.0))
        return locid if self.honours_keys and locid and self._now - at < 86400 else None

    def _remember(self, key: str, locid: int) -> None:
        self.keys[key] = locid, self._now

    @property
    def _now(self) -> float:
        return self.clock.seconds if self._at is None else self._at


def _pulled(locid: int, place: Place) -> PulledGeolocation:
    blocks = []
    for startip, endip in place.blocks:
        block = IPBlock.from_ends(startip, endip)
        blocks.append((block.family, block.first, block.last, startip, endip))
    return PulledGeolocation(locid=locid, blocks=blocks, **place.fields)  # type: ignore[arg-type]


@dataclass
class Local:
    """A custom geolocation as this machine should show it."""

    fields: tuple[Any, ...]
    blocks: set[Ends]


def laid_over(
    pulled: Mapping[int, tuple[tuple[Any, ...], frozenset[Ends]]],
    edits: list[tuple[str, int, dict[str, Any], dict[str, Any] | None]],
) -> dict[int, Local]:
    """The service's custom geolocations with edits laid over them: (operation, locid, payload, base) in order.

    What the person asked for, in none of these words, is held against lookups by `tests.dials`.
    """
    layer = {locid: Local(fields, set(blocks)) for locid, (fields, blocks) in pulled.items()}
    for operation, locid, payload, base in edits:
        if operation == "delete":
            layer.pop(locid, None)
            continue
        if locid not in layer:
            start = base or {"fields": payload.get("fields", {}), "blocks": []}
            layer[locid] = Local(tuple(start["fields"].values()), {tuple(ends) for ends in start["blocks"]})
        place = layer[locid]
        if "fields" in payload:  # those that the person left as they were may be others by now
            wanted = tuple(payload["fields"].values())
            if operation == "update" and base is not None:
                sides = zip(place.fields, base["fields"].values(), wanted, strict=True)
                wanted = tuple(now if was == new else new for now, was, new in sides)
            place.fields = wanted
        if operation == "clear_blocks":  # those that the person saw: what a colleague added since stays
            place.blocks -= set(map(tuple, base["blocks"])) if base else place.blocks
        if operation in ("remove_block", "replace_block"):
            place.blocks.discard(tuple(payload["block"]))
        if operation in ("add_block", "replace_block"):
            place.blocks.add(tuple(payload.get("new_block", payload["block"])))
    return layer


def winner(layer: Mapping[int, Local], address: int) -> int | None:
    """The locid that an IPv4 address resolves to in the custom layer: the narrowest block, then the later defined."""
    covering = []
    for locid, place in layer.items():
        for ends in place.blocks:
            block = IPBlock.from_ends(*ends)
            if block.first <= address <= block.last:
                covering.append((block.last - block.first, -abs(locid), locid))
    return min(covering)[2] if covering else None
